"""Markup that its content cannot break, and the layout arithmetic under the charts."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from footfall.reports.svg import Scale, canvas, clip, element, escape, number, shown, spread, text_width, ticks


@given(st.text(st.characters(), max_size=40))
def test_any_text_survives_as_text_in_a_child_and_in_an_attribute(text: str) -> None:
    node = ElementTree.fromstring(element("g", text, aria_label=text))
    legal = "".join(c if c in "\t\n\r" or c >= " " else "\ufffd" for c in text)
    legal = "".join("\ufffd" if "\ud800" <= c <= "\udfff" or c in "\ufffe\uffff" else c for c in legal)
    # XML readers turn line ends into \n and white space of attributes into spaces.
    assert (node.text or "") == legal.replace("\r\n", "\n").replace("\r", "\n")
    assert len(list(node)) == 0 and list(node.attrib) == ["aria-label"]


def test_markup_is_not_escaped_twice() -> None:
    assert escape(escape("a < b")) == "a &lt; b"
    assert element("g", element("b", "<"), "<") == "<g><b>&lt;</b>&lt;</g>"


def test_attribute_names_are_written_with_hyphens_and_none_is_left_out() -> None:
    assert element("line", stroke_width=1.50, class_="a", x1=None) == '<line stroke-width="1.5" class="a"/>'


@pytest.mark.parametrize(("value", "text"), [(-0.001, "0"), (12.5, "12.5"), (3, "3"), (1 / 3, "0.33"), (-2.0, "-2")])
def test_a_coordinate_has_at_most_two_decimals_and_no_negative_zero(value: float, text: str) -> None:
    assert number(value) == text


def test_a_coordinate_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="nan"):
        element("circle", r=math.nan)


def test_a_canvas_carries_its_style_and_says_what_it_shows() -> None:
    root = ElementTree.fromstring(canvas(10, 20, 'A "label"', Markup()))
    assert root.attrib["viewBox"] == "0 0 10 20"
    assert root.attrib["role"] == "img" and root.attrib["aria-label"] == 'A "label"'
    style = root.find("{http://www.w3.org/2000/svg}style")
    assert style is not None and "prefers-color-scheme: dark" in (style.text or "")


def test_ticks_are_round_and_inside_the_range() -> None:
    assert ticks(0.0, 1.0, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(0.476, 0.93, 6) == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9])
    assert ticks(1, 3, 10, least=1) == [1, 2, 3]


def test_a_log2_scale_puts_doublings_at_equal_distances() -> None:
    scale = Scale(1, 16, 0, 400, log2=True)
    assert [scale(n) for n in (1, 2, 4, 8, 16)] == [0, 100, 200, 300, 400]
    assert scale.ticks(apart=30) == [1, 2, 4, 8, 16]
    assert scale.ticks(apart=150) == [1, 8]


def test_an_axis_has_two_ticks_however_narrow_it_is() -> None:
    """One alone tells no distance, and nobody knows how many decimals it needs."""
    assert Scale(1, 36, 0, 110, whole=True).ticks(apart=56) == [10, 20, 30]
    assert Scale(0, 0.47, 0, 100).ticks(apart=64) == pytest.approx([0, 0.2, 0.4])


@pytest.mark.parametrize(
    ("value", "form", "step", "text"),
    [(0.7131, "percent", 0.001, "71.3%"), (0.5, "percent", 0.1, "50%"), (-0.031, "number", 0.001, "−0.031"),
     (-0.0001, "percent", 0.001, "0.0%"), (1200, "number", 100, "1,200")],
)  # fmt: skip
def test_numbers_are_shown_with_the_decimals_they_need(value: float, form: str, step: float, text: str) -> None:
    assert shown(value, "percent" if form == "percent" else "number", step) == text


def test_labels_that_do_not_touch_stay_where_they_are() -> None:
    assert spread([10, 90, 50], 19, 0, 100) == [10, 90, 50]


def test_labels_that_touch_move_apart_by_the_same_amount() -> None:
    assert spread([50, 50], 20, 0, 100) == [40, 60]
    assert spread([98, 99], 20, 0, 100) == [80, 100]


@given(st.lists(st.floats(0, 300), min_size=1, max_size=8))
def test_spread_keeps_order_distance_and_bounds(wanted: list[float]) -> None:
    placed = spread(wanted, 19, 0, 300)
    ordered = [p for _, p in sorted(zip(wanted, placed, strict=True))]
    assert all(b - a >= 19 - 1e-6 for a, b in pairwise(ordered))
    assert min(placed) >= 0 and max(placed) <= 300 + 1e-6


def test_long_text_is_cut_to_the_width_it_has() -> None:
    assert clip("short", 100) == "short"
    cut = clip("a rather long name of a method", 80)
    assert cut.endswith("…") and text_width(cut) <= 80
    assert text_width("数学") > text_width("ab")
