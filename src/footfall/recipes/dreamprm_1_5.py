"""DreamPRM-1.5: Unlocking the Potential of Each Instance for Multimodal PRM Training (Cao et al., arXiv 2509.05542).

DreamPRM's weights, one for each training example: a free number of its own (table), or what a small network makes of the PRM's
own step values (net):

    α(x) = clip(θ_x, −1, 3)   or   α(x) = σ(mean_i MLP(p_i, 1 − p_i)),   L_meta = (mean_i P(own sign of the solution)_i − 1)²

What differs: text alone; a value layer reads P(+) at each step's end, so no cold start teaches the model to write signs. Of the
training traces four in ten have their Monte Carlo labels turned over, which nobody is told. The meta set is what is left of the
traces, with their outcomes. The paper's PRM without selection never sees the meta set. Beside it stands one that has it among
its rows, each step labelled by the outcome as the meta loss reads it, in as many updates.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.types import Judged

RECIPE = Recipe(
    name="dreamprm-1.5",
    paper="DreamPRM-1.5: Unlocking the Potential of Each Instance for Multimodal Process Reward Model Training",
    arxiv="2509.05542",
    year=2025,
    stage="train",
    world="arithmetic",
    scale="PRMs of 9.5M parameters on 1,800 traces, and a meta set of 600; 8,000 solutions of 1,000 held-out problems a seed.",
    claims=(
        Claim(
            "A weight for each training trace, by table, gives better best-of-N than no selection among traces and meta set.",
            metric="accuracy, best of 8", direction="higher",
            baseline="no selection and meta set, best of 8", method="table, best of 8",
            stand_in="The paper's PRM without selection does not see the meta set, so that what is won may be the set's. Its "
            "examples are multimodal; here four traces in ten have labels turned over.",
        ),
        Claim(
            "A weight for each training trace, by table, gives better best-of-N than no selection.",
            metric="accuracy, best of 8", direction="higher",
            baseline="no selection, best of 8", method="table, best of 8",
            stand_in="The paper's examples are multimodal; here four traces in ten have labels turned over.",
        ),
        Claim(
            "Weights by a small network give better best-of-N than no selection among traces and meta set.",
            metric="accuracy, best of 8", direction="higher",
            baseline="no selection and meta set, best of 8", method="net, best of 8",
            stand_in="The paper's PRM without selection does not see the meta set, so that what is won may be the set's. Its "
            "examples are multimodal; here four traces in ten have labels turned over.",
        ),
        Claim(
            "Weights by a small network give better best-of-N than no selection.",
            metric="accuracy, best of 8", direction="higher", baseline="no selection, best of 8", method="net, best of 8",
            stand_in="The paper's examples are multimodal; here four traces in ten have labels turned over.",
        ),
        Claim(
            "By table, traces whose labels are turned over end with less weight than the others.",
            metric="mean weight", direction="lower", smallest_effect=0.1,
            baseline="honest labels, weight", method="labels turned over, weight",
            stand_in="The paper does not know which of its labels are wrong.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-8 with a weight for each trace and without, and the weights of honest and of turned labels."""
    trial = prms.large(trial)
    given = prms.arm_rows(trial)[: trial.size(1800, 8)]
    turned = (np.random.default_rng(trial.seed).permutation(len(given)) % 5 < 2).tolist()
    rows = [_turned(row) if wrong else row for row, wrong in zip(given, turned, strict=True)]
    own = list(range(len(rows)))
    plain, _ = prms.reweighted_arm(trial, rows, own, "table", 0.0)
    fair, _ = prms.reweighted_arm(trial, rows, own, "table", 0.0, with_meta=True)
    table, weights = prms.reweighted_arm(trial, rows, own, "table", 0.05)
    net, _ = prms.reweighted_arm(trial, rows, own, "net", 0.01)
    trained = {"no selection": plain, "no selection and meta set": fair, "table": table, "net": net}
    arms = prms.figures(trial, trained, "mean")
    for name, side in (("honest labels", False), ("labels turned over", True)):
        arms[f"{name}, weight"] = fmean(weights[k] for k in own if turned[k] is side)
    return Outcome(arms, prms.spent_on(trial, prms.rolled_out(trial), trained.values()))


def _turned(row: Judged) -> Judged:
    assert row.judgement is not None
    values = tuple(None if v is None else 1 - v for v in row.judgement.values)
    return Judged(row.trajectory, replace(row.judgement, values=values))
