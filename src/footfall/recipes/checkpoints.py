"""Published PRM checkpoints and their ports (no paper of its own; the readings of the families in `footfall.reward.families`).

Every PRM hides value_k = head(h(p_k)) behind its own text, read position p_k and order of classes, and a wrong one still
returns plausible numbers. Public ports do this, each seen in the wild:

    too early     p_k − 1, read before the marker instead of at it
    swapped       1 − value: index 0 taken for the good class
    blank lines   steps joined by a blank line where the model was trained on single newlines

What differs: a lab-scale PRM instead of published ones; all four readings are of the same weights, each at the threshold that
is best on other problems. In this vocabulary no token spans a step's end, so text that is joined before it is cut into tokens
does no harm by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import Said, first_error_f1
from footfall.lab.shared.prms import judged_pool, pool, prm, spent
from footfall.render import Reading
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.types import Cost, Judgement, Step, Trajectory

RECIPE = Recipe(
    name="checkpoints",
    paper="Published PRM checkpoints and their ports",
    arxiv=None,
    year=2025,
    stage="model",
    world="arithmetic",
    scale="A PRM of 1.1M parameters on the step truth of 600 traces; a seed has 400 solutions of 100 held-out problems.",
    claims=(
        Claim(
            "A PRM that is read one token too early finds fewer first errors.",
            metric="F1 of the first error",
            direction="lower", baseline="right reading", method="one token too early",
            beside=("right reading at 0.5", "one token too early at 0.5"), threshold="other data",
            stand_in="There is no paper; published scores of the checkpoints need their weights, so a lab-scale PRM "
            "is read wrongly.",
        ),
        Claim(
            "A PRM whose good and bad class are swapped finds fewer first errors.",
            metric="F1 of the first error",
            direction="lower", baseline="right reading", method="classes swapped",
            beside=("right reading at 0.5", "classes swapped at 0.5"), threshold="other data",
        ),
        Claim(
            "A PRM that is given another separator than it was trained on finds fewer first errors.",
            metric="F1 of the first error",
            direction="lower", baseline="right reading", method="blank lines between steps",
            beside=("right reading at 0.5", "blank lines between steps at 0.5"), threshold="other data",
        ),
    ),
)  # fmt: skip


class TooEarly(PRM):
    """Reads each step one token before its end. Loaded with its canary it would be refused."""

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        """As the model reads, each position one token earlier."""
        found = super().reads_of(trajectories)
        return [[Reading(r.ids, tuple(p - 1 for p in r.positions)) for r in readings] for readings in found]


class AnySeparator(PRM):
    """Reads steps with whatever stands between them. A judge would put there what the model was trained with."""

    @property
    def separators(self) -> tuple[str, ...]:
        """None that it knows."""
        return ()


def measure(trial: Trial) -> Outcome:
    """First-error F1 of one PRM, read rightly and in three wrong ways."""
    traces, folder = pool(trial)[::2], prm(trial, "truth").folder
    right = Said.of("PRM", judged_pool(trial, "truth")).judge(traces)
    said: dict[str, list[Judgement]] = {
        "right reading": right,
        "one token too early": PRMJudge(TooEarly.load(folder, device="cpu", check=False)).judge(traces),
        "classes swapped": [replace(j, values=tuple(None if v is None else 1 - v for v in j.values)) for j in right],
        "blank lines between steps": PRMJudge(AnySeparator.load(folder, device="cpu")).judge(
            [Trajectory(t.id, t.problem, tuple(Step(s.text) for s in t.steps), separator="\n\n") for t in traces]
        ),
    }
    arms = {name: first_error_f1(traces, judged) for name, judged in said.items()}
    arms |= {f"{name} at 0.5": first_error_f1(traces, judged, 0.5) for name, judged in said.items()}
    costs = [judgement.cost for name, judged in said.items() if judged is not right for judgement in judged]
    return Outcome(arms, spent(trial, "truth") + Cost.total(costs))
