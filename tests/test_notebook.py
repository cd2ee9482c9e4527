"""In a notebook a trace, a judgement and a result are small tables, whatever is written in them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from footfall.benchmarks.processbench import measure
from footfall.benchmarks.runner import Benchmark, run
from footfall.metrics.cases import Case, always_right
from footfall.notebook import MOST_ROWS
from footfall.types import Cost, Judged, Judgement, Problem, Reason, SearchResult, Step, Trajectory, Unjudged

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>&"
TRACE = Trajectory("t", Problem("p", f"How many? {EVIL}", "7"), (Step("3 + 4 = 7"), Step(EVIL), Step("so")), "7", True)
SAID = Judgement("t", (0.9, 0.1, None), "judge-x", failures=(None, None, Unjudged(Reason.CUT, f"cut {EVIL}")))


def cells(shown: str) -> list[list[str]]:
    """The table, which is parsed as XML: nothing in it broke out of its place."""
    root = ElementTree.fromstring(shown)
    assert not [node for tag in ("script", "img") for node in root.iter(tag)]
    return [["".join(cell.itertext()) for cell in line] for line in root.iter("tr")]


def test_a_trace_is_its_steps() -> None:
    shown = TRACE._repr_html_()
    assert cells(shown)[1:] == [["1", "3 + 4 = 7"], ["2", EVIL], ["3", "so"]] and "answer: 7 (right)" in shown


def test_control_characters_are_shown_as_signs() -> None:
    """They are no XML, and an override of the writing direction shows another text than there is."""
    shown = Trajectory("t", Problem("p", "\x00\x1b[2J"), (Step("\u202eab\ud800"),))._repr_html_()
    assert "␀␛[2J" in shown and cells(shown)[1:] == [["1", "�ab�"]]


def test_a_judged_trace_has_a_value_a_step_or_the_reason() -> None:
    shown = Judged(TRACE, SAID)._repr_html_()
    assert [line[1] for line in cells(shown)] == ["value", "0.900", "0.100", f"cut {EVIL}"]
    assert shown.count("background:rgba(11,102,176") == shown.count("background:rgba(184,68,10") == 1


def test_a_judgement_alone_names_its_judge() -> None:
    shown = SAID._repr_html_()
    assert (
        cells(shown) == [["step", "value"], ["1", "0.900"], ["2", "0.100"], ["3", f"cut {EVIL}"]] and "judge-x" in shown
    )


def test_a_search_shows_its_candidates_and_what_it_chose() -> None:
    other = Trajectory("u", TRACE.problem, (Step("?"),), None, None)
    found = SearchResult(TRACE.problem, "7", TRACE, (Judged(TRACE, SAID), Judged(other, None)), scores=(0.9, None),
                         policy_cost=Cost(generated_tokens=1200))  # fmt: skip
    shown = found._repr_html_()
    assert cells(shown)[1:] == [["★", "7", "right", "0.900", "3"], ["", "none", "not checked", "n/a", "1"]]
    assert "1,200 tokens written" in shown
    assert "failed on &lt;" in SearchResult(TRACE.problem, None, None, failure=f"failed on {EVIL}")._repr_html_()


def test_a_report_is_its_table() -> None:
    cases = [Case("easy", TRACE, Judgement("t", (1.0, 1.0, 1.0), "human"))]
    report = run(Benchmark(EVIL, cases, measure, "first below", "f1", "r"), always_right(), resamples=9)
    assert cells(report._repr_html_()) == report.table()


@pytest.mark.parametrize("size", [MOST_ROWS, 10 * MOST_ROWS])
def test_a_long_trace_stays_small(size: int) -> None:
    shown = Trajectory("t", TRACE.problem, tuple(Step("x" * 10_000) for _ in range(size)))._repr_html_()
    assert len(cells(shown)) == 1 + MOST_ROWS and len(shown) < 60_000
    assert ("more" in shown) == (size > MOST_ROWS)
