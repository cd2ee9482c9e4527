"""Self-PRM: the worked numbers of the card, and a policy that checks itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from footfall.judging import Bound, traits
from footfall.metrics.steps import first_error_f1
from footfall.policy.protocol import Completion, Finish, SamplingParams
from footfall.search import BestOf, Searcher, SelfCheck, SelfPRM
from footfall.search.self_prm import flawless, passing, passing_vote
from footfall.types import AFTER_ERROR, Judgement, Problem, Reason, Step, Trajectory, Unjudged
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, OpRates
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=2, max_tokens=100)
NEVER = OpRates(0, 0, 0, 0)


def test_card_check_1_f1_of_a_judge_that_finds_4_of_10_errors_and_passes_9_of_10_right_ones() -> None:
    labels = [3] * 10 + [-1] * 10
    said = [3] * 4 + [-1] * 6 + [-1] * 9 + [0]
    assert first_error_f1(labels, said).f1 == pytest.approx(0.553846, abs=1e-6)
    assert first_error_f1(labels, [-1] * 20).f1 == 0


def test_card_check_2_the_passing_set_votes() -> None:
    answers, rewards = ["5", "5", "5", "7", "7", "9"], [0.0, 0.0, 1.0, 1.0, 1.0, 0.0]
    assert passing(rewards) == [2, 3, 4]
    assert passing_vote(answers, rewards).winner == 3
    assert passing_vote(answers, [0.0] * 6).winner == 0  # nobody passes: all vote
    assert passing_vote(answers, [None] * 6).winner == 0


def test_votes_of_several_checks_are_shares_and_the_highest_share_passes() -> None:
    assert passing([0.25, 0.75, None, 0.75]) == [1, 3]
    assert passing_vote([None, "4"], [1.0, 0.5]).winner == 1  # who passes has no answer


def test_the_reward_is_the_share_of_checks_that_name_no_step() -> None:
    assert flawless(Judgement("t", (1.0, 0.0, None), "critic", failures=(None, None, AFTER_ERROR))) == 0.0
    assert flawless(Judgement("t", (1.0, 1.0), "critic")) == 1.0
    assert flawless(Judgement("t", (1.0, 0.0), "critic", aspects={"named": (0.25, 0.5)})) == 0.25
    assert flawless(Judgement("t", (None, None), "critic", failures=(Unjudged(Reason.CUT, "cut"),) * 2)) is None
    assert flawless(None) is None


@pytest.mark.parametrize("pick", ["majority", "first", "random"])
def test_a_flawless_solution_is_taken_wherever_there_is_one(pick: str) -> None:
    method = SelfPRM(8, pick)  # type: ignore[arg-type]
    results = Searcher(Coins(0.4, 3), SeesCoins(), method, params=PARAMS, separator="\n").solve(problems(60))
    assert {right(r.chosen) for r in results} == {True, False}
    assert all(right(r.chosen) == any(right(t) for t, _ in r.candidates) for r in results)


def test_a_policy_without_errors_finds_every_first_error_of_another() -> None:
    world, careful = ArithmeticWorld(), ArithmeticPolicy(NEVER, NEVER, NEVER, recover=0.0)
    traces = [trace for _, trace in world.traces(ArithmeticPolicy(recover=0.0), 80, 1)]
    said = SelfCheck(careful, votes=2, params=PARAMS).judge(traces)
    firsts = [world.first_error(trace) for trace in traces]
    assert {first < 0 for first in firsts} == {True, False}
    assert [j.first_below(0.5) for j in said] == firsts
    assert [flawless(j) for j in said] == [float(first < 0) for first in firsts]
    assert all(j.cost.generated_tokens > 0 for j in said)


def test_checks_are_fresh_and_err_where_the_writer_errs() -> None:
    world, writer = ArithmeticWorld(), ArithmeticPolicy()
    traces = [trace for _, trace in world.traces(writer, 60, 1)]
    rewards = [
        flawless(j) for j in SelfCheck(writer, votes=8, params=SamplingParams(seed=1, max_tokens=64)).judge(traces)
    ]
    passed = [reward for trace, reward in zip(traces, rewards, strict=True) if trace.correct]
    failed = [reward for trace, reward in zip(traces, rewards, strict=True) if not trace.correct]
    assert 0.3 < sum(map(float, passed)) / len(passed) < 1  # type: ignore[arg-type]
    assert 0 < sum(map(float, failed)) / len(failed) < 0.3  # type: ignore[arg-type]


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        SelfPRM(0)
    with pytest.raises(ValueError, match='"first" or "random"'):
        SelfPRM(4, "last")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one check"):
        SelfCheck(Coins(), 0)


def test_a_check_writes_no_more_than_it_says() -> None:
    writer = ArithmeticPolicy(NEVER)
    checker = SelfCheck(writer, votes=3, params=SamplingParams(seed=1, max_tokens=64))
    at_most = traits(checker).at_most
    assert at_most is not None
    assert at_most(2) == Bound(tokens=2 * 3 * 64, calls=2 * 3) and at_most(None) is None
    found = Searcher(writer, None, BestOf(2, "majority"), params=PARAMS, separator="\n").solve(
        ArithmeticWorld().problems(3, 1, split="test")
    )
    for candidate in (candidate for result in found for candidate in result.candidates):
        (said,), most = checker.judge([candidate.trajectory]), at_most(len(candidate.trajectory.steps))
        assert most is not None and said.cost.generated_tokens <= most.tokens and said.cost.calls == most.calls


def test_checks_that_all_name_a_step_leave_nothing_and_equal_shares_are_equal() -> None:
    assert flawless(Judgement("t", (0.0, 0.0), "critic", aspects={"named": (1 / 6, 5 / 6)})) == 0.0
    sixths = (1 / 6,) * 6  # added up they are less than 1 by the last digit
    assert flawless(Judgement("t", (0.0,) * 6, "critic", aspects={"named": sixths})) == 0.0
    split, whole = (Judgement("t", (0.0,) * 3, "critic", aspects={"named": n}) for n in ((0.2,) * 3, (0.6, 0.0, 0.0)))
    assert flawless(split) == flawless(whole) == 0.4
    unread = Judgement("t", (None,), "critic", aspects={"named": (None,)})
    assert flawless(unread) is None


class Fails:
    """A checker that does each step again; some of its calls fail, or are cut in the step."""

    name = "fails"

    def __init__(self, finishes: Sequence[Finish]) -> None:
        self.finishes = finishes

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = PARAMS, first: int = 0
    ) -> list[list[Completion]]:
        return [
            [self._said(prefix, first + k, how) for k, how in zip(range(n), self.finishes, strict=True)]
            for prefix in prefixes
        ]

    def _said(self, prefix: Trajectory, index: int, how: Finish) -> Completion:
        text = f"{1 + len(prefix.steps)}" if how == "step" else "9"
        return Completion((Step(text),) if how != "error" else (), how, index, error="gone" if how == "error" else None)


def test_a_check_whose_call_failed_or_was_cut_is_no_error_found() -> None:
    trace = Trajectory("t", Problem("p", "Count.", "2"), (Step("1"), Step("2")))
    (said,) = SelfCheck(Fails(("step", "error", "length", "step")), votes=4, params=PARAMS).judge([trace])
    assert said.values == (1.0, 1.0) and said.aspects["named"] == (0.0, 0.0) and flawless(said) == 1.0
    (silent,) = SelfCheck(Fails(("error", "error")), votes=2, params=PARAMS).judge([trace])
    assert silent.values == (None, None) and flawless(silent) is None
    assert [why and why.reason for why in silent.failures] == [Reason.FAILED_CALL] * 2
