"""Heads of PRMs: small modules in float32 that turn hidden states (…, H) into logits (…, K).

    linear   W h + b
    layers   several linear layers with ReLU between, as most published PRMs have
    heads    networks side by side, one logit each (card: actprm)

A head is a registered part: `settings` names it and holds what, with the width and the number of outputs, makes its shape, so
that it is saved with its model. Where a published checkpoint keeps its head a `StoredHead` says. A vocabulary pair at a marker
needs two rows of the output matrix, not all 150,000: it is a class head like any other.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from footfall.damaged import naming
from footfall.registry import Declared, create, load, register, stored
from footfall.render import Writer
from footfall.reward.backbone import TensorFiles

MOST_NUMBERS = 1 << 28
"""Of a head's weights, a gigabyte; a head is small beside its decoder."""


class Head(nn.Module):
    """A head that can say what it is. A new one has `settings` and `forward`; the rest is for those that read more."""

    asks: ClassVar[Mapping[str, bool]] = {}
    """What the decoder gives it beside its last states, in transformers' words: `{"output_hidden_states": True}`."""
    both_ways: ClassVar[bool] = False
    """It is given the states of a step in the trace and in the trace with its steps reversed, side by side."""
    frozen: ClassVar[bool] = False
    """The decoder is not trained with it."""
    eager: ClassVar[bool] = False
    """It reads attention maps, which only the attention that is computed step by step has."""
    probability: ClassVar[bool] = False
    """Its one output is the probability itself, no logit."""
    gradient: float = 1.0
    """The share of its gradient, and of the learning rate, that the decoder gets."""

    @property
    def settings(self) -> dict[str, Any]:
        """Its name as a part, and its settings."""
        raise NotImplementedError

    @property
    def packable(self) -> bool:
        """It reads each step at one last state, so that traces may stand side by side in a row; not a head with ways of its own
        to take states from what the decoder gave, which would find its neighbours' there."""
        own = type(self)
        return not self.asks and (own.at, own.states, own.read) == (Head.at, Head.states, Head.read)

    @property
    def plain(self) -> bool:
        """It reads the last state at a step's end and nothing else, so that prefixes can be kept."""
        return self.packable and not self.both_ways

    @property
    def precision(self) -> torch.dtype:
        """Of its layers: float32, unless sharded training (FSDP2 in bfloat16) hands out others."""
        return next((weight.dtype for weight in self.parameters() if weight.is_floating_point()), torch.float32)

    def states(self, output: Any, decoder: Any) -> Tensor:
        """What it reads of every token (N, T, …), from what the decoder gave."""
        found: Tensor = output.last_hidden_state
        return found

    def read(self, decoder: Any, input_ids: Tensor) -> Tensor:
        """What it reads of every token when the decoder is given these ids (N, T)."""
        return self.states(decoder(input_ids=input_ids, use_cache=False, **self.asks), decoder)

    def at(self, states_NTH: Tensor, positions_NS: Tensor, prompts_N: Tensor | None = None) -> Tensor:
        """Logits (N, S, K) of the steps that end at these positions; a trace's own tokens begin at `prompts_N`."""
        index_NSH = positions_NS.unsqueeze(-1).expand(-1, -1, states_NTH.shape[-1])
        return self.of(states_NTH.gather(1, index_NSH))

    def of(self, read_NSH: Tensor) -> Tensor:
        """Logits of the states that were read, in float32; of both ways the rows that belong together are joined."""
        if self.both_ways:
            read_NSH = torch.cat(read_NSH.chunk(2), dim=-1)
        with torch.autocast(read_NSH.device.type, enabled=False):
            logits_NSK: Tensor = self(read_NSH.to(self.precision)).float()
        return logits_NSK


class Linear(nn.Linear, Head):
    """One linear layer."""

    @property
    def settings(self) -> dict[str, Any]:
        """Whether it has a bias."""
        return {"name": "linear"} if self.bias is not None else {"name": "linear", "bias": False}


class Layers(nn.Sequential, Head):
    """Linear layers with ReLU between them; a single one too."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__(*[module for layer in layers for module in (nn.ReLU(), layer)][1:])

    @property
    def linear(self) -> list[nn.Linear]:
        """Its linear layers, without what stands between them."""
        return [module for module in self if isinstance(module, nn.Linear)]

    @property
    def settings(self) -> dict[str, Any]:
        """The widths of its hidden layers, and which have a bias."""
        hidden = [layer.out_features for layer in self.linear[:-1]]
        return {"name": "layers", "hidden": hidden, "biases": [layer.bias is not None for layer in self.linear]}


class Heads(Head):
    """`members` networks H → hidden → hidden → 1 with ReLU; logits (…, members).

    Each has its own random start, which is kept beside it: a small pull back to it keeps heads that see the same labels from
    becoming one, so that they differ where there was nothing to learn from.
    """

    initial: Tensor

    def __init__(self, width: int, members: int, hidden: int = 128, seed: int = 0) -> None:
        super().__init__()
        self.hidden = hidden
        generator = torch.Generator().manual_seed(seed)
        pairs = layer_sizes((width, hidden, hidden, 1), members)
        self.weights = nn.ParameterList(nn.Parameter(even((members, a, b), a, generator)) for a, b in pairs)
        self.biases = nn.ParameterList(nn.Parameter(even((members, b), a, generator)) for a, b in pairs)
        self.register_buffer("initial", parameters_to_vector(self.parameters()).detach().clone())

    @property
    def settings(self) -> dict[str, Any]:
        """The width of each network's hidden layer."""
        return {"name": "heads", "hidden": self.hidden}

    def forward(self, hidden: Tensor) -> Tensor:
        """One logit of each network."""
        return through_members(hidden, self.weights, self.biases).squeeze(-1)

    def drift(self) -> Tensor:
        """Mean squared distance of all weights from where they began."""
        return ((parameters_to_vector(self.parameters()) - self.initial) ** 2).mean()


def through_members(hidden: Tensor, weights_EHD: Iterable[Tensor], biases_ED: Iterable[Tensor]) -> Tensor:
    """States (…, H) through networks that stand side by side, ReLU between layers: (…, E, D)."""
    x = hidden
    for n, (weight_EHD, bias_ED) in enumerate(zip(weights_EHD, biases_ED, strict=True)):
        into = "...h,ehd->...ed" if n == 0 else "...eh,ehd->...ed"
        x = torch.einsum(into, x.relu() if n else x, weight_EHD) + bias_ED
    return x


def layer_sizes(widths: Sequence[int], members: int = 1) -> list[tuple[int, int]]:
    """What each layer takes and gives; widths that no head has are refused before memory is taken for them."""
    sizes = list(pairwise(widths))
    numbers = members * sum(a * b for a, b in sizes)
    if min(members, *widths) < 1 or numbers > MOST_NUMBERS:
        of = f"{members} networks" if members != 1 else "layers"
        raise ValueError(
            f"a head of {of} with the widths {', '.join(map(str, widths[:8]))}: a width is 1 or more, and all weights together "
            f"are at most {MOST_NUMBERS:,} numbers"
        )
    return sizes


def even(shape: tuple[int, ...], taken: int, generator: torch.Generator) -> Tensor:
    """Even in ±1/√(inputs), as linear layers begin."""
    bound = 1 / math.sqrt(taken)
    return (2 * torch.rand(shape, generator=generator) - 1) * bound


@register("head", "linear", Declared(unmeasured="every objective is measured with it"))
def linear_head(width: int, outputs: int, seed: int = 0, bias: bool = True) -> Linear:
    """One linear layer."""
    return _drawn(width, outputs, bias, torch.Generator().manual_seed(seed))


@register("head", "layers", Declared(unmeasured="it is how published heads are stored"))
def layered_head(
    width: int, outputs: int, seed: int = 0, hidden: Sequence[int] = (), biases: Sequence[bool] | None = None
) -> Layers:
    """Linear layers with ReLU between them, of these hidden widths."""
    generator = torch.Generator().manual_seed(seed)
    sizes = layer_sizes((width, *hidden, outputs))
    kept = biases if biases is not None else [True] * len(sizes)
    if len(kept) != len(sizes):
        raise ValueError(f"a head of {len(sizes)} layers has as many biases, not {len(kept)}")
    return Layers([_drawn(a, b, bias, generator) for (a, b), bias in zip(sizes, kept, strict=True)])


@register("head", "heads", Declared(unmeasured="`footfall lab run actprm` measures several small networks"))
def small_networks(width: int, outputs: int, seed: int = 0, hidden: int = 128) -> Heads:
    """As many small networks as there are outputs, each with a start of its own."""
    return Heads(width, outputs, hidden, seed)


def make_head(settings: Mapping[str, Any], width: int, outputs: int, seed: int = 0, decoder: Any = None) -> Head:
    """The head that `Head.settings` describes, with fresh weights; one that takes it is told the config of its decoder."""
    given = stored({name: value for name, value in settings.items() if name != "name"}, "the head of a PRM")
    own: dict[str, Any] = {"width": width, "outputs": outputs, "seed": seed, "decoder": decoder}
    taken = inspect.signature(load("head", settings["name"])).parameters
    if wrong := [name for name in given if name in own or name not in taken]:
        raise ValueError(f"the head {settings['name']!r} takes no {wrong[0]!r}")
    made: Head = create("head", settings["name"], **{name: own[name] for name in own if name in taken}, **given)
    return made


def load_head(head: nn.Module, path: Path) -> None:
    """Stored weights into a head of the same shape."""
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} has no {path.name}")
    with naming(path):
        state = safetensors.torch.load_file(path)
    for name, made in head.state_dict().items():
        if name not in state:
            raise ValueError(f"{path} holds no tensor {name!r}, the config says that the head has one")
        shape, expected = tuple(state[name].shape), tuple(made.shape)
        if shape != expected:
            raise ValueError(f"{path} holds a head of shape {shape}, the config and backbone say {expected}")
    with naming(path):
        head.load_state_dict(state)


def _drawn(width: int, outputs: int, bias: bool, generator: torch.Generator) -> Linear:
    """Small normal weights and no bias, without a look at the global generator."""
    head: Linear = Linear(width, outputs, bias=bias, dtype=torch.float32, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        head.weight.normal_(0.0, 0.02, generator=generator)
        if bias:
            head.bias.zero_()
    return head


def repeated(head: nn.Linear, classes: Sequence[str], good: Sequence[str], outputs: int) -> Linear:
    """A linear layer whose outputs all are the one logit of `head`, or the difference of its two classes.

    So a head with one output, or with a good and a bad class, becomes one with several: before any training every output says
    what the head said (card: calibration-ias).
    """
    if len(classes) not in (0, 2) or len(good) != len(classes) // 2 or (not classes and head.out_features != 1):
        raise ValueError(
            f"a head with {head.out_features} outputs and the classes {tuple(classes)} has no single logit to begin from; "
            "one output, or a good and a bad class, have"
        )
    sign = torch.tensor([1.0 if name in good else -1.0 for name in classes] or [1.0], device=head.weight.device)
    wide: Linear = Linear(head.in_features, outputs, dtype=head.weight.dtype, device="meta")
    wide = wide.to_empty(device=head.weight.device)
    with torch.no_grad():
        wide.weight.copy_((sign @ head.weight).expand(outputs, -1))
        wide.bias.copy_(((sign @ head.bias) if head.bias is not None else wide.bias.new_zeros(())).expand(outputs))
    return wide


class StoredHead(Protocol):
    """Where the checkpoints of a family keep their head: makes the module from their tensors."""

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> Head:
        """The head of a checkpoint, for a decoder of this width and so many outputs."""
        ...


def linear(weight_KH: Tensor, bias_K: Tensor | None = None) -> Linear:
    """A frozen linear layer with these weights."""
    layer = Linear(weight_KH.shape[1], weight_KH.shape[0], bias=bias_K is not None, device="meta")
    layer.weight = nn.Parameter(weight_KH.float(), requires_grad=False)
    if bias_K is not None:
        layer.bias = nn.Parameter(bias_K.float(), requires_grad=False)
    return layer


@dataclass(frozen=True)
class LinearHead:
    """Stored under `prefix`: one linear layer (`prefix.weight`) or several (`prefix.0.weight`, …) with ReLU between."""

    prefix: str
    hidden: int = 0
    """Layers before the last one, as wide as the decoder, of a head that is begun here."""

    def fresh(self, width: int, outputs: int, seed: int) -> Layers:
        """A head of this shape that has learned nothing."""
        return layered_head(width, outputs, seed, (width,) * self.hidden)

    def stored(self, head: nn.Module) -> dict[str, Tensor]:
        """Its tensors under their published names; a single layer has no number."""
        state: dict[str, Tensor] = head.state_dict()
        single = {name.partition(".")[0] for name in state} == {"0"}
        return {f"{self.prefix}.{name.removeprefix('0.') if single else name}": t for name, t in state.items()}

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> Head:
        """The stored layers in order; widths that do not fit are refused."""
        names = self._layers(tensors)
        layers = [_stored(tensors, name) for name in names]
        taken, given = width, outputs
        for name, layer in zip(names, layers, strict=True):
            if layer.in_features != taken:
                raise ValueError(f"{tensors.folder}: {name} takes {layer.in_features} numbers, the model gives {taken}")
            taken = layer.out_features
        if taken != given:
            raise ValueError(
                f"{tensors.folder}: the head {self.prefix} gives {taken} outputs, its family has {given}; "
                "it is of another family, or the wrong tensor was stored"
            )
        return Layers(layers)

    def _layers(self, tensors: TensorFiles) -> list[str]:
        if f"{self.prefix}.weight" in tensors:
            return [self.prefix]
        pattern = re.compile(rf"{re.escape(self.prefix)}\.(\d+)\.weight")
        numbers = sorted(int(found.group(1)) for name in tensors.names if (found := pattern.fullmatch(name)))
        if not numbers:
            raise ValueError(f"{tensors.folder} has no head called {self.prefix}")
        return [f"{self.prefix}.{n}" for n in numbers]


@dataclass(frozen=True)
class VocabularyRows:
    """The rows of the output matrix that belong to these tokens, in this order."""

    tokens: tuple[str, ...]

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> Head:
        """The rows of the output matrix that belong to the tokens: a class head."""
        if len(self.tokens) != outputs:
            raise ValueError(f"{len(self.tokens)} tokens for {outputs} outputs")
        rows = [writer.id_of(token) for token in self.tokens]
        name = output_matrix(tensors)
        bias = f"{name.removesuffix('.weight')}.bias"
        return _fitting(
            linear(tensors.rows(name, rows), tensors.load(bias)[rows] if bias in tensors else None), width, name
        )


@dataclass(frozen=True)
class MeanOfRows:
    """One logit: the mean of the outputs of a matrix of `rows` rows, which is the output of its mean row.

    The matrix may repeat these rows down to the size of a vocabulary, which leaves the mean as it is.
    """

    rows: int

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> Head:
        """One row: the mean of the first rows of the output matrix."""
        name = output_matrix(tensors)
        stored = tensors.shape(name)[0]
        first_RH = tensors.rows(name, list(range(min(self.rows, stored))))
        # All rows are alike or none is: a language model's own matrix shows it at once.
        repeats = stored % self.rows == 0 and all(
            torch.equal(tensors.rows(name, list(range(start, start + self.rows))), first_RH)
            for start in {0, min(self.rows, stored - self.rows), stored - self.rows}
        )
        if not repeats:
            raise ValueError(
                f"{tensors.folder}: {name} has {stored} rows that do not repeat {self.rows}; "
                "its family has one reward head of that many rows there"
            )
        return _fitting(linear(first_RH.mean(dim=0, keepdim=True)), width, name)


def output_matrix(tensors: TensorFiles) -> str:
    """The language model's output matrix, or the embedding that it is tied to."""
    for name in ("lm_head.weight", "model.embed_tokens.weight", "embed_tokens.weight"):
        if name in tensors:
            return name
    raise ValueError(f"{tensors.folder} has no output matrix: it is no causal language model")


def _stored(tensors: TensorFiles, name: str) -> Linear:
    bias = f"{name}.bias"
    weight = tensors.load(f"{name}.weight")
    if weight.dim() != 2:
        raise ValueError(f"{tensors.folder}: {name}.weight has {weight.dim()} axes, a linear layer has 2")
    if not torch.isfinite(weight).all():
        raise ValueError(f"{tensors.folder}: {name}.weight holds numbers that are not finite")
    return linear(weight, tensors.load(bias) if bias in tensors else None)


def _fitting(layer: Linear, width: int, name: str) -> Linear:
    if layer.in_features != width:
        raise ValueError(f"{name} takes {layer.in_features} numbers, the model gives {width}")
    return layer
