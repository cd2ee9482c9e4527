"""Field names of one's own: which field of a record holds the problem, the steps and so on, and a guess where nobody says so.

    formats.read("mine.jsonl", names={"problem": "question_text", "steps": "cot"})

A name with dots leads into a field: `doc.question`, `resps.0.0`. What else stood under a name that is now another field's is
kept as metadata.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from footfall.formats.jsonl import FIRST_ERRORS, SOLUTIONS, VALUES, label_lists, unread_steps
from footfall.formats.problems import PROMPTS
from footfall.formats.records import Fields
from footfall.formats.rows import OPTIONAL, REFERENCES
from footfall.types import Json, Judged

_SAME: dict[str, tuple[str, ...]] = {
    "problem": PROMPTS,
    "steps": SOLUTIONS,
    "reference": REFERENCES,
    "labels": (*VALUES, *FIRST_ERRORS),
    "ratings": (*VALUES, *FIRST_ERRORS),
}
"""What can be named, with all the names that formats know it by."""
NAMES = tuple(dict.fromkeys((*_SAME, "answer", "images", "candidates", *OPTIONAL)))
_LIKE_PROBLEM = re.compile(r"question|problem|prompt|query|instruction|task|exercise", re.I)
_LIKE_REFERENCE = re.compile(r"answer|gold|reference|target|truth|result|(^|_)sol", re.I)
_LIKE_NAME = re.compile(r"(^|_)(hash|id|ids|idx|type|source|name)$", re.I)
"""What a field is that says of which problem, not what it asks."""
_LIKE_POOL = re.compile(r"(^|_)(responses|resps|completions|generations|samples|outputs|solutions|predictions)$", re.I)
_LIKE_SOLUTION = re.compile(r"solution|response|completion|output|generat|cot|rationale|reasoning|trace|thought", re.I)


def check_names(names: Mapping[str, str]) -> None:
    """An error for a name that means nothing."""
    for name in names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(NAMES)}"
            raise ValueError(f"no part of a trace is called {name!r}; {hint}")


def renamed(fields: Fields, names: Mapping[str, str]) -> tuple[Fields, dict[str, Json]]:
    """The record with the names that formats know, and the fields that had to give way to them."""
    if not names:
        return fields, {}
    fields = _with_inner(fields, names.values())
    for name, own in names.items():
        if own not in fields:
            near = difflib.get_close_matches(own, list(fields.data)[:1000], n=1)
            fix = f"did you mean {name}={near[0]}?" if near else "name one that it has"
            raise fields.error(own, f'the field that holds "{name}", as --map says', fields.held(), fix)
    called = {_canonical(name, fields.data[own]): own for name, own in names.items()}
    mapped = {name: fields.data[own] for name, own in called.items()}
    hidden = {other for name in names for other in _SAME.get(name, (name,))} - set(names.values())
    displaced = {name: value for name, value in fields.data.items() if name in hidden}
    held = {**fields.rest({*hidden, *names.values()}), **mapped}
    return replace(fields, data=held, called=called), displaced


def _with_inner(fields: Fields, names: Iterable[str]) -> Fields:
    """The record with what lies deeper under the dotted names beside its fields: `doc.question`, `resps.0.0`."""
    found = dict(fields.data)
    for name in names:
        if name in found:
            continue
        value: Json = dict(fields.data)
        for part in name.split("."):
            if isinstance(value, Mapping) and part in value:
                value = value[part]
            elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            else:
                break
        else:
            found[name] = value
    return fields.holding(found)


def _canonical(name: str, value: Json) -> str:
    """The name under which readers look for it: steps may be one text, and labels the index of the first error."""
    if name == "steps" and isinstance(value, str) and not value.lstrip().startswith("["):
        return "solution"
    if name == "labels" and isinstance(value, int) and not isinstance(value, bool):
        return FIRST_ERRORS[0]
    return REFERENCES[0] if name == "reference" else name


def keeping(row: Judged, displaced: Mapping[str, Json]) -> Judged:
    """The row with displaced fields in its metadata, or in the problem's if it has no steps yet."""
    trajectory = row.trajectory
    if not displaced:
        return row
    if trajectory.steps:
        return row._replace(trajectory=replace(trajectory, meta={**trajectory.meta, **displaced}))
    problem = replace(trajectory.problem, meta={**trajectory.problem.meta, **displaced})
    return row._replace(trajectory=replace(trajectory, problem=problem))


def suggestion(fields: Fields) -> str | None:
    """The `--map …` that would make a trace of a record which no format knows; `None` if its names tell too little."""
    asked, choices = (_within(fields.data, names) for names in (("messages", "prompt", "custom_id"), ("choices",)))
    if asked is not None and choices is not None:
        return _as_option({"problem": asked, "candidates": choices})
    found: dict[str, str] = {}
    if not any(name in fields for name in PROMPTS):
        asked = _first(fields, _LIKE_PROBLEM, PROMPTS) or _first_inside(fields, _LIKE_PROBLEM, PROMPTS)
        if asked is None:
            return None
        found["problem"] = asked
    if not any(name in fields for name in SOLUTIONS):
        rest = fields.without(*found.values())
        if (pool := _pool(rest)) is not None:
            return _as_option({**found, "candidates": pool})
        solved = next(iter(unread_steps(rest)), None) or _first(rest, _LIKE_SOLUTION, SOLUTIONS)
        if solved is None:
            return None
        found["steps"] = solved
        steps = fields.data[solved]
        labels = label_lists(rest.without(solved), len(steps)) if isinstance(steps, list) else []
        if labels and not any(name in fields for name in VALUES):
            found["labels"] = labels[0]
    return _as_option(found) if found else None


def _within(data: Mapping[str, Json], names: Sequence[str]) -> str | None:
    """The place, with dots, of the first of these fields in a record or in the objects in it, the outermost one: logs hold a
    request to an OpenAI-compatible server beside its answer, in objects of their own."""
    level: list[tuple[str, Mapping[str, Json]]] = [("", data)]
    while level:
        for name in names:
            for place, held in level:
                if held.get(name):
                    return place + name
        level = [
            (f"{place}{name}.", value)
            for place, held in level
            for name, value in islice(held.items(), 1000)
            if isinstance(value, Mapping) and place.count(".") < 3
        ]
    return None


def _pool(fields: Fields) -> str | None:
    """A list of solutions by its name, or the first of such lists, as harnesses keep one for each request."""
    for name, value in fields.data.items():
        if _LIKE_POOL.search(name) and isinstance(value, list) and value:
            if all(isinstance(each, str) for each in value):
                return name
            if isinstance(value[0], list) and value[0] and all(isinstance(each, str) for each in value[0]):
                return f"{name}.0"
    return None


def problem_suggestion(fields: Fields) -> str | None:
    """The `--map …` that would make a problem of a record: of the field whose name is nearest, or of the only text, and of the
    reference answer, if one has a name like that."""
    texts = [name for name, value in fields.data.items() if value and isinstance(value, str)]
    asked = _first(fields, _LIKE_PROBLEM, PROMPTS) or (texts[0] if len(texts) == 1 else None)
    if asked is None:
        return None
    answered = None
    if not any(name in fields for name in ("answer", *REFERENCES)):
        answered = next((name for name in fields.data if name != asked and _LIKE_REFERENCE.search(name)), None)
    return _as_option({"problem": asked} | ({"reference": answered} if answered else {}))


def _as_option(names: Mapping[str, str]) -> str:
    return shlex.join(["--map", *(f"{name}={own}" for name, own in names.items())])


def _first(fields: Fields, like: re.Pattern[str], known: tuple[str, ...]) -> str | None:
    """The field whose name looks most like it, if it holds a text or a list."""
    texts = [name for name, value in fields.data.items() if value and isinstance(value, str | list)][:1000]
    texts = [name for name in texts if not _LIKE_NAME.search(name)]
    near = (name for wanted in known for name in difflib.get_close_matches(wanted, texts, n=1, cutoff=0.75))
    return next((name for name in texts if like.search(name)), None) or next(near, None)


def _first_inside(fields: Fields, like: re.Pattern[str], known: tuple[str, ...]) -> str | None:
    """The same in an object that is a field, with dots: `doc.question`."""
    for name, value in fields.data.items():
        if isinstance(value, Mapping) and (inner := _first(fields.holding(value), like, known)) is not None:
            return f"{name}.{inner}"
    return None
