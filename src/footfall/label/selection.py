"""Which traces are worth a label: convincing wrong answers first (card: prm800k).

Of k picks among the candidates of a problem, 80% are the wrong-answer solutions that the present PRM scores highest; the
others are the highest-scored of the rest, right or wrong, or drawn at random from it. A wrong solution that fools the PRM
is sure to hold an error that the PRM did not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from footfall.types import Trajectory, content_key

Rest = Literal["convincing", "random"]


def convincing_wrong(
    scores: Sequence[float | None],
    correct: Sequence[bool | None],
    k: int,
    wrong_share: float = 0.8,
    rest: Rest = "convincing",
    seed: int = 0,
) -> list[int]:
    """Indices of the picks among one problem's candidates, those for being wrong first; fewer if there are fewer.

    A candidate without a score, or whose outcome is not known, is never picked for being wrong and comes last in the rest.
    """
    if len(scores) != len(correct):
        raise ValueError(f"{len(scores)} scores but {len(correct)} outcomes")
    if not 0 <= wrong_share <= 1 or k < 0:
        raise ValueError(f"{k} picks with a share of {wrong_share:g}: a count and a number in [0, 1] are needed")
    order = sorted(range(len(scores)), key=lambda i: (-_score(scores[i]), i))
    wrong = [i for i in order if correct[i] is False and scores[i] is not None][: round(wrong_share * k)]
    others = [i for i in order if i not in set(wrong)]
    if rest == "random":
        others.sort(key=lambda i: content_key("selection", seed, i))
    others.sort(key=lambda i: scores[i] is None or correct[i] is None)
    return wrong + others[: k - len(wrong)]


def _score(score: float | None) -> float:
    return float("-inf") if score is None else score


def pick_by_problem(
    traces: Sequence[Trajectory],
    scores: Sequence[float | None],
    k: int,
    wrong_share: float = 0.8,
    rest: Rest = "convincing",
    seed: int = 0,
) -> list[Trajectory]:
    """`k` traces of each problem by `convincing_wrong`, problems in the order in which they first occur."""
    groups: dict[str, list[int]] = {}
    for i, trace in enumerate(traces):
        groups.setdefault(trace.problem.id, []).append(i)
    picked: list[Trajectory] = []
    for members in groups.values():
        found = convincing_wrong(
            [scores[i] for i in members], [traces[i].correct for i in members], k, wrong_share, rest, seed
        )
        picked += [traces[members[i]] for i in found]
    return picked
