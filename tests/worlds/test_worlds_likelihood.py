"""Exact log-probabilities of scripted policies: word by word they multiply to the chance of the step that was drawn."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.types import Step
from footfall.worlds.judges import ExactFragmentJudge
from footfall.worlds.scripted import WithLogprobs, has_likelihood, next_steps, with_logprobs, word_logprobs

WORLDS = ("arithmetic", "logic", "algebra", "code")


def test_three_steps_by_hand() -> None:
    steps = {("a", "b"): 0.5, ("a", "c"): 0.25, ("d",): 0.25}
    assert word_logprobs(steps, ("a", "c")) == pytest.approx((math.log(0.75), math.log(1 / 3), 0.0))
    assert word_logprobs({("a",): 0.25, ("a", "b"): 0.75}, ("a",)) == pytest.approx((0.0, math.log(0.25))), (
        "it ends there"
    )
    assert word_logprobs(steps, ("a",)) is None


@pytest.mark.parametrize("world", WORLDS)
def test_the_words_of_a_step_have_the_chance_of_the_step(world: str) -> None:
    here, policy = create("world", world), create("policy", f"scripted-{world}")
    for _, trace in here.traces(policy, 5, seed=3):
        told = with_logprobs(policy, trace)
        assert told.key == trace.key
        assert sum(len(step.logprobs or ()) for step in told.steps) == trace.cost.generated_tokens, "one a token"
        for k, step in enumerate(told.steps):
            known = next_steps(policy, trace.prefix(k))
            assert sum(known.values()) == pytest.approx(1)
            assert math.exp(sum(step.logprobs or ())) == pytest.approx(known[tuple(step.text.split())])
        assert next_steps(policy, trace) == {}, "nothing comes after the answer"


@pytest.mark.parametrize("world", WORLDS)
def test_steps_are_drawn_as_often_as_they_are_said_to_be(world: str) -> None:
    here, policy = create("world", world), create("policy", f"scripted-{world}")
    prefix = next(trace for _, trace in here.traces(policy, 1, seed=5)).prefix(1)
    n = 2000
    (drawn,) = policy.sample([prefix], n, SamplingParams(until="step"))
    seen = Counter(tuple(completion.steps[0].text.split()) for completion in drawn)
    known = next_steps(policy, prefix)
    assert seen.keys() <= known.keys()
    for words, chance in known.items():
        assert seen[words] / n == pytest.approx(chance, abs=5 * math.sqrt(max(chance, 0.01) / n))


def test_completions_have_them_too_and_what_the_policy_never_writes_has_none() -> None:
    world, policy = create("world", "arithmetic"), create("policy", "scripted-arithmetic")
    prefix = world.prefix(world.problems(1)[0]).extend([Step("Nobody writes this.")])
    ((completion,),) = WithLogprobs(policy, policy).sample([prefix])
    assert completion.steps and all(step.logprobs for step in completion.steps)
    told = with_logprobs(policy, prefix.extend(completion.steps))
    assert told.steps[0].logprobs is None and told.steps[1:] == completion.steps
    other = create("policy", "scripted-arithmetic-multilingual")
    assert has_likelihood(policy) and not has_likelihood(other)
    with pytest.raises(ValueError, match="not known"):
        next_steps(other, prefix)


def test_nothing_comes_after_an_answer_that_was_stated_too_early() -> None:
    world, policy = create("world", "code"), create("policy", "scripted-code")
    early = world.prefix(world.problems(1)[0]).extend([Step("# The answer is [1].")])
    assert policy.sample([early], 1)[0][0].steps == () and next_steps(policy, early) == {}


def test_fragments_of_a_policy_whose_moves_are_not_listed_are_refused_by_name() -> None:
    world, policy = create("world", "arithmetic"), create("policy", "scripted-arithmetic-multilingual")
    fragment = world.prefix(world.problems(1)[0]).extend([Step("First,")])
    with pytest.raises(ValueError, match="take a policy of the arithmetic, logic, algebra or code world"):
        ExactFragmentJudge(policy).judge_partial([fragment])


@pytest.mark.parametrize("name", ["arithmetic", "code"])
def test_the_value_of_a_fragment_is_the_mean_over_the_steps_that_begin_with_it(name: str) -> None:
    world, policy = create("world", name), create("policy", f"scripted-{name}")
    prefix = world.prefix(world.problems(1, seed=3)[0])
    writer = policy.writer(prefix.problem)
    steps = dict(writer.texts(writer.state_after(prefix)))
    begun = next(iter(steps)).split(" ")[0]
    fits = {text: chance for text, chance in steps.items() if text.split(" ")[0] == begun}
    mean = sum(chance * policy.value(prefix.extend([Step(text)])) for text, chance in fits.items()) / sum(fits.values())
    (said,) = ExactFragmentJudge(policy).judge_partial([prefix.extend([Step(begun)])])
    assert said.values[0] == pytest.approx(mean)
