"""What TRL's PRM trainer and Footfall's make of the same rows: step AUC and first-error F1 against the known truth.

    PYTHONPATH=trl-1.13 python -m benchmarks.training_quality --seeds 3

The embedded model writes traces of arithmetic problems. Both sides begin from one folder of token-classification weights, head
included, with the same learning rate, batch size and number of updates; each shuffles in its own way. What they leave is read
by the reader of the family `trl`. Labels are the true class of each step (exact), or the share of 8 rollouts that end right:

    soft     as they are (Footfall alone can)      above 0   1 where any rollout ends right, as Math-Shepherd's hard labels
    cut      what TRL makes of them by itself: `int`, so 1 only where all rollouts end right
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from transformers import AutoModelForTokenClassification

from benchmarks.trl_prm import trl_prm, trl_trainer
from footfall.lab.shared.cases import first_error_f1
from footfall.loading import load_tokenizer, quiet
from footfall.metrics.intervals import mean_of_seeds
from footfall.metrics.steps import auc
from footfall.policy.embedded import EMBEDDED
from footfall.reward.checkpoint import checkpoint
from footfall.reward.publish import begin_as, publish
from footfall.studies.kinds import KindPlan, KindSite
from footfall.train.config import TrainConfig
from footfall.train.prm import train_prm
from footfall.train.trainer import training_arguments
from footfall.types import Judged, Trajectory
from footfall.worlds import TruthJudge

FAMILY = "trl"


def above_zero(label: float) -> float:
    return float(label > 0)


def cut(label: float) -> float:
    return float(int(label))


ARMS: dict[str, tuple[str, str, Callable[[float], float]]] = {
    "trl, exact": ("trl", "exact", float),
    "footfall, exact": ("footfall", "exact", float),
    "trl, rollouts as it cuts them": ("trl", "rollouts", cut),
    "trl, rollouts above 0": ("trl", "rollouts", above_zero),
    "footfall, rollouts above 0": ("footfall", "rollouts", above_zero),
    "footfall, rollouts soft": ("footfall", "rollouts", float),
}
"""Who trains, on which labels, and what is made of a label."""


class Contest(KindSite):
    """One seed: traces, labels and test solutions as `footfall bench kinds` has them."""

    def rows(self, labels: str, made: Callable[[float], float]) -> list[Judged]:
        said = self.rolled_out if labels == "rollouts" else TruthJudge().judge(self.traces)
        values = [tuple(None if v is None else made(v) for v in judgement.values) for judgement in said]
        told = [replace(judgement, values=each) for judgement, each in zip(said, values, strict=True)]
        return list(map(Judged, self.traces, told))

    def figures(self, model: Path, device: str) -> dict[str, float]:
        """Of a trained folder, on solutions of other problems."""
        said = checkpoint(model, device=device).judge(self.test)
        truth = TruthJudge().judge(self.test)
        both = [pair for s, t in zip(said, truth, strict=True) for pair in zip(s.values, t.values, strict=True)]
        known = [(v, y) for v, y in both if v is not None and y is not None]
        return {"auc": float(auc([v for v, _ in known], [y for _, y in known])), "f1": first_error_f1(self.test, said)}


def by_trl(rows: Sequence[Judged], start: Path, config: TrainConfig, folder: Path) -> Path:
    """TRL's tokenisation, batches and loss; the settings are the config's."""
    tokenizer = load_tokenizer(str(start))
    cuda = config.device == "cuda"
    updates = -(-len(rows) // config.batch_size) * config.epochs
    args = training_arguments(config, float(config.lr or 0), folder / "run", updates, cuda)
    with quiet():
        model = AutoModelForTokenClassification.from_pretrained(start)
        trainer = trl_trainer(model, [stepwise(row) for row in rows], tokenizer, args)
        trainer.train()
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
    return folder / "model"


def stepwise(row: Judged) -> dict[str, Any]:
    """A row in TRL's stepwise format."""
    assert row.judgement is not None
    trace: Trajectory = row.trajectory
    labels = [float(value) for value in row.judgement.values if value is not None]
    assert len(labels) == len(trace.steps), "TRL has no word for a step without a label"
    return {
        "prompt": trace.problem.text, "completions": [step.written for step in trace.steps],
        "labels": labels,
    }  # fmt: skip


def by_footfall(rows: Sequence[Judged], start: Path, config: TrainConfig, folder: Path) -> Path:
    return train_prm(rows, str(start), replace(config, family=FAMILY), folder).folder


def quality(seeds: int, device: str, traces: int = 240, problems: int = 50, first: int = 0) -> dict[str, Any]:
    """Figures of every arm under each seed from `first` on, their means and differences, and seconds of training."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ARMS}
    for seed in range(first, first + seeds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            site = Contest(KindPlan(sizes=(str(traces),), pool=problems), folder, "arithmetic", seed)
            start = folder / "start"
            publish(begin_as(EMBEDDED, FAMILY, torch.float32, seed), start)
            config = TrainConfig(
                lr=3e-4, epochs=2, batch_size=8, eval_share=0, seed=seed, device=device, packing=True, compile=False
            )
            for number, (arm, (side, labels, made)) in enumerate(ARMS.items()):
                rows = site.rows(labels, made)
                began = time.perf_counter()
                model = (by_trl if side == "trl" else by_footfall)(rows, start, config, folder / str(number))
                seconds = time.perf_counter() - began
                found[arm].append({**site.figures(model, device), "seconds": seconds})
                sys.stderr.write(f"seed {seed}, {arm}: {found[arm][-1]}\n")
    mean = {arm: {key: fmean(each[key] for each in runs) for key in runs[0]} for arm, runs in found.items()}
    facts = {"traces": traces, "test_problems": problems, "device": device, "first_seed": first}
    return {**facts, "mean": mean, "over_trl": over_trl(found), "seeds": found}


def over_trl(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, dict[str, list[float]]]:
    """Footfall less TRL, seed by seed: the mean difference and its 95% interval. Labels that TRL cannot be given as they are
    stand against all that it was given of them."""
    told: dict[str, dict[str, list[float]]] = {}
    for name, runs in found.items():
        side, _, labels = name.partition(", ")
        if side == "trl":
            continue
        equal = f"trl, {labels}"
        made_hard = [arm for arm in found if ARMS[arm][:2] == ("trl", ARMS[name][1])]
        for other in [equal] if equal in found else made_hard:
            pairs = list(zip(runs, found[other], strict=True))
            what = labels if other == equal else f"{labels}, over {other}"
            told[what] = {key: list(mean_of_seeds([a[key] - b[key] for a, b in pairs])) for key in ("auc", "f1")}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--traces", type=int, default=240, help="trained on, 4 of a problem")
    parser.add_argument("--problems", type=int, default=50, help="test problems, 8 solutions each")
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    trl_prm()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = quality(arguments.seeds, device, arguments.traces, arguments.problems, arguments.first_seed)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
