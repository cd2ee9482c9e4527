"""ProcessBench: Identifying Process Errors in Mathematical Reasoning (Zheng et al., arXiv 2412.06559).

The judge names the first wrong step, the smallest k with value_k < threshold, or −1. With the hit rates on erroneous
(exact index) and on correct solutions,

    F1 = 2 acc_err acc_cor / (acc_err + acc_cor)

What differs: the paper compares PRMs of several makers on human labels; here two PRMs of one backbone and one set of traces
differ only in their labels, and the truth is exact. As the values of the two mean different things, each gets the
threshold that is best on one half of the problems, and both are measured on the other half.
"""

from __future__ import annotations

from footfall.benchmarks import processbench
from footfall.benchmarks.runner import Tuned, measured
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import Said, benchmark_of, figures, step_cases
from footfall.lab.shared.prms import Labels, judged_pool, large, pool, spent
from footfall.metrics.cases import always_right, always_wrong

RECIPE = Recipe(
    name="processbench",
    paper="ProcessBench: Identifying Process Errors in Mathematical Reasoning",
    arxiv="2412.06559",
    year=2024,
    stage="eval",
    world="arithmetic",
    scale="PRMs of the lab's model (9.5M parameters) on 2,400 traces; a seed has 8,000 solutions of 1,000 held-out problems, "
    "half for tuning.",
    claims=(
        Claim(
            "A PRM trained on step truth finds first errors better than one trained on Monte Carlo labels.",
            metric="F1 of the first error",
            direction="higher", baseline="Monte Carlo labels", method="step truth",
            beside=("Monte Carlo labels at 0.5", "step truth at 0.5"),
            threshold="other data",
        ),
        Claim(
            "F1 gives nothing to judges that always say right or always wrong, whatever their plain accuracy.",
            metric="score of the better of two constant judges",
            direction="lower", baseline="plain accuracy", method="F1", beside=("always right", "always wrong"),
        ),
    ),
)  # fmt: skip
ARMS: dict[str, Labels] = {"Monte Carlo labels": "monte-carlo", "step truth": "truth"}


def measure(trial: Trial) -> Outcome:
    """First-error F1 by labels, with a tuned threshold and at 0.5, beside judges that know nothing."""
    trial = large(trial)
    traces = pool(trial)
    half = {name: ("tuning", "test")[i % 2] for i, name in enumerate(dict.fromkeys(t.problem.id for t in traces))}
    cases = step_cases(traces, lambda trace: half[trace.problem.id])
    benchmark = benchmark_of("processbench", cases, processbench.measure, "f1")
    arms: dict[str, float] = {}
    for arm, labels in ARMS.items():
        judge = Said.of(arm, judged_pool(trial, labels))
        for name, threshold in ((arm, Tuned("tuning")), (f"{arm} at 0.5", 0.5)):
            found = measured(benchmark, judge, threshold, resamples=1)  # the ledger makes the intervals
            arms[name] = float(found.figures["test"]["f1"][0])
    shown = [case for case in cases if case.split == "test"]
    first = [case.truth.first_below(0.5) for case in shown]
    for constant, says in ((always_right(), -1), (always_wrong(), 0)):
        f1 = figures(processbench.measure, shown, constant.judge([case.trajectory for case in shown]))["test"]["f1"]
        arms[constant.name.replace("-", " ")] = f1
        arms["plain accuracy"] = max(arms.get("plain accuracy", 0.0), first.count(says) / len(first))
    arms["F1"] = max(arms["always right"], arms["always wrong"])
    return Outcome(arms, spent(trial, *ARMS.values()))
