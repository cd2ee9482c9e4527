"""Grade-school word problems in three parts that share no problem: to imitate, to label, and held out to measure on.

GSM8K's training problems have worked solutions and ASDiv's a formula; MAWPS has answers only. ASDiv and MAWPS have no official
split, so a problem's text decides its part. Held out are a quarter of them, GSM8K's test problems and all of SVAMP; whatever is
the same as, or nearly, a held-out or ProcessBench problem is dropped from the other parts, and whatever is imitated from what
is labelled.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from footfall.train import find_overlaps
from footfall.types import Problem, Step, Trajectory, content_key

SEPARATOR = "\n"
SETS = ("gsm8k", "asdiv", "mawps", "svamp")

_MARK = re.compile(r"<<[^<>]*>>")
_ASDIV_ANSWER = re.compile(r"(-?[\d,]*\.?\d+)\s*(?:\(.*\))?")
_FORMULA = re.compile(r"[\d+\-*/().,=% ]+")


class Item(NamedTuple):
    """A problem with the set it is from and, where there is one, a worked solution."""

    source: str
    problem: Problem
    steps: tuple[str, ...] = ()


@dataclass
class Parts:
    """The three parts, and how many problems of each set were dropped from the first two."""

    imitate: list[Item] = field(default_factory=list)
    label: list[Item] = field(default_factory=list)
    held_out: list[Item] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)


def read_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def make_item(source: str, question: str, answer: str, steps: Iterable[str] = ()) -> Item:
    text = " ".join(question.split())
    problem = Problem(f"{source}-{content_key(text)[:16]}", text, answer)
    lines = tuple(line for step in steps if (line := " ".join(step.split())))
    return Item(source, problem, (*lines, f"The answer is {answer}.") if lines else ())


def gsm8k(data: Path, split: str) -> list[Item]:
    """Gold solutions line by line, without the calculator's marks."""
    items = []
    for row in read_lines(data / "gsm8k" / f"{split}.jsonl.gz"):
        solution, _, answer = row["answer"].partition("####")
        items.append(make_item("gsm8k", row["question"], answer.strip(), _MARK.sub("", solution).splitlines()))
    return items


def asdiv(data: Path) -> list[Item]:
    """Problems with one number as answer; the formula is the solution where it is plain arithmetic."""
    items = []
    for row in read_lines(data / "math_bench" / "asdiv" / "test.jsonl.gz"):
        answer = _ASDIV_ANSWER.fullmatch(row["answer"].strip())
        if answer is not None:
            formula = row["formula"].strip()
            steps = [formula] if _FORMULA.fullmatch(formula) and "=" in formula else []
            items.append(make_item("asdiv", f"{row['body']} {row['question']}", answer[1], steps))
    return items


def mawps(data: Path) -> list[Item]:
    rows = read_lines(data / "math_bench" / "mawps" / "test.jsonl.gz")
    return [make_item("mawps", row["input"], f"{row['target']:g}") for row in rows]


def svamp(data: Path) -> list[Item]:
    rows = read_lines(data / "math_bench" / "svamp" / "test.jsonl.gz")
    return [make_item("svamp", f"{row['Body']} {row['Question']}", f"{row['Answer']:g}") for row in rows]


def processbench_problems(data: Path) -> list[Problem]:
    with gzip.open(data / "processbench" / "gsm8k.json.gz", "rt", encoding="utf-8") as file:
        return [Problem(row["id"], row["problem"]) for row in json.load(file)]


def split(data: Path) -> Parts:
    """All problems in their parts; equal texts of two sets count once, the later set's is dropped."""
    parts = Parts(held_out=[*gsm8k(data, "test"), *svamp(data)])
    for item in gsm8k(data, "train"):
        (parts.label if _share(item) < 0.2 else parts.imitate).append(item)
    for item in (*asdiv(data), *mawps(data)):
        place = _share(item)
        (parts.held_out if place < 0.25 else parts.label if place < 0.4 else parts.imitate).append(item)
    parts.held_out = _distinct(parts.held_out)
    measured = [item.problem for item in parts.held_out] + processbench_problems(data)
    for name, against in (("imitate", measured), ("label", measured)):
        _drop(parts, name, against)
    _drop(parts, "label", [item.problem for item in parts.imitate])
    return parts


def _share(item: Item) -> float:
    """A number in [0, 1) that is this problem's own."""
    return int(content_key("part", item.problem.text)[:8], 16) / 16**8


def _distinct(items: Sequence[Item]) -> list[Item]:
    return list({item.problem.text.lower(): item for item in reversed(items)}.values())[::-1]


def _drop(parts: Parts, name: str, against: Sequence[Problem]) -> None:
    items = _distinct(getattr(parts, name))
    bad = {overlap.train_id for overlap in find_overlaps((item.problem for item in items), against)}
    kept = [item for item in items if item.problem.id not in bad]
    parts.dropped[name] = parts.dropped.get(name, 0) + len(getattr(parts, name)) - len(kept)
    setattr(parts, name, kept)


def spread(items: Sequence[Item], a_set: int) -> list[Item]:
    """The first `a_set` problems of each set, in an order that is theirs and not the file's."""
    ordered = sorted(items, key=lambda item: content_key("order", item.problem.text))
    return [item for name in SETS for item in [i for i in ordered if i.source == name][:a_set]]


def solution(item: Item) -> Trajectory:
    return replace(empty(item.problem), steps=tuple(map(Step, item.steps)))


def empty(problem: Problem) -> Trajectory:
    return Trajectory(f"{problem.id}#", problem, separator=SEPARATOR)
