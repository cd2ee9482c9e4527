"""The three labels of pathfinder-prm: what ratings say by themselves, and what a judge is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from footfall.label.error_types import DENIED, ErrorTypes, three_labels
from footfall.types import Judgement, Problem, Step, Trajectory

FINE = (1.0, 1.0, 1.0)


def test_the_card_s_label_builder() -> None:
    assert three_labels(1, ()) == FINE
    assert three_labels(0, ()) == (1, 1, 0), "nothing is wrong with it, but it does not lead on: not good"
    assert three_labels(-1, [(0.0, 1.0, 1.0)]) == (0, 1, 1)
    assert three_labels(-1, [FINE, None, (1.0, 0.0, 1.0)]) == (1, 0, 1), "asked again where it denies the rating"
    assert three_labels(-1, [FINE, FINE, FINE]) is None


class Says:
    """A judge with fixed values or aspects, by the text of a step."""

    def __init__(self, said: dict[str, tuple[float, ...]], kinds: tuple[str, ...] = ()) -> None:
        self.said, self.kinds, self.name, self.asked = said, kinds, "says", 0

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.asked += len(trajectories)
        return [self._judge(t) for t in trajectories]

    def _judge(self, t: Trajectory) -> Judgement:
        rows = [self.said[step.text] for step in t.steps]
        aspects = {kind: tuple(row[k] for row in rows) for k, kind in enumerate(self.kinds)}
        return Judgement(t.id, tuple(row[0] for row in rows), self.name, aspects=aspects)


def test_steps_are_good_only_if_all_three_labels_are_and_only_doubtful_traces_are_asked_about() -> None:
    traces = [
        Trajectory("a", Problem("p", "q"), tuple(map(Step, ("good", "idle")))),
        Trajectory("b", Problem("p", "q"), tuple(map(Step, ("good", "sum", "odd")))),
    ]
    ratings = Says({"good": (1.0,), "idle": (0.0,), "sum": (-1.0,), "odd": (-1.0,)})
    first = Says({"good": (1.0, 1.0), "sum": (0.0, 1.0), "odd": (1.0, 1.0)}, ("math", "consistency"))
    second = Says({"good": (1.0, 1.0), "sum": (1.0, 0.0), "odd": (1.0, 0.0)}, ("math", "consistency"))
    one, two = ErrorTypes(ratings, (first, second)).judge(traces)
    assert one.values == (1.0, 0.0) and one.aspects == {"math": (1, 1), "consistency": (1, 1)}
    assert two.values == (1.0, 0.0, 0.0)
    assert two.aspects == {"math": (1, 0, 1), "consistency": (1, 1, 0)}, "the first word on a step counts"
    assert first.asked == second.asked == 1, "a trace without a wrong step needs nobody"
    _, denied = ErrorTypes(ratings, (first,)).judge(traces)
    assert denied.values == (1.0, 0.0, None) and denied.failures[2] is DENIED
