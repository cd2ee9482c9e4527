"""Footfall's own JSON lines: every field of a row, and easy to write by hand.

The full form has the problem as an object and keeps everything. The short forms are for one's own traces:

    {"problem": "2 + 3 * 4 = ?", "steps": ["3 * 4 = 12", "2 + 12 = 14"], "answer": "14", "labels": [1, 1]}
    {"question": "2 + 3 * 4 = ?", "solution": "3 * 4 = 12\\n\\n2 + 12 = 14"}

There `answer` is the reference answer (or, beside a `ground_truth_answer` or the like, the trajectory's own), a solution
is cut at its blank lines, and `labels`, `values`, `scores` or `ratings` hold one number a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written
from footfall.formats._hints import fields_of
from footfall.formats._plain import from_plain, refuse_unknown, to_plain
from footfall.formats._rows import (
    OPTIONAL,
    Labels,
    answer_text,
    problem_id,
    read_prompt,
    read_row,
    split_solution,
    trajectory_id,
)
from footfall.formats.prm800k import rating_labels
from footfall.formats.problems import PROMPTS, gold_answer
from footfall.registry import register
from footfall.types import Json, Judged, Judgement, Problem, Step, Trajectory

__all__ = ["jsonl"]

_SOLUTIONS = ("steps", "solution", "response", "completion")
_VALUES = ("labels", "values", "scores", "ratings")
_REFERENCES = ("ground_truth_answer", "gold_answer", "reference_answer", "ground_truth", "gold", "gt")


@register("format", "jsonl")
def jsonl() -> Format:
    """Footfall's own JSON lines: every field, or just a problem and its steps."""
    return Format("jsonl", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return any(name in fields for name in PROMPTS) and any(name in fields for name in (*_SOLUTIONS, "judgement"))


def _read(fields: Fields) -> list[Judged]:
    return [_read_full(fields) if isinstance(fields.data.get("problem"), dict) else _read_short(fields)]


def _read_full(fields: Fields) -> Judged:
    names = [f.name for f in fields_of(Trajectory)]
    refuse_unknown(fields, [*names, "judgement"])
    ready = {"problem": _problem(fields.record("problem")), "steps": _steps(fields)}
    inner = Fields(fields.rest(("judgement",)), fields.path, fields.line, fields.at, fields.unit)
    if "id" in fields:
        trajectory = from_plain(Trajectory, inner, ready)
    else:
        trajectory = from_plain(Trajectory, inner, {**ready, "id": ""})
        trajectory = from_plain(Trajectory, inner, {**ready, "id": trajectory_id(trajectory)})
    if fields.data.get("judgement") is None:
        return Judged(trajectory, None)
    said = fields.record("judgement")
    given = {} if "trajectory_id" in said else {"trajectory_id": trajectory.id}
    judgement = from_plain(Judgement, said, given)
    if len(judgement.values) != len(trajectory.steps):
        got = str(len(judgement.values))
        raise said.error("values", f"one entry for each of the {len(trajectory.steps)} steps", got)
    return Judged(trajectory, judgement)


def _problem(fields: Fields) -> Problem:
    if "id" in fields:
        return from_plain(Problem, fields)
    prompt = read_prompt(fields, "prompt")
    images = fields.texts("images") if "images" in fields else ()
    return from_plain(Problem, fields, {"id": problem_id(prompt, images)})


def _steps(fields: Fields) -> tuple[Step, ...]:
    """A step is an object, or just its text."""
    if "steps" not in fields:
        return ()
    return tuple(
        Step(item) if isinstance(item, str) else from_plain(Step, fields.within(f"steps[{i}]", item))
        for i, item in enumerate(fields.items("steps"))
    )


def _read_short(fields: Fields) -> Judged:
    asked = next((name for name in PROMPTS if name in fields), "problem")
    prompt = read_prompt(fields, asked)
    solved = next((name for name in _SOLUTIONS if name in fields), None)
    if solved is None:
        raise fields.error("steps", 'a list of steps, or their text as "solution"', "neither")
    steps = _steps(fields) if solved == "steps" else tuple(map(Step, split_solution(fields.text(solved))))
    labels, valued = _labels(fields, len(steps))
    gold = next((name for name in _REFERENCES if name in fields), None)
    data = dict(fields.data)
    if gold is not None and "answer" in data:
        data["prediction"] = answer_text(fields, "answer")
        del data["answer"]
    if "is_correct" in data:
        data["correct"] = data.pop("is_correct")
    inner = Fields(data, fields.path, fields.line, fields.at, fields.unit)
    reference = gold_answer(inner, gold or "answer")
    known = {asked, solved, *valued, *([gold] if gold else []), *OPTIONAL}
    row = read_row(inner, "jsonl", prompt, [s.text for s in steps], labels, known=known, reference=reference)
    return _with_steps(row, steps, "id" in fields)


def _with_steps(row: Judged, steps: tuple[Step, ...], named: bool) -> Judged:
    """The row with whole steps: a short record may have agent fields as well."""
    if row.trajectory.steps == steps:
        return row
    whole: dict[str, Any] = {f.name: getattr(row.trajectory, f.name) for f in fields_of(Trajectory)} | {"steps": steps}
    trajectory = Trajectory(**whole)
    if not named:
        trajectory = Trajectory(**whole | {"id": trajectory_id(trajectory)})
    judgement = row.judgement
    if judgement is not None:
        judgement = Judgement(trajectory.id, judgement.values, judgement.judge, aspects=judgement.aspects)
    return Judged(trajectory, judgement)


def _labels(fields: Fields, steps: int) -> tuple[Labels | None, list[str]]:
    found = [name for name in _VALUES if fields.data.get(name) is not None]
    if len(found) > 1:
        raise fields.error(
            found[1], f"one list of values a record; it has {' and '.join(found)}", fix="keep one of them"
        )
    if not found:
        return None, list(_VALUES)
    if found == ["ratings"]:
        return rating_labels(fields, "ratings", steps), found
    return Labels(fields.values(found[0], steps, nullable=True)), found


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        record: dict[str, Json] = to_plain(row.trajectory)
        record["steps"] = [step.text if step == Step(step.text) else to_plain(step) for step in row.trajectory.steps]
        if row.judgement is not None:
            said = to_plain(row.judgement)
            if row.judgement.trajectory_id == row.trajectory.id:
                del said["trajectory_id"]
            record["judgement"] = said
        yield Written(record, [row])
