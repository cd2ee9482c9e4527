"""DVTS: the worked numbers of the card."""

from __future__ import annotations

import numpy as np
import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import DVTS, BestOf, Method, Searcher
from footfall.types import SearchResult
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=2, max_tokens=100)


def solve(method: Method, n: int, p: float = 0.3, depth: int = 3) -> list[SearchResult]:
    return Searcher(Coins(p, depth), SeesCoins(), method, params=PARAMS, separator="\n").solve(problems(n))


def test_card_check_1_outputs_are_the_last_siblings_subtree_by_subtree() -> None:
    result = solve(DVTS(8, 4), 1)[0]
    assert result.tree is not None and len(result.candidates) == 8
    nodes = [int(t.id.rpartition("#")[2]) for t, _ in result.candidates]
    parents = [result.tree.nodes[node].parent for node in nodes]
    assert parents == [parents[0]] * 4 + [parents[4]] * 4 and parents[0] != parents[4]


@pytest.mark.long
def test_card_check_2_with_one_expansion_it_is_best_of_n() -> None:
    results = solve(DVTS(4, 1), 600, p=0.5)
    assert all(len(r.candidates) == 4 for r in results)
    assert sum(right(r.chosen) for r in results) / 600 == pytest.approx(1 - (1 - 0.125) ** 4, abs=0.08)


def test_card_check_2_with_as_many_expansions_as_samples_it_is_one_greedy_path() -> None:
    result = solve(DVTS(4, 4), 1)[0]
    assert [len(d.nodes) for d in result.decisions if d.what == "kept"] == [1, 1, 1]


@pytest.mark.long
def test_card_check_3_subtrees_succeed_independently() -> None:
    results = solve(DVTS(16, 4), 800)
    each = np.array([[any(right(t) for t, _ in r.candidates[g : g + 4]) for g in (0, 4, 8, 12)] for r in results])
    assert each.mean() == pytest.approx(0.438803, abs=4 * 0.0088)
    assert sum(right(r.chosen) for r in results) / 800 == pytest.approx(0.900811, abs=4 * 0.0106)
    between = np.corrcoef(each.T.astype(float))[np.triu_indices(4, 1)]
    assert np.abs(between).max() < 0.15


def test_it_costs_what_best_of_n_costs() -> None:
    spent = [r.cost.generated_tokens for r in solve(DVTS(8, 4), 5)]
    assert spent == [r.cost.generated_tokens for r in solve(BestOf(8, "best"), 5)] == [240] * 5


def test_n_must_be_a_multiple_of_the_expansions() -> None:
    with pytest.raises(ValueError, match="multiple of expansions, not 6 and 4"):
        DVTS(6, 4)
