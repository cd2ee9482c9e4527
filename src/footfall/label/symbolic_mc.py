"""Symbolically guided Monte Carlo (logic): reasoning in Thought / Action / Observation steps, labelled by continuation.

A step starts at a "Thought:" line, or at an "Action:" line if the step has an action already. Each step before the last is
continued n = 5 times; its label is the share of continuations that end right (soft), or whether any does (hard). With step
scores p from a PRM that is trained on such labels,

    score of a trajectory  Π_i p_i      preference pairs  score_a − score_b > 0.25
    kept for SFT           all p_i > 0.5 and the answer right

Three answers exist: A (true), B (false), C (uncertain and everything else).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import permutations
from typing import Literal

from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.study_rows import label_row
from footfall.types import Judged

_BRACKETED = re.compile(r"\[([^\[\]]*)\]")
_VERDICTS = {"true": "A", "yes": "A", "a": "A", "false": "B", "no": "B", "b": "B"}


def react_steps(text: str) -> list[str]:
    """Cut a trace in Thought / Action / Observation form into its steps; text before the first mark belongs to the first."""
    steps: list[list[str]] = [[]]
    acted = marked = False
    for line in text.strip().split("\n"):
        thought, action = (line.lstrip().lower().startswith(mark) for mark in ("thought:", "action:"))
        if marked and (thought or (action and acted)):
            steps.append([])
            acted = False
        marked = marked or thought or action
        acted = acted or action
        steps[-1].append(line)
    return ["\n".join(lines).strip() for lines in steps]


def parse_verdict(text: str) -> Literal["A", "B", "C"]:
    """The last bracketed text as an answer: true, yes, a are A; false, no, b are B; all else is C."""
    found = _BRACKETED.findall(text)
    said = _VERDICTS.get(found[-1].strip().lower(), "C") if found else "C"
    return "A" if said == "A" else "B" if said == "B" else "C"


def trajectory_score(steps: Sequence[float]) -> float:
    """The product of the step scores. It falls with length: ten steps of 0.95 give 0.60."""
    return math.prod(steps)


def preference_pairs(scores: Sequence[float], margin: float = 0.25) -> list[tuple[int, int]]:
    """All (better, worse) among trajectories of one problem whose scores differ by more than `margin`."""
    return [(i, j) for i, j in permutations(range(len(scores)), 2) if scores[i] - scores[j] > margin]


def fit_for_sft(row: Judged, above: float = 0.5) -> bool:
    """Whether every step scores above the cut and the final answer is right; an unjudged step is no good one."""
    if row.judgement is None or not row.trajectory.correct:
        return False
    return all(value is not None and value > above for value in row.judgement.values)


@register(
    "labeller",
    "symbolic-mc",
    Declared(
        study=(label_row(70, budgets=(2.0, 5.0, 8.0, 16.0, 32.0), value="values", worlds=("logic",)),),
        smoke={"rollouts": 2},
    ),
)
def symbolic_mc(
    policy: Policy,
    rollouts: int = 5,
    estimate: Literal["soft", "hard"] = "soft",
    params: SamplingParams = SamplingParams(max_tokens=2048),
) -> MonteCarlo:
    """Five continuations of each step but the last (symbolically guided Monte Carlo)."""
    return MonteCarlo(policy, rollouts, estimate, params=params)
