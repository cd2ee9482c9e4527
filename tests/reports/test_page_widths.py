"""Pages as a browser lays them out: nothing is wider than the window, and on a desk no table has to be scrolled."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from footfall.benchmarks.compare import RESAMPLES_FILE, compare, read_kept, write_kept
from footfall.benchmarks.runner import measured
from footfall.metrics.cases import RandomJudge, always_right
from footfall.metrics.intervals import Interval
from footfall.reports.bench_page import bench_page, comparison_page, suite_page
from footfall.reports.demo_page import report_html
from footfall.reports.pages import Named
from footfall.reports.search_page import tree_page
from footfall.studies.credit_report import CREDIT
from footfall.studies.credits import CreditGradients
from footfall.studies.kind_report import KINDS
from footfall.studies.kinds import COSTS, QUALITY, ROBUST, KindPlan, KindRow, Kinds
from footfall.studies.label_report import LABELS
from footfall.studies.report import Study
from footfall.studies.search_report import SEARCH
from footfall.types import Step
from tests.benchmarks.test_bench_compare import SMALL
from tests.cli.test_search_explain import searched as found_by_beams
from tests.reports.test_bench_page import changed, view
from tests.reports.test_report_page import REPORT
from tests.reports.test_run_pages import held_out, labelled, learned, result, row, searched, trained

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (1300, 760, 420)
DOCS = Path(__file__).parents[2] / "docs"
STUDIES: tuple[Study[Any], ...] = (LABELS, SEARCH)
LONG = "a_name_without_any_place_to_break_it_" * 6

# The page says how wide it is to the frame around it; its own policy forbids scripts, so the copy goes without.
_TELLS = """<script>addEventListener("load", () => {
  const cut = [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1);
  const root = document.documentElement;
  const names = cut.map(e => e.textContent.slice(0, 60));
  const high = e => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect().height; };
  const broken = [...document.querySelectorAll(".facts dt")].filter(e => e.textContent.length < 15 && high(e) > 30);
  const thin = [...document.querySelectorAll(".node summary > .written")].filter(e => e.offsetParent && e.offsetWidth < 60);
  const torn = [...document.querySelectorAll("th")].filter(e => e.offsetParent).flatMap(e =>
    [...(e.firstChild?.data ?? "").matchAll(/[^\\s-]+/g)].filter(w => w[0].length <= 24).filter(w => {
      const r = document.createRange(); r.setStart(e.firstChild, w.index); r.setEnd(e.firstChild, w.index + w[0].length);
      return r.getClientRects().length > 1; }).map(w => w[0]));
  const wide = e => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect().width; };
  const beyond = [...document.querySelectorAll("caption")].filter(e => wide(e) > e.closest(".scroll").clientWidth);
  const tiny = [...document.querySelectorAll("svg text")].filter(e => { const r = e.getBoundingClientRect();
    return r.width && r.height < 9; });
  const flags = [...document.querySelectorAll(".flag")].filter(e => e.offsetHeight > 40);
  const hard = [...[...broken, ...thin, ...beyond, ...tiny, ...flags].map(e => e.textContent), ...torn];
  parent.postMessage([location.hash.slice(1), root.clientWidth, root.scrollWidth, names, hard], "*");
});</script></body>"""
LISTENS = """<title>none</title><script>const told = [];
addEventListener("message", e => { told.push(e.data); document.title = JSON.stringify(told); });</script>"""


def pages(folder: Path) -> dict[str, str]:
    """One of each kind, with long names and many columns."""
    kept = []
    for name, judge in (("one", always_right()), ("two", RandomJudge())):
        (folder / name).mkdir()
        write_kept(folder / name / RESAMPLES_FILE, measured(SMALL, judge, resamples=9), f"{LONG}-{name}")
        kept.append(read_kept(folder / name))
    given = replace(changed(view(), judge=LONG, protocol="a rule in words " * 12), given=LONG)
    wide = replace(given, published={f"Model-{i}-of-a-{LONG}": {"easy": 81.25, "hard": 7.5} for i in range(12)})
    lines = [
        (case._replace(trajectory=replace(case.trajectory, steps=(Step("a\nb\nc"),) * 3)), said)
        for case, said in wide.traces
    ]
    return {
        "lines": bench_page(replace(wide, traces=lines)),
        "demo": report_html(replace(REPORT, model=LONG, facts={LONG: LONG})),
        "bench": bench_page(wide),
        "suite": suite_page(Named(LONG, LONG), [given, wide], {LONG: LONG}, {"absent": LONG}),
        "comparison": comparison_page(compare(kept)),
        "label": labelled([row(i, 0.1 * i, None, right=i > 3, text=LONG) for i in range(8)]),
        "search": searched([result(i, [0.2, 0.8], [i > 2, i > 4], text=LONG) for i in range(8)], 0.5),
        "train": trained([held_out(i, (0.9, 0.2), (1.0, 0.0), text=LONG) for i in range(6)]),
        "rl": learned([0.02 * k for k in range(21)], text=LONG, alarms=2, judge=LONG),
        "tree": tree_page(found_by_beams(), {"run": LONG}),
        **{
            study.name: study.page(study.read(json.loads((DOCS / f"{study.docs}.json").read_text())))
            for study in STUDIES
        },
        "credit": CREDIT.page(CreditGradients.from_dict(json.loads((DOCS / f"{CREDIT.docs}.json").read_text()))),
        "kinds": KINDS.page(all_kinds()),
    }


def all_kinds() -> Kinds:
    """As `footfall bench kinds` finds them with its own settings, every figure with its interval."""
    plan = KindPlan()
    costs = dict(zip(COSTS, (123_456.0, 12.0, 140.0, 0.0123), strict=True))
    figures = {name: Interval(value, 0.9 * value, 1.1 * value) for name, value in costs.items()}
    figures |= {name: Interval(0.7612, 0.7012, 0.8123) for name in (*QUALITY, *ROBUST)}
    settings = [(labels, int(size)) for labels in plan.labels for size in plan.sizes]
    rows = tuple(KindRow(*setting, row.name, figures) for setting in settings for row in plan.rows())
    return Kinds(plan, Interval(0.7, 0.6, 0.8), rows)


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to lay pages out")
def test_no_page_is_cut_on_a_desk_a_tablet_or_a_phone(tmp_path: Path) -> None:
    made = pages(tmp_path)
    frames = []
    for name, text in made.items():
        copy = text.replace('http-equiv="Content-Security-Policy"', 'name="policy"').replace("</body>", _TELLS)
        (tmp_path / f"{name}.html").write_text(copy, encoding="utf-8")
        frames += [
            f'<iframe src="{name}.html#{name}-{w}" width="{w}" height="800" frameborder="0"></iframe>' for w in WIDTHS
        ]
    (tmp_path / "all.html").write_text(LISTENS + "".join(frames), encoding="utf-8")
    told = seen(tmp_path / "all.html")
    assert {place for place, *_ in told} == {f"{name}-{width}" for name in made for width in WIDTHS}
    too_wide = [f"{place} needs {needed} px" for place, width, needed, *_ in told if needed > width]
    assert not too_wide
    scrolled = [(place, cut) for place, _, _, cut, _ in told if cut and place.endswith(f"-{WIDTHS[0]}")]
    assert not scrolled, "on a desk no table must be scrolled"
    hard = [(place, words) for place, *_, words in told if words]
    assert not hard, (
        "short names stand on one line, heads of columns are whole words, no step is a column of letters, captions are not "
        "scrolled away, flags are as high as their word, and charts are drawn for the width"
    )


def seen(page: Path) -> list[tuple[str, int, int, list[str], list[str]]]:
    """What the frames of a page told it."""
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()]
    done = subprocess.run([str(CHROMIUM), *words], capture_output=True, text=True, timeout=300, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None, done.stderr
    told: list[tuple[str, int, int, list[str], list[str]]] = json.loads(html.unescape(title[1]))
    return told
