"""What docs/results_135m.md shows of `scripts/word_problems.py`: tables of `docs/word_problems.json`, the facts of all stages.
`wide` there is the search stage of a run of its own, put in by hand; it stays when the file is written anew.

python -m scripts.word_problem_tables docs/word_problems.json runs/words [runs/words-1]    # a run, and others by other seeds
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from footfall.studies.report import markdown
from scripts.word_problem_data import SETS
from scripts.word_problem_search import METHODS
from scripts.word_problems import LABELS

Facts = Mapping[str, Any]
STAGES = ("policy", "label", *(f"prm-{labels}" for labels in LABELS), "evaluate", "search")


def gathered(folder: Path, *others: Path) -> dict[str, Any]:
    """The facts of all stages of a run, and of the stages that runs with other seeds have. `wide` is put in by hand."""
    facts: dict[str, Any] = {}
    for stage in STAGES:
        file = folder / stage / "facts.json"
        if file.is_file():
            facts[stage] = json.loads(file.read_text(encoding="utf-8"))
    return facts | ({"others": [gathered(other) for other in others]} if others else {})


def percent(figures: Sequence[float], sign: bool = False) -> str:
    """`41.2 [38.0, 44.5]`, in percent."""
    value, low, high = (100 * figure for figure in figures)
    return f"{value:{'+' if sign else ''}.1f} [{low:.1f}, {high:.1f}]"


def labelled(facts: Facts) -> str:
    """What each way of labelling cost and gave."""
    rows = []
    for name in LABELS:
        found, trained = facts["label"][name], facts[f"prm-{name}"]
        cost, steps = found["cost"], found["labelled steps"]
        rows.append([
            name, f"{steps:,}", f"{100 * found['wrong']:.1f}%", f"{cost['calls']:,}", f"{cost['generated_tokens']:,}",
            f"{cost['generated_tokens'] / steps:.1f}", f"{found['seconds']:.0f} s", f"{trained['seconds']:.0f} s",
        ])  # fmt: skip
    head = ["labels", "labelled steps", "below 0.5", "rollouts", "tokens", "tokens a step", "labelling", "training"]
    return markdown(head, rows, 1)


def votes(facts: Facts) -> str:
    """Rules at 16 samples: over all held-out problems, against the majority vote, and set by set."""
    found, rows = facts["evaluate"], []
    for labels in LABELS:
        at_16, by_set = found[labels]["at 16"], found[labels]["by set"]
        for rule in found[labels]["accuracy"]:
            alone = rule in ("single", "majority", "oracle")
            if alone and labels != LABELS[0]:
                continue
            apart = at_16.get(f"{rule} − majority")
            rows.append([
                rule if alone else f"{rule}, PRM of {labels}", percent(at_16[rule]),
                "" if apart is None else percent(apart, sign=True),
                *(f"{100 * by_set[name][rule]:.1f}" if name in by_set else "" for name in SETS),
            ])  # fmt: skip
    return markdown(["rule", "accuracy", "− majority", *SETS], rows, 1)


def seeds(facts: Facts) -> str:
    """The weighted vote against the majority vote at 16 samples, and the two PRMs against each other, by seed."""
    rows = []
    for run in (facts, *facts.get("others", ())):
        found = run["evaluate"]
        apart = [percent(found[labels]["at 16"]["weighted, min − majority"], sign=True) for labels in LABELS]
        between = percent(found[f"weighted, min: {LABELS[1]} − {LABELS[0]}"], sign=True)
        majority = percent(found[LABELS[0]]["at 16"]["majority"])
        rows.append([str(found["seed"]), str(sum(found["problems"].values())), majority, *apart, between])
    head = ["seed", "problems", "majority", *(f"weighted by {labels} − majority" for labels in LABELS)]
    return markdown([*head, f"{LABELS[1]} − {LABELS[0]}"], rows, 1)


def searches(found: Facts) -> str:
    """Methods at each width: accuracy, difference from the majority vote of that width, tokens written and judged."""
    widths = sorted({int(name.split()[1]) for name in found if name.startswith("majority ")})
    rows = [["single", "1", *_searched(found["single"])]]
    for width in widths:
        there = [name for name in ("majority", *METHODS) if f"{name} {width}" in found]
        rows += [[name, str(width), *_searched(found[f"{name} {width}"])] for name in there]
    head = ["method", "N", "problems", "accuracy", "− majority", "tokens written", "tokens judged", "seconds"]
    return markdown(head, rows, 1)


def _searched(one: Facts) -> list[str]:
    apart = percent(one["− majority"], sign=True) if "− majority" in one else ""
    problems = f"{len(one['right'])}{', ' + str(one['failed']) + ' failed' if one['failed'] else ''}"
    return [
        problems, percent(one["accuracy"]), apart, f"{one['generated']:,.0f}", f"{one['scored']:,.0f}",
        f"{one['seconds']:.0f}",
    ]  # fmt: skip


BLOCKS: dict[str, Callable[[Facts], str]] = {
    "words-labels": labelled,
    "words-votes": votes,
    "words-seeds": seeds,
    "words-search": lambda facts: searches(facts["search"]),
    "words-wide": lambda facts: searches(facts["wide"]) if "wide" in facts else "",
}


if __name__ == "__main__":
    to, *runs = map(Path, sys.argv[1:])
    known = json.loads(to.read_text(encoding="utf-8")) if to.is_file() else {}
    found = {"wide": known["wide"]} if "wide" in known else {}
    to.write_text(json.dumps(gathered(*runs) | found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
