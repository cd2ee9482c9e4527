"""PRM800K's raw records: people rated every completion that was offered for each step of a solution.

Rating to value, with a neutral step counted as right (as the paper does when it scores solutions):

    1 -> 1.0    0 -> 1.0    -1 -> 0.0    null -> None, "not rated"

The rating itself stays in `aspects["rating"]`, the labeller's flag in `aspects["flagged"]`. The first row of a record is
the path of chosen completions (where the labeller chose none and stopped, the first one offered ends the path); each
completion that was not chosen gives a further row, the path up to it and itself. A step that the labeller wrote has
the agent "labeller" and no rating. Steps without any completion are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from footfall.formats.records import Fields, show
from footfall.formats.rows import (
    Format,
    Labels,
    Written,
    answer_text,
    hard_label,
    judged_values,
    plain_prompt,
    problem_id,
    unwritable,
)
from footfall.registry import register
from footfall.types import (
    Json,
    Judged,
    Judgement,
    Problem,
    Reason,
    Step,
    Trajectory,
    Unjudged,
    content_key,
    failures_of,
)

VALUE_OF_RATING: dict[int | None, float | None] = {1: 1.0, 0: 1.0, -1: 0.0, None: None}
LABELLER = "labeller"
_LABEL_KEYS = ("total_time", "finish_reason")
_NOT_RATED = Unjudged(Reason.NOT_ASKED, "not rated")


@register("format", "prm800k")
def prm800k() -> Format:
    """PRM800K raw records: the chosen path, and each alternative completion after its prefix."""
    return Format("prm800k", _sniff, _read, _write)


def rating_labels(fields: Fields, name: str, steps: int) -> Labels:
    """A list of -1, 0, 1 or null, one a step, as values with the ratings beside them."""
    given = fields.items(name)
    if len(given) != steps:
        raise fields.error(name, f"one entry for each of the {steps} steps", str(len(given)))
    return _labels([_rating(fields, f"{name}[{i}]", rating) for i, rating in enumerate(given)])


def _rating(fields: Fields, name: str, value: Json) -> int | None:
    if value is not None and (isinstance(value, bool) or value not in (-1, 0, 1)):
        raise fields.error(name, "a rating: -1, 0, 1 or null", show(value))
    return value if value is None else int(float(str(value)))


def _labels(ratings: list[int | None]) -> Labels:
    failures = failures_of(_NOT_RATED if rating is None else None for rating in ratings)
    return Labels(
        tuple(VALUE_OF_RATING[rating] for rating in ratings),
        {"rating": tuple(None if rating is None else float(rating) for rating in ratings)},
        failures,
    )


class _Offer(NamedTuple):
    """A completion that was offered for a step."""

    text: str
    rating: int | None
    flagged: bool | None
    human: bool


class _Choice(NamedTuple):
    """A step: what was offered, and which of it the path takes (-1: the labeller's own)."""

    offers: list[_Offer]
    own: _Offer | None
    chosen: int | None

    @property
    def taken(self) -> _Offer:
        return self.own if self.chosen is None and self.own is not None else self.offers[self.chosen or 0]


def _sniff(fields: Fields) -> bool:
    label = fields.data.get("label")
    return isinstance(fields.data.get("question"), dict) and isinstance(label, dict) and "steps" in label


def _read(fields: Fields) -> list[Judged]:
    question, label = fields.record("question"), fields.record("label")
    prompt = question.text("problem")
    meta, images = question.rest(("problem", "ground_truth_answer", "id", "images")), question.images()
    name = question.identifier("id") or problem_id(prompt, images)
    problem = Problem(name, prompt, answer_text(question, "ground_truth_answer"), images=images, meta=meta)
    choices = _choices(label)
    base = Trajectory(
        id=fields.identifier("id") or _record_id(fields, prompt, choices),
        problem=problem,
        meta={
            **fields.rest(("question", "label", "id", "judge")),
            **label.rest(("steps",)),
            "chosen": [choice.chosen for choice in choices],
        },
    )
    judge = fields.text_or_none("judge") or "prm800k"
    path = [choice.taken for choice in choices]
    rows = [_row(base, path, judge)]
    for k, choice in enumerate(choices):
        for c, offer in enumerate(choice.offers):
            if offer is not choice.taken:
                other = replace(base, id=f"{base.id}/{k}.{c}", meta={"alternative": [k, c]})
                rows.append(_row(other, [*path[:k], offer], judge))
    return rows


def _record_id(fields: Fields, prompt: str, choices: list[_Choice]) -> str:
    offered = [[offer.text for offer in choice.offers] for choice in choices]
    return "prm800k-" + content_key(fields.data.get("labeler"), fields.data.get("timestamp"), prompt, offered)[:16]


def _choices(label: Fields) -> list[_Choice]:
    steps = [
        step for step in label.records("steps") if step.data.get("completions") or step.data.get("human_completion")
    ]
    found = []
    for k, step in enumerate(steps):
        offers = [_offer(c, False) for c in step.records("completions")] if step.data.get("completions") else []
        own = None if step.data.get("human_completion") is None else _offer(step.record("human_completion"), True)
        chosen = None if step.data.get("chosen_completion") is None else step.integer("chosen_completion")
        if chosen is not None and not 0 <= chosen < len(offers):
            raise step.error("chosen_completion", f"the index of one of {len(offers)} completions", str(chosen))
        if chosen is None and own is None and k + 1 < len(steps):
            raise step.error("chosen_completion", "an index or a human completion, as more steps follow", "null")
        found.append(_Choice(offers, own, chosen))
    return found


def _offer(fields: Fields, human: bool) -> _Offer:
    rating = _rating(fields, "rating", fields.data.get("rating"))
    return _Offer(fields.text("text"), rating, fields.boolean_or_none("flagged"), human)


def _row(base: Trajectory, path: list[_Offer], judge: str) -> Judged:
    steps = tuple(Step(offer.text, agent=LABELLER if offer.human else None) for offer in path)
    labels = _labels([offer.rating for offer in path])
    flagged = tuple(None if offer.flagged is None else float(offer.flagged) for offer in path)
    aspects = {**labels.aspects, "flagged": flagged}
    trajectory = replace(base, steps=steps)
    return Judged(trajectory, Judgement(base.id, labels.values, judge, aspects=aspects, failures=labels.failures))


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    """One record for each path; rows that are an `alternative` join the record of the path before them."""
    group: list[Judged] = []
    for row in rows:
        if group and "alternative" not in row.trajectory.meta:
            yield Written(_record(group), group)
            group = []
        group.append(row)
    if group:
        yield Written(_record(group), group)


def _record(group: Sequence[Judged]) -> dict[str, Json]:
    row = group[0]
    problem, meta = row.trajectory.problem, dict(row.trajectory.meta)
    if "alternative" in meta:
        raise unwritable("prm800k", row, "trajectory.meta.alternative", "the chosen path before its alternatives")
    question: dict[str, Json] = {"problem": plain_prompt("prm800k", row)}
    if problem.answer is not None:
        question["ground_truth_answer"] = problem.answer
    if problem.images:
        question["images"] = list(problem.images)
    if problem.id != problem_id(problem.prompt, problem.images):
        question["id"] = problem.id
    chosen = _chosen(row, meta.pop("chosen", None))
    label: dict[str, Json] = {"steps": _steps(group, chosen)}
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


def _steps(group: Sequence[Judged], chosen: list[int | None]) -> list[Json]:
    offers: list[dict[int, Json]] = [{} for _ in chosen]
    own: list[Json] = [None for _ in chosen]
    for k, step in enumerate(group[0].trajectory.steps):
        if step.agent == LABELLER:
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
        "rating": _rating_of(row, k),
        "flagged": None if flagged is None else bool(flagged),
    }


def _rating_of(row: Judged, k: int) -> int | None:
    value = judged_values("prm800k", row)[k]
    rating = row.judgement.aspects.get("rating") if row.judgement is not None else None
    if rating is not None:
        return None if (given := rating[k]) is None else int(given)
    if value is None:
        return None
    return 1 if hard_label("prm800k", row, k, value) else -1
