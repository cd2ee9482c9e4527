"""Self-regulation: when to ask for help if help may be asked for C times on average (card: self-regulation).

Help is called at random once and what follows is counted, P_a(s'|s) for a in {go on, ask}. With a price per request

    Q(s, a) = −price · [a = ask] + Σ P_a(s'|s) V(s'),   V(s) = max_a Q,   ask(s) = [Q(s, ask) > Q(s, go on)]
    U(s)    = [ask(s)] + Σ P_ask(s)(s'|s) U(s')         requests under that policy

and the smallest price with U(start) ≤ C is looked for, all of it offline. A state is the number of steps and the judge's value
in bins; at a state whose continuation was never seen, V is the judge's value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from graphlib import TopologicalSorter
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.judging import IdleSettings, idle_settings
from footfall.registry import Declared, register, search_row
from footfall.search.state import Choice, Course, Requests, Roles, SearchState
from footfall.search.votes import best
from footfall.types import SearchResult, content_key

State: TypeAlias = Hashable


@dataclass(frozen=True)
class Table:
    """What is known of a task: where each action leads, and how good it is to stand somewhere."""

    moves: Mapping[tuple[State, bool], Mapping[State, float]]
    """P_a(s'|s) by (state, whether help was asked for)."""
    worth: Mapping[State, float]
    """Of an end 1 or 0; of any other state the judge's chance of success without help."""
    starts: Mapping[State, float]
    """How likely a task begins there."""

    def states(self) -> list[State]:
        """Each state after all that it leads to."""
        after: dict[State, set[State]] = {state: set() for state in self.worth}
        for (state, _), row in self.moves.items():
            after.setdefault(state, set()).update(row)
        return list(TopologicalSorter(after).static_order())


class Plan(NamedTuple):
    """Where to ask at this price, and what comes of it."""

    price: float
    ask: frozenset[State]
    usage: float
    success: float


class _Worth(NamedTuple):
    value: float
    usage: float
    success: float


def plan(table: Table, price: float) -> Plan:
    """The best policy if a request costs `price` in chances of success."""
    worth: dict[State, _Worth] = {}
    ask: set[State] = set()
    for state in table.states():
        seen = {a: row for a in (False, True) if (row := table.moves.get((state, a)))}
        p = table.worth.get(state, 0.0)
        options = {
            a: _expected(seen[a], worth, price * a, a) if a in seen else _Worth(p, 0.0, p) for a in (False, True)
        }
        # Where asking was never tried there is nothing to plan with.
        asks = True in seen and options[True].value > options[False].value
        worth[state] = options[asks]
        if asks:
            ask.add(state)
    usage = sum(share * worth[state].usage for state, share in table.starts.items())
    success = sum(share * worth[state].success for state, share in table.starts.items())
    return Plan(price, frozenset(ask), usage, success)


def _expected(row: Mapping[State, float], worth: Mapping[State, _Worth], price: float, asked: bool) -> _Worth:
    value, usage, success = (sum(p * worth[state][i] for state, p in row.items()) for i in range(3))
    return _Worth(value - price, usage + asked, success)


def plan_within(table: Table, requests: float, rounds: int = 30) -> Plan:
    """The plan of the smallest price, by bisection, whose expected requests are at most `requests`."""
    free = plan(table, 0.0)
    if free.usage <= requests:
        return free
    low, found = 0.0, plan(table, 1.0)  # no request is worth more than a whole success
    for _ in range(rounds):
        tried = plan(table, (low + found.price) / 2)
        if tried.usage <= requests:
            found = tried
        else:
            low = tried.price
    return found


def state_of(steps: int, value: float | None, bins: int) -> State:
    """The state of a prefix: how many steps it has, and in which bin its value is (-1: it has none)."""
    return steps, -1 if value is None else min(bins - 1, int(value * bins))


@register(
    "searcher", "self-regulation", Declared(study=(search_row(21, dial="width"),), dial="width=N", smoke={"width": 2})
)
@dataclass(frozen=True)
class SelfRegulation:
    """Self-regulation: one path; where the rule says so, help is asked for with the next step.

    Help is the best of `width` steps by the role `helper`: a stronger policy, or more samples of the same one. The rule is
    "threshold" (the judge's value is under `below`), "random" (with probability `rate`), "plan" (in a state of `ask`), "always"
    or "never"; `cap` is the most requests a problem.
    """

    judged: ClassVar[bool] = True
    rule: Literal["threshold", "random", "plan", "always", "never"] = "threshold"
    below: float = 0.5
    rate: float = 0.5
    cap: int | None = None
    helper: str = "policy"
    width: int = 4
    bins: int = 10
    iterations: int = 40
    ask: frozenset[State] | None = field(default=None, repr=False)
    """The plan, e.g. `plan_within(transitions(results), 2).ask` of searches that asked at random."""

    def __post_init__(self) -> None:
        if self.rule not in ("threshold", "random", "plan", "always", "never"):
            raise ValueError(f"no rule is called {self.rule!r}; there are threshold, random, plan, always and never")
        if self.width < 1 or self.bins < 1 or self.iterations < 1 or not 0 <= self.rate <= 1:
            raise ValueError("self-regulation needs width, bins and iterations of at least 1, and a rate from 0 to 1")
        if self.rule == "plan" and self.ask is None:
            raise ValueError(
                "the rule plan needs the states to ask in, made in Python of searches that asked at random: "
                "SelfRegulation('plan', ask=plan_within(transitions(results), requests).ask)"
            )

    @property
    def name(self) -> str:
        settings = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if f.name != "ask"]
        planned = [] if self.ask is None else [f"ask={content_key(sorted(map(str, self.ask)))[:8]}"]
        return f"self-regulation({','.join(settings + planned)})"

    @property
    def roles(self) -> Roles:
        return Roles(helpers=frozenset({self.helper}))

    @property
    def idle(self) -> IdleSettings:
        """What the other rules ask by; nobody helps where none is asked."""
        own = {"threshold": ("below",), "random": ("rate",), "plan": ("bins", "ask")}
        others = [(rule != self.rule, name, f"rule={rule}") for rule, names in own.items() for name in names]
        asking = [(self.rule == "never", name, "rules that ask") for name in ("cap", "helper", "width")]
        return idle_settings(*others, *asking)

    def search(self, state: SearchState) -> Course:
        """One step after the other, each by the policy or with help."""
        node, asked = ROOT, 0
        with suppress(BudgetSpent):
            for steps in range(self.iterations):
                value = None if node == ROOT else state.aggregate(node, "last")
                help_ = (self.cap is None or asked < self.cap) and self._asks(state, steps, value)
                asked += help_
                after = yield from self._act(state, node, help_)
                if after is None or after == node:
                    break
                node = after
                if state.ended(node):
                    break
        # The one path that was followed, whether or not the judge had a value for each of its steps.
        return state.choose([]) if node == ROOT else Choice(node, [node], [state.aggregate(node, "last")])

    def _asks(self, state: SearchState, steps: int, value: float | None) -> bool:
        """The empty prefix has no value, so a threshold does not ask there."""
        if self.rule == "threshold":
            return value is not None and value < self.below
        if self.rule == "random":
            return bool(state.rng.random() < self.rate)
        planned = self.rule == "plan" and state_of(steps, value, self.bins) in (self.ask or ())
        return planned or self.rule == "always"

    def _act(self, state: SearchState, node: int, help_: bool) -> Requests[int | None]:
        role, n = (self.helper, self.width) if help_ else ("policy", 1)
        [children] = yield from state.expand([node], n, score=True, policy=role, meta={"helped": help_})
        if help_:
            state.note("asked", (node,), f"{role} wrote {len(children)}")
        scores = [state.aggregate(child, "last") for child in children]
        winner = best(scores)
        if winner is None:
            return children[0] if children else None
        state.prune([child for child in children if child != children[winner]], "not the best of the help")
        return children[winner]


def transitions(results: Sequence[SearchResult], bins: int = 10) -> Table:
    """The table of what happened on the paths of these searches, most usefully of ones that asked at random."""
    counts: defaultdict[tuple[State, bool], Counter[State]] = defaultdict(Counter)
    worth: defaultdict[State, list[float]] = defaultdict(list)
    starts: Counter[State] = Counter()
    for result in results:
        if result.tree is None or result.chosen is None:
            continue
        path = result.tree.path(int(result.chosen.id.rpartition("#")[2]))
        nodes = [result.tree.nodes[i] for i in path]
        states = [state_of(k, None if k == 0 else nodes[k - 1].value, bins) for k in range(len(nodes))]
        end = ("end", bool(result.chosen.correct))
        starts[states[0]] += 1
        worth[end].append(float(end[1]))
        for k, (state, node) in enumerate(zip(states, nodes, strict=True)):
            counts[state, bool(node.meta.get("helped"))][states[k + 1] if k + 1 < len(states) else end] += 1
            before = nodes[k - 1].value if k else None
            worth[state] += [] if before is None else [before]
    moves = {key: {state: n / row.total() for state, n in row.items()} for key, row in counts.items()}
    means = {state: sum(own) / len(own) if own else 0.0 for state, own in worth.items()}
    return Table(moves, means, {state: n / starts.total() for state, n in starts.items()})
