"""Published generative judges as families of checkpoints: a causal LM is opened as a policy and asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from footfall.policy.torch_policy import TorchPolicy
from footfall.reward.checkpoint import Options
from footfall.reward.family import Evidence, Family, Match
from footfall.reward.heads import VocabularyRows
from footfall.reward.pieces import Writer
from footfall.reward.readout import Readout
from footfall.types import Judge, Trajectory

__all__ = ["generative", "policy_of"]

_HEADS = ("score.weight", "score.0.weight", "v_head.summary.weight")


def policy_of(seen: Evidence, options: Options) -> TorchPolicy:
    """The checkpoint as a writer."""
    return TorchPolicy.load(seen.folder, options.device, label=Path(seen.name).name)


def generative(
    name: str, published: tuple[str, ...], licence: str, names: tuple[str, ...], open: Callable[..., Judge]
) -> Family:
    """A family that is opened as a whole; head and readout only say what its verdict is."""
    return Family(
        name=name, published=published, licence=licence,
        match=Match(model_types=("qwen2",), absent=_HEADS, names=names, named=True),
        layout=_no_layout, head=VocabularyRows(("Yes", "No")), readout=Readout("good", ("good", "bad"), ("good",)),
        open=open,
    )  # fmt: skip


def _no_layout(writer: Writer, trajectory: Trajectory) -> NoReturn:
    raise TypeError("a generative judge writes a critique; it has no layout that is read in one pass")
