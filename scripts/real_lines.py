"""Claims of the ledger at real scale, from what `scripts/loop.py` left: writes `src/footfall/recipes/real.json`.

    python -m scripts.real_lines --out runs/loop --prm clean-0 [--prm clean-1 …]

Votes are taken among the sixteen samples of each problem; a PRM's figures are means over the PRMs that are named, which are to
differ in their seed alone. The interval is over problems, as the lab has it for one seed. A claim's words, arms and direction
are the recipe's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from footfall.lab.ledger import REAL, RealFigures
from footfall.lab.recipe import RECIPES, find
from footfall.lab.verdicts import effect
from footfall.metrics.intervals import Floats
from footfall.search.self_consistency import chance_of_lead
from footfall.search.votes import group, majority, tally
from scripts.loop_measure import Pools
from scripts.smol_rows import read_lines

SETS = {"gsm8k-test": "GSM8K test", "math-500": "MATH-500"}
BATCH, CONFIDENCE = 4, 0.95
POLICY = "Qwen2.5-Coder-1.5B-Instruct (GGUF, Q4_K_M), temperature 0.8, at most 768 tokens"


class Arms(NamedTuple):
    """Figures of arms, problem by problem, and what a reader must know of them."""

    values: Mapping[str, Floats]
    seeds: int
    scale: str


def votes(out: Path, on: str, prms: Sequence[str]) -> Arms:
    """Majority, best-of-N and weighted vote, steps folded by their minimum, among all samples of a pool."""
    pools = Pools(out / f"sample-{on}.parquet", seed=0)
    n = pools.size
    best, weighted = [], []
    for name in prms:
        rows = read_lines(out / f"scores-{name}-{on}.jsonl.gz")
        folded = pools.folded({(row["split"], row["id"]): row["scores"] for row in rows}, "min")
        best.append(pools.chosen(folded, n))
        weighted.append(pools.voted(folded, n))
    values = {
        "majority vote": pools.majority(n),
        "best-of-N": np.mean(best, axis=0),
        "weighted vote": np.mean(weighted, axis=0),
    }
    scale = (
        f"{POLICY}; {n} samples of each of {len(pools.traces):,} problems; PRMs on the same backbone, LoRA of rank 8."
    )
    return Arms(values, len(prms), scale)


def adaptive(out: Path, on: str) -> Arms:
    """The majority of all samples against one that stops when it is sure of its leader; accuracy, and tokens as a share."""
    pools = Pools(out / f"sample-{on}.parquet", seed=0)
    n, right, tokens = pools.size, [], []
    for pool in pools.traces:
        used = next(
            (k for k in range(BATCH, n, BATCH) if sure_of_leader([t.answer for t in pool[:k]], pool[0].problem.domain)),
            n,
        )
        winner = majority([t.answer for t in pool[:used]], pool[0].problem.domain).winner
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


def sure_of_leader(answers: Sequence[str | None], domain: str) -> bool:
    """The stop of adaptive consistency."""
    groups = group(answers, domain)
    first, second, *_ = [*sorted(tally(groups, [1.0] * len(groups)).values(), reverse=True), 0.0, 0.0]
    return first > 0 and chance_of_lead(int(first), int(second)) >= CONFIDENCE


def lines(name: str, on: str, arms: Arms, command: str) -> list[RealFigures]:
    """A line for each claim of a recipe at real scale that names this set."""
    found = []
    for claim in find(name).recipe.claims:
        if claim.tier == "real" and SETS[on] in claim.claim:
            found_effect = effect([(arms.values[claim.method] - arms.values[claim.baseline]).tolist()])
            shown = (claim.baseline, claim.method, *claim.beside)
            found.append(RealFigures(
                name=name, claim=claim.claim, world=SETS[on], effect=round(found_effect.value, 6),
                ci95=[round(found_effect.low, 6), round(found_effect.high, 6)], seeds=arms.seeds,
                means={arm: round(float(np.mean(arms.values[arm])), 6) for arm in shown},
                scale=arms.scale, command=command,
            ))  # fmt: skip
    return found


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of scripts/loop.py")
    parser.add_argument("--prm", action="append", default=[], help="a PRM whose scores of the pools are there")
    parser.add_argument("--to", type=Path, default=RECIPES / REAL)
    args = parser.parse_args(given)
    command = " ".join(["python -m scripts.real_lines --out runs/loop", *(f"--prm {name}" for name in args.prm)])
    measured: dict[str, Callable[[str], Arms]] = {"self-consistency": lambda on: adaptive(args.out, on)}
    if args.prm:
        measured["best-of-n"] = lambda on: votes(args.out, on, args.prm)
    kept = json.loads(args.to.read_text(encoding="utf-8")) if args.to.is_file() else []
    made = [line for name, arms in measured.items() for on in SETS for line in lines(name, on, arms(on), command)]
    new = {(line["name"], line["claim"]) for line in made}
    every = [line for line in kept if (line["name"], line["claim"]) not in new] + made
    every.sort(key=lambda line: (line["name"], line["claim"]))
    args.to.write_text(json.dumps(every, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
