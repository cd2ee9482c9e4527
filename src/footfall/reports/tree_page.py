"""One search as a page: the tree with values as colour and number, what was given up, what each node cost, and why.

Plain HTML without a script: every node is a line that opens with a key or a click. All text is a model's, and is escaped.
"""

from __future__ import annotations

from collections import defaultdict

from markupsafe import Markup

from footfall.reports.pages import Section, items, paragraph, render, report, table
from footfall.reports.svg import clip
from footfall.search.searcher import told
from footfall.types import Cost, Node, SearchResult, Tree

_SHADES = 5
_WIDTH = 560.0
"""Of a node's text before it is opened."""


def tree_page(result: SearchResult, facts: dict[str, str] | None = None) -> str:
    """The page of one result; `facts` are shown at its top."""
    tree = result.tree
    if tree is None:
        raise ValueError(f"the result for problem {result.problem.id!r} has no tree to show")
    path = _chosen_path(result)
    sections = [
        Section("Problem", [paragraph(result.problem.text, "written")]),
        Section("Tree", [render("tree", "key"), _drawn(result, tree, frozenset(path))], _counted(tree)),
        *([_candidates(result)] if result.candidates else []),
        Section("Decisions", [_decisions(result)], "What was done, in order. Nodes are numbered as in the tree."),
    ]
    name = result.problem.id
    shown = {**(facts or {}), **_facts(result)}
    return report(f"Search: {name}", "Footfall search", f"{name}: {_outcome(result)}", shown, sections)


def _outcome(result: SearchResult) -> str:
    if result.answer is None:
        return "no answer"
    right = None if result.chosen is None else result.chosen.correct
    return f"{result.answer} ({'not checked' if right is None else 'right' if right else 'wrong'})"


def _facts(result: SearchResult) -> dict[str, str]:
    return {
        "reference": result.problem.answer or "",
        "policy": _cost(result.policy_cost),
        "judge": _cost(result.judge_cost),
        "stopped by": f"the budget of {result.stopped}" if result.stopped else "",
        "failure": result.failure or "",
    }


def _chosen_path(result: SearchResult) -> list[int]:
    """The nodes from the top to the chosen one; none if nothing was chosen."""
    assert result.tree is not None
    chosen = next((d for d in reversed(result.decisions) if d.what == "chosen" and d.nodes), None)
    return [] if chosen is None else result.tree.path(chosen.nodes[0])


def _counted(tree: Tree) -> str:
    pruned, ended = sum(node.pruned for node in tree.nodes), sum(node.terminal for node in tree.nodes)
    return f"{len(tree.nodes):,} nodes, {ended:,} of them ends, {pruned:,} pruned."


def _drawn(result: SearchResult, tree: Tree, path: frozenset[int]) -> Markup:
    """All nodes, children inside their parents; from the last node on, since children come later, so no tree is too deep."""
    said: defaultdict[int, list[str]] = defaultdict(list)
    for number, decision in enumerate(result.decisions, 1):
        for named in decision.nodes:
            said[named].append(f"{number}. {decision.what}" + (f": {decision.why}" if decision.why else ""))
    below: defaultdict[int, list[Markup]] = defaultdict(list)
    for i in reversed(range(len(tree.nodes))):
        node = tree.nodes[i]
        below[node.parent].append(_node(i, node, i in path, said[i], below.pop(i, [])[::-1]))
    roots = below.pop(-1, [])[::-1]
    return render("tree", "tree", roots=roots) if roots else paragraph("Nothing was written.")


def _node(i: int, node: Node, chosen: bool, said: list[str], children: list[Markup]) -> Markup:
    shade = "unjudged" if node.value is None else f"v{min(max(int(node.value * _SHADES), 0), _SHADES - 1)}"
    words, written = clip(" ".join(node.step.written.split()), _WIDTH), node.step.written
    return render(
        "tree", "node", number=i, style=f"{shade}{' chosen' if chosen else ' pruned' if node.pruned else ''}",
        worth="n/a" if node.value is None else f"{node.value:.2f}", words=words, flags=_flags(node, chosen),
        cost=_cost(node.cost), written=None if words == written else written, notes=[*_about(node), *said],
        children=children, open=bool(children) and not node.pruned,
    )  # fmt: skip


def _flags(node: Node, chosen: bool) -> list[tuple[str, str]]:
    flags = [("★ chosen", "true")] if chosen else []
    flags += [("✂ pruned", "predicted")] if node.pruned else []
    flags += [("■ end", "predicted")] if node.terminal else []
    flags += [("lookahead", "predicted")] if node.meta.get("role") == "lookahead" else []
    return flags


def _about(node: Node) -> list[str]:
    visits = [f"visits {node.visits}"] if node.visits else []
    return [*visits, *(f"{name}: {value}" for name, value in node.meta.items())]


def _cost(cost: Cost) -> str:
    counts = {"written": cost.generated_tokens, "read": cost.scored_tokens, "prompt": cost.prompt_tokens}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _candidates(result: SearchResult) -> Section:
    chosen = None if result.chosen is None else result.chosen.id
    rows = []
    for (trace, _), score in zip(result.candidates, result.scores, strict=True):
        right = {True: "right", False: "wrong", None: "not checked"}[trace.correct]
        name = f"#{trace.id.rpartition('#')[2]}" + (" ★" if trace.id == chosen else "")
        said = str(trace.meta.get("error", "")) or (trace.answer if trace.answer is not None else "no answer")
        rows.append([name, said, right, "n/a" if score is None else f"{score:.3f}"])
    return Section("Candidates", [table(["node", "answer", "", "score"], rows, caption="★ chosen", text_columns=3)])


def _decisions(result: SearchResult) -> Markup:
    return items(list(told(result)), ordered="told")
