"""Implicit PRMs (arXiv 2412.01981): two causal LMs, and the log-ratio of what they give each token.

    d_i = log π(y_i) − log π_ref(y_i)        q_k = β Σ_{i ≤ end of step k} d_i        reward_k = q_k − q_{k−1}

The value is σ(q_k). Log-probabilities are float32 and made a block of tokens by a block of the vocabulary at a time, so a
tensor of all tokens by all 150,000 words never exists. EurusPRM-Stage1 and -Stage2 are such, and any other pair can be.

Where a step ends, EurusPRM follows the authors' evaluation code and not its description. The code counts the tokens of
each prefix closed by the end-of-turn token and a blank line, so q of a step that another one follows takes in one token of
the next step's `Step k:` (two where the blank line merged with the full stop before it), and q of the last step the end of
turn. The generic family ends a step with its blank line, as the formula says, and the last one with its last token.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from footfall.hashing import weights_fingerprint
from footfall.judging import Traits
from footfall.loading import pack, padded, pick_device, pick_dtype
from footfall.registry import register
from footfall.render import Piece, Text, Writer, read_traces, template_for
from footfall.reward.backbone import Backbone, TensorFiles, context_length, load_native
from footfall.reward.canary import default_pair
from footfall.reward.checkpoint import Options, evidence
from footfall.reward.config import CONFIG_FILE, read_json
from footfall.reward.family import Evidence, Family, Match, Scored, Spans
from footfall.reward.heads import output_matrix
from footfall.reward.judge import TooLong
from footfall.types import Cost, Judgement, Reason, Trajectory, Unjudged, content_key, failures_of

REFERENCE = "Qwen/Qwen2.5-Math-7B-Instruct"
BETA = 0.001
_HEADS = ("score.weight", "score.0.weight", "score_head.weight", "v_head.summary.weight", "v_head.weight")


def process_rewards(ratios: Sequence[float], ends: Sequence[int], beta: float) -> tuple[list[float], list[float]]:
    """q and reward of each step, from the log-ratios of the written tokens; step k ends with the token `ends[k]`."""
    sums = [beta * s for s in accumulate(ratios, initial=0.0)]
    q = [sums[end + 1] for end in ends]
    return q, [after - before for before, after in pairwise([0.0, *q])]


def token_log_probs(
    hidden_MH: Tensor, targets_M: Tensor, output_VH: Tensor, *, tokens: int = 2048, words: int = 16384
) -> Tensor:
    """log softmax(hidden · outputᵀ) at each row's target, in float32, `tokens` rows by `words` columns at a time."""
    blocks = zip(torch.split(hidden_MH, tokens), torch.split(targets_M, tokens), strict=True)
    return torch.cat([_log_probs(hidden.float(), targets, output_VH, words) for hidden, targets in blocks])


def _log_probs(hidden_MH: Tensor, targets_M: Tensor, output_VH: Tensor, words: int) -> Tensor:
    total_M = torch.full_like(hidden_MH[:, 0], -torch.inf)
    for block_WH in torch.split(output_VH, words):
        total_M = torch.logaddexp(total_M, (hidden_MH @ block_WH.float().T).logsumexp(dim=-1))
    return (hidden_MH * output_VH[targets_M].float()).sum(dim=-1) - total_M


class LogProbs(nn.Module):
    """One of the two language models: a decoder and its output matrix."""

    output_VH: Tensor

    def __init__(self, backbone: Backbone, output_VH: Tensor) -> None:
        super().__init__()
        self.backbone: Backbone = backbone
        self.register_buffer("output_VH", output_VH)

    @torch.inference_mode()
    def forward(self, batch: Sequence[Scored]) -> list[Tensor]:
        """Log-probabilities of the written tokens of each trace. Padding on the right is never looked at."""
        ids_NT = padded([scored.ids for scored in batch]).to(self.output_VH.device)
        hidden_NTH: Tensor = self.backbone(input_ids=ids_NT, use_cache=False).last_hidden_state
        # The token before predicts the token: the state at i − 1 for the target at i.
        before = [hidden_NTH[n, s.first - 1 : len(s.ids) - 1] for n, s in enumerate(batch)]
        targets = [ids_NT[n, s.first : len(s.ids)] for n, s in enumerate(batch)]
        found_M = token_log_probs(torch.cat(before), torch.cat(targets), self.output_VH)
        return list(torch.split(found_M, [len(t) for t in targets]))

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.backbone.parameters())


class ImplicitJudge:
    """Values each step by how much more the policy than the reference would have written what stands up to its end."""

    traits = Traits(threshold=0.5)
    """q = 0. The authors tune one on the data they report, within about .01 of this."""

    def __init__(
        self,
        policy: LogProbs,
        reference: LogProbs,
        writer: Writer,
        spans: Spans,
        *,
        kind: str = "implicit",
        beta: float = 0.001,
        too_long: TooLong = "error",
        token_budget: int | None = None,
        initial: bool = False,
        token_values: bool = False,
    ) -> None:
        """`initial`: σ(q_0) = ½, which every trace begins with; `token_values`: σ(q) after every token of each step."""
        if too_long not in ("error", "partial"):
            raise ValueError(f'too_long is "error" or "partial", not {too_long!r}')
        if not beta > 0:
            raise ValueError(f"beta must be above 0, not {beta}")
        self.policy, self.reference, self.writer, self.spans = policy.eval(), reference.eval(), writer, spans
        self.beta = beta
        self.too_long = too_long
        self.initial, self.token_values = initial, token_values
        self.token_budget = token_budget or (16384 if policy.output_VH.device.type == "cuda" else 2048)
        weights = [weights_fingerprint(policy), weights_fingerprint(reference)]
        self._name = f"{kind}@{content_key(kind, beta, self.max_length, weights)[:12]}"

    @property
    def name(self) -> str:
        """Kind, and content of both models' weights."""
        return self._name

    @property
    def max_length(self) -> int:
        """Tokens that fit in the shorter context of the two."""
        known = [n for n in map(context_length, (self.policy.backbone, self.reference.backbone)) if n]
        if not known:
            raise ValueError("neither the policy's nor the reference's config names a context length")
        return min(known)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement a trace, in order, with the aspects q and reward."""
        wanted = [self._fit(trajectory) for trajectory in trajectories]
        ratios, seconds = self._ratios(wanted)
        return [
            self._judgement(trajectory, scored, ratio, each).check(trajectory)
            for trajectory, scored, ratio, each in zip(trajectories, wanted, ratios, seconds, strict=True)
        ]

    def refuse_equal(self, trajectories: Sequence[Trajectory], source: str) -> None:
        """A policy that is its own reference values everything alike."""
        ratios, _ = self._ratios([self.spans(self.writer, t) for t in trajectories])
        if max(float(r.abs().max()) for r in ratios) < 1e-6:
            raise ValueError(f"{source} and its reference give every token the same probability: they are one model")

    def _fit(self, trajectory: Trajectory) -> Scored:
        if not trajectory.steps:
            return Scored((), 0, ())
        scored = self.spans(self.writer, trajectory)
        limit = self.max_length
        if scored.ends[-1] < limit:
            return scored._replace(ids=scored.ids[: scored.ends[-1] + 1])
        if self.too_long == "error":
            raise ValueError(
                f"trajectory {trajectory.id!r} has {scored.ends[-1] + 1} tokens, {self.name} takes {limit}; "
                'use too_long="partial" (--set too_long=partial) to judge the steps that fit'
            )
        ends = tuple(end for end in scored.ends if end < limit)
        return scored._replace(ids=scored.ids[: ends[-1] + 1] if ends else (), ends=ends)

    def _ratios(self, wanted: Sequence[Scored]) -> tuple[list[Tensor], list[float]]:
        """d of the written tokens of each trace, on the CPU, and its share of the time."""
        start = time.perf_counter()
        ratios = [torch.zeros(0)] * len(wanted)
        some = [i for i, scored in enumerate(wanted) if scored.ids]
        for group in pack([len(wanted[i].ids) for i in some], self.token_budget):
            members = [some[i] for i in group]
            batch = [wanted[i] for i in members]
            for i, ours, theirs in zip(members, self.policy(batch), self.reference(batch), strict=True):
                ratios[i] = (ours - theirs).cpu()
        each = (time.perf_counter() - start) / max(1, sum(len(w.ids) for w in wanted))
        return ratios, [each * len(w.ids) for w in wanted]

    def _judgement(self, trajectory: Trajectory, scored: Scored, ratio_M: Tensor, seconds: float) -> Judgement:
        ends = [end - scored.first for end in scored.ends]
        q, rewards = process_rewards(ratio_M.double().tolist(), ends, self.beta)
        values = torch.tensor(q, dtype=torch.float64).sigmoid().tolist()
        late = len(trajectory.steps) - len(q)
        tokens_of: tuple[tuple[float, ...], ...] = ()
        if self.token_values:
            every = (self.beta * ratio_M.double()).cumsum(0).sigmoid().tolist()
            own = [tuple(every[begin + 1 : end + 1]) for begin, end in pairwise([-1, *ends])]
            tokens_of = (*own, *[()] * late)
        late_end = f"ends after token {self.max_length}, which is all that the context holds"
        tokens = len(scored.ids)
        flops = 2.0 * (self.policy.size + self.reference.size) * tokens
        return Judgement(
            trajectory.id, (*values, *[None] * late), self.name,
            aspects={"q": (*q, *[None] * late), "reward": (*rewards, *[None] * late)},
            failures=failures_of([None] * len(q) + [Unjudged(Reason.TOO_LONG, late_end)] * late),
            cost=Cost(scored_tokens=2 * tokens, flops=flops, seconds=seconds, calls=2 if tokens else 0),
            initial=0.5 if self.initial else None, token_values=tokens_of,
        )  # fmt: skip


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """`Step k: …` joined by blank lines as the assistant's turn, read at each step's end and, first, before the turn."""
    last = len(trajectory.steps)
    turn: list[Piece] = [Text("", read=0)]
    for k, step in enumerate(trajectory.steps, 1):
        turn.append(Text(f"Step {k}: {step.written}" + ("\n\n" if k < last else ""), read=0))
    return writer.chat([("user", trajectory.problem.text), ("assistant", turn)])


def numbered_spans(writer: Writer, trajectory: Trajectory) -> Scored:
    """A step ends with the blank line after it; the last one with its own last token.

    A tokenizer without a chat template is a plain decoder's: it is shown the trace as its policy wrote it.
    """
    if writer.tokenizer.chat_template is None:
        (plain,) = read_traces(writer, [trajectory], template_for(writer.tokenizer))
        return Scored(plain.ids, plain.prompt_length, plain.positions)
    reading = writer.read(layout(writer, trajectory), f"trajectory {trajectory.id!r}")
    return Scored(reading.ids, reading.positions[0] + 1, reading.positions[1:])


def published_spans(writer: Writer, trajectory: Trajectory) -> Scored:
    """A step ends two tokens after where its prefix alone would, the last one with the end of its turn."""
    scored = numbered_spans(writer, trajectory)
    if scored.ends[-1] + 1 >= len(scored.ids):
        lacks = "has no chat template" if writer.tokenizer.chat_template is None else "ends no turn"
        raise ValueError(
            f"{writer.source}: a eurus-prm reads the last step at the end of its turn, and its tokenizer {lacks}: take a model "
            "with one, or read and train it as the family implicit"
        )
    alone = [numbered_spans(writer, trajectory.prefix(k)).ends[-1] for k in range(1, len(trajectory.steps))]
    return scored._replace(ends=(*(end + 2 for end in alone), scored.ends[-1] + 1))


@register("family", "eurus-prm")
def eurus() -> Family:
    """PRIME-RL/EurusPRM-Stage1 and -Stage2 against Qwen2.5-Math-7B-Instruct."""
    return Family(
        name="eurus-prm",
        published=("PRIME-RL/EurusPRM-Stage1", "PRIME-RL/EurusPRM-Stage2"),
        licence="Apache-2.0",
        match=Match(
            model_types=("qwen2",), absent=_HEADS, tokens=("<|im_start|>", "<|im_end|>"), names=("eurusprm", "eurus-prm"),
            named=True,
        ),
        layout=layout, open=_open_eurus, token_level=True, objective="log-ratio", spans=published_spans,
        stored_as="{decoder}ForCausalLM",
    )  # fmt: skip


@register("family", "implicit")
def implicit() -> Family:
    """Any causal LM as an implicit PRM against another one, which `base` names."""
    return Family(
        name="implicit", published=(), licence="that of the two models",
        match=Match(absent=_HEADS, named=True),
        layout=layout, open=_open_implicit, token_level=True, objective="log-ratio", spans=numbered_spans,
    )  # fmt: skip


@register("reward", "implicit")
def implicit_judge(
    path: str | Path, base: str, beta: float = BETA, device: str | None = None, token_budget: int | None = None
) -> ImplicitJudge:
    """An implicit PRM: the causal LM at `path` against the reference `base`, with its own beta."""
    options = Options(device=device, token_budget=token_budget, base=base)
    return _open(evidence(path), implicit(), options, base, numbered_spans, beta)


def _open_eurus(seen: Evidence, family: Family, options: Options) -> ImplicitJudge:
    trained = _training(seen)
    base = options.base or trained.get("base") or REFERENCE
    # Whatever β it was trained with: what is published as this family is read at the authors' own, here and elsewhere.
    return _open(seen, family, options, base, published_spans, BETA)


def _open_implicit(seen: Evidence, family: Family, options: Options) -> ImplicitJudge:
    trained = _training(seen)
    base = options.base or trained.get("base")
    if base is None:
        raise ValueError(f"{seen.name} as an implicit PRM needs a reference model: --set base=…")
    return _open(seen, family, options, base, numbered_spans, trained.get("beta", BETA))


def _training(seen: Evidence) -> dict[str, Any]:
    """What a folder that was trained here says of its reference and of beta; nothing of any other."""
    return dict(read_json(seen.folder)["training"]) if (seen.folder / CONFIG_FILE).is_file() else {}


def _open(seen: Evidence, family: Family, options: Options, base: str, spans: Spans, beta: float) -> ImplicitJudge:
    try:
        other = evidence(base)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"the reference of {seen.name}, which an implicit PRM is held against, is missing: {error}; name it: --set base=…"
        ) from error
    if seen.tokenizer.get_vocab() != other.tokenizer.get_vocab():
        raise ValueError(
            f"{seen.name} and its reference {base} do not share a vocabulary, so their tokens do not compare"
        )
    judge = ImplicitJudge(
        _language_model(seen, options), _language_model(other, options), Writer(seen.tokenizer, seen.name), spans,
        kind=family.name, beta=beta, too_long=options.too_long, token_budget=options.token_budget,
        initial=options.initial, token_values=options.token_values,
    )  # fmt: skip
    if options.check:
        judge.refuse_equal(default_pair(), seen.name)
    return judge


def _language_model(seen: Evidence, options: Options) -> LogProbs:
    place = pick_device(options.device)
    dtype = options.dtype or pick_dtype(place)
    base = None if seen.base is None else seen.base()
    tensors = seen.tensors if base is None else TensorFiles(base)
    backbone = load_native(seen.folder, dtype, None, None if base is None else str(base))
    output_VH = tensors.load(output_matrix(tensors)).to(dtype)
    model: LogProbs = LogProbs(backbone, output_VH).to(place)
    return model
