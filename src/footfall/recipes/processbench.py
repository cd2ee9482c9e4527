"""ProcessBench: Identifying Process Errors in Mathematical Reasoning (Zheng et al., arXiv 2412.06559).

The judge names the first wrong step, the smallest k with value_k < threshold, or −1. With the hit rates on erroneous
(exact index) and on correct solutions,

    F1 = 2 acc_err acc_cor / (acc_err + acc_cor)

The paper tunes one threshold on its easiest split and keeps it for the harder ones, and finds that PRMs on labels by rollouts
do not carry over to harder problems than they were trained on, where one on step labels by people does better.

What differs: the paper compares PRMs of several makers on human labels; here two PRMs of one backbone and one set of traces
differ only in their labels, and the truth is exact. Each gets the threshold that is best on one half of the problems of the
training's difficulty, and both are measured on the other half and on harder problems: 7 to 9 operations on larger numbers
where training has 2 to 6. The backbone has read such problems, the PRMs on it have not.
"""

from __future__ import annotations

from footfall.benchmarks import processbench
from footfall.benchmarks.runner import Tuned, measured
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import Said, benchmark_of, step_cases
from footfall.lab.shared.prms import Labels, harder_pool, judge, judged_pool, large, pool, spent
from footfall.types import Cost

RECIPE = Recipe(
    name="processbench",
    paper="ProcessBench: Identifying Process Errors in Mathematical Reasoning",
    arxiv="2412.06559",
    year=2024,
    stage="eval",
    world="arithmetic",
    scale="PRMs of the lab's model (9.5M parameters) on 2,400 traces; a seed has 8,000 solutions of 1,000 held-out problems, "
    "half for tuning, and 4,000 of 500 harder ones.",
    claims=(
        Claim(
            "On harder problems than both were trained on, a PRM trained on step truth finds first errors better than one on "
            "Monte Carlo labels.",
            metric="F1 of the first error, threshold from problems as in training",
            direction="higher", baseline="Monte Carlo labels, harder", method="step truth, harder",
            beside=("Monte Carlo labels at 0.5, harder", "step truth at 0.5, harder"),
            threshold="other data",
            stand_in="The paper's PRM on step labels by people is trained on other problems than its PRMs on rollouts.",
        ),
        Claim(
            "A PRM trained on Monte Carlo labels finds first errors of harder problems worse than of problems as in training.",
            metric="F1 of the first error, threshold from problems as in training",
            direction="lower", baseline="Monte Carlo labels", method="Monte Carlo labels, harder",
            beside=("step truth", "step truth, harder"),
            threshold="other data",
        ),
        Claim(
            "A PRM trained on step truth finds first errors better than one trained on Monte Carlo labels.",
            metric="F1 of the first error",
            direction="higher", baseline="Monte Carlo labels", method="step truth",
            beside=("Monte Carlo labels at 0.5", "step truth at 0.5"),
            threshold="other data",
        ),
    ),
)  # fmt: skip
ARMS: dict[str, Labels] = {"Monte Carlo labels": "monte-carlo", "step truth": "truth"}


def measure(trial: Trial) -> Outcome:
    """First-error F1 by labels on problems as in training and on harder ones, with a tuned threshold and at 0.5."""
    trial = large(trial)
    traces, harder = pool(trial), harder_pool(trial)
    half = {name: ("tuning", "test")[i % 2] for i, name in enumerate(dict.fromkeys(t.problem.id for t in traces))}
    cases = [*step_cases(traces, lambda trace: half[trace.problem.id]), *step_cases(harder, lambda trace: "harder")]
    benchmark = benchmark_of("processbench", cases, processbench.measure, "f1")
    arms: dict[str, float] = {}
    cost = spent(trial, *ARMS.values()) + Cost.total(trace.cost for trace in harder)
    for arm, labels in ARMS.items():
        said = judge(trial, labels).judge(harder)
        cost += Cost.total(each.cost for each in said)
        both = Said.of(arm, [*judged_pool(trial, labels), *said])
        for name, threshold in ((arm, Tuned("tuning")), (f"{arm} at 0.5", 0.5)):
            found = measured(benchmark, both, threshold, resamples=1).figures  # the ledger makes the intervals
            for split, suffix in (("test", ""), ("harder", ", harder")):
                arms[name + suffix] = float(found[split]["f1"][0])
    return Outcome(arms, cost)
