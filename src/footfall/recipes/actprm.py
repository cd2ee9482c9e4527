"""ActPRM: Efficient Process Reward Model Training via Active Learning (Duan et al., arXiv 2504.10559).

n small heads on one backbone give a mean μ_i and a spread sd_i for each step. With E the first step whose μ < 0.5 (the last
if none has), a trace is labelled and trained on only if the heads are unsure of it:

    some i ≤ E with max(μ_i, 1 − μ_i) < d_pred   or   some i ≤ E with sd_i > d_std

What differs: the paper fixes d_pred = 0.95 and d_std = 0.005 for a model of 7B and lets the budget follow; here the budget is
fixed, and both thresholds stand at the quantile of a round that labels half of the pool in all. The pool comes in 5 rounds,
not in batches, and the first is labelled whole, since there is no model before it. The judge knows the truth. All arms have
the first round in common and go through the others alike; they differ only in what is labelled. The rule of selection has its
0.5; each PRM is read at the threshold that is best on other problems.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import first_error_f1
from footfall.lab.shared.prms import large, pool, spent, train, training_traces
from footfall.train import TrainConfig
from footfall.train.active import AtRandom, MostUncertain, Selector, train_actively, until_first_error
from footfall.types import Cost, Judged
from footfall.worlds import TruthJudge

RECIPE = Recipe(
    name="actprm",
    paper="Efficient Process Reward Model Training via Active Learning",
    arxiv="2504.10559",
    year=2025,
    stage="train",
    world="arithmetic",
    scale="32 heads on the lab's model (9.5M parameters); a seed has a pool of 2,400 traces in 5 rounds and 4,000 held-out "
    "solutions of 1,000 problems.",
    claims=(
        Claim(
            "Labels for the half of the pool that the ensemble is unsure of give the quality of all labels.",
            metric="F1 of the first error",
            direction="higher", baseline="all labels", method="active half", margin=-0.02,
            beside=("random half", "all labels at 0.5", "active half at 0.5"), threshold="other data",
        ),
        Claim(
            "At equal labels, choosing by uncertainty beats choosing at random.",
            metric="F1 of the first error",
            direction="higher", baseline="random half", method="active half",
            beside=("random half at 0.5", "active half at 0.5"), threshold="other data",
        ),
    ),
)  # fmt: skip
LATER = 0.375
"""Of the rounds after the first, which is a fifth of the pool and labelled whole: half of all is labelled."""


def measure(trial: Trial) -> Outcome:
    """First-error F1 of PRMs that had all labels, a random half, or the half they were least sure of."""
    trial = large(trial)
    arms: dict[str, Selector] = {
        "all labels": AtRandom(1.0), "random half": AtRandom(LATER, trial.seed), "active half": MostUncertain(LATER),
    }  # fmt: skip
    config = TrainConfig(
        heads=trial.size(32, 2), lr=3e-4, epochs=trial.size(2, 1), schedule="constant", eval_share=0.0,
        seed=trial.seed, device=trial.device,
    )  # fmt: skip
    traces = training_traces(trial)[: trial.size(2400, 10)]
    solutions = pool(trial)[:: trial.size(2, 1)]
    first, later = traces[: trial.size(480, 6)], traces[trial.size(480, 6) :]
    rows = [Judged(t, until_first_error(said)) for t, said in zip(first, TruthJudge().judge(first), strict=True)]
    start = train(trial, "actprm-first", rows, config)
    found: dict[str, float] = {}
    costs = [spent(trial, used_pool="sampled"), start.cost]
    for arm, select in arms.items():
        result = train_actively(
            later, start.folder, TruthJudge(), config, trial.folder / arm.replace(" ", "-"), select=select,
            rounds=trial.size(4, 1),
        )  # fmt: skip
        said = result.judge(trial.device).judge(solutions)
        found |= {arm: first_error_f1(solutions, said), f"{arm} at 0.5": first_error_f1(solutions, said, 0.5)}
        costs += [result.cost, *(judgement.cost for judgement in said)]
    return Outcome(found, Cost.total(costs))
