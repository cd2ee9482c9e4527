"""What is held out of a PRM that marks steps before it values them is valued given the marks that it puts itself.

A row's labels say what the marks should be, and training gives them to the value. Held-out figures of values that are told the
labelled marks measure nothing: a bad mark says that the step is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from footfall.render import Reading, Writer
from footfall.reward.prm import PRM
from footfall.train.data import Example
from footfall.types import Trajectory


def by_own_marks(model: PRM, examples: Sequence[Example]) -> list[Example]:
    """Examples whose value is read after labelled marks read it after the model's own; others are as they were."""
    given = [example for example in examples if example.given]
    own = iter(marked(model, [example.trajectory for example in given]))
    return [example._replace(reading=next(own)) if example.given else example for example in examples]


def reads_by_own_marks(model: PRM, traces: Sequence[Trajectory]) -> list[list[Reading]]:
    """Of each trace, a reading of the value of each step."""
    prefixes = [[trace.prefix(k + 1) for k in range(len(trace.steps))] for trace in traces]
    own = iter(marked(model, [prefix for row in prefixes for prefix in row]))
    return [[next(own) for _ in row] for row in prefixes]


def marked(model: PRM, prefixes: Sequence[Trajectory]) -> list[Reading]:
    """How the value of each prefix's last step is read, given its marks as the model puts them now."""
    taught, writer = model.family.taught, Writer(model.tokenizer, model.prm_config.backbone)
    if taught is None or not prefixes:
        return []
    names = [f"trajectory {prefix.id!r}" for prefix in prefixes]
    blank = [writer.read(taught(writer, p, None), name) for p, name in zip(prefixes, names, strict=True)]
    # Of two equal chances the good mark is taken, as the judge does.
    put = [[chance >= 0.5 for chance in chances] for chances in model.score(blank)]
    return [writer.read(taught(writer, p, marks), name) for p, marks, name in zip(prefixes, put, names, strict=True)]
