"""The demo's page: one file, safe with hostile traces, complete, the same bytes every time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from footfall.demo.loop import write_picture
from footfall.reports import pages
from footfall.reports.charts import Point
from footfall.reports.demo_page import (
    Comparison,
    DemoReport,
    LabelPair,
    report_html,
    verdict,
    write_report,
)
from footfall.reports.pages import CostRow, Section, cost_table, figure, page, table
from footfall.reports.probabilities import Bin
from footfall.reports.traces import StepView, TraceView, trace_verdict
from footfall.types import Cost

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"&</style></title>\x00\ud800"
COMPARISON = Comparison("weighted_vote", "majority", 16, 0.713, 0.640, 0.041, 0.106)
TRACE = TraceView(
    problem_id="arith-7-0002",
    problem="Mia has 14 marbles.",
    steps=[StepView("3 * 6 = 18.", 0.88, 0.9), StepView("14 + 18 = 31.", 0.12), StepView("So 31.", None)],
    answer="31",
    reference="32",
    correct=False,
    true_first_error=1,
    predicted_first_error=1,
)
REPORT = DemoReport(
    seed=7,
    model="tiny",
    version="0.1.0",
    problems=300,
    comparison=COMPARISON,
    accuracy_curves={
        "single": [Point(1, 0.51, 0.47, 0.55)],
        "majority": [Point(1, 0.51), Point(16, 0.64, 0.6, 0.68)],
        "weighted_vote": [Point(1, 0.51), Point(16, 0.713, 0.68, 0.75)],
    },
    reliability=[Bin(0.1, 0.15, 40), Bin(0.9, 0.85, 140)],
    label_pairs=[LabelPair(0.5, 0.25), LabelPair(0.9, 1.0)],
    cost=[CostRow("sample", Cost(100, 20, 3000, 0, 1e9, 1.5, 4)), CostRow("label", Cost(200, 0, 4000, 0, 2e9, 2.5, 6))],
    traces=[TRACE],
    ece=0.024,
    brier=0.131,
    first_error_f1=0.682,
    facts={"aggregation": "prod"},
    config={"seed": 7, "sample": {"n": 16}},
)


def parsed(text: str) -> ElementTree.Element:
    """The page as XML: every tag is closed, so this also proves that nothing broke out of its place."""
    return ElementTree.fromstring(text)


def words(node: ElementTree.Element) -> str:
    return " ".join(" ".join(node.itertext()).split())


def find(root: ElementTree.Element, tag: str, style: str) -> list[ElementTree.Element]:
    return [node for node in root.iter(tag) if style in node.attrib.get("class", "").split()]


def test_the_verdict_reads_as_in_a_paper() -> None:
    assert verdict(COMPARISON) == "weighted vote 71.3% vs majority 64.0% at N=16: +7.3 [4.1, 10.6]"
    worse = Comparison("best_of_n", "majority", 4, 0.5, 0.55, -0.09, -0.0001)
    assert verdict(worse) == "best-of-N 50.0% vs majority 55.0% at N=4: −5.0 [−9.0, 0.0]"


@pytest.mark.parametrize(
    ("low", "high", "said"), [(0.01, 0.2, "lies above zero"), (-0.2, -0.1, "lies below zero"), (-0.1, 0.1, "too close to call")]
)  # fmt: skip
def test_the_page_says_what_the_interval_means(low: float, high: float, said: str) -> None:
    text = report_html(replace(REPORT, comparison=replace(COMPARISON, low=low, high=high)))
    assert said in text


def test_the_page_holds_everything_the_demo_measured() -> None:
    root = parsed(report_html(REPORT))
    text = words(root)
    for part in (
        "Weighted vote 71.3% vs majority 64.0% at N=16: +7.3 [4.1, 10.6]", "seed 7", "model tiny", "version 0.1.0",
        "aggregation prod", "ECE 0.024, Brier score 0.131", "MAE 0.175 over 2 prefixes", "first-error F1 0.682",
        "How to read this", "Configuration", '"n": 16', "Mia has 14 marbles.", "answer 31", "reference 32",
    ):  # fmt: skip
        assert part in text, part
    # The accuracy chart is drawn for a desk and for a phone.
    assert sum(node.tag.endswith("}svg") for node in root.iter()) == 4


def test_a_hostile_trace_stays_text_everywhere() -> None:
    trace = replace(
        TRACE, problem_id=EVIL, problem=EVIL, steps=[StepView(EVIL, 0.3)], answer=EVIL, reference=EVIL,
        true_first_error=0, predicted_first_error=0,
    )  # fmt: skip
    report = replace(
        REPORT, traces=[trace], model=EVIL, title=EVIL, summary=EVIL, facts={EVIL: EVIL}, config={EVIL: EVIL},
        cost=[CostRow(EVIL, Cost())], accuracy_curves={EVIL: [Point(1, 0.5), Point(2, 0.6)]},
        comparison=replace(COMPARISON, method=EVIL, baseline=EVIL),
    )  # fmt: skip
    root = parsed(report_html(report))
    tags = {node.tag.rpartition("}")[2] for node in root.iter()}
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form", "a", "foreignObject"}
    assert not any(
        name.lower().startswith("on") or "href" in name or name == "src" for n in root.iter() for name in n.attrib
    )
    (step,) = find(root, "li", "step")
    assert "<script>alert(1)</script>" in words(step)
    assert "<script>" in words(next(root.iter("h3")))


def test_the_page_is_self_contained_and_forbids_scripts() -> None:
    text = report_html(REPORT)
    assert set(re.findall(r"https?://[^\"'\s)<]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "<script" not in text and "url(" not in text and "@import" not in text and "javascript:" not in text
    policy = next(n.attrib["content"] for n in parsed(text).iter("meta") if n.attrib.get("http-equiv"))
    assert policy.startswith("default-src 'none'") and "script-src" not in policy


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    one = write_report(tmp_path / "deep" / "a.html", REPORT)
    two = write_report(str(tmp_path / "b.html"), REPORT)
    assert one.read_bytes() == two.read_bytes() == report_html(REPORT).encode()
    assert [p.name for p in one.parent.iterdir()] == ["a.html"]


def test_a_step_shows_its_value_as_colour_number_and_sign() -> None:
    good, bad, unjudged = find(parsed(report_html(REPORT)), "li", "step")
    assert "v4" in good.attrib["class"] and "✓ 0.88" in words(good)
    assert "v0" in bad.attrib["class"] and "✗ 0.12" in words(bad)
    assert "unjudged" in unjudged.attrib["class"] and "? n/a" in words(unjudged)
    assert find(good, "span", "value")[0].attrib["title"] == "value 0.880, exact 0.900"
    assert [i.attrib["style"] for i in good.iter("i")] == ["left:90%"] and not list(bad.iter("i"))


def test_a_value_at_the_threshold_is_not_an_error() -> None:
    trace = replace(
        TRACE, steps=[StepView("x", 0.5), StepView("y", 1.0)], true_first_error=-1, predicted_first_error=-1
    )
    first, last = find(parsed(report_html(replace(REPORT, traces=[trace], threshold=0.5))), "li", "step")
    assert "✓ 0.50" in words(first) and "v4" in last.attrib["class"]


def test_true_and_predicted_first_errors_are_marked_on_their_steps() -> None:
    trace = replace(TRACE, true_first_error=0, predicted_first_error=1)
    steps = find(parsed(report_html(replace(REPORT, traces=[trace]))), "li", "step")
    assert ["first error" in words(s) for s in steps] == [True, False, False]
    assert ["PRM’s pick" in words(s) for s in steps] == [False, True, False]


@pytest.mark.parametrize(
    ("true", "predicted", "said"),
    [(1, 1, "first error found"), (-1, -1, "no error, none predicted"), (-1, 0, "false alarm"), (1, -1, "error missed"),
     (0, 2, "off by 2 steps, late"), (2, 1, "off by 1 step, early"), (None, 0, "truth not known"),
     (0, None, "not fully judged")],
)  # fmt: skip
def test_a_trace_s_verdict_is_said_in_words(true: int | None, predicted: int | None, said: str) -> None:
    assert trace_verdict(replace(TRACE, true_first_error=true, predicted_first_error=predicted)) == said


def test_what_was_not_measured_is_left_out() -> None:
    bare = replace(
        REPORT, traces=[], reliability=[], label_pairs=[], cost=[], ece=None, brier=None, first_error_f1=None,
        facts={}, config={}, accuracy_curves={"majority": [Point(1, 0.5)]},
    )  # fmt: skip
    root = parsed(report_html(bare))
    assert [words(h) for h in root.iter("h2")] == ["How to read this", "Accuracy against the number of samples"]


def test_a_trace_without_steps_or_answer_is_still_shown() -> None:
    empty = replace(
        TRACE, steps=[], answer=None, reference=None, correct=None, true_first_error=None, predicted_first_error=-1
    )
    text = words(parsed(report_html(replace(REPORT, traces=[empty]))))
    assert "This trace has no steps." in text and "answer none" in text and "answer not checked" in text


def test_values_that_cannot_be_shown_are_refused_by_trace_and_step() -> None:
    with pytest.raises(ValueError, match=r"problem 'arith-7-0002', step 2: value is nan"):
        replace(TRACE, steps=[StepView("a", 0.1), StepView("b", math.nan)])
    with pytest.raises(ValueError, match=r"step 1: value is 1.5; the report shows values from 0 to 1"):
        replace(TRACE, steps=[StepView("a", 1.5), StepView("b", 0.5)])
    with pytest.raises(ValueError, match="true_first_error is 3, but there are 3 steps"):
        replace(TRACE, true_first_error=3)
    with pytest.raises(ValueError, match="low is nan"):
        replace(COMPARISON, low=math.nan)
    with pytest.raises(ValueError, match="report: ece is inf"):
        replace(REPORT, ece=math.inf)


def test_a_configuration_that_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="report: config is not plain JSON"):
        report_html(replace(REPORT, config={"lr": math.nan}))


def test_the_cost_table_adds_up() -> None:
    rows = [[words(cell) for cell in row] for row in parsed(cost_table(REPORT.cost)).iter("tr")]
    assert rows[1] == ["sample", "100", "20", "3,000", "–", "4", "1.00e+09", "1.5"]
    assert rows[-1] == ["total", "300", "20", "7,000", "–", "10", "3.00e+09", "4.0"]


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="'F1 by split': row 2 has 1 cells for 2 columns"):
        table(["split", "F1"], [["math", "0.6"], ["gsm8k"]], caption="F1 by split")


def test_another_report_is_a_few_lines() -> None:
    section = Section(
        "ProcessBench", [figure(Markup("<svg/>"), "By split & model"), table(["split"], [["<math>"]])], "F1."
    )
    root = parsed(page("Bench", section.markup()))
    assert words(next(root.iter("h2"))) == "ProcessBench"
    assert words(next(root.iter("figcaption"))) == "By split & model" and "<math>" in words(root)


def _light(colour: str) -> float:
    """The relative luminance of a colour, as WCAG has it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(
        weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
    )


def test_text_has_contrast_on_every_ground_in_light_and_dark() -> None:
    """4.5 to 1, what WCAG asks of small text; and no rule fades text behind its colour."""
    css = (Path(pages.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    assert "opacity" not in css
    schemes = [
        dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    ]
    assert len(schemes) == 2
    for colours in schemes:
        for text in ("ink", "muted"):
            for ground in ("surface", "raised", "t0", "t1", "t2", "t3", "t4"):
                dark, light = sorted((_light(colours[text]), _light(colours[ground])))
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


def test_the_picture_of_the_demo_comes_wide_and_narrow(tmp_path: Path) -> None:
    write_picture(tmp_path / "demo.svg", REPORT)
    widths = [
        float(ElementTree.parse(tmp_path / name).getroot().attrib["viewBox"].split()[2])
        for name in ("demo.svg", "demo-narrow.svg")
    ]
    assert widths[1] <= 400 < widths[0]
