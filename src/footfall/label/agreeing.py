"""Critiques for training a judge that writes: sampled from a teacher, kept where they say what the step labels say.

ThinkPRM (arXiv 2504.16828) keeps a chain iff all of its verdicts are the labels, R-PRM (2503.21295) a critique of a step iff
its verdict is the step's label, GenPRM (2504.00891) the critiques of a solution iff it names the labels' first error. A label
stands where a critique is kept, with the critique as its rationale; `footfall train --objective critique` learns to write it.
A step or solution without such a critique has no label, and the reason counts what its critiques said instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from footfall.formats import read
from footfall.label.consensus import first_error, judge_by_name, verdicts
from footfall.policy.protocol import Policy
from footfall.registry import Declared, register
from footfall.reward.generative.chains import Keep, gold_of, kept
from footfall.reward.generative.critic import Chain
from footfall.types import AFTER_ERROR, Cost, Judge, Judgement, Reason, Trajectory, Unjudged, failures_of


@runtime_checkable
class Teacher(Protocol):
    """A critic that gives all that it wrote, with the verdicts in it."""

    def chains(self, trajectories: Sequence[Trajectory]) -> list[list[Chain]]:
        """The critiques of each trace."""
        ...


@runtime_checkable
class Told(Protocol):
    """A teacher that can be told what the labels say, and writes as if it had not been."""

    def told(self, trajectories: Sequence[Trajectory], labels: Sequence[Sequence[float | None]]) -> list[list[Chain]]:
        """The critiques of each trace, whose labels are known."""
        ...


@dataclass(frozen=True)
class Known:
    """Labels that a file of judged traces holds, as a judge; traces are found by content."""

    labels: dict[str, Judgement]
    file: str

    @property
    def name(self) -> str:
        """The labels' own name, so that a moved file is the same judge."""
        return f"labels({'+'.join(sorted({said.judge for said in self.labels.values()}))})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The stored labels of each trace; a trace that the file does not have, has none."""
        return [self.labels.get(t.key) or self._nothing(t) for t in trajectories]

    def _nothing(self, trace: Trajectory) -> Judgement:
        reason = Unjudged(Reason.NO_REFERENCE, f"{self.file} has no labels of this trace")
        return Judgement(
            trace.id, (None,) * len(trace.steps), self.name, failures=failures_of([reason] * len(trace.steps))
        )


def known_labels(file: str | Path) -> Known:
    """The judgements of a file in any format with step labels."""
    rows = [(row.trajectory, row.judgement) for row in read(file) if row.judgement is not None]
    if not rows:
        raise ValueError(f"{file}: none of its traces has labels")
    return Known({trace.key: said for trace, said in rows}, str(file))


@dataclass(frozen=True)
class Agreeing:
    """The labels of one judge where another's critiques agree, with these as rationales."""

    labels: Judge
    critic: Judge
    keep: Keep = "process"
    told: bool = False
    """Whether the critic is told what the labels say. What it writes is put to the same filter."""

    def __post_init__(self) -> None:
        if self.told and not isinstance(self.critic, Told):
            raise ValueError(f"told=true: {self.critic.name} cannot be told what the labels say; critic=thinkprm can")

    @property
    def name(self) -> str:
        """Whose labels, and whose critiques."""
        return f"agreeing({self.keep},{'told,' if self.told else ''}{self.labels.name};{self.critic.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """All traces are labelled, and then all of them critiqued."""
        labels = self.labels.judge(trajectories)
        if self.told and isinstance(self.critic, Told):
            chains = self.critic.told(trajectories, [said.values for said in labels])
            return [self._by_chain(*row) for row in zip(trajectories, labels, chains, strict=True)]
        if isinstance(self.critic, Teacher):
            rows = zip(trajectories, labels, self.critic.chains(trajectories), strict=True)
            return [self._by_chain(*row) for row in rows]
        rows_of = zip(trajectories, labels, self.critic.judge(trajectories), strict=True)
        return [self._by_trace(*row) for row in rows_of]

    def _by_chain(self, trace: Trajectory, labels: Judgement, chains: Sequence[Chain]) -> Judgement:
        """A chain stands at the last step that it is about, with the label of all that it is about: right, or not."""
        gold = gold_of(labels.check(trace).values)
        found = {chain.end - 1: chain for chain in reversed(kept(chains, labels.values, self.keep))}
        values = [float(all(gold[found[k].begin : k + 1])) if k in found else None for k in range(len(trace.steps))]
        reasons = [None if k in found else _why(labels, chains, k) for k in range(len(trace.steps))]
        texts = [found[k].text if k in found else None for k in range(len(trace.steps))]
        cost = labels.cost + Cost.total(chain.cost for chain in chains)
        return self._judgement(trace, labels, values, reasons, texts, cost)

    def _by_trace(self, trace: Trajectory, labels: Judgement, said: Judgement) -> Judgement:
        """Critiques that were written of step after step: all are kept, up to the first error that both name, or none."""
        n, cost = len(trace.steps), labels.cost + said.cost
        own, theirs = first_error(verdicts(labels.check(trace))), first_error(verdicts(said.check(trace)))
        if own is None or own != theirs:
            reason = Unjudged(Reason.UNDECIDED, "the critiques do not name the first error of the labels")
            return self._judgement(trace, labels, [None] * n, [reason] * n, [None] * n, cost)
        end = n if own < 0 else own + 1
        values = [float(k != own) if k < end else None for k in range(n)]
        texts = [text if k < end else None for k, text in enumerate(said.rationales or (None,) * n)]
        return self._judgement(trace, labels, values, [None] * end + [AFTER_ERROR] * (n - end), texts, cost)

    def _judgement(
        self, trace: Trajectory, labels: Judgement, values: Sequence[float | None],
        reasons: Sequence[Unjudged | None], texts: Sequence[str | None], cost: Cost,
    ) -> Judgement:  # fmt: skip
        return Judgement(
            trace.id, tuple(values), self.name, aspects={"label": labels.values}, rationales=tuple(texts),
            failures=failures_of(reasons), cost=cost,
        )  # fmt: skip


def _why(labels: Judgement, chains: Sequence[Chain], k: int) -> Unjudged:
    """What the critiques that end at a step have instead of its label."""
    own = [chain for chain in chains if chain.end == k + 1]
    if not own:
        return Unjudged(Reason.NOT_ASKED, "a critique is of the whole solution, and stands at its last step")
    if labels.values[k] is None and None in labels.values[: k + 1]:
        return labels.failure(k) or Unjudged(Reason.NO_REFERENCE, "there is no label to agree with")
    said = Counter("states no verdict" if chain.reason else "differs from the labels" for chain in own)
    words = ", ".join(f"{count} {what}" for what, count in sorted(said.items()))
    return Unjudged(Reason.UNDECIDED, f"of {len(own)} critiques none agrees: {words}")


@register(
    "labeller",
    "agreeing",
    Declared(unmeasured="its labels are those of another judge; what it adds is the critiques of a language model"),
)
def agreeing(
    policy: Policy,
    critic: str = "thinkprm",
    labels: str = "monte-carlo",
    n: int = 4,
    keep: Keep = "process",
    temperature: float = 0.1,
    max_tokens: int = 4096,
    seed: int = 0,
    told: bool = False,
) -> Agreeing:
    """Critiques of a language model that say what step labels say, as data to train a critic on (ThinkPRM, R-PRM, GenPRM).

    `critic` is thinkprm, r-prm, stepwiser or genprm; `labels` a judge by name, or a file of judged traces. `n` critiques of at
    most `max_tokens` are drawn of each question, and the first that agrees is kept; genprm writes one. With `told` the critic
    (thinkprm) knows the labels while it writes, and what is learned does not show it: for small models, which seldom agree.
    """
    judge = known_labels(labels) if Path(labels).is_file() else judge_by_name(labels, policy=policy, seed=seed)
    drawn = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
    writer = judge_by_name(critic, policy=policy, n=n, **drawn)
    if not isinstance(writer, Teacher):  # what it writes of a step is read at the next, so it can keep but one
        writer = judge_by_name(critic, policy=policy, n=1, **drawn)
    return Agreeing(judge, writer, keep, told)
