"""Claims of the ledger at real scale, from what `scripts/loop.py` and `scripts/kinds.py` left, for `recipes/real.json`.

    python -m scripts.real_lines --out runs/loop --data shared/data --prm vote-0 [--prm vote-1 …]

A PRM's figures are means over seeds: over the PRMs that are named (votes, calibration), or over `mc-0`, `mc-1`, … of an arm.
Votes and choices are among the first 16 samples of a problem, calibrations among all that have scores. The interval is
over problems, as the lab has it for one seed; of a first-error F1 it is bootstrapped over cases, each PRM at the threshold
that is best on other rows. So the luck of a training is in no interval: the scale names the PRMs, and what single trainings
gave (`scripts.single_trainings`). A line whose PRMs or searches are not there is left as it is, and so is one "at equal tokens"
whose labels did not cost as much. A claim's words, arms and direction are the recipe's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from footfall.benchmarks.runner import Benchmark
from footfall.lab.ledger import REAL, RealFigures
from footfall.lab.recipe import RECIPES, Claim, find
from footfall.lab.shared.cases import Said
from footfall.lab.verdicts import effect
from footfall.metrics.intervals import RESAMPLES, Floats, Interval, case_weights, from_resamples
from footfall.registry import create
from footfall.reward.calibrated import fit
from footfall.search.self_consistency import chance_of_lead
from footfall.search.votes import frequency, majority, tally
from footfall.types import Judged, Judgement, Step, Trajectory
from scripts.loop_data import pool_file
from scripts.loop_files import search_files, searches_of
from scripts.loop_measure import Pools, Scores
from scripts.single_trainings import TOLD, beside
from scripts.smol_rows import read_lines

SETS = {"gsm8k-test": "GSM8K test", "math-500": "MATH-500"}
STEPS = "processbench"
BATCH, VOTES, CONFIDENCE = 4, 16, 0.95
POLICY = "Qwen2.5-Coder-1.5B-Instruct (GGUF, Q4_K_M), temperature 0.8, at most 1,024 tokens"
"""Of lines that are made now; those of prm800k are of samples of at most 768."""
BACKBONE = "PRMs on the same backbone, which is trained by LoRA of rank 8 if it is not frozen"
FIRST_ERRORS = {
    "consensus-filter": {"PRM on Monte Carlo": "mc", "PRM on filtered": "consensus"},
    "omegaprm": {"PRM on Monte Carlo": "mc", "PRM on trees": "omega"},
    "math-shepherd": {"PRM on hard labels": "hard", "PRM on soft labels": "mc"},
}
"""Recipe -> arm -> PRMs of these names, whatever their seed."""
KINDS = {
    "implicit-prm": {"outcome labels": "outcome-ce", "cross-entropy": "implicit"},
    "pqm": {"cross-entropy": "ce", "Q ranking": "pqm"},
    "tdrm": {"step labels": "ce", "temporal differences": "tdrm"},
    "uhead": {"LoRA": "ce", "uncertainty head": "uhead"},
}
"""The same of PRMs that `scripts/kinds.py` trained."""
CHOICES: dict[str, dict[str, tuple[str, str]]] = {
    "er-prm": {"soft Monte Carlo": ("mc", "min"), "entropy-regularised, η = 1": ("er", "min")},
    "prm800k": {"ORM": ("outcome", "last"), "PRM, product": ("human", "prod")},
    "math-shepherd": {"PRM on hard labels": ("hard", "min"), "PRM on soft labels": ("mc", "min")},
}
"""Recipe -> arm -> (PRMs, how the values of steps are folded): the best of 16 samples."""
SEARCHES = {"beam-search": "beam-search", "dvts": "dvts"}
EQUAL = 0.1
"""By what share the tokens of labels may differ where a claim says that they are equal."""


class Arms(NamedTuple):
    """Figures of arms, problem by problem or resample by resample, and what a reader must know of them."""

    values: Mapping[str, Floats]
    seeds: int
    scale: str
    resampled: bool = False
    """Entry 0 is the figure, the others are of resamples."""
    tokens: Mapping[str, float] = MappingProxyType({})
    """Generated for the labels of each arm."""

    def as_dear(self, claim: Claim) -> bool:
        """Whether the labels of both arms cost as much, where the claim says so."""
        ours, theirs = (self.tokens.get(arm, 0.0) for arm in (claim.method, claim.baseline))
        return "equal tokens" not in claim.claim or abs(ours - theirs) <= EQUAL * theirs

    def difference(self, claim: Claim) -> Interval:
        """method − baseline."""
        each = self.values[claim.method] - self.values[claim.baseline]
        return from_resamples(each) if self.resampled else effect([each.tolist()])

    def mean(self, arm: str) -> float:
        """The figure of an arm."""
        return float(self.values[arm][0] if self.resampled else np.mean(self.values[arm]))


def scores_of(out: Path, prm: str, on: str) -> Scores:
    """What a PRM said of a set, step by step."""
    return {(row["split"], row["id"]): row["scores"] for row in read_lines(out / f"scores-{prm}-{on}.jsonl.gz")}


def seeds_of(out: Path, arm: str, on: str) -> list[str]:
    """The PRMs of an arm, one a seed, that have scores of a set."""
    names = (file.name.removeprefix("scores-").removesuffix(f"-{on}.jsonl.gz") for file in out.glob(f"scores-{arm}-*"))
    return sorted(name for name in names if name.removeprefix(f"{arm}-").isdigit())


def pools_of(out: Path, on: str, scores: Sequence[Scores] = ()) -> Pools:
    """The samples of a set that all of these scores are of; without scores, all."""
    both = set.intersection(*(set(each) for each in scores)) if scores else None
    return Pools(pool_file(out, on), seed=0, traces=None if both is None else {trace for _, trace in both})


def first_of(out: Path, on: str, pools: Pools) -> Pools:
    """The first 16 samples of each problem, which is what claims about votes name."""
    first = {trace.id for pool in pools.traces for trace in pool[:VOTES]}
    return Pools(pool_file(out, on), seed=0, traces=first)


def about(pools: Pools, prms: Sequence[str] = ()) -> str:
    """The policy and its samples, and which PRMs."""
    named = f" ({', '.join(prms)})" if prms else ""
    return f"{POLICY}; {pools.size} samples of each of {len(pools.traces):,} problems; {BACKBONE}{named}."


class Labels(NamedTuple):
    """What the PRMs of an arm were trained on, on the mean over seeds."""

    traces: float
    tokens: float

    @classmethod
    def of(cls, out: Path, prms: Sequence[str]) -> Labels:
        """As the facts of these PRMs have it."""
        facts = [json.loads((out / f"prm-{name}" / "facts.json").read_text("utf-8")) for name in prms]
        counts = [list(each["labels"].values()) for each in facts]
        return cls(
            *(fmean(sum(part[key] for part in each) for each in counts) for key in ("traces", "generated tokens"))
        )

    def __str__(self) -> str:
        return f"{self.traces:,.0f} traces, {self.tokens:,.0f} tokens generated for their labels"


def told(prms: Mapping[str, Sequence[str]], labels: Mapping[str, Labels]) -> str:
    """The PRMs of each arm, one a training, and what they were trained on."""
    return "; ".join(f"{arm} ({', '.join(prms[arm])}): {each}" for arm, each in labels.items())


@lru_cache
def votes(out: Path, on: str, prms: tuple[str, ...]) -> Arms:
    """Majority, best-of-N, the weighted and the frequency vote, steps folded by their minimum, among 16 samples."""
    scores = [scores_of(out, name, on) for name in prms]
    pools = first_of(out, on, pools_of(out, on, scores))
    n, folded = pools.size, [pools.folded(each, "min") for each in scores]
    values = {
        "majority vote": pools.majority(n),
        "best-of-N": np.mean([pools.chosen(each, n) for each in folded], axis=0),
        "weighted vote": np.mean([pools.voted(each, n) for each in folded], axis=0),
        "frequency vote": np.mean([_frequent(pools, each) for each in folded], axis=0),
    }
    return Arms(values, len(prms), about(pools, prms))


def _frequent(pools: Pools, folded: Sequence[Sequence[float | None]]) -> Floats:
    """Whether the answer of the highest share of votes and reward is right, on each problem."""
    found = []
    for pool, row, answers in zip(pools.traces, folded, _names(pools), strict=True):
        winner = frequency(answers, row).winner
        found.append(float(winner is not None and bool(pool[winner].correct)))
    return np.asarray(found)


def _names(pools: Pools) -> list[list[str | None]]:
    """A number for each answer, the same for equal ones: what is equal is known, and computer algebra takes minutes."""
    return [[None if same is None else str(same) for same in row] for row in pools.answers]


def calibrated(out: Path, on: str, prms: Sequence[str]) -> Arms:
    """Brier score of a problem's value, the mean over the first steps of four samples, against the success rate of the others.

    Each half of the problems is calibrated on the other half.
    """
    scores = [scores_of(out, name, on) for name in prms]
    pools = pools_of(out, on, scores)
    arms: dict[str, list[Floats]] = {"uncalibrated": [], "quantile regression": []}
    for said in scores:
        first = [[_first_step(trace) for trace in pool[:BATCH]] for pool in pools.traces]
        rates = np.asarray([fmean(right[BATCH:]) for right in pools.right])
        values = {trace.id: Judgement(trace.id, (said[on, trace.id][0],), "PRM") for row in first for trace in row}
        judge, mended = Said("PRM", values), np.zeros(len(first))
        for half in (0, 1):
            rows = [
                Judged(trace, Judgement(trace.id, (rate,), "success"))
                for row, rate in list(zip(first, rates.tolist(), strict=True))[1 - half :: 2] for trace in row
            ]  # fmt: skip
            fitted = fit(judge, rows, "quantile")
            mended[half::2] = [_mean(fitted.judge(row)) for row in first[half::2]]
        plain = np.asarray([_mean(judge.judge(row)) for row in first])
        arms["uncalibrated"].append((plain - rates) ** 2)
        arms["quantile regression"].append((mended - rates) ** 2)
    return Arms({arm: np.mean(each, axis=0) for arm, each in arms.items()}, len(prms), about(pools, prms))


def _first_step(trace: Trajectory) -> Trajectory:
    """Something with one step of this name: a pool that travelled has no texts, and its scores are known."""
    return Trajectory(trace.id, trace.problem, (Step("the first"),))


def _mean(said: Sequence[Judgement]) -> float:
    return fmean(value for each in said for value in each.values if value is not None)


def choices(out: Path, on: str, arms: Mapping[str, tuple[str, str]]) -> Arms | None:
    """Whether the best of 16 samples is right, by PRMs of each arm; None where an arm has none."""
    prms = {arm: seeds_of(out, prm, on) for arm, (prm, _) in arms.items()}
    if not all(prms.values()):
        return None
    scores = {arm: [scores_of(out, name, on) for name in names] for arm, names in prms.items()}
    pools = first_of(out, on, pools_of(out, on, [each for given in scores.values() for each in given]))
    values = {
        arm: np.mean([pools.chosen(pools.folded(each, fold), pools.size) for each in scores[arm]], axis=0)
        for arm, (_, fold) in arms.items()
    }
    labels = {arm: Labels.of(out, names) for arm, names in prms.items()}
    return Arms(values, min(map(len, scores.values())), f"{about(pools)} {told(prms, labels)}.", tokens=_tokens(labels))


def _tokens(labels: Mapping[str, Labels]) -> dict[str, float]:
    return {arm: each.tokens for arm, each in labels.items()}


def first_errors(out: Path, data: Path, arms: Mapping[str, str]) -> Arms | None:
    """Mean F1 on ProcessBench's splits by PRMs of each arm, each at its own threshold; None where an arm has none."""
    prms = {arm: seeds_of(out, prm, STEPS) for arm, prm in arms.items()}
    if not all(prms.values()):
        return None
    scores = {name: scores_of(out, name, STEPS) for names in prms.values() for name in names}
    both = set.intersection(*(set(each) for each in scores.values()))
    benchmark: Benchmark = create("benchmark", STEPS, data=data / STEPS)
    cases = [case for case in benchmark.cases if (case.split, case.trajectory.id) in both]
    weights_RN = case_weights([case.split for case in cases], 0, RESAMPLES)

    def f1(name: str) -> Floats:
        facts: dict[str, Any] = json.loads((out / f"prm-{name}" / "facts.json").read_text("utf-8"))
        said = [Judgement(c.trajectory.id, tuple(scores[name][c.split, c.trajectory.id]), name) for c in cases]
        found: Floats = benchmark.measure(cases, said, facts["validation"]["threshold"], weights_RN)["mean"]["f1"]
        return found

    values = {arm: np.mean([f1(name) for name in names], axis=0) for arm, names in prms.items()}
    labels = {arm: Labels.of(out, names) for arm, names in prms.items()}
    model = POLICY.partition(", temperature")[0]
    where = f"{model}; {BACKBONE}; {len(cases):,} cases of ProcessBench, mean of its four splits."
    return Arms(values, min(map(len, prms.values())), f"{where} {told(prms, labels)}.", True, _tokens(labels))


def searched(out: Path, on: str, method: str) -> Arms | None:
    """The largest search of a method on a set whose tokens the pool can match, and the weighted vote of as many samples,
    rounded up; on the mean over the PRMs of an arm, one a seed, that were searched with."""
    for prms in searching(out, on):
        known = {prm: searches_of(search_files(out, on)[prm]) for prm in prms}
        called = {c for given in known.values() for c in given if c.split()[0] == method and "truth" not in c}
        found = {c: {prm: given[c] for prm, given in known.items() if c in given} for c in called}
        for name, by_prm in sorted(found.items(), key=lambda each: _size(each[1]), reverse=True):
            facts = [*by_prm.values()]
            problems = len(facts[0]["right"])
            lines_ = (out / "problems" / f"{on}.jsonl").read_text("utf-8").splitlines()[:problems]
            pools = Pools(pool_file(out, on), 0, [json.loads(line)["id"] for line in lines_])
            generated = fmean(each["generated"] for each in facts)
            n = int(np.ceil(generated / pools.tokens))
            scores = [scores_of(out, prm, on) for prm in by_prm]
            wanted = {(on, trace.id) for pool in pools.traces for trace in pool}
            if n > pools.size or not all(wanted <= each.keys() for each in scores):
                continue
            values = {
                "search": np.mean([[float(mark) for mark in each["right"]] for each in facts], axis=0),
                "weighted vote of its tokens": np.mean(
                    [pools.voted(pools.folded(each, "last"), n) for each in scores], axis=0
                ),
            }
            scale = (
                f"{POLICY}; {name}, PRM {', '.join(by_prm)}: {generated:,.0f} tokens a problem, those of {n} samples."
            )
            return Arms(values, len(by_prm), scale)
    return None


def searching(out: Path, on: str) -> list[list[str]]:
    """The PRMs that have searches and scores of a set, those of one arm together."""
    arms: dict[str, list[str]] = {}
    for prm in search_files(out, on):
        stem, _, seed = prm.rpartition("-")
        if (out / f"scores-{prm}-{on}.jsonl.gz").is_file():
            arms.setdefault(stem if seed.isdigit() else prm, []).append(prm)
    return [*arms.values()]


def _size(by_prm: Mapping[str, Mapping[str, Any]]) -> tuple[int, int, float]:
    """Problems, seeds, tokens."""
    first = next(iter(by_prm.values()))
    return len(first["right"]), len(by_prm), float(first["generated"])


def adaptive(out: Path, on: str) -> Arms:
    """The majority of 16 samples against one that stops when it is sure of its leader; accuracy, and tokens as a share."""
    pools = first_of(out, on, pools_of(out, on))
    n, right, tokens = pools.size, [], []
    for pool, same, answers in zip(pools.traces, pools.answers, _names(pools), strict=True):
        used = _until_sure(same, n)
        winner = majority(answers[:used]).winner
        right.append(float(winner is not None and bool(pool[winner].correct)))
        spent = [trace.cost.generated_tokens for trace in pool]
        tokens.append(sum(spent[:used]) / sum(spent))
    values = {
        "all votes": pools.majority(n), "adaptive": np.asarray(right),
        "all votes, tokens": np.ones(len(tokens)), "adaptive, tokens": np.asarray(tokens),
    }  # fmt: skip
    return Arms(
        values, 1, f"{POLICY}; at most {n} samples of each of {len(pools.traces):,} problems, in batches of {BATCH}."
    )


def _until_sure(groups: Sequence[int | None], n: int) -> int:
    return next((k for k in range(BATCH, n, BATCH) if sure_of_leader(groups[:k])), n)


def sure_of_leader(groups: Sequence[int | None]) -> bool:
    """The stop of adaptive consistency, of samples whose answer is that of the sample of this index."""
    first, second, *_ = [*sorted(tally(groups, [1.0] * len(groups)).values(), reverse=True), 0.0, 0.0]
    return first > 0 and chance_of_lead(int(first), int(second)) >= CONFIDENCE


def lines(name: str, on: str, arms: Arms, command: str) -> list[RealFigures]:
    """A line for each claim of a recipe at real scale that names this set."""
    found = []
    for claim in find(name).recipe.claims:
        if claim.tier == "real" and claim.claim.endswith(f", on {on}.") and claim.method in arms.values:
            if not arms.as_dear(claim):
                sys.stderr.write(f"left as it is, the labels did not cost as much: {claim.claim} {arms.scale}\n")
                continue
            each = arms.difference(claim)
            found.append(RealFigures(
                name=name, claim=claim.claim, world=on, effect=round(each.value, 6),
                ci95=[round(each.low, 6), round(each.high, 6)], seeds=arms.seeds,
                means={arm: round(arms.mean(arm), 6) for arm in (claim.baseline, claim.method, *claim.beside)},
                scale=beside(arms.scale, name, on), command=command,
            ))  # fmt: skip
    return found


def add_lines(file: Path, made: Sequence[RealFigures]) -> None:
    """Put lines in place of those of the same claims; the others stay, but for what they say of single trainings."""
    kept: list[RealFigures] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    new = {(line["name"], line["claim"]) for line in made}
    every = [line for line in kept if (line["name"], line["claim"]) not in new] + [*made]
    for line in (line for line in every if line["name"] in TOLD):
        line["scale"] = beside(line["scale"], line["name"], line["world"])
    every.sort(key=lambda line: (line["name"], line["claim"]))
    file.write_text(json.dumps(every, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def measured(out: Path, data: Path | None, prms: Sequence[str]) -> list[tuple[str, str, Callable[[], Arms | None]]]:
    """Recipe, set as a claim names it, and what gives the arms; of sets whose pool is there."""
    found: list[tuple[str, str, Callable[[], Arms | None]]] = []
    for on, title in ((on, title) for on, title in SETS.items() if pool_file(out, on).is_file()):
        found.append(("self-consistency", title, partial(adaptive, out, on)))
        if prms and all((out / f"scores-{name}-{on}.jsonl.gz").is_file() for name in prms):
            found += [(name, title, partial(votes, out, on, tuple(prms))) for name in ("best-of-n", "unprm")]
            found.append(("calibration-ias", title, partial(calibrated, out, on, prms)))
        found += [(name, title, partial(choices, out, on, arms)) for name, arms in CHOICES.items()]
        found += [(name, title, partial(searched, out, on, method)) for name, method in SEARCHES.items()]
    if data is not None:
        compared = {**FIRST_ERRORS, **KINDS}
        found += [(name, "ProcessBench", partial(first_errors, out, data, arms)) for name, arms in compared.items()]
    return found


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of scripts/loop.py")
    parser.add_argument(
        "--data", type=Path, help="the folder that holds processbench; without it first errors are left out"
    )
    parser.add_argument("--prm", action="append", default=[], help="a PRM whose scores of the pools are there")
    parser.add_argument("--only", nargs="+", help="lines of these recipes alone")
    parser.add_argument("--to", type=Path, default=RECIPES / REAL)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    args = arguments(given)
    parts = [f"python -m scripts.real_lines --out runs/{args.out.name}", *(["--data shared/data"] if args.data else [])]
    only = [f"--only {' '.join(args.only)}"] if args.only else []
    command = " ".join([*parts, *(f"--prm {name}" for name in args.prm), *only])
    made = [
        line
        for name, on, arms_of in measured(args.out, args.data, args.prm)
        if name in (args.only or [name]) and (arms := arms_of()) is not None
        for line in lines(name, on, arms, command)
    ]
    add_lines(args.to, made)


if __name__ == "__main__":
    main()
