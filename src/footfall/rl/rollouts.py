"""The half of the trainer that writes and judges: completions of TRL's `GRPOTrainer` become graded, judged rollouts.

    written    by Footfall's engine with the very weights that are trained, by another policy (a server), or by TRL (vLLM too)
    judged     completion ids become traces in steps, graded against the reference answer and judged in one batch

Of several processes each writes and judges whole groups. Weights that are sharded (FSDP2, ZeRO-3) are gathered for the time in
which the engine writes. What is made of the rollouts is in `footfall.rl.trainer`.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from datasets import Dataset
from torch.utils.data import Sampler
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from footfall.answers import grade
from footfall.judging import forget
from footfall.policy.protocol import SamplingParams
from footfall.policy.splitting import trajectory_from_ids
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template, prompt_ids, template_for
from footfall.rl.batches import Rolled
from footfall.rl.beside import SOLVED, Beside
from footfall.rl.confidence import Forcing, forced_shares
from footfall.rl.parts import EngineInParts, Parts
from footfall.rl.rewards import Reward
from footfall.rl.trl_settings import heeded, reference_of, refuse_sizes
from footfall.rl.whole_weights import WholeWeights
from footfall.rl.writing import Writer, Written, by_engine, by_policy, refuse_too_long, runs_of
from footfall.train.finite import Finite
from footfall.train.writers import Silent
from footfall.types import Problem, Reason, Trajectory, Unjudged, content_key

# TRL would print the completion of a failed judgement as it is; here such rollouts are counted.
logging.getLogger(GRPOTrainer.__module__).addFilter(
    lambda record: "All reward functions returned None" not in str(record.msg)
)


class _ByEpoch(Sampler[int]):
    def __init__(self, sampler: Any, seed: Callable[[], int]) -> None:
        self.sampler, self.seed = sampler, seed

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[int]:
        if self.sampler.shuffle:
            self.sampler.generator.manual_seed(self.seed())
        return iter(self.sampler)


class RolloutTrainer(Finite, Silent, GRPOTrainer):
    """`GRPOTrainer` whose completions are Footfall's rollouts. What `args` say of sampling holds for every writer."""

    model: Any
    processing_class: Any

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        problems: Sequence[Problem],
        reward: Reward,
        args: GRPOConfig,
        *,
        writer: Writer | None = None,
        separator: str = "\n\n",
        template: Template | None = None,
        online_lr: float = 1e-6,
        callbacks: Sequence[TrainerCallback] = (),
        peft_config: Any = None,
        keep_reference: bool = False,
        parts: Parts | None = None,
        forcing: Forcing = Forcing(),
    ) -> None:
        """`writer` is Footfall's engine unless one is named, or TRL if `args.use_vllm`. `keep_reference` holds a copy of the
        weights as they are now, also where the credit needs none; `parts` says how the engine cuts a batch and who writes the
        parts; `forcing`, how answers are forced for a credit that reads confidences."""
        for given, kind in ((reward, Reward), *((problem, Problem) for problem in problems)):
            if not isinstance(given, kind):
                raise TypeError(
                    f"{kind.__name__} is wanted, and not {type(given).__name__}: of a dataset's rows make "
                    "Problem(id, question, answer), and of a function that pays completions Reward(credit, outcome=function)"
                )
        if any(problem.images for problem in problems):
            raise ValueError("problems with images cannot be trained on yet: leave them out")
        reward.unanswered(problems)
        writer = heeded(args, writer)
        self.problems, self.paid, self.separator = list(problems), reward, separator
        self.template = template or template_for(tokenizer)
        self.batch: list[Rolled] = []
        """The last completions, in order."""
        self.left: Counter[str] = Counter()
        """Rollouts that left their groups, by reason."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Spent on writing, judging, and on whole steps."""
        self._asked: list[Problem] = []
        self._own: list[list[int]] | None = None
        self._failed: dict[int, str] = {}
        self._policy: TorchPolicy | None = None
        self._writer, self._parts = writer, parts if writer == "engine" else None
        if writer == "engine":
            refuse_too_long(self.problems, model, tokenizer, self.template, int(args.max_completion_length or 0))
        self._forcing = forcing
        # Before TRL changes how the model is called.
        self.beside = Beside(
            reward.credit.needs, model, online_lr=online_lr, temperature=args.temperature, seed=args.seed,
            keep_reference=keep_reference,
        )  # fmt: skip
        """What the credit reads of other models."""
        rows = [{"prompt": problem.text, "problem": i} for i, problem in enumerate(self.problems)]
        with warnings.catch_warnings(), reference_of(model):
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
            start: Any = super().__init__
            start(
                model=model, reward_funcs=self._named_reward(), args=args, train_dataset=Dataset.from_list(rows),
                processing_class=tokenizer, callbacks=list(callbacks), peft_config=peft_config,
                rollout_func=None if writer == "trl" else self._rollouts,
            )  # fmt: skip
        # TRL hides completions that were cut from attention too, so that log-probabilities of their tokens are of another text.
        self._masks_cut, self.mask_truncated_completions = args.mask_truncated_completions, False
        refuse_sizes(args, len(self.problems))
        backend = self._dist
        if backend.fsdp_version == 1:
            raise ValueError("FSDP is supported in its second version: say fsdp_version: 2 (FSDP_VERSION=2)")
        self._whole = WholeWeights(self.model) if backend.is_fsdp or backend.is_zero3 else None
        """What the engine writes with where the weights that are trained are sharded."""

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        """TRL's, but the order of an epoch depends on seed and epoch alone, so that a resumed run sees the same problems."""
        base: Any = super()
        sampler = base._get_train_sampler(dataset)
        return _ByEpoch(sampler, lambda: self.args.seed * 1_000_003 + int((self.state.epoch or 0) + 1e-6))

    # Written.

    @property
    def unwrapped(self) -> Any:
        """The policy with whole weights; where they are sharded, within `whole`."""
        return self.accelerator.unwrap_model(self.model) if self._whole is None else self._whole.model

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Around all that is done with `policy` or `unwrapped`: sharded weights are gathered, by all processes together."""
        if self._whole is None:
            yield
            return
        with self._whole.filled(self.accelerator.unwrap_model(self.model), self.accelerator.device):
            try:
                yield
            finally:
                self._policy = None  # its engine holds on to the weights

    @property
    def policy(self) -> TorchPolicy:
        """Writes with the weights that are trained; a LoRA's layers are inside the model."""
        if self._policy is None:
            model = self.unwrapped
            inner = model.get_base_model() if hasattr(model, "get_base_model") else model
            args: Any = self.args
            rows = args.per_device_train_batch_size * args.steps_per_generation
            self._policy = TorchPolicy(
                inner, self.processing_class, label="policy", template=self.template, rows=max(64, min(1024, rows))
            )
            if self._parts is not None:
                engine: Any = EngineInParts(self._policy.engine, self._parts)
                self._policy.engine = engine
        return self._policy

    @property
    def sampling(self) -> SamplingParams:
        """What `args` say of it, for the update at hand: another seed each."""
        args: Any = self.args
        seed = int(content_key("rl", args.seed, self.state.global_step)[:12], 16)
        return SamplingParams(
            args.temperature, args.top_p or 1.0, args.top_k or 0, args.max_completion_length, seed=seed
        )

    def write(self, problems: Sequence[Problem], params: SamplingParams) -> list[Written]:
        """One completion for each problem; one that occurs again gets its next sample. Nothing depends on earlier calls."""
        if isinstance(self._writer, str):
            return self.write_own(problems, params)
        runs = runs_of(problems, self.separator)
        return by_policy(self._writer, runs, params, self.processing_class, self.template)

    def write_own(self, problems: Sequence[Problem], params: SamplingParams) -> list[Written]:
        """The same by the policy that is trained, whoever writes its rollouts."""
        return by_engine(self.policy, runs_of(problems, self.separator), params, self.template)

    def _rollouts(self, prompts: Sequence[Any], _: Any) -> dict[str, Any]:
        """TRL's `rollout_func`; the problems of the batch are known already."""
        with self.whole() if self._writer == "engine" else nullcontext():
            written = self.write(self._asked, self.sampling)
        self._failed = {i: each.failure for i, each in enumerate(written) if each.failure is not None}
        ids = self._tokenize_prompts(prompts)[0]
        found = {"prompt_ids": ids, "completion_ids": [each.ids for each in written], "logprobs": None}
        if isinstance(self._writer, str):
            return found
        own = [[True] * len(each.ids) if each.own is None else each.own for each in written]
        return {**found, "env_mask": [[int(mine) for mine in row] for row in own]}

    def _tokenize_prompts(self, prompts: Sequence[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
        """By Footfall's renderer, so that all writers and judges see one prompt."""
        return [prompt_ids(self.processing_class, problem, self.template) for problem in self._asked], None, {}

    def _generate(self, prompts: Any) -> Any:
        with self._timed("writing"):
            base: Any = super()
            found = base._generate(prompts)
        self._own = found[2]  # 1 at tokens that the policy wrote, where tools wrote too
        return found

    # Judged.

    def trace(self, problem: Problem, ids: Sequence[int], own: Sequence[int] | None, name: str) -> Trajectory:
        """The graded trace that a completion's ids are."""
        found = trajectory_from_ids(
            problem, ids, self.processing_class, self.separator, end_ids=self.eos_token_ids, id=name, author="policy",
            policy_mask=None if own is None else [bool(each) for each in own],
        )  # fmt: skip
        return grade(found.trajectory)

    def judged(
        self, problems: Sequence[Problem], completions: Sequence[Sequence[int]], own: Sequence[Sequence[int]] | None,
        first: int = 0,
    ) -> list[Rolled]:  # fmt: skip
        """All completions as rollouts, not credited yet; `first` is the place of the first in the batch of all processes."""
        step = self.state.global_step
        traces = [
            self.trace(
                problem, ids, None if own is None or all(own[i]) else own[i], f"{problem.id}/step-{step}/{first + i}"
            )
            for i, (problem, ids) in enumerate(zip(problems, completions, strict=True))
        ]
        with self._naming_update():  # a judgement that is not finite names its trace
            said = self.paid.judged(traces)
        found = []
        for trace, each, ids in zip(traces, said, completions, strict=True):
            with self._naming_update(trace):
                made = self.paid.of_ids(trace, each, ids)
            found.append(Rolled(trace, each, tuple(ids), made, self.paid.proxy(made)))
        return found

    def _named_reward(self) -> Callable[..., list[float | None]]:
        """TRL's reward function: its numbers are logged; what is trained on is made by `_credit`."""

        def proxy(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float | None]:
            with self._timed("judging"):
                if self.paid.judge is not None:
                    forget(self.paid.judge)
                first = self.accelerator.process_index * len(completion_ids)
                self.batch = self.judged(self._asked, completion_ids, self._own, first)
                if self.beside.probe is not None:
                    self._force_answers()
            for i, why in self._failed.items():
                gone = Unjudged(Reason.FAILED_CALL, why)
                bare = replace(self.batch[i].rollout, outcome=None, rewards=None, failure=gone)
                self.batch[i] = replace(self.batch[i], rollout=bare, reward=None, left=gone)
            return [each.reward for each in self.batch]

        return proxy

    def _force_answers(self) -> None:
        """The share of right answers among those that the policy gives at once where its completions are cut."""
        problems = [each.trajectory.problem for each in self.batch]
        prompts = [prompt_ids(self.processing_class, problem, self.template) for problem in problems]
        lengths = [each.rollout.lengths for each in self.batch]
        with self.whole():
            self.policy.forget()
            shares = forced_shares(
                self.policy.engine, self.processing_class, problems, prompts, [each.ids for each in self.batch], lengths,
                self._forcing, self.sampling.seed,
            )  # fmt: skip
        for i, (each, own) in enumerate(zip(self.batch, shares, strict=True)):
            self.batch[i] = replace(each, rollout=replace(each.rollout, aspects={**each.rollout.aspects, SOLVED: own}))

    @contextmanager
    def _naming_update(self, trace: Trajectory | None = None) -> Iterator[None]:
        """An error over numbers says at which update, and with which trace, the run stopped."""
        try:
            yield
        except ValueError as error:
            where = "" if trace is None else f", trace {trace.id!r}"
            raise ValueError(f"update {self.state.global_step}{where}: {error}") from error

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - begun
