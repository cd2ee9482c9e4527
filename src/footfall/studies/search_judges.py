"""Judges of three qualities for `footfall bench search`: exact, noisy, and a PRM for each world and seed, trained here.

What their reading costs is in `footfall.simulate`. The PRM's backbone is the embedded model of 1.1M parameters, made for
arithmetic; it reads text of other worlds almost letter by letter, so its PRMs are good on one world and poor on others: how
good is stated beside what they are used for. Training problems are of the train split; how good a PRM is, is measured on test
problems that no search is measured on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from footfall.drive.rollouts import write
from footfall.label.monte_carlo import MonteCarlo
from footfall.metrics.steps import auc
from footfall.policy.protocol import Policy, SamplingParams, draw_traces
from footfall.policy.resuming import InWords, Resuming, unfinished
from footfall.simulate import Noisy, Reader
from footfall.studies.frontier import DIGITS
from footfall.studies.study import kept
from footfall.train.config import TrainConfig
from footfall.types import Judge, Judged, Judgement, Problem, Step, Trajectory
from footfall.worlds.judges import ExactValueJudge, TruthJudge
from footfall.worlds.world import StepTruth

TRACES = 300
"""That a PRM is trained on, one a problem."""
HELD_OUT = 100
"""Traces, one a problem."""
_ROLLOUTS = 8
_EPOCHS = 2
_ELSEWHERE = 10_000
"""Added to the seed of test problems: others than those that searches are measured on."""
_CACHE = 1 << 16
"""Tokens whose keys and values a PRM keeps."""


class PrmSetting(NamedTuple):
    """Where a PRM is trained: a world, the scripted policy that writes there, and a seed."""

    world: Any
    policy: Policy
    seed: int
    size: int = TRACES

    def problems(self, n: int, split: str) -> list[Problem]:
        found: list[Problem] = self.world.problems(n, self._seed(split), split=split)
        return found

    def traces(self, n: int, split: str) -> list[Trajectory]:
        """One graded trace of each of `n` problems."""
        prefixes = [self.world.prefix(problem) for problem in self.problems(n, split)]
        return [row[0] for row in draw_traces(self.policy, prefixes, 1, _params(self._seed(split)))]

    def _seed(self, split: str) -> int:
        return self.seed + (_ELSEWHERE if split == "test" else 0)


def _params(seed: int) -> SamplingParams:
    return SamplingParams(seed=seed, max_tokens=256)


def trained(setting: PrmSetting, folder: Path) -> Reader:
    """The PRM in this folder, trained now if it is not there; a training that was killed goes on."""
    from footfall.loading import single_threaded
    from footfall.reward.judge import step_head

    model = folder / "model"
    with single_threaded():
        if not (folder / "result.json").exists():
            _train(setting, folder)
        judge: Judge = _OneThread(step_head(model, device="cpu", too_long="partial", cache_tokens=_CACHE))
    return Reader(judge, judge)


def _train(setting: PrmSetting, folder: Path) -> None:
    from footfall.policy.embedded import EMBEDDED
    from footfall.train.prm import train_prm

    traces = setting.traces(setting.size, "train")
    labels = MonteCarlo(setting.policy, _ROLLOUTS, params=_params(setting.seed)).judge(traces)
    config = TrainConfig(
        lr=3e-4, epochs=_EPOCHS, batch_size=4, eval_share=0.0, seed=setting.seed, too_long="drop", device="cpu", save_steps=20,
    )  # fmt: skip
    train_prm(list(map(Judged, traces, labels)), EMBEDDED, config, folder)


def quality(setting: PrmSetting, folder: Path) -> dict[str, Any]:
    """How well the PRM in this folder tells right from wrong, as JSON; worked out once."""

    def measured() -> dict[str, Any]:
        traces = setting.traces(HELD_OUT, "test")
        said = trained(setting, folder).steps.judge(traces)
        return {
            "seed": setting.seed, "training_traces": setting.size, "epochs": _EPOCHS, "held_out_traces": HELD_OUT,
            "step_auc": step_auc(setting.world, traces, said), "solution_auc": solution_auc(traces, said),
        }  # fmt: skip

    return kept(folder / "quality.json", measured)


def step_auc(world: Any, traces: Sequence[Trajectory], said: Sequence[Judgement]) -> float | None:
    """The chance that a right step is valued above a wrong one; steps up to the first error count."""
    scores: list[float] = []
    right: list[bool] = []
    for trace, judgement in zip(traces, said, strict=True):
        for truth, value in zip(world.check(trace), judgement.values, strict=True):
            if truth is None or value is None:
                break
            scores.append(value)
            right.append(truth is not StepTruth.WRONG)
            if truth is not StepTruth.RIGHT:
                break
    return _auc(scores, right)


def solution_auc(traces: Sequence[Trajectory], said: Sequence[Judgement]) -> float | None:
    """The chance that a right solution's lowest step is valued above a wrong one's."""
    judged = [(t, [v for v in j.values if v is not None]) for t, j in zip(traces, said, strict=True)]
    return _auc([min(vs) for _, vs in judged if vs], [bool(t.correct) for t, vs in judged if vs])


def _auc(scores: Sequence[float], right: Sequence[bool]) -> float | None:
    return round(float(auc(scores, right)), DIGITS) if len(set(right)) == 2 else None


class _OneThread:
    """A judge that gives the same numbers in a process of its own and in one of several."""

    def __init__(self, judge: Judge) -> None:
        self._judge, self.name = judge, judge.name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        from footfall.loading import single_threaded

        with single_threaded():
            return self._judge.judge(trajectories)


QUALITIES = ("exact", "noisy", "prm")
AGGREGATIONS = {"exact": "last", "noisy": "mean", "prm": "min"}
"""How methods that fold step values do it: the last value is all that counts if values are exact, and not if each may err."""
NOISE = 0.2
"""The share of the steps on which the noisy judge is wrong."""
WAYS = 8
"""Ways to finish a step by which a scripted judge values its beginning."""


@dataclass(frozen=True)
class Finished:
    """Traces that end in the beginning of a step, valued by the mean over ways in which the policy may finish it."""

    whole: Judge
    policy: Policy
    seed: int

    @property
    def name(self) -> str:
        return f"finished({self.whole.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        # Other random numbers than the search's, or the judge would see how this very step goes on.
        params = SamplingParams(seed=self.seed + 1_000_003, max_tokens=1 << 20, until="step")
        rows = write(Resuming(InWords(self.policy)), [unfinished(t) for t in trajectories], WAYS, params)
        return [self._judgement(t, [c.steps[0] for c in row]) for t, row in zip(trajectories, rows, strict=True)]

    def _judgement(self, trajectory: Trajectory, ends: Sequence[Step]) -> Judgement:
        before = trajectory.prefix(len(trajectory.steps) - 1)
        ways = Counter(ends)
        said = self.whole.judge([before.extend([end]) for end in ways])
        known = [
            v
            for each, n in zip(said, ways.values(), strict=True)
            if (v := each.values[-1]) is not None
            for _ in range(n)
        ]
        return Judgement(trajectory.id, (*said[0].values[:-1], fmean(known) if known else None), self.name)


def exact(policy: Any, seed: int) -> Reader:
    """The policy's own chance of success after each step."""
    values = ExactValueJudge(policy)
    return Reader(values, Finished(values, policy, seed))


def noisy(world: Any, policy: Policy, seed: int) -> Reader:
    """Whether a step is right, and wrong about it on a share `NOISE` of the steps. A beginning is right if most ends are."""
    truth = TruthJudge(world)
    finished = Finished(truth, policy, seed)
    return Reader(Noisy(truth, NOISE, NOISE, seed=seed), Noisy(finished, NOISE, NOISE, seed=seed))
