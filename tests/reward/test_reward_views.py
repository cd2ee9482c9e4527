"""What of a step a PRM is shown: the views of srm-findings, alone and in a PRM that is trained, saved and read with one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import torch

from footfall.label.monte_carlo import preference_pairs
from footfall.reward.config import View
from footfall.reward.judge import PRMJudge, step_head
from footfall.reward.prm import PRM
from footfall.reward.views import NOTHING, ViewedLayout, expressions, mathematics, shown, words
from footfall.train import TrainConfig, train_prm
from footfall.train.data import make_examples
from footfall.train.objectives import make_objective
from footfall.types import Judged, Judgement, Reason
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint
from tests.reward.tiny_models import byte_tokenizer, decoder, trace

torch.set_num_threads(1)
STEPS = ("First we add, 12 + 5 = 17.", "Then double: 17 * 2 = 34.", "So half of it is 34 / 2 = 17.")


def counts(view: View, *steps: str) -> tuple[int, int]:
    """How many thoughts and how many expressions a reader of the last of these steps is shown."""
    told = [step.text for step in shown(trace(*steps), view).steps]
    return sum(any(c.isalpha() for c in words(text)) for text in told), sum(len(expressions(text)) for text in told)


def test_the_card_s_views_show_so_many_thoughts_and_expressions() -> None:
    assert counts("all", *STEPS[:2]) == (2, 2)
    assert counts("math", *STEPS[:2]) == (0, 2)
    assert counts("last-math", *STEPS[:2]) == (0, 1)
    assert counts("next-thought", *STEPS) == (3, 2), "two whole steps, and the thought of the third"
    assert counts("words", *STEPS[:2]) == (2, 0)


def test_the_card_s_pair_filter() -> None:
    assert preference_pairs([0.9, 0.25], 0.7) == []
    assert preference_pairs([0.95, 0.2], 0.7) == [(0, 1)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("So 2x + 3 = 7 and x = 2.", "2x + 3 = 7 ; x = 2"),
        ("Let $f(x) = x^2$, then \\(y > 0\\).", "$f(x) = x^2$ ; \\(y > 0\\)"),
        ("We get\n\\[ a = b \\]\nand $$c$$.", "\\[ a = b \\] ; $$c$$"),
        ("A friend gives her 1,250 coins on the 3rd day, 12.5% of them.", "1,250 ; 12.5%"),
        ("The answer is (3 - 1) / 2.", "(3 - 1) / 2"),
        ("I think a well-known lemma helps.", NOTHING),
    ],
)
def test_mathematics_is_told_from_words(text: str, found: str) -> None:
    assert mathematics(text) == found
    assert not expressions(words(text))


def test_a_hostile_text_is_read_in_time_that_grows_with_its_length() -> None:
    for unit in ("(", "1", "\\(", "$a", "1rd,", "\\[", "1 + "):
        assert isinstance(mathematics(unit * 20000), str)


def test_a_prm_with_a_view_reads_the_same_in_training_and_scoring() -> None:
    model = PRM.from_backbone(decoder(), byte_tokenizer(), seed=0, view="next-thought")
    t = trace(*STEPS, id="t")
    readings = model.reads(t)
    assert len(readings) == 3 and all(len(reading.positions) == 1 for reading in readings)
    rows = [Judged(t, Judgement("t", (1.0, None, 0.0), "toy"))]
    examples, _ = make_examples(rows, model, make_objective("soft-bce", {}), "error")
    assert [e.reading for e in examples] == [readings[0], readings[2]], "an example a labelled step"
    plain = PRM.from_backbone(decoder(), byte_tokenizer(), seed=0)
    assert readings[1] == plain.read(shown(t.prefix(2), "next-thought"))._replace(positions=readings[1].positions)
    assert model.fingerprint() != plain.fingerprint()
    with pytest.raises(ValueError, match="a view is one of all, math, words, last-math, next-thought, not 'sum'"):
        ViewedLayout(plain.layout, cast(View, "sum"))


def test_a_step_that_does_not_fit_leaves_the_values_of_later_ones_where_they_are() -> None:
    model = PRM.from_backbone(decoder(), byte_tokenizer(), seed=0, view="last-math", max_length=64)
    judge = PRMJudge(model, too_long="partial")
    short = trace("So 1 + 1 = 2.", "Then 2 + 3 = 5.", "And 5 * 2 = 10.")
    long = trace("So 1 + 1 = 2.", f"Then {' + '.join('1' * 40)} = 40.", "And 5 * 2 = 10.")
    (known,), (found,) = judge.judge([short]), judge.judge([long])
    why = found.failure(1)
    assert [found.values[0], found.values[2]] == pytest.approx([known.values[0], known.values[2]])
    assert why is not None and why.reason is Reason.TOO_LONG and found.values[1] is None and found.failure(2) is None


def test_a_view_is_trained_saved_and_read_by_the_judge(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "lm", "qwen2", qwen_tokenizer(), seed=1)
    rows = []
    for i in range(12):
        made = trace(f"So 1 + {i} = {i + 1 + i % 2}", "Hence done.", id=f"t{i}", prompt=f"q{i}")
        rows.append(Judged(made, Judgement(made.id, (float(i % 2 == 0), 1.0), "toy")))
    config = TrainConfig(epochs=1, eval_share=0.25, device="cpu", view="math")
    result = train_prm(rows, tmp_path / "lm", config, tmp_path / "run")
    judge = step_head(result.folder, device="cpu")
    one, two = judge.judge([trace("So 1 + 1 = 2", "Hence done."), trace("Thus: 1 + 1 = 2.", "That is all.")])
    assert one.values == two.values, "other words around the same mathematics change nothing"
    with pytest.raises(ValueError, match="is shown the view math; a further training cannot make it words"):
        train_prm(rows, result.folder, replace(config, view="words"), tmp_path / "more")
    with pytest.raises(ValueError, match=r"a trl folder holds one head .* cannot hold view of your own"):
        train_prm(rows, tmp_path / "lm", replace(config, as_family="trl"), tmp_path / "as")
