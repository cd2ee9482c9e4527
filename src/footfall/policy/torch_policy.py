"""The in-process policy: any Hugging Face decoder, run by the batched engine.

A model in this process goes on from ids, so a prefix may end in the middle of a line (`AnyCut`). Such traces have an empty
separator and steps that hold their own line ends (see `footfall.segment.tokens.recut`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from footfall.hashing import vocabulary_fingerprint, weights_fingerprint
from footfall.loading import free_memory, load_model
from footfall.policy.decoding import Generated, Request
from footfall.policy.engine import Engine
from footfall.policy.protocol import Completion, Finish, Run, RunWriter, SamplingParams, sample_seed
from footfall.policy.splitting import StepSplitter, splitter_for
from footfall.registry import Declared, register
from footfall.render import Template, check_round_trip, encode, prompt_ids, template_for
from footfall.segment.tokens import written
from footfall.types import Cost, Step, Trajectory, content_key, sampled_ids, sampled_logprobs

_ALL_IN_USE = False, ("default",)
"""What the layers of a model say that has one adapter, by PEFT's usual name, and uses it."""
_THOUGHT_ROWS = 32
"""Sequences in one pass of `next_tokens`."""
_CHOICE_ROWS, _CHOICE_TOKENS = 16, 16384
"""Prefixes and padded tokens in one pass of `choices`; logits are kept at each one's last token, in every row."""


class TorchPolicy(RunWriter):
    """Writes steps with a model in this process. Prefixes are found again by their ids, whoever asks.

    The model stays its owner's: it can be called, trained and saved as before, and the policy writes with its present weights.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        label: str,
        template: Template | None = None,
        rows: int | None = None,
        cache_bytes: int | None = None,
        compile: bool | None = None,
    ) -> None:
        """`cache_bytes` for the keys and values of prefixes: 1 GiB, or on CUDA an eighth of the free memory; `compile` as
        the engine has it."""
        check_round_trip(tokenizer, label)
        self.tokenizer = tokenizer
        self.template = template or template_for(tokenizer)
        self.vocabulary = vocabulary_fingerprint(tokenizer)
        self._label, self._format = label, _template_name(self.template)
        cuda = model.device.type == "cuda"
        self.engine = Engine(
            model,
            _end_ids(model, tokenizer),
            rows=rows or (1024 if cuda else 512),
            cache_bytes=cache_bytes,
            compile=compile,
            memory=partial(free_memory, model.device) if cuda else None,
        )
        self._flops_a_token = 2.0 * model.num_parameters(exclude_embeddings=True)
        self._fingerprint = self.engine.weights.changes, weights_fingerprint(model)

    @property
    def name(self) -> str:
        """Label, weights, adapters in use and prompt format: after a training step the policy has another name, for it writes
        otherwise."""
        changes = self.engine.weights.glance()
        if changes != self._fingerprint[0]:
            self._fingerprint = changes, weights_fingerprint(self.engine.model)
        adapters = self.engine.weights.adapters
        used = "" if set(adapters) <= {_ALL_IN_USE} else f",adapters={content_key(adapters)[:8]}"
        return f"{self._label}@{self._fingerprint[1]}{self._format}{used}"

    @classmethod
    def load(
        cls, source: str | Path, device: str | None = None, label: str | None = None, **options: Any
    ) -> TorchPolicy:
        """From a local folder, a hub id or a GGUF file; float32 on the CPU, bfloat16 on CUDA."""
        model, tokenizer = load_model(source, device)
        return cls(model, tokenizer, label=label or Path(source).name, **options)

    def _refuse_to_resume(self, prefix: Trajectory) -> None:
        if prefix.tokenizer != self.vocabulary or not prefix.steps or not prefix.steps[-1].token_ids:
            raise ValueError(
                f"trajectory {prefix.id!r} has no unfinished step of this model's own tokens to go on with"
            )

    def _write(
        self, runs: Sequence[Run], params: SamplingParams, begun: Sequence[Step | None]
    ) -> list[list[Completion]]:
        """`begun` are the steps that prefixes end in the middle of."""
        requests = []
        prompts: dict[int, list[int]] = {}  # by the problem's identity: the prefixes of a search share it
        for run, step in zip(runs, begun, strict=True):
            problem = run.prefix.problem
            if id(problem) not in prompts:
                prompts[id(problem)] = prompt_ids(self.tokenizer, problem, self.template)
            encoded = encode(self.tokenizer, run.prefix, self.template, prompts[id(problem)])
            stops = (
                _closes(splitter_for(self.tokenizer, run.prefix.separator), step) if params.until == "step" else None
            )
            for index in run.indices:
                seed = sample_seed(params, run.prefix, index)
                requests.append(Request(encoded.ids, seed, params.max_tokens, encoded.prompt_length, stops))
        splitters = [splitter_for(self.tokenizer, separator) for separator in {run.prefix.separator for run in runs}]
        watched = frozenset().union(*(s.closing for s in splitters)) if params.until == "step" else frozenset()
        written = iter(self.engine.generate(requests, params, watched, keep=params.until == "step"))
        return [
            [self._completion(next(written), run.prefix, index, step) for index in run.indices]
            for run, step in zip(runs, begun, strict=True)
        ]

    def choices(self, prefixes: Sequence[Trajectory], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        """Log-probabilities of the options' first tokens right after each prefix, from float32 logits."""
        firsts = [first_token(self.tokenizer, option) for option in options]
        if len(set(firsts)) < len(firsts):
            raise ValueError(f"the options {', '.join(map(repr, options))} must begin with different tokens")
        ids = [encode(self.tokenizer, prefix, self.template).ids for prefix in prefixes]
        found: dict[int, tuple[float, ...]] = {}
        waiting = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        while waiting:
            n = max(1, min(_CHOICE_ROWS, _CHOICE_TOKENS // len(ids[waiting[-1]])))
            waiting, rows = waiting[:-n], waiting[-n:]
            logprobs_NV = self._next_logprobs([ids[i] for i in rows])
            found.update(zip(rows, map(tuple, logprobs_NV[:, firsts].tolist()), strict=True))
        return [found[i] for i in range(len(ids))]

    @torch.inference_mode()
    def _next_logprobs(self, ids: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """(N, V) after each sequence, in one pass padded on the right."""
        ends = sorted({len(sequence) - 1 for sequence in ids})
        own = [ends.index(len(sequence) - 1) for sequence in ids]
        return self.engine.logits(ids, ends)[range(len(ids)), own].float().log_softmax(dim=-1)

    def forget(self) -> None:
        """Drop cached prefixes: the next call is then the same to the bit as in a new process.

        Not needed after a training step: changed weights are noticed. Only who changes a few numbers of a weight behind torch's
        back (`weight.data[0] = …`) must call it.
        """
        self.engine.forget()
        self._fingerprint = -1, ""

    def _completion(
        self, generated: Generated, prefix: Trajectory, index: int, begun: Step | None = None
    ) -> Completion:
        finish: Finish = "end" if generated.ended else "step" if generated.stopped else "length"
        cost = Cost(
            prompt_tokens=generated.prefilled,
            cached_tokens=generated.cached,
            generated_tokens=generated.decoded,
            flops=self._flops_a_token * (generated.prefilled + generated.decoded),
            calls=1,
        )
        tokens = [*_ids(begun), *generated.tokens]
        logprobs = [*((begun and begun.logprobs) or [0.0] * len(_ids(begun))), *generated.logprobs]
        splitter = splitter_for(self.tokenizer, prefix.separator)
        steps = splitter.split(tokens, logprobs, first=len(prefix.steps) == (begun is not None)) if tokens else ()
        return Completion(steps, finish, index, self.vocabulary, cost=cost)


def _ids(step: Step | None) -> Sequence[int]:
    return () if step is None else step.token_ids or ()


def _closes(splitter: StepSplitter, begun: Step | None) -> Callable[[list[int]], bool]:
    """Whether the step is complete; what was written of it before counts."""
    before = list(_ids(begun))
    return (lambda tokens: splitter.closes_step(before + tokens)) if before else splitter.closes_step


class AnyCut:
    """A policy for prefixes whose steps end anywhere. A completion is one step: the rest as it was written."""

    def __init__(self, policy: TorchPolicy, separator: str = "\n") -> None:
        self.policy, self.separator = policy, separator

    @property
    def name(self) -> str:
        """That of the policy: cutting elsewhere changes no token."""
        return self.policy.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix, from the very ids of its steps where it has them."""
        given = [replace(prefix, separator=self.separator) for prefix in prefixes]
        return [list(map(self._joined, row)) for row in self.policy.sample(given, n, params, first)]

    def forget(self) -> None:
        """Drop cached prefixes."""
        self.policy.forget()

    def _joined(self, completion: Completion) -> Completion:
        ids = sampled_ids(completion.steps)
        logprobs = sampled_logprobs(completion.steps)
        step = Step(written(self.policy.tokenizer, ids)[0], token_ids=ids, logprobs=logprobs)
        return replace(completion, steps=(step,) if ids else ())


class NextTokens(NamedTuple):
    """What the model thought before each token of the steps of a trace, at temperature 1."""

    entropy: tuple[float, ...]
    """In nats."""
    best: tuple[int, ...]
    second: tuple[int, ...]
    """The likeliest next tokens."""
    second_logprob: tuple[float, ...]


@torch.inference_mode()
def next_tokens(policy: TorchPolicy, trajectories: Sequence[Trajectory]) -> list[NextTokens]:
    """One pass over whole traces, a few at a time: a sampler that looked while it wrote would have had this for nothing."""
    encoded = [encode(policy.tokenizer, trajectory, policy.template) for trajectory in trajectories]
    found: list[NextTokens] = []
    for at in range(0, len(encoded), _THOUGHT_ROWS):
        part = encoded[at : at + _THOUGHT_ROWS]
        logprobs_NTV = policy.engine.logits([each.ids for each in part]).float().log_softmax(dim=-1)
        entropy_NT = -(logprobs_NTV.exp() * logprobs_NTV).sum(dim=-1)
        top_NTK = logprobs_NTV.topk(2, dim=-1)
        for row, each in enumerate(part):
            own = slice(each.prompt_length - 1, len(each.ids) - 1)
            found.append(
                NextTokens(
                    tuple(entropy_NT[row, own].tolist()),
                    tuple(top_NTK.indices[row, own, 0].tolist()),
                    tuple(top_NTK.indices[row, own, 1].tolist()),
                    tuple(top_NTK.values[row, own, 1].tolist()),
                )
            )
    return found


def first_token(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    """The token that `text` begins with in the middle of a line of text; alone, SentencePiece would put a space before."""
    before: list[int] = tokenizer.encode("\n", add_special_tokens=False)
    ids: list[int] = tokenizer.encode("\n" + text, add_special_tokens=False)
    after = ids[len(before) :] if ids[: len(before)] == before else tokenizer.encode(text, add_special_tokens=False)
    if not after:
        raise ValueError(f"the option {text!r} has no token")
    return after[0]


def _template_name(template: Template) -> str:
    kind = "" if template.kind == "plain" else f",{template.kind}"
    own = "" if template == Template(template.kind) else f",template={content_key(template.to_dict())[:8]}"
    return kind + own


def _end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """All tokens that end a text: the tokenizer's own and those of the generation config."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    ends = set(configured) if isinstance(configured, list) else {configured}
    return {int(i) for i in ends | {tokenizer.eos_token_id} if i is not None}


@register("policy", "torch", Declared(serves=("model",)))
def torch_policy(
    path: str,
    device: str | None = None,
    rows: int | None = None,
    compile: bool | None = None,
    system: str | None = None,
) -> TorchPolicy:
    """Any Hugging Face decoder from a folder, hub id or GGUF file, in this process; `system` is its system message."""
    template = None if system is None else Template("chat", system=system)
    policy = TorchPolicy.load(path, device, rows=rows, compile=compile, template=template)
    if template is not None and not policy.tokenizer.chat_template:
        raise ValueError(
            f"{path} has no chat template, so there is no place for a system message (--system): it goes on with a problem's "
            "text as it is, so write into that what it is to know"
        )
    return policy
