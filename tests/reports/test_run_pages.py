"""Pages of whole runs: figures with intervals, a bounded sample of traces, and hostile text that stays text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from footfall.reports.label_page import label_page
from footfall.reports.pages import Named
from footfall.reports.rl_page import MONITORS, Arm, rl_page
from footfall.reports.search_page import search_page
from footfall.reports.traces import MOST_STEPS, extremes, mean_value, scale_of
from footfall.reports.train_page import train_page
from footfall.rl.monitors import measure
from footfall.train.data import DataReport
from footfall.train.first_error import HeldOutErrors
from footfall.train.run import TrainResult
from footfall.types import (
    Cost,
    Judged,
    Judgement,
    Problem,
    Reason,
    SearchResult,
    Step,
    Trajectory,
    Unjudged,
    failures_of,
)

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"&</style>\x00"
JUDGE = Named("runs/prm", "step-head@1f2e")


def row(i: int, *values: float | None, right: bool | None = None, text: str = "step", **more: Any) -> Judged:
    problem = Problem(f"p{i}", f"{text} of p{i}", "1")
    trace = Trajectory(f"p{i}#{more.get('sample', 0)}", problem, tuple(Step(text) for _ in values), "1", right)
    why = failures_of(Unjudged(Reason.CUT, "cut") if value is None else None for value in values)
    return Judged(trace, Judgement(trace.id, values, "j", failures=why, aspects=more.get("aspects", {})))


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def words(node: ElementTree.Element) -> str:
    return " ".join(" ".join(node.itertext()).split())


def headings(text: str) -> list[str]:
    return [words(node) for node in parsed(text).iter("h2")]


def tiles(text: str) -> dict[str, str]:
    (found,) = [node for node in parsed(text).iter("dl") if node.attrib.get("class") == "tiles"]
    return {words(next(tile.iter("dt"))): words(next(tile.iter("dd"))) for tile in found.iter("div")}


def shown_traces(text: str) -> list[str]:
    return [words(node) for node in parsed(text).iter("h3")]


def labelled(rows: list[Judged], **more: Any) -> str:
    values = [value for _, said in rows if said for value in said.values]
    found = {
        "traces": len(rows), "steps": len(values), "labelled": sum(v is not None for v in values),
        "unlabelled": {"cut": values.count(None)} if None in values else {}, "cost": Cost(generated_tokens=60).to_dict(),
    }  # fmt: skip
    return label_page(rows, {**found, **more}, JUDGE, seed=0, config={"method": EVIL})


def searched(results: list[SearchResult], accuracy: float, independent: bool = True) -> str:
    found = {
        "method": "weighted-vote", "n": 4, "settings": "best-of-n(n=4)", "aggregate": "min",
        "policy": "toy@1f2e", "policy_given": "toy",
        "problems": len(results), "decided": len(results), "budget": {"tokens": 400, "calls": None},
        "accuracy": {"chosen": {"value": accuracy, "ci95": [accuracy - 0.1, accuracy + 0.1]}},
        "unanswered": {}, "failed": {EVIL: EVIL}, "policy_cost": Cost().to_dict(), "judge_cost": Cost().to_dict(),
    }  # fmt: skip
    return search_page(results, found, JUDGE, independent=independent, seed=0, config={})


def result(i: int, scores: list[float], right: list[bool], text: str = "step") -> SearchResult:
    rows = tuple(row(i, s, right=r, text=text, sample=k) for k, (s, r) in enumerate(zip(scores, right, strict=True)))
    rows = tuple(
        Judged(Trajectory(t.id, t.problem, t.steps, "1" if t.correct else f"no {k}", t.correct), j)
        for k, (t, j) in enumerate(rows)
    )
    best = max(range(len(scores)), key=scores.__getitem__)
    chosen = rows[best].trajectory
    return SearchResult(chosen.problem, chosen.answer, chosen, rows, scores=tuple(scores))


def trained(
    rows: list[Judged],
    curve: tuple[tuple[int, float], ...] = ((1, 0.7), (2, 0.6)),
    first_error: HeldOutErrors | None = None,
) -> str:
    data = DataReport(rows=10, used=9, dropped={"too long": 1}, steps=40, unlabelled=4)
    made = TrainResult(Path("model"), {"loss": 0.61}, curve, data, data, 0, 2, 100.0, Cost(calls=2), (), first_error)
    return train_page(made, rows, "./Qwen", seed=0, config={"objective": "soft-bce"})


def held_out(i: int, values: tuple[float, ...], labels: tuple[float | None, ...], text: str = "step") -> Judged:
    good = tuple(None if label is None else float(label > 0.5) for label in labels)
    return row(i, *values, text=text, aspects={"label": labels, "good": good})


def learned(accuracy: list[float], text: str = "step", alarms: int = 0, **config: Any) -> str:
    """A run of rl with a checkpoint for each accuracy, ten updates apart."""
    stops = [10 * k for k in range(len(accuracy))]
    alarm = {"name": text, "update": stops[-1], "why": f"it pays for 100% of traces: {text}"}
    checkpoints = [
        {"update": at, "right": round(40 * share), "rollouts": 40, "kl": 0.01 * at, "paid": {text: 0.5}, "hacked": False,
         "alarms": [alarm] * alarms, "figures": {"proxy": share, "repetition": 0.0, "with_steps": None}}
        for at, share in zip(stops, accuracy, strict=True)
    ]  # fmt: skip
    token = {"problem": "p", "text": text, "correct": True, "reward": 1.0, "left": None}
    rows = [{**token, "tokens": [text] * 40, "advantages": [0.05 * k - 1 for k in range(40)]}]
    updates = [{"update": at, "reward": 0.5, "mean_length": 40.0} for at in range(1, stops[-1] + 1)]
    arm = Arm("rl", updates, checkpoints, [{"update": at, "rows": rows} for at in stops[1:]])
    return rl_page([arm], {"model": text, "problems": text, "credit": "pure", **config})


def test_a_page_of_rl_leaves_open_what_was_not_measured() -> None:
    point = {"right": 0, "rollouts": 4, "kl": 0.0, "hacked": False, "alarms": [], "figures": {"proxy": 0.5}}
    stops = [{**point, "update": 0, "graded": [None] * 4, "paid": {}},
             {**point, "update": 10, "graded": [None] * 4, "paid": {"thanks": 0.5}}]  # fmt: skip
    said = words(parsed(rl_page([Arm("rl", [], stops, [])], {})))
    assert "Accuracy is not known" in said and "0.0%" not in said
    assert "exploit pays: thanks – 0.50" in " ".join(said.split())


def test_a_page_of_rl_says_whether_accuracy_changed_and_who_judged() -> None:
    assert "Accuracy of one sample went from 25.0% to 50.0%" in words(parsed(learned([0.25, 0.5])))
    stayed = words(parsed(learned([0.25, 0.5, 0.25], alarms=1, judge="runs/prm")))
    assert "Accuracy of one sample stayed at 25.0%" in stayed
    assert "judge runs/prm" in stayed and "no (1 sign)" in stayed


def test_a_page_of_rl_tells_the_monitors_at_some_of_many_checkpoints_the_first_and_the_last_among_them() -> None:
    def columns(page: str) -> list[str]:
        return [words(node) for node in parsed(page).iter("th") if words(node).startswith("update ")]

    assert columns(learned([0.5] * 3)) == ["update 0", "update 10", "update 20"]
    many = learned([0.5] * 101)
    assert len(columns(many)) < 10 and columns(many)[0] == "update 0" and columns(many)[-1] == "update 1000"
    assert "of 101 checkpoints; log.jsonl has all" in words(parsed(many))


def test_a_page_of_rl_has_a_curve_of_each_monitor_and_of_exploits_that_pay() -> None:
    text = words(parsed(learned([0.25, 0.5, 0.75])))
    for title in ("Proxy reward", "Repeated steps", "Exploits that pay: rl"):
        assert title in text
    assert "Reward with steps (Spearman)" not in text, "it was never known"
    assert "Monitors by update" not in words(parsed(learned([0.25]))), "one checkpoint is no curve"
    assert set(MONITORS) == set(measure([])), "a monitor that no page shows"


def test_a_page_of_labels_has_rates_with_intervals_and_says_why_steps_have_none() -> None:
    rows = [row(i, 0.0 if i % 2 else 1.0, None, right=not i % 2) for i in range(8)]
    text = labelled(rows)
    assert headings(text) == ["How the labels spread", "By the answer of the trace", "Steps without a label",
                              "Traces, step by step", "What it cost"]  # fmt: skip
    assert tiles(text) == {"steps with a label": "50.0%", "mean label of a trace": "0.500", "generated a label": "8"}
    said = words(parsed(text))
    assert "8 of 16 steps (50.0%) have no label" in said and "50.0% [28.0%, 72.0%] cut" in said
    assert "8 labels by runs/prm" in said and "labeller runs/prm (step-head@1f2e)" in said


def test_a_page_of_labels_shows_the_worst_and_the_best_traces() -> None:
    rows = [row(i, i / 40, i / 40) for i in range(40)]
    assert shown_traces(labelled(rows)) == [f"p{i}" for i in (0, 1, 2, 3, 4, 35, 36, 37, 38, 39)]


def test_extremes_take_one_trace_a_problem_and_no_trace_twice() -> None:
    rows = [row(0, 0.1), row(0, 0.2), row(1, 0.3), row(2, None), row(3, 0.9)]
    assert [r.trajectory.problem.id for r in extremes(rows, mean_value, 4)] == ["p0", "p1", "p0", "p3"]
    assert extremes(rows[:1], mean_value, 10) == rows[:1] and extremes([], mean_value, 4) == []
    rows = [row(0, 0.1), row(1, 0.2), row(2, 0.3), row(0, 0.9)]
    assert extremes(rows, mean_value, 2) == [rows[0], rows[3]], "the worst one, though its problem has a good one too"


@pytest.mark.parametrize(
    ("values", "scale"),
    [([0.2, 1.0], (0, 1)), ([-0.5, 0.5], (-1, 1)), ([-3.0, None, 5.0], (-3, 5)), ([7.0], (7, 8)), ([], (0, 1))],
)  # fmt: skip
def test_values_are_shown_on_the_scale_that_they_have(values: list[float | None], scale: tuple[float, float]) -> None:
    assert scale_of(values) == scale


def test_advantages_and_logits_can_be_shown_as_labels() -> None:
    text = labelled([row(0, -4.0, 6.0), row(1, 1.0, 2.0)])
    shades = [node.attrib["class"] for node in parsed(text).iter("li") if "step" in node.attrib.get("class", "")]
    assert shades == ["step v0", "step v4", "step v2", "step v3"]


def test_a_run_without_a_single_label_has_a_page() -> None:
    text = labelled([row(0, None, None)], in_vain="every rollout failed")
    assert headings(text) == ["Steps without a label", "What it cost"] and "every rollout failed" in text


def test_the_curve_of_a_search_ends_in_its_best_of_n() -> None:
    results = [result(i, [0.2, 0.4, 0.6, 0.9], [i % 2 == 0, False, False, i % 4 != 3]) for i in range(8)]
    text = searched(results, 0.75)
    assert headings(text)[:2] == ["Accuracy", "Accuracy against the number of samples"]
    (numbers,) = [t for t in parsed(text).iter("table") if "Percent of problems solved" in words(t)]
    last = [words(cell) for cell in list(numbers.iter("tr"))[-1]]
    assert last[0] == "4" and last[3].startswith("75.0 [")
    assert "tokens 400" not in text and "400 tokens" in text
    assert "policy toy (toy@1f2e)" in words(parsed(text))


def test_steered_candidates_and_a_problem_that_lost_one_give_no_curve() -> None:
    results = [result(i, [0.2, 0.4], [True, False]) for i in range(4)]
    assert "Accuracy against the number of samples" not in headings(searched(results, 0.5, independent=False))
    lost = Trajectory("p9#1", Problem("p9", "?", "1"), meta={"error": "refused"})
    broken = SearchResult(lost.problem, None, None, (Judged(lost, None), Judged(lost, None)), scores=(None, None))
    assert "of each of 4 problems" in words(parsed(searched([*results, broken], 0.5)))


def test_a_search_shows_what_was_wrong_but_scored_highest_first() -> None:
    results = [result(i, [0.1 + i / 20], [i >= 6]) for i in range(12)]
    assert shown_traces(searched(results, 0.5))[:6] == ["p5", "p4", "p3", "p2", "p1", "p7"]


def test_a_page_of_training_stands_beside_judges_that_know_nothing() -> None:
    rows = [held_out(i, (0.9, 0.2 + 0.01 * i), (1.0, 0.0)) for i in range(6)]
    text = trained(rows)
    assert headings(text) == [
        "Loss",
        "Held out, beside judges that know nothing",
        "Held-out traces, step by step",
        "What it cost",
    ]
    assert tiles(text)["step AUC"] == "1.000" and tiles(text)["accuracy at 0.5"] == "1.000"
    (figures,) = [t for t in parsed(text).iter("table") if "bootstrap" in words(t)]
    lines = [[words(cell) for cell in line] for line in figures.iter("tr")]
    assert [line[0] for line in lines] == [
        "judge",
        "this PRM",
        "the share of good steps",
        "the length of the step",
        "random values",
    ]
    assert lines[2][1].startswith("0.500") and lines[2][3].startswith("0.250")
    assert "A PRM on ./Qwen: step AUC 1.000 on problems held out" in words(parsed(text))


def test_a_page_of_training_opens_with_first_errors_where_they_were_measured() -> None:
    rows = [held_out(i, (0.9, 0.2), (1.0, 0.0)) for i in range(6)]
    found = HeldOutErrors(40, 17, 0.0, 0.5, (0.3, 0.8), (0.4, 0.6), {"length": 0.2, "random": 0.1}, (-0.1, 0.6))
    text = trained(rows, first_error=found)
    assert headings(text)[0] == "Does it find first errors?" and list(tiles(text))[:2] == ["first-error F1", "step AUC"]
    (figures,) = [t for t in parsed(text).iter("table") if "over problems" in words(t)]
    assert [[words(cell) for cell in line] for line in figures.iter("tr")][1:] == [
        ["this PRM", "0.500 [0.300, 0.800]"],
        ["the length of the step", "0.200"],
        ["random values", "0.100"],
        ["gain over the best of these", "0.300 [-0.100, 0.600]"],
    ]
    said = words(parsed(text))
    assert (
        "A PRM on ./Qwen: first-error F1 0.500 on problems held out" in said
        and "40 held-out traces are too few" in said
    )


def test_training_without_held_out_traces_or_an_older_run_still_has_a_page() -> None:
    assert headings(trained([])) == ["Loss", "What it cost"]
    assert headings(trained([], curve=())) == ["What it cost"]


def test_held_out_steps_without_a_label_are_left_out_of_the_figures() -> None:
    text = trained([held_out(i, (0.9, 0.1, 0.5), (1.0, 0.0, None)) for i in range(3)])
    assert "6 labelled steps of 3 held-out traces, 50.0% of them good" in words(parsed(text))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["label", "search", "train"])
def test_a_long_hostile_run_stays_text_and_stays_small(kind: str) -> None:
    long = EVIL * 2000
    rows = [row(i, *([i / 60] * 500), text=long) for i in range(60)]
    text = {
        "label": lambda: labelled(rows),
        "search": lambda: searched([result(i, [0.5], [False], text=long) for i in range(60)], 0.0),
        "train": lambda: trained([held_out(i, (0.5,) * 500, (1.0,) * 500, text=long) for i in range(12)]),
    }[kind]()
    root = parsed(text)
    assert not [node for tag in ("script", "img", "link", "iframe", "a") for node in root.iter(tag)]
    assert set(re.findall(r"https?://[^\"'\s)<]*", text)) == {"http://www.w3.org/2000/svg"}
    assert len(shown_traces(text)) == 10 and len(text) < 2_000_000
    if kind != "search":
        assert f"… and {500 - MOST_STEPS} steps more" in words(root)
    assert "characters more" in words(root)
