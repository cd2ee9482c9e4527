"""The computer-algebra process: it gets parsed trees, never text, one question a line, and decides over the real numbers.

Each question may use `cpu_seconds` of processor time; the kernel ends the process over one that needs more, as in
`footfall._answers_worker`. Run by `footfall.tools.algebra` only.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import sympy

from footfall._answers_worker import _limit_memory, _limit_time
from footfall.tools._algebra_build import Equation, build, denominators, difference_at, is_zero
from footfall.tools._algebra_parse import Tree
from footfall.tools._algebra_sets import Reply, same_solutions

_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


def main(cpu_seconds: float) -> None:
    """Answer questions until stdin ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not be read as a reply
    _limit_memory()
    replies.write("ready\n")
    replies.flush()
    for line in sys.stdin:
        _limit_time(cpu_seconds)
        reply = _answer(*json.loads(line))
        _limit_time(0)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _answer(kind: str, *trees: Any) -> Reply:
    try:
        if kind == "equivalent":
            return _equivalent(*trees)
        if kind == "solves":
            return _solves(*trees)
        if kind == "implied":
            return _implied(*trees)
        return same_solutions(*([Equation(*sides) for sides in alternatives] for alternatives in trees))
    except _ERRORS as error:  # sympy gives up in many ways
        return None, f"computer algebra gave up: {type(error).__name__}: {error}"[:300]


def _equivalent(first: Tree, second: Tree) -> Reply:
    for tree in (first, second):
        if any(is_zero(build(part)) for part in denominators(tree)):
            return None, "an expression divides by zero"
    difference = build(first) - build(second)
    zero = is_zero(difference)
    if zero:
        return True, "the difference is zero where both are defined"
    if zero is None:
        return None, "the difference was not shown to be zero, and no point where it is not was found"
    point = difference_at(difference, sorted(difference.free_symbols, key=str)) or {}
    where = ", ".join(f"{name} = {value}" for name, value in point.items())
    return False, f"they differ at {where}" if where else "they are different numbers"


def _solves(alternatives: list[tuple[Tree, Tree]], variable: str, value_tree: Tree) -> Reply:
    value = build(value_tree)
    if any(is_zero(build(part)) for part in denominators(value_tree)) or value.has(sympy.nan, sympy.zoo, sympy.oo):
        return False, "the value divides by zero"
    if value.is_real is False:
        return False, "the value is not a real number"
    answers = [Equation(*sides).holds_at({variable: value}) for sides in alternatives]
    if True in answers:
        return True, f"{variable} = {value} makes both sides equal"
    if None in answers:
        return None, "whether both sides are equal could not be decided"
    left, right = (build(side, {variable: value}) for side in alternatives[0])
    return False, f"with {variable} = {value} the sides are {left} and {right}"


def _implied(premises: list[list[tuple[Tree, Tree]]], conclusion: list[tuple[Tree, Tree]]) -> Reply:
    if any(len(alternatives) > 1 for alternatives in premises):
        return None, "a premise has alternatives"
    equations = [Equation(*sides) for (sides,) in premises]
    residuals = [equation.residual() for equation in equations]
    names = sorted(set().union(*(residual.free_symbols for residual in residuals)), key=str)
    solutions = sympy.solve(residuals, names, dict=True) if names else []
    if not solutions or any(set(names) - set(found) or not _plain(found) for found in solutions):
        return None, "no single solution: the premises have none, or too many"
    for found in solutions:
        values = {str(name): value for name, value in found.items()}
        answers = [Equation(*sides).holds_at(values) for sides in conclusion]
        if True in answers:
            continue
        where = ", ".join(f"{name} = {value}" for name, value in values.items())
        return (None, f"not decided at {where}") if None in answers else (False, f"not so at {where}")
    return True, "every common solution of the premises solves it"


def _plain(solution: dict[Any, Any]) -> bool:
    """Whether all values are real numbers."""
    return all(value.is_real and not value.free_symbols for value in solution.values())


if __name__ == "__main__":
    main(cpu_seconds=5.0)
