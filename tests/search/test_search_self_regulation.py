"""Self-regulation: the worked numbers of the card, and asking in a search."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import Searcher, SelfRegulation
from footfall.search.self_regulation import Plan, Table, plan, plan_within, state_of, transitions
from footfall.types import Judgement, Reason, SearchResult, Trajectory, Unjudged
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=4, max_tokens=100)
CARD = Table(
    moves={
        ("s0", False): {"s1": 0.5, "fail": 0.5},
        ("s0", True): {"s1": 0.9, "fail": 0.1},
        ("s1", False): {"won": 0.6, "fail": 0.4},
        ("s1", True): {"won": 0.8, "fail": 0.2},
    },
    worth={"won": 1.0, "fail": 0.0, "s0": 0.3, "s1": 0.6},
    starts={"s0": 1.0},
)


def solve(method: SelfRegulation, n: int = 300) -> list[SearchResult]:
    searcher = Searcher(
        Coins(0.6, 3),
        SeesCoins(),
        method,
        params=PARAMS,
        separator="\n",
        helpers={"large": Coins(0.95, 3, name="large")},
    )
    return searcher.solve(problems(n))


def asked(results: list[SearchResult]) -> list[int]:
    return [sum(d.what == "asked" for d in r.decisions) for r in results]


class Mute(SeesCoins):
    """Has no word on the first step, so that no path has all its values."""

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = super()._judge(trajectory)
        reasons = (Unjudged(Reason.UNREADABLE, "babble"), *[None] * (len(said.values) - 1))
        return replace(said, values=(None, *said.values[1:]), failures=reasons)


def test_the_one_path_is_the_answer_though_a_step_of_it_has_no_value() -> None:
    searcher = Searcher(Coins(0.6, 3), Mute(), SelfRegulation("never"), params=PARAMS, separator="\n")
    results = searcher.solve(problems(20))
    assert all(result.answer in ("0", "1") and result.scores == (None,) for result in results)


@pytest.mark.parametrize(
    ("price", "ask", "usage", "success"),
    [(0.1, {"s0", "s1"}, 1.9, 0.72), (0.22, {"s0"}, 1.0, 0.54), (0.25, set(), 0.0, 0.3)],
)
def test_card_check_1_plans_by_price(price: float, ask: set[str], usage: float, success: float) -> None:
    found = plan(CARD, price)
    assert found.ask == ask
    assert (found.usage, found.success) == pytest.approx((usage, success))


def test_card_check_1_one_request_is_best_spent_at_the_start() -> None:
    found = plan_within(CARD, 1.0)
    assert found.ask == {"s0"} and found.price == pytest.approx(0.2)
    assert plan_within(CARD, 2.0) == plan(CARD, 0.0)
    assert plan_within(CARD, 0.0).ask == frozenset()


def test_card_check_2_usage_and_success_fall_with_the_price() -> None:
    plans = [plan(CARD, price) for price in np.linspace(0, 1, 41)]
    assert plans[0].ask == {"s0", "s1"}
    assert all(a.usage >= b.usage and a.success >= b.success for a, b in pairwise(plans))


def test_card_check_3_simulation_of_the_plan_gives_the_planned_figures() -> None:
    found, rng = plan(CARD, 0.1), np.random.default_rng(0)
    runs = [_run(found, rng) for _ in range(4000)]
    assert np.mean([won for won, _ in runs]) == pytest.approx(found.success, abs=0.03)
    assert np.mean([requests for _, requests in runs]) == pytest.approx(found.usage, abs=0.03)


def _run(found: Plan, rng: np.random.Generator) -> tuple[bool, int]:
    state, requests = "s0", 0
    while (state, False) in CARD.moves:
        requests += state in found.ask
        row = CARD.moves[state, state in found.ask]
        state = str(rng.choice([str(name) for name in row], p=list(row.values())))
    return state == "won", requests


def test_an_unseen_continuation_is_worth_the_judges_value_and_asking_untried_is_no_option() -> None:
    table = Table({("s0", True): {"won": 0.5, "fail": 0.5}}, {"won": 1.0, "fail": 0.0, "s0": 0.3}, {"s0": 1.0})
    assert plan(table, 0.1) == Plan(0.1, frozenset({"s0"}), 1.0, 0.5)
    assert plan(table, 0.3) == Plan(0.3, frozenset(), 0.0, 0.3)
    untried = Table({("s0", False): {"won": 0.1, "fail": 0.9}}, {"won": 1.0, "fail": 0.0, "s0": 0.3}, {"s0": 1.0})
    assert plan(untried, 0.0).ask == frozenset()


def test_states_are_steps_and_bins() -> None:
    assert [state_of(2, value, 10) for value in (None, 0.0, 0.55, 1.0)] == [(2, -1), (2, 0), (2, 5), (2, 9)]


def test_always_never_and_the_cap() -> None:
    always, never, capped = (
        solve(SelfRegulation(rule, cap=cap, helper="large", width=1))  # type: ignore[arg-type]
        for rule, cap in (("always", None), ("never", None), ("always", 1))
    )
    assert set(asked(always)) == {3} and set(asked(never)) == {0} and set(asked(capped)) == {1}
    rates = [sum(right(r.chosen) for r in results) / 300 for results in (always, never, capped)]
    assert rates == pytest.approx([0.95**3, 0.6**3, 0.95 * 0.36], abs=0.1)


@pytest.mark.long
def test_help_may_be_more_samples_of_the_same_policy() -> None:
    results = solve(SelfRegulation("always", width=4), 300)
    assert sum(right(r.chosen) for r in results) / 300 == pytest.approx((1 - 0.4**4) ** 3, abs=0.06)


def test_a_threshold_asks_where_the_value_is_low_and_not_at_the_empty_prefix() -> None:
    results = solve(SelfRegulation("threshold", below=0.5, helper="large", width=1), 100)
    for result in results:
        assert result.chosen is not None
        wrong = [i for i, step in enumerate(result.chosen.steps) if "wrong" in step.text]
        assert sum(d.what == "asked" for d in result.decisions) == (2 - wrong[0] if wrong else 0)


@pytest.mark.long
def test_a_plan_from_random_requests_spends_them_where_they_help() -> None:
    table = transitions(solve(SelfRegulation("random", rate=0.5, helper="large", width=1), 600))
    assert table.moves[(0, -1), True][1, 9] == pytest.approx(0.95, abs=0.05)
    found = plan_within(table, 1.5)
    results = solve(SelfRegulation("plan", ask=found.ask, helper="large", width=1), 300)
    assert np.mean(asked(results)) == pytest.approx(found.usage, abs=0.15)
    assert sum(right(r.chosen) for r in results) / 300 == pytest.approx(found.success, abs=0.1)
    lost = [state for state in found.ask if isinstance(state, tuple) and state[1] == 0]
    assert not lost  # after an error there is nothing to win


def test_settings_that_cannot_be_are_refused_and_a_plan_is_in_the_name() -> None:
    with pytest.raises(ValueError, match="no rule is called 'maybe'"):
        SelfRegulation("maybe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the rule plan needs the states to ask in"):
        SelfRegulation("plan")
    one, other = (SelfRegulation("plan", ask=frozenset({state})).name for state in ((0, -1), (1, 5)))
    assert one != other
