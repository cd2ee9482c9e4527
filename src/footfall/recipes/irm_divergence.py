"""Beyond Training Objectives: Interpreting Reward Model Divergence in Large Language Models (Marks et al., arXiv 2310.08164).

What tuning changed in a model acts like a reward. It is read out of the layers whose weights moved most: features of a sparse
autoencoder where a step ends, for the same trace with a good, a bad and a neutral step, and ridge regression to the signed
distance from the neutral one,

    y+ = ‖F+ − F0‖,   y− = −‖F− − F0‖

which knows nothing of the reward. How far the implied reward agrees with the one that was trained for shows what was learned.

What differs: the model is tuned as a PRM on the truth of steps, not by PPO on a sentiment lexicon, and compared with its own
values. Good steps are right ones of the policy, bad ones have another result, neutral ones leave the mathematics out. No
language model describes the features.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.reward.divergence import Contrast, read_out
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.reward.views import words
from footfall.types import Cost, Step, Trajectory
from footfall.worlds import ArithmeticWorld

RECIPE = Recipe(
    name="irm-divergence",
    paper="Beyond Training Objectives: Interpreting Reward Model Divergence in Large Language Models",
    arxiv="2310.08164",
    year=2023,
    stage="eval",
    world="arithmetic",
    scale="A PRM of 1.1M parameters, tuned from the policy on the truth of 600 traces; a seed has up to 120 contrasts.",
    claims=(
        Claim(
            "The reward that is implied by what tuning changed follows the trained one better than a random probe.",
            metric="correlation with the PRM's values", direction="higher",
            baseline="random probe", method="implied reward", beside=("read from the model before tuning",),
            stand_in="The paper tunes by PPO on a sentiment lexicon; here a PRM is tuned on the truth of steps.",
        ),
        Claim(
            "It follows the trained reward better than what is read from the model before tuning.",
            metric="correlation with the PRM's values", direction="higher",
            baseline="read from the model before tuning", method="implied reward",
            stand_in="The paper tunes by PPO on a sentiment lexicon; here a PRM is tuned on the truth of steps.",
        ),
    ),
)  # fmt: skip
RESULT = re.compile(r"= ([0-9]+)")


def measure(trial: Trial) -> Outcome:
    """Correlations of implied rewards with the PRM's values, on contrasts that the probe was not fitted to."""
    tuned = PRM.load(prms.prm(trial, "truth").folder, device=trial.device)
    base = PRM.from_backbone(prms.backbone(trial), seed=trial.seed).to(trial.device)
    found = [made for trace in prms.arm_pool(trial) if (made := _contrast(trace)) is not None]
    contrasts, updates = found[: trial.size(120, 8)], trial.size(200, 10)
    after = read_out(base, tuned, contrasts, updates=updates, seed=trial.seed)
    before = read_out(base, tuned, contrasts, updates=updates, of=base, seed=trial.seed)
    said = PRMJudge(tuned).judge(after.points)
    values = np.array([judgement.values[-1] for judgement in said], dtype=np.float64)
    implied = {
        "implied reward": after.implied,
        "read from the model before tuning": before.implied,
        "random probe": after.chance,
    }
    arms = {name: float(np.corrcoef(row, values)[0, 1]) for name, row in implied.items()}
    return Outcome(arms, prms.spent(trial, "truth", used_pool="sampled") + Cost.total(each.cost for each in said))


def _contrast(trace: Trajectory) -> Contrast | None:
    """The steps up to the last right equation, with that step right, with another result, and without its mathematics."""
    error = ArithmeticWorld().first_error(trace)
    right = trace.steps[: error if error >= 0 else len(trace.steps)]
    at = max((k for k, step in enumerate(right) if RESULT.search(step.text)), default=None)
    if at is None:
        return None
    step = right[at].text
    wrong = RESULT.sub(lambda m: f"= {int(m[1]) + 1}", step)
    plain = tuple(each.without_ids() for each in right[:at])
    return Contrast(*(replace(trace, steps=(*plain, Step(text))) for text in (step, wrong, words(step))))
