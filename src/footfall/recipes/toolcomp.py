"""ToolComp: A Multi-Tool Reasoning & Process Supervision Benchmark (Nath et al., arXiv 2501.01290).

Rank the N sampled solutions of a problem by a reward model and take the first: rank@1 is its accuracy. The ORM has one label
a solution; the PRM one a step, and its score of a solution is an aggregate of step values:

    min_k v_k,   Π_k v_k,   mean, last

What differs: the two models share backbone, traces and training, the PRM's step labels are the exact truth instead of an LLM
critic's, and a step is an equation instead of a tool call. N = 8. A long problem has 5 or 6 operations, a short one 2 or 3.
"""

from __future__ import annotations

from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import credits, response_cases
from footfall.lab.shared.prms import POOL, judged_pool, large, pool, spent

RECIPE = Recipe(
    name="toolcomp",
    paper="ToolComp: A Multi-Tool Reasoning & Process Supervision Benchmark",
    arxiv="2501.01290",
    year=2025,
    stage="eval",
    world="arithmetic",
    scale="PRM and ORM of 9.5M parameters on the same 2,400 traces; a seed has 8 solutions of each of 1,000 held-out problems.",
    claims=(
        Claim(
            "A PRM ranks sampled solutions better than an ORM.",
            metric="rank@1 among 8",
            direction="higher", baseline="ORM", method="PRM, min",
            beside=("PRM, prod", "PRM, mean", "PRM, last", "single sample"),
            stand_in="The paper ranks trajectories of tool calls; here a step is an equation.",
        ),
        Claim(
            "The PRM's advantage over the ORM grows with the length of the problem.",
            metric="rank@1 of the PRM (min) less that of the ORM",
            direction="higher", baseline="short problems", method="long problems", beside=("medium problems",),
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """rank@1 of PRM and ORM on one pool, by aggregation and by length of the problem."""
    trial = large(trial)
    traces = pool(trial)
    cases = response_cases(traces)
    truth, outcome = judged_pool(trial, "truth"), judged_pool(trial, "outcome")
    arms = {f"PRM, {how}": credits(cases, truth, how) for how in ("min", "prod", "mean", "last")}
    arms["ORM"] = credits(cases, outcome, "last")
    right = [float(bool(trace.correct)) for trace in traces]
    arms["single sample"] = [fmean(right[at : at + POOL]) for at in range(0, len(right), POOL)]
    gains = [prm - orm for prm, orm in zip(arms["PRM, min"], arms["ORM"], strict=True)]
    ops = [len(list(trace.problem.meta["ops"])) for trace in traces[::POOL]]  # type: ignore[arg-type]
    lengths = {"short problems": (2, 3), "medium problems": (4,), "long problems": (5, 6)}
    by_length = {  # a smoke test may hold no problem of a length
        name: fmean([gain for gain, n in zip(gains, ops, strict=True) if n in inside] or [0.0])
        for name, inside in lengths.items()
    }
    return Outcome({**arms, **by_length}, spent(trial, "truth", "outcome"))
