"""Consensus, agreement and the noisy judge: the card's cases, textbook kappas, and rates that are those asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.benchmarks import processbench
from footfall.judging import forget
from footfall.lab.shared.cases import figures
from footfall.label.consensus import (
    Consensus,
    Rule,
    agreement,
    cohen_kappa,
    combine_step,
    confusion,
    consensus,
    first_error,
    verdicts,
)
from footfall.label.monte_carlo import EntropyRegularised, MonteCarlo
from footfall.label.pav import pav
from footfall.metrics.cases import Case
from footfall.search.votes import aggregate
from footfall.simulate import Noisy, noisy
from footfall.types import Cost, Judgement, Reason, Trajectory, Unjudged, failures_of
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge
from tests.label.scripted_policy import successes, trace

WORLD = ArithmeticWorld()
FIVE = trace("One.", "Two.", "Three.", "Four.", "Five.")


@dataclass(frozen=True)
class Says:
    """A judge that says the same of every trace."""

    values: tuple[float | None, ...]
    name: str = "says"
    reason: str = "timeout"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        why = Unjudged(Reason.FAILED_CALL, self.reason)
        told = failures_of(why if value is None else None for value in self.values)
        return [Judgement(t.id, self.values, self.name, failures=told, cost=Cost(calls=1)) for t in trajectories]


def at(error: int, steps: int = 5) -> Says:
    """A critic that names step `error` (from 0; -1: none) and says nothing of those after it."""
    values = [1.0 if error < 0 or k < error else 0.0 if k == error else None for k in range(steps)]
    return Says(tuple(values), reason="after the first error")


def filtered(*judges: Says | MonteCarlo) -> Judgement:
    return Consensus(judges).judge([FIVE])[0]


def test_the_filter_keeps_a_trace_on_whose_first_error_both_agree() -> None:
    monte_carlo = MonteCarlo(successes(8, 6, 3, 0, 0), rollouts=8, estimate="hard", until="first-error")
    assert [x.first_below(0.5) for x in monte_carlo.judge([FIVE])] == [3]
    kept = filtered(monte_carlo, at(3))
    assert kept.values == (1.0, 1.0, 1.0, 0.0, None)
    assert kept.failures == (None, None, None, None, "after the first error")
    dropped = filtered(monte_carlo, at(2))
    assert dropped.values == (None,) * 5
    assert set(dropped.failures) == {"the judges differ: judge 1 finds step 4 wrong, judge 2 finds step 3 wrong"}
    assert kept.cost.calls == dropped.cost.calls == 8 * 4 + 1


def test_f1_of_the_cards_five_predictions() -> None:
    truth, said = ([at(e).judge([FIVE])[0] for e in errors] for errors in ((2, 1, 0, -1, -1), (2, -1, 0, -1, 3)))
    (row,) = figures(processbench.measure, [Case("card", FIVE, each) for each in truth], said).values()
    assert (row["acc_err"], row["acc_cor"], row["f1"]) == pytest.approx((0.6667, 0.5, 0.5714), abs=5e-5)


def test_scores_of_the_cards_three_steps() -> None:
    found = [aggregate((0.9, 0.8, 0.95), how) for how in ("prod", "min", "last")]
    assert found == pytest.approx([0.684, 0.8, 0.95])


def test_two_judges_who_find_nothing_agree() -> None:
    assert filtered(at(-1), at(-1)).values == (1.0,) * 5


def test_a_judge_that_fails_is_no_agreement() -> None:
    silent = filtered(at(-1), Says((1.0, None, 1.0, 1.0, 1.0)))
    assert silent.values == (None,) * 5
    assert silent.failures[0] == "the judges differ: judge 1 finds no error, judge 2 cannot say (timeout)"


@given(st.integers(-1, 4), st.integers(-1, 4))
def test_the_filter_only_removes(first: int, second: int) -> None:
    kept = filtered(at(first), at(second))
    assert kept.values == (at(first).values if first == second else (None,) * 5)


@pytest.mark.parametrize(
    ("rule", "votes", "together"),
    [
        ("and", (True, True), True),
        ("and", (True, False), False),
        ("and", (True, None), None),
        ("and", (False, None), False),
        ("or", (False, True), True),
        ("or", (None, True), True),
        ("or", (None, False), None),
        ("or", (False, False), False),
        ("majority", (True, True, False), True),
        ("majority", (True, False), None),
        ("majority", (False, None, None), False),
        ("majority", (None, None), None),
    ],
)
def test_rules_for_a_step(rule: Rule, votes: tuple[bool | None, ...], together: bool | None) -> None:
    assert combine_step(votes, rule) is together


def test_too_little_agreement_is_no_label_and_says_who_said_what() -> None:
    assert combine_step((True, True, False), "majority", min_agreement=0.6) is True
    assert combine_step((True, True, False), "majority", min_agreement=0.7) is None
    assert combine_step((False, None, None), "majority", min_agreement=0.5) is None
    judges = (Says((1.0, 0.9)), Says((0.0, 0.6)), Says((None, 0.7)))
    (said,) = Consensus(judges, "majority", min_agreement=0.5).judge([trace("One.", "Two.")])
    assert said.values == (None, 1.0)
    assert said.failures[0] == "the judges differ: judge 1 says good, judge 2 says bad, judge 3 cannot say (timeout)"
    assert said.aspects["judge 2"] == (0.0, 0.6)


def test_each_judge_has_its_own_threshold() -> None:
    two = (Says((0.3, 0.3)), Says((0.3, 0.3)))
    (said,) = Consensus(two, "and", thresholds=(0.1, 0.2)).judge([trace("One.", "Two.")])
    assert said.values == (1.0, 1.0)
    for wrong in ({"thresholds": (0.5,)}, {"min_agreement": 2.0}):
        with pytest.raises(ValueError, match=r"thresholds for 2 judges|share of the judges"):
            Consensus(two, "and", **wrong)
    with pytest.raises(ValueError, match="at least two"):
        Consensus(two[:1])


def test_consensus_of_named_judges() -> None:
    policy = ArithmeticPolicy()
    judge = consensus(policy, "monte-carlo, omegaprm,truth-arithmetic", rule="majority")
    assert [type(j).__name__ for j in judge.judges] == ["MonteCarlo", "BinarySearch", "TruthJudge"]
    assert "hard" in judge.judges[0].name
    with pytest.raises(KeyError, match="nobody"):
        consensus(policy, "monte-carlo,nobody")


class Remembering(ArithmeticPolicy):
    """Counts how often it was told to forget."""

    forgot: list[int] = []  # noqa: RUF012

    def forget(self) -> None:
        self.forgot.append(1)


def test_judges_made_of_judges_pass_on_that_caches_are_dropped() -> None:
    policy = Remembering()
    monte_carlo = MonteCarlo(policy)
    for judge in (Consensus((monte_carlo, at(1))), EntropyRegularised(monte_carlo), Noisy(monte_carlo), pav(policy)):
        policy.forgot.clear()
        forget(judge)
        assert policy.forgot == [1], judge.name


def test_kappa_of_textbook_tables() -> None:
    """Two readers of 50 grant proposals: 20 both yes, 5 and 10 mixed, 15 both no gives kappa 0.4."""
    a = [True] * 25 + [False] * 25
    b = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    assert cohen_kappa(a, b) == pytest.approx(0.4)
    assert confusion(a, b) == {(True, True): 20, (True, False): 5, (False, True): 10, (False, False): 15}
    assert cohen_kappa([1, 2, 3], [1, 2, 3]) == 1 and cohen_kappa([True, False], [False, True]) == -1
    assert cohen_kappa([], []) is None and cohen_kappa([True], [True]) is None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1))
def test_kappa_is_symmetric_and_at_most_one(pairs: list[tuple[int, int]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    kappa = cohen_kappa(a, b)
    assert kappa == cohen_kappa(b, a) and (kappa is None or kappa <= 1)


def test_agreement_counts_steps_both_have_judged_and_lists_the_differences() -> None:
    traces = [trace("One.", "Two.", "Three.", id=name) for name in ("t1", "t2")]
    a = [*Says((0.9, 0.2, None), "a").judge(traces[:1]), *Says((0.9, 0.8, 0.7), "a").judge(traces[1:])]
    b = [*Says((0.8, 0.6, 0.1), "b").judge(traces[:1]), *Says((0.9, 0.9, 0.9), "b").judge(traces[1:])]
    found = agreement(traces, a, b)
    assert (found.judges, found.steps, found.silent) == (("a", "b"), 5, 1)
    assert found.observed == 0.8 and found.kappa == pytest.approx(0.0)
    assert found.table == {(True, True): 4, (True, False): 0, (False, True): 1, (False, False): 0}
    assert [d[:3] + (d.a, d.b) for d in found.differences] == [("t1", 1, "Two.", 0.2, 0.6)]
    assert (found.traces, found.same_first_error) == (2, 0.5)
    assert verdicts(a[0]) == (True, False, None)
    assert [first_error(v) for v in ((True, False, None), (True, True), (None, False))] == [1, -1, None]
    nothing = agreement([], [], [])
    assert nothing.observed is nothing.kappa is nothing.same_first_error is None


def test_the_agreements_of_a_consensus_are_those_of_its_pairs() -> None:
    judges = (at(3), at(3), at(1))
    whole = Consensus(judges)
    pairs = whole.agreements([FIVE], [judge.judge([FIVE]) for judge in judges])
    assert [pair.same_first_error for pair in pairs] == [1.0, 0.0, 0.0]


TRACES = [t for _, t in WORLD.traces(ArithmeticPolicy(), 300, seed=7)]


@pytest.mark.parametrize(("positive", "negative"), [(0.0, 0.0), (0.3, 0.1), (1.0, 1.0)])
def test_the_noisy_judge_errs_as_often_as_asked(positive: float, negative: float) -> None:
    truth = TruthJudge().judge(TRACES)
    said = noisy(positive, negative, seed=2).judge(TRACES)
    pairs = [p for t, s in zip(truth, said, strict=True) for p in zip(t.values, s.values, strict=True)]
    for true, rate in ((0.0, positive), (1.0, negative)):
        flips = [heard != right for right, heard in pairs if right == true]
        error = math.sqrt(rate * (1 - rate) / len(flips))
        assert len(flips) > 200 and abs(sum(flips) / len(flips) - rate) <= 4 * error


def test_noise_depends_on_seed_and_content_alone() -> None:
    judge = Noisy(false_positive=0.4, false_negative=0.4, seed=1)
    together = [j.values for j in judge.judge(TRACES[:20])]
    assert [judge.judge([t])[0].values for t in TRACES[:20]] == together
    assert [j.values for j in Noisy(false_positive=0.4, false_negative=0.4, seed=2).judge(TRACES[:20])] != together
    assert judge.judge([TRACES[0].prefix(2)])[0].values == together[0][:2], "what comes later changes nothing"


def test_a_silent_judge_says_so_and_an_unlabelled_step_stays_unlabelled() -> None:
    (said,) = Noisy(silent=1.0).judge(TRACES[:1])
    assert set(said.values) == {None} and set(said.failures) == {"the noisy judge is silent"}
    (said,) = Noisy(Says((None, 1.0)), 0.0, 0.0).judge([trace("One.", "Two.")])
    assert said.values == (None, 1.0) and said.failures == ("timeout", None)
    with pytest.raises(ValueError, match="silent is a probability, not 2"):
        Noisy(silent=2)


def test_agreeing_noisy_judges_are_right_more_often_than_each_alone() -> None:
    def accuracy(said: list[Judgement]) -> float:
        pairs = [p for t, s in zip(truth, said, strict=True) for p in zip(t.values, s.values, strict=True)]
        known = [right == heard for right, heard in pairs if heard is not None]
        return sum(known) / len(known)

    truth = TruthJudge().judge(TRACES)
    a, b = (Noisy(false_positive=0.2, false_negative=0.2, seed=seed) for seed in (1, 2))
    both = Consensus((a, b), "majority", min_agreement=1.0).judge(TRACES)
    assert accuracy(both) > 0.9 > max(accuracy(a.judge(TRACES)), accuracy(b.judge(TRACES)))
