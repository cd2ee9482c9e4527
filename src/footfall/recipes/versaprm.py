"""VersaPRM: Multi-Domain Process Reward Model via Synthetic Reasoning Data (Zeng et al., arXiv 2502.06737).

PRMs of mathematics do not carry over to other domains. A critic who is shown the answer names the first bad step e of
solutions from many domains,

    labels  1 before e,  0 at e,  none after it,

and a PRM of mathematics is trained on from there.

What differs: domains are logic, algebra and code, and the PRM of mathematics is the lab's PRM of arithmetic (2,400 traces,
true labels). The critic is the truth, but overlooks one wrong step in ten. The backbone is the lab's model, which has read all
four worlds: the embedded one reads three of them letter by letter, so neither PRM could learn them. Best-of-N over
multiple-choice questions is not measured, step AUC is.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.known import error_auc, known
from footfall.reward.judge import step_head
from footfall.simulate import Noisy
from footfall.train.active import until_first_error
from footfall.train.config import TrainConfig
from footfall.types import Judged

OTHERS = {"logic": "short logic", "algebra": "algebra", "code": "short code"}
"""Short ones in a smoke test."""

RECIPE = Recipe(
    name="versaprm",
    paper="VersaPRM: Multi-Domain Process Reward Model via Synthetic Reasoning Data",
    arxiv="2502.06737",
    year=2025,
    stage="data",
    world="logic, algebra, code",
    scale="A PRM of the lab's 9.5M-parameter model on 2,400 arithmetic traces, trained on with 800 traces of each of three "
    "other domains; 334 traces of held-out problems a domain.",
    claims=(
        Claim(
            "Training on many domains improves judging in them over a PRM of mathematics alone.",
            metric="step AUC, mean over logic, algebra and code",
            direction="higher", baseline="arithmetic PRM", method="multi-domain PRM",
            stand_in="The paper's figure is the gain of a weighted vote; here it is how well steps are told apart in "
            "the new domains.",
        ),
        Claim(
            "In each domain by itself too: logic.",
            metric="step AUC, logic", direction="higher",
            baseline="arithmetic PRM on logic", method="multi-domain PRM on logic",
        ),
        Claim(
            "In each domain by itself too: algebra.",
            metric="step AUC, algebra", direction="higher",
            baseline="arithmetic PRM on algebra", method="multi-domain PRM on algebra",
        ),
        Claim(
            "In each domain by itself too: code.",
            metric="step AUC, code", direction="higher",
            baseline="arithmetic PRM on code", method="multi-domain PRM on code",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """AUC of wrong steps in other domains, of an arithmetic PRM and of one trained on several."""
    trial = prms.large(trial)
    worlds = OTHERS if trial.quick else {name: name for name in OTHERS}
    rows = [row for world in worlds.values() for row in _criticised(trial, world)]
    config = TrainConfig(lr=3e-4, epochs=1, eval_share=0.0, seed=trial.seed, device=trial.device)
    multi = prms.train(trial, "versaprm", rows, config, init=prms.prm(trial, "truth").folder)
    judges = {"arithmetic PRM": prms.judge(trial, "truth"), "multi-domain PRM": step_head(multi.folder, trial.device)}
    arms: dict[str, float] = {}
    for domain, world in worlds.items():
        held_out = known(trial, world, trial.size(334, 2), split="test")
        for name, judge in judges.items():
            arms[f"{name} on {domain}"] = error_auc(held_out, [said.values for said in judge.judge(held_out.traces)])
    for name in judges:
        arms[name] = sum(arms[f"{name} on {domain}"] for domain in OTHERS) / len(OTHERS)
    return Outcome(arms, prms.spent(trial, "truth", used_pool="no") + multi.cost)


def _criticised(trial: Trial, world: str) -> list[Judged]:
    """Traces with the first error that a critic names, who overlooks one in ten."""
    given = known(trial, world, trial.size(800, 3))
    said = Noisy(given.truth, 0.1, 0.0, seed=trial.seed).judge(given.traces)
    return [Judged(trace, until_first_error(each)) for trace, each in zip(given.traces, said, strict=True)]
