"""A search told again: each decision as a line that a person can follow, and the tree as it stood after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from footfall.types import Decision, SearchResult, Tree


@dataclass(frozen=True, slots=True)
class Scene:
    """The state after one decision: which nodes there were by then, which of them were given up, and their values."""

    number: int
    decision: Decision
    nodes: frozenset[int]
    pruned: frozenset[int]
    values: dict[int, float | None]


def replay(result: SearchResult) -> Iterator[Scene]:
    """The scenes of a search in order. The last one holds the whole tree."""
    if result.tree is None:
        raise ValueError(f"the result for problem {result.problem.id!r} has no tree to replay")
    nodes: frozenset[int] = frozenset()
    pruned: frozenset[int] = frozenset()
    values: dict[int, float | None] = {}
    for number, decision in enumerate(result.decisions, 1):
        named = frozenset(i for node in decision.nodes for i in result.tree.path(node))
        nodes |= named
        if decision.what == "pruned":
            pruned |= frozenset(decision.nodes)
        if decision.what == "taken-up":
            pruned -= frozenset(decision.nodes)
        if decision.what in ("scored", "backed-up"):
            values = {**values, **dict(zip(decision.nodes, decision.values, strict=True))}
        yield Scene(number, decision, nodes, pruned, values)


def told(result: SearchResult, width: int = 60) -> Iterator[str]:
    """One line a decision: `3. pruned #4 "So x = 2." (0.12): not among the 2 best`."""
    if result.tree is None:
        raise ValueError(f"the result for problem {result.problem.id!r} has no tree to tell of")
    for number, decision in enumerate(result.decisions, 1):
        shown = [_shown(result.tree, node, width) for node in decision.nodes]
        if len(decision.values) == len(shown):
            shown = [f"{text} ({_number(v)})" for text, v in zip(shown, decision.values, strict=True)]
        why = f": {decision.why}" if decision.why else ""
        yield f"{number}. {decision.what} {', '.join(shown)}".rstrip() + why


def _shown(tree: Tree, node: int, width: int) -> str:
    if node < 0:
        return "the empty prefix"
    text = " ".join(tree.nodes[node].step.written.split())
    return f'#{node} "{text if len(text) <= width else text[: width - 1] + "…"}"'


def _number(value: float | None) -> str:
    return "not judged" if value is None else f"{value:.3g}"
