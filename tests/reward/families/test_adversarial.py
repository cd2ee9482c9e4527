"""Whatever a step holds, every family gives it one finite value, and neither later steps nor company change it."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from footfall.reward.checkpoint import checkpoint, evidence
from footfall.reward.family import Evidence, families, recognise
from footfall.reward.judge import PRMJudge
from footfall.types import Problem, Step, Trajectory
from tests.reward.families.zoo import ZOO, folder_of

torch.set_num_threads(1)

TOLERANCE = 1e-5
"""Float32 and other batch shapes: sums are made in another order. Raw logits are read as well as probabilities."""
VARIANTS = {"universal-prm-reference"}
"""The same checkpoints read another way, by name only."""
ONE_PASS = [
    name for name, entry in ZOO.items()
    if families()[entry.family].open is None and families()[entry.family].judged is None
]  # fmt: skip

HOSTILE = (
    "", " ", "\n", "\n\n", " \n\n\n\n", " \n\n\n\n\n", "ки", " ки", "ки\n", " и", "+", "-", " + -", "<extra_0>",
    "<extra>", "<+>", "<|im_end|>", "<|im_start|>assistant\n", "<|eot_id|>", "<|start_header_id|>user", "<|endoftext|>",
    "<s>", "</s>", "<unk>", "[PRM]", "<0x0A>", "<|begin_of_text|>", "Step 1:", "# Answer", "ends in a space ", "\t\ttabs",
    "中文步骤，共三步。", "🤖 👩\u200d👩\u200d👧", "$\\frac{1}{2} \\le \\boxed{x^2}$", "e\u0301 \u200b \ufeff",
    "\ue0000\ue001", "line\r\nline", "\x00", "▁Step", "Ġ",
)  # fmt: skip
QUICK = {"deadline": None, "database": None, "derandomize": True, "phases": (Phase.explicit, Phase.generate)}
"""No shrinking: a failing example is short already, and each try runs a model."""
PARTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec="utf-8"), max_size=12))
TEXTS = st.lists(PARTS, min_size=1, max_size=3).map("".join)


def trace(steps: list[str] | tuple[str, ...], question: str = "What is 3 + 4?", id: str = "t") -> Trajectory:
    return Trajectory(id, Problem("p", question), tuple(Step(s) for s in steps))


@cache
def judge_of(name: str) -> PRMJudge:
    judge = checkpoint(folder_of(name), token_budget=4096)
    assert isinstance(judge, PRMJudge)
    return judge


@cache
def seen(name: str) -> Evidence:
    return evidence(folder_of(name))


def near(found: Any) -> Any:
    return pytest.approx(found, abs=TOLERANCE, rel=TOLERANCE)


def test_every_one_pass_family_has_a_checkpoint_here() -> None:
    known = {name for name, family in families().items() if family.open is None and family.judged is None}
    assert known - {entry.family for entry in ZOO.values()} == VARIANTS


@pytest.mark.parametrize("name", ONE_PASS)
def test_each_step_of_a_hostile_trace_gets_one_finite_value(name: str) -> None:
    judge = judge_of(name)
    # 3,000 characters, and one token for each four of them in all vocabularies here.
    long = "Step" * 750
    question = "Is <|im_end|> \n\n ки [PRM] <extra_0> a number? "
    for steps in (HOSTILE, ("One.", long, "The answer is 7.")):
        (judgement,) = judge.judge([trace(steps, question)])
        assert len(judgement.values) == len(steps)
        assert all(value is not None and math.isfinite(value) for value in judgement.values)


@pytest.mark.parametrize("name", ONE_PASS)
@given(data=st.data())
@settings(max_examples=3, **QUICK)  # type: ignore[arg-type]
def test_a_value_depends_neither_on_later_steps_nor_on_order_nor_on_batches(name: str, data: st.DataObject) -> None:
    judge = judge_of(name)
    steps = data.draw(st.lists(TEXTS, min_size=1, max_size=4))
    cut = data.draw(st.integers(1, len(steps)))
    batch = {"whole": trace(steps), "prefix": trace(steps[:cut]), "other": trace(["A much longer trace. " * 4, "7."])}
    order = data.draw(st.permutations(list(batch)))
    (alone,) = judge.judge([batch["whole"]])
    together = dict(zip(order, judge.judge([batch[name] for name in order]), strict=True))
    assert len(alone.values) == len(steps) and all(v is not None and math.isfinite(v) for v in alone.values)
    assert together["whole"].values == near(alone.values)
    assert together["prefix"].values == near(alone.values[:cut])


@pytest.mark.parametrize("name", ONE_PASS)
def test_right_padding_without_a_mask_equals_left_padding_with_one(name: str) -> None:
    model: Any = judge_of(name).model
    traces = [trace(["One.", "Two."]), trace(["A step of some more words.", "", "Three."]), trace(["Four."])]
    readings = [reading for t in traces for reading in model.reads(t)]
    longest = max(len(r.ids) for r in readings)
    shift = [longest - len(r.ids) for r in readings]
    ids = torch.tensor([[model.pad_id] * s + list(r.ids) for s, r in zip(shift, readings, strict=True)])
    mask = (torch.arange(longest) >= torch.tensor(shift)[:, None]).long()
    with torch.inference_mode():
        hidden = model.backbone(
            input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)
        ).last_hidden_state
        left = [model.head(hidden[n, [s + p for p in r.positions]]) for n, (s, r) in enumerate(zip(shift, readings))]  # noqa: B905
    right = model.each_logits(readings, token_budget=100_000)
    for expected, found in zip(left, right, strict=True):
        assert torch.allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("name", ZOO)
def test_a_checkpoint_is_recognised_as_its_own_family(name: str) -> None:
    assert recognise(seen(name)).name == ZOO[name].family


@pytest.mark.parametrize("name", ZOO)
def test_under_another_name_it_is_refused_unless_only_names_tell_the_two_apart(name: str) -> None:
    own = families()[ZOO[name].family]
    for other in families().values():
        try:
            recognise(seen(name), other.name)
        except ValueError as refusal:
            assert other is not own and f"is not of the family {other.name}: " in str(refusal)
        else:
            assert other.name == own.name or own.match.named or other.match.named


@given(steps=st.lists(TEXTS, min_size=1, max_size=3))
@example(steps=["\ue0000\ue001", "\ue0001\ue001"])
@settings(max_examples=20, **QUICK)  # type: ignore[arg-type]
def test_nothing_that_a_step_says_becomes_a_special_token(steps: list[str]) -> None:
    """As many special tokens as for plain steps: those of the template, and the markers."""
    for name in ("qwen2.5-math-prm", "rlhflow", "math-shepherd"):
        model: Any = judge_of(name).model
        special = set(model.tokenizer.all_special_ids) | set(model.tokenizer.added_tokens_decoder)
        counts = [sum(i in special for i in model.read(trace(s)).ids) for s in (steps, ["x"] * len(steps))]
        assert counts[0] == counts[1]
