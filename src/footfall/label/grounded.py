"""GroundedPRM (arXiv 2510.14942): rollouts whose steps a tool verifies, fused with the outcome and propagated up a tree.

A rollout from node i has N verified steps between i and its last one, with verdicts v_j = ±1 (0 where the tool cannot say),
and the outcome F = ±1:

    V = (1/N) Σ_j v_j (N − j)/N,   R = V + F/N,   R = F if N = 0          earlier verdicts weigh more
    value(i) += R,   value(ancestor at distance d) += 0.9^d R,   visits += 1

The label of a step is the sign of its value. A step that the tool refutes although its value is positive is dropped, and a
step that the tool refutes is never positive. A step whose own rollouts all failed, or were all cut, has no label.

What differs: the tree is that of the given trace (with what other traces of the same call share with it); each of its nodes
is simulated the same number of times, so nothing is chosen by UCT; the tool is `formal` or any other judge; no rationale is
written. The paper's own trees, with both, are `footfall.label.grounded_tree`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from footfall.drive.probing import Estimate, Probe, Prober
from footfall.drive.tally import Tally, counts, drawn, finished, of_answered
from footfall.label.formal import Formal
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.types import Cost, Judge, Judgement, Reason, Trajectory, Unjudged, failures_of

__all__ = ["Grounded", "grounded", "rollout_reward", "signs", "verdict_sum"]


def verdict_sum(verdicts: Sequence[float]) -> float:
    """V = (1/N) Σ_j v_j (N − j)/N."""
    n = len(verdicts)
    return sum(v * (n - j) / n for j, v in enumerate(verdicts)) / n if n else 0.0


def rollout_reward(verdicts: Sequence[float], outcome: float) -> float:
    """R = V + F/N over the steps between the start and the last one; the outcome alone if there are none."""
    return verdict_sum(verdicts) + outcome / len(verdicts) if verdicts else outcome


@dataclass(frozen=True)
class Grounded:
    """Monte Carlo rollouts whose steps a tool verifies. Costs as many completions as Monte Carlo."""

    policy: Policy
    tool: Judge = field(default_factory=Formal)
    rollouts: int = 8
    decay: float = 0.9
    clean: bool = True
    """Drop steps that the tool refutes although their value is positive; otherwise they are labelled wrong."""
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.rollouts < 1 or not 0 <= self.decay <= 1:
            raise ValueError(f"rollouts must be at least 1 and decay in [0, 1], got {self.rollouts} and {self.decay}")

    @property
    def name(self) -> str:
        settings = f"n={self.rollouts},decay={self.decay:g},clean={self.clean}"
        return f"grounded({self.policy.name},{self.tool.name},{settings},{drawn(self.params)})"

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Label every step; all rollouts are one batch, and so is what the tool is asked."""
        prober = Prober(self.policy, self.params)
        sizes = [len(trace.steps) - finished(trace) for trace in trajectories]
        probes = [
            Probe(t.prefix(k), self.rollouts) for t, n in zip(trajectories, sizes, strict=True) for k in range(1, n + 1)
        ]
        answered = iter(prober.ask(probes))
        verified = self.tool.judge(trajectories)
        found = []
        for trace, n, said in zip(trajectories, sizes, verified, strict=True):
            own = [next(answered) for _ in range(n)]
            spent = Cost.total((said.cost, *(cost for _, cost in own)))
            found.append(self._judgement(trace, [estimate for estimate, _ in own], said, spent))
        return found

    def _judgement(self, trace: Trajectory, estimates: list[Estimate], said: Judgement, cost: Cost) -> Judgement:
        rewards, tool_cost = self._rewards(estimates)
        outcomes = len(trace.steps) - len(estimates)  # 1 if the last step has its outcome instead of rollouts
        tallies: list[Tally | None] = [*(estimate.tally for estimate in estimates), *[None] * outcomes]
        silences = [None if tally is None else tally.silence for tally in tallies]
        scores = self._propagated(trace, rewards, silences)
        verdicts = signs(said.values)
        labels = list(map(self._label, scores, verdicts, silences))
        return Judgement(
            trace.id,
            tuple(label for label, _ in labels),
            self.name,
            aspects={"score": tuple(scores), "verdict": tuple(verdicts), **counts(tallies)},
            failures=failures_of(reason for _, reason in labels),
            cost=cost + tool_cost,
        ).check(trace)

    def _rewards(self, estimates: Sequence[Estimate]) -> tuple[list[list[float]], Cost]:
        """R of every rollout of every prefix; the tool reads each whole, for a step is judged in its place.

        Rollouts that say nothing of their prefix have no rewards.
        """
        rewards: list[list[float]] = []
        cost = Cost()
        for estimate in estimates:
            if estimate.failure is not None:
                rewards.append([])
                continue
            whole = [rollout.completion.after(estimate.prefix, self.policy.name) for rollout in estimate.rollouts]
            said = self.tool.judge(whole)
            cost += Cost.total(each.cost for each in said)
            first = len(estimate.prefix.steps)
            rewards.append([
                rollout_reward(signs(each.values[first:-1]), 1.0 if rollout.correct else -1.0)
                for each, rollout in zip(said, estimate.rollouts, strict=True)
            ])  # fmt: skip
        return rewards, cost

    def _propagated(
        self, trace: Trajectory, rewards: Sequence[Sequence[float]], silences: Sequence[Unjudged | None]
    ) -> list[float | None]:
        """value(i) = Σ 0.9^distance R over the nodes from i down, a visit; of a finished trace the last R is its outcome.

        A silent node has no value: what is known further down does not say whether the answer was in reach here.
        """
        totals = [sum(own) for own in rewards]
        visits = [len(own) for own in rewards]
        if len(totals) < len(trace.steps):
            totals.append(1.0 if trace.correct else -1.0)
            visits.append(1)
        scores: list[float | None] = []
        for i, silence in enumerate(silences):
            if silence is not None:
                scores.append(None)
                continue
            total = sum(totals[k] * self.decay ** (k - i) for k in range(i, len(totals)))
            scores.append(total / max(1, sum(visits[i:])))
        return scores

    def _label(
        self, score: float | None, verdict: float, silence: Unjudged | None = None
    ) -> tuple[float | None, Unjudged | None]:
        if score is None:
            return None, silence
        if verdict < 0 and score > 0 and self.clean:
            return None, Unjudged(Reason.UNDECIDED, "the tool refutes the step, but its value is positive")
        if score == 0 and verdict == 0:
            return None, Unjudged(Reason.UNDECIDED, "the value is zero, and the tool cannot say")
        good = verdict > 0 if score == 0 else score > 0 and verdict >= 0
        return float(good), None


def signs(values: Sequence[float | None]) -> list[float]:
    """+1 for verified, −1 for refuted, 0 where the tool could not say."""
    return [0.0 if value is None else 1.0 if value >= 0.5 else -1.0 for value in values]


@register("labeller", "grounded")
def grounded(
    policy: Policy, rollouts: int = 8, clean: bool = True, params: SamplingParams = SamplingParams()
) -> Grounded:
    """Rollouts whose steps a formal tool verifies, fused with the outcome (GroundedPRM)."""
    return Grounded(policy, rollouts=rollouts, clean=clean, params=params)
