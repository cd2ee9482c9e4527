"""The folder of one training run: what is stored there, and how a run is opened, resumed and closed.

    train.json    the plan: data, backbone, settings
    checkpoints/  while the run goes on
    model/        the finished model with its canary
    result.json   how training went

Kept apart from fitting because it alone decides what a second call with the same folder does: another plan is refused,
a finished run is read back, an unfinished one goes on. Plan, model and result appear whole or not at all, so that a kill
at any moment leaves a folder that one can go on with.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import footfall
from footfall.reward.canary import Canary, Place, make_canary
from footfall.reward.config import CONFIG_FILE
from footfall.reward.prm import PRM
from footfall.train.config import TrainConfig
from footfall.train.data import Example, data_key
from footfall.train.objectives import Objective
from footfall.types import Judged

CANARY_FROM = 64
"""Examples among which the canary's pair is looked for."""
PLAN, RESULT, MODEL, CHECKPOINTS = "train.json", "result.json", "model", "checkpoints"


def make_plan(
    rows: Sequence[Judged],
    held_out: Sequence[Judged],
    backbone: str | Path | PRM,
    objective: Objective,
    config: TrainConfig,
) -> dict[str, Any]:
    """All that a run's outcome depends on, as JSON has it: runs with equal plans are the same run."""
    name = backbone.prm_config.backbone if isinstance(backbone, PRM) else str(backbone)
    plan = {"version": footfall.__version__, "backbone": name, "data": data_key(rows, objective.beside)}
    plan |= {"held_out": data_key(held_out, objective.beside)} if held_out else {}
    plan["config"] = json.loads(json.dumps(config.to_dict()))
    return plan


def open_run(out: Path, plan: Mapping[str, Any], resume: bool) -> dict[str, Any] | None:
    """The stored result of a finished run with this plan, or None with `out` ready for work."""
    if out.exists() and not resume:
        for name in (MODEL, CHECKPOINTS, f"{MODEL}.partial"):
            shutil.rmtree(out / name, ignore_errors=True)
        for name in (PLAN, RESULT):
            (out / name).unlink(missing_ok=True)
    stored = out / PLAN
    if stored.is_file():
        known = json.loads(stored.read_text(encoding="utf-8"))
        if known != plan:
            different = sorted(k for k in {*known, *plan} if known.get(k) != plan.get(k))
            raise ValueError(
                f"{out} holds a run with other {', '.join(different)}; choose another folder, or resume=False to start over"
            )
        if (out / RESULT).is_file() and (out / MODEL / CONFIG_FILE).is_file():
            finished: dict[str, Any] = json.loads((out / RESULT).read_text(encoding="utf-8"))
            return finished
    out.mkdir(parents=True, exist_ok=True)
    _write_json(stored, plan)
    return None


def close_run(out: Path, model: PRM, canary: Canary, config: TrainConfig, result: Mapping[str, Any]) -> None:
    """The finished model appears at once; checkpoints are needed no more."""
    partial = out / f"{MODEL}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(out / MODEL, ignore_errors=True)
    model.save(partial, canary=canary, merge=config.merge_lora)
    partial.replace(out / MODEL)
    _write_json(out / RESULT, result)
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)


def training_facts(rows: Sequence[Judged], objective: Objective, key: str, config: TrainConfig) -> dict[str, Any]:
    """What the model's own configuration says of its training; `key` names the rows."""
    return {
        "labels_by": sorted({row.judgement.judge for row in rows if row.judgement is not None}),
        "objective": objective.name,
        "data": key,
        "seed": config.seed,
        "separators": sorted({row.trajectory.separator for row in rows}),
    }


def find_canary(model: PRM, examples: Sequence[Example], objective: Objective) -> Canary:
    """The good step valued highest and the bad step valued lowest among the first examples, with their traces.

    Kept as text without the sampled ids, so that the tokenizer is checked too. A model that puts them the wrong way
    round is stored without the pair: what it says is then only compared with itself.
    """
    examples = examples[:CANARY_FROM]
    scores = model.score([e.reading for e in examples])
    places = [
        (value, Place(n, k), objective.is_good(e.labels[k]))
        for n, e in enumerate(examples) for k, value in enumerate(scores[n]) if e.mask[k]
    ]  # fmt: skip
    good = max((p for p in places if p[2]), default=None)
    bad = min((p for p in places if not p[2]), default=None)
    if good is None or bad is None:
        return make_canary(model, [examples[places[0][1].trace].trajectory])
    traces = [examples[good[1].trace].trajectory, examples[bad[1].trace].trajectory]
    canary = make_canary(model, traces)
    pair = Place(0, good[1].step), Place(1, bad[1].step)
    in_order = canary.value(pair[0]) > canary.value(pair[1])
    return replace(canary, good=pair[0], bad=pair[1]) if in_order else canary
