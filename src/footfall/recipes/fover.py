"""FoVer: Generalizable Process Reward Models via Formally Verified Training Data (Kamoi et al., arXiv 2505.15960).

Steps of symbolic tasks are labelled by tools that prove or refute them, nobody is asked:

    label = 1  iff  premises ∧ ¬conclusion is unsatisfiable        the last step: answer = reference

Labels are local (a right step may follow a wrong one). A PRM is trained on as many right as wrong steps, and used on tasks
that no tool can check.

What differs: Z3 on the logic world, and computer algebra on equations in place of Isabelle; the tools read the text alone,
and here the truth is known too, so the labels themselves are measured. Monte Carlo labels, cut at one half, stand beside
them. The PRM is the embedded model (1.1M parameters), which was made for arithmetic and reads the other worlds' words letter
by letter; the zero-shot PRM of the paper is a fresh head on the same backbone.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import domains
from footfall.label.formal import Formal, balanced
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.types import Cost, Judge, Judged, Judgement, Trajectory
from footfall.worlds import StepTruth

RECIPE = Recipe(
    name="fover",
    paper="Generalizable Process Reward Models via Formally Verified Training Data",
    arxiv="2505.15960",
    year=2025,
    stage="data",
    world="logic, algebra; arithmetic",
    scale="60 logic and 60 algebra traces a seed by scripted policies; a PRM of the embedded 1.1M-parameter model; 100 "
    "arithmetic traces of held-out problems.",
    claims=(
        Claim(
            "Labels by formal tools are exact where they apply; labels by rollouts are not.",
            metric="share of steps labelled as the truth has it, logic and algebra",
            direction="higher", baseline="Monte Carlo, 8 rollouts", method="formal",
        ),
        Claim(
            "A PRM trained on formal labels of logic and algebra transfers to a task that it never saw.",
            metric="step AUC on arithmetic",
            direction="higher", baseline="untrained head", method="trained on logic and algebra",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    rows: list[Judged] = []
    arms: dict[str, list[float]] = {"formal": [], "Monte Carlo, 8 rollouts": []}
    cost = Cost()
    for domain in ("logic", "algebra"):
        world, policy = domains.DOMAINS[domain]
        traces = domains.traces(trial, domain, trial.size(60, 4))
        formal = Formal().judge(traces)
        sampled = MonteCarlo(policy, rollouts=8, params=SamplingParams(seed=trial.seed)).judge(traces)
        cost += Cost.total(said.cost for said in sampled)
        for trace, exact, estimate in zip(traces, formal, sampled, strict=True):
            truth = [step is not StepTruth.WRONG for step in world.check(trace)][:-1]
            arms["formal"] += _agreement(exact, truth)
            arms["Monte Carlo, 8 rollouts"] += _agreement(estimate, truth)
        rows += map(Judged, traces, formal)
    judge, spent = domains.trained(trial, "fover", balanced(rows, trial.seed))
    held_out = domains.traces(trial, "arithmetic", trial.size(100, 6), "test")
    return Outcome({**arms, **_transfer(trial, judge, held_out)}, cost + spent)


def _agreement(said: Judgement, truth: list[bool]) -> list[float]:
    """1 for each step labelled rightly; a step without a label counts as one half."""
    return [
        0.5 if value is None else float((value >= 0.5) == right)
        for value, right in zip(said.values, truth, strict=False)
    ]


def _transfer(trial: Trial, judge: Judge, held_out: list[Trajectory]) -> dict[str, float]:
    errors = domains.first_errors("arithmetic", held_out)
    return {
        "untrained head": domains.step_auc(domains.untrained(trial).judge(held_out), errors),
        "trained on logic and algebra": domains.step_auc(judge.judge(held_out), errors),
    }
