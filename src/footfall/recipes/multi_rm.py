"""Rethinking Reward Models for Multi-Domain Test-Time Scaling (Lee et al., arXiv 2510.00492).

Reward models that are discriminative (d, one reading) or generative (g, the mean of ten), of the outcome or of the process:

    dORM  r(outcome)      dPRM  min_k r(step k)      gORM  mean_j r_j(outcome)      gPRM  mean_j min_k r_j(step k)

If a verdict is wrong with probability e, all T verdicts of a trace are right with (1 − e)^T: stepwise scores lose with length.

What differs: nothing is trained. A reading is the truth seen through noise, x = ±mu + z, where half of the variance of z is the
model's own (the same in each of its readings) and half is the reading's; mu makes one verdict in five wrong, of a step or of an
outcome, and r = sigmoid(2 mu x). So the models differ in what they read alone; that they see a step and an outcome equally well
is an assumption. A step that is built on an error is wrong. Domains are four worlds with scripted policies. All models choose
among the same samples; a generative one costs ten readings.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import simulated
from footfall.lab.shared.searches import drawn, single
from footfall.policy.protocol import Policy
from footfall.search import best, majority, weighted
from footfall.types import Cost
from footfall.worlds import (
    AlgebraPolicy,
    AlgebraWorld,
    ArithmeticPolicy,
    ArithmeticWorld,
    CodePolicy,
    CodeWorld,
    LogicPolicy,
    LogicWorld,
    TruthJudge,
)  # fmt: skip

RECIPE = Recipe(
    name="multi-rm",
    paper="Rethinking Reward Models for Multi-Domain Test-Time Scaling",
    arxiv="2510.00492",
    year=2025,
    stage="search",
    world="arithmetic, logic, algebra, code",
    scale="Scripted policies, 8 samples of each of 20 problems in four worlds a seed; no reward model is trained: all four are "
    "simulated, the truth read through noise that makes one verdict in five wrong.",
    claims=(
        Claim(
            "Simulated readers: the mean of ten readings of the outcome (gORM) beats one reading of each step (dPRM).",
            metric="accuracy, best of 8, four worlds", direction="higher",
            baseline="dPRM", method="gORM", beside=("majority", "single sample"),
            stand_in="The paper trains four reward models; here all four are simulated, the truth read through noise.",
        ),
        Claim(
            "Simulated readers: the mean of ten readings of the outcome (gORM) beats one (dORM); largely built in, as half of "
            "the noise is drawn anew at each reading.",
            metric="accuracy, best of 8, four worlds", direction="higher", baseline="dORM", method="gORM",
        ),
        Claim(
            "Simulated readers: ten readings of the outcome (gORM) beat ten of each step (gPRM), if both are as often wrong.",
            metric="accuracy, best of 8, four worlds", direction="higher", baseline="gPRM", method="gORM",
        ),
        Claim(
            "Simulated readers: one reading of the outcome (dORM) is on a par with one of each step (dPRM), if both are as "
            "often wrong.",
            metric="accuracy, best of 8, four worlds", direction="higher", margin=-0.03, baseline="dPRM", method="dORM",
        ),
        Claim(
            "Simulated readers: stepwise scores lose with length, the lead of the outcome model is larger on long solutions.",
            metric="accuracy of gORM minus gPRM", direction="higher", baseline="lead, short", method="lead, long",
        ),
        Claim(
            "Simulated readers: a vote weighted by ten readings of the outcome (gORM) beats the majority.",
            metric="accuracy of votes over 8, four worlds", direction="higher",
            baseline="majority", method="gORM, weighted vote",
        ),
    ),
)  # fmt: skip
WORLDS: Mapping[str, tuple[Any, Policy]] = {
    "arithmetic": (ArithmeticWorld(), ArithmeticPolicy()),
    "logic": (LogicWorld(max_depth=3, max_distractors=2), LogicPolicy()),
    "algebra": (AlgebraWorld(), AlgebraPolicy()),
    "code": (CodeWorld(), CodePolicy()),
}
MODELS = simulated(readings=10, error=0.2)


def measure(trial: Trial) -> Outcome:
    """Best-of-8 by discriminative and generative models of outcome and process, by domain and length."""
    arms: dict[str, list[float]] = {}
    leads: list[tuple[float, float]] = []
    cost = Cost()
    for name, (world, policy) in WORLDS.items():
        given = world.problems(trial.size(20, 2), trial.seed, split="test")
        samples = drawn(trial, trial.size(8, 3), given, policy)
        cost += Cost.total(r.cost for r in samples)
        arms.setdefault("single sample", []).extend(single(samples))
        for result in samples:
            traces = [trace for trace, _ in result.candidates]
            answers, correct = [t.answer for t in traces], [float(bool(t.correct)) for t in traces]
            steps = [[bool(v) for v in said.values] for said in TruthJudge(world).judge(traces)]
            chosen = {"majority": majority(answers, result.problem.domain).winner}
            for name_of, model in MODELS.items():
                scores = [model.score(trial.seed, t, own) for t, own in zip(traces, steps, strict=True)]
                chosen[name_of] = best(scores)
                chosen[f"{name_of}, weighted vote"] = weighted(answers, scores, result.problem.domain).winner
            won = {arm: 0.0 if i is None else correct[i] for arm, i in chosen.items()}
            for arm, figure in won.items():
                arms.setdefault(arm, []).append(figure)
                if arm in MODELS:
                    arms.setdefault(f"{arm}, {name}", []).append(figure)
            leads.append((fmean(map(len, steps)), won["gORM"] - won["gPRM"]))
    leads.sort(key=lambda lead: lead[0])
    half = len(leads) // 2
    arms["lead, short"] = [lead for _, lead in leads[:half]]
    arms["lead, long"] = [lead for _, lead in leads[half:]]
    return Outcome(arms, cost)
