"""One search as a page: the tree with values as colour and number, what was given up, what each node cost, and why.

Plain HTML without a script: every node is a line that opens with a key or a click. All text is a model's, and is escaped.
"""

from __future__ import annotations

from collections import defaultdict

from footfall.reports._blocks import Section, details, page, paragraph, table
from footfall.reports.bench_page import footer, header
from footfall.reports.svg import Markup, clip, element
from footfall.search.decisions import told
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
        Section("Problem", [element("p", result.problem.text, class_="written")]),
        Section("Tree", [_key(), _drawn(result, tree, frozenset(path))], _counted(tree)),
        *([_candidates(result)] if result.candidates else []),
        Section("Decisions", [_decisions(result)], "What was done, in order. Nodes are numbered as in the tree."),
    ]
    top = header("Footfall search", f"{result.problem.id}: {_outcome(result)}", {**(facts or {}), **_facts(result)})
    return page(f"Search: {result.problem.id}", top, *(section.markup() for section in sections), footer())


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


def _key() -> Markup:
    return element(
        "ul",
        element("li", element("span", "★ chosen", class_="flag true"), " on the path to the answer"),
        element(
            "li", element("span", "✂ pruned", class_="flag predicted"), " looked at and given up; its branch is grey"
        ),
        element("li", element("span", "■ end", class_="flag predicted"), " nothing more was written after it"),
        element("li", "colour and number: the value; tokens: written by the policy or the judge, read by the judge"),
        class_="key",
    )


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
    return element("ol", *roots, class_="tree") if roots else paragraph("Nothing was written.")


def _node(i: int, node: Node, chosen: bool, said: list[str], children: list[Markup]) -> Markup:
    shade = "unjudged" if node.value is None else f"v{min(max(int(node.value * _SHADES), 0), _SHADES - 1)}"
    words = " ".join(node.step.written.split())
    line = element(
        "summary",
        element("b", "n/a" if node.value is None else f"{node.value:.2f}", class_="worth"),
        element("span", f" #{i} ", class_="place"),
        element("span", clip(words, _WIDTH), class_="written"),
        *_flags(node, chosen),
        element("span", _cost(node.cost), class_="place"),
    )
    full = element("p", node.step.written, class_="written") if clip(words, _WIDTH) != node.step.written else Markup()
    notes = [*_about(node), *said]
    facts = element("ul", *(element("li", fact) for fact in notes), class_="about")
    # Folded by itself, so that an open tree shows steps and not notes.
    more = details(f"{len(notes)} notes", full, facts) if notes or full else Markup()
    inner = element("ol", *children) if children else Markup()
    grey = " pruned" if node.pruned else ""
    # A branch that was given up stays shut: the rest is to be seen first.
    state = "open" if children and not node.pruned else None
    return element(
        "li",
        element("details", line, more, inner, open=state),
        class_=f"node {shade}{' chosen' if chosen else grey}",
    )


def _flags(node: Node, chosen: bool) -> list[Markup]:
    flags = [("★ chosen", "true")] if chosen else []
    flags += [("✂ pruned", "predicted")] if node.pruned else []
    flags += [("■ end", "predicted")] if node.terminal else []
    flags += [("lookahead", "predicted")] if node.meta.get("role") == "lookahead" else []
    return [element("span", words, class_=f"flag {kind}") for words, kind in flags]


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
    return element("ol", *(element("li", line) for line in told(result)), class_="told")
