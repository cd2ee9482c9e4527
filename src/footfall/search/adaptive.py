"""As many samples as a problem, or a step, needs: instance-adaptive scaling (card: calibration-ias).

To have one right sample with confidence C when each is right with probability p,

    N(p) = ⌈ ln(1-C) / ln(1-p) ⌉

are needed. p is read from a judge; one that over-estimates it stops too soon, so it should be calibrated, and p be its low
quantile (`footfall.reward.calibrated`, aspect `q10`). Ranking is by the judge's value, the median there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.registry import Declared, register, search_row
from footfall.search.beam import best_indices
from footfall.search.state import Course, Requests, SearchState, described
from footfall.search.votes import Aggregation, Rule, check_rule

_EDGE = 1e-4


def needed(p: float, confidence: float = 0.99) -> int:
    """N(p); p is taken to lie in [0.0001, 0.9999]."""
    return math.ceil(_ratio(p, confidence) - 1e-9)


def beams_needed(lows: Sequence[float], expansions: int, most: int, confidence: float = 0.99) -> int:
    """IAS-of-K: the least k with k · expansions ≥ N(k-th highest of `lows`), at most `most`."""
    ranked = sorted(lows, reverse=True)[:most]
    enough = (k for k, p in enumerate(ranked, 1) if k * expansions >= needed(p, confidence))
    return next(enough, min(most, len(ranked)))


def expansions_needed(lows: Sequence[float], beams: int, most: int, confidence: float = 0.99) -> int:
    """IAS-of-M: ⌈ln(1-C) / ln(1-p_min) / beams⌉, at most `most`."""
    return min(math.ceil(_ratio(min(lows), confidence) / beams - 1e-9), most)


def _ratio(p: float, confidence: float) -> float:
    return math.log(1 - confidence) / math.log(1 - min(max(p, _EDGE), 1 - _EDGE))


def low(state: SearchState, node: int, aspect: str) -> float | None:
    """The judge's cautious word on the path to `node`: that aspect, or its value if it has no such aspect."""
    said = state.judgement(node)
    column = () if said is None else said.aspects.get(aspect, said.values)
    return column[-1] if column else None


@register("searcher", "adaptive-best-of-n", Declared(study=(search_row(10, pilot=4),), smoke={"n": 4, "pilot": 2}))
@dataclass(frozen=True)
class AdaptiveBestOf:
    """Best-of-N with N from the problem's estimated chance of success, at most n (IAS).

    A judge has no word on a problem without a step, so p is the mean of `aspect` over `pilot` sampled first steps: of an exact
    judge that is the value of the problem, but for chance. The first steps are gone on with, so they cost little.
    """

    judged: ClassVar[bool] = True
    n: int = 64
    confidence: float = 0.99
    pilot: int = 4
    aspect: str = "q10"
    rule: Rule = "best"
    aggregation: Aggregation = "last"

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if not 1 <= self.pilot <= self.n or not 0 < self.confidence < 1:
            raise ValueError(f"adaptive best-of-n needs 1 <= pilot <= n and confidence in (0, 1), not {self.name}")

    @property
    def name(self) -> str:
        return described("adaptive-best-of-n", self)

    def search(self, state: SearchState) -> Course:
        """First steps, the number that follows from them, whole solutions, the choice."""
        ended: list[int] = []
        with suppress(BudgetSpent):
            [begun] = yield from state.expand([ROOT], self.pilot, score=True)
            n = self._number(state, begun)
            kept = begun[:n]
            state.prune(begun[n:], f"{n} samples are enough")
            ended += [node for node in kept if state.ended(node)]
            going = [node for node in kept if not state.ended(node)]
            ended += yield from _finished(state, going)
            ended += yield from _finished(state, [ROOT] * (n - len(kept)))
        return state.choose(ended or state.ends(), self.rule, self.aggregation, with_lost=True)

    def _number(self, state: SearchState, begun: Sequence[int]) -> int:
        lows = [p for node in begun if (p := low(state, node, self.aspect)) is not None]
        p = sum(lows) / len(lows) if lows else 0.0
        n = min(needed(p, self.confidence), self.n)
        state.note(
            "allotted", begun, f"{n} of {self.n} samples for p = {p:.3f}", [low(state, b, self.aspect) for b in begun]
        )
        return n


def _finished(state: SearchState, nodes: Sequence[int]) -> Requests[list[int]]:
    """One whole solution from each."""
    if not nodes:
        return []
    found = yield from state.expand(nodes, 1, "end", score=True)
    return [node for children in found for node in children]


@register("searcher", "adaptive-beam", Declared(study=(search_row(13, expansions=4),), smoke={"n": 4, "expansions": 2}))
@dataclass(frozen=True)
class AdaptiveBeam:
    """Beam search that keeps fewer beams, or expands them less, where success is likely (IAS-of-K, IAS-of-M).

    Every `every` steps the best n / expansions beams by the judge's value are kept, or fewer of them (`spare="beams"`), and
    each is expanded by `expansions`, or less (`spare="expansions"`); in between each beam is gone on with by one sample.
    """

    judged: ClassVar[bool] = True
    n: int = 64
    expansions: int = 8
    spare: Literal["beams", "expansions"] = "beams"
    every: int = 1
    confidence: float = 0.99
    aspect: str = "q10"
    rule: Rule = "best"
    aggregation: Aggregation = "last"
    iterations: int = 40

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if not 1 <= self.expansions <= self.n or self.every < 1 or self.iterations < 1 or not 0 < self.confidence < 1:
            raise ValueError(
                "adaptive beam search needs 1 <= expansions <= n, every >= 1, iterations >= 1 and confidence in (0, 1), "
                f"not {self.name}"
            )
        if self.spare not in ("beams", "expansions"):
            raise ValueError(f'spare is "beams" or "expansions", not {self.spare!r}')

    @property
    def name(self) -> str:
        return described("adaptive-beam", self)

    def search(self, state: SearchState) -> Course:
        """Grow, decide now and then, until all beams have ended, the iterations are over or the budget is spent."""
        ended: list[int] = []
        live, samples = [ROOT], self.n
        with suppress(BudgetSpent):
            for i in range(1, self.iterations + 1):
                last = i == self.iterations
                found = yield from state.expand(live, samples, "end" if last else "step", score=True)
                grown = list(dict.fromkeys(node for children in found for node in children))
                ended += [node for node in grown if state.ended(node)]
                live, samples = [node for node in grown if not state.ended(node)], 1
                if i % self.every == 0:
                    live, samples = self._decide(state, live)
                if not live:
                    break
        return state.choose(ended, self.rule, self.aggregation)

    def _decide(self, state: SearchState, going: Sequence[int]) -> tuple[list[int], int]:
        """The beams that go on, the best by value, and how many samples each gets."""
        most, samples = self.n // self.expansions, self.expansions
        scores = [state.aggregate(node, self.aggregation) for node in going]
        ranked = sorted(best_indices(scores, most), key=lambda i: -(scores[i] or 0.0))
        lows = [low(state, going[i], self.aspect) or 0.0 for i in ranked]
        if lows and self.spare == "beams":
            ranked = ranked[: beams_needed(lows, samples, most, self.confidence)]
        elif lows:
            samples = expansions_needed(lows, most, samples, self.confidence)
        kept = [going[i] for i in ranked]
        why = f"{len(kept)} of {most} beams, {samples} of {self.expansions} samples each"
        state.keep(kept, why, [scores[i] for i in ranked])
        rest = [i for i in range(len(going)) if i not in ranked]
        state.prune([going[i] for i in rest], "not among those kept", [scores[i] for i in rest])
        return kept, samples
