"""The Lessons of Developing Process Reward Models in Mathematical Reasoning (Zhang et al., arXiv 2501.07301).

Keep a response only if Monte Carlo and a critic name the same first error, or both none:

    e_MC = first step with no success in 8 rollouts;   keep iff e_MC = e_J;   labels 1 before e, 0 at e, none after

and train on these hard labels by cross-entropy.

What differs: the critic is not a 72B model but the truth with errors of given rates: it passes one wrong step in five and
blames one good step in twenty. The same is done with two such critics, whose errors are independent. A label set's
precision is the share of its responses whose first error is the true one. All PRMs have about as many updates, so the
one on fewer traces sees them more often. One has the critic's labels alone, up to the first error; one the soft labels of the
same rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import Said, best_of_n, both_f1, misplaced, with_first_error
from footfall.label.consensus import Consensus
from footfall.label.monte_carlo import MonteCarlo
from footfall.simulate import Noisy
from footfall.train.active import until_first_error
from footfall.types import Judged, Judgement, Trajectory
from footfall.worlds import ArithmeticPolicy, TruthJudge

RECIPE = Recipe(
    name="consensus-filter",
    paper="The Lessons of Developing Process Reward Models in Mathematical Reasoning",
    arxiv="2501.07301",
    year=2025,
    stage="data",
    world="arithmetic",
    scale="2,400 traces with 8 rollouts a step and a critic of given error rates; PRMs of the lab's model (9.5M parameters); a "
    "seed has 8,000 solutions of 1,000 held-out problems.",
    claims=(
        Claim(
            "A PRM on the filtered traces finds first errors better than one on all traces with Monte Carlo labels.",
            metric="F1 of the first error",
            direction="higher", baseline="PRM on Monte Carlo", method="PRM on filtered",
            beside=("PRM on soft Monte Carlo", "PRM on Monte Carlo at 0.5", "PRM on filtered at 0.5"),
            threshold="other data",
        ),
        Claim(
            "It finds them as well as a PRM on all traces with the critic's labels (at most three points less).",
            metric="F1 of the first error", margin=-0.03,
            direction="higher", baseline="PRM on critic", method="PRM on filtered", threshold="other data",
        ),
        Claim(
            "Labels on which Monte Carlo and a critic agree are more precise than those of the better of the two.",
            metric="share of labelled traces whose first error is right",
            direction="higher", baseline="better of the two", method="both agree",
            beside=("Monte Carlo", "critic", "share kept"),
        ),
        Claim(
            "Labels on which two noisy critics agree are more precise than those of the better of the two.",
            metric="share of labelled traces whose first error is right",
            direction="higher", baseline="better critic", method="critics agree", beside=("share kept by critics",),
        ),
        Claim(
            "A PRM on the filtered traces gives better best-of-N than one on all traces with Monte Carlo labels.",
            metric="accuracy of best-of-8, min",
            direction="higher", baseline="PRM on Monte Carlo, best-of-8", method="PRM on filtered, best-of-8",
            beside=("PRM on critic, best-of-8", "PRM on soft Monte Carlo, best-of-8"),
        ),
        Claim(
            "A PRM on the filtered traces finds first errors better than one on Monte Carlo labels, on ProcessBench.",
            metric="F1 of the first error, mean of four splits", direction="higher",
            baseline="PRM on Monte Carlo", method="PRM on filtered", tier="real", threshold="other data",
        ),
        Claim(
            "A PRM on filtered data finds first errors better than one on people's, on ProcessBench, published 7B models.",
            metric="F1 of the first error, mean of three splits", direction="higher",
            baseline="PRM on people's labels", method="PRM on filtered", tier="real", threshold="other data",
            beside=("PRM on people's labels at 0.5", "PRM on filtered at 0.5"),
            stand_in="Two checkpoints of one backbone: their data differ in size and source, not in the filter alone.",
        ),
        Claim(
            "A PRM on filtered data gives better best-of-N than one on Monte Carlo labels, on GSM8K, published 7B models.",
            metric="accuracy of best-of-32", direction="higher",
            baseline="Math-Shepherd's PRM", method="PRM on filtered", tier="real",
            stand_in="Two checkpoints whose backbones differ too: Qwen2.5-Math 7B and Mistral 7B.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Precision of first errors before and after the filter, and F1 of PRMs trained on either."""
    trial = prms.large(trial)
    traces, pool = prms.arm_traces(trial), prms.arm_pool(trial)
    rolled = MonteCarlo(ArithmeticPolicy(), 8, "hard", "first-error", params=prms.params(trial)).judge(traces)
    critics = [Noisy(TruthJudge(), 0.2, 0.05, seed=2 * trial.seed + k).judge(traces) for k in range(2)]
    agreed, between = _filtered(traces, rolled, critics[0]), _filtered(traces, *critics)
    sets = {"Monte Carlo": rolled, "critic": critics[0], "both agree": agreed, "other critic": critics[1],
            "critics agree": between}  # fmt: skip
    precision = {name: 1 - misplaced(traces, said) for name, said in sets.items()}
    arms: dict[str, float | list[float]] = {
        **precision,
        "better of the two": max(precision["Monte Carlo"], precision["critic"]),
        "better critic": max(precision["critic"], precision["other critic"]),
        "share kept": len(with_first_error(traces, agreed)) / len(traces),
        "share kept by critics": len(with_first_error(traces, between)) / len(traces),
    }
    trained = {
        f"PRM on {name}": prms.arm(trial, with_first_error(traces, said), "bce", threshold=0.5)
        for name, said in (
            ("Monte Carlo", rolled),
            ("critic", list(map(until_first_error, critics[0]))),
            ("filtered", agreed),
        )
    }
    rates = MonteCarlo(ArithmeticPolicy(), 8, "soft", "first-error", params=prms.params(trial)).judge(traces)
    trained["PRM on soft Monte Carlo"] = prms.arm(trial, list(map(Judged, traces, rates)), "soft-bce")
    for name, arm in trained.items():
        arms |= both_f1(pool, name, arm.said) | {f"{name}, best-of-8": best_of_n(pool, arm.said, "min")}
    return Outcome(arms, prms.spent_on(trial, rolled, trained.values()))


def _filtered(traces: Sequence[Trajectory], *said: Sequence[Judgement]) -> list[Judgement]:
    """What is left where these judges agree."""
    return Consensus(tuple(Said.of(row[0].judge, row) for row in said)).combine(traces, said)
