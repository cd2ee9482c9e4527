"""The whole loop on one machine: sample, label, train a PRM, and let it choose among fresh solutions.

The policy is the embedded model; labels are Monte Carlo estimates with the same model as completer; the PRM is a step
head on that model; the test problems are held out by construction of the world's split, and checked again. The world also
knows what no real data set can: the true first error of every trace, and the exact value of every prefix under its
scripted policy, against which the labeller is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from footfall.demo import DemoSettings
from footfall.label.monte_carlo import MonteCarlo
from footfall.metrics.steps import first_error_f1
from footfall.policy.embedded import EMBEDDED, embedded
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import create
from footfall.search import aggregate
from footfall.store import Run
from footfall.train import TrainConfig, train_prm
from footfall.types import Cost, Judge, Judged, Judgement, Problem, SearchResult, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge


@dataclass(frozen=True)
class LabelQuality:
    """Soft labels by the scripted completer beside the exact values of the same prefixes."""

    exact: tuple[float, ...]
    labels: tuple[float, ...]

    @property
    def mean_absolute_error(self) -> float:
        """mean |label − exact value|."""
        return float(np.mean(np.abs(np.subtract(self.labels, self.exact))))


@dataclass(frozen=True)
class Findings:
    """What the loop produced, before anything is reported."""

    settings: DemoSettings
    seed: int
    policy: str
    judge: str
    results: tuple[SearchResult, ...]
    first_errors: tuple[tuple[int, ...], ...]
    """True first error of each candidate of each problem."""
    threshold: float
    """Best first-error F1 on the training traces, never on what is reported."""
    quality: LabelQuality
    cost: dict[str, Cost]


class Demo:
    """The stages of the loop, each resumable; `findings` runs them all."""

    def __init__(self, settings: DemoSettings, seed: int, run: Run) -> None:
        self.settings, self.seed, self.run = settings, seed, run
        self.world = ArithmeticWorld()
        self.cost: dict[str, Cost] = {}

    @cached_property
    def policy(self) -> TorchPolicy:
        """The embedded model: it writes, it completes, and the PRM is trained on it."""
        return embedded()

    def findings(self) -> Findings:
        """Sample, label, train, choose and measure; every stage goes on where a killed run stopped."""
        settings = self.settings
        train = self.world.problems(settings.train_problems, self.seed, split="train")
        test = self.world.problems(settings.test_problems, self.seed, split="test")
        traces = self.sample("sample", train, settings.traces)
        labels = self.label(traces)
        judge = self.train([Judged(t, j) for t, j in zip(traces, labels, strict=True)], test)
        candidates = self.sample("candidates", test, settings.n)
        scores = self.score("scores", judge, candidates)
        threshold = self.tune_threshold(traces, self.score("train-scores", judge, traces))
        quality = self.label_quality(traces[: settings.quality_traces])
        results = self.results(test, candidates, scores)
        errors = tuple(tuple(self.world.first_error(t) for t, _ in r.candidates) for r in results)
        return Findings(
            settings, self.seed, self.policy.name, judge.name, results, errors, threshold, quality, self.cost
        )

    def sample(self, stage: str, problems: Sequence[Problem], n: int) -> list[Trajectory]:
        """`n` graded traces a problem."""
        params = SamplingParams(max_tokens=self.settings.max_tokens, seed=self.seed)

        def work(part: Sequence[Problem]) -> list[Trajectory]:
            prefixes = [self.world.prefix(problem) for problem in part]
            return [trace for row in draw_traces(self.policy, prefixes, n, params) for trace in row]

        made_by = f"{self.policy.name},{params}"
        traces = self.run.map(
            stage, problems, work, key=lambda p: p.id, kind="trajectory", chunk=64, per_item=n, made_by=made_by,
            forgetful=(self.policy,),
        )  # fmt: skip
        self._charge(stage, traces)
        return traces

    def label(self, traces: Sequence[Trajectory]) -> list[Judgement]:
        """Soft Monte Carlo labels, the embedded model completing its own prefixes."""
        settings = self.settings
        params = SamplingParams(max_tokens=settings.max_tokens, seed=self.seed + 1)
        labeller = MonteCarlo(self.policy, settings.rollouts, params=params)

        return self._judge("label", labeller, traces, chunk=64)

    def train(self, rows: Sequence[Judged], test: Sequence[Problem]) -> Judge:
        """A step head on the embedded model, trained on soft labels; test problems must not be among its problems."""
        settings = self.settings
        config = TrainConfig(
            objective="soft-bce",
            lr=settings.lr,
            epochs=settings.epochs,
            batch_size=16,
            seed=self.seed,
            device="cpu",
        )
        folder = self.run.folder / "prm"
        result = train_prm(rows, str(EMBEDDED), config, folder, against=test, resume=not self.run.fresh)
        self.cost["train"] = result.cost
        judge: Judge = create("reward", "step-head", path=str(result.folder), device="cpu")
        return judge

    def score(self, stage: str, judge: Judge, traces: Sequence[Trajectory]) -> list[Judgement]:
        """The PRM's judgements of traces, kept under the name of the stage."""
        return self._judge(stage, judge, traces, chunk=512)

    def label_quality(self, traces: Sequence[Trajectory]) -> LabelQuality:
        """The same labeller with the scripted policy as completer, whose exact values are known."""
        settings = self.settings
        completer = ArithmeticPolicy()
        labels = MonteCarlo(completer, settings.rollouts, params=SamplingParams(seed=self.seed + 2)).judge(traces)
        exact = ExactValueJudge(completer).judge(traces)
        pairs = [
            (truth, label)
            for judged, known in zip(labels, exact, strict=True)
            for label, truth in zip(judged.values[:-1], known.values[:-1], strict=True)
            if label is not None and truth is not None
        ]
        return LabelQuality(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))

    def tune_threshold(self, traces: Sequence[Trajectory], scores: Sequence[Judgement]) -> float:
        """The threshold with the best first-error F1 on the training traces."""
        truth = [self.world.first_error(t) for t in traces]
        grid = [round(0.02 * i, 2) for i in range(1, 50)]
        return max(grid, key=lambda x: first_error_f1(truth, [s.first_below(x) for s in scores]).f1)

    def results(
        self, problems: Sequence[Problem], candidates: Sequence[Trajectory], scores: Sequence[Judgement]
    ) -> tuple[SearchResult, ...]:
        """Candidates and scores side by side, problem by problem, for curves over N."""
        n = self.settings.n
        rows = [Judged(t, j) for t, j in zip(candidates, scores, strict=True)]
        return tuple(
            SearchResult(
                problem,
                answer=None,
                chosen=None,
                candidates=tuple(rows[i * n : (i + 1) * n]),
                scores=tuple(aggregate(j.values, self.settings.aggregation) for j in scores[i * n : (i + 1) * n]),
            )
            for i, problem in enumerate(problems)
        )

    def _judge(self, stage: str, judge: Judge, traces: Sequence[Trajectory], chunk: int) -> list[Judgement]:
        judgements = self.run.map(
            stage, traces, judge.judge, key=lambda t: t.key, kind="judgement", chunk=chunk, made_by=judge.name,
            forgetful=(self.policy,),
        )  # fmt: skip
        self._charge(stage, judgements)
        return judgements

    def _charge(self, stage: str, made: Sequence[Trajectory] | Sequence[Judgement]) -> None:
        seconds = self.run.seconds(stage)
        self.cost[stage] = replace(Cost.total(item.cost for item in made), seconds=seconds)
