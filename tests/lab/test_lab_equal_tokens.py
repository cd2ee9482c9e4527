"""Equal tokens are those that the policy writes and those that the judge reads, on both sides of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest

from footfall.lab.recipe import Outcome, Trial, find, load_measure
from footfall.lab.shared import searches
from footfall.lab.shared.searches import AGGREGATION, JUDGES, READINGS, WIDTHS, Compared, compared
from footfall.search import DVTS, BeamSearch
from footfall.types import Cost, Judged, Judgement, Problem, SearchResult, Step, Trajectory

TRIAL = Trial(1, True, Path())
PROBLEM = Problem("p", "two and two", "4")


@dataclass
class Fixed:
    """Reads a trace for `price` tokens, and values later samples above earlier ones."""

    price: int
    name: str = "fixed"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        cost = Cost(scored_tokens=self.price)
        return [Judgement(t.id, (float(t.id),), self.name, cost=cost) for t in trajectories]


def five_samples() -> SearchResult:
    """Ten tokens each; the last two are right."""
    traces = [
        Trajectory(str(i), PROBLEM, (Step(f"#### {i}"),), answer=str(i), correct=i >= 3, cost=Cost(generated_tokens=10))
        for i in range(5)
    ]
    return SearchResult(PROBLEM, "0", traces[0], tuple(Judged(t, None) for t in traces))


def test_best_of_n_pays_for_its_judging_too() -> None:
    sample = five_samples()
    bought = {price: len(searches.affordable(sample, Fixed(price), 40)) for price in (0, 1, 10, 40)}
    assert bought == {0: 4, 1: 4, 10: 2, 40: 1}, "rounded up: a sample costs ten tokens and its judging"
    assert searches.best_of_n([sample], Fixed(0), [40]) == [1.0]
    assert searches.best_of_n([sample], Fixed(10), [40]) == [0.0], "the right ones are not paid for"


def test_too_few_samples_are_an_error_that_says_so() -> None:
    with pytest.raises(
        ValueError, match="5 samples take 100 tokens with their judging, 101 are to be spent; draw more"
    ):
        searches.affordable(five_samples(), Fixed(10), 101)


@pytest.fixture(scope="module")
def grid() -> Compared:
    return compared(TRIAL, "beam", lambda n, m: BeamSearch(n, m, AGGREGATION), searches.problems(TRIAL, 4))


@pytest.mark.long
def test_every_width_and_judge_is_there_and_an_arm_without_a_width_is_their_mean(grid: Compared) -> None:
    for judge in JUDGES:
        for reading in READINGS:
            for arm in ("beam", "best-of-N", "lead"):
                each = [grid.arms[f"{arm}, N = {n}, {judge}{reading}"] for n in WIDTHS]
                assert grid.arms[f"{arm}, {judge}{reading}"] == [fmean(row) for row in zip(*each, strict=True)]
            sides = zip(grid.arms[f"beam, {judge}{reading}"], grid.arms[f"best-of-N, {judge}{reading}"], strict=True)
            assert grid.arms[f"lead, {judge}{reading}"] == pytest.approx([a - b for a, b in sides])


@pytest.mark.long
def test_what_a_judge_reads_is_counted_and_does_not_change_the_search(grid: Compared) -> None:
    for judge in JUDGES:
        for n in WIDTHS:
            kept, again = (grid.arms[f"tokens, N = {n}, {judge}{reading}"] for reading in READINGS)
            written = [r.cost.generated_tokens for r in grid.found[judge, n]]
            assert all(w < k < a for w, k, a in zip(written, kept, again, strict=True))
            assert grid.arms[f"beam, N = {n}, {judge}"] == grid.arms[f"beam, N = {n}, {judge}, re-reading"]


@pytest.mark.long
def test_judges_differ_in_nothing_but_the_share_of_flipped_verdicts(grid: Compared) -> None:
    traces = [trace for result in grid.samples for trace, _ in result.candidates]
    truth, *flipped = (
        [v for said in searches.flipped(TRIAL, rate).judge(traces) for v in said.values] for rate in JUDGES.values()
    )
    for rate, said in zip(list(JUDGES.values())[1:], flipped, strict=True):
        wrong = fmean(a != b for a, b in zip(truth, said, strict=True))
        assert wrong == pytest.approx(rate, abs=0.06)


def test_the_widths_are_those_that_dvts_permits_too() -> None:
    assert [DVTS(n, m).n for n, m in WIDTHS.items()] == [4, 8, 16]


@pytest.fixture(scope="module")
def mcts(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return load_measure(find("mcts"))(Trial(1, True, tmp_path_factory.mktemp("mcts")))


@pytest.mark.long
@pytest.mark.parametrize(
    ("arm", "paid"),
    [("MCTS", "best-of-N"), ("MCTS, exact, re-reading", "best-of-N, exact, re-reading"), ("MCTS, tokens of DVTS", "DVTS")],
)  # fmt: skip
def test_the_budget_of_mcts_is_what_the_other_side_wrote_and_read(mcts: Outcome, arm: str, paid: str) -> None:
    written = mcts.values("tokens, majority vote")
    assert all(w < p for w, p in zip(written, mcts.values("tokens, best-of-N"), strict=True)), (
        "the judge's part is in it"
    )
    step = 32 + 200
    for spent, most in zip(mcts.values(f"tokens, {arm}"), mcts.values(f"tokens, {paid}"), strict=True):
        assert 0.8 * most <= spent <= most + step, "all of it, and no more than the step in flight beyond"


@pytest.mark.parametrize("name", ["beam-search", "dvts", "mcts"])
def test_a_claim_of_equal_tokens_states_what_is_counted(name: str) -> None:
    judged = [c for c in find(name).recipe.claims if "equal tokens" in c.claim and "without a judge" not in c.claim]
    assert judged and all("tokens written" in c.metric and "read" in c.metric for c in judged)
