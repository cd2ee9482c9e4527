"""PATS: the judge chooses each step among sampled ones, and how sure it is sets how many are sampled next (card: pats).

mode 0 complex (8 candidates), 1 medium (4), 2 simple (2); r = value of the best candidate's last step
r < v_bad            refused, at most `penalty_times` in a row; mode 0, the step is sampled again
r >= v_good          taken, one mode simpler
r < v_low            taken, mode 0;       between v_low and v_good taken, the mode stays
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from footfall.drive.requests import ROOT
from footfall.judging import IdleSettings, idle_settings
from footfall.registry import Declared, register, search_row
from footfall.search.state import Course, Requests, SearchState, described
from footfall.search.votes import best


class Mode(NamedTuple):
    """Where the controller stands: index into the widths, and how many steps in a row were refused."""

    width: int
    refused: int = 0


@register(
    "searcher",
    "pats",
    Declared(
        study=(
            search_row(20, "", "width", (4, 8, 16), settings=lambda w: {"widths": (w, max(1, w // 2), max(1, w // 4))}),
        ),
        dial="widths=[8,4,2]",
        smoke={"widths": (4, 2)},
    ),
)
@dataclass(frozen=True)
class PATS:
    """PATS: the best of m sampled steps, m switched after each step by the judge's value of it; a bad step is redone."""

    judged: ClassVar[bool] = True
    widths: tuple[int, ...] = (8, 4, 2)
    """Candidates in each mode, from complex to simple."""
    v_good: float = 0.85
    v_low: float = 0.75
    v_bad: float = 0.4
    penalty_times: int = 1
    initial: int = 0
    locked: bool = False
    """Never leave the initial mode: all-slow with `initial` = 0, all-fast with the last one."""
    iterations: int = 35

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        if not self.widths or min(self.widths) < 1 or not 0 <= self.initial < len(self.widths):
            raise ValueError(f"pats needs widths of 1 at least and an initial mode among them, not {self.name}")
        if not self.v_bad <= self.v_low <= self.v_good or self.penalty_times < 0 or self.iterations < 1:
            raise ValueError(
                f"pats needs v_bad <= v_low <= v_good, no negative penalty_times and iterations, not {self.name}"
            )

    @property
    def name(self) -> str:
        return described("pats", self)

    @property
    def idle(self) -> IdleSettings:
        """A locked mode is not switched, and without a penalty no step is bad."""
        switched = [(self.locked, name, "locked=false") for name in ("v_good", "v_low")]
        return idle_settings(*switched, (not self.penalty_times, "v_bad", "penalty_times of 1 and more"))

    def switched(self, mode: Mode, score: float) -> tuple[bool, Mode]:
        """Whether a step with this score is taken in this mode, and the mode of the next one."""
        refused = score < self.v_bad and mode.refused < self.penalty_times
        if refused or score < self.v_low:
            width = 0
        else:
            width = min(mode.width + 1, len(self.widths) - 1) if score >= self.v_good else mode.width
        return not refused, Mode(self.initial if self.locked else width, mode.refused + 1 if refused else 0)

    def search(self, state: SearchState) -> Course:
        """Step by step to an end. Without one, the best of the candidates that did end."""
        node, mode = ROOT, Mode(self.initial)
        for _ in range(self.iterations):
            node, mode = yield from self._iterate(state, node, mode)
            if state.ended(node):
                return state.choose([node])
        return state.choose(state.ends())

    def _iterate(self, state: SearchState, node: int, mode: Mode) -> Requests[tuple[int, Mode]]:
        """Candidates for the next step, the best of them taken or refused. Texts of the path are not taken again."""
        [found] = yield from state.expand([node], self.widths[mode.width], meta={"mode": mode.width})
        if state.ended(node):
            return node, mode
        children = state.prune_repeats(found, {step.written for step in state.prefix(node).steps})
        if children:
            yield from state.score(children)
        scores = [state.aggregate(child, "last") for child in children]
        winner = best(scores)
        score = None if winner is None else scores[winner]
        if winner is None or score is None:
            state.note("nothing-new", [node], f"no candidate in mode {mode.width} could be used")
            return node, mode
        taken, after = self.switched(mode, score)
        why = f"the best of {len(children)} in mode {mode.width}, then mode {after.width}"
        if not taken:
            state.prune(children, f"refused: {why}", scores)
            return node, after
        state.keep([children[winner]], why, [score])
        rest = [i for i in range(len(children)) if i != winner]
        state.prune([children[i] for i in rest], "not the best", [scores[i] for i in rest])
        return children[winner], after
