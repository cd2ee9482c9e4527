"""Lab-scale reward models and a pool of solutions: made once a seed, kept on disk, shared by recipes.

    traces         by the embedded policy on training problems, 4 a problem
    monte-carlo    a PRM on soft labels of 8 rollouts; the completer is the world's scripted policy
    truth          a PRM on the true class of each step (built on an error counts as wrong)
    outcome        an ORM: only the last step is labelled, with whether the answer is right
    pool           8 solutions of each test problem by the embedded policy
    harder pool    as many of problems with more operations and larger numbers than any training problem
    arms           PRMs that differ in their labels or loss alone, after as many updates, for recipes that compare them

Of a `large` trial policy and backbone are the lab's model of 9.5M parameters instead of the embedded one of 1.1M, with 2,400
training traces instead of 600 and 1,000 test problems instead of 100. A quick one has the small model all the same.

What is kept is named by seed, size and a fingerprint of the code that makes it: a stale one is never found. Two runs
may share a folder; what one makes, the other waits for.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from footfall.formats import read_parquet, write_parquet
from footfall.lab.fingerprint import fingerprint
from footfall.lab.recipe import Trial
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.train.config import TrainConfig
from footfall.types import Cost, Json, Judge, Judged, Judgement, Problem, Trajectory, content_key
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

if TYPE_CHECKING:
    from footfall.policy.torch_policy import TorchPolicy
    from footfall.reward.judge import PRMJudge
    from footfall.train.run import TrainResult

Labels = Literal["monte-carlo", "truth", "outcome"]
POOL, PROBLEMS, LARGE = 8, 100, 1000
"""Solutions of each test problem, and how many of those there are unless a recipe wants more; of a large trial."""
SEEN = 480
"""Traces that a model of the arms has before it, in all passes; of a large trial 2,400."""


def large(trial: Trial) -> Trial:
    """The trial with the lab's model, and data at which verdicts have power."""
    return trial._replace(large=True)


def backbone(trial: Trial) -> Path:
    """The model that PRMs of this trial are trained from."""
    from footfall.policy.embedded import EMBEDDED
    from footfall.policy.lab import LAB

    return LAB if trial.large and not trial.quick else EMBEDDED


def policy(trial: Trial) -> TorchPolicy:
    """The same model as a writer."""
    from footfall.policy.embedded import embedded
    from footfall.policy.lab import lab

    return (lab if trial.large and not trial.quick else embedded)(trial.device)


def _size(trial: Trial, small: int, large: int, quick: int) -> int:
    return trial.size(large if trial.large else small, quick)


def params(trial: Trial) -> SamplingParams:
    """How the embedded model samples in all recipes that train on it."""
    return SamplingParams(max_tokens=200, seed=trial.seed)


def training_traces(trial: Trial) -> list[Trajectory]:
    """600 graded traces (large: 2,400, quick: 12), 4 a problem (quick: 2)."""
    problems = _world(trial).problems(_size(trial, 150, 600, 6), trial.seed)
    return _kept(trial, "traces", "trajectory", lambda: _sampled(trial, problems, trial.size(4, 2)))


def pool(trial: Trial, problems: int = PROBLEMS) -> list[Trajectory]:
    """8 graded solutions of each of so many test problems (large: 1,000, quick: 4), problem by problem."""
    given = _world(trial).problems(_size(trial, problems, LARGE, 4), trial.seed, split="test")
    return _kept(trial, _sized("pool", problems), "trajectory", lambda: _sampled(trial, given, POOL))


def harder_pool(trial: Trial) -> list[Trajectory]:
    """8 graded solutions of each of so many test problems of the world's hard tier (large: 500, others: 50, quick: 4).

    No training trace is of one of these: they have more operations, on larger numbers. Quick: one operation more, so that the
    small model is right now and then.
    """
    world = ArithmeticWorld(min_ops=4, max_ops=4) if trial.quick else ArithmeticWorld.at("hard")
    given = world.problems(_size(trial, 50, 500, 4), trial.seed, split="test")
    return _kept(trial, "harder-pool", "trajectory", lambda: _sampled(trial, given, POOL))


def _sized(name: str, problems: int) -> str:
    return name if problems == PROBLEMS else f"{name}-{problems}"


def _world(trial: Trial) -> ArithmeticWorld:
    """Quick: with problems of middling length, so that few of them give right and wrong solutions."""
    return ArithmeticWorld(min_ops=3, max_ops=3) if trial.quick else ArithmeticWorld()


def _sampled(trial: Trial, problems: Sequence[Problem], n: int) -> list[Trajectory]:
    prefixes = [ArithmeticWorld().prefix(problem) for problem in problems]
    return [trace for row in draw_traces(policy(trial), prefixes, n, params(trial)) for trace in row]


def right_and_wrong(traces: Sequence[Trajectory]) -> list[tuple[list[Trajectory], list[Trajectory]]]:
    """The right and the wrong solutions of each problem that has both."""
    found: dict[str, tuple[list[Trajectory], list[Trajectory]]] = {}
    for trace in traces:
        found.setdefault(trace.problem.id, ([], []))[0 if trace.correct else 1].append(trace)
    return [(right, wrong) for right, wrong in found.values() if right and wrong]


def _labels(trial: Trial, labels: Labels) -> list[Judgement]:
    traces = training_traces(trial)
    if labels == "monte-carlo":
        completer = MonteCarlo(ArithmeticPolicy(), rollouts=8, params=params(trial))
        return _kept(trial, "labels", "judgement", lambda: completer.judge(traces))
    if labels == "truth":
        return TruthJudge().judge(traces)
    return list(map(outcome_label, traces))


def outcome_label(trace: Trajectory) -> Judgement:
    """Whether the answer is right, said of the last step alone."""
    return Judgement(trace.id, (None,) * (len(trace.steps) - 1) + (float(bool(trace.correct)),), "outcome")


def prm(trial: Trial, labels: Labels) -> TrainResult:
    """The model trained on these labels of the training traces."""
    rows = list(map(Judged, training_traces(trial), _labels(trial, labels)))
    return train(
        trial, labels, rows, TrainConfig(lr=3e-4, epochs=_size(trial, 2, 1, 1), seed=trial.seed, device=trial.device)
    )


def train(
    trial: Trial, name: str, rows: Sequence[Judged], config: TrainConfig, init: Path | None = None
) -> TrainResult:
    """A model of the trial's backbone, or from the PRM `init` on, kept under this name; the test problems are held off."""
    from footfall.train.data import data_key
    from footfall.train.prm import train_prm

    folder = _place(trial, f"prm-{name}", config.to_dict(), data_key(rows), init.parent.name if init else None)
    against = ArithmeticWorld().problems(_size(trial, 400, LARGE, 12), trial.seed, split="test")
    with _held(folder):
        return train_prm(rows, init or backbone(trial), config, folder, against=against)


def train_alike(trial: Trial, name: str, rows: Sequence[Judged], objective: str, **options: Json) -> TrainResult:
    """A model after as many updates, however many rows there are: they come around until 480 (2,400) traces were seen."""
    config = TrainConfig(objective, options, lr=3e-4, epochs=1, eval_share=0.0, seed=trial.seed, device=trial.device)
    return train(trial, name, [rows[k % len(rows)] for k in range(_size(trial, SEEN, 2400, 8))], config)


def judge(trial: Trial, labels: Labels) -> PRMJudge:
    """The model trained on these labels, ready to score."""
    from footfall.reward.judge import step_head

    return step_head(prm(trial, labels).folder, device=trial.device)


def untrained(trial: Trial) -> PRMJudge:
    """The backbone with a fresh head."""
    from footfall.reward.judge import PRMJudge
    from footfall.reward.prm import PRM

    return PRMJudge(PRM.from_backbone(backbone(trial), seed=trial.seed).to(trial.device))


def judged_pool(trial: Trial, labels: Labels, problems: int = PROBLEMS) -> list[Judgement]:
    """What that model says of each solution of the pool."""
    name = _sized(f"pool-{labels}", problems)
    return _kept(trial, name, "judgement", lambda: judge(trial, labels).judge(pool(trial, problems)))


def spent(trial: Trial, *labels: Labels, used_pool: Literal["judged", "sampled", "no"] = "judged") -> Cost:
    """What these models cost, from the training traces on, and the pool with what they say of it, where used."""
    costs = [trace.cost for trace in training_traces(trial)]
    for each in labels:
        costs += [label.cost for label in _labels(trial, each)] + [prm(trial, each).cost]
    if used_pool != "no":
        costs += [trace.cost for trace in pool(trial)]
    if used_pool == "judged":
        costs += [said.cost for each in labels for said in judged_pool(trial, each)]
    return Cost.total(costs)


class Arm(NamedTuple):
    """A PRM of a recipe: what it says of the pool, and what its training and that cost."""

    said: list[Judgement]
    cost: Cost


def arm_traces(trial: Trial) -> list[Trajectory]:
    """The traces that arms are trained on: 240 of the training traces (large: all, quick: 8), 4 a problem (quick: 2)."""
    return training_traces(trial)[: _size(trial, 240, 2400, 8)]


def arm_pool(trial: Trial) -> list[Trajectory]:
    """The solutions that arms are measured on: the whole pool."""
    return pool(trial)


def rolled_out(trial: Trial) -> list[Judgement]:
    """Soft Monte Carlo labels of those traces: 8 rollouts a step by the scripted completer."""
    return _labels(trial, "monte-carlo")[: len(arm_traces(trial))]


def arm(trial: Trial, rows: Sequence[Judged], objective: str = "soft-bce", **options: Json) -> Arm:
    """A PRM trained on these rows, and the pool as it sees it. The same rows and loss are trained on once."""
    return arm_with(trial, rows, TrainConfig(objective, options, lr=3e-4))


def arm_with(trial: Trial, rows: Sequence[Judged], config: TrainConfig, passes: int | None = None) -> Arm:
    """An arm with a head, family or learning rate of its own, or with so many passes (a smoke test has two)."""
    result = arm_training(trial, rows, config, None if passes is None else trial.size(passes, 2))
    name = f"pool-{result.folder.parent.name}"
    said = _kept(trial, name, "judgement", lambda: arm_judge(trial, result).judge(arm_pool(trial)))
    return Arm(said, Cost.total([result.cost, *(each.cost for each in said)]))


def arm_training(trial: Trial, rows: Sequence[Judged], config: TrainConfig, passes: int | None = None) -> TrainResult:
    """The training of an arm.

    Passes are as many as bring about 480 traces (large: 2,400) before it: fewer rows must not mean fewer updates. What begins
    at random has to say how many it takes.
    """
    epochs = passes or max(1, round(_size(trial, SEEN, 2400, 1) / len(rows)))
    config = replace(
        config, epochs=epochs, batch_size=_size(trial, 8, 16, 8), eval_share=0, seed=trial.seed, device=trial.device
    )
    return train(trial, "arm", rows, config)


def arm_judge(trial: Trial, result: TrainResult) -> Judge:
    """The model of an arm as a judge, whatever its family."""
    from footfall.reward.checkpoint import checkpoint

    return checkpoint(result.folder, device=trial.device)


def reweighted_arm(
    trial: Trial,
    rows: Sequence[Judged],
    domains: Sequence[Any],
    by: Literal["domain", "table", "net"],
    meta_lr: float,
    with_meta: bool = False,
) -> tuple[Arm, Mapping[Any, float]]:
    """A PRM on rows of these domains, weighted by a meta set (training traces that no arm is trained on), and the weights.

    `with_meta` puts the meta set among the rows, each step labelled by how its solution ended, as the meta loss reads it: so
    sees it who learns no weights (`meta_lr` 0), in as many updates.
    """
    from footfall.reward.judge import PRMJudge
    from footfall.reward.prm import PRM
    from footfall.train.reweight import train_reweighted

    model = PRM.from_backbone(backbone(trial), seed=trial.seed).to(trial.device)
    meta = [Judged(t, _ended(t)) for t in training_traces(trial)[len(rows) :]]
    seen = [*rows, *meta] if with_meta else rows
    names = [*domains, *["meta set"] * (len(seen) - len(rows))]
    found = train_reweighted(
        model, seen, names, meta, by=by, updates=trial.size(300, 2), unroll=trial.size(3, 1), meta_lr=meta_lr,
        batch_size=trial.size(16, 4), seed=trial.seed,
    )  # fmt: skip
    said = PRMJudge(model).judge(arm_pool(trial))
    cost = Cost(scored_tokens=found.tokens, flops=6.0 * model.size * found.tokens)
    return Arm(said, Cost.total([cost, *(each.cost for each in said)])), found.weights


def differ(rows: Sequence[Judged]) -> bool:
    """Whether there are two labels among them, without which nothing can be learned: a smoke test's few may have one."""
    return len({label for row in rows for label in _labels_of(row)}) > 1


def first_rows(rows: Sequence[Judged], n: int) -> list[Judged]:
    """So many rows. Where these have one label only, the last makes way for one that has another."""
    first = list(rows[:n])
    other = next((row for row in rows[n:] if differ([*first, row])), None)
    return first if differ(first) or other is None else [*first[:-1], other]


def _labels_of(row: Judged) -> set[float]:
    return {label for label in (row.judgement.values if row.judgement else ()) if label is not None}


def _ended(trace: Trajectory) -> Judgement:
    """Whether the answer is right, said of every step."""
    return Judgement(trace.id, (float(bool(trace.correct)),) * len(trace.steps), "outcome")


def arm_rows(trial: Trial) -> list[Judged]:
    """The traces of the arms with their Monte Carlo labels."""
    return list(map(Judged, arm_traces(trial), rolled_out(trial)))


def figures(
    trial: Trial,
    arms: Mapping[str, Arm],
    how: str = "min",
    ranked: Callable[[Judgement], Judgement] = lambda said: said,
    problems: int | None = None,
) -> dict[str, float | list[float]]:
    """First-error F1 of each arm on the pool, at a threshold from other problems, and its best-of-8.

    A solution is worth what `how` makes of its step values, or of those that `ranked` makes of a judgement. With `problems`
    only the solutions of the first ones count.
    """
    from footfall.lab.shared.cases import best_of_n, first_error_f1

    pool = arm_pool(trial)[: problems and problems * POOL]
    arms = {name: arm._replace(said=arm.said[: len(pool)]) for name, arm in arms.items()}
    found: dict[str, float | list[float]] = {name: first_error_f1(pool, arm.said) for name, arm in arms.items()}
    return found | {f"{n}, best of {POOL}": best_of_n(pool, list(map(ranked, a.said)), how) for n, a in arms.items()}


def spent_on(trial: Trial, labels: Iterable[Judgement], arms: Iterable[Arm]) -> Cost:
    """What arms cost, from their traces on, with these labels and the pool."""
    traces = [*arm_traces(trial), *arm_pool(trial)]
    return Cost.total([*(t.cost for t in traces), *(label.cost for label in labels), *(each.cost for each in arms)])


def _kept(trial: Trial, name: str, kind: str, make: Callable[[], Sequence[Any]]) -> list[Any]:
    """The rows of this name, made now if they are not there."""
    path = _place(trial, name).with_suffix(".parquet")
    with _held(path):
        if not path.exists():
            write_parquet(path, make(), kind)
    return _read(path, kind)


@lru_cache(maxsize=16)
def _read(path: Path, kind: str) -> list[Any]:
    return read_parquet(path, kind)


def _place(trial: Trial, name: str, *settings: Any) -> Path:
    folder = trial.folder / "shared" if trial.shared is None else trial.shared
    key = content_key(name, trial.seed, trial.quick, trial.large, trial.device, _code(), list(settings))[:12]
    return folder / f"{name}-{'quick-' if trial.quick else ''}{trial.seed}-{key}"


@lru_cache(maxsize=1)
def _code() -> str:
    return fingerprint(Path(__file__))


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """One process at a time makes what stands there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
