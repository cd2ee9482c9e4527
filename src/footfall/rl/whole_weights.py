"""The policy with whole weights, for the time of writing and measuring, where those that are trained are sharded.

FSDP and ZeRO-3 leave each process a part of every weight, and give a layer whole to a forward pass that all processes make
together. The engine makes passes of its own, as many as its completions are long. So it writes with a second model of the same
shape, which has no memory but while it is filled: all processes gather every weight once, each writes alone, and the memory is
given back.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from footfall.loading import give_memory_back

_WRAPPED = re.compile(r"\b(_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod)\.")
"""What wrappers put into the names of weights."""


class WholeWeights:
    """A model of the shape of `model`, without memory; made before its weights are sharded."""

    def __init__(self, model: nn.Module) -> None:
        bare = {
            id(each): nn.Parameter(torch.empty_like(each, device="meta"), requires_grad=False)
            for each in model.parameters()
        }
        self.model: Any = copy.deepcopy(model, dict[int, Any](bare)).train(False)
        for module in self.model.modules():
            vars(module).pop("forward", None)  # TRL's in its place would call the model that is trained
        self._places: defaultdict[str, list[tuple[nn.Module, str]]] = defaultdict(list)
        """By a weight's first name all places that have it: tied weights are one."""
        first: dict[int, str] = {}
        for path, module in self.model.named_modules():
            for leaf, weight in module._parameters.items():
                if weight is not None:
                    name = first.setdefault(id(weight), f"{path}.{leaf}" if path else leaf)
                    self._places[name].append((module, leaf))

    @contextmanager
    def filled(self, trained: nn.Module, device: torch.device) -> Iterator[None]:
        """Inside, `model` has the weights of `trained`; all processes enter together."""
        bare = {name: module._parameters[leaf] for name, ((module, leaf), *_) in self._places.items()}
        try:
            for name, weight in trained.named_parameters():
                self._put(_WRAPPED.sub("", name), nn.Parameter(_whole(weight, device), requires_grad=False))
            yield
        finally:
            for name, empty in bare.items():
                self._put(name, empty)
            give_memory_back()

    def _put(self, name: str, weight: nn.Parameter | None) -> None:
        for module, leaf in self._places[name]:
            module._parameters[leaf] = weight


@torch.no_grad()
def _whole(weight: Any, device: torch.device) -> Tensor:
    """A copy: a weight of FSDP2 is put together from all parts, one of ZeRO-3 is whole within its context."""
    with _gathered(weight):
        found: Tensor = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
        return found.detach().to(device, copy=True)


def _gathered(weight: Any) -> AbstractContextManager[Any]:
    if not hasattr(weight, "ds_id"):
        return nullcontext()
    found: AbstractContextManager[Any] = import_module("deepspeed").zero.GatheredParameters([weight])
    return found
