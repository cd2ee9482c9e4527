"""A decoder with a head that is read at chosen positions: what trained step heads and published PRMs have in common.

Batches are padded on the right and a decoder looks only back, so a token never sees padding and no mask is needed: the
attention kernel that needs none is exact here, and the fastest. Logits leave in float32 whatever the backbone's type.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from footfall.reward.backbone import Backbone
from footfall.reward.batching import pack, pad
from footfall.reward.reading import Reading
from footfall.reward.readout import Columns, Readout
from footfall.types import Trajectory

__all__ = ["StepModel"]


class StepModel(nn.Module):
    """Backbone + head + readout. A subclass says how a trace is read."""

    backbone: Backbone
    head: nn.Module
    readout: Readout
    pad_id: int
    multiple: int = 1
    """Lengths are padded to a multiple of this; compiled code likes few shapes."""

    @property
    def kind(self) -> str:
        """What stands before the fingerprint in the judge's name."""
        raise NotImplementedError

    @property
    def max_length(self) -> int:
        """Tokens that fit in its context."""
        raise NotImplementedError

    @property
    def threshold(self) -> float | None:
        """Below it a step is an error, by the model's own account."""
        raise NotImplementedError

    @property
    def separators(self) -> tuple[str, ...]:
        """What stood after each step of the traces it was trained on, if that is known."""
        return ()

    def fingerprint(self) -> str:
        """Names weights and reading by content."""
        raise NotImplementedError

    def read(self, trajectory: Trajectory) -> Reading:
        """The ids this model sees for a trace, and where it reads each step."""
        raise NotImplementedError

    def reads(self, trajectory: Trajectory) -> list[Reading]:
        """One sequence that is read at every step; a model that must see each prefix apart gives one a step."""
        return [self.read(trajectory)]

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        """`reads` of many traces, tokenised together where that is faster."""
        return [self.reads(trajectory) for trajectory in trajectories]

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.backbone.parameters()).device
        return device

    @property
    def size(self) -> int:
        """Number of parameters, head included."""
        return sum(p.numel() for p in self.parameters())

    def forward(self, input_ids: Tensor, positions: Tensor) -> Tensor:
        """Logits (N, S, K) at `positions` (N, S) of right-padded ids (N, T)."""
        hidden_NTH: Tensor = self.backbone(input_ids=input_ids, use_cache=False).last_hidden_state
        return self.head_at(hidden_NTH, positions)

    def head_at(self, hidden_NTH: Tensor, positions_NS: Tensor) -> Tensor:
        """The head's logits (N, S, K) at these positions."""
        index_NSH = positions_NS.unsqueeze(-1).expand(-1, -1, hidden_NTH.shape[-1])
        read_NSH = hidden_NTH.gather(1, index_NSH)
        with torch.autocast(hidden_NTH.device.type, enabled=False):
            logits_NSK: Tensor = self.head(read_NSH.float())
        return logits_NSK

    def fuse(self) -> None:
        """Compile the decoder's layers, which share one piece of code; the first batches are then slow, the rest faster."""
        for layer in _layers(self.backbone):
            layer.compile(dynamic=True)
        self.multiple = 64

    def values(self, logits_NSK: Tensor) -> Tensor:
        """One value a step."""
        return self.readout.values(logits_NSK)

    def columns(self, logits_SK: Tensor) -> Columns:
        """Values and aspects of one trace from its logits."""
        return self.readout.columns(logits_SK)

    @torch.inference_mode()
    def logits(self, readings: Sequence[Reading]) -> Tensor:
        """Logits (N, S, K) of readings that fit in one batch; entries past a trace's own steps mean nothing."""
        batch = pad(readings, self.pad_id, self.device, self.multiple)
        logits_NSK: Tensor = self(*batch)
        return logits_NSK

    def each_logits(self, readings: Sequence[Reading], token_budget: int = 2048) -> list[Tensor]:
        """Logits (S, K) of each reading, in order, on the CPU; batches are made of traces of like length.

        Nothing is copied back before the last batch is under way, so a GPU never waits for the host in between.
        """
        groups = pack([len(r.ids) for r in readings], token_budget)
        batches = [self.logits([readings[i] for i in group]) for group in groups]
        found: list[Tensor] = [torch.zeros(0, self.readout.outputs)] * len(readings)
        for group, logits_NSK in zip(groups, batches, strict=True):
            for i, logits_SK in zip(group, logits_NSK.cpu(), strict=True):
                found[i] = logits_SK[: len(readings[i].positions)]
        return found

    def score(self, readings: Sequence[Reading], token_budget: int = 2048) -> list[tuple[float, ...]]:
        """Values of each reading's steps, in order."""
        was_training = self.training
        self.eval()
        scores = [tuple(self.values(logits).tolist()) for logits in self.each_logits(readings, token_budget)]
        self.train(was_training)
        return scores


def _layers(backbone: Backbone) -> nn.ModuleList:
    """The decoder's layers, wherever an adapter put them."""
    for name, module in backbone.named_modules():
        if name.rpartition(".")[2] == "layers" and isinstance(module, nn.ModuleList):
            return module
    raise ValueError(f"a {type(backbone).__name__} has no list of layers to compile")
