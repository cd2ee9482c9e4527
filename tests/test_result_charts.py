"""The page of results: charts and rows that answer its questions say what is stored, and long tables are folded."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any
from xml.etree import ElementTree

import pytest

from footfall.reports import pictures
from scripts import pool_curves, result_charts, write_tables

FIGURE = re.compile(r"[+-]?\d+\.\d \[-?\d+\.\d, -?\d+\.\d\]")


def stored(name: str) -> Any:
    return json.loads((write_tables.DOCS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page() -> str:
    return (write_tables.DOCS / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", write_tables.ANSWERS)
def test_a_chart_says_in_words_what_its_rows_say_and_is_drawn_for_a_phone_too(name: str, page: str) -> None:
    answer, file = write_tables.ANSWERS[name]
    shown = answer(stored(file))
    assert shown.block in page, "run: python -m scripts.write_tables"
    for picture in shown.pictures:
        told = FIGURE.findall(picture.words)
        assert told and all(figure in shown.rows for figure in told)
        for chart, drawn in picture.files.items():
            assert (write_tables.DOCS / chart).read_text(encoding="utf-8") == drawn + "\n"
            root = ElementTree.fromstring(drawn)
            assert root.attrib["aria-label"] == picture.words
            assert float(root.attrib["width"]) == (pictures.NARROW if "narrow" in chart else pictures.WIDE)
        assert f'alt="{escape(picture.words)}"' in page


def test_a_line_has_its_name_at_its_end_and_a_bar_its_own_before_it() -> None:
    for answer, file in write_tables.ANSWERS.values():
        for picture in answer(stored(file)).pictures:
            for text in picture.files.values():
                names = set(re.findall(r"<title>([^<]*?)(?: at \d+|, [^,<]*): ", text))
                assert names and all(re.search(rf"<text[^>]*>{re.escape(name)}[ <]", text) for name in names)


def test_a_chart_rounds_as_the_tables_do() -> None:
    """21.95 is 21.9 in a table, for no float is 21.95; as the share 0.2195 it would be drawn as 22.0%."""
    found = stored("coder_1_5b")
    assert found["final-0"]["processbench"]["length only"]["mean"]["f1"][0] == 21.95
    (picture,) = result_charts.first_errors(found).pictures
    assert "length only 21.9 [20.1, 23.5]" in picture.words and ">21.9%<" in picture.draw(pictures.WIDE)


def test_kinds_of_labels_stand_in_words_the_best_first() -> None:
    def facts(kind: str, f1: float, tokens: int) -> dict[str, Any]:
        counts = {"traces": 10, "steps": 1500, "generated tokens": tokens}
        scores = {"cases": 100, "PRM": {"mean": {"f1": [f1, f1 - 2, f1 + 2]}}}
        return {"labels": {kind: counts}, "processbench": scores}

    shown = result_charts.labels({"mc-0": facts("monte-carlo", 20.0, 5000), "omega-0": facts("omegaprm", 30.0, 4000)})
    assert shown.rows.splitlines()[2:] == [
        "| OmegaPRM's binary search | 10 | 1,500 | 4,000 | 30.0 [28.0, 32.0] |",
        "| Monte Carlo, 8 rollouts a step | 10 | 1,500 | 5,000 | 20.0 [18.0, 22.0] |",
    ]


def test_no_long_table_stands_open_on_the_page_of_results(page: str) -> None:
    """Of those that are written from figures: what answers a question has few rows, and the rest is opened by who wants it."""
    unfolded = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    tables = re.findall(r"(?:^\|.*\n)+", unfolded, re.MULTILINE)
    assert tables and max(table.count("\n") for table in tables) <= 18
    folds = re.findall(r"<summary>(.*?)</summary>", page)
    assert len(folds) > 10 and min(map(len, folds)) > 30, "a summary says what is inside"


def test_the_first_screen_says_what_was_done_what_came_out_and_what_was_not_measured(page: str) -> None:
    opening = page.split("\n## ")[0]
    for each in ("**What was done.**", "| what came out |", "**Not measured yet:**"):
        assert each in opening
    assert len(opening.split()) < 480


def test_what_leads_is_held_against_the_majority_of_the_same_candidates() -> None:
    found = stored("pool_curves")
    assert list(found[pool_curves.LEADS]) == list(found["pools"])
    for title, ahead in found[pool_curves.LEADS].items():
        shown = found["pools"][title]
        assert set(ahead) == {rule for rule in shown if rule.startswith(("best of N", "weighted vote"))}
        for rule, (lead, low, high) in ahead.items():
            assert lead == pytest.approx(shown[rule]["32"][0] - shown["majority"]["32"][0], abs=1e-9)
            assert low <= lead <= high
