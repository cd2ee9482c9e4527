"""Beam search: the worked numbers of the card, and lookahead that is really scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import BeamSearch, BestOf, Method, Searcher
from footfall.search.beam import best_indices, spread
from footfall.types import Judgement, SearchResult, Trajectory
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=1, max_tokens=100)


def solve(method: Method, n: int, p: float = 0.5, depth: int = 3, judge: SeesCoins | None = None) -> list[SearchResult]:
    return Searcher(Coins(p, depth), judge or SeesCoins(), method, params=PARAMS, separator="\n").solve(problems(n))


def accuracy(results: list[SearchResult]) -> float:
    return sum(right(r.chosen) for r in results) / len(results)


def test_card_check_1_survivors_and_the_next_live_list() -> None:
    survivors = best_indices([0.2, 0.9, 0.5, 0.7], 2)
    assert survivors == [1, 3]
    assert spread(survivors, 4) == [1, 3, 1, 3]


def test_beams_without_a_score_do_not_survive_and_ties_go_to_the_first() -> None:
    assert best_indices([None, 0.5, 0.5, 0.5], 2) == [1, 2]
    assert best_indices([None, None], 2) == []


@pytest.mark.long
def test_card_check_2_with_one_expansion_nothing_is_pruned() -> None:
    results = solve(BeamSearch(4, 1), 600)
    assert all(len(r.candidates) == 4 and not any(n.pruned for n in r.tree.nodes) for r in results if r.tree)
    assert accuracy(results) == pytest.approx(1 - (1 - 0.125) ** 4, abs=0.08), "as best-of-4"


def test_card_check_2_with_as_many_expansions_as_beams_one_survives() -> None:
    result = solve(BeamSearch(4, 4), 1)[0]
    kept = [decision.nodes for decision in result.decisions if decision.what == "kept"]
    assert [len(nodes) for nodes in kept] == [1, 1, 0]


@pytest.mark.long
def test_card_check_3_success_by_hand() -> None:
    beam, sampled = solve(BeamSearch(4, 4), 1000), solve(BestOf(4, "best"), 1000)
    assert accuracy(beam) == pytest.approx(0.8240, abs=4 * 0.012)
    assert accuracy(sampled) == pytest.approx(0.4138, abs=4 * 0.0156)
    assert [r.cost.generated_tokens for r in beam] == [r.cost.generated_tokens for r in sampled] == [120] * 1000


def test_the_lookahead_is_scored_and_then_thrown_away() -> None:
    judge = SeesCoins()
    result = solve(BeamSearch(2, 2, lookahead=1), 1, depth=4, judge=judge)[0]
    assert {len(text.splitlines()) for text in judge.texts} == {2, 3, 4}, "no step is judged without its lookahead"
    ahead = {i for i, n in enumerate(result.tree.nodes) if n.meta.get("role") == "lookahead"} if result.tree else set()
    assert ahead and result.chosen is not None and len(result.chosen.steps) == 4
    assert not any(set(d.nodes[1:]) & ahead for d in result.decisions if d.what in ("kept", "chosen"))


@dataclass
class OnlyLate(SeesCoins):
    """Sees that a trace is wrong only once it has three steps."""

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = super()._judge(trajectory)
        if len(trajectory.steps) >= 3:
            return said
        return Judgement(trajectory.id, (1.0,) * len(trajectory.steps), self.name)


@pytest.mark.long
def test_lookahead_helps_with_a_judge_that_sees_errors_late() -> None:
    """A wrong first or second step is seen only two steps or one step later."""
    plain = accuracy(solve(BeamSearch(4, 4), 300, judge=OnlyLate()))
    ahead = accuracy(solve(BeamSearch(4, 4, lookahead=2), 300, judge=OnlyLate()))
    assert ahead > plain + 0.3


def test_the_last_iteration_writes_to_the_end() -> None:
    results = solve(BeamSearch(4, 2, iterations=2), 20, depth=6)
    assert all(r.candidates and all(len(t.steps) == 6 for t, _ in r.candidates) for r in results)


def test_distinct_beams_drop_copies_of_a_text() -> None:
    result = solve(BeamSearch(8, 2, distinct=True), 1)[0]
    copies = [d for d in result.decisions if d.why == "the same text as another beam"]
    assert copies and all(d.what == "pruned" for d in copies)


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"n": 2, "expansions": 4}, {"lookahead": -1}, {"iterations": 0}):
        with pytest.raises(ValueError, match="beam search needs"):
            BeamSearch(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no rule is called 'worst'"):
        BeamSearch(rule="worst")  # type: ignore[arg-type]


def _ids(results: Sequence[SearchResult]) -> list[str]:
    return [t.id for r in results for t, _ in r.candidates]


def test_copies_of_a_beam_diverge() -> None:
    result = solve(BeamSearch(16, 4), 1, p=0.5, depth=5)[0]
    assert result.tree is not None
    assert len(set(_ids([result]))) == len(result.candidates)
    for node in range(len(result.tree.nodes)):
        samples = [result.tree.nodes[child].meta["sample"] for child in result.tree.children(node)]
        assert len(set(map(str, samples))) == len(samples)
