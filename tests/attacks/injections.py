"""Hostile text in every field of a trace, shown wherever traces are shown: it stays text.

A page is parsed as XML, so nothing broke out of its place; it has no tag or attribute that runs or loads something. What a
command prints has no control character.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from footfall.reports.demo_page import report_html
from footfall.reports.search_page import tree_page
from footfall.reports.traces import StepView
from footfall.types import Decision, Judged, Judgement, Node, Problem, SearchResult, Step, Trajectory, Tree
from tests.attacks.commands import say
from tests.attacks.test_readers import UNPRINTABLE
from tests.reports.test_report_page import REPORT, TRACE
from tests.reports.test_run_pages import held_out, labelled, result, row, searched, trained

FRAGMENTS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "</style>", "</title>", "</pre>",
    "</summary></details>", "</svg>", "<!--", "-->", "<![CDATA[", "]]>", "&#60;script&#62;", "&lt;b", "&", "\"'><b>",
    "' onclick='x", "javascript:alert(1)", "data:text/html,<b>", "url(http://a/b)", "@import 'http://a'",
    "<base href=http://a>", "<a href=http://a>x</a>", "{{ 7 * 7 }}", "{% for x in y %}", "{# x #}", "${7*7}", "%s%n",
    "[bold red]x[/]", "[link=file:///etc/passwd]x[/link]", "[/]", "\x1b[2J", "\x1b]52;c;ZXZpbA==\x07", "\x1b]0;title\x07",
    "\x9b31m", "\x00", "\x08\x08", "\r", "\x85", "\u2028", "\u202e", "\ufeff", "\x7f", "\x0b", "\U000e0041",
    "<?xml version='1.0'?>", "<!DOCTYPE a [<!ENTITY b 'c'>]>&b;", "\n" * 40, "é" * 300,
)  # fmt: skip
TAGS = {"script", "img", "iframe", "object", "embed", "link", "base", "form", "a", "foreignObject", "use", "animate"}


def hostile(rng: random.Random) -> str:
    return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 6)))


def check_page(page: str) -> None:
    root = ElementTree.fromstring(page)
    assert not {str(node.tag).rpartition("}")[2] for node in root.iter()} & TAGS
    for node in root.iter():
        for name, value in node.attrib.items():
            assert not name.lower().startswith("on") and "href" not in name.lower() and name != "src"
            assert name != "style" or "url(" not in value
        assert not str(node.tag).endswith("style") or "http" not in (node.text or "")
    assert "\x1b" not in page


def judged(rng: random.Random) -> Judged:
    problem = Problem(hostile(rng), hostile(rng), hostile(rng))
    steps = (Step(hostile(rng), observation=hostile(rng)), Step(hostile(rng)))
    trace = Trajectory(hostile(rng), problem, steps, hostile(rng), False, meta={hostile(rng): hostile(rng)})
    return Judged(trace, Judgement(trace.id, (0.5, 0.1), hostile(rng)))


def _search(rng: random.Random) -> SearchResult:
    found = judged(rng)
    tree = Tree(found.trajectory.problem)
    tree.nodes += [
        Node(-1, Step(hostile(rng)), value=0.3, meta={hostile(rng): hostile(rng)}),
        Node(0, Step(hostile(rng))),
    ]
    decisions = (Decision(hostile(rng), (0,), hostile(rng), (0.3,)), Decision("chosen", (1,), hostile(rng), (0.1,)))
    chosen = found.trajectory
    return SearchResult(
        chosen.problem,
        hostile(rng),
        chosen,
        (found,),
        tree=tree,
        scores=(0.4,),
        decisions=decisions,
        failure=hostile(rng),
    )


def _demo_page(rng: random.Random) -> str:
    trace = replace(
        TRACE, problem_id=hostile(rng), problem=hostile(rng), steps=[StepView(hostile(rng), 0.3)], answer=hostile(rng),
        reference=hostile(rng), true_first_error=0, predicted_first_error=0,
    )  # fmt: skip
    made = replace(REPORT, traces=[trace], model=hostile(rng), title=hostile(rng), facts={hostile(rng): hostile(rng)})
    return report_html(replace(made, config={hostile(rng): hostile(rng)}))


PAGES: dict[str, Callable[[random.Random], str]] = {
    "labels": lambda rng: labelled([row(i, 0.2, 0.7, text=hostile(rng)) for i in range(3)]),
    "search": lambda rng: searched([result(i, [0.5], [False], text=hostile(rng)) for i in range(3)], 0.0),
    "training": lambda rng: trained([held_out(i, (0.5, 0.2), (1.0, 0.0), text=hostile(rng)) for i in range(3)]),
    "tree": lambda rng: tree_page(_search(rng)),
    "demo": _demo_page,
    "trace in a notebook": lambda rng: judged(rng)._repr_html_(),
    "search in a notebook": lambda rng: _search(rng)._repr_html_(),
}


def inject(seed: int, folder: Path) -> str:
    """Hostile text into one place, by the seed: where it was shown."""
    rng = random.Random(seed)
    place = sorted([*PAGES, "terminal", "terminal error"])[seed % (len(PAGES) + 2)]
    if place in PAGES:
        check_page(PAGES[place](rng))
        return place
    found = judged(rng).trajectory
    record: dict[str, Any] = {
        "id": found.id,
        "problem": found.problem.text,
        "steps": [step.text for step in found.steps],
    }
    record |= (
        {"answer": found.answer, "labels": [1, 0]} if place == "terminal" else {hostile(rng): 1, "steps": hostile(rng)}
    )
    (folder / "rows.jsonl").write_text(json.dumps(record))
    code, out, errors = say(["show", str(folder / "rows.jsonl")])
    assert code in (0, 2) and not set(out + errors) & UNPRINTABLE
    assert code == 0 or errors.count("\n") == 1
    return place
