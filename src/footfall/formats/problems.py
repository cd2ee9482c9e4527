"""Problems without traces, one a line: what `footfall sample` starts from.

The prompt is found under any of the names that the field's data sets use, the reference answer likewise; what else the
record holds is kept in the problem's `meta`. A GSM8K answer ("… #### 18") gives 18, its working goes to `meta`.
As a row, a problem is a trajectory with no steps yet.

Of two answers, one under a name of `rows.REFERENCES` is the reference, and `answer` then is the model's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats.nouns import from_plain, to_plain
from footfall.formats.records import Fields
from footfall.formats.rows import Format, Written, answer_text, answers_of, problem_id, read_prompt
from footfall.registry import register
from footfall.types import Json, Judged, Problem, Trajectory

PROMPTS = ("problem", "question", "prompt", "query", "Question", "input")
_CONTEXTS = ("body", "Body")
_IDS = ("id", "problem_id", "unique_id", "question_id", "task_id", "ID")
_OWN = ("id", "prompt", "answer", "domain", "images", "tools", "tables", "documents", "meta")
_FINAL = "####"


@register("format", "problems")
def problems() -> Format:
    """Problems alone: a prompt and, if known, its reference answer."""
    return Format("problems", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return any(name in fields for name in PROMPTS)


def gold_answer(fields: Fields, name: str) -> str | None:
    """A reference answer; of a GSM8K answer the part behind its four signs."""
    answer = answer_text(fields, name)
    return answer.rpartition(_FINAL)[2].strip() if answer is not None and _FINAL in answer else answer


def _read(fields: Fields) -> list[Judged]:
    own = "prompt" in fields and all(name in _OWN for name in fields.data)
    problem = _read_own(fields) if own else _read_foreign(fields)
    return [Judged(Trajectory(problem.id, problem), None)]


def _read_own(fields: Fields) -> Problem:
    """A record with the fields of `Problem` itself; only the prompt is needed."""
    prompt = read_prompt(fields, "prompt")
    ready = {"answer": gold_answer(fields, "answer")} if "answer" in fields else {}
    name, images = name_of_problem(fields), fields.images()
    made = {"id": problem_id(prompt, images) if name is None else name, "images": images}
    return from_plain(Problem, fields, {**ready, **made})


def _read_foreign(fields: Fields) -> Problem:
    asked = next((name for name in PROMPTS if name in fields), "problem")
    context = next((name for name in _CONTEXTS if name in fields), None)
    prompt = read_prompt(fields, asked)
    if context is not None and isinstance(prompt, str):
        prompt = f"{fields.text(context)} {prompt}"
    answers = answers_of(fields, gold_answer)
    answered = answers.reference_field or "answer"
    meta = fields.rest({asked, answered, context or asked, "domain", "images", *_IDS[:2]})
    if isinstance(given := fields.data.get(answered), str) and _FINAL in given:
        meta.setdefault("solution", given)
    images = fields.images()
    return Problem(
        id=name_of_problem(fields) or problem_id(prompt, images),
        prompt=prompt,
        answer=answers.reference,
        domain=fields.text_or_none("domain") or "math",
        images=images,
        meta=meta,
    )


def name_of_problem(fields: Fields) -> str | None:
    """The problem's id, under any name that the field's data sets use."""
    return next((found for name in _IDS if (found := fields.identifier(name)) is not None), None)


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        record: dict[str, Json] = to_plain(row.trajectory.problem)
        yield Written(record, [row])
