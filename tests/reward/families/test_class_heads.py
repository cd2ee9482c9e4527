"""Class heads at each step against a slow reference: ReasonEval, TRL, PURE, ReasonFlux-PRM-7B, ActPRM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from footfall.judging import traits
from footfall.reward.checkpoint import checkpoint
from footfall.reward.families.reasoneval import READOUT
from footfall.reward.families.trl import pure, trl
from tests.reward.families.head_checkpoints import (
    Made,
    actprm,
    reasoneval_7b,
    reasoneval_34b,
    reasonflux_7b,
    token_classifier,
    token_classifier_with_bos,
)
from tests.reward.families.reference import QUESTION, STEPS, TOLERANCE, hidden, prefix_by_prefix, trace, values

torch.set_num_threads(1)


def authors_reasoneval(made: Made, steps: list[str], drop: int) -> list[float]:
    """Validity and redundancy of the last step, by the authors' walk: each pad counts back one, then is dropped."""
    pad = made.tokenizer.pad_token
    prompt = f"Question:\n{QUESTION}\nAnswer:\nLet's think step by step.\n"
    kept, records, pads = [], [], 0
    for i, token in enumerate(made.tokenizer(prompt + pad + "".join(step + pad for step in steps))["input_ids"]):
        if token == made.tokenizer.pad_token_id:
            records.append(i - 1 - pads)
            pads += 1
        else:
            kept.append(token)
    ids = [1, *kept] if drop == 2 else kept
    assert len(records[drop:]) == len(steps)
    _, neutral, positive = made.linear("score_head", hidden(made.model, ids)[records[-1]]).softmax(-1).tolist()
    return [neutral + positive, neutral]


@pytest.mark.parametrize(("make", "drop"), [(reasoneval_7b, 2), (reasoneval_34b, 1)])
def test_reasoneval_reads_where_the_authors_code_reads(make: Callable[[Path], Made], drop: int, tmp_path: Path) -> None:
    made = make(tmp_path)
    judgement = checkpoint(tmp_path).judge([trace()])[0]
    expected = [authors_reasoneval(made, list(STEPS[: k + 1]), drop) for k in range(len(STEPS))]
    assert list(judgement.values) == pytest.approx([validity for validity, _ in expected], abs=TOLERANCE)
    redundancy = judgement.aspects["redundancy"]
    assert list(redundancy) == pytest.approx([r for _, r in expected], abs=TOLERANCE)
    assert judgement.aspects["redundant"] == tuple(float(r is not None and r > 0.15) for r in redundancy)


def test_reasoneval_of_the_card_is_valid_by_neutral_and_positive() -> None:
    found = READOUT.columns(torch.tensor([[1.0, 0.2, 2.0]]))
    assert found.values == pytest.approx([0.760054], abs=1e-6)
    assert found.aspects["redundancy"] == pytest.approx([0.107815], abs=1e-6)
    assert found.aspects["redundant"] == (0.0,)


@pytest.mark.parametrize(
    ("name", "separator"), [("any-name", "\n"), ("Qwen2.5-Math-1.5B-Instruct-PRM-0.2", "\n\n"), ("PURE-PRM-7B", "\n")]
)
def test_two_labels_are_read_at_the_separator_that_the_name_says(name: str, separator: str, tmp_path: Path) -> None:
    made = token_classifier(tmp_path / name)

    def score(steps: list[str]) -> float:
        ids = made.tokenizer.encode(QUESTION)
        for step in steps:
            ids += made.tokenizer.encode(step) + made.tokenizer.encode(separator)
        bad, good = made.linear("score", hidden(made.model, ids)[-1]).softmax(-1).tolist()
        return float(good - bad if "PURE" in name else good)

    judge = checkpoint(made.folder)
    assert values(judge, trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)
    assert traits(judge).threshold == (0.0 if "PURE" in name else 0.5)


def test_trl_puts_bos_in_front_once_where_the_tokenizer_has_one(tmp_path: Path) -> None:
    made = token_classifier_with_bos(tmp_path)

    def score(steps: list[str]) -> float:
        ids = [made.tokenizer.bos_token_id]
        for part in [QUESTION, *(part for step in steps for part in (step, "\n"))]:
            ids += made.tokenizer.encode(part, add_special_tokens=False)
        return float(made.linear("score", hidden(made.model, ids)[-1]).softmax(-1)[1])

    assert values(checkpoint(tmp_path), trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_a_class_head_of_the_card_says_the_chance_of_its_good_class() -> None:
    assert trl().readout.columns(torch.tensor([[0.3, 2.1]])).values == pytest.approx([0.858149], abs=1e-6)


def test_pure_of_the_card_is_the_margin_of_the_two_classes() -> None:
    assert pure().readout.columns(torch.tensor([[0.3, 2.1]])).values == pytest.approx([0.716298], abs=1e-6)


def test_jinachris_is_pure_and_not_the_qwen_model_of_the_same_name(tmp_path: Path) -> None:
    made = token_classifier(tmp_path / "Qwen2.5-Math-7B-PRM800K")
    assert checkpoint(made.folder).name.startswith("pure@")


def test_reasonflux_7b_reads_like_qwen_without_a_system_message(tmp_path: Path) -> None:
    made = reasonflux_7b(tmp_path / "ReasonFlux-PRM-7B")
    marker = made.tokenizer.convert_tokens_to_ids("<extra_0>")

    def score(steps: list[str]) -> float:
        turns = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": "<extra_0>".join([*steps, ""])},
        ]
        ids = made.tokenizer.encode(made.tokenizer.apply_chat_template(turns, tokenize=False))
        at = max(i for i, token in enumerate(ids) if token == marker)
        inner = made.linear("score.0", hidden(made.model, ids)[at]).relu()
        return float(made.linear("score.2", inner).softmax(-1)[1])

    judge = checkpoint(made.folder)
    assert judge.name.startswith("reasonflux-prm-7b@")
    assert values(judge, trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_the_same_weights_under_no_name_or_babelscapes_are_read_as_qwens(tmp_path: Path) -> None:
    for name in ("tuned", "Qwen2.5-Math-PRM-7B-PDDL-r"):
        assert checkpoint(reasonflux_7b(tmp_path / name).folder).name.startswith("qwen2.5-math-prm@")


def test_actprm_squashes_each_member_before_it_takes_the_mean(tmp_path: Path) -> None:
    made = actprm(tmp_path)
    marker = made.tokenizer.convert_tokens_to_ids("<extra_0>")
    system = "Please reason step by step, and put your final answer within \\boxed{}."

    def member(e: int, x: torch.Tensor) -> float:
        for n, layer in enumerate(("nn1", "nn2", "nn_out")):
            weight, bias = (made.head[f"score.model.{layer}.{part}"][e] for part in ("weight", "bias"))
            x = (x.relu() if n else x) @ weight + bias
        return float(x.sigmoid())

    def score(steps: list[str]) -> float:
        turns = [("system", system), ("user", QUESTION), ("assistant", "<extra_0>".join([*steps, ""]))]
        text = made.tokenizer.apply_chat_template([{"role": r, "content": c} for r, c in turns], tokenize=False)
        ids = made.tokenizer.encode(text)
        at = max(i for i, token in enumerate(ids) if token == marker)
        return sum(member(e, hidden(made.model, ids)[at]) for e in range(4)) / 4

    judge = checkpoint(tmp_path)
    assert judge.name.startswith("actprm@")
    assert values(judge, trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)
