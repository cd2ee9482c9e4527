"""What of each step a PRM is shown: all of it, its mathematics, or its words (card: srm-findings).

With T_k the words of step k and E_k its expressions, the value of step i is read from

    all            V((T, E)_≤i)
    math           V(E_≤i)            mathematics only
    words          V(T_≤i)            the opposite: words only
    last-math      V(E_i)             the step's own mathematics, without what stands before it
    next-thought   Q((T, E)_<i, T_i)    the step before its mathematics is written

The problem is shown as it is. Expressions are what stands between `$`, in display mathematics or fenced code, and runs of
numbers, operators and single letters in plain text; a step that has none is shown as a place holder, so that no step is lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from footfall.render import Reading
from footfall.reward.config import View
from footfall.reward.family import TraceLayout
from footfall.segment.text import blocks
from footfall.types import Step, Trajectory

NOTHING = "..."
"""In the place of what a view leaves nothing of."""
_OPERAND = r"[(\[−-]{0,4}(?:[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?[a-zA-Z]?|[a-zA-Z])(?!\w)[)\]!%]{0,4}"
_OPERATOR = r"[^\S\n]{0,2}[-+*/×·÷^=<>≤≥≈−]{1,2}[^\S\n]{0,2}"
_INLINE = re.compile(rf"\$[^$\n]{{1,400}}\$|\\\([^\n]{{1,400}}?\\\)|(?<![\w.,]){_OPERAND}(?:{_OPERATOR}{_OPERAND})*")


def expressions(text: str) -> list[tuple[int, int]]:
    """Where the mathematics of a text stands, in order. A letter by itself is a word."""
    found: list[tuple[int, int]] = []
    at = 0
    for start, end in [*blocks(text), (len(text), len(text))]:
        inline = ((at + m.start(), at + m.end()) for m in _INLINE.finditer(text[at:start]))
        found += [(a, b) for a, b in inline if re.search(r"[0-9=$\\]", text[a:b])]
        found += [(start, end)] if end > start else []
        at = end
    return found


def mathematics(text: str) -> str:
    """Its expressions alone, side by side."""
    return " ; ".join(text[start:end].strip() for start, end in expressions(text)) or NOTHING


def words(text: str) -> str:
    """The text without its expressions."""
    bounds = [0, *(place for span in expressions(text) for place in span), len(text)]
    kept = "".join(text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))
    return re.sub(r"[^\S\n]+", " ", kept).strip() or NOTHING


def shown(trajectory: Trajectory, view: View) -> Trajectory:
    """What a reader of the last step is shown; `all`, `math` and `words` show every step as its own reader sees it."""
    steps = trajectory.steps
    if view == "all":
        return trajectory
    if view in ("math", "words"):
        change = mathematics if view == "math" else words
        kept = tuple(_told(step, change(step.written)) for step in steps)
    elif view == "last-math":
        kept = tuple(_told(step, mathematics(step.written)) for step in steps[-1:])
    else:
        kept = (*(step.without_ids() for step in steps[:-1]), *(_told(s, words(s.written)) for s in steps[-1:]))
    return replace(trajectory, steps=kept)


def _told(step: Step, text: str) -> Step:
    return Step(text, author=step.author, agent=step.agent, images=step.images)


class ViewedLayout:
    """Another layout that is shown a view of each trace; where a view depends on the step, each prefix is read by itself."""

    token_level = False

    def __init__(self, layout: TraceLayout, view: View) -> None:
        if view not in get_args(View):
            raise ValueError(f"a view is one of {', '.join(get_args(View))}, not {view!r}")
        self.layout, self.view = layout, view
        self.tokenizer: Any = layout.tokenizer
        self.per_prefix = layout.per_prefix or view in ("last-math", "next-thought")

    def read(self, trajectory: Trajectory) -> Reading:
        """The ids of what is shown; with `per_prefix` read at the last step only."""
        ((*_, reading),) = self.layout.reads_of([shown(trajectory, self.view)])
        return reading._replace(positions=reading.positions[-1:]) if self.per_prefix else reading

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        """One sequence a trace, or one for each of its prefixes."""
        if not self.per_prefix:
            return self.layout.reads_of([shown(t, self.view) for t in trajectories])
        return [[self.read(t.prefix(k)) for k in range(1, len(t.steps) + 1)] for t in trajectories]

    def prompt_end(self, trajectory: Trajectory) -> int:
        """Refused: a view is read where steps end."""
        raise ValueError(f"a PRM that is shown the view {self.view} has no value at the prompt's end")
