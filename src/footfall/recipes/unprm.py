"""UnPRM: Uncertainty-Based Methods for Automated Process Reward Data Construction and Output Aggregation in Mathematical
Reasoning (Han et al., arXiv 2508.01773).

The writer's own log-probabilities l say where to look for the error of a wrong solution:

    q = softmax(l / 5) over a step's tokens,  U = −Σ q ln q;   steps are probed by falling jump U_i − U_(i−1)

The first probed step whose prefix has a smaller value than the problem itself, v < v0, is taken for the first error.

What differs: solutions are by the embedded model of a million parameters; the completer is the world's scripted policy, which
the model was trained to imitate. It has no log-probabilities, so rollouts weigh alike. All orders, binary and sequential
search too, use the same rule v < v0 and the same number of rollouts a prefix: what it takes to see ten right ones, at least
16. The choice of solutions is not measured. The two votes, with their defaults,

    hybrid      the majority's answer if it has half of the votes, else that of the best-scored solution
    frequency   argmax_a (share of votes + share of reward) / 2

choose among 8 solutions by a scripted policy; the PRM is the truth of each step with three verdicts in ten flipped, folded by
the mean, as in best-of-N.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms, searches
from footfall.lab.shared.known import hits, spent
from footfall.label.unprm import Order, Uncertain
from footfall.policy.protocol import SamplingParams
from footfall.search import aggregate, best, frequency, hybrid, majority, weighted
from footfall.types import Cost
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

RECIPE = Recipe(
    name="unprm",
    paper="Uncertainty-Based Methods for Automated Process Reward Data Construction and Output Aggregation",
    arxiv="2508.01773",
    year=2025,
    stage="data",
    world="arithmetic",
    scale="The wrong ones of 240 solutions by the embedded Llama of 1.1M parameters; rollouts by the scripted policy. "
    "Problems that the completer rarely solves are left out, as in the paper. Votes: 1,000 problems a seed.",
    claims=(
        Claim(
            "The vote by reward and frequency beats best-of-N.",
            metric="accuracy at N = 8", direction="higher", baseline="best-of-N", method="frequency vote",
            stand_in="The paper's PRMs are trained; here it is the truth of the steps with three verdicts in ten "
            "flipped.",
        ),
        Claim(
            "Probing the most uncertain step first finds an error with fewer rollouts than going step by step.",
            metric="probes a wrong solution", direction="lower",
            baseline="probes, sequential", method="probes, jumps of uncertainty", beside=("probes, uncertainty",),
        ),
        Claim(
            "Probing the most uncertain step first finds an error with fewer rollouts than binary search.",
            metric="probes a wrong solution", direction="lower",
            baseline="probes, binary", method="probes, jumps of uncertainty",
        ),
        Claim(
            "The error it finds is the first one as often as with sequential search.",
            metric="first-error accuracy on wrong solutions", direction="higher", margin=-0.03,
            baseline="sequential", method="jumps of uncertainty", beside=("uncertainty",),
        ),
        Claim(
            "The error it finds is the first one more often than with binary search.",
            metric="first-error accuracy on wrong solutions", direction="higher",
            baseline="binary", method="jumps of uncertainty",
        ),
        Claim(
            "The hybrid vote beats the majority vote.",
            metric="accuracy at N = 8", direction="higher",
            baseline="majority vote", method="hybrid vote", beside=("weighted vote",),
        ),
        Claim(
            "The hybrid vote beats best-of-N.",
            metric="accuracy at N = 8", direction="higher", baseline="best-of-N", method="hybrid vote",
        ),
        Claim(
            "The vote by reward and frequency beats the majority vote.",
            metric="accuracy at N = 8", direction="higher", baseline="majority vote", method="frequency vote",
        ),
        Claim(
            "The vote by reward and frequency beats best-of-N, on GSM8K test.",
            metric="accuracy at N = 16", direction="higher",
            baseline="best-of-N", method="frequency vote", tier="real",
        ),
        Claim(
            "The vote by reward and frequency beats the majority vote, on GSM8K test.",
            metric="accuracy at N = 16", direction="higher",
            baseline="majority vote", method="frequency vote", tier="real",
        ),
        Claim(
            "The vote by reward and frequency beats best-of-N, on MATH-500.",
            metric="accuracy at N = 16", direction="higher",
            baseline="best-of-N", method="frequency vote", tier="real",
        ),
        Claim(
            "The vote by reward and frequency beats the majority vote, on MATH-500.",
            metric="accuracy at N = 16", direction="higher",
            baseline="majority vote", method="frequency vote", tier="real",
        ),
    ),
)  # fmt: skip
ORDERS: dict[str, Order] = {
    "sequential": "sequential", "binary": "binary", "uncertainty": "uncertainty", "jumps of uncertainty": "delta",
}  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """First errors found and probes paid by order of probing, then votes."""
    solutions = prms.training_traces(trial)[: trial.size(240, 24)]
    wrong = [trace for trace in solutions if not trace.correct and trace.answer is not None]
    cost, arms = Cost.total(trace.cost for trace in solutions), dict[str, list[float]]()
    for name, order in ORDERS.items():
        labeller = Uncertain(ArithmeticPolicy(), order, weighted=False, params=SamplingParams(seed=trial.seed))
        said = labeller.judge(wrong)
        labelled = [
            (j, ArithmeticWorld().first_error(t)) for j, t in zip(said, wrong, strict=True) if "probes" in j.aspects
        ]
        arms[name] = hits([judgement for judgement, _ in labelled], [first for _, first in labelled])
        arms[f"probes, {name}"] = [judgement.aspects["probes"][0] or 0.0 for judgement, _ in labelled]
        cost += spent(said)
    votes, drawn = _votes(trial)
    return Outcome({**arms, **votes}, cost + drawn)


def _votes(trial: Trial) -> tuple[dict[str, list[float]], Cost]:
    """What each vote makes of the same solutions and scores."""
    arms: dict[str, list[float]] = {}
    judge = searches.flipped(trial, 0.3)
    samples = searches.drawn(trial, 8, searches.problems(trial, trial.size(1000, 6)), ArithmeticPolicy())
    for result in samples:
        traces = [trace for trace, _ in result.candidates]
        answers, scores = [t.answer for t in traces], [aggregate(j.values, "mean") for j in judge.judge(traces)]
        chosen = {
            "majority vote": majority(answers).winner,
            "best-of-N": best(scores),
            "weighted vote": weighted(answers, scores).winner,
            "hybrid vote": hybrid(answers, scores).winner,
            "frequency vote": frequency(answers, scores).winner,
        }
        for name, winner in chosen.items():
            arms.setdefault(name, []).append(float(winner is not None and bool(traces[winner].correct)))
    return arms, Cost.total(r.cost for r in samples)
