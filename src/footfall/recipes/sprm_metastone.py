"""SPRM of MetaStone-S1: Test-Time Scaling with Reflective Generative Model (Wang et al., arXiv 2507.01951).

A small head on the policy's own state before its last layer, trained on outcomes alone; of the steps of a trace only those
count with whose outcome the head agrees already,

    keep step i iff (logit_i > 0 and y = 1) or (logit_i < 0 and y = 0);   a solution is worth the geometric mean of its steps

which leaves most wrong labels out. The policy gets a ten-thousandth of the gradient.

What differs: the head is trained on stored traces of the policy, not while it is trained by GRPO, at its own learning rate.
Alone, Adam would undo the factor of the gradient, so the policy gets that share of the learning rate. Steps are read at their
own last token. Beside it stands the same head on the outcome of every step, and a separate PRM of all weights.
"""

from __future__ import annotations

import math
from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.label.freeprm import OutcomeLabels
from footfall.search.votes import LEAST
from footfall.train.config import TrainConfig
from footfall.types import Judged, Judgement

RECIPE = Recipe(
    name="sprm-metastone",
    paper="Test-Time Scaling with Reflective Generative Model",
    arxiv="2507.01951",
    year=2025,
    stage="model",
    world="arithmetic",
    scale="A head on the policy of 9.5M parameters, on the outcomes of 2,400 traces; 8,000 solutions of 1,000 problems a seed.",
    claims=(
        Claim(
            "A head on the policy's own state with the filter gives better best-of-N than a separate PRM on outcomes.",
            metric="accuracy, best of 8", direction="higher",
            baseline="separate PRM, best of 8", method="self-agreement, best of 8", beside=("all steps, best of 8",),
        ),
        Claim(
            "The filter gives better best-of-N than the outcome on every step, with the same head.",
            metric="accuracy, best of 8", direction="higher",
            baseline="all steps, best of 8", method="self-agreement, best of 8",
        ),
        Claim(
            "With the filter the head finds first errors better than with the outcome on every step.",
            metric="F1 of the first error", direction="higher", baseline="all steps", method="self-agreement",
            beside=("separate PRM",), threshold="other data",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-8 and first-error F1 of heads on the policy's state, with the filter and without, and of a PRM."""
    trial = prms.large(trial)
    traces = prms.arm_traces(trial)
    rows = list(map(Judged, traces, OutcomeLabels().judge(traces)))
    trained = {
        "separate PRM": prms.arm(trial, rows, "bce", threshold=0.5),
        "all steps": prms.arm_with(trial, rows, TrainConfig("bce", {"threshold": 0.5}, lr=3e-4, head="policy-state")),
        "self-agreement": prms.arm_with(trial, rows, TrainConfig("self-agreement", lr=3e-4, head="policy-state")),
    }
    return Outcome(prms.figures(trial, trained, "mean", _logs), prms.spent_on(trial, (), trained.values()))


def _logs(said: Judgement) -> Judgement:
    """The mean of these ranks as the geometric mean of the values does."""
    return replace(said, values=tuple(None if v is None else math.log(max(v, LEAST)) for v in said.values))
