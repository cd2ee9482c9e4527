"""Rows back into PRM800K's raw records: a path and the alternatives that follow it make one record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from footfall.formats._format import Written, hard_labels, unwritable
from footfall.formats._rows import plain_prompt, problem_id
from footfall.types import Json, Judged

__all__ = ["write_records"]

_LABEL_KEYS = ("total_time", "finish_reason")


def write_records(rows: Iterable[Judged], labeller: str) -> Iterator[Written]:
    """One record for each path; rows that are an `alternative` join the record of the path before them."""
    group: list[Judged] = []
    for row in rows:
        if group and "alternative" not in row.trajectory.meta:
            yield Written(_record(group, labeller), group)
            group = []
        group.append(row)
    if group:
        yield Written(_record(group, labeller), group)


def _record(group: Sequence[Judged], labeller: str) -> dict[str, Json]:
    row = group[0]
    problem, meta = row.trajectory.problem, dict(row.trajectory.meta)
    if "alternative" in meta:
        raise unwritable("prm800k", row, "trajectory.meta.alternative", "the chosen path before its alternatives")
    question: dict[str, Json] = {"problem": plain_prompt("prm800k", row)}
    if problem.answer is not None:
        question["ground_truth_answer"] = problem.answer
    if problem.id != problem_id(problem.prompt):
        question["id"] = problem.id
    chosen = _chosen(row, meta.pop("chosen", None))
    label: dict[str, Json] = {"steps": _steps(group, chosen, labeller)}
    label |= {name: meta.pop(name) for name in _LABEL_KEYS if name in meta}
    judge = {} if row.judgement is None or row.judgement.judge == "prm800k" else {"judge": row.judgement.judge}
    record: dict[str, Json] = {"id": row.trajectory.id, **judge, "question": question, "label": label}
    for name in meta:
        if name in record:
            raise unwritable("prm800k", row, f"trajectory.meta.{name}", "a name that the format does not use itself")
    return {**record, **meta, "question": {**problem.meta, **question}}


def _chosen(row: Judged, given: Json) -> list[int | None]:
    """Which of its completions each step took; the first, where the row does not say."""
    steps = len(row.trajectory.steps)
    if given is None:
        return [None if step.agent else 0 for step in row.trajectory.steps]
    if not isinstance(given, list | tuple) or len(given) != steps:
        raise unwritable("prm800k", row, "trajectory.meta.chosen", f"an index or null for each of {steps} steps")
    return [index if isinstance(index, int) else None for index in given]


def _steps(group: Sequence[Judged], chosen: list[int | None], labeller: str) -> list[Json]:
    offers: list[dict[int, Json]] = [{} for _ in chosen]
    own: list[Json] = [None for _ in chosen]
    for k, step in enumerate(group[0].trajectory.steps):
        if step.agent == labeller:
            own[k] = _completion(group[0], k)
        else:
            offers[k][chosen[k] or 0] = _completion(group[0], k)
    for row in group[1:]:
        where = row.trajectory.meta["alternative"]
        if not isinstance(where, list | tuple) or len(where) != 2 or where[0] != len(row.trajectory.steps) - 1:
            raise unwritable("prm800k", row, "trajectory.meta.alternative", "the index of its last step and a number")
        offers[int(str(where[0]))][int(str(where[1]))] = _completion(row, len(row.trajectory.steps) - 1)
    return [
        {
            "completions": [held[c] for c in sorted(held)],
            "human_completion": own[k],
            "chosen_completion": chosen[k],
        }
        for k, held in enumerate(offers)
    ]


def _completion(row: Judged, k: int) -> Json:
    flagged = None if row.judgement is None else row.judgement.aspects.get("flagged", (None,) * (k + 1))[k]
    return {
        "text": row.trajectory.steps[k].text,
        "rating": _rating(row, k),
        "flagged": None if flagged is None else bool(flagged),
    }


def _rating(row: Judged, k: int) -> int | None:
    if row.judgement is None:
        raise unwritable("prm800k", row, "judgement", "a judgement", "label the trajectories first")
    if "rating" in row.judgement.aspects:
        rating = row.judgement.aspects["rating"][k]
        return None if rating is None else int(rating)
    if row.judgement.values[k] is None:
        return None
    return 1 if hard_labels("prm800k", row)[k] else -1
