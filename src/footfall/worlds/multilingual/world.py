"""The arithmetic world in seven languages: the same programs and steps, the same truth, the same exact values.

Problems and traces go from one language to another wording by wording, and back.

A language has as many wordings as English of each kind, in the same order: a problem or a step of one language is said in
another by taking the wording at the same place. Each language but English is a file of `languages/`; a new file there is a
new language. A text that no wording gives (a language model wrote it) is read for its answer only: equations are the same in
all languages.

Step-labelled rows go with them: questions and steps are translated one by one, the labels are copied.
A translation with another number of steps, or with other numbers in a step or in the question, is none: the row is dropped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple, TypeAlias

from footfall.policy.protocol import Completion, SamplingParams
from footfall.registry import Declared, register
from footfall.types import Judged, Problem, Step, Trajectory
from footfall.worlds.arithmetic import problem as english
from footfall.worlds.arithmetic.policy import ArithmeticPolicy
from footfall.worlds.arithmetic.problem import Scene, Symbol, program_of, scene_of
from footfall.worlds.arithmetic.world import ArithmeticWorld
from footfall.worlds.world import Split, StepTruth, World

_FOLDER = Path(__file__).with_name("languages")
LANGUAGES: tuple[str, ...] = ("en", *sorted(path.stem for path in _FOLDER.glob("*.json")))
"""The seven languages that multilingual PRMs are trained on."""

Table = Mapping[Symbol, tuple[str, ...]]
_EQUATION = re.compile(r"(?:-|(?<![0-9]))[0-9]+ [-+*/] -?[0-9]+ = -?[0-9]+")


@dataclass(frozen=True)
class Wordings:
    """One language. `{n}` is a number; `{name}`, `{item}`, `{who}`, `{Who}` and `{whom}` the scene; `%s` an equation."""

    items: Mapping[str, str]
    she: tuple[str, str]
    """As the one who acts, and as the one who is given something."""
    he: tuple[str, str]
    plain: Table
    tricky: Table
    later: tuple[str, ...]
    openings: tuple[str, ...]
    questions: tuple[str, ...]
    first: tuple[str, ...]
    any: tuple[str, ...]
    by_symbol: Table
    again: tuple[str, ...]
    answer: str
    """With `%s` for the number."""
    names: Mapping[str, str] = field(default_factory=dict)
    """English names that are written otherwise."""
    joint: str = " "
    """What stands between two sentences of a problem."""

    def scene(self, scene: Scene) -> dict[str, str]:
        """The words for who has what."""
        if self is ENGLISH:
            return scene.words
        name, item = scene
        pronoun = english.NAMES.get(name)
        who, whom = self.she if pronoun == "she" else self.he
        return {"name": self.names.get(name, name), "item": self.items.get(item, item), "who": who,
                "Who": who[:1].upper() + who[1:], "whom": whom}  # fmt: skip


ENGLISH = Wordings(
    items={item: item for item in english.ITEMS},
    she=("she", "her"),
    he=("he", "him"),
    plain=english.PLAIN,
    tricky=english.TRICKY,
    later=english.LATER,
    openings=english.OPENINGS,
    questions=english.QUESTIONS,
    first=english.FIRST,
    any=english.ANY,
    by_symbol=english.BY_SYMBOL,
    again=english.AGAIN,
    answer=english.ANSWER,
)


@lru_cache(maxsize=16)
def words_of(language: str) -> Wordings:
    """The wordings of a language by its two letters."""
    if language not in LANGUAGES:
        raise ValueError(f"no language is called {language!r}; there are {', '.join(LANGUAGES)}")
    if language == "en":
        return ENGLISH
    return read_wordings(_FOLDER / f"{language}.json")


def read_wordings(path: Path) -> Wordings:
    """The wordings of a language's file, which must have the kinds that `Wordings` has."""
    tables = json.loads(path.read_text(encoding="utf-8"))
    known = {kind.name for kind in fields(Wordings)}
    wrong = sorted((known - {"names", "joint"} - tables.keys()) | (tables.keys() - known))
    if wrong:
        raise ValueError(f"{path}: {', '.join(wrong)} missing or unknown; a language has {', '.join(sorted(known))}")
    return check_wordings(Wordings(**{name: _frozen(table) for name, table in tables.items()}), path.stem)


def _frozen(table: object) -> Any:
    """Lists as tuples."""
    if isinstance(table, dict):
        return {key: _frozen(value) for key, value in table.items()}
    return tuple(table) if isinstance(table, list) else table


def check_wordings(words: Wordings, language: str) -> Wordings:
    """Itself, if it has as many wordings of each kind as English; an error that names the kind if not."""
    for kind in fields(Wordings):
        mine, other = getattr(words, kind.name), getattr(ENGLISH, kind.name)
        if kind.name == "names" or isinstance(mine, str):
            continue
        sizes = [_sizes(table) for table in (mine, other)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"the language {language!r} has {sizes[0]} wordings of {kind.name}, English has {sizes[1]}"
            )
    return words


def _sizes(table: Mapping[str, object] | tuple[str, ...]) -> object:
    if isinstance(table, tuple):
        return len(table)
    return {key: len(value) if isinstance(value, tuple) else 1 for key, value in table.items()}


def language_of(problem: Problem) -> str:
    """The language that a problem is worded in; English if it says nothing."""
    return str(problem.meta.get("language", "en"))


def translate_problem(problem: Problem, language: str) -> Problem:
    """An English problem of `ArithmeticWorld` in another language, with its program, its answer and a `language` field."""
    if language_of(problem) != "en":
        raise ValueError(f"problem {problem.id!r} is in {language_of(problem)!r} already; translate the English one")
    words_of(language)
    meta = {**problem.meta, "language": language}
    if language == "en":
        return replace(problem, meta=meta)
    meta |= {"english": problem.text, "english_id": problem.id}
    return replace(problem, id=f"{problem.id}-{language}", prompt=translate_prompt(problem, language), meta=meta)


def translate(trajectory: Trajectory, language: str) -> Trajectory:
    """An English trace step by step in another language. A step that is not worded by the world stays as it is."""
    problem = trajectory.problem
    steps = tuple(in_language(problem, step, language) for step in trajectory.steps)
    if language == "en":
        return replace(trajectory, problem=translate_problem(problem, language))
    return replace(trajectory, id=f"{trajectory.id}-{language}", problem=translate_problem(problem, language), steps=steps,
                   tokenizer=None)  # fmt: skip


def in_language(problem: Problem, step: Step, language: str) -> Step:
    """An English step in another language; as it is if the world has no such wording."""
    if language == "en":
        return step
    text = translate_step(problem, step.text, "en", language)
    return replace(step, text=step.text if text is None else text, token_ids=None, logprobs=None)


def canonical(trajectory: Trajectory) -> Trajectory:
    """The trace as English says it, which the checker and the scripted policy of `ArithmeticWorld` read."""
    problem = trajectory.problem
    language = language_of(problem)
    meta = {key: value for key, value in problem.meta.items() if key not in ("language", "english", "english_id")}
    prompt, name = str(problem.meta.get("english", problem.text)), str(problem.meta.get("english_id", problem.id))
    english = replace(problem, id=name, prompt=prompt, meta=meta)
    if language == "en":
        return replace(trajectory, problem=english)
    steps = tuple(
        replace(step, text=canonical_step(problem, step.text, language), token_ids=None, logprobs=None)
        for step in trajectory.steps
    )
    return replace(trajectory, problem=english, steps=steps, tokenizer=None)


def translate_step(problem: Problem, text: str, source: str, target: str) -> str | None:
    """The step in another language, or `None` if `source` has no such wording. The same language changes nothing."""
    if source == target:
        return text
    number = _answer_pattern(source).fullmatch(text)
    if number:
        return words_of(target).answer % number[1]
    equation = _EQUATION.search(text)
    if equation is None:
        return None
    scene = scene_of(problem)
    place = _places(source, scene).get(f"{text[: equation.start()]}%s{text[equation.end() :]}")
    return None if place is None else _frames(target, scene)[place] % equation[0]


def canonical_step(problem: Problem, text: str, language: str) -> str:
    """The step as English says it; of a text that is not worded here only the answer is put into English."""
    exact = translate_step(problem, text, language, "en")
    return exact if exact is not None else _loose_answer(language).sub(_say_answer, text)


def _say_answer(match: re.Match[str]) -> str:
    return f"The answer is {match[1] or match[2]}"


@lru_cache(maxsize=4096)
def _frames(language: str, scene: Scene) -> tuple[str, ...]:
    """All step wordings, in the same order for every language."""
    words = words_of(language)
    templates = [*words.first, *words.any, *(text for texts in _by_symbol(words) for text in texts), *words.again]
    filled = words.scene(scene)
    return tuple(template.format(**filled) for template in templates)


def _by_symbol(words: Wordings) -> Iterator[tuple[str, ...]]:
    return (words.by_symbol[symbol] for symbol in ENGLISH.by_symbol)


@lru_cache(maxsize=4096)
def _places(language: str, scene: Scene) -> dict[str, int]:
    return {frame: place for place, frame in enumerate(_frames(language, scene))}


@lru_cache(maxsize=16)
def _answer_pattern(language: str) -> re.Pattern[str]:
    before, after = words_of(language).answer.split("%s")
    return re.compile(rf"{re.escape(before)}(-?[0-9]+){re.escape(after)}")


@lru_cache(maxsize=16)
def _loose_answer(language: str) -> re.Pattern[str]:
    """The answer in a box, or after the language's own words for it."""
    phrase = re.escape(words_of(language).answer.partition("\\boxed")[0].partition("%s")[0].strip(" :"))
    number = r"(-?[0-9]{1,9})"
    return re.compile(
        rf"(?:{phrase}(?:\s*[:：])?\s*)?\\boxed\{{\s*{number}\s*\}}|{phrase}(?:\s*[:：])?\s*{number}", re.IGNORECASE
    )


def translate_prompt(problem: Problem, language: str) -> str:
    """An English problem of the arithmetic world in another language: each sentence by the wording at its place."""
    words, scene = words_of(language), scene_of(problem)
    filled = words.scene(scene)
    said = []
    for kind, place, later, number in _read_prompt(problem):
        template = _templates(words, kind)[place]
        said.append(template.format(n=number, later=words.later[later], **filled))
    return words.joint.join(said)


class _Said(NamedTuple):
    kind: tuple[str, str]
    place: int
    later: int
    number: int


def _templates(words: Wordings, kind: tuple[str, str]) -> Sequence[str]:
    table, symbol = kind
    templates: Mapping[str, Sequence[str]] | Sequence[str] = getattr(words, table)
    return templates[symbol] if isinstance(templates, Mapping) else templates


def _read_prompt(problem: Problem) -> Iterator[_Said]:
    """Which wordings the English prompt was made of, from its beginning to its end."""
    program = program_of(problem)
    kinds = [("openings", ""), *(("tricky" if trick else "plain", op.symbol)
             for op, trick in zip(program.ops, program.tricky, strict=True)), ("questions", "")]  # fmt: skip
    numbers = [program.start, *(op.operand for op in program.ops), 0]
    rest = problem.text
    for kind, number in zip(kinds, numbers, strict=True):
        text, said = _longest(rest, kind, number, problem)
        yield said
        rest = rest[len(text) :].removeprefix(ENGLISH.joint)


def _longest(rest: str, kind: tuple[str, str], number: int, problem: Problem) -> tuple[str, _Said]:
    filled = ENGLISH.scene(scene_of(problem))
    found = [
        (text, _Said(kind, place, later, number))
        for place, template in enumerate(_templates(ENGLISH, kind))
        for later, when in enumerate(ENGLISH.later)
        if rest.startswith(text := template.format(n=number, later=when, **filled))
    ]
    if not found:
        raise ValueError(
            f"problem {problem.id!r} is not worded by ArithmeticWorld at {rest[:40]!r}; it cannot be translated"
        )
    return max(found, key=lambda pair: len(pair[0]))


_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_GROUPED = re.compile(r"[0-9]{1,3}(?:[.,][0-9]{3})+")


def same_numbers(source: str, target: str) -> bool:
    """Whether two texts hold the same numbers, as often, in any order: what every translated step must do.

    `3.5` is `3,5`, and `1,000` is `1.000` and `1000`.
    """
    return Counter(map(_plain_number, _NUMBER.findall(source))) == Counter(map(_plain_number, _NUMBER.findall(target)))


def _plain_number(text: str) -> str:
    if _GROUPED.fullmatch(text):
        return re.sub(r"[.,]", "", text)
    return text.replace(",", ".")


@register("world", "arithmetic-multilingual")
@dataclass(frozen=True, slots=True)
class MultilingualArithmetic(World):
    """The problems of an arithmetic world in `language` (en, de, es, fr, ru, sw or zh), checked by the same rules.

    A trace is read in the language that its problem names, so one world checks traces of all languages.
    """

    domain: ClassVar[str] = "arithmetic"
    remedy: ClassVar[str] = ArithmeticWorld.remedy
    hard: ClassVar[Mapping[str, Any]] = {"base": ArithmeticWorld.at("hard")}

    language: str = "de"
    base: ArithmeticWorld = field(default_factory=ArithmeticWorld)

    def __post_init__(self) -> None:
        words_of(self.language)

    def draw(self, rng: Random, split: Split) -> Problem | None:
        """The problem that the arithmetic world gives for this seed, translated; so languages share their splits."""
        problem = self.base.draw(rng, split)
        return None if problem is None else translate_problem(problem, self.language)

    def answer(self, trajectory: Trajectory) -> str | None:
        """The number that the trace states last as its answer."""
        return self.base.answer(canonical(trajectory))

    def check(self, trajectory: Trajectory) -> list[StepTruth]:
        """The class of every step, by the rules of `ArithmeticWorld.check`."""
        return self.base.check(canonical(trajectory))

    def first_error(self, trajectory: Trajectory) -> int:
        """0-based index of the first wrong step, -1 if there is none."""
        return self.base.first_error(canonical(trajectory))


@register("policy", "scripted-arithmetic-multilingual", Declared(weightless=True, tempered=False))
@dataclass(frozen=True, slots=True)
class MultilingualPolicy:
    """Writes in the language of each problem what the scripted arithmetic policy writes in English, move by move.

    Values, errors, and for a given seed the very solutions are the same in all languages. Tokens are counted on
    the English text, so that costs compare too.
    """

    base: ArithmeticPolicy = field(default_factory=ArithmeticPolicy)

    @property
    def name(self) -> str:
        return f"multilingual({self.base.name})"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix; each depends on the seed, the prefix's content and its index alone."""
        sampled = self.base.sample([canonical(prefix) for prefix in prefixes], n, params, first)
        return [
            [_translated(completion, prefix.problem) for completion in completions]
            for prefix, completions in zip(prefixes, sampled, strict=True)
        ]

    def value(self, prefix: Trajectory) -> float:
        """The exact probability that a completion of `prefix` ends with the reference answer."""
        return self.base.value(canonical(prefix))

    def answers(self, prefix: Trajectory) -> dict[str, float]:
        """The exact probability of each final answer after `prefix`, likeliest first."""
        return self.base.answers(canonical(prefix))


def _translated(completion: Completion, problem: Problem) -> Completion:
    language = language_of(problem)
    return replace(completion, steps=tuple(in_language(problem, step, language) for step in completion.steps))


Translator: TypeAlias = Callable[[Trajectory, str], Trajectory]
"""A trace and a language to the trace in that language."""


def translate_rows(
    rows: Sequence[Judged], languages: Sequence[str], translator: Translator = translate
) -> list[Judged]:
    """The rows, each in one of the languages by turns, so that their number stays the same but for what is dropped."""
    if not languages:
        raise ValueError("no language is given to translate into")
    found = []
    for i, (trajectory, judgement) in enumerate(rows):
        new = translator(trajectory, languages[i % len(languages)])
        if is_faithful(trajectory, new):
            found.append(Judged(new, None if judgement is None else replace(judgement, trajectory_id=new.id)))
    return found


def is_faithful(source: Trajectory, target: Trajectory) -> bool:
    """As many steps, and in the question and in each step the same numbers, whatever separates their decimals."""
    pairs = [(source.problem.text, target.problem.text)]
    pairs += [(old.text, new.text) for old, new in zip(source.steps, target.steps, strict=False)]
    return len(source.steps) == len(target.steps) and all(same_numbers(old, new) for old, new in pairs)
