"""PRM800K's raw records: people rated every completion that was offered for each step of a solution.

Rating to value, with a neutral step counted as right (as the paper does when it scores solutions):

    1 -> 1.0    0 -> 1.0    -1 -> 0.0    null -> None, "not rated"

The rating itself stays in `aspects["rating"]`, the labeller's flag in `aspects["flagged"]`. The first row of a record is
the path of chosen completions (where the labeller chose none and stopped, the first one offered ends the path); each
completion that was not chosen gives a further row, the path up to it and itself. A step that the labeller wrote has
the agent "labeller" and no rating. Steps without any completion are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written
from footfall.formats._prm800k_writer import write_records
from footfall.formats._rows import Labels, answer_text, problem_id
from footfall.formats.errors import show
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

__all__ = ["LABELLER", "VALUE_OF_RATING", "prm800k", "rating_labels"]

VALUE_OF_RATING: dict[int | None, float | None] = {1: 1.0, 0: 1.0, -1: 0.0, None: None}
LABELLER = "labeller"
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
    meta = question.rest(("problem", "ground_truth_answer", "id"))
    name = question.identifier("id") or problem_id(prompt)
    problem = Problem(name, prompt, answer_text(question, "ground_truth_answer"), meta=meta)
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
    return write_records(rows, LABELLER)
