"""PRMBench: A Fine-grained and Challenging Benchmark for Process-Level Reward Models (Song et al., arXiv 2501.03124).

Right solutions are rewritten to carry one kind of flaw, and the judge labels every step, correct being the positive class:

    a step is called correct if value > 0.5;  PRMScore = ½ F1 + ½ F1_neg of the pooled steps of a category

What differs: rewrites are made by rule, not by an LLM, so the wrong steps are known: NR a step said twice; NCL a step undone
and done again; ES a result off by 10; SC a number that is not the one before; DC another operation; PS a condition
passed over; DR a result off by 1; MS another right solution. CI (a tone of certainty) has no words in this world. Steps
built on a flaw are not counted, and each category holds the unmodified solutions too, so that all have the same right steps.
"""

from __future__ import annotations

from footfall.benchmarks.prmbench import CATEGORIES
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import figures, judged_once, step_cases
from footfall.lab.shared.flaws import flawed_cases, right_traces
from footfall.lab.shared.prms import judge, pool, spent

RECIPE = Recipe(
    name="prmbench",
    paper="PRMBench: A Fine-grained and Challenging Benchmark for Process-Level Reward Models",
    arxiv="2501.03124",
    year=2025,
    stage="eval",
    world="arithmetic",
    scale="A PRM of 1.1M parameters trained on the step truth of 600 traces; a seed rewrites one right solution of each of 100 "
    "held-out problems in seven ways.",
    claims=(
        Claim(
            "PRMs lean to calling steps correct: they see right steps better than wrong ones.",
            metric="recall over all categories",
            direction="higher", baseline="wrong steps", method="right steps",
            stand_in="The paper's solutions are rewritten by a language model and judged by published PRMs; here by "
            "rule, and by a lab-scale PRM.",
        ),
        Claim(
            "Redundant steps are seen less well than wrong calculations.",
            metric="PRMScore",
            direction="lower", baseline="ES, wrong result", method="NR, repeated step",
            beside=(
                "NCL, circle", "SC, contradicts the step before", "DC, wrong operation", "PS, left out",
                "DR, slightly wrong result", "MS, other solution",
            ),
        ),
    ),
)  # fmt: skip
SPLITS = {
    "NR": "repeated step", "NCL": "circle", "ES": "wrong result", "SC": "contradicts the step before",
    "DC": "wrong operation", "PS": "left out", "DR": "slightly wrong result",
}  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """PRMScore by kind of flaw of one PRM."""
    right = right_traces(pool(trial))
    others = [trace for trace in right_traces(pool(trial), per_problem=2) if trace not in right]
    cases = flawed_cases(right, SPLITS, trial.seed) + step_cases(others, lambda trace: "MS")
    said, cost = judged_once(judge(trial, "truth"), cases)
    rows = figures(CATEGORIES.measure, cases, said)
    arms = {f"{split}, {flaw}": rows[split]["prm_score"] for split, flaw in {**SPLITS, "MS": "other solution"}.items()}
    arms |= {"right steps": rows["overall"]["acc_right"], "wrong steps": rows["overall"]["acc_wrong"]}
    return Outcome(arms, spent(trial, "truth", used_pool="sampled") + cost)
