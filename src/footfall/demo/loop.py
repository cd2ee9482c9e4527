"""The whole loop on one machine: sample, label, train a PRM, and let it choose among fresh solutions.

The policy is the embedded model; labels are Monte Carlo estimates with the same model as completer; the PRM is a step
head on that model; the test problems are held out by construction of the world's split, and checked again. The world also
knows what no real data set can: the true first error of every trace, and the exact value of every prefix under its
scripted policy, against which the labeller is measured.

What it found is told as numbers (report.json), as a table, and as one page (report.html).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from footfall._version import __version__
from footfall.demo import DemoSettings
from footfall.label.monte_carlo import MonteCarlo
from footfall.metrics.intervals import bootstrap_mean, paired_difference
from footfall.metrics.preferences import sizes_up_to
from footfall.metrics.steps import FirstError, brier, calibration_error, first_error_f1, reliability
from footfall.policy.embedded import EMBEDDED, embedded
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import create
from footfall.reports.demo_page import Comparison, DemoReport, LabelPair
from footfall.reports.pages import CostRow, Named, write_page
from footfall.reports.probabilities import Bin
from footfall.reports.search_page import RULE_NAMES, accuracy_points, accuracy_svg
from footfall.reports.traces import TraceView, view_of
from footfall.search import Curve, aggregate, curve
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


STAGES = {
    "sample": "sample traces of the training problems",
    "label": "label their steps by rollouts",
    "train": "train a PRM on the labels",
    "candidates": "sample solutions of the test problems",
    "scores": "score them with the PRM",
    "train-scores": "score the training traces, to choose a threshold",
    "quality": "compare labels with exact values",
}
"""In order, and what each does."""


class Demo:
    """The stages of the loop, each resumable; `findings` runs them all, and tells which it begins."""

    def __init__(
        self, settings: DemoSettings, seed: int, run: Run, tell: Callable[[str], None] = lambda words: None
    ) -> None:
        self.settings, self.seed, self.run, self.tell = settings, seed, run, tell
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
        self._begin(stage)
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
        self._begin("train")
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
        self._begin("quality")
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

    def _begin(self, stage: str) -> None:
        self.tell(f"stage {1 + list(STAGES).index(stage)} of {len(STAGES)}: {STAGES[stage]}")

    def _judge(self, stage: str, judge: Judge, traces: Sequence[Trajectory], chunk: int) -> list[Judgement]:
        self._begin(stage)

        def work(part: Sequence[Trajectory]) -> list[Judgement]:
            return [
                replace(j, cost=replace(j.cost, seconds=0.0)) for j in judge.judge(part)
            ]  # times stand in the log alone

        judgements = self.run.map(
            stage, traces, work, key=lambda t: t.key, kind="judgement", chunk=chunk, made_by=judge.name,
            forgetful=(self.policy,),
        )  # fmt: skip
        self._charge(stage, judgements)
        return judgements

    def _charge(self, stage: str, made: Sequence[Trajectory] | Sequence[Judgement]) -> None:
        seconds = self.run.seconds(stage)
        self.cost[stage] = replace(Cost.total(item.cost for item in made), seconds=seconds)


_SHOWN_TRACES = 10


def curves(findings: Findings) -> Curve:
    """Accuracy at N = 1, 2, 4 … up to the number of candidates."""
    return curve(findings.results, sizes_up_to(findings.settings.n))


def report_numbers(findings: Findings, accuracy: Curve) -> dict[str, Any]:
    """The content of report.json. All but `cost.seconds` is the same for the same seed."""
    seed = findings.seed
    difference = paired_difference(accuracy.correct["weighted"][-1], accuracy.correct["majority"][-1], seed)
    steps = _step_outcomes(findings)
    errors = _first_errors(findings)
    return {
        "accuracy": {
            name: bootstrap_mean(accuracy.correct[rule][-1], seed).to_dict() for rule, name in RULE_NAMES.items()
        },
        "n": findings.settings.n,
        "problems": len(findings.results),
        "weighted_vote_minus_majority": difference.to_dict(),
        "first_error_f1": errors.f1,
        "first_error": {"on_erroneous": errors.acc_err, "on_correct": errors.acc_cor, "threshold": findings.threshold,
                        "threshold_tuned_on": "training traces"},
        "label_mae": findings.quality.mean_absolute_error,
        "calibration": {"ece": float(calibration_error(*steps)), "brier": float(brier(*steps)), "bins": 10},
        "cost": Cost.total(findings.cost.values()).to_dict(),
        "seed": seed,
        "aggregation": findings.settings.aggregation,
        "policy": findings.policy,
        "judge": findings.judge,
        "version": __version__,
    }  # fmt: skip


def report_page(findings: Findings, accuracy: Curve, numbers: dict[str, Any]) -> DemoReport:
    """The same as a page for people, with ten traces to look at."""
    seed = findings.seed
    low, high = numbers["weighted_vote_minus_majority"]["ci95"]
    return DemoReport(
        seed=seed,
        model=str(Named("embedded", findings.policy)),
        version=__version__,
        problems=len(findings.results),
        comparison=Comparison(
            "weighted vote", "majority vote", findings.settings.n,
            numbers["accuracy"]["weighted_vote"]["value"], numbers["accuracy"]["majority"]["value"], low, high,
        ),
        accuracy_curves=accuracy_points(accuracy, seed),
        reliability=[Bin(b.predicted, b.observed, b.count) for b in reliability(*_step_outcomes(findings))],
        label_pairs=[LabelPair(e, v) for e, v in zip(findings.quality.exact, findings.quality.labels, strict=True)],
        cost=[CostRow(stage, cost) for stage, cost in findings.cost.items()],
        traces=_traces(findings),
        ece=numbers["calibration"]["ece"],
        brier=numbers["calibration"]["brier"],
        first_error_f1=numbers["first_error_f1"],
        threshold=findings.threshold,
        facts={"aggregation": findings.settings.aggregation, "rollouts a step": str(findings.settings.rollouts),
               "threshold": f"{findings.threshold}, tuned on the training traces",
               "judge": str(Named("prm/model", findings.judge))},
        config=asdict(findings.settings),
    )  # fmt: skip


def _step_outcomes(findings: Findings) -> tuple[list[float], list[bool]]:
    """Each step's value beside the outcome of the trace it stands in: a calibrated value is that outcome's mean."""
    rows = [
        (value, bool(trace.correct))
        for result in findings.results
        for trace, judgement in result.candidates
        for value in (judgement.values if judgement else ())
        if value is not None
    ]
    return [value for value, _ in rows], [outcome for _, outcome in rows]


def _first_errors(findings: Findings) -> FirstError:
    truth = [error for errors in findings.first_errors for error in errors]
    said = [j.first_below(findings.threshold) if j else None for r in findings.results for _, j in r.candidates]
    return first_error_f1(truth, said)


def _traces(findings: Findings) -> list[TraceView]:
    """Half with an error and half without, taken evenly over the problems."""
    rows = [
        (result.candidates[0], errors[0])
        for result, errors in zip(findings.results, findings.first_errors, strict=True)
    ]
    wrong, right = [r for r in rows if r[1] >= 0], [r for r in rows if r[1] < 0]
    shown = _evenly(wrong, _SHOWN_TRACES // 2) + _evenly(right, _SHOWN_TRACES - _SHOWN_TRACES // 2)
    return [view_of(row, true_first_error=error, threshold=findings.threshold) for row, error in shown if row.judgement]


def _evenly(rows: Sequence[Any], n: int) -> list[Any]:
    if len(rows) <= n:
        return list(rows)
    return [rows[int(i)] for i in np.linspace(0, len(rows) - 1, n)]


def write_picture(path: Path, page: DemoReport) -> None:
    """The accuracy curves as a picture of their own, for a README, and beside it a narrow one (NAME-narrow.svg) for phones."""
    n, problems = page.comparison.n, page.problems
    picture = accuracy_svg(
        page.accuracy_curves,
        title=f"Choosing among up to {n} solutions, {problems} held-out problems",
        subtitle="embedded 1.1M-parameter model, 95% bands; footfall demo",
    )
    write_page(path, picture)
    narrow = accuracy_svg(page.accuracy_curves, width=360, height=340)
    write_page(path.with_name(f"{path.stem}-narrow{path.suffix}"), narrow)
