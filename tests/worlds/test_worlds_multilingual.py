"""Arithmetic in seven languages: the same programs, the same truth, the same values; only the words differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.answers import grade
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import create
from footfall.types import Problem, Step
from footfall.worlds import (
    ArithmeticPolicy,
    ArithmeticWorld,
    ExactValueJudge,
    OpRates,
    StepTruth,
    TruthJudge,
    multilingual,
)
from footfall.worlds.arithmetic.problem import ITEMS, NAMES, Scene
from footfall.worlds.multilingual import (
    LANGUAGES,
    MultilingualArithmetic,
    MultilingualPolicy,
    canonical,
    language_of,
    same_numbers,
    translate,
    translate_problem,
)
from footfall.worlds.multilingual.world import _frames, check_wordings, read_wordings, words_of

ENGLISH = ArithmeticWorld(trap_rate=0.3)
CLUMSY = ArithmeticPolicy(OpRates(0.2, 0.3, 0.4, 0.3), OpRates(0.2, 0.1, 0.3, 0.1), recover=0.3)
POLICY = MultilingualPolicy(CLUMSY)
OTHERS = [language for language in LANGUAGES if language != "en"]
R, W, C = StepTruth.RIGHT, StepTruth.WRONG, StepTruth.CONSEQUENT

# 14 -> 37 -> 32 -> 96
PROBLEM = Problem(
    "p",
    "Mia has 14 stickers. She buys 23 more. That is 5 more than she has a week later. "
    "Then the number of stickers is multiplied by 3. How many stickers does Mia have now?",
    answer="96",
    domain="arithmetic",
    meta={
        "start": 14, "ops": [["+", 23], ["-", 5], ["*", 3]], "tricky": [False, True, False],
        "name": "Mia", "item": "stickers",
    },
)  # fmt: skip


def world(language: str) -> MultilingualArithmetic:
    return MultilingualArithmetic(language, ENGLISH)


def test_the_languages_are_those_that_multilingual_prms_are_trained_on() -> None:
    assert set(LANGUAGES) == {"en", "de", "es", "fr", "ru", "sw", "zh"}


def test_a_problem_sentence_by_sentence_in_german() -> None:
    german = translate_problem(PROBLEM, "de")
    assert german.text == (
        "Mia hat 14 Sticker. Sie kauft 23 dazu. Das sind 5 mehr, als sie eine Woche später hat. "
        "Dann wird die Anzahl der Sticker mit 3 multipliziert. Wie viele Sticker hat Mia jetzt?"
    )
    assert (german.answer, german.id, language_of(german)) == ("96", "p-de", "de")


def test_translating_into_english_changes_nothing_but_names_the_language() -> None:
    for problem, trajectory in ENGLISH.traces(CLUMSY, 20, seed=1):
        same = translate(trajectory, "en")
        assert same.steps is trajectory.steps and same.id == trajectory.id
        assert replace(same.problem, meta=problem.meta) == problem
        assert canonical(same) == trajectory


@pytest.mark.parametrize("language", OTHERS)
def test_there_and_back_gives_the_english_trace_again(language: str) -> None:
    for _, trajectory in ENGLISH.traces(CLUMSY, 60, seed=2):
        there = translate(trajectory, language)
        back = canonical(there)
        assert back.problem == trajectory.problem and back.steps == trajectory.steps
        assert all(a.text != b.text for a, b in zip(there.steps, trajectory.steps, strict=True))


@pytest.mark.parametrize("language", OTHERS)
def test_every_step_and_problem_keeps_its_numbers_and_their_order(language: str) -> None:
    for problem, trajectory in ENGLISH.traces(CLUMSY, 60, seed=3):
        there = translate(trajectory, language)
        assert len(there.steps) == len(trajectory.steps)
        assert same_numbers(problem.text, there.problem.text)
        assert all(same_numbers(a.text, b.text) for a, b in zip(trajectory.steps, there.steps, strict=True))


@pytest.mark.parametrize("language", LANGUAGES)
def test_truth_values_and_outcomes_are_those_of_the_english_trace(language: str) -> None:
    for _, trajectory in ENGLISH.traces(CLUMSY, 40, seed=4):
        there = translate(replace(trajectory, answer=None, correct=None), language)
        assert world(language).check(there) == ENGLISH.check(trajectory)
        assert world(language).first_error(there) == ENGLISH.first_error(trajectory)
        graded = world(language).graded(there)
        assert (graded.answer, graded.correct) == (trajectory.answer, trajectory.correct)
        assert grade(there).correct == trajectory.correct, "the common grader must find the answer too"
        for k in range(len(trajectory.steps) + 1):
            assert POLICY.value(there.prefix(k)) == CLUMSY.value(trajectory.prefix(k))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_seed_writes_the_same_solution_in_every_language(language: str) -> None:
    english = list(ENGLISH.traces(CLUMSY, 30, seed=5))
    for (_, one), (problem, other) in zip(english, world(language).traces(POLICY, 30, seed=5), strict=True):
        assert language_of(problem) == language
        assert canonical(other).steps == one.steps and other.answer == one.answer


def test_one_policy_goes_on_in_the_language_of_each_prefix() -> None:
    problems = [world(language).problems(1, seed=6)[0] for language in ("de", "zh", "en")]
    prefixes = [ENGLISH.prefix(problem) for problem in problems]
    sampled = POLICY.sample(prefixes, 3, SamplingParams(until="step"))
    for prefix, completions in zip(prefixes, sampled, strict=True):
        assert completions == POLICY.sample([prefix], 3, SamplingParams(until="step"))[0]
        longer = prefix.extend(completions[0].steps)
        ((rest,),) = POLICY.sample([longer], 1)
        assert world("de").graded(longer.extend(rest.steps)).answer is not None
    texts = [completions[0].steps[0].text for completions in sampled]
    assert len(set(texts)) == 3


def test_text_of_a_language_model_is_read_by_its_equations_and_its_answer() -> None:
    german = translate_problem(PROBLEM, "de")
    lines = ["Also gut: 14 + 23 = 37!", "Danach 37 + 5 = 42", "42 × 3 = 126", "Damit ist die Antwort ist 126"]
    trajectory = world("de").prefix(german).extend([Step(line) for line in lines])
    assert world("de").check(trajectory) == [R, W, C, C]
    assert world("de").answer(trajectory) == "126"
    boxed = world("de").prefix(german).extend([Step("Somit $\\boxed{96}$.")])
    assert world("de").graded(boxed).correct is True
    assert world("de").answer(world("de").prefix(german).extend([Step("Die Antwort ist 9,5")])) is None


def test_judges_take_the_world_and_the_policy_as_they_are() -> None:
    (_, trajectory), *_ = world("ru").traces(POLICY, 1, seed=7)
    (truth,) = TruthJudge(world("ru")).judge([trajectory])
    (value,) = ExactValueJudge(POLICY).judge([trajectory])
    assert len(truth.values) == len(value.values) == len(trajectory.steps)
    assert value.values[-1] == float(trajectory.correct is True)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_wordings_of_a_scene_are_the_same_so_each_can_be_read_back(language: str) -> None:
    for name in NAMES:
        for item in ITEMS:
            frames = _frames(language, Scene(name, item))
            assert len(set(frames)) == len(frames)
            assert all(frame.count("%s") == 1 and "{" not in frame for frame in frames)


@pytest.mark.parametrize("language", OTHERS)
def test_a_language_has_as_many_wordings_as_english(language: str) -> None:
    words = words_of(language)
    with pytest.raises(ValueError, match=f"'{language}' has 3 wordings of later, English has 4"):
        check_wordings(replace(words, later=words.later[1:]), language)


@pytest.mark.parametrize(
    ("source", "target", "same"),
    [
        ("It is 3.5 now.", "Es sind jetzt 3,5.", True),
        ("It is 3.5 now.", "Es ist jetzt so.", False),
        ("1,000 and 2", "2 und 1.000", True),
        ("1,000", "1000", True),
        ("5 + 5 = 10", "5 + 10", False),
        ("", "", True),
    ],
)
def test_numbers_are_compared_with_their_separators_normalised(source: str, target: str, same: bool) -> None:
    assert same_numbers(source, target) is same


@pytest.mark.long
@given(st.lists(st.text("0123456789 +-*/=.,Antwort ist:\\boxed{}答案是Ответ\n", max_size=30), max_size=4))
@settings(deadline=None)
def test_any_text_has_a_class(lines: list[str]) -> None:
    for language in ("de", "zh", "ru"):
        trajectory = ENGLISH.prefix(translate_problem(PROBLEM, language)).extend([Step(line) for line in lines])
        assert len(world(language).check(trajectory)) == len(lines)


def test_splits_are_shared_by_all_languages_and_meta_is_plain_json() -> None:
    german, chinese = (world(language).problems(20, seed=8, split="test") for language in ("de", "zh"))
    assert [p.meta["english_id"] for p in german] == [p.id for p in ENGLISH.problems(20, seed=8, split="test")]
    assert [p.meta["ops"] for p in german] == [p.meta["ops"] for p in chinese]
    assert json.loads(json.dumps(german[0].meta))["language"] == "de"


def test_world_and_policy_are_named_parts() -> None:
    assert create("world", "arithmetic-multilingual", language="sw") == MultilingualArithmetic("sw")
    policy: Policy = create("policy", "scripted-arithmetic-multilingual")
    assert policy == MultilingualPolicy() and "scripted-arithmetic" in policy.name


def test_errors_name_the_language_or_the_problem() -> None:
    with pytest.raises(ValueError, match="no language is called 'it'; there are en, de"):
        MultilingualArithmetic("it")
    with pytest.raises(ValueError, match="'p-de' is in 'de' already"):
        translate_problem(translate_problem(PROBLEM, "de"), "fr")
    with pytest.raises(ValueError, match="'p' is not worded by ArithmeticWorld at 'Mia owns"):
        translate_problem(replace(PROBLEM, prompt="Mia owns 14 stickers."), "de")


def test_a_language_file_that_lacks_a_kind_of_wording_is_named(tmp_path: Path) -> None:
    german = json.loads((Path(multilingual.__file__).parent / "languages" / "de.json").read_text(encoding="utf-8"))
    broken = tmp_path / "xx.json"
    broken.write_text(json.dumps({name: table for name, table in german.items() if name != "plain"} | {"plan": {}}))
    with pytest.raises(ValueError, match=r"xx\.json: plain, plan missing or unknown"):
        read_wordings(broken)
