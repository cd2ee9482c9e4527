"""PRMs that `footfall train` makes of a plain decoder: a trace as its policy wrote it, read at the end of each step.

The value stands at the step's own last token, or at a marker token put after it. Template and marker are settings of the model;
so are head and read-out: one logit, named classes, named outputs, or many small networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from footfall.registry import create, register
from footfall.render import Reading, Writer, read_traces
from footfall.reward import backbone as backbones
from footfall.reward.checkpoint import Options
from footfall.reward.config import CONFIG_FILE, FOOTFALL, PRMConfig, read_json
from footfall.reward.family import Evidence, Family, Match
from footfall.reward.prm import PRM
from footfall.types import Judge, Trajectory


class StepEnds:
    """The trace in the model's template; sampled ids are kept where the tokenizer is the one that made them."""

    per_prefix = False

    def __init__(self, tokenizer: Any, config: PRMConfig) -> None:
        self.tokenizer: Any = tokenizer
        self.template = config.template
        added = config.marker if config.marker_added else None
        self.writer = Writer(tokenizer, config.backbone, "special", hidden=added)
        self.marker_id = None if config.marker is None else _single_id(tokenizer, config.marker)
        self.token_level = self.marker_id is None

    def read(self, trajectory: Trajectory) -> Reading:
        """Prompt and steps in the model's template, each step read at its end or at the marker."""
        return self.reads_of([trajectory])[0][0]

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        """One sequence a trace, all tokenised together."""
        found = read_traces(self.writer, trajectories, self.template, self.marker_id)
        return [[reading] for reading in found]

    def prompt_end(self, trajectory: Trajectory) -> int:
        """The prompt's last token is read like the end of a step."""
        length = self.read(trajectory.prefix(0)).prompt_length
        if length == 0:
            raise ValueError(f"trajectory {trajectory.id!r} has an empty prompt: nothing stands before its first step")
        return length - 1


def _single_id(tokenizer: Any, marker: str) -> int:
    found = backbones.marker_id(tokenizer, marker)
    if found is None:
        raise ValueError(f"the marker {marker!r} is not one token of the vocabulary")
    return found


@register("family", "footfall")
def footfall() -> Family:
    """What `footfall train` made, of a plain decoder or of a checkpoint of another family."""
    return Family(
        name=FOOTFALL,
        published=(),
        licence="that of the backbone",
        match=Match(files=(CONFIG_FILE,)),
        # Head and read-out stand in the folder: it may hold a fine-tuned checkpoint of any family.
        threshold=None,
        open=_open,
        made_layout=StepEnds,
        token_level=True,
    )


def _open(seen: Evidence, family: Family, options: Options) -> Judge:
    try:
        own: Family = create("family", read_json(seen.folder).get("family", FOOTFALL))
    except KeyError as error:
        raise ValueError(f"{seen.folder / CONFIG_FILE}: {error.args[0]}") from error
    if own.objective is not None and own.open is not None:
        return own.open(seen, own, options)
    return options.judge(
        PRM.load(seen.folder, device=options.device, dtype=options.dtype, base=options.base, check=options.check)
    )
