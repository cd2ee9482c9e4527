"""Semi-Supervised Reward Modeling via Iterative Self-Training (He et al., arXiv 2409.06903).

Train on the few labelled rows, label the others by the model itself, keep what it is sure of, train on both, and again:

    kept_t = {x : max(p, 1 − p) > τ for every p that the label rests on},   π_{t+1} ← labelled ∪ kept_t

What differs: the paper's units are pairs of answers; here they are traces, each labelled up to its first predicted error and
kept if the PRM is sure of every step up to there. τ = 0.8 and two rounds, each from the backbone again. The labelled rows
alone are too few to train on for the same number of epochs, so they are given as many updates as the last round had. Batches
have 16 traces, so that the first model has 60 updates. Each model is read at the threshold that is best on other problems.
"""

from __future__ import annotations

from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import both_f1
from footfall.lab.shared.prms import backbone, large, pool, spent, train, training_traces
from footfall.reward.judge import step_head
from footfall.train import TrainConfig
from footfall.train.active import until_first_error
from footfall.train.self_training import self_train_prm
from footfall.types import Cost, Judged
from footfall.worlds import TruthJudge

RECIPE = Recipe(
    name="ssrm",
    paper="Semi-Supervised Reward Modeling via Iterative Self-Training",
    arxiv="2409.06903",
    year=2024,
    stage="train",
    world="arithmetic",
    scale="PRMs of the lab's model (9.5M parameters); a seed has 240 labelled and 2,160 unlabelled traces and 4,000 held-out "
    "solutions of 1,000 problems.",
    claims=(
        Claim(
            "Self-training on unlabelled traces beats the labelled ones alone at equal label cost.",
            metric="F1 of the first error",
            direction="higher", baseline="labelled only", method="self-trained",
            beside=("first model", "all labelled", "labelled only at 0.5", "self-trained at 0.5"),
            threshold="other data",
        ),
        Claim(
            "A self-trained model comes close to one for which everything was labelled.",
            metric="F1 of the first error",
            direction="higher", baseline="all labelled", method="self-trained", margin=-0.05,
            threshold="other data",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """First-error F1 after the first and the last round, beside few labels and all of them."""
    trial = large(trial)
    traces, few = training_traces(trial)[: trial.size(2400, 10)], trial.size(240, 6)
    rows = [Judged(t, until_first_error(j)) for t, j in zip(traces, TruthJudge().judge(traces), strict=True)]
    config = TrainConfig(
        lr=3e-4, epochs=trial.size(4, 1), batch_size=trial.size(16, 4), eval_share=0.0, seed=trial.seed,
        device=trial.device,
    )  # fmt: skip
    loop = self_train_prm(
        rows[:few], traces[few:], backbone(trial), config, trial.folder / "loop", confidence=0.8,
        rounds=trial.size(2, 1),
    )  # fmt: skip
    longer = replace(config, epochs=config.epochs * round((few + loop.kept[-1]) / few))
    alone = train(trial, "ssrm-few", rows[:few], longer)
    whole = train(trial, "ssrm-all", rows, config)
    solutions = pool(trial)[:: trial.size(2, 1)]
    costs, arms = [spent(trial, used_pool="sampled"), loop.cost, alone.cost, whole.cost], dict[str, float]()
    folders = (loop.folders[0], loop.folder, alone.folder, whole.folder)
    for arm, folder in zip(("first model", "self-trained", "labelled only", "all labelled"), folders, strict=True):
        said = step_head(folder, device=trial.device).judge(solutions)
        arms |= both_f1(solutions, arm, said)
        costs += [judgement.cost for judgement in said]
    return Outcome(arms, Cost.total(costs))
