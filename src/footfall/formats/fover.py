"""FoVer's records: steps that a formal tool labelled, each for itself, and the conversations that its PRMs are trained on.

{"id", "problem", "solution_steps": [text], "error_labels": [true | false | null],
 "messages": [{"role", "content"}], "messages_for_prediction": [{"role", "content"}]}

Despite its name, a label is true where the step is **right**; null is a step that nobody judged. Labels are local: a right
step may follow a wrong one. In `messages` the user says the problem, the task and step 1, then one step a turn, and the
assistant says correct or incorrect; in `messages_for_prediction` it always says correct, so that a score cannot depend on the
labels before it. Both follow from the other fields, so they are written and not read. The wording of the first turn is that
of the published data (ryokamoi/FoVer-FormalLogic-*, CC BY 4.0), its spelling included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written, unwritable
from footfall.formats._rows import Labels, optional_keys, plain_prompt, plain_steps, read_row, with_meta
from footfall.formats.errors import show
from footfall.registry import register
from footfall.types import Json, Judged, Reason, Unjudged, failures_of

__all__ = ["conversation", "fover"]

_CHATS = ("messages", "messages_for_prediction")
_KNOWN = ("problem", "solution_steps", "error_labels", *_CHATS)
_NOT_JUDGED = Unjudged(Reason.NOT_ASKED, "not judged")
_FIRST_TURN = """** Problem **
{problem}

** Task **
Your task is to evaluate the accuracy of each step in the provided solution to the above question. For each step, respond \
with "correct" if the reasoning is logically valid and mathematically sound, or if the step is a general statement or \
transition that does not contain reasoning. Respond with "incorrect" if the step includes any errors or flawed logic.

** Sotluion **
{step}"""


@register("format", "fover")
def fover() -> Format:
    """FoVer: solution steps with local labels, and the conversations of its PRMs."""
    return Format("fover", sniff, _read, _write)


def sniff(fields: Fields) -> bool:
    """Whether a record has FoVer's own two fields; its chats alone do not tell."""
    return "solution_steps" in fields and "error_labels" in fields


def conversation(problem: str, steps: Sequence[str], labels: Sequence[bool] | None = None) -> list[Json]:
    """The turns of a solution; without labels those for prediction, in which every step so far is called correct."""
    said = [True] * len(steps) if labels is None else labels
    turns: list[Json] = []
    for k, (step, right) in enumerate(zip(steps, said, strict=True)):
        # Not str.format: a problem in logic is full of braces.
        first = _FIRST_TURN.replace("{step}", step, 1).replace("{problem}", problem, 1)
        turns.append({"role": "user", "content": step if k else first})
        turns.append({"role": "assistant", "content": "correct" if right else "incorrect"})
    return turns


def _read(fields: Fields) -> list[Judged]:
    steps, labels = fields.texts("solution_steps"), fields.items("error_labels")
    if len(labels) != len(steps):
        raise fields.error("error_labels", f"one label for each of the {len(steps)} steps", str(len(labels)))
    for k, label in enumerate(labels):
        if label is not None and not isinstance(label, bool):
            raise fields.error(f"error_labels[{k}]", "true (the step is right), false or null", show(label))
    values = tuple(None if label is None else float(bool(label)) for label in labels)
    failures = failures_of(_NOT_JUDGED if value is None else None for value in values)
    found = Labels(values, failures=failures)
    return [read_row(fields, "fover", fields.text("problem"), steps, found, known=_KNOWN)]


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        problem, steps, labels = plain_prompt("fover", row), plain_steps(row), _labels(row)
        if not steps:
            raise unwritable("fover", row, "trajectory.steps", "at least one step")
        record: dict[str, Json] = {"problem": problem, "solution_steps": list(steps), "error_labels": list(labels)}
        known = [label for label in labels if label is not None]
        if len(known) == len(labels):  # a turn without a label cannot be trained on
            record["messages"] = conversation(problem, steps, known)
        record["messages_for_prediction"] = conversation(problem, steps)
        yield Written(with_meta("fover", row, {**record, **optional_keys(row, "fover")}), [row])


def _labels(row: Judged) -> list[bool | None]:
    if row.judgement is None:
        raise unwritable("fover", row, "judgement", "a judgement", "label the trajectories first")
    for k, value in enumerate(row.judgement.values):
        if value not in (0.0, 1.0, None):
            fix = "pass a threshold to make the values hard"
            raise unwritable("fover", row, f"judgement.values[{k}]", f"0 or 1, got {show(value)}", fix)
    return [None if value is None else bool(value) for value in row.judgement.values]
