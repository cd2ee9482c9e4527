"""ToolRM: Outcome Reward Models for Tool-Calling Large Language Models (Agarwal et al., arXiv 2509.11963).

An outcome reward r at the last token is trained on pairs of a chosen and a rejected response,

    loss = −log sigmoid(r_c − r_r) + η (r_c + r_r)²,   η = 0.01

where the second term keeps rewards around zero, so that they can be compared across queries and a threshold of 0 is usable.

What differs: whole solutions of word problems instead of function calls, and wrong ones of the same policy instead of nine
others. Each solution of a training problem is in one pair at most. Without the term (η = 0) everything else is the same.
Pooled AUC is the chance that a right solution of any problem is scored above a wrong one of any other.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import credits, response_cases
from footfall.lab.shared.prms import large, pool, right_and_wrong, spent, train, training_traces
from footfall.metrics.preferences import strict_credit
from footfall.metrics.steps import auc
from footfall.reward.judge import step_head
from footfall.train import TrainConfig
from footfall.types import Cost, Judged, Judgement, Trajectory

RECIPE = Recipe(
    name="toolrm",
    paper="ToolRM: Outcome Reward Models for Tool-Calling Large Language Models",
    arxiv="2509.11963",
    year=2025,
    stage="train",
    world="arithmetic",
    scale="Outcome models on the lab's model (9.5M parameters), on the pairs from 2,400 traces; a seed has a right and a wrong "
    "solution of each of 1,000 held-out problems that have both.",
    claims=(
        Claim(
            "The centering term costs no accuracy on pairs.",
            metric="accuracy on pairs of one problem",
            direction="higher", baseline="without centering", method="with centering", margin=-0.02,
            stand_in="The paper's main figure is best-of-N over general reward models; here only what its centering "
            "term costs is measured.",
        ),
        Claim(
            "The centering term makes scores comparable across problems.",
            metric="AUC over the solutions of all problems",
            direction="higher", baseline="AUC without centering", method="AUC with centering",
        ),
        Claim(
            "The centering term makes a threshold of zero usable.",
            metric="share of solutions on the right side of zero",
            direction="higher", baseline="zero without centering", method="zero with centering",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy, AUC and the meaning of zero of a pairwise ORM with and without centering."""
    trial = large(trial)
    traces = [trace for right, wrong in right_and_wrong(pool(trial)) for trace in (right[0], wrong[0])]
    cases, truth = response_cases(traces), [float(bool(trace.correct)) for trace in traces]
    arms: dict[str, float | list[float]] = {}
    costs = [spent(trial)]
    for name, centering in (("without centering", 0.0), ("with centering", 0.01)):
        model = train(trial, "pairs", training_pairs(trial), TrainConfig(
            objective="bradley-terry", objective_options={"centering": centering}, lr=3e-4, epochs=trial.size(2, 1),
            eval_share=0.0, seed=trial.seed, device=trial.device,
        ))  # fmt: skip
        said = step_head(model.folder, device=trial.device).judge(traces)
        scores = [float(judgement.values[-1] or 0.0) for judgement in said]
        arms[name] = credits(cases, said, "last", strict_credit)
        arms[f"AUC {name}"] = float(auc(scores, truth))
        arms[f"zero {name}"] = [float((score > 0.5) == right) for score, right in zip(scores, truth, strict=True)]
        costs += [model.cost, *(judgement.cost for judgement in said)]
    return Outcome(arms, Cost.total(costs))


def training_pairs(trial: Trial) -> list[Judged]:
    """Chosen and rejected side by side; a sigmoid of 0.5 is a reward of zero."""
    found = [pair for both in right_and_wrong(training_traces(trial)) for pair in zip(*both, strict=False)]
    return [row for chosen, rejected in found for row in (_last(chosen, 1.0), _last(rejected, 0.0))]


def _last(trace: Trajectory, label: float) -> Judged:
    return Judged(trace, Judgement(trace.id, (None,) * (len(trace.steps) - 1) + (label,), "outcome"))
