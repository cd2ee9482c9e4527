"""Early rejection: beam search that judges the beginning of a step and finishes the survivors' only (card: early-rejection).

Of each of N candidate steps at most τ tokens are written; the judge scores what there is, the best N/M are kept, and only
their steps are finished. With steps of L tokens an iteration costs N τ + (N/M)(L - τ) tokens instead of N L. A survivor's score
stays that of its fragment: the judge reads no step twice.

What a fragment tells (sums of independent token terms; scores with sub-Gaussian noise σ and a gap Δ before the best):

    corr(fragment, step) = √(τ/L),      P(the best is rejected) ≤ (N-1) exp(-Δ² / (4 σ²))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from footfall.drive.requests import BudgetSpent
from footfall.policy.resuming import unfinished
from footfall.registry import Declared, register, search_row
from footfall.search.beam import keep_best, rounds, spread
from footfall.search.state import Course, Requests, SearchState, described
from footfall.search.votes import Aggregation, Rule, check_rule

_RESUMING = "resuming"
"""The searcher's own policy as one that can go on in mid-step."""


@register(
    "searcher",
    "early-rejection",
    Declared(study=(search_row(14, expansions=4, tokens=4),), smoke={"n": 4, "expansions": 2, "tokens": 2, "rest": 8}),
)
@dataclass(frozen=True)
class EarlyRejection:
    """Beam search that judges the first `tokens` tokens of each step and finishes those of the survivors only.

    `rest` limits what is written to finish a step. With `rescore`, solutions that ended are judged again as a whole.
    """

    judged: ClassVar[bool] = True
    n: int = 16
    expansions: int = 4
    tokens: int = 64
    rest: int = 256
    aggregation: Aggregation = "last"
    rule: Rule = "best"
    rescore: bool = False
    iterations: int = 20

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if not 1 <= self.expansions <= self.n or min(self.tokens, self.rest, self.iterations) < 1:
            raise ValueError(
                "early rejection needs 1 <= expansions <= n and tokens, rest and iterations of at least 1, "
                f"not {self.name}"
            )

    @property
    def name(self) -> str:
        return described("early-rejection", self)

    def search(self, state: SearchState) -> Course:
        """Begin, judge, keep the best, finish, until all beams have ended, the iterations are over or the budget is spent."""
        ended: dict[int, float | None] = {}
        with suppress(BudgetSpent):
            yield from rounds(self.iterations, lambda live, last: self._iterate(state, live, ended, last))
            if self.rescore:
                yield from state.score(list(ended))
                ended = {node: state.aggregate(node, self.aggregation) for node in ended}
        return state.choose(list(ended), self.rule, self.aggregation, scores=list(ended.values()))

    def _iterate(
        self, state: SearchState, live: Sequence[int], ended: dict[int, float | None], last: bool
    ) -> Requests[list[int]]:
        going = yield from self._begin(state, live, ended, last)
        best = keep_best(state, going, self.n // self.expansions)
        return (yield from self._finish(state, {node: going[node] for node in best}, ended))

    def _begin(
        self, state: SearchState, live: Sequence[int], ended: dict[int, float | None], last: bool
    ) -> Requests[dict[int, float | None]]:
        """The beginnings of N steps with their scores; those that came to an end within it go to `ended`."""
        beams = spread(live, self.n)
        if last:
            found = yield from state.expand(beams, until="end")
        else:
            found = yield from state.expand(beams, policy=_RESUMING, max_tokens=self.tokens)
        grown = list(dict.fromkeys(node for children in found for node in children))
        cut = [] if last else [node for node in grown if state.finish(node) == "length"]
        whole = [node for node in grown if node not in cut]
        if whole:
            yield from state.score(whole)
        if cut:
            yield from state.score(cut, partial=True)
        scored = {node: state.aggregate(node, self.aggregation) for node in grown}
        ended.update({node: scored.pop(node) for node in whole if state.ended(node)})
        return scored

    def _finish(
        self, state: SearchState, kept: dict[int, float | None], ended: dict[int, float | None]
    ) -> Requests[list[int]]:
        """Write the rest of the kept steps; the beams that can go on. Copies of a text are finished differently."""
        cut = [node for node in kept if state.finish(node) == "length"]
        rows = []
        if cut:
            prefixes = [unfinished(state.prefix(node)) for node in cut]
            rows = yield from state.ask(prefixes, 1, "step", policy=_RESUMING, max_tokens=self.rest)
        written = {node: state.made_whole(node, row[0]) for node, row in zip(cut, rows, strict=True) if row}
        live = []
        for node, score in kept.items():
            tip = written.get(node) if node in cut else node
            if tip is not None and state.ended(tip):
                ended[tip] = score
            elif tip is not None:
                live.append(tip)
        return live


def tokens_a_step(n: int, expansions: int, length: int, tokens: int) -> int:
    """What one iteration writes: N τ + (N/M)(L - τ), for steps of `length` tokens."""
    begun = min(tokens, length)
    return n * begun + n // expansions * (length - begun)


def expected_correlation(tokens: int, length: int) -> float:
    """√(τ/L), at most 1."""
    return math.sqrt(min(tokens / length, 1.0))


def fragment_needed(correlation: float, length: int) -> int:
    """The least τ with √(τ/L) ≥ correlation."""
    return math.ceil(correlation**2 * length - 1e-9)


def rejection_bound(n: int, gap: float, sigma: float) -> float:
    """(N-1) exp(-Δ² / (4 σ²)), at most 1: how likely the best of n is lost at most."""
    return min(1.0, (n - 1) * math.exp(-(gap**2) / (4 * sigma**2)))


def agreement(fragments: Sequence[float], steps: Sequence[float]) -> tuple[float, float]:
    """Pearson's and Kendall's (tau-b) correlation of fragment scores with those of the finished steps; 0 if one is constant."""
    x, y = np.asarray(fragments, float), np.asarray(steps, float)
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"a correlation needs two pairs at least, not {len(x)} and {len(y)} numbers")
    if x.std() == 0 or y.std() == 0:
        return 0.0, 0.0
    upper = np.triu_indices(len(x), 1)
    a, b = (np.sign(v[:, None] - v[None, :])[upper] for v in (x, y))
    kendall = (a * b).sum() / math.sqrt((a != 0).sum() * (b != 0).sum())
    return float(np.corrcoef(x, y)[0, 1]), float(kendall)
