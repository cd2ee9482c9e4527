"""A PRM as a judge: one forward pass a trace, batches of like length, no silent cut.

`Runner` is shared by all judges on one model: batches, prefix cache, compiling and cost in one place.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from footfall.damaged import naming
from footfall.judging import Traits, as_trained
from footfall.loading import give_memory_back, out_of_memory
from footfall.registry import Declared, register
from footfall.render import Reading
from footfall.reward.incremental import PrefixCache
from footfall.reward.prefix_row import can_share, each_logits
from footfall.reward.prm import PRM, WORTH_COMPILING
from footfall.types import Cost, Judgement, Reason, Trajectory, Unjudged, failures_of

TooLong = Literal["error", "partial"]
"""A trace longer than the context: an error, or the steps that fit are judged."""


@register("reward", "step-head", Declared(serves=("prm",)))
def step_head(
    path: str | Path,
    device: str | None = None,
    too_long: TooLong = "error",
    token_budget: int | None = None,
    base: str | None = None,
    check: bool = True,
    cache_tokens: int = 0,
    compile: bool | None = None,
    initial: bool = False,
    token_values: bool = False,
) -> PRMJudge:
    """A PRM that `footfall train` made: each step's value is read from a head on a decoder."""
    model = PRM.load(path, device=device, base=base, check=check)
    with naming(path):
        return PRMJudge(
            model, too_long=too_long, token_budget=token_budget, cache_tokens=cache_tokens, compile=compile,
            initial=initial, token_values=token_values,
        )  # fmt: skip


class _Limits(NamedTuple):
    """Of a batch, and of the cache."""

    token_budget: int
    cache_tokens: int


class Runner:
    """`cache_tokens` keeps keys and values of that many tokens, so that a trace that grew by a step costs one step.
    `compile` compiles the layers before the first call; None does so on CUDA once a call is large enough to pay it back.
    Where memory does not suffice, a call is made again with half the tokens a batch.
    """

    def __init__(
        self,
        model: PRM,
        token_budget: int | None = None,
        cache_tokens: int = 0,
        compile: bool | None = None,
    ) -> None:
        self.model = model.eval()
        self.token_budget = token_budget or model.token_budget
        self._size = model.size
        self._cache = PrefixCache(model, cache_tokens) if cache_tokens and model.head.plain else None
        self._compile = compile
        self._in_a_row = False

    def keep_nothing(self) -> None:
        """Calls have nothing in common from now on: traces share beginnings within a call, where the model allows it."""
        if can_share(self.model):
            self._cache, self._in_a_row = None, True

    def forget(self) -> None:
        """Drop what is cached."""
        if self._cache is not None:
            self._cache.forget()

    def run(self, readings: Sequence[Reading]) -> tuple[list[Tensor], list[Cost]]:
        """Logits (S, K) and cost of each sequence; seconds are shared out by tokens."""
        start = time.perf_counter()
        self._fuse_if_worth(sum(len(r.ids) for r in readings))
        given = _Limits(self.token_budget, self._cache.tokens if self._cache is not None else 0)
        while (found := self._attempt(readings, given)) is None:
            self._begin_anew(_Limits(self.token_budget // 2, self._cache.tokens // 2 if self._cache is not None else 0))
            warnings.warn(
                f"out of memory: going on with {self.token_budget:,} tokens a batch and half the cache", RuntimeWarning,
                stacklevel=3,
            )  # fmt: skip
        logits, tokens = found
        each = (time.perf_counter() - start) / max(1, sum(tokens))
        return logits, [Cost(scored_tokens=n, flops=2.0 * self._size * n, seconds=each * n, calls=1) for n in tokens]

    def _attempt(self, readings: Sequence[Reading], given: _Limits) -> tuple[list[Tensor], list[int]] | None:
        """Logits, and the tokens that were run for each; `None` if memory did not suffice and less of it can be tried."""
        try:
            if self._in_a_row:
                return each_logits(self.model, readings, self.token_budget)
            if self._cache is not None:
                return self._cache.each_logits(readings, self.token_budget)
            return self.model.each_logits(readings, self.token_budget), [r.tokens for r in readings]
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            if self.token_budget <= min(len(reading.ids) for reading in readings):  # each was a batch by itself
                self._begin_anew(given)  # it was these traces' fault: the next ones get what there was before
                raise
            return None

    def _begin_anew(self, limits: _Limits) -> None:
        """Give back what the cache holds and go on within these limits."""
        self.token_budget = limits.token_budget
        if self._cache is not None:
            self._cache.forget()
            self._cache.tokens = limits.cache_tokens
        give_memory_back()

    def _fuse_if_worth(self, tokens: int) -> None:
        large = self.model.device.type == "cuda" and tokens * self._size >= WORTH_COMPILING
        if self._compile or (self._compile is None and large):
            self.model.fuse()
            self._compile = False


class _Read(NamedTuple):
    """One trace: the sequences that are scored, and where the steps that do not fit would have been read, by step."""

    readings: list[Reading]
    late: dict[int, int]
    start: int | None = None
    """Where the empty prefix is read, if tokens are read too: the one sequence is then read from there on."""
    ends: tuple[int, ...] = ()
    """Where its steps are read then."""


class PRMJudge:
    """Values each step of a trace by what the model's head says where the step ends; see `Runner` for the options.

    With `initial` it values the empty prefix too, at the prompt's end, and with `token_values` every token of each step: both
    come from the same pass. Only a layout that puts nothing in to read at can do so.
    """

    def __init__(
        self,
        model: PRM,
        *,
        too_long: TooLong = "error",
        token_budget: int | None = None,
        cache_tokens: int = 0,
        compile: bool | None = None,
        initial: bool = False,
        token_values: bool = False,
    ) -> None:
        if too_long not in ("error", "partial"):
            raise ValueError(f'too_long is "error" or "partial", not {too_long!r}')
        if (initial or token_values) and not (model.layout.token_level and model.head.plain):
            raise ValueError(
                f"a {model.kind} reads its values at marks, or steps as a whole: it has none at the prompt's end or at "
                "other tokens"
            )
        self.model = model
        self.too_long = too_long
        self.initial, self.token_values = initial, token_values
        self.runner = Runner(model, token_budget, cache_tokens, compile)
        self._name = f"{model.kind}@{model.fingerprint()}"

    @property
    def name(self) -> str:
        """Kind and content of the weights."""
        return self._name

    @property
    def traits(self) -> Traits:
        """The model's threshold, and the separators and the data it was trained with."""
        model = self.model
        return Traits(threshold=model.threshold, separators=model.separators, trained_on=model.trained_on)

    def forget(self) -> None:
        """Drop what is cached."""
        self.runner.forget()

    def keep_nothing(self) -> None:
        """Nothing that it reads will be asked for again by another call."""
        self.runner.keep_nothing()

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement a trace, in order, read with the step end that the model was trained with, if it knows one only.

        A trace without steps gets no values, and costs nothing but with `initial`.
        """
        trajectories = as_trained(self.model.separators, trajectories)
        some = [bool(t.steps) or self.initial for t in trajectories]
        found = iter(self.model.reads_of([t for t, read in zip(trajectories, some, strict=True) if read]))
        read = [
            self._fit(t, next(found)) if wanted else _Read([], {}) for t, wanted in zip(trajectories, some, strict=True)
        ]
        logits, costs = self.runner.run([reading for r in read for reading in r.readings])
        judgements = []
        at = 0
        for trajectory, r in zip(trajectories, read, strict=True):
            own = slice(at, at + len(r.readings))
            at = own.stop
            judgements.append(self._judgement(trajectory, r, logits[own], Cost.total(costs[own])).check(trajectory))
        return judgements

    def _fit(self, trajectory: Trajectory, whole: Sequence[Reading]) -> _Read:
        readings: list[Reading] = []
        late: dict[int, int] = {}
        limit, step = self.model.max_length, 0
        for reading in whole:
            own = dict(enumerate(reading.positions, step))
            step += len(own)
            if len(reading.ids) <= limit:
                readings.append(reading)
                continue
            if self.too_long == "error":
                raise ValueError(
                    f"trajectory {trajectory.id!r} has {len(reading.ids)} tokens, {self.name} takes {limit}; "
                    'use too_long="partial" (--set too_long=partial) to judge the steps that fit'
                )
            fitting = reading.fitting(limit)
            late |= {k: at for k, at in own.items() if at not in fitting.positions}
            readings += [fitting] if fitting.positions else []
        if not (self.initial or self.token_values) or not readings:
            return _Read(readings, late)
        start, ends = self.model.layout.prompt_end(trajectory), readings[0].positions
        wanted = range(start, max((start, *ends)) + 1) if self.token_values else (start, *ends)
        return _Read([readings[0]._replace(positions=tuple(wanted))], late, start, ends)

    def _judgement(self, trajectory: Trajectory, read: _Read, logits: Sequence[Tensor], cost: Cost) -> Judgement:
        logits_SK = torch.cat(list(logits)) if logits else torch.zeros(0, self.model.readout.outputs)
        late, initial = read.late, None
        tokens: tuple[tuple[float, ...], ...] = ()
        if read.start is not None:
            row = {position: k for k, position in enumerate(read.readings[0].positions)}
            every = self.model.values(logits_SK).tolist()
            initial = every[0] if self.initial else None
            if self.token_values:
                bounds = pairwise([read.start, *read.ends])
                own = [tuple(every[row[before] + 1 : row[end] + 1]) for before, end in bounds]
                tokens = (*own, *[()] * len(late))
            logits_SK = logits_SK[[row[end] for end in read.ends]]
        values, aspects = self.model.columns(logits_SK)
        steps = range(len(values) + len(late))
        why = f"the context holds {self.model.max_length}"
        reasons = {k: Unjudged(Reason.TOO_LONG, f"ends at token {p + 1}, {why}") for k, p in late.items()}

        def placed(column: Sequence[float]) -> tuple[float | None, ...]:
            rest = iter(column)  # a step that is shown by itself may fit where an earlier one does not
            return tuple(None if k in late else next(rest) for k in steps)

        return Judgement(
            trajectory.id, placed(values), self.name,
            aspects={name: placed(column) for name, column in aspects.items()},
            failures=failures_of(reasons.get(k) for k in steps), cost=cost, initial=initial, token_values=tokens,
        )  # fmt: skip
