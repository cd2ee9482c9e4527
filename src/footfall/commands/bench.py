"""`footfall bench`: how good a judge is, on the field's benchmarks or on rows whose truth is known; what methods cost."""

from __future__ import annotations

import math

from footfall.benchmarks.records import source_of
from footfall.commands._bench_config import BenchConfig
from footfall.registry import load, parts


def main(config: BenchConfig) -> int:
    """Measure and report."""
    if config.threshold is not None and config.tune_on is not None:
        raise ValueError("--threshold fixes a threshold and --tune-on chooses one: pass one of them")
    if isinstance(config.threshold, float) and not math.isfinite(config.threshold):
        raise ValueError(f"--threshold {config.threshold}: a finite number is needed")
    if config.reading.skip_bad and not _can_skip(config.name):
        raise ValueError(
            "--skip-bad is for `footfall bench steps`: figures on another benchmark are of all its records"
        )
    if config.runs and config.name != "compare":
        raise ValueError(f"{config.runs[0]}: only `footfall bench compare` takes runs; data is named by --data")
    if config.name in ("labels", "search"):
        from footfall.commands._bench_study import run_study

        return run_study(config)
    from footfall.commands._bench_run import run_all, run_compare, run_one

    return {"compare": run_compare, "all": run_all}.get(config.name, run_one)(config)


def _can_skip(name: str) -> bool:
    return name in parts("benchmark") and source_of(load("benchmark", name)).skip_bad
