"""Heuristic greedy search with backtracking by a PRM of three classes (card: hgs-prm).

One step at a time is sampled and classed. A positive one is taken at once, a neutral one is kept as a fall-back, a negative
one is dropped. After `attempts` samples without a positive one the best neutral is taken; where there is none the node is
dead, and the search goes back to its parent. When samples run out, the deepest path is written to its end unguided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from footfall.drive.requests import ROOT
from footfall.registry import Declared, register, search_row
from footfall.search.state import Choice, Course, Requests, SearchState, described
from footfall.search.votes import best
from footfall.types import Judgement

StepClass = Literal["positive", "neutral", "negative"]
_CLASSES: tuple[StepClass, ...] = ("positive", "neutral", "negative")


def class_of(said: Judgement | None, good: float = 0.7, bad: float = 0.3) -> StepClass:
    """The class of the last step: the likeliest if the judge has a column a class among its aspects, else by its value.

    A value from `good` up is positive, one below `bad` negative. A step without a value is neutral: nothing is held
    against it, nor for it.
    """
    if said is None or not said.values:
        return "neutral"
    if all(name in said.aspects for name in _CLASSES):
        chances = [said.aspects[name][-1] for name in _CLASSES]
        winner = best(chances)
        return "neutral" if winner is None else _CLASSES[winner]
    value = said.values[-1]
    if value is None or bad <= value < good:
        return "neutral"
    return "positive" if value >= good else "negative"


@dataclass(slots=True)
class _Place:
    """A node of the path: how often a step was sampled there, which are kept, which texts need not be tried again."""

    node: int
    attempts: int = 0
    neutral: list[int] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)


@register(
    "searcher",
    "hgs-prm",
    Declared(
        study=(search_row(19, "", "samples", (8, 24, 64), settings=lambda most: {"iterations": most}),),
        dial="attempts=N",
        note="its labels are of programs that it changes itself: footfall.label.execution",
        smoke={"attempts": 3},
    ),
)
@dataclass(frozen=True)
class HGS:
    """Greedy search with backtracking: positive steps are taken at once, neutral ones kept, negative ones dropped."""

    judged: ClassVar[bool] = True
    attempts: int = 5
    """Samples at a node before a neutral step is taken or the node is given up."""
    iterations: int = 64
    """Samples in all."""
    good: float = 0.7
    bad: float = 0.3

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.iterations < 1 or not self.bad <= self.good:
            raise ValueError(f"hgs-prm needs attempts and iterations of 1 at least and bad <= good, not {self.name}")

    @property
    def name(self) -> str:
        return described("hgs-prm", self)

    def search(self, state: SearchState) -> Course:
        """Down on positive steps, back from dead ends; plain writing from the deepest path where that leads nowhere."""
        path, deepest = [_Place(ROOT)], ROOT
        left = self.iterations
        while path and not state.ended(path[-1].node):
            if path[-1].attempts >= self.attempts:
                self._fall_back(state, path)
            elif left:
                left -= 1
                yield from self._try(state, path)
            else:
                break
            if len(path) > 1 + len(state.tree.path(deepest)):
                deepest = path[-1].node
        if path and state.ended(path[-1].node):
            return _chosen(state, path[-1].node)
        return (yield from self._unguided(state, path[-1].node if path else deepest))

    def _try(self, state: SearchState, path: list[_Place]) -> Requests[None]:
        """Sample one step at the end of the path, and do with it what its class says."""
        place = path[-1]
        place.attempts += 1
        [children] = yield from state.expand([place.node])
        if not children or children[0] == place.node:
            return
        child = children[0]
        text = state.tree.nodes[child].step.written
        if text in place.refused:
            state.prune([child], "refused here before")
            return
        yield from state.score([child])
        value = state.values(child)[-1:]
        found = class_of(state.judgement(child), self.good, self.bad)
        if found == "positive":
            self._descend(state, path, child, "positive")
        elif found == "neutral":
            place.neutral.append(child)
            state.note("set-aside", [child], "neutral", value)
        else:
            place.refused.add(text)
            state.prune([child], "negative", value)

    def _fall_back(self, state: SearchState, path: list[_Place]) -> None:
        """Nothing positive came: down into the best neutral step, or, without one, back to the parent."""
        place = path[-1]
        place.neutral = [c for c in place.neutral if state.tree.nodes[c].step.written not in place.refused]
        if place.neutral:
            values = [(state.values(child) or (None,))[-1] for child in place.neutral]
            self._descend(state, path, place.neutral.pop(best(values) or 0), f"neutral, after {place.attempts} samples")
            return
        path.pop()
        if place.node != ROOT:
            state.prune([place.node], "a dead end: all that was tried after it is negative")
            state.note("went-back", [state.tree.nodes[place.node].parent])

    def _descend(self, state: SearchState, path: list[_Place], child: int, why: str) -> None:
        """Take a step. Its text is not tried here again: if the search comes back, it was a dead end."""
        path[-1].refused.add(state.tree.nodes[child].step.written)
        state.keep([child], why, state.values(child)[-1:])
        path.append(_Place(child))

    def _unguided(self, state: SearchState, node: int) -> Requests[Choice]:
        """Plain writing from the path so far; without an end of it, whatever has ended."""
        state.note("unguided", [node], "the samples are used up, or all paths are dead")
        [ends] = yield from state.expand([node], until="end", score=True)
        if ends and state.trace(ends[0]).answer is not None:
            return _chosen(state, ends[0])
        return state.choose(state.ends())


def _chosen(state: SearchState, node: int) -> Choice:
    """The one path that was followed to its end, whether or not the judge had a value for its last step."""
    return Choice(node, [node], [state.aggregate(node, "last")])
