"""What the engine knows of weights that are not its own: whether they were changed, and copies of them in another order.

Torch counts writes to a tensor (`Tensor._version`), but neither those of fused optimizers, the default of transformers'
`Trainer`, nor those through `.data`. So some numbers of each weight are compared too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

_PROBED = 64
"""Numbers of each weight that are compared."""
_LAID_OUT_BYTES = 4 << 30
"""Models with larger linear weights are not copied."""


class _Steps:
    """Steps of any optimizer in this process, so that nobody compares weights when nothing can have trained them."""

    taken = 0


def _count_step(*_: Any) -> None:
    _Steps.taken += 1


register_optimizer_step_post_hook(_count_step)


class WeightsWatch:
    """Says whether a model's weights are those of the last time: by their place, torch's count of writes, 64 numbers of each,
    and by the adapters that are in use.

    Not noticed: a write through `.data` to a few numbers of a weight only.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.changes = self.moves = 0
        """How often weights were found changed, and how often others were read than before, as those in another place or of
        another adapter: then nothing may point to the old ones."""
        self._tuned: list[nn.Module] = []
        self._counted: list[nn.Parameter] = []
        self._places: list[int] = []
        self._probes: list[list[Tensor]] = []
        self._hint: tuple[object, ...] = ()
        self._adapters: list[Adapters] = []
        self._numbers: list[bytes] = []
        self.look()

    def look(self) -> int:
        """Compare all that is watched; the number of changes so far."""
        parameters = [each for each in self.model.parameters() if each.numel()]
        self._counted = [each for each in parameters if not each.is_inference()]
        places = [each.data_ptr() for each in parameters]
        self._tuned = [each for each in self.model.modules() if _has_adapters(each)]
        adapters = [_adapters(each) for each in self._tuned]
        if places != self._places:
            self._places, self._probes = places, _probes(parameters)
            self.moves += 1
        elif adapters != self._adapters:
            self.moves += 1
        self._adapters = adapters
        hint, numbers = self._hints(), [_bytes(torch.cat(probes)) for probes in self._probes]
        # The count of steps alone, the first hint, says nothing: it may be another model that was trained.
        if hint[1:] != self._hint[1:] or numbers != self._numbers:
            self.changes += 1
        self._hint, self._numbers = hint, numbers
        return self.changes

    def glance(self) -> int:
        """The same for who asks often: compares only if an optimizer has stepped or torch has counted a write since."""
        return self.changes if self._hints() == self._hint else self.look()

    @property
    def adapters(self) -> tuple[Adapters, ...]:
        """The ways in which the layers were found to use their adapters, each once; of a model without adapters none."""
        return tuple(sorted(set(self._adapters)))

    def _hints(self) -> tuple[object, ...]:
        return (_Steps.taken, *(each._version for each in self._counted), *map(_adapters, self._tuned))


Adapters: TypeAlias = tuple[bool, tuple[str, ...]]
"""Whether a layer leaves its adapters out, and the names of those that are active."""


def _has_adapters(module: nn.Module) -> bool:
    """Whether it is one of PEFT's layers; transformers' models have methods of the same names."""
    return isinstance(getattr(module, "disable_adapters", None), bool)


def _adapters(module: Any) -> Adapters:
    return module.disable_adapters, tuple(module.active_adapters)


def _probes(parameters: list[nn.Parameter]) -> list[list[Tensor]]:
    """Evenly spread numbers of each weight, as views of its memory, by device and type."""
    found: defaultdict[tuple[torch.device, torch.dtype], list[Tensor]] = defaultdict(list)
    for each in parameters:
        span = 1 + sum((size - 1) * stride for size, stride in zip(each.shape, each.stride(), strict=True))
        flat = each.detach().as_strided((span,), (1,))
        found[each.device, each.dtype].append(flat[:: max(1, span // _PROBED)][:_PROBED])
    return list(found.values())


def _bytes(numbers: Tensor) -> bytes:
    return bytes(numbers.cpu().view(torch.uint8).numpy().tobytes())


class CpuLayout:
    """Copies of the linear weights in the order in which x·Wᵀ reads them: the same numbers, up to twice the speed for few rows.

    They stand in for the weights only while the engine writes; the model's own are never touched.
    """

    def __init__(self) -> None:
        self._copies: dict[nn.Linear, nn.Parameter] | None = None

    def clear(self) -> None:
        """Copy anew when they are needed next."""
        self._copies = None

    @contextmanager
    def in_use(self, model: nn.Module) -> Iterator[None]:
        """Inside, the model's linear layers read the copies; afterwards they have their own weights again."""
        copies = self._copies = _copies(model) if self._copies is None else self._copies
        own = {linear: linear._parameters["weight"] for linear in copies}
        try:
            for linear, copied in copies.items():
                linear._parameters["weight"] = copied
            yield
        finally:
            for linear, weight in own.items():
                linear._parameters["weight"] = weight


def _copies(model: nn.Module) -> dict[nn.Linear, nn.Parameter]:
    linears = [each for each in model.modules() if isinstance(each, nn.Linear) and "weight" in each._parameters]
    on_cpu = [each for each in linears if each.weight.device.type == "cpu" and each.weight.is_floating_point()]
    if sum(each.weight.nbytes for each in on_cpu) > _LAID_OUT_BYTES:
        return {}
    with torch.inference_mode(False):
        return {each: nn.Parameter(each.weight.detach().t().contiguous().t(), False) for each in on_cpu}
