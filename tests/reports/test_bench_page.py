"""The page of a benchmark: one file, complete, safe with hostile names, the same bytes every time."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from footfall.benchmarks.processbench import measure
from footfall.benchmarks.runner import Benchmark, Report, know_nothing, measured
from footfall.metrics.cases import Case, RandomJudge
from footfall.metrics.diagnostics import diagnose
from footfall.reports.bench_page import BenchView, bench_page, suite_page
from footfall.reports.pages import Named
from footfall.types import Cost, Judgement, Problem, Step, Trajectory

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"&</style>\x00"


def view(name: str = "small") -> BenchView:
    cases = []
    for k in range(12):
        truth = (1.0, 1.0, 1.0) if k % 3 == 0 else (1.0, 0.0, None) if k % 3 == 1 else (0.0, None, None)
        trajectory = Trajectory(str(k), Problem(str(k), "?"), tuple(Step(f"{k} {i}") for i in range(3)))
        cases.append(Case("easy" if k < 6 else "hard", trajectory, Judgement(str(k), truth, "human")))
    published = {"Model-7B": {"easy": 81.25, "elsewhere": 3.0}}
    benchmark = Benchmark(
        name, cases, measure, "first below", "f1", "sha256:abc", published=published, notes=("a note",)
    )
    found = measured(benchmark, RandomJudge(), resamples=50)
    return BenchView(
        found.report, diagnose(found.cases, found.judgements, 0.5), published, "runs/prm",
        know_nothing(benchmark, found.cases, 0), list(zip(found.cases, found.judgements, strict=True)),
    )  # fmt: skip


def test_data_is_named_as_it_was_typed_with_its_hash_beside() -> None:
    text = " ".join(parsed(bench_page(replace(view(), data="ProcessBench/"))).itertext())
    assert "ProcessBench/ (sha256:abc)" in text


def changed(given: BenchView, **report: object) -> BenchView:
    return replace(given, report=replace(given.report, **report))  # type: ignore[arg-type]


def parsed(text: str) -> ElementTree.Element:
    """As XML: every tag is closed, so nothing broke out of its place."""
    return ElementTree.fromstring(text)


def words(node: ElementTree.Element) -> str:
    return " ".join(" ".join(node.itertext()).split())


def headings(text: str) -> list[str]:
    return [words(node) for node in parsed(text).iter("h2")]


def test_a_page_has_all_that_a_paper_shows() -> None:
    assert headings(bench_page(view())) == [
        "Figures", "f1 by category", "Beside judges that know nothing", "Beside published figures", "Steps called wrong",
        "Precision and recall against the threshold", "Do the values mean what they say?",
        "Accuracy against the position of the error", "What it cost", "Notes",
        "Traces, step by step",
    ]  # fmt: skip


def test_every_fact_that_a_number_depends_on_is_said() -> None:
    given = changed(
        view(), left_out=7, left_out_ids=("easy/77",), unknown=3, unknown_ids=("nobody",), unjudged_steps=4, tuned_away=2,
        cost=Cost(scored_tokens=1234), threshold=0.25, threshold_policy="tuned for f1 on dev, which is not reported",
    )  # fmt: skip
    said = words(parsed(bench_page(given)))
    for fact in (
        "random(seed=0)", "0.25 (tuned for f1 on dev, which is not reported)", "first below", "sha256:abc", "7 without scores",
        "2 traces, not reported", "4 steps", "3 in the scores file", "easy/77", "nobody", "50 resamples, seed 0", "a note",
        "1,234", "81.2", "They are over all cases, the measured ones over 12 of them.",
    ):  # fmt: skip
        assert fact in said


def test_the_table_on_the_page_is_the_report_s() -> None:
    given = view()
    table = next(parsed(bench_page(given)).iter("table"))
    assert [[words(cell) for cell in row] for row in table.iter("tr")] == given.report.table()


def test_a_page_loads_nothing_and_hostile_names_stay_text() -> None:
    hostile = changed(view(), judge=EVIL, protocol=EVIL, notes=(EVIL,), left_out=1, left_out_ids=(EVIL,))
    for text in (bench_page(hostile), suite_page(Named(EVIL, EVIL), [hostile], {EVIL: EVIL}, {EVIL: EVIL})):
        root = parsed(text)
        assert not [node for tag in ("script", "img", "link", "iframe") for node in root.iter(tag)]
        assert "alert(1)" in words(root)
        assert not re.search(r"(?:src|href)=|url\(", text.replace("src=x", ""))


def test_the_judge_is_named_as_it_was_typed_and_its_name_by_content_is_a_detail() -> None:
    root = parsed(bench_page(view()))
    assert words(next(root.iter("h1"))).startswith("runs/prm: f1 ")
    assert words(next(root.iter("title"))) == "small: runs/prm" and "judge runs/prm (random(seed=0))" in words(root)


def test_judges_that_know_nothing_stand_below_on_the_same_cases() -> None:
    (found,) = [t for t in parsed(bench_page(view())).iter("table") if "always-wrong" in words(t)]
    rows = {words(line[0]): [words(cell) for cell in line[1:]] for line in found.iter("tr")}
    # A third of the twelve solutions has no error, a third errs in its first step.
    assert rows["always-right"][0].startswith("0.0 ") and list(rows)[1:] == [
        "runs/prm", "always-right", "always-wrong", "random(seed=0)", "length(scale=200)"]  # fmt: skip


def test_traces_are_marked_at_the_threshold_of_the_report() -> None:
    given = view()
    text = bench_page(given)
    assert "value 0.5 or more" in text and "threshold 0.5" in text and "⚑ first error" in text
    shown = list(parsed(text).iter("article"))
    assert len(shown) == 10
    first = words(next(shown[0].iter("h3")))
    said = next(said for case, said in given.traces if case.trajectory.problem.id == first)
    picks = ["pick" in words(li) for li in shown[0].iter("li")]
    assert (said.first_below(0.5) == -1 and not any(picks)) or picks.index(True) == said.first_below(0.5)


def test_cases_without_step_truth_are_shown_by_value() -> None:
    given = view()
    whole = [(case._replace(truth=Judgement(case.trajectory.id, (None,) * 3, "human", float(i % 2))), said)
             for i, (case, said) in enumerate(given.traces)]  # fmt: skip
    text = words(parsed(bench_page(replace(given, traces=whole))))
    assert "first those where values are lowest" in text and "the wrong or rejected one" in text


def test_the_same_view_gives_the_same_bytes() -> None:
    assert bench_page(view()) == bench_page(view())


def test_what_was_not_measured_is_left_out() -> None:
    bare = BenchView(replace(view().report, notes=()))
    assert headings(bench_page(bare)) == ["Figures", "f1 by category", "What it cost"]


def test_a_page_of_all_benchmarks_sums_them_up_and_names_what_failed() -> None:
    text = suite_page(
        Named("judge-x", "x@1"),
        [view("one"), view("two")],
        {"bad": "line 3: no steps"},
        {"absent": "there is no absent/"},
    )
    assert headings(text) == ["Summary", "Failed", "Not run", "one", "two"]
    said = words(parsed(text))
    assert "bad line 3: no steps" in said and "absent there is no absent/" in said
    summary = next(parsed(text).iter("table"))
    assert [words(row).split()[:3] for row in summary.iter("tr")][1:] == [["one", "mean", "f1"], ["two", "mean", "f1"]]


@pytest.mark.parametrize(
    ("rows", "main"),
    [
        ([("a", 3), ("b", 3)], "a"),
        ([("a", 3), ("Mean of categories", None)], "Mean of categories"),
        ([("overall", None), ("Simplicity", None), ("a", 3)], "overall"),
    ],
)
def test_the_row_that_sums_up_is_the_one_of_all_splits(rows: list[tuple[str, int | None]], main: str) -> None:
    report: Report = view().report
    first = report.splits[0]
    shown = tuple(replace(first, name=name, n=n) for name, n in rows)
    assert replace(report, splits=shown).main_row().name == main
