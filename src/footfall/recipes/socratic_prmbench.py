"""Socratic-PRMBench: Benchmarking Process Reward Models with Systematic Reasoning Patterns (Li et al., arXiv 2505.23474).

PRMBench's evaluator on flaws of six reasoning patterns; correct is the positive class, called if value > 0.5:

    PRMScore = ½ F1 + ½ F1_neg of the pooled steps of a flaw;  a pattern is the mean of its flaws

What differs: rewrites are made by rule, so the wrong steps are known; a step of this world has one equation, so a pattern is
what the equation does. Transformation states the start wrongly; Decomposition does a part twice, not at all or out of
turn; Regather takes a wrong number from the problem; Deduction goes on from another number, or gets a wrong result;
Verification accuses a right step, or mends a wrong one wrongly; Integration answers too early, or something else. Steps
built on a flaw are not counted, and each flaw comes with the unmodified solutions, so that all have the same right steps.
"""

from __future__ import annotations

from footfall.benchmarks.prmbench import PATTERNS, Categories
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import figures, judged_once
from footfall.lab.shared.flaws import flawed_cases, right_traces
from footfall.lab.shared.prms import judge, pool, spent

RECIPE = Recipe(
    name="socratic-prmbench",
    paper="Socratic-PRMBench: Benchmarking Process Reward Models with Systematic Reasoning Patterns",
    arxiv="2505.23474",
    year=2025,
    stage="eval",
    world="arithmetic",
    scale="A PRM of 1.1M parameters trained on the step truth of 600 traces; a seed rewrites one right solution of each of 50 "
    "held-out problems in eleven ways.",
    claims=(
        Claim(
            "Open PRMs lean to calling steps correct: they see right steps better than wrong ones.",
            metric="recall over all patterns",
            direction="higher", baseline="wrong steps", method="right steps",
            stand_in="The paper's flaws are written by a language model and judged by published PRMs; here by rule, "
            "and by a lab-scale PRM.",
        ),
        Claim(
            "Decomposition is the pattern whose flaws are seen worst.",
            metric="PRMScore of a pattern",
            direction="lower", baseline="the worst other pattern", method="Decomposition",
            beside=("Transformation", "Regather", "Deduction", "Verification", "Integration"),
        ),
    ),
)  # fmt: skip
SPLITS = {
    "repeat_inconsistency": "wrong start", "decomposition_redundancy": "repeated step",
    "decomposition_incompleteness": "left out", "decomposition_unsoundness": "wrong order",
    "regather_imprecision": "wrong operand", "conclusion_invalidity": "slightly wrong result",
    "premise_unsoundness": "contradicts the step before", "detection_error": "false alarm",
    "correction_error": "wrong correction", "integration_incompleteness": "answer too early",
    "integration_inconsistency": "wrong answer",
}  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """PRMScore by reasoning pattern of one PRM."""
    cases = flawed_cases(right_traces(pool(trial))[::2], SPLITS, trial.seed)
    said, cost = judged_once(judge(trial, "truth"), cases)
    made = {pattern: [flaw for flaw in flaws if flaw in SPLITS] for pattern, flaws in PATTERNS.dimensions.items()}
    rows = figures(Categories(made).measure, cases, said)
    arms = {pattern: rows[pattern]["prm_score"] for pattern in made}
    arms["the worst other pattern"] = min(score for pattern, score in arms.items() if pattern != "Decomposition")
    arms |= {"right steps": rows["overall"]["acc_right"], "wrong steps": rows["overall"]["acc_wrong"]}
    return Outcome(arms, spent(trial, "truth", used_pool="sampled") + cost)
