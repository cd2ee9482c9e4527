"""Footfall's own JSON lines: every field of a row, and easy to write by hand.

The full form has the problem as an object and keeps everything. The short forms are for one's own traces:

    {"problem": "2 + 3 * 4 = ?", "steps": ["3 * 4 = 12", "2 + 12 = 14"], "answer": "14", "labels": [1, 1]}
    {"question": "2 + 3 * 4 = ?", "solution": "3 * 4 = 12\\n\\n2 + 12 = 14"}

There `answer` is the reference answer (or, beside a `target`, a `gold` or the like, the trajectory's own), a solution
is cut at "Step 1:" to "Step n:" or else at its blank lines (`footfall.formats.solutions`), and
`labels`, `values`, `scores` or `ratings` hold one number a step; or `mistake_index` or `label` is the index of
the first wrong step, -1 for none. A field that looks like labels under another name is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from footfall.formats.files import parse_json
from footfall.formats.nouns import fields_of, from_plain, refuse_unknown, to_plain
from footfall.formats.prm800k import rating_labels
from footfall.formats.problems import PROMPTS, gold_answer
from footfall.formats.records import SIGNS, Fields, show
from footfall.formats.rows import (
    OPTIONAL,
    Format,
    Labels,
    Written,
    answers_of,
    problem_id,
    read_prompt,
    read_row,
    trajectory_id,
)
from footfall.formats.solutions import BLANK_LINE, Solutions
from footfall.formats.step_labels import first_error_labels
from footfall.registry import register
from footfall.types import Json, Judged, Judgement, Problem, Step, Trajectory

_STEP_LISTS = ("steps", "process", "chain_of_thoughts")
_SEVERAL = ("completions", "responses", "generations")
"""Lists of whole solutions in what samplers and searches write; `solution` beside them is the reference's."""
SOLUTIONS = (*_STEP_LISTS, "solution", "response", "completion")
VALUES = ("labels", "values", "scores", "ratings")
FIRST_ERRORS = ("mistake_index", "label")
_LIKE_STEPS = re.compile(
    r"(^|_)(steps?|process|thoughts?|cot|chain|reasoning|rationales?|trace|completions?)(_|$)", re.I
)
_LIKE_VALUES = re.compile(r"(^|_)(labels?|ratings?|scores?|values?|rewards?|correctness|mistakes?|errors?)(_|$)", re.I)
_LIKE_VERDICTS = re.compile(r"(^|_)correct(_|$)", re.I)
_LIKE_INDEX = re.compile(
    r"first_(error|mistake)|(^|_)(error|mistake)s?_(index|indices|idx|steps?|positions?)(_|$)", re.I
)


@register("format", "jsonl")
def jsonl() -> Format:
    """Footfall's own JSON lines: every field, or just a problem and its steps."""
    return Format("jsonl", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return any(name in fields for name in PROMPTS) and any(name in fields for name in (*SOLUTIONS, "judgement"))


def _read(fields: Fields) -> list[Judged]:
    return [_read_full(fields) if isinstance(fields.data.get("problem"), dict) else read_short(fields)]


def _read_full(fields: Fields) -> Judged:
    names = [f.name for f in fields_of(Trajectory)]
    refuse_unknown(fields, [*names, "judgement"])
    ready = {"problem": _problem(fields.record("problem")), "steps": _steps(fields)}
    name = fields.identifier("id")
    trajectory = from_plain(Trajectory, fields.without("judgement"), {**ready, "id": name or ""})
    if name is None:
        trajectory = replace(trajectory, id=trajectory_id(trajectory))
    if fields.data.get("judgement") is None:
        return Judged(trajectory, None)
    said = fields.record("judgement")
    of = said.identifier("trajectory_id")
    judgement = from_plain(Judgement, said, {"trajectory_id": trajectory.id if of is None else of})
    if len(judgement.values) != len(trajectory.steps):
        got = str(len(judgement.values))
        raise said.error("values", f"one entry for each of the {len(trajectory.steps)} steps", got)
    return Judged(trajectory, judgement)


def _problem(fields: Fields) -> Problem:
    prompt = read_prompt(fields, "prompt")
    images = fields.images()
    name = fields.identifier("id")
    return from_plain(Problem, fields, {"id": problem_id(prompt, images) if name is None else name, "images": images})


def _steps(fields: Fields, name: str = "steps") -> tuple[Step, ...]:
    """A step is an object, or just its text."""
    if name not in fields:
        return ()
    return tuple(
        Step(item) if isinstance(item, str) else _step(fields, f"{name}[{i}]", item)
        for i, item in enumerate(fields.items(name))
    )


def _step(fields: Fields, name: str, item: Json) -> Step:
    if not isinstance(item, Mapping):
        raise fields.error(name, "a step as text, or as an object with the field text", show(item))
    step = fields.within(name, item)
    return from_plain(Step, step, {"images": step.images()})


def read_short(fields: Fields) -> Judged:
    """A trace as people write it by hand."""
    asked = next((name for name in PROMPTS if name in fields), "problem")
    prompt = read_prompt(fields, asked)
    solved = _solution_field(fields)
    steps, separator = _short_steps(fields, solved)
    labels, valued = _labels(fields, len(steps))
    answers = answers_of(fields, gold_answer)
    used = {asked, solved, *valued, *answers.fields, *OPTIONAL}
    _refuse_list_of_verdicts(fields)
    if "is_correct" in fields:
        fields = fields.holding({**fields.rest(("is_correct",)), "correct": fields.data["is_correct"]})
    if labels is None:
        _refuse_unread_labels(fields, used, len(steps))
    texts = [step.text for step in steps]
    row = read_row(fields, "jsonl", prompt, texts, labels, known=used, separator=separator, answers=answers)
    return _with_steps(row, steps, "id" in fields)


def _solution_field(fields: Fields) -> str:
    """The field that holds the trace; two lists of steps that differ are an error."""
    lists = [name for name in _STEP_LISTS if isinstance(fields.data.get(name), list)]
    if any(fields.data[name] != fields.data[lists[0]] for name in lists):
        raise fields.error(
            lists[1], f"one list of steps a record; it has {' and '.join(lists)}", fix="keep one of them"
        )
    solved = next((name for name in SOLUTIONS if name in fields), None)
    several = next((name for name in _SEVERAL if _are_texts(fields.data.get(name))), None)
    if solved == "solution" and several is not None and solved not in fields.called:
        expected = f'one solution a record; beside "{solved}" it has a list of them, "{several}"'
        raise fields.error(several, expected, fix=f"pass --map candidates={several}, or --map steps={solved}")
    if solved is None:
        expected = 'a list of steps, or their text as "solution"'
        raise fields.error("steps", expected, "neither", _renaming(unread_steps(fields)))
    return solved


def _short_steps(fields: Fields, name: str) -> tuple[tuple[Step, ...], str]:
    """A list of steps, or a text that is cut into some, and what stands between them; `steps` as text wants to be told how."""
    if name in _STEP_LISTS:
        unpacked = _unpacked(fields, name)
        text = isinstance(unpacked.data[name], str)
        if text and name == "steps" and not (isinstance(fields.solutions, Solutions) and fields.solutions.segmenter):
            fix = "pass --segment NAME (lines, blank-lines, sentences, …) to have the text cut, or write a list"
            raise fields.wrong(name, "a list of steps", fix)
        if not text and (name == "steps" or isinstance(unpacked.data[name], list)):
            return _steps(unpacked, name), BLANK_LINE
    given = fields.data[name]
    if isinstance(given, list) and given and isinstance(given[0], Mapping):
        turns = fields.records(name)  # TRL's conversations: the completion is the assistant's message
        if len(turns) != 1:
            raise fields.wrong(name, "a text, or the one message of the assistant")
        cut = fields.cut(name, turns[0].text("content"))
    else:
        cut = fields.solution(name)
    return tuple(map(Step, cut.steps)), cut.separator


def _unpacked(fields: Fields, name: str) -> Fields:
    """A list that a data set stores as text (as VersaPRM's does), read from the JSON that it is."""
    text = fields.data.get(name)
    if not isinstance(text, str) or not text.lstrip().startswith("["):
        return fields
    try:
        return fields.holding({**fields.data, name: parse_json(text)})
    except (ValueError, RecursionError) as error:
        raise fields.wrong(name, "a list, or a text that is one in JSON") from error


def _with_steps(row: Judged, steps: tuple[Step, ...], named: bool) -> Judged:
    """The row with whole steps: a short record may have agent fields as well."""
    if row.trajectory.steps == steps:
        return row
    trajectory = replace(row.trajectory, steps=steps)
    if not named:
        trajectory = replace(trajectory, id=trajectory_id(trajectory))
    judgement = row.judgement
    if judgement is not None:
        judgement = replace(judgement, trajectory_id=trajectory.id)
    return Judged(trajectory, judgement)


def _labels(fields: Fields, steps: int) -> tuple[Labels | None, list[str]]:
    """What a record says of its steps, and the fields that say it: one value a step, or the first error's index."""
    found = [name for name in VALUES if fields.data.get(name) is not None]
    indices = [name for name in FIRST_ERRORS if _is_index(fields, name, bool(found))]
    if len(found) > 1 or (found and indices):
        both = [*found, *indices]
        raise fields.error(both[1], f"one list of values a record; it has {' and '.join(both)}", fix="keep one of them")
    if indices:
        return _first_error(fields, indices, steps), indices
    if not found:
        return None, list(VALUES)
    (name,) = found
    unpacked = _unpacked(fields, name)
    given = unpacked.items(name)
    rated = name == "labels" and -1 in given and all(v in (-1, 0, 1, None) for v in given)
    if rated or (name == "labels" and 0 in given and all(v in (0, 1, None) for v in given)):
        _refuse_two_kinds(fields, name, rated)
    if rated or name == "ratings":
        return rating_labels(unpacked, name, steps), found
    return Labels(unpacked.values(name, steps, nullable=True)), found


def _refuse_two_kinds(fields: Fields, name: str, rated: bool) -> None:
    """A 0 is a wrong step beside 1, and a neutral one, which counts as right, beside -1."""
    if fields.signs is None or fields.line is None:
        return
    fields.signs.setdefault(rated, fields.line)
    if (other := fields.signs.get(not rated)) is not None:
        own = fields.name(name)
        expected = (
            f"either ratings (-1, 0, 1) or labels (0, 1) in a file; line {other} has the other, so a 0 may be either"
        )
        fix = f'rename it to "ratings" (--map ratings={own}) if a 0 is neutral; write 0 for -1 if a 0 is wrong'
        raise fields.wrong(name, expected, fix)


def _is_index(fields: Fields, name: str, valued: bool) -> bool:
    """Whether a field is the index of the first error. Beside a list of values, a `label` may be any word."""
    if name == "mistake_index":
        return name in fields
    value = fields.data.get(name)
    return value is not None and (not valued or (isinstance(value, int) and not isinstance(value, bool)))


def _first_error(fields: Fields, names: list[str], steps: int) -> Labels:
    """-1, or null as in BIG-Bench Mistake, says that no step is wrong."""
    found = []
    for name in names:
        index = -1 if fields.data[name] is None else fields.data[name]
        if isinstance(index, bool) or not isinstance(index, int) or not -1 <= index < steps:
            expected = f"the index of the first wrong one of the {steps} steps, counted from 0, or -1 if there is none"
            fix = 'one value a step stands in "labels", whether the answer is right in "correct"'
            if isinstance(index, list | bool):
                fix += f": --map {'labels' if isinstance(index, list) else 'correct'}={name}"
            raise fields.wrong(name, expected, fix)
        found.append(index)
    if len(set(found)) > 1:
        raise fields.error(names[1], f"one first error; {' and '.join(names)} differ", fix="keep one of them")
    return first_error_labels(found[0], steps)


def _refuse_unread_labels(fields: Fields, used: Collection[str], steps: int) -> None:
    """A trace whose labels nobody reads would be taken for an unlabelled one."""
    lists = set(label_lists(fields, steps))
    for name, value in fields.rest(used).items():
        if _LIKE_INDEX.search(name) and _is_whole(value):
            fix = f'write "mistake_index": the index of the first wrong step, counted from 0 (-1: none), or rename "{name}"'
            raise fields.wrong(name, f"labels under a known name: {', '.join((*VALUES, *FIRST_ERRORS))}", fix)
        if name in lists:
            fix = (
                f'rename it to "labels" (--map labels={name}) if it holds one value a step, or to something else if not'
            )
            raise fields.wrong(name, f"labels under a known name: {', '.join((*VALUES, *FIRST_ERRORS))}", fix)


def label_lists(fields: Fields, steps: int) -> list[str]:
    """Fields that look as if they held one label for each of so many steps."""
    return [
        name for name, value in fields.data.items()
        if isinstance(value, list) and _is_one_a_step(value, steps) and _is_like_values(name, value)
    ]  # fmt: skip


def _refuse_list_of_verdicts(fields: Fields) -> None:
    """`correct` is of the whole trace."""
    for name in ("correct", "is_correct"):
        if isinstance(fields.data.get(name), list):
            raise fields.wrong(name, "true or false, for the whole trace", 'rename it to "labels" if it has one a step')


def _is_like_values(name: str, values: list[Json]) -> bool:
    """By its name; a word such as `correct` may also name answers, so there each value must be 0 or 1."""
    hard = all(v is None or v in (0, 1, *SIGNS) for v in values)
    return bool(_LIKE_VALUES.search(name) or (hard and _LIKE_VERDICTS.search(name)))


def _is_one_a_step(values: list[Json], steps: int) -> bool:
    judged = any(v is not None for v in values)
    return (
        len(values) == steps
        and judged
        and all(v is None or isinstance(v, int | float) or v in (*SIGNS,) for v in values)
    )


def _is_whole(value: Json) -> bool:
    """An index, or a list of some."""
    return all(isinstance(v, int) and not isinstance(v, bool) for v in (value if isinstance(value, list) else [value]))


def unread_steps(fields: Fields) -> list[str]:
    """Fields of a record without known steps that look as if they held some."""
    return [
        name for name, value in fields.data.items()
        if _LIKE_STEPS.search(name) and isinstance(value, list) and value
        and name not in _STEP_LISTS and all(isinstance(v, str | dict) for v in value)
    ]  # fmt: skip


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _renaming(names: list[str]) -> str | None:
    return f'rename "{names[0]}" to "steps" if it holds the steps (--map steps={names[0]})' if names else None


def step_json(step: Step) -> Json:
    """A step as it is read again: its text if that is all."""
    plain: dict[str, Json] = to_plain(step)
    return step.text if step == Step(step.text) else plain


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        record: dict[str, Json] = to_plain(row.trajectory)
        record["steps"] = [step_json(step) for step in row.trajectory.steps]
        if row.judgement is not None:
            said = to_plain(row.judgement)
            if row.judgement.trajectory_id == row.trajectory.id:
                del said["trajectory_id"]
            record["judgement"] = said
        yield Written(record, [row])
