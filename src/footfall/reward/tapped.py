"""Heads that read more of the decoder than its last state where a step ends, or leave the decoder as it is.

    both-ways      s = g a + (1 − g) b;  a, b the logits of a step in the trace and in the trace with its steps reversed,
                   g = σ(MLP([h_a; h_b])), or ½                                                           (card: biprm)
    policy-state   an MLP on the second-to-last layer; the decoder gets 1/10,000 of its gradient    (card: sprm-metastone)
    frozen-linear  W h + b on a frozen decoder: what its last state shows as it is
    uncertainty    a small encoder over attentions and probabilities of a frozen decoder                  (card: uhead)

What a head asks for and whether it reads both ways it says by class attributes of `Head`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from footfall.registry import Declared, StudyRow, register
from footfall.reward.heads import MOST_NUMBERS, Head, Linear, linear_head

Fusion = Literal["gate", "mean"]
Made = TypeVar("Made")


class BothWays(Head):
    """One value layer for both orders of the steps, and a gate that weighs the two by their states.

    The gate sees the states without gradient, as in the released code. A trace of one step is the same both ways.
    """

    both_ways = True

    def __init__(self, width: int, outputs: int, seed: int = 0, fusion: Fusion = "gate") -> None:
        super().__init__()
        if fusion not in ("gate", "mean"):
            raise ValueError(f"fusion is gate or mean, not {fusion!r}")
        self.fusion = fusion
        self.value = linear_head(width, outputs, seed)
        self.gate = _seeded(
            seed + 1, lambda: nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))
        )

    @property
    def settings(self) -> dict[str, Any]:
        """How the two values become one."""
        return {"name": "both-ways", "fusion": self.fusion}

    def forward(self, states: Tensor) -> Tensor:
        """From both states of each step, side by side."""
        forwards, backwards = (self.value(half) for half in states.chunk(2, dim=-1))
        share = self.gate(states.detach()).sigmoid() if self.fusion == "gate" else 0.5
        fused: Tensor = fuse(forwards, backwards, share)
        return fused


def fuse(forwards: Tensor, backwards: Tensor, share: Tensor | float) -> Tensor:
    """g a + (1 − g) b."""
    return share * forwards + (1 - share) * backwards


class PolicyState(Head):
    """Two layers on the policy's own state before its last layer, with dropout; the policy itself is hardly moved by it."""

    asks: ClassVar[Mapping[str, bool]] = {"output_hidden_states": True}

    def __init__(
        self, width: int, outputs: int, seed: int = 0, dropout: float = 0.5, gradient: float = 1e-4, layer: int = -2
    ) -> None:
        super().__init__()
        self.dropout, self.gradient, self.layer = dropout, gradient, layer
        self.layers = _seeded(seed, lambda: nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * width, outputs)
        ))  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """Dropout, the share of the gradient that the decoder gets, and the layer that is read."""
        return {"name": "policy-state", "dropout": self.dropout, "gradient": self.gradient, "layer": self.layer}

    def states(self, output: Any, decoder: Any) -> Tensor:
        """ε h + (1 − ε) stopgrad(h) of the layer."""
        state_NTH: Tensor = output.hidden_states[self.layer]
        return self.gradient * state_NTH + (1 - self.gradient) * state_NTH.detach()

    def forward(self, states: Tensor) -> Tensor:
        """The logits of a state."""
        logits: Tensor = self.layers(states)
        return logits


class FrozenLinear(Linear):
    """A linear probe: one layer, and the decoder stays as it was."""

    frozen = True

    @property
    def settings(self) -> dict[str, Any]:
        """It has none."""
        return {"name": "frozen-linear"}


class Uncertainty(Head):
    """Reads, for every token that the policy wrote, how much each attention head looks at the last `window` tokens, and the
    `top` next-token probabilities. A step's tokens are marked, an encoder looks at all up to the step's end, and the mean over
    the step's tokens is classified. The published head says how likely the step is wrong; this one gives the logit that it is
    good, which is that one with its sign turned.
    """

    asks: ClassVar[Mapping[str, bool]] = {"output_attentions": True}
    frozen = True

    def __init__(
        self, maps: int, outputs: int, seed: int = 0, size: int = 512, layers: int = 1, heads: int = 16, window: int = 5,
        top: int = 4, dropout: float = 0.1, causal: bool = True,
    ) -> None:  # fmt: skip
        """`maps` are all attention heads of all layers. `causal`: tokens after a step do not change its value."""
        super().__init__()
        self.chosen = {
            "size": size, "layers": layers, "heads": heads, "window": window, "top": top, "dropout": dropout, "causal": causal,
        }  # fmt: skip
        self.window, self.top, self.causal = window, top, causal

        def build() -> tuple[nn.Module, nn.Module, nn.Module, nn.Module]:
            features = nn.Sequential(
                nn.Linear(maps * window + top, 2 * size), nn.LayerNorm(2 * size), nn.GELU(), nn.Dropout(dropout),
                nn.Linear(2 * size, size), nn.LayerNorm(size), nn.GELU(),
            )  # fmt: skip
            layer = nn.TransformerEncoderLayer(size, heads, 4 * size, dropout, batch_first=True)
            encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            classifier = nn.Sequential(
                nn.Linear(size, size), nn.LayerNorm(size), nn.GELU(), nn.Dropout(dropout), nn.Linear(size, outputs)
            )
            return features, nn.Embedding(2, size), encoder, classifier

        self.features, self.marks, self.encoder, self.classifier = _seeded(seed, build)

    @property
    def settings(self) -> dict[str, Any]:
        """Its shape; the number of attention maps is the decoder's."""
        return {"name": "uncertainty", **self.chosen}

    @torch.no_grad()
    def states(self, output: Any, decoder: Any) -> Tensor:
        """Attentions to the token itself and those before it, 0 before the start, and the highest next-token probabilities."""
        # Layer by layer: all maps of a long trace side by side, in single precision, are the most that a training would hold.
        looks_NTF = torch.cat([self._looks(maps_NHTT) for maps_NHTT in output.attentions], dim=1).flatten(1, 2)
        looks_NTF = looks_NTF.transpose(1, 2)
        if not self.top:
            return looks_NTF
        words_VH = decoder.get_input_embeddings().weight
        rows = torch.split(output.last_hidden_state.flatten(0, 1), 2048)
        likely = torch.cat([(row @ words_VH.T).float().softmax(dim=-1).topk(self.top).values for row in rows])
        return torch.cat([looks_NTF, likely.view(*looks_NTF.shape[:2], self.top)], dim=-1)

    def _looks(self, maps_NHTT: Tensor) -> Tensor:
        """How much each token of each map looks at itself and those before it, (N, H, window, T)."""
        near = [maps_NHTT.diagonal(-k, 2, 3).float() for k in range(min(self.window, maps_NHTT.shape[-1]))]
        seen = [nn.functional.pad(found, (k, 0)) for k, found in enumerate(near)]
        return torch.stack(seen + [torch.zeros_like(seen[0])] * (self.window - len(seen)), dim=2)

    def at(self, states_NTH: Tensor, positions_NS: Tensor, prompts_N: Tensor | None = None) -> Tensor:
        """Each step apart, with its own tokens marked."""
        (n, size), steps = states_NTH.shape[:2], positions_NS.shape[1]
        begin_N1 = positions_NS.new_zeros(n, 1) if prompts_N is None else prompts_N.unsqueeze(1)
        token_T = torch.arange(size, device=states_NTH.device)
        ends_NS1 = positions_NS.unsqueeze(-1)
        starts_NS1 = torch.cat([begin_N1, positions_NS[:, :-1] + 1], dim=1).unsqueeze(-1)
        own_NST = (token_T >= starts_NS1) & (token_T <= ends_NS1)
        last_NS1 = ends_NS1 if self.causal else positions_NS.amax(dim=1).view(n, 1, 1)
        # The step's last token is always seen, so that what pads a batch has something to attend to.
        seen_NST = ((token_T >= begin_N1.unsqueeze(-1)) & (token_T <= last_NS1)) | (token_T == ends_NS1)
        with torch.autocast(states_NTH.device.type, enabled=False):
            told_NTD = self.features(states_NTH.to(self.precision))
            marked = told_NTD.unsqueeze(1) + self.marks(own_NST.long())
            read = self.encoder(marked.flatten(0, 1), src_key_padding_mask=~seen_NST.flatten(0, 1))
            logits: Tensor = self.classifier(mean_over(read.view(n, steps, size, -1), own_NST))
        return -logits.float()


def mean_over(tokens_NSTD: Tensor, own_NST: Tensor) -> Tensor:
    """The mean of the tokens that the mask keeps, (N, S, D)."""
    kept = tokens_NSTD.masked_fill(~own_NST.unsqueeze(-1), 0.0).sum(dim=-2)
    return kept / own_NST.sum(dim=-1, keepdim=True).clamp(min=1)


def _seeded(seed: int, build: Callable[[], Made]) -> Made:
    """What `build` makes, drawn by this seed without a trace in the global generator."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return build()


@register("head", "both-ways")
def both_ways(width: int, outputs: int, seed: int = 0, fusion: Fusion = "gate") -> BothWays:
    """Reads the steps in order and in reverse (BiPRM), and fuses both values by a gate or their mean."""
    return BothWays(width, outputs, seed, fusion)


@register("head", "policy-state", Declared(study=(StudyRow(fixed={"objective": "self-agreement", "lr": 3e-3}),)))
def policy_state(
    width: int, outputs: int, seed: int = 0, decoder: Any = None, dropout: float = 0.5, gradient: float = 1e-4,
    layer: int = -2,
) -> PolicyState:  # fmt: skip
    """A small network on an intermediate state of the policy (SPRM)."""
    states = None if decoder is None else decoder.num_hidden_layers + 1
    if states is not None and not -states <= layer < states:
        raise ValueError(f"the head policy-state reads the layer {layer}; this decoder has {-states} to {states - 1}")
    if not 0 <= gradient <= 1:
        raise ValueError(f"the head policy-state: gradient is a share from 0 to 1, not {gradient:g}")
    return PolicyState(width, outputs, seed, dropout, gradient, layer)


@register("head", "frozen-linear", Declared(study=(StudyRow(fixed={"lr": 1e-2}),)))
def frozen_linear(width: int, outputs: int, seed: int = 0) -> FrozenLinear:
    """One linear layer on a frozen decoder."""
    head = FrozenLinear(width, outputs)
    head.load_state_dict(linear_head(width, outputs, seed).state_dict())
    return head


@register(
    "head",
    "uncertainty",
    Declared(
        study=(
            StudyRow(
                fixed={
                    "objective_options": {"wrong_weight": 3.0},
                    "head_options": {"size": 64, "heads": 4, "window": 3},
                    "lr": 1e-3,
                }
            ),
        )
    ),
)
def uncertainty(
    width: int, outputs: int, seed: int = 0, decoder: Any = None, size: int = 512, layers: int = 1, heads: int = 16,
    window: int = 5, top: int = 4, dropout: float = 0.1, causal: bool = True,
) -> Uncertainty:  # fmt: skip
    """A small encoder over attentions and probabilities of a frozen decoder (UHead)."""
    if top and not getattr(decoder, "tie_word_embeddings", False):
        raise ValueError(
            "the head uncertainty reads next-token probabilities, and this decoder keeps its output matrix apart; "
            "set its top to 0 to go by attentions alone"
        )
    maps = decoder.num_hidden_layers * decoder.num_attention_heads
    numbers = size * (maps * window + top) + 12 * layers * size * size
    if min(size, layers, heads, window, top + 1) < 1 or size % heads or numbers > MOST_NUMBERS:
        raise ValueError(
            f"the head uncertainty of size {size} with {layers} layers, {heads} heads, window {window} and top {top}: each is "
            f"1 or more, top 0 or more, heads divide size, and the weights are at most {MOST_NUMBERS:,} numbers"
        )
    return Uncertainty(maps, outputs, seed, size, layers, heads, window, top, dropout, causal)
