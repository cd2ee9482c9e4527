"""What single trainings gave beside a line of the ledger at real scale, from the figures that the docs keep.

The interval of such a line is over problems or cases, so that the variance of training is not in it. Its scale names the PRMs,
says how few trainings they are, and ends with what single ones gave.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scripts.loop_measure import VOTES, with_interval

DOCS = Path(__file__).parent.parent / "docs"
MARK = " Trainings: "
"""Between a line's scale and what trainings gave one by one."""
SETS = {"GSM8K test": "gsm8k-test", "MATH-500": "math-500"}


def beside(scale: str, name: str, on: str) -> str:
    """The scale of a recipe's line about a set, with what trainings gave one by one, in place of what it said of that."""
    told = TOLD[name](on) if name in TOLD else ""
    return scale.partition(MARK)[0] + (f"{MARK}{told}" if told else "")


def _found(name: str) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _votes(on: str) -> str:
    """PRMs that learned to vote from fewer outcomes, by the smallest value of a solution, as the lines have it."""
    told = []
    for prm, facts in _found("coder_1_5b_votes_again").items():
        given = facts.get(SETS[on])
        if given is None:
            told.append(f"{prm} has no scores of this set")
            continue
        rules = {"majority": "majority", "best-of-N": "best of N, min", "weighted vote": "weighted vote, min"}
        means = ", ".join(f"{arm} {given['accuracy'][rule][str(VOTES)][0]:.1f}" for arm, rule in rules.items())
        lead = with_interval(given["− majority"]["weighted vote, min"][str(VOTES)], "+")
        told.append(f"{prm}, on {facts['labels']['outcome']['traces']:,} outcomes, {means} ({lead} over the majority)")
    return f"others, in percent of {VOTES} samples in pools drawn anew: {'; '.join(told)}."


def _choices(on: str) -> str:
    """People's labels and outcomes, one PRM at a time: by the last step's value, for that is what is kept of each."""
    found = _found("coder_1_5b")
    means = ", ".join(
        f"{found[prm][SETS[on]]['accuracy']['best of N, last'][str(VOTES)][0]:.1f} with {prm}"
        for prm in ("human-0", "human-1", "outcome-0")
    )
    return f"in percent, by the last step's value, the best of {VOTES} is right in {means}."


def _first_errors(on: str) -> str:
    """Two trainings on labels of one kind, by how much they differ; and the arms at 0.5."""
    alike, arms = _found("coder_1_5b"), _found("coder_1_5b_labels")
    one, two = (alike[prm]["processbench"]["PRM"]["mean"]["f1"][0] for prm in ("distilled-0", "distilled-1"))
    half = ", ".join(
        f"{prm} {arms[prm]['processbench']['PRM at 0.5']['mean']['f1'][0]:.1f}" for prm in ("mc-0", "omega-0")
    )
    return (
        f"two on the same step scores (distilled-0 and distilled-1) have F1 {one:.1f} and {two:.1f}, so a difference between "
        f"single trainings is no more than that. At 0.5 F1 is {half}."
    )


TOLD: dict[str, Callable[[str], str]] = {
    "best-of-n": _votes,
    "unprm": _votes,
    "prm800k": _choices,
    "omegaprm": _first_errors,
}
"""What is told, by recipe, given the set that a claim names."""
