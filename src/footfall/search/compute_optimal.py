"""Compute-optimal search: which method a problem gets depends on how hard it looks (arXiv 2408.03314, section 3).

A few whole solutions are drawn and judged. Their mean score d, or without a judge the share of the commonest answer, says how
easy the problem is; the bins of d are cut at `cuts`, and each bin has its method, which then runs on the same tree and on
what is left of the budget. The pilot's solutions stay candidates.

Which method is best in which bin depends on policy and judge: `best_by_difficulty` takes it from results on other problems.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.judging import IdleSettings, idle_settings
from footfall.registry import Declared, load, register, search_row
from footfall.search.state import Choice, Course, Method, Roles, SearchState, described, roles_of
from footfall.search.votes import Aggregation, Rule, check_rule, majority


def method_of(text: str) -> Method:
    """The method that `NAME` or `NAME:SETTING=VALUE,SETTING=VALUE` names, as in `beam-search:n=16,expansions=4`."""
    name, _, given = text.partition(":")
    settings: dict[str, Any] = {}
    for pair in filter(None, given.split(",")):
        key, found, value = pair.partition("=")
        if not found:
            raise ValueError(f"{text!r}: {pair!r} is no SETTING=VALUE")
        settings[key.strip()] = _value(value.strip())
    try:
        method: Method = load("searcher", name.strip())(**settings)
    except TypeError as error:
        raise ValueError(f"{text!r}: {error}") from error
    return method


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return text


@register(
    "searcher",
    "compute-optimal",
    Declared(
        study=(
            search_row(
                25, settings=lambda n: {"methods": f"beam-search:n={n},expansions=4;weighted-vote:n={max(1, n // 2)};"}
            ),
        ),
        dial="methods='beam-search:n=16,expansions=4;weighted-vote:n=8;'",
        smoke={"pilot": 2, "methods": "beam-search:n=4,expansions=2;best-of-n:n=2;"},
    ),
)
@dataclass(frozen=True)
class ComputeOptimal:
    """A method by estimated difficulty: `methods` from the hardest bin to the easiest, `;` between them.

    With cuts (0.2, 0.6): hard below 0.2, easy from 0.6 on. `""` for a method leaves it at the pilot's solutions.
    """

    methods: str = "beam-search:n=16,expansions=4;weighted-vote:n=8;"
    cuts: tuple[float, ...] = (0.2, 0.8)
    pilot: int = 4
    rule: Rule = "weighted"
    aggregation: Aggregation = "last"

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        object.__setattr__(self, "cuts", tuple(self.cuts))
        if len(self.bins) != len(self.cuts) + 1 or list(self.cuts) != sorted(self.cuts) or self.pilot < 1:
            raise ValueError(
                f"{len(self.cuts)} rising cuts make {len(self.cuts) + 1} bins, each with a method, and the pilot has a "
                f"sample at least; not {self.name}"
            )

    @property
    def bins(self) -> list[Method | None]:
        """The methods, hardest first; `None`: the pilot is enough."""
        return [method_of(text) if text.strip() else None for text in self.methods.split(";")]

    @property
    def name(self) -> str:
        return described("compute-optimal", self)

    @property
    def roles(self) -> Roles:
        """Those of its methods."""
        inner = [roles_of(method) for method in self.bins if method is not None]
        helpers, judges = (frozenset().union(*each) for each in zip(*inner, strict=True)) if inner else Roles()
        return Roles(helpers, judges)

    @property
    def judged(self) -> bool:
        return self.rule != "majority" or any(method is not None and method.judged for method in self.bins)

    @property
    def idle(self) -> IdleSettings:
        """Where nobody judges, ease is the share of the commonest answer."""
        return idle_settings((not self.judged, "aggregation", "a bin or a choice that judges"))

    def search(self, state: SearchState) -> Course:
        """Pilot, bin, the bin's method, one choice among all."""
        pilot: list[int] = []
        found = Choice(None)
        try:
            [pilot] = yield from state.expand([ROOT], self.pilot, "end", score=state.judged)
            ease = easiness(state, pilot, self.aggregation)
            at = bisect_right(self.cuts, ease)
            method = self.bins[at]
            what = "nothing more" if method is None else method.name
            state.note("estimated", pilot, f"easiness {ease:.3f}, bin {at + 1} of {len(self.bins)}: {what}")
            if method is not None:
                found = yield from method.search(state)
            if state.judged and self.rule != "majority":
                yield from state.score([node for node in found.candidates if state.judgement(node) is None])
        except BudgetSpent:
            pass
        candidates = list(dict.fromkeys([*pilot, *found.candidates]))
        return state.choose(candidates, self.rule, self.aggregation, with_lost=True)


def easiness(state: SearchState, pilot: Sequence[int], aggregation: str) -> float:
    """The mean score of the pilot's solutions; without a judge, the share of the commonest answer. 0 if there is none."""
    if state.judged:
        scores = [score for node in pilot if (score := state.aggregate(node, aggregation)) is not None]
        return sum(scores) / len(scores) if scores else 0.0
    vote = majority([state.trace(node).answer for node in pilot], state.problem.domain)
    return max(vote.weights.values(), default=0.0) / max(len(pilot), 1)


def best_by_difficulty(
    eases: Sequence[float], correct: Mapping[str, Sequence[float]], cuts: Sequence[float], **settings: Any
) -> ComputeOptimal:
    """The chooser that takes in each bin the method with the most right answers on these problems.

    `correct` has a row a method (as `method_of` reads it), a figure a problem; put the cheapest first, it wins ties. A bin
    without a problem gets the method that is best on all.
    """
    if not correct or not eases or any(len(row) != len(eases) for row in correct.values()):
        raise ValueError("every method needs one figure a problem, and there must be a method and a problem")
    of_bin = [bisect_right(list(cuts), ease) for ease in eases]
    chosen = []
    for at in range(len(cuts) + 1):
        inside = [i for i, own in enumerate(of_bin) if own == at] or range(len(eases))
        chosen.append(max(correct, key=lambda name: sum(correct[name][i] for i in inside)))
    return ComputeOptimal(";".join(chosen), tuple(cuts), **settings)
