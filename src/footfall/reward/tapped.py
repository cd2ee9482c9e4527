"""Heads that read more of the decoder than its last state where a step ends, or leave the decoder as it is.

    both-ways      s = g a + (1 − g) b;  a, b the logits of a step in the trace and in the trace with its steps reversed,
                   g = σ(MLP([h_a; h_b])), or ½                                                           (card: biprm)
    policy-state   an MLP on the second-to-last layer; the decoder gets 1/10,000 of its gradient    (card: sprm-metastone)
    frozen-linear  W h + b on a frozen decoder: what its last state shows as it is
    uncertainty    a small encoder over attentions and probabilities of a frozen decoder                  (card: uhead)

What a head asks for and whether it reads both ways it says by class attributes of `Head`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from footfall.registry import Declared, StudyRow, register
from footfall.reward.heads import MOST_NUMBERS, Head, Linear, linear_head

Fusion = Literal["gate", "mean"]
Activation = Literal["gelu", "relu"]
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
    good, which is that one with its sign turned. The encoder is the authors' (IINemo/llm-uncertainty-head), GELU inside and,
    at its size of 512, as wide. What differs from their code: a token has what its own pass shows, the probabilities of the
    token after it; theirs has what the pass showed that drew it, one place before.
    """

    eager = True
    frozen = True

    def __init__(
        self, maps: int, outputs: int, seed: int = 0, size: int = 512, layers: int = 1, heads: int = 16, window: int = 5,
        top: int = 4, dropout: float = 0.1, causal: bool = True, activation: Activation = "gelu",
    ) -> None:  # fmt: skip
        """`maps` are all attention heads of all layers. `causal`: tokens after a step do not change its value."""
        super().__init__()
        self.chosen = {
            "size": size, "layers": layers, "heads": heads, "window": window, "top": top, "dropout": dropout, "causal": causal,
            "activation": activation,
        }  # fmt: skip
        self.window, self.top, self.causal = window, top, causal

        def build() -> tuple[nn.Sequential, nn.Embedding, nn.Module, nn.Module]:
            features = nn.Sequential(
                nn.Linear(maps * window + top, 2 * size), nn.LayerNorm(2 * size), nn.GELU(), nn.Dropout(dropout),
                nn.Linear(2 * size, size), nn.LayerNorm(size), nn.GELU(),
            )  # fmt: skip
            layer = nn.TransformerEncoderLayer(size, heads, 4 * size, dropout, activation, batch_first=True)
            encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            classifier = nn.Sequential(
                nn.Linear(size, size), nn.LayerNorm(size), nn.GELU(), nn.Dropout(dropout), nn.Linear(size, outputs)
            )
            return features, nn.Embedding(2, size), encoder, classifier

        self.features, self.marks, self.encoder, self.classifier = _seeded(seed, build)
        self.depth = layers

    @property
    def settings(self) -> dict[str, Any]:
        """Its shape; the number of attention maps is the decoder's."""
        return {"name": "uncertainty", **self.chosen}

    @torch.no_grad()
    def read(self, decoder: Any, input_ids: Tensor) -> Tensor:
        """Attentions to the token itself and those before it, 0 before the start, and the highest next-token probabilities."""
        looks: list[Tensor] = []
        with each_map(decoder, lambda maps_NHTT: looks.append(self._looks(maps_NHTT))):
            state_NTH = decoder(input_ids=input_ids, use_cache=False).last_hidden_state
        looks_NTF = torch.cat(looks, dim=1).flatten(1, 2).transpose(1, 2)
        if not self.top:
            return looks_NTF
        words_VH = decoder.get_input_embeddings().weight
        rows = torch.split(state_NTH.flatten(0, 1), 2048)
        likely = torch.cat([(row @ words_VH.T).float().softmax(dim=-1).topk(self.top).values for row in rows])
        return torch.cat([looks_NTF, likely.view(*looks_NTF.shape[:2], self.top)], dim=-1)

    def _looks(self, maps_NHTT: Tensor) -> Tensor:
        """How much each token of each map looks at itself and those before it, (N, H, window, T)."""
        near = [maps_NHTT.diagonal(-k, 2, 3).float() for k in range(min(self.window, maps_NHTT.shape[-1]))]
        seen = [nn.functional.pad(found, (k, 0)) for k, found in enumerate(near)]
        return torch.stack(seen + [torch.zeros_like(seen[0])] * (self.window - len(seen)), dim=2)

    def at(self, states_NTH: Tensor, positions_NS: Tensor, prompts_N: Tensor | None = None) -> Tensor:
        """Each step apart, with its own tokens marked."""
        (n, size), device = states_NTH.shape[:2], states_NTH.device
        begin_N1 = positions_NS.new_zeros(n, 1) if prompts_N is None else prompts_N.unsqueeze(1)
        token_T = torch.arange(size, device=device)
        ends_NS1 = positions_NS.unsqueeze(-1)
        starts_NS1 = torch.cat([begin_N1, positions_NS[:, :-1] + 1], dim=1).unsqueeze(-1)
        own_NST = (token_T >= starts_NS1) & (token_T <= ends_NS1)
        last_NS1 = ends_NS1 if self.causal else positions_NS.amax(dim=1).view(n, 1, 1)
        # The step's last token is always seen, so that what pads a batch has something to attend to.
        seen_NST = ((token_T >= begin_N1.unsqueeze(-1)) & (token_T <= last_NS1)) | (token_T == ends_NS1)
        with torch.autocast(device.type, enabled=False):
            told_NTD = self.features(states_NTH.to(self.precision))
            encode = self._once if self.depth == 1 else self._step_by_step
            logits: Tensor = self.classifier(encode(told_NTD, own_NST, seen_NST))
        return -logits.float()

    def _once(self, told_NTD: Tensor, own_NST: Tensor, seen_NST: Tensor) -> Tensor:
        """The mean state of each step's own tokens (N, S, D) after one layer, in one reading of the trace.

        A layer's token needs the others' keys and values alone, and each token has two of them: one of its own step, marked,
        and one for all other steps. So every token asks once, among 2 T, whatever the number of steps.
        """
        encoder: Any = self.encoder
        (layer,), (other_D, own_D) = encoder.layers, self.marks.weight
        attention = layer.self_attn
        rate = attention.dropout if self.training else 0.0
        # A token of no step, in the prompt or after the end, belongs to the first: nobody reads what it becomes.
        step_NT = own_NST.int().argmax(dim=1)
        seen_NTT = seen_NST.gather(1, step_NT.unsqueeze(-1).expand(-1, -1, seen_NST.shape[-1]))
        same_NTT = own_NST.gather(1, step_NT.unsqueeze(-1).expand(-1, -1, own_NST.shape[-1]))
        allowed_N1TK = torch.cat([seen_NTT & ~same_NTT, seen_NTT & same_NTT], dim=-1).unsqueeze(1)
        asking_NTD = told_NTD + own_D
        q_DD, k_DD, v_DD = attention.in_proj_weight.chunk(3)
        q_D, k_D, v_D = attention.in_proj_bias.chunk(3)
        both_NKD = torch.cat([told_NTD + other_D, asking_NTD], dim=1)
        q, k, v = (
            nn.functional.linear(given, weight, bias).view(*given.shape[:2], attention.num_heads, -1).transpose(1, 2)
            for given, weight, bias in ((asking_NTD, q_DD, q_D), (both_NKD, k_DD, k_D), (both_NKD, v_DD, v_D))
        )
        looked = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed_N1TK, dropout_p=rate)
        looked_NTD = attention.out_proj(looked.transpose(1, 2).flatten(2))
        state_NTD = layer.norm1(asking_NTD + layer.dropout1(looked_NTD))
        inner_NTD = layer.dropout(layer.activation(layer.linear1(state_NTD)))
        state_NTD = layer.norm2(state_NTD + layer.dropout2(layer.linear2(inner_NTD)))
        return mean_over(state_NTD, own_NST)

    def _step_by_step(self, told_NTD: Tensor, own_NST: Tensor, seen_NST: Tensor) -> Tensor:
        """The same after several layers, where every token is another one for every step: a reading of the trace a step.

        Each is done again when its gradient is needed, so that no two are held at once.
        """

        def step(told_NTD: Tensor, own_NT: Tensor, seen_NT: Tensor) -> Tensor:
            read_NTD = self.encoder(told_NTD + self.marks(own_NT.long()), src_key_padding_mask=~seen_NT)
            return mean_over(read_NTD, own_NT.unsqueeze(1))

        each = zip(own_NST.unbind(1), seen_NST.unbind(1), strict=True)
        if not torch.is_grad_enabled():
            return torch.cat([step(told_NTD, own_NT, seen_NT) for own_NT, seen_NT in each], dim=1)
        return torch.cat([checkpoint(step, told_NTD, *masks, use_reentrant=False) for masks in each], dim=1)


@contextmanager
def each_map(decoder: Any, look: Callable[[Tensor], object]) -> Iterator[None]:
    """Inside, `look` is given each layer's attention (N, H, T, T) when it is computed; then it is dropped, for all layers' maps
    of a batch side by side are more than the batch itself takes on any GPU."""
    layers = decoder.config.get_text_config().num_hidden_layers
    found = 0

    def hook(module: nn.Module, given: Any, output: Any) -> None:
        nonlocal found
        if isinstance(output, tuple) and len(output) > 1 and isinstance(output[1], Tensor) and output[1].ndim == 4:
            found += 1
            look(output[1])

    # Of attentions inside one another (GPT-Neo's) the innermost computes the map, and all return it.
    named = filter(_is_attention, decoder.modules())
    hooks = [each.register_forward_hook(hook) for each in named if sum(map(_is_attention, each.modules())) == 1]
    try:
        yield
    finally:
        for each in hooks:
            each.remove()
    if found != layers:
        raise ValueError(
            f"a {type(decoder).__name__} shows the attention of {found} of its {layers} layers; the head uncertainty reads all"
        )


def _is_attention(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Attention")


def mean_over(tokens_NTD: Tensor, own_NST: Tensor) -> Tensor:
    """The mean of the tokens that each step's mask keeps, (N, S, D)."""
    return own_NST.to(tokens_NTD.dtype) @ tokens_NTD / own_NST.sum(dim=-1, keepdim=True).clamp(min=1)


def _seeded(seed: int, build: Callable[[], Made]) -> Made:
    """What `build` makes, drawn by this seed without a trace in the global generator."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return build()


@register("head", "both-ways", Declared(ahead={}))
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
    if states is not None and layer in (0, -states):
        raise ValueError(
            f"the head policy-state: layer {layer} of this decoder is its embeddings, which know one token and give all steps "
            "that end in it one value; the last layer is --head policy-state,layer=-1"
        )
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
        ahead={"causal": False},
        study=(
            StudyRow(
                fixed={
                    "objective_options": {"wrong_weight": 3.0},
                    "head_options": {"size": 64, "heads": 4, "window": 3, "activation": "relu"},
                    "lr": 1e-3,
                }
            ),
        ),
    ),
)
def uncertainty(
    width: int, outputs: int, seed: int = 0, decoder: Any = None, size: int = 512, layers: int = 1, heads: int = 16,
    window: int = 5, top: int = 4, dropout: float = 0.1, causal: bool = True, activation: Activation = "gelu",
) -> Uncertainty:  # fmt: skip
    """A small encoder over attentions and probabilities of a frozen decoder (UHead)."""
    if activation not in get_args(Activation):
        raise ValueError(f"the head uncertainty: activation is {' or '.join(get_args(Activation))}, not {activation!r}")
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
    return Uncertainty(maps, outputs, seed, size, layers, heads, window, top, dropout, causal, activation)
