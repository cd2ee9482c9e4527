"""Reward hacking as proxy compression (survey).

A learned reward is a lossy stand-in of the truth, and a policy that is trained on it finds where they part. The rule of
`footfall.rl.monitors`: reward up and truth down since truth was best, by more than 5 points and more than chance does in one
run of twenty.

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. Truth is logged on the training batches (32 rollouts). A run that is truly
hacked ends more than 10 points of exact accuracy below its best look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import outcome_of, train_all, way
from footfall.rl.monitors import Checkpoint

RECIPE = Recipe(
    name="reward-hacking",
    paper="Reward hacking as proxy compression (survey)",
    arxiv=None, year=2026, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Stopping at the rule's alarm keeps accuracy that training on would lose.",
            metric="accuracy after the last update", direction="higher",
            baseline="trained on", method="stopped at the alarm",
            stand_in="The survey measures nothing; the rule is this library's, tried on policies that are tables.",
        ),
        Claim("The rule tells hacked runs from sound ones more often than the rise of the reward does.",
            metric="share of runs that are called rightly", direction="higher",
            baseline="called by the reward", method="called by the rule",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Runs on sums, which are hacked, and on bounded rewards, which are not: what the rule says and what it saves."""
    sums = {"sum": way("pure", form="sum", coef=0.0), "liked": way("pure", "liked", form="sum"),
            "steps": way("grpo-process")}  # fmt: skip
    sound = {"GRPO": way("grpo"), "minimum": way("pure"), "clipped": way("clip-delta", "liked")}
    trained = train_all(trial, {name: replace(each, proxy="sum") for name, each in sums.items()} | sound)
    runs = [each for row in trained.values() for each in row]
    truly = [float(each.accuracy.mean(axis=1).max()) - each.end > 0.1 for each in runs]
    rose = [proxy(each.run[-5:]) > proxy(each.run[:5]) for each in runs]
    tempted = [each for name in sums for each in trained[name]]
    return outcome_of(
        trained, **{
            "called by the rule": [float(each.hacked == bad) for each, bad in zip(runs, truly, strict=True)],
            "called by the reward": [float(up == bad) for up, bad in zip(rose, truly, strict=True)],
            "trained on": [each.end for each in tempted], "stopped at the alarm": [each.stopped for each in tempted],
        }
    )  # fmt: skip


def proxy(run: Sequence[Checkpoint]) -> float:
    """The mean of what was logged."""
    return sum(float(point.figures["proxy"] or 0.0) for point in run) / len(run)
