"""VersaPRM: Multi-Domain Process Reward Model via Synthetic Reasoning Data (Zeng et al., arXiv 2502.06737).

PRMs of mathematics do not carry over to other domains. A critic who is shown the answer names the first bad step e of
solutions from many domains,

    labels  1 before e,  0 at e,  none after it,

and a PRM of mathematics is trained on from there.

What differs: domains are logic, algebra and code, and the PRM of mathematics is the lab's PRM of arithmetic (600 traces, true
labels). The critic is the truth, wrong about one trace in ten, where it says that there is no error. The model is the
embedded one, 1.1M parameters that were made for arithmetic. Best-of-N over multiple-choice questions is not measured, step
AUC is.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import domains, prms
from footfall.label.noisy import chance
from footfall.types import Judged, Trajectory

OTHERS = ("logic", "algebra", "code")

RECIPE = Recipe(
    name="versaprm",
    paper="VersaPRM: Multi-Domain Process Reward Model via Synthetic Reasoning Data",
    arxiv="2502.06737",
    year=2025,
    stage="data",
    world="logic, algebra, code",
    scale="A PRM of the embedded 1.1M-parameter model on 600 arithmetic traces, trained on with 40 traces of each of three "
    "other domains; 40 traces of held-out problems a domain.",
    claims=(
        Claim(
            "Training on many domains improves judging in them over a PRM of mathematics alone.",
            metric="step AUC, mean over logic, algebra and code",
            direction="higher", baseline="arithmetic PRM", method="multi-domain PRM",
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
    maths = prms.judge(trial, "truth")
    rows = [row for domain in OTHERS for row in _criticised(trial, domain)]
    multi, spent = domains.trained(trial, "versaprm", rows, init=prms.prm(trial, "truth").folder)
    arms: dict[str, float] = {}
    for domain in OTHERS:
        held_out = domains.traces(trial, domain, trial.size(40, 3), "test")
        errors = domains.first_errors(domain, held_out)
        arms[f"arithmetic PRM on {domain}"] = domains.step_auc(maths.judge(held_out), errors)
        arms[f"multi-domain PRM on {domain}"] = domains.step_auc(multi.judge(held_out), errors)
    for judge in ("arithmetic PRM", "multi-domain PRM"):
        arms[judge] = sum(arms[f"{judge} on {domain}"] for domain in OTHERS) / len(OTHERS)
    return Outcome(arms, prms.spent(trial, "truth", used_pool="no") + spent)


def _criticised(trial: Trial, domain: str) -> list[Judged]:
    """Traces with the first error that a critic names, who overlooks one in ten."""
    traces: list[Trajectory] = domains.traces(trial, domain, trial.size(40, 3))
    truth = domains.first_errors(domain, traces)
    named = [
        -1 if chance(trial.seed, trace.id, "overlooked") < 0.1 else e for trace, e in zip(traces, truth, strict=True)
    ]
    return domains.first_error_rows("critic", traces, named)
