"""Pools: several solutions of one problem in a record, as samplers, searches and logs of evaluations keep them.

    {"id": "q1", "problem": "2 + 3?", "answer": "5", "candidates": [{"steps": ["2 + 3 = 5"], "correct": true}, "It is 6."]}

A candidate is a text, a list of steps, or an object with `steps` or `text` and whatever else Footfall's own JSON lines say of
a trace (labels, author, id, …), where `answer` is the candidate's own; a choice of an OpenAI-compatible server's answer is one
too, by its `message`. Candidate k is called "q1#k" if it has no id, as in
files of scores. What else the record holds is the problem's `meta`. A list under another name is named by
`--map candidates=resps.0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from footfall.formats.jsonl import SOLUTIONS, read_short, step_json
from footfall.formats.problems import PROMPTS, gold_answer, name_of_problem
from footfall.formats.records import Fields
from footfall.formats.rows import Format, Written, answers_of, optional_keys, problem_id, prompt_json, read_prompt
from footfall.registry import register
from footfall.types import Json, Judged, Trajectory

_SHARED = ("domain", "images", "separator", "author", "judge")
"""What a record may say of all its candidates."""


@register("format", "pool")
def pool() -> Format:
    """Several solutions of one problem in a record: `candidates`, as texts or with steps, answer and verdict."""
    return Format("pool", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return isinstance(fields.data.get("candidates"), list) and any(name in fields for name in PROMPTS)


def _read(fields: Fields) -> list[Judged]:
    asked = next((name for name in PROMPTS if name in fields), "problem")
    prompt = read_prompt(fields, asked)
    answers = answers_of(fields, gold_answer)
    name = name_of_problem(fields) or problem_id(prompt, fields.images())
    shared: dict[str, Json] = {key: fields.data[key] for key in _SHARED if fields.data.get(key) is not None}
    shared |= {"problem": fields.data[asked], "problem_id": name}
    shared |= {} if answers.reference is None else {"target": answers.reference}
    meta = fields.rest({asked, "candidates", "id", "problem_id", answers.reference_field or "", *_SHARED})
    rows = []
    for k, given in enumerate(fields.items("candidates")):
        own = _candidate(fields, k, given)
        row = read_short(fields.within(f"candidates[{k}]", {**shared, "id": f"{name}#{k}", **own}))
        problem = replace(row.trajectory.problem, meta=meta)
        rows.append(row._replace(trajectory=replace(row.trajectory, problem=problem)))
    return rows


def _candidate(fields: Fields, k: int, given: Json) -> dict[str, Json]:
    """The fields of a trace that a candidate has: its answer is its own, not the reference."""
    if isinstance(given, str):
        return {"solution": given}
    if isinstance(given, list):
        return {"steps": given}
    here = fields.within(f"candidates[{k}]", given)
    found = dict(here.data)
    if "message" in found and not any(name in found for name in (*SOLUTIONS, "text")):
        found["solution"] = here.record("message").text("content")
        del found["message"]
    for name, plain in (("text", "solution"), ("answer", "prediction")):
        if name in found and plain not in found:
            found[plain] = found.pop(name)
    return found


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for problem, group in groupby(rows, key=lambda row: row.trajectory.problem):
        members = list(group)
        record: dict[str, Json] = {
            **problem.meta,
            "id": problem.id,
            "problem": prompt_json(problem.prompt),
            **({} if problem.answer is None else {"answer": problem.answer}),
            **({} if problem.domain == "math" else {"domain": problem.domain}),
            **({"images": list(problem.images)} if problem.images else {}),
            "candidates": [_told(row, f"{problem.id}#{k}") for k, row in enumerate(members)],
        }
        yield Written(record, members)


def _told(row: Judged, name: str) -> dict[str, Json]:
    trajectory: Trajectory = row.trajectory
    extra: Mapping[str, Json] = optional_keys(row, "jsonl")
    found: dict[str, Json] = {**trajectory.meta, "steps": [step_json(step.without_ids()) for step in trajectory.steps]}
    found |= {key: extra[key] for key in ("separator", "judge", "correct", "author") if key in extra}
    found |= {} if trajectory.id == name else {"id": trajectory.id}
    found |= {} if trajectory.answer is None else {"answer": trajectory.answer}
    return found if row.judgement is None else {**found, "values": list(row.judgement.values)}
