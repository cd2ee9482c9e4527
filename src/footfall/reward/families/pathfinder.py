"""PathFinder-PRM-7B: marks each step's mathematics and consistency `<+>` or `<->`, then values it given the marks.

The marks are read one token before their place holders. The authors' ProcessBench script takes the first step with a bad
mark for the error and never looks at the second pass, so the threshold is 0: between −1 and the values in [0, 1].
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from footfall.registry import register
from footfall.reward.family import Evidence, Family, Match
from footfall.reward.heads import VocabularyRows
from footfall.reward.pieces import Piece, Text, Token, Writer
from footfall.reward.readout import Readout
from footfall.types import Trajectory

if TYPE_CHECKING:
    from footfall.reward.checkpoint import Options
    from footfall.reward.two_pass import TwoPassJudge

__all__ = ["first_pass", "pathfinder", "pathfinder_judge", "second_pass"]

INSTRUCTION = (
    "You are a Math Teacher. Given a question and a student's solution, evaluate the mathematical correctness, logic "
    "consistency of the current step and whether it will lead to the correct final solution"
)
"""Word for word what the model was trained with."""
GOOD, BAD, HOLDER = "<+>", "<->", "<extra>"


def first_pass(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """The last step with place holders for both marks."""
    return _turns(writer, trajectory, [
        Text(" Math reasoning: "), Token(HOLDER, read=-1), Text(", Consistency: "), Token(HOLDER, read=-1),
    ])  # fmt: skip


def second_pass(writer: Writer, trajectory: Trajectory, marks: int | None = None) -> list[Piece]:
    """The last step with two good marks, and a place holder for its value; `marks` -1 reads before the marks as well."""
    return _turns(writer, trajectory, [
        Text(" Math reasoning: "), Token(GOOD, read=marks), Text(", Consistency: "), Token(GOOD, read=marks),
        Text(", Correctness: "), Token(HOLDER, read=-1),
    ])  # fmt: skip


def _turns(writer: Writer, trajectory: Trajectory, end: list[Piece]) -> list[Piece]:
    *before, step = (step.written for step in trajectory.steps)
    said = "".join(f"{text}\n\n" for text in before)
    answer: list[Piece] = [Text(f"{said}Current Step: {step}"), *end]
    return writer.chat([("user", f"{INSTRUCTION}\n\n Question: {trajectory.problem.text}"), ("assistant", answer)])


@register("family", "pathfinder-prm")
def pathfinder() -> Family:
    """declare-lab/PathFinder-PRM-7B."""
    return Family(
        name="pathfinder-prm",
        published=("declare-lab/PathFinder-PRM-7B",),
        licence="see the model card; Qwen2.5-7B is Apache-2.0",
        match=Match(
            model_types=("qwen2",), absent=("score.weight", "score.0.weight"), tokens=(GOOD, BAD, HOLDER),
            names=("pathfinder",),
        ),
        layout=second_pass,
        head=VocabularyRows((GOOD, BAD)),
        readout=Readout("good", ("good", "bad"), ("good",)),
        threshold=0.0,
        per_prefix=True,
        open=_open,
    )  # fmt: skip


@register("reward", "pathfinder")
def pathfinder_judge(
    path: str | Path, judge_all: bool = True, device: str | None = None, token_budget: int | None = None,
    cache_tokens: int = 0,
) -> TwoPassJudge:  # fmt: skip
    """PathFinder-PRM, with the choice to stop at a trace's first error."""
    from footfall.reward.checkpoint import Options, evidence
    from footfall.reward.family import recognise

    options = Options(device=device, token_budget=token_budget, cache_tokens=cache_tokens)
    seen = evidence(path)
    return _open(seen, recognise(seen, "pathfinder-prm"), options, judge_all)


def _open(seen: Evidence, family: Family, options: Options, judge_all: bool = True) -> TwoPassJudge:
    from footfall.reward.checkpoint import CheckpointModel
    from footfall.reward.two_pass import Passes, TwoPassJudge

    # A cache keeps a trace at its reads: with one before the marks, the second pass finds there what the first has read.
    second = partial(second_pass, marks=-1)
    return TwoPassJudge(
        CheckpointModel.load(seen, family, options),
        Passes(("math", "consistency"), first_pass, second, "correctness"),
        judge_all=judge_all, too_long=options.too_long, token_budget=options.token_budget,
        cache_tokens=options.cache_tokens,
    )  # fmt: skip
