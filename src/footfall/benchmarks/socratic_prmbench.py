"""Socratic-PRMBench: PRMBench's evaluator on six reasoning patterns with twenty kinds of flaws (card: socratic-prmbench).

    a step is called correct if value > threshold, strictly; PRMScore = ½ F1 + ½ F1_neg of the pooled steps of a flaw
    a pattern is the mean of its flaws; "overall" pools the steps of all cases

Compare `acc_right` with `acc_wrong`: the gap is the judge's leaning to "correct" or to "wrong". There are no unmodified
twins. Steps are taken as they stand: a leading "1." is the head of a list there, not the number of the step.
"""

from __future__ import annotations

from pathlib import Path

from footfall.benchmarks.prmbench import Categories, Reader, flaw_benchmark
from footfall.benchmarks.records import benchmark_files
from footfall.benchmarks.runner import Benchmark
from footfall.registry import register

PATTERNS = Categories(
    {
        "Transformation": ("repeat_inconsistency", "repeat_counterfactual"),
        "Decomposition": ("decomposition_unsoundness", "decomposition_redundancy", "decomposition_incompleteness"),
        "Regather": ("regather_imprecision", "regather_redundancy", "regather_incompleteness"),
        "Deduction": (
            "premise_unsoundness", "premise_redundancy", "premise_incompleteness", "conclusion_invalidity",
            "conclusion_inconsistency", "conclusion_counterfactual",
        ),
        "Verification": ("detection_error", "correction_error"),
        "Integration": (
            "integration_inconsistency", "integration_incompleteness", "integration_redundancy",
            "integration_unsoundness",
        ),
    }
)  # fmt: skip

PUBLISHED = {
    "Skywork-PRM-7B": 43.6, "RLHFlow-Mistral-8B": 48.8, "RLHFlow-Deepseek-8B": 51.5, "ReasonEval-7B": 61.9,
    "Math-Shepherd-7B": 64.4, "Qwen2.5-Math-PRM-7B": 68.0, "GPT-4o (critic)": 70.8, "DeepSeek-R1 (critic)": 73.0,
    "Gemini-2.5-Pro (critic)": 73.5, "QwQ-32B (critic)": 73.8, "o3-mini (critic)": 75.7,
}  # fmt: skip
"""PRMScore over all cases in percent, as published."""


@register("benchmark", "socratic-prmbench")
def socratic_prmbench(data: str | Path) -> Benchmark:
    """Socratic-PRMBench: PRMScore under six reasoning patterns; `data` is the folder of its 20 files, or one of them."""
    files = benchmark_files(data, [f"test_{flaw}" for flaw in PATTERNS.splits], "Socratic-PRMBench")
    reader = Reader("Socratic-PRMBench", {flaw: flaw for flaw in PATTERNS.splits})
    published = {model: {"overall": score} for model, score in PUBLISHED.items()}
    return flaw_benchmark("socratic-prmbench", files.values(), reader, PATTERNS, published)
