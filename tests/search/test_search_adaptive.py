"""Instance-adaptive scaling: the worked numbers of the card, and samples that go where they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import AdaptiveBeam, AdaptiveBestOf, BestOf, Budget, Method, Searcher
from footfall.search.adaptive import beams_needed, expansions_needed, needed
from footfall.types import Judgement, SearchResult, Trajectory
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=1, max_tokens=100)


def test_card_check_1_samples_for_a_chance() -> None:
    assert [needed(p) for p in (0.99, 0.9, 0.7, 0.5, 0.3, 0.1, 0.05)] == [1, 2, 4, 7, 13, 44, 90]
    assert needed(0.0) == needed(1e-4) and needed(1.0) == 1


def test_card_check_2_beams() -> None:
    assert beams_needed([0.6, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1], 8, 8) == 1
    assert beams_needed([0.3, 0.25, 0.2, 0.1], 8, 8) == 3
    assert [needed(p) for p in (0.3, 0.25, 0.2)] == [13, 17, 21]
    assert beams_needed([0.1, 0.08, *[0.05] * 6], 8, 8) == 8


def test_card_check_2_expansions() -> None:
    assert [expansions_needed([0.9, p], 8, 8) for p in (0.6, 0.2, 0.05)] == [1, 3, 8]
    assert expansions_needed([0.05], 8, 99) == 12


@dataclass
class Chances(SeesCoins):
    """The exact chance of success of each prefix, and half of it as the cautious one."""

    p: float = 0.5
    depth: int = 3
    factor: float = 1.0

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = super()._judge(trajectory)
        values = tuple((v or 0.0) * self.p ** (self.depth - k) for k, v in enumerate(said.values, 1))
        return replace(said, values=values, aspects={"q10": tuple(self.factor * v for v in values)})


def solve(method: Method, n: int, p: float, factor: float = 1.0, budget: Budget | None = None) -> list[SearchResult]:
    searcher = Searcher(Coins(p), Chances(p=p, factor=factor), method, budget or Budget(), PARAMS, "\n")
    return searcher.solve(problems(n))


def accuracy(results: Sequence[SearchResult]) -> float:
    return sum(right(r.chosen) for r in results) / len(results)


def test_n_follows_from_the_first_steps() -> None:
    for result in solve(AdaptiveBestOf(64, pilot=4), 20, p=0.9):
        firsts = [r.steps[0].text for r, _ in result.candidates]
        note = next(d for d in result.decisions if d.what == "allotted")
        p = sum(v or 0.0 for v in note.values) / 4
        assert len(firsts) == min(needed(p), 64) and f"{len(firsts)} of 64" in note.why


def test_easy_problems_get_few_samples_and_hard_ones_all_that_there_are() -> None:
    assert {len(r.candidates) for r in solve(AdaptiveBestOf(16), 10, p=0.999)} == {1}
    assert {len(r.candidates) for r in solve(AdaptiveBestOf(16), 10, p=0.2)} == {16}


def test_a_cautious_aspect_gets_more_samples_than_a_trusting_one() -> None:
    trusting, cautious = (solve(AdaptiveBestOf(64), 30, p=0.9, factor=f) for f in (1.0, 0.3))
    spent = [sum(r.policy_cost.generated_tokens for r in results) for results in (trusting, cautious)]
    assert spent[0] < spent[1]


@pytest.mark.long
def test_confidence_is_kept_with_fewer_tokens_than_best_of_n() -> None:
    adaptive, full = solve(AdaptiveBestOf(32), 300, p=0.8), solve(BestOf(32, "best"), 300, p=0.8)
    assert accuracy(adaptive) >= 0.96 and accuracy(full) == 1.0
    spent = [sum(r.policy_cost.generated_tokens for r in results) for results in (adaptive, full)]
    assert spent[0] < 0.4 * spent[1]


def test_without_the_aspect_the_value_itself_is_used() -> None:
    searcher = Searcher(Coins(0.9), SeesCoins(), AdaptiveBestOf(8, pilot=2), params=PARAMS, separator="\n")
    assert all(1 <= len(r.candidates) <= 8 for r in searcher.solve(problems(10)))


@pytest.mark.long
@pytest.mark.parametrize("spare", ["beams", "expansions"])
def test_a_sparing_beam_search_keeps_accuracy_with_fewer_tokens(spare: str) -> None:
    full = solve(AdaptiveBeam(16, 4, confidence=1 - 1e-15), 100, p=0.8)
    sparing = solve(AdaptiveBeam(16, 4, spare), 100, p=0.8)  # type: ignore[arg-type]
    assert accuracy(sparing) >= 0.95
    spent = [sum(r.policy_cost.generated_tokens for r in results) for results in (sparing, full)]
    assert spent[0] < 0.8 * spent[1]


def test_in_between_decisions_each_beam_gets_one_sample() -> None:
    result = solve(AdaptiveBeam(4, 2, every=2, confidence=1 - 1e-15), 1, p=0.5)[0]
    assert result.tree is not None
    depths = [len(result.tree.path(i)) for i in range(len(result.tree.nodes))]
    assert [depths.count(k) for k in (1, 2, 3)] == [4, 4, 4], "four, one each, then the two kept twice"


@pytest.mark.parametrize("method", [AdaptiveBestOf(8), AdaptiveBeam(8, 4)])
def test_a_budget_is_kept(method: Method) -> None:
    for result in solve(method, 20, p=0.5, budget=Budget(tokens=70)):
        assert result.policy_cost.generated_tokens <= 70 + 30


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"n": 2, "pilot": 4}, {"confidence": 1.0}, {"pilot": 0}):
        with pytest.raises(ValueError, match="adaptive best-of-n needs"):
            AdaptiveBestOf(**wrong)
    with pytest.raises(ValueError, match="adaptive beam search needs"):
        AdaptiveBeam(every=0)
    with pytest.raises(ValueError, match="spare is"):
        AdaptiveBeam(spare="time")  # type: ignore[arg-type]
