"""The judge that knows, by name: `truth-WORLD` for every world."""

from __future__ import annotations

from footfall.registry import create, register
from footfall.worlds.judges import TruthJudge

__all__ = ["truth_of"]


def truth_of(world: str, consequent: float = 0.0) -> TruthJudge:
    """The truth of the world that is registered as `world`."""
    return TruthJudge(create("world", world), consequent)


@register("labeller", "truth-arithmetic")
def truth_arithmetic(consequent: float = 0.0) -> TruthJudge:
    """The truth of each step of an arithmetic trace: 1 right, 0 wrong, a parameter for right-but-built-on-an-error."""
    return truth_of("arithmetic", consequent)


@register("labeller", "truth-arithmetic-multilingual")
def truth_arithmetic_multilingual(consequent: float = 0.0) -> TruthJudge:
    """The truth of each step of an arithmetic trace in the language of its problem."""
    return truth_of("arithmetic-multilingual", consequent)


@register("labeller", "truth-logic")
def truth_logic(consequent: float = 0.0) -> TruthJudge:
    """The truth of each step of a deduction."""
    return truth_of("logic", consequent)


@register("labeller", "truth-algebra")
def truth_algebra(consequent: float = 0.0) -> TruthJudge:
    """The truth of each step of solving an equation."""
    return truth_of("algebra", consequent)


@register("labeller", "truth-code")
def truth_code(consequent: float = 0.0) -> TruthJudge:
    """The truth of each line of a small program."""
    return truth_of("code", consequent)
