"""Active learning of a PRM: only traces on which an ensemble of heads is unsure are labelled and trained on (card: actprm).

With mean μ_i and spread sd_i of the heads at step i, and E the first step with μ_i < 0.5 (the last step if none has):

    aleatoric   some i ≤ E has max(μ_i, 1 − μ_i) < confidence
    epistemic   some i ≤ E has sd_i > spread
    labelled    iff either; steps after E are ignored

The pool is gone through once, in rounds: forward → select → label by a judge → train on what was labelled. A loop that was
killed goes on at its round. From a trained ensemble, one round over a large pool is the one-shot mode. `Doubted` labels without
training, as a judge; `FirstError` brings any judge's labels into the same form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from footfall.judging import Traits, traits
from footfall.registry import Declared, register
from footfall.store import Run, RunError
from footfall.train.config import TrainConfig
from footfall.types import (
    AFTER_ERROR,
    Cost,
    Judge,
    Judged,
    Judgement,
    Problem,
    Reason,
    Trajectory,
    Unjudged,
    content_key,
    failures_of,
)

if TYPE_CHECKING:
    from footfall.reward.judge import PRMJudge


class Flags(NamedTuple):
    """Why a trace is worth a label."""

    aleatoric: bool
    epistemic: bool


class Doubt(NamedTuple):
    """The least confidence max(μ, 1 − μ) and the largest spread of the steps up to the first predicted error."""

    confidence: float
    spread: float


def doubt(means: Sequence[float], spreads: Sequence[float], threshold: float = 0.5) -> Doubt:
    """How sure the heads are of a trace, up to the first step whose mean is below the threshold."""
    if len(means) != len(spreads) or not means:
        raise ValueError(f"{len(means)} means and {len(spreads)} spreads: one of each a step is needed, and a step")
    error = next((i for i, mean in enumerate(means) if mean < threshold), len(means) - 1)
    return Doubt(min(max(mean, 1 - mean) for mean in means[: error + 1]), max(spreads[: error + 1]))


def flags(means: Sequence[float], spreads: Sequence[float], confidence: float = 0.95, spread: float = 0.005) -> Flags:
    """The two flags of a trace; `confidence` 0.5 with an infinite `spread` keeps none, a negative `spread` keeps all."""
    found = doubt(means, spreads)
    return Flags(found.confidence < confidence, found.spread > spread)


class Selector(Protocol):
    """Says which traces are labelled. `said` has a value and an aspect `spread` a step; `None`: there is no model yet."""

    def keep(self, traces: Sequence[Trajectory], said: Sequence[Judgement] | None) -> list[bool]:
        """Which traces to label; `said` is `None` in the first round, before there is a model to ask."""
        ...


@dataclass(frozen=True)
class Uncertain:
    """The paper's rule: labelled iff a flag is set. A trace that could not be read to its end is labelled too."""

    confidence: float = 0.95
    spread: float = 0.005

    def keep(self, traces: Sequence[Trajectory], said: Sequence[Judgement] | None) -> list[bool]:
        """Those with a confidence below, or a spread above, its thresholds."""
        if said is None:
            return [True] * len(traces)
        return [found.confidence < self.confidence or found.spread > self.spread for found in map(_doubt, said)]


@dataclass(frozen=True)
class MostUncertain:
    """The same two flags, with both thresholds at one quantile of the round such that `share` of its traces is kept."""

    share: float = 0.5

    def keep(self, traces: Sequence[Trajectory], said: Sequence[Judgement] | None) -> list[bool]:
        """The share of the traces with the lowest confidence or the largest spread, by rank."""
        if said is None:
            return [True] * len(traces)
        doubts = [_doubt(judgement) for judgement in said]
        ranks = zip(_ranks([d.confidence for d in doubts]), _ranks([-d.spread for d in doubts]), strict=True)
        order = sorted((min(pair), max(pair), i) for i, pair in enumerate(ranks))
        kept = {i for _, _, i in order[: round(self.share * len(order))]}
        return [i in kept for i in range(len(order))]


@dataclass(frozen=True)
class AtRandom:
    """What selection is compared with: a share of each round, drawn by content; 1 is training on all data."""

    share: float = 1.0
    seed: int = 0

    def keep(self, traces: Sequence[Trajectory], said: Sequence[Judgement] | None) -> list[bool]:
        """A share of the traces, drawn by seed and content."""
        if said is None:
            return [True] * len(traces)
        order = sorted(range(len(traces)), key=lambda i: content_key("active", self.seed, traces[i].key, i))
        kept = set(order[: round(self.share * len(order))])
        return [i in kept for i in range(len(traces))]


def _ranks(values: Sequence[float]) -> list[int]:
    """The place of each value when they are sorted, lowest first."""
    ranks = [0] * len(values)
    for place, i in enumerate(sorted(range(len(values)), key=lambda i: (values[i], i))):
        ranks[i] = place
    return ranks


def _doubt(judgement: Judgement) -> Doubt:
    spreads = judgement.aspects.get("spread")
    if spreads is None:
        raise ValueError(f"judge {judgement.judge!r} tells no spread: train it with several heads (TrainConfig.heads)")
    means = [value for value in judgement.values if value is not None]
    if not means or len(means) < len(judgement.values):
        return Doubt(0.0, math.inf)
    return doubt(means, [spread or 0.0 for spread in spreads])


def until_first_error(judgement: Judgement, threshold: float = 0.5) -> Judgement:
    """Labels of a judge that names the first wrong step: 1 before it, 0 at it, none after it; all 1 if there is none.

    A step that was not judged ends the labels too: nobody can say whether the first error is there.
    """
    values: list[float | None] = []
    failures: list[Unjudged | None] = []
    ended: Unjudged | None = None
    for k, value in enumerate(judgement.values):
        if ended is None and value is None:
            ended = judgement.failure(k) or Unjudged(Reason.OTHER, "the judge said nothing")
        values.append(None if ended is not None or value is None else float(value >= threshold))
        failures.append(ended)
        if ended is None and value is not None and value < threshold:
            ended = AFTER_ERROR
    reasons = failures_of(failures)
    return replace(judgement, values=tuple(values), aspects={}, rationales=(), failures=reasons)


def without_labels(said: Judgement, judge: str, why: Unjudged) -> Judgement:
    """A trace that `judge` does not label: each step has the reason that it was not read for, or `why`."""
    n = len(said.values)
    reasons = tuple(said.failure(k) or why for k in range(n))
    return Judgement(said.trajectory_id, (None,) * n, judge, failures=reasons, cost=said.cost)


@dataclass(frozen=True)
class Doubted:
    """A judge's labels, up to the first error, of the traces that a PRM of several heads is unsure of; others have none."""

    prm: Judge
    judged_by: Judge
    confidence: float = 0.95
    spread: float = 0.005

    @property
    def name(self) -> str:
        """Who labels, by whose doubt, and the thresholds."""
        rule = f"confidence={self.confidence:g},spread={self.spread:g}"
        return f"actprm({self.judged_by.name};{self.prm.name},{rule})"

    @property
    def traits(self) -> Traits:
        """It asks both, and reads what the PRM reads."""
        return Traits((self.judged_by, self.prm), separators=traits(self.prm).separators)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Labels of the other judge for traces that the PRM is unsure of; none for the rest, with that reason."""
        said = self.prm.judge(trajectories)
        unsure = Uncertain(self.confidence, self.spread).keep(trajectories, said)
        asked = iter(self.judged_by.judge([t for t, kept in zip(trajectories, unsure, strict=True) if kept]))
        why = Unjudged(Reason.NOT_ASKED, "the PRM is sure of this trace, so it is not worth a label")
        return [
            self._labelled(next(asked), read.cost) if kept else without_labels(read, self.name, why)
            for read, kept in zip(said, unsure, strict=True)
        ]

    def _labelled(self, said: Judgement, read: Cost) -> Judgement:
        return replace(until_first_error(said), judge=self.name, cost=said.cost + read)


@dataclass(frozen=True)
class FirstError:
    """What a judge says, as people labelled PRM800K: 1 before the first step below `threshold`, 0 at it, none after it."""

    judged_by: Judge
    threshold: float = 0.5

    @property
    def name(self) -> str:
        """Who labels, and the threshold of an error."""
        return f"prm800k({self.judged_by.name},threshold={self.threshold:g})"

    @property
    def traits(self) -> Traits:
        """It asks one judge, and reads what that one reads."""
        return Traits((self.judged_by,), separators=traits(self.judged_by).separators)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """That judge's labels up to the first step below the threshold."""
        said = self.judged_by.judge(trajectories)
        return [replace(until_first_error(each, self.threshold), judge=self.name) for each in said]


class Round(NamedTuple):
    """What became of one part of the pool."""

    seen: int
    labelled: int
    model: Path | None
    """The model after it; None: nothing could be learned yet, and the rows wait for the next round."""


@dataclass(frozen=True)
class ActiveResult:
    """The last model, and what it took to get there."""

    folder: Path
    rounds: tuple[Round, ...]
    rows: tuple[Judged, ...]
    """All that was labelled, as it was trained on."""
    cost: Cost = field(default_factory=Cost)
    """Of reading the pool, labelling and training."""

    def judge(self, device: str | None = None) -> PRMJudge:
        """The last model, ready to score."""
        from footfall.reward.judge import step_head

        return step_head(self.folder, device=device)

    @property
    def seen(self) -> int:
        """Traces that the model was asked about."""
        return sum(each.seen for each in self.rounds)

    @property
    def labelled(self) -> int:
        """Traces that were labelled."""
        return len(self.rows)


def train_actively(
    pool: Sequence[Trajectory],
    backbone: str | Path,
    judge: Judge,
    config: TrainConfig,
    out: str | Path,
    *,
    select: Selector = Uncertain(),
    rounds: int = 6,
    restart: bool = False,
    against: Sequence[Problem] = (),
    chunk: int = 64,
) -> ActiveResult:
    """Go through the pool once, label what `select` keeps and train on it; `config.heads` makes the ensemble.

    Each round goes on from the weights of the last one with its own rows, as the paper does; with `restart` it trains
    anew on all rows so far. A `backbone` that is a trained step-head folder reads the first round too; a bare decoder
    cannot, so all of the first round is labelled. Nothing is held out of the few rows of a round (`eval_share` is taken
    as 0). The same call goes on with a loop that was killed.
    """
    from footfall.reward.config import CONFIG_FILE
    from footfall.train.prm import train_prm

    trained = Path(backbone) if (Path(backbone) / CONFIG_FILE).is_file() else None
    _refuse_what_cannot_run(len(pool), rounds, config, trained)
    config = replace(config, eval_share=0.0)
    identity = {
        "pool": content_key([t.key for t in pool]), "backbone": str(backbone), "judge": judge.name,
        "select": repr(select), "rounds": rounds, "restart": restart, "config": config.to_dict(),
    }  # fmt: skip
    out = Path(out)
    done: list[Round] = []
    rows: list[Judged] = []
    waiting: list[Judged] = []
    trainings: list[Cost] = []
    with Run(out, "train actively", identity) as run:
        for number, part in enumerate(_parts(pool, rounds)):
            labelled = _labelled(run, f"round-{number:02d}", part, trained, judge, select, chunk, config)
            rows += labelled
            waiting += labelled
            made = None
            if _can_learn(rows if restart else waiting):
                fresh, start = (rows, backbone) if restart else (waiting, trained or backbone)
                result = train_prm(fresh, start, config, out / f"model-{number:02d}", against=against)
                made = trained = result.folder
                trainings.append(result.cost)
                waiting = []
            done.append(Round(len(part), len(labelled), made))
            run.log("round", number=number, seen=len(part), labelled=len(labelled))
        if trained is None:
            raise RunError(
                f"nothing could be learned from {len(rows)} labelled traces: they have one label value or none"
            )
        cost = Cost.total([run.cost, *trainings])
        run.finish({"folder": str(trained), "seen": len(pool), "labelled": len(rows), "cost": cost.to_dict()})
    return ActiveResult(trained, tuple(done), tuple(rows), cost)


def train_once_more(
    pool: Sequence[Trajectory], folder: str | Path, judge: Judge, config: TrainConfig, out: str | Path, *,
    select: Selector = Uncertain(), against: Sequence[Problem] = (),
) -> ActiveResult:  # fmt: skip
    """One-shot mode: a trained ensemble filters the whole pool, the rest is labelled, and training goes on with it."""
    return train_actively(pool, folder, judge, config, out, select=select, rounds=1, against=against)


def _refuse_what_cannot_run(pool: int, rounds: int, config: TrainConfig, trained: Path | None) -> None:
    if not 1 <= rounds <= pool:
        raise ValueError(f"{rounds} rounds for a pool of {pool} traces: each round needs at least one")
    if config.patience is not None:
        raise ValueError("patience needs held-out rows, and a round holds none out; leave it unset")
    if trained is None and config.heads < 2:
        raise ValueError(f"config.heads is {config.heads}: heads that can differ, at least 2, are needed")


def _labelled(
    run: Run, name: str, part: Sequence[Trajectory], trained: Path | None, judge: Judge, select: Selector, chunk: int,
    config: TrainConfig,
) -> list[Judged]:  # fmt: skip
    """The traces of one round that are kept, with the judge's labels. What was read or labelled before is not redone."""
    said: list[Judgement] | None = None
    if trained is not None:
        said = read_by(trained, run, f"{name}-read", part, config.device, chunk)
    kept = [trace for trace, keep in zip(part, select.keep(part, said), strict=True) if keep]
    labels = run.map(
        f"{name}-labelled", kept, judge.judge, key=_key, kind="judgement", chunk=chunk, made_by=judge.name,
        forgetful=(judge,),
    )  # fmt: skip
    return [Judged(t, until_first_error(j.check(t))) for t, j in zip(kept, labels, strict=True)]


def read_by(
    folder: Path, run: Run, name: str, traces: Sequence[Trajectory], device: str | None, chunk: int
) -> list[Judgement]:
    """What the model in `folder` says of the traces, as far as their context holds them; kept in the run under `name`."""
    from footfall.reward.judge import step_head

    reader = step_head(folder, device=device, too_long="partial")
    return run.map(name, traces, reader.judge, key=_key, kind="judgement", chunk=chunk, made_by=reader.name)


def _key(trajectory: Trajectory) -> str:
    return json.dumps([trajectory.id, trajectory.key])


def _parts(pool: Sequence[Trajectory], rounds: int) -> Iterator[Sequence[Trajectory]]:
    """The pool in `rounds` parts of nearly equal size, in order."""
    for number in range(rounds):
        yield pool[number * len(pool) // rounds : (number + 1) * len(pool) // rounds]


def _can_learn(rows: Sequence[Judged]) -> bool:
    """Whether there are labels of both kinds."""
    return len({v for _, j in rows if j is not None for v in j.values if v is not None}) > 1


@register(
    "labeller",
    "actprm",
    Declared(
        judges=("prm", "judge"),
        missing="--set prm=FOLDER, a PRM of several heads (docs/training.md) that says which traces it is unsure of, and --set "
        "judge=NAME, who labels those, as in --set judge=critic with --policy",
        unmeasured="its labels are those of another judge, of the traces that a PRM of yours doubts",
    ),
)
def actprm(prm: Judge, judge: Judge, confidence: float = 0.95, spread: float = 0.005) -> Doubted:
    """A judge's labels of the traces that a PRM of several heads is unsure of (ActPRM)."""
    return Doubted(prm, judge, confidence, spread)


@register(
    "labeller",
    "prm800k",
    Declared(
        judges=("judge",),
        missing="--set judge=NAME or FOLDER, whose labels it keeps up to the first error, in the place of people's (data that "
        "people labelled is read by --format prm800k, and `footfall train` takes it as it is)",
        unmeasured="its labels are those of another judge, up to the first error",
    ),
)
def prm800k(judge: Judge, threshold: float = 0.5) -> FirstError:
    """A judge's labels up to the first error, as people labelled (PRM800K)."""
    return FirstError(judge, threshold)
