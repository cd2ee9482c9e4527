"""MATH-APS, what OmegaPRM's public re-implementation writes: prefixes of one problem with Monte Carlo values.

    nested: {"question", "final_answer", "reasoning_steps": {"text", "mc_value", "children": [...]}}
    flat:   {"question", "final_answer", "reasoning_steps": [{"solution_prefix", "mc_value"}, …]}

Both become a `Tree`, whose top is the question itself. As rows, each leaf gives one trajectory, its steps valued by the
`mc_value` of the prefix that ends there. A prefix that a flat list has twice gives two siblings; what goes on from it
hangs under the one listed last before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from footfall.formats.records import Fields, show
from footfall.formats.rows import Format, Written, answer_text, plain_prompt, problem_id, unwritable
from footfall.registry import register
from footfall.types import Json, Judged, Judgement, Problem, Step, Trajectory, Tree

STEPS_LIMIT = 10_000_000
"""Of all traces of one tree together: they grow as the square of its nodes."""
_JOINT = "\n\n"
_KNOWN = ("question", "final_answer", "reasoning_steps", "problem_id", "images")


@register("format", "math-aps")
def math_aps() -> Format:
    """MATH-APS trees or prefix lists: one trajectory a leaf, valued by Monte Carlo."""
    return Format("math-aps", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return "reasoning_steps" in fields


def _read(fields: Fields) -> list[Judged]:
    tree = read_tree(fields)
    try:
        return tree_rows(tree)
    except ValueError as error:
        raise fields.error("reasoning_steps", "a tree that is not as large", str(error)) from error


def read_tree(fields: Fields) -> Tree:
    """The tree of one record, nested or flat."""
    question = fields.text("question")
    # A file joined from several runs has one `question_id` for different questions, so it stays metadata.
    images = fields.images()
    name = fields.identifier("problem_id") or problem_id(question, images)
    problem = Problem(name, question, answer_text(fields, "final_answer"), images=images, meta=fields.rest(_KNOWN))
    tree = Tree(problem, separator=_JOINT)
    _refuse_texts(fields)
    if isinstance(fields.get("reasoning_steps", "a tree or a list of prefixes"), list):
        _grow_flat(tree, fields.records("reasoning_steps"))
    else:
        _grow_nested(tree, fields.record("reasoning_steps"))
    return tree


def _refuse_texts(fields: Fields) -> None:
    """Steps as texts are a plain trace, not a tree of prefixes."""
    given = fields.data.get("reasoning_steps")
    for at, item in enumerate(given) if isinstance(given, list) else [(None, given)]:
        if isinstance(item, str):
            name = "reasoning_steps" if at is None else f"reasoning_steps[{at}]"
            fix = f'rename "reasoning_steps" to "{"solution" if at is None else "steps"}" if it holds the steps of a trace'
            raise fields.error(name, 'a prefix with its "solution_prefix" and "mc_value", or a tree', show(item), fix)


def _grow_nested(tree: Tree, top: Fields) -> None:
    if top.text("text") != tree.problem.text:
        raise top.wrong("text", "the question itself at the top of the tree")
    tree.value = None if top.data.get("mc_value") is None else top.number("mc_value")
    # A stack instead of recursion: a deep tree must not end in a RecursionError.
    waiting = [(-1, child) for child in reversed(top.records("children"))]
    while waiting:
        parent, fields = waiting.pop()
        node = tree.add(parent, Step(fields.text("text")), value=fields.number("mc_value"))
        waiting += [(node, child) for child in reversed(fields.records("children"))]


def _grow_flat(tree: Tree, entries: Sequence[Fields]) -> None:
    """Shorter prefixes first; each hangs under the longest listed prefix that it goes on from after a blank line."""
    question = tree.problem.text
    nodes_of: dict[str, list[tuple[int, int]]] = {question: [(-1, -1)]}
    for i, fields in sorted(enumerate(entries), key=lambda entry: len(entry[1].text("solution_prefix"))):
        prefix, value = fields.text("solution_prefix"), fields.number("mc_value")
        if prefix == question:
            tree.value = value
            continue
        cut = prefix.rfind(_JOINT)
        while cut >= 0 and prefix[:cut] not in nodes_of:
            cut = prefix.rfind(_JOINT, 0, cut + 1)
        if cut < 0:
            raise fields.error("solution_prefix", "the question, a blank line, then steps", repr(prefix[:40]))
        same = nodes_of[prefix[:cut]]
        parent = next((node for j, node in reversed(same) if j < i), same[0][1])
        node = tree.add(parent, Step(prefix[cut + len(_JOINT) :]), value=value)
        nodes_of.setdefault(prefix, []).append((i, node))


def tree_rows(tree: Tree) -> list[Judged]:
    """One row for each leaf, left to right; its steps have the values of the nodes that they end in."""
    rows: list[Judged] = []
    for path in _leaf_paths(tree):
        trajectory = Trajectory(
            f"{tree.problem.id}#{len(rows)}",
            tree.problem,
            tuple(tree.nodes[i].step for i in path),
            separator=tree.separator,
            meta={} if tree.value is None or rows else {"root_value": tree.value},
        )
        values = tuple(tree.nodes[i].value for i in path)
        rows.append(Judged(trajectory, Judgement(trajectory.id, values, "math-aps")))
    return rows


def _leaf_paths(tree: Tree) -> Iterator[list[int]]:
    children: dict[int, list[int]] = {}
    for i, each in enumerate(tree.nodes):
        children.setdefault(each.parent, []).append(i)
    waiting, steps = children.get(-1, [])[::-1], 0
    while waiting:
        node = waiting.pop()
        below = children.get(node, [])
        waiting += reversed(below)
        if not below:
            path = tree.path(node)
            steps += len(path)
            if steps > STEPS_LIMIT:
                raise ValueError(
                    f"the traces of the tree of {tree.problem.id!r} have more than {STEPS_LIMIT:,} steps together"
                )
            yield path


def tree_record(tree: Tree) -> dict[str, Json]:
    """The nested record of a tree whose nodes all have values."""
    below: list[list[Json]] = [[] for _ in tree.nodes]
    tops: list[Json] = []
    for i, node in enumerate(tree.nodes):
        entry: dict[str, Json] = {"text": node.step.text, "mc_value": node.value, "children": below[i]}
        (below[node.parent] if node.parent >= 0 else tops).append(entry)
    problem = tree.problem
    top: dict[str, Json] = {"text": problem.text, "mc_value": tree.value, "children": tops}
    record: dict[str, Json] = {"question": problem.text, "final_answer": problem.answer, "reasoning_steps": top}
    named: dict[str, Json] = {"images": list(problem.images)} if problem.images else {}
    if problem.id != problem_id(problem.prompt, problem.images):
        named["problem_id"] = problem.id
    return {**record, **named, **problem.meta}


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for _, group in groupby(rows, key=lambda row: row.trajectory.problem.id):
        together = list(group)
        yield Written(tree_record(_grown(together)), together)


def _grown(rows: Sequence[Judged]) -> Tree:
    """The tree whose leaves are these rows, in this order."""
    first = rows[0].trajectory
    plain_prompt("math-aps", rows[0])
    root = first.meta.get("root_value")
    tree = Tree(first.problem, separator=_JOINT, value=root if isinstance(root, int | float) else None)
    before: list[int] = []
    for row in rows:
        if row.judgement is None or None in row.judgement.values or not row.trajectory.steps:
            raise unwritable("math-aps", row, "judgement.values", "a value for each of at least one step")
        before = _add_path(tree, before[:-1], row.trajectory.steps, row.judgement.values)
    return tree


def _add_path(tree: Tree, before: list[int], steps: Sequence[Step], values: Sequence[float | None]) -> list[int]:
    """The nodes of a new leaf; it shares the inner nodes of the row before it, so that rows stay in their order."""
    shared = 0
    for node, step, value in zip(before, steps[:-1], values, strict=False):
        if (tree.nodes[node].step, tree.nodes[node].value) != (step, value):
            break
        shared += 1
    path = before[:shared]
    for step, value in list(zip(steps, values, strict=True))[shared:]:
        path.append(tree.add(path[-1] if path else -1, step, value=value))
    return path
