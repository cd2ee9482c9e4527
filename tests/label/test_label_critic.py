"""The scripted critic on single steps and on critiques, through the prompts of `PromptedJudge`."""

from __future__ import annotations

import math

import pytest

from footfall.label.critic import ScriptedCritic
from footfall.label.prompted import META, _filled, cut_after_error, prompted
from footfall.policy.protocol import SamplingParams
from footfall.types import Problem, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

TRACES = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 150, seed=4)]
TRUTH = [cut_after_error([int(v or 0) for v in said.values]) for said in TruthJudge().judge(TRACES)]


def perfect(**rates: float) -> ScriptedCritic:
    return ScriptedCritic(TRACES, **{"shared": 0, "wording": 0, "sampled": 0, "babble": 0, **rates})  # type: ignore[arg-type]


def test_a_critic_that_never_errs_says_the_truth_of_every_step() -> None:
    said = prompted(perfect(), form="step").judge(TRACES)
    assert [list(j.values) for j in said] == TRUTH
    assert not any(j.failures for j in said)


def test_it_errs_on_single_steps_as_often_as_it_should() -> None:
    said = prompted(perfect(sampled=0.2), form="step", cut=False, reference=False).judge(TRACES)
    wrong = [v != t for j, truth in zip(said, TRUTH, strict=True) for v, t in zip(j.values, truth, strict=True)]
    assert sum(wrong) / len(wrong) == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / len(wrong)))


@pytest.mark.long
def test_votes_mend_what_is_sampled_but_not_what_it_does_not_know() -> None:
    def errors(critic: ScriptedCritic, n: int) -> int:
        said = prompted(critic, form="step", n=n, cut=False, reference=False).judge(TRACES)
        return sum(v != t for j, t_ in zip(said, TRUTH, strict=True) for v, t in zip(j.values, t_, strict=True))

    assert errors(perfect(sampled=0.2), 9) < errors(perfect(sampled=0.2), 1) / 3
    assert errors(perfect(shared=0.2), 9) == errors(perfect(shared=0.2), 1) > 0


def meta(critic: ScriptedCritic, trace: Trajectory, critique: str) -> str:
    question = Trajectory("q", Problem("q", _filled(META, trace, 0, True, critique)))
    ((reply,),) = critic.sample([question], 1, SamplingParams())
    return reply.steps[0].text


def test_a_critique_is_sound_if_a_fresh_look_says_the_same() -> None:
    trace, truth = next((t, v) for t, v in zip(TRACES, TRUTH, strict=True) if 0 in v[1:-1])
    assert meta(perfect(), trace, f"I see. {truth}") == "\\boxed{Yes}"
    assert meta(perfect(), trace, str([1] * len(truth))) == "\\boxed{No}"
    assert meta(perfect(), trace, "\\boxed{No}") == "\\boxed{Yes}", "its last step is built on an error"


def test_what_it_does_not_know_it_does_not_find_in_its_critique_either() -> None:
    blind = prompted(perfect(shared=0.3), meta=True, reference=False).judge(TRACES)
    assert all(None not in j.values for j in blind)
    misled = prompted(perfect(wording=0.3), meta=True, reference=False).judge(TRACES)
    assert any(None in j.values for j in misled)


def test_a_reply_costs_the_price_of_the_steps_it_is_about() -> None:
    critic = ScriptedCritic(TRACES, babble=0, price=30)
    assert "price=30" in critic.name and "price" not in perfect().name
    for judge, times in ((prompted(critic), 1), (prompted(critic, form="step"), 1), (prompted(critic, meta=True), 2)):
        costs = [j.cost.generated_tokens for j in judge.judge(TRACES[:9])]
        assert costs == [30 * times * len(trace.steps) for trace in TRACES[:9]]
