"""FoVer: Generalizable Process Reward Models via Formally Verified Training Data (Kamoi et al., arXiv 2505.15960).

Steps of symbolic tasks are labelled by tools that prove or refute them, nobody is asked:

    label = 1  iff  premises ∧ ¬conclusion is unsatisfiable        the last step: answer = reference

Labels are local (a right step may follow a wrong one). A PRM is trained on as many right as wrong steps, and used on tasks
that no tool can check.

What differs: Z3 on the logic world, and computer algebra on equations in place of Isabelle; the tools read the text alone,
and here the truth is known too, so the labels themselves are measured, on the steps up to the first error: after it Monte
Carlo says that all is lost, which is no error of its own. Its labels are cut at one half. The PRM is the lab's model, which
has read all three worlds; the zero-shot PRM of the paper is a fresh head on the same backbone.
"""

from __future__ import annotations

from pathlib import Path

import torch

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.known import Known, error_auc, known, spent
from footfall.label.formal import Formal, balanced
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judge, Judged, Judgement
from footfall.worlds import StepTruth

RECIPE = Recipe(
    name="fover",
    paper="Generalizable Process Reward Models via Formally Verified Training Data",
    arxiv="2505.15960",
    year=2025,
    stage="data",
    world="logic, algebra; arithmetic",
    scale="1,200 logic and 1,200 algebra traces a seed by scripted policies; a PRM of the lab's 9.5M-parameter model; 1,000 "
    "arithmetic traces of held-out problems.",
    claims=(
        Claim(
            "A PRM trained on formal labels of logic and algebra transfers to a task that it never saw.",
            metric="step AUC on arithmetic",
            direction="higher", baseline="untrained head", method="trained on logic and algebra",
            stand_in="The paper's baseline is a language model that judges when asked; here it is an untrained head, "
            "as the lab's model cannot be asked.",
        ),
        Claim(
            "On logic and algebra, labels by formal tools are right more often than Monte Carlo's.",
            metric="share of steps up to the first error labelled as the truth has it, logic and algebra",
            direction="higher", baseline="Monte Carlo, 8 rollouts", method="formal",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Agreement of formal and Monte Carlo labels with the truth, and transfer of a PRM trained on the former."""
    trial, rows = prms.large(trial), list[Judged]()
    arms: dict[str, list[float]] = {"formal": [], "Monte Carlo, 8 rollouts": []}
    cost = Cost()
    for world in ("short logic" if trial.quick else "logic", "algebra"):
        given = known(trial, world, trial.size(1200, 4))
        formal = Formal().judge(given.traces)
        sampled = MonteCarlo(given.policy, rollouts=8, params=SamplingParams(seed=trial.seed)).judge(given.traces)
        cost += spent(sampled)
        for trace, first, exact, estimate in zip(given.traces, given.first_errors, formal, sampled, strict=True):
            truth = [step is not StepTruth.WRONG for step in given.world.check(trace)][:-1]
            truth = truth[: first + 1] if first >= 0 else truth
            arms["formal"] += _agreement(exact, truth)
            arms["Monte Carlo, 8 rollouts"] += _agreement(estimate, truth)
        rows += map(Judged, given.traces, formal)
    config = TrainConfig(lr=3e-4, epochs=trial.size(2, 1), eval_share=0.0, seed=trial.seed, device=trial.device)
    trained = prms.train(trial, "fover", balanced(rows, trial.seed), config)
    held_out = known(trial, "arithmetic", trial.size(1000, 6), split="test")
    transfer = {
        "untrained head": _auc(prms.untrained(trial), held_out),
        "trained on logic and algebra": _auc(PRMJudge(_exact(trained.folder, trial.device)), held_out),
    }
    return Outcome({**arms, **transfer}, cost + trained.cost)


def _exact(folder: Path, device: str) -> PRM:
    """In float32, as the untrained one: in the bfloat16 of a GPU values of these steps differ by more than a checkpoint may."""
    return PRM.load(folder, device=device, dtype=torch.float32)


def _agreement(said: Judgement, truth: list[bool]) -> list[float]:
    """1 for each step labelled rightly; a step without a label counts as one half."""
    return [
        0.5 if value is None else float((value >= 0.5) == right)
        for value, right in zip(said.values, truth, strict=False)
    ]


def _auc(judge: Judge, given: Known) -> float:
    return error_auc(given, [said.values for said in judge.judge(given.traces)])
