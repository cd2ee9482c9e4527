"""The trained judge of `footfall bench search`: a PRM for each world and seed, trained here, and how good it is.

The embedded model of 1.1M parameters is the backbone. It was made for arithmetic and reads text of other worlds almost letter
by letter, so its PRMs are good on one world and poor on others: how good is stated beside what they are used for. Training
problems are of the train split; how good a PRM is, is measured on test problems that no search is measured on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from footfall.label.monte_carlo import MonteCarlo
from footfall.metrics.steps import auc
from footfall.policy.protocol import Policy, SamplingParams, draw_traces
from footfall.search.priced import Reader
from footfall.studies.frontier import DIGITS, kept
from footfall.train.config import TrainConfig
from footfall.types import Judged, Judgement, Problem, Trajectory
from footfall.worlds.truth import StepTruth

if TYPE_CHECKING:
    from footfall.types import Judge


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


class Site(NamedTuple):
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


def trained(site: Site, folder: Path) -> Reader:
    """The PRM in this folder, trained now if it is not there; a training that was killed goes on."""
    from footfall.reward.judge import step_head

    model = folder / "model"
    with single_threaded():
        if not (folder / "result.json").exists():
            _train(site, folder)
        judge: Judge = _OneThread(step_head(model, device="cpu", too_long="partial", cache_tokens=_CACHE))
    return Reader(judge, judge)


def _train(site: Site, folder: Path) -> None:
    from footfall.policy.embedded import EMBEDDED
    from footfall.train.prm import train_prm

    traces = site.traces(site.size, "train")
    labels = MonteCarlo(site.policy, _ROLLOUTS, params=_params(site.seed)).judge(traces)
    config = TrainConfig(
        lr=3e-4, epochs=_EPOCHS, batch_size=4, eval_share=0.0, seed=site.seed, too_long="drop", device="cpu", save_every=20,
    )  # fmt: skip
    train_prm(list(map(Judged, traces, labels)), EMBEDDED, config, folder)


def quality(site: Site, folder: Path) -> dict[str, Any]:
    """How well the PRM in this folder tells right from wrong, as JSON; worked out once."""

    def measured() -> dict[str, Any]:
        traces = site.traces(HELD_OUT, "test")
        said = trained(site, folder).steps.judge(traces)
        return {
            "seed": site.seed, "training_traces": site.size, "epochs": _EPOCHS, "held_out_traces": HELD_OUT,
            "step_auc": step_auc(site.world, traces, said), "solution_auc": solution_auc(traces, said),
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
        with single_threaded():
            return self._judge.judge(trajectories)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Sums in one order: another number of threads rounds otherwise, and side by side they would wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
