"""Quality against tokens: the advice that never falls as the budget grows, exact ties, and tables that a reader opens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.metrics.intervals import Interval, mean_of_seeds
from footfall.studies.frontier import advised, beats, cheapest_as_good, clearly_better, ties
from footfall.studies.report import equals, folded, how_sure

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Spot:
    """A method at a place, with its outcomes."""

    tokens: float
    outcomes: tuple[float, ...]
    method: str = "m"
    dial: str = "n"
    budget: float = 4

    @property
    def accuracy(self) -> Interval:
        return mean_of_seeds(self.outcomes)


CHEAP, MIDDLE, DEAR = Spot(10, (0.5,) * 4), Spot(30, (0.6,) * 4), Spot(90, (1.0, 0.4, 0.9, 0.5))


def test_advice_does_not_go_back_to_what_a_smaller_budget_has_left_behind() -> None:
    assert clearly_better(MIDDLE, CHEAP) and not clearly_better(DEAR, CHEAP) and not clearly_better(DEAR, MIDDLE)
    alone = cheapest_as_good([CHEAP, MIDDLE, DEAR], 100)
    assert alone is not None and alone.point is CHEAP, "by itself the high budget would be advised the cheapest"
    low, middle, high = advised([CHEAP, MIDDLE, DEAR], [20, 50, 100])
    assert low is not None and middle is not None and high is not None
    assert (low.point, middle.point, high.point) == (CHEAP, MIDDLE, MIDDLE) and high.best is DEAR
    assert (low.again, middle.again, high.again) == (False, False, True)


def test_what_another_beats_is_never_advised() -> None:
    steady, beaten, best = Spot(10, (0.70, 0.72)), Spot(20, (0.2, 1.0)), Spot(30, (0.90, 0.92))
    assert beats(steady, beaten) and clearly_better(best, steady) and not clearly_better(best, beaten)
    (choice,) = advised([steady, beaten, best], [40])
    assert choice is not None and choice.point is best


def test_nothing_is_advised_where_nothing_fits_and_budgets_are_in_order() -> None:
    assert advised([CHEAP], [5, 20])[0] is None and advised([], [5]) == [None]
    with pytest.raises(ValueError, match="from small to large"):
        advised([CHEAP], [20, 5])


SPOTS = st.integers(1, 8).flatmap(
    lambda n: st.lists(
        st.builds(Spot, st.integers(0, 60).map(float), st.tuples(*[st.integers(0, 4).map(lambda i: i / 4)] * n)),
        max_size=12,
    )
)


@given(SPOTS, st.lists(st.integers(0, 70), min_size=1, max_size=5).map(sorted))
def test_advised_accuracy_never_falls_with_the_budget_and_every_point_fits(
    points: list[Spot], limits: list[int]
) -> None:
    found = advised(points, limits)
    for limit, choice in zip(limits, found, strict=True):
        assert (choice is None) == (not any(p.tokens <= limit for p in points))
        if choice is not None:
            assert choice.point.tokens <= limit and choice.best.tokens <= limit
            assert choice.best.accuracy.value == max(p.accuracy.value for p in points if p.tokens <= limit)
            assert not clearly_better(choice.best, choice.point)
            assert not any(beats(other, choice.point) for other in points)
    there = [choice for choice in found if choice is not None]
    for before, after in pairwise(there):
        assert after.point.accuracy.value >= before.point.accuracy.value
        assert after.again == (after.point is before.point)


def test_exact_ties_stand_together_and_are_named() -> None:
    same = [
        Spot(10, (0.5,), "a"),
        Spot(10, (0.5,), "b"),
        Spot(10, (0.5,), "a", budget=8),
        Spot(10, (0.5,), "c", "width", 2),
    ]
    first, *others = ties([*same, Spot(10, (0.6,))])[0]
    assert [first, *others] == same and len(ties([*same, Spot(10, (0.6,))])) == 2
    assert equals(first, others) == " and `b`, with n 8, `c` with width 2" and equals(first, []) == ""


def test_how_sure_a_point_is_is_said_in_words() -> None:
    told = how_sure([Spot(1, (0.0, 1.0)), DEAR], "4 problems")
    assert told.startswith("Each point has 4 problems; its 95% interval is ") and "at most." in told
    assert how_sure([Spot(1, (1.0,))], "1 problem") == "Each point has 1 problem and no interval."


def test_a_folded_table_is_a_table_on_the_site() -> None:
    assert "md_in_html" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    markdown = pytest.importorskip("markdown")
    html = markdown.markdown(folded("all", "| a |\n| --- |\n| `x` \\* |\n"), extensions=["tables", "md_in_html"])
    assert "<summary>all</summary>" in html and "<td><code>x</code> *</td>" in html and html.endswith("</details>")
