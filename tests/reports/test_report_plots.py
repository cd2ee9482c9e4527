"""Charts: well-formed, self-contained, and honest about what they cannot draw."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from footfall.reports.charts import Bar, BarGroup, Point, Series, bar_chart, line_chart
from footfall.reports.probabilities import Bin, calibration_plot, mean_absolute_error, scatter
from footfall.reports.search_page import accuracy_svg

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '</text></svg><script>alert("1")</script><svg onload=alert(1)>\x00'
CURVES = {
    "single": [Point(1, 0.51, 0.47, 0.55)],
    "majority": [Point(n, y, y - 0.03, y + 0.03) for n, y in ((1, 0.51), (4, 0.59), (16, 0.64))],
    "weighted_vote": [Point(n, y, y - 0.03, y + 0.03) for n, y in ((1, 0.51), (4, 0.65), (16, 0.713))],
    "oracle": [Point(1, 0.51), Point(4, 0.77), Point(16, 0.905)],
}
BINS = [Bin(0.1, 0.15, 40, 0.1, 0.2), Bin(math.nan, math.nan, 0), Bin(0.9, 0.85, 140300)]
GROUPS = [BarGroup("GSM8K", [Bar("ours", 0.8, 0.7, 0.9), Bar("theirs", -0.1)]), BarGroup(EVIL, [Bar("ours", 0.2)])]


def _line(name: str = "a", points: list[Point] | None = None) -> str:
    series = [Series(name, points or [Point(0, 1), Point(2, 3)])]
    return line_chart(series, label=name, x_label=name, y_label=name, title=name, y_format="number")


CHARTS: dict[str, Callable[[], str]] = {
    "lines": lambda: accuracy_svg(CURVES, title="t", subtitle="s"),
    "narrow lines": lambda: accuracy_svg(CURVES, width=360),
    "one point": lambda: accuracy_svg({"single": [Point(1, 0.5)]}),
    "all equal": lambda: _line(points=[Point(0, 2.5), Point(1, 2.5)]),
    "equal but for rounding": lambda: _line(points=[Point(0, 0.1 + 0.2), Point(1, 0.3)]),
    "all zero": lambda: accuracy_svg({"majority": [Point(1, 0.0), Point(2, 0.0)]}),
    "all one": lambda: accuracy_svg({"majority": [Point(1, 1.0), Point(2, 1.0)]}),
    "huge values": lambda: _line(points=[Point(1e6, -3e9), Point(2e6, 4e9)]),
    "tiny values": lambda: _line(points=[Point(1e-6, 1e-9), Point(2e-6, 2e-9)]),
    "evil names": lambda: _line(EVIL),
    "reliability": lambda: calibration_plot(BINS, label=EVIL, title=EVIL),
    "one bin": lambda: calibration_plot([Bin(0.5, 0.5, 1)], label="r"),
    "scatter": lambda: scatter([(0.1, 0.2), (1.0, 1.0), (0.0, 0.0)], label=EVIL),
    "one dot": lambda: scatter([(0.5, 0.5)], label="s"),
    "equal dots": lambda: scatter([(7.0, 7.0)] * 9, label="s"),
    "bars": lambda: bar_chart(GROUPS, label="b", x_label="F1"),
    "narrow bars": lambda: bar_chart(GROUPS, label="b", x_label="F1", width=360),
    "zero bars": lambda: bar_chart([BarGroup("g", [Bar("s", 0.0)])], label="b", x_label="F1"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_well_formed_and_repeatable_and_needs_nothing_else(name: str) -> None:
    text = CHARTS[name]()
    root = ElementTree.fromstring(text)
    tags = {node.tag.removeprefix(SVG) for node in root.iter()}
    assert root.tag == SVG + "svg" and root.attrib["aria-label"]
    assert tags <= {"svg", "style", "rect", "g", "title", "text", "line", "path", "polygon", "circle"}
    assert not any(a.startswith("on") or "href" in a for node in root.iter() for a in node.attrib)
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in text and "@import" not in text
    assert CHARTS[name]() == text


@pytest.mark.parametrize("name", CHARTS)
def test_no_mark_lies_outside_its_picture(name: str) -> None:
    root = ElementTree.fromstring(CHARTS[name]())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for node in root.iter():
        for x in ("x", "x1", "x2", "cx"):
            assert 0 <= float(node.attrib.get(x, 0)) <= width
        for y in ("y", "y1", "y2", "cy"):
            assert 0 <= float(node.attrib.get(y, 0)) <= height


def test_lines_are_named_at_their_ends_without_overlap() -> None:
    root = ElementTree.fromstring(accuracy_svg({**CURVES, "best_of_n": [Point(1, 0.5), Point(16, 0.712)]}))
    names = {node.text: float(node.attrib["y"]) for node in root.iter(SVG + "text")}
    assert {"weighted vote  71.3%", "best-of-N  71.2%", "majority  64.0%", "oracle  90.5%", "single  51.0%"} <= set(
        names
    )
    ends = sorted(y for name, y in names.items() if name and re.search(r" \d\d\.\d%$", name))
    assert all(b - a >= 18.9 for a, b in pairwise(ends))


def test_names_too_long_for_the_ends_go_into_a_legend() -> None:
    name = "a method with a name that no margin can hold"
    assert name in line_chart([Series(name, [Point(1, 0.5)])], label="l", x_label="x", y_label="y")


def test_a_point_tells_its_value_and_interval() -> None:
    assert "<title>majority at 16: 64.0% [61.0%, 67.0%]</title>" in accuracy_svg(CURVES)


def test_a_method_keeps_its_colour_whatever_else_is_drawn() -> None:
    def colour(text: str) -> str:
        match = re.search(r'<g class="(c\d)[^"]*"><polygon class="band"', text)
        assert match
        return match[1]

    alone = accuracy_svg({"majority": CURVES["majority"]})
    assert colour(alone) == colour(accuracy_svg({"oracle": CURVES["oracle"], "majority": CURVES["majority"]}))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_a_number_is_refused_by_name(bad: float) -> None:
    with pytest.raises(ValueError, match=r"series 'majority', point 2: y is (nan|inf)"):
        accuracy_svg({"majority": [Point(1, 0.5), Point(2, bad)]})
    with pytest.raises(ValueError, match=r"series 'majority', point 1: high"):
        accuracy_svg({"majority": [Point(1, 0.5, 0.4, bad)]})
    with pytest.raises(ValueError, match=r"bin 2: observed"):
        calibration_plot([Bin(0.5, 0.5, 3), Bin(0.5, bad, 3)], label="r")
    with pytest.raises(ValueError, match=r"scatter 's', point 1: label"):
        scatter([(0.5, bad)], label="s")
    with pytest.raises(ValueError, match=r"group 'MATH', bar 'ours': low"):
        bar_chart([BarGroup("MATH", [Bar("ours", 0.5, bad, 0.6)])], label="b", x_label="x")


def test_what_cannot_be_drawn_is_refused_with_the_fix() -> None:
    with pytest.raises(ValueError, match="x_scale='linear'"):
        accuracy_svg({"majority": [Point(0, 0.5)]})
    with pytest.raises(ValueError, match="upside down"):
        accuracy_svg({"majority": [Point(1, 0.5, 0.6, 0.4)]})
    with pytest.raises(ValueError, match="'majority' has no points"):
        accuracy_svg({"majority": []})
    with pytest.raises(ValueError, match="between 0 and 1"):
        calibration_plot([Bin(1.5, 0.5, 3)], label="r")
    with pytest.raises(ValueError, match="lo < hi"):
        line_chart([Series("a", [Point(1, 0.5)])], label="l", x_label="x", y_label="y", y_range=(0.5, 0.5))


def test_a_chart_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="has no series"):
        accuracy_svg({})
    with pytest.raises(ValueError, match="has no bin with a count above 0"):
        calibration_plot([Bin(0.5, 0.5, 0)], label="r")
    with pytest.raises(ValueError, match="has no points"):
        scatter([], label="s")
    with pytest.raises(ValueError, match="has no bars"):
        bar_chart([BarGroup("g", [])], label="b", x_label="x")


def test_a_bar_of_several_series_has_the_mark_that_the_legend_has_so_that_colour_is_not_all() -> None:
    told = bar_chart([BarGroup("MATH", [Bar("ours", 0.5), Bar("theirs", -0.1)])], label="b", x_label="F1")
    assert told.count("<circle") == 2 and told.count("<polygon") == 2, "one in the legend, one beside the value"
    alone = bar_chart([BarGroup("MATH", [Bar("ours", 0.5)])], label="b", x_label="F1")
    assert 'class="mark"' not in alone


def test_mean_absolute_error_on_a_worked_example() -> None:
    # |0.25 - 0.5| = 0.25 and |1 - 0.9| = 0.1
    assert mean_absolute_error([(0.5, 0.25), (0.9, 1.0)]) == pytest.approx(0.175)
    assert "MAE 0.175 over 2" in scatter([(0.5, 0.25), (0.9, 1.0)], label="s")


def test_thousands_of_points_become_bubbles_that_lose_none() -> None:
    rng = np.random.default_rng(0)
    exact = rng.random(20_000)
    text = scatter(list(zip(exact.tolist(), (rng.binomial(8, exact) / 8).tolist(), strict=True)), label="s")
    counts = [int(n.replace(",", "")) for n in re.findall(r"<title>([\d,]+) near", text)]
    assert sum(counts) == 20_000 and len(counts) <= 32 * 9
    assert len(text) < 100_000


def test_a_bubble_s_area_is_its_count() -> None:
    text = scatter([(0.1, 0.1)] * 16 + [(0.9, 0.9)] * 4, label="s")
    small, large = sorted(float(r) for r in re.findall(r'class="bubble"[^>]* r="([\d.]+)"', text))
    assert large / small == pytest.approx(2, abs=0.01)
