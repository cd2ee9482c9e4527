"""`footfall bench kinds`: what is measured of each kind, on which labels, and what is said of the figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from footfall.cli import main
from footfall.metrics.intervals import Interval
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.registry import parts
from footfall.studies.kind_report import KINDS, advice, after_more, as_markdown, cells
from footfall.studies.kinds import (
    FIGURES,
    LABELS,
    KindPlan,
    KindRow,
    Kinds,
    KindSite,
    formed,
    kinds,
    pairs,
    taken,
    training,
    turned,
)
from footfall.train.objectives import make_objective
from footfall.types import Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

ONE = ("labels=exact", "sizes=24", "seeds=1", "pool=4", "beam=1", "passes=1", "workers=1", "methods=soft-bce,both-ways")


def test_every_objective_and_head_is_a_kind_or_says_why_not() -> None:
    found = kinds()
    named = {row.part for row in found.known.values()} | set(found.unmeasured)
    assert named == {*parts("objective"), *parts("head")}
    assert {"q-ranking", "td", "implicit", "implicit-dpo", "both-ways", "uncertainty", "value-and-reward"} <= set(
        found.known
    )
    with pytest.raises(ValueError, match="no kind of method is called 'nobody'"):
        KindPlan(methods=("nobody",))
    with pytest.raises(ValueError, match="sizes are numbers of traces"):
        KindPlan(sizes=("few",))


def test_labels_are_turned_over_at_a_rate_and_made_hard_only_where_a_loss_asks_for_that() -> None:
    rng = np.random.default_rng(0)
    assert turned([1.0, None, 0.0], 1.0, rng) == (0.0, None, 1.0) and turned([1.0], 0.0, rng) == (1.0,)
    shares = (0.25, None, 0.0)
    assert taken(shares, make_objective("soft-bce", {}).target) == shares
    assert taken(shares, make_objective("ce", {}).target) == (1.0, None, 0.0)


def test_a_plan_of_more_passes_trains_longer_and_its_units_have_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = kinds().known["soft-bce"]
    assert training(row, 0).epochs == 2 and training(row, 0, KindPlan(passes=20).passes).epochs == 20
    monkeypatch.setattr(KindSite, "_unit", lambda site, setting, row: {"f1": float(site.plan.passes)})
    for passes in (2, 20):
        plan = KindPlan(labels=("exact",), sizes=("24",), methods=("soft-bce",), passes=passes)
        (measured,) = KindSite(plan, tmp_path, "arithmetic", 1).measured()
        assert measured == ((("exact", "24"), 0), {"f1": passes}), "what fewer passes gave is not taken for theirs"
    assert {path.name for path in (tmp_path / "units").iterdir()} == {"1-exact-24", "1-exact-24-20"}
    with pytest.raises(ValueError, match="passes=0: at least 1 is needed"):
        KindPlan(passes=0)


def some_traces(n: int = 3) -> list[Trajectory]:
    return [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), n)]


def test_pairs_are_of_one_problem_and_labelled_at_their_last_step() -> None:
    steps = (Step("a"), Step("b"))
    given = [Trajectory(f"{p}{i}", Problem(p, p), steps) for p in "xy" for i in range(3)]
    rows = pairs(given, [True, False, False, True, True, True])
    assert [row.trajectory.id for row in rows] == ["x0", "x1"]
    assert [row.judgement and row.judgement.values for row in rows] == [(None, 1.0), (None, 0.0)]


def test_other_forms_of_a_trace_keep_its_steps() -> None:
    (trace,) = some_traces(1)
    texts = [step.text for step in trace.steps]
    assert [step.text for step in formed(trace, "redundant").steps] == [texts[0], *texts]
    assert [step.text for step in formed(trace, "order").steps] == [texts[1], texts[0], *texts[2:]]
    assert all(texts[k] in step.text != texts[k] for k, step in enumerate(formed(trace, "paraphrase").steps))


def test_a_kind_of_outcomes_learns_from_outcomes_and_noise_turns_some_over(tmp_path: Path) -> None:
    plan = KindPlan(sizes=("24",))
    site = KindSite(plan, tmp_path, "arithmetic", 0)
    site.traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 24)]  # no model is needed
    row = kinds().known["buffer"]
    exact, noisy = (site.data((labels, "24"), row) for labels in ("exact", "noised"))
    assert all(set(r.judgement.values) == {float(bool(r.trajectory.correct))} for r in exact if r.judgement)
    differ = [a.trajectory.correct != b.trajectory.correct for a, b in zip(exact, noisy, strict=True)]
    assert 0 < sum(differ) < 12


def test_a_kind_with_two_outputs_has_the_class_of_the_same_label_for_its_second(tmp_path: Path) -> None:
    """BiRM: the value is fitted to the share of rollouts that end right, the reward to whether any does."""
    site = KindSite(KindPlan(sizes=("24",)), tmp_path, "arithmetic", 0)
    site.traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 24)]
    row = kinds().known["value-and-reward"]
    both = {name: [r.judgement for r in site.data((name, "24"), row) if r.judgement] for name in LABELS}
    soft = [
        (v, r) for j in both["rollouts"] for v, r in zip(j.values, j.aspects["reward"], strict=True) if v is not None
    ]
    assert len({v for v, _ in soft}) > 2 and all(r == float(v > 0) for v, r in soft)
    assert all(j.aspects["reward"] == j.values for name in ("exact", "noised") for j in both[name])
    assert [j.values for j in both["exact"]] != [j.values for j in both["noised"]]
    plain = site.data(("exact", "24"), kinds().known["bce"])
    assert [j.values for j in both["exact"]] == [r.judgement and r.judgement.values for r in plain]


def test_a_pair_whose_outcomes_are_noised_says_so_in_its_traces_too(tmp_path: Path) -> None:
    """An implicit PRM learns from the outcome of a trace: with the true one there, a pair had two right sides."""
    site = KindSite(KindPlan(sizes=("24",)), tmp_path, "arithmetic", 0)
    problem = ArithmeticWorld().problems(1)[0]
    (drawn,) = draw_traces(ArithmeticPolicy(), [ArithmeticWorld().prefix(problem)], 24, SamplingParams())
    site.traces = [replace(trace, correct=k % 2 == 0) for k, trace in enumerate(drawn)]
    noisy = site.data(("noised", "24"), kinds().known["implicit-dpo"])
    assert len(noisy) > 8 and {r.trajectory.correct for r in noisy} == {True, False}
    assert all(r.judgement and r.judgement.values[-1] == float(bool(r.trajectory.correct)) for r in noisy)
    true = {trace.id: trace.correct for trace in site.traces}
    assert any(r.trajectory.correct != true[r.trajectory.id] for r in noisy), "some are turned over"


def made(*values: tuple[str, float, float]) -> Kinds:
    def figures(f1: float, other: float) -> dict[str, Interval]:
        each = {name: f1 if name == "f1" else other for name in FIGURES}
        return {name: Interval(value, value - 0.1, value + 0.1) for name, value in each.items()}

    rows = tuple(KindRow("exact", 24, kind, figures(f1, other)) for kind, f1, other in values)
    return Kinds(KindPlan(labels=("exact",), sizes=("24",)), Interval(0.7, 0.6, 0.8), rows)


def test_advice_names_the_best_and_who_is_not_clearly_behind() -> None:
    found = made(("a", 0.9, 0.5), ("b", 0.85, 0.6), ("c", 0.3, 0.1))
    said = advice(found)
    first, best_of = "first errors `a` (90.0; not clearly behind: `b`)", "best of 8 `b` (60.0; not clearly behind: `a`)"
    assert f"{first}, {best_of}" in said
    assert Kinds.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert cells(found.rows[0])[:2] == ["a", "90.0 [80.0, 100.0]"]
    assert "| a | 90.0" in as_markdown(found) and "not measured: verdict" in KINDS.left_out(found)
    _, _, *rows = KINDS.blocks["kinds-overview"](found).splitlines()
    assert rows[0] == "| `a` | 90.0 | 0 | 500.0 |" and [row.split("`")[1] for row in rows] == ["a", "b", "c"]


def test_a_bar_of_the_chart_has_its_interval_over_seeds_and_of_one_seed_none() -> None:
    several = made(("a", 0.9, 0.5))
    (row,) = several.rows
    alone = {name: Interval(each.value, math.nan, math.nan) for name, each in row.figures.items()}
    one = replace(several, rows=(replace(row, figures=alone),))
    assert 'bar-whisker" d=' in KINDS.charts(several)["kinds-f1.svg"]
    assert 'bar-whisker" d=' not in KINDS.charts(one)["kinds-f1.svg"]


def test_what_more_passes_bring_stands_beside_what_fewer_brought() -> None:
    found, more = made(("a", 0.9, 0.5), ("b", 0.2, 0.5)), made(("b", 0.8, 0.7), ("a", 0.7, 0.6), ("new", 0.9, 0.9))
    longer = replace(more, plan=replace(more.plan, passes=20, labels=("noised", "exact"), sizes=("12", "24")))
    head, _, *rows = after_more(found, longer).splitlines()
    assert head.startswith("| kind | F1, 2 passes | F1, 20 passes | best of 8, 2 passes |")
    assert rows[0] == "| `b` | 20.0 [10.0, 30.0] | 80.0 [70.0, 90.0] | 50.0 | 70.0 | 0 | 1 |"
    assert [row.split("`")[1] for row in rows] == ["b", "a"], (
        "the best after more first; who is in one alone is left out"
    )


def test_advice_prefers_none_of_equals_and_counts_many() -> None:
    assert "first errors `a` (90.0), best of 8 no kind above another (50.0)" in advice(
        made(("a", 0.9, 0.5), ("b", 0.3, 0.5))
    )
    both = made(("a", 0.9, 0.5), ("b", 0.9, 0.5), ("c", 0.3, 0.1))
    assert "first errors `a` and `b` (90.0), best of 8 `a` and `b` (50.0)" in advice(both)
    many = made(("a", 0.9, 0.5), *((f"k{i}", 0.8, 0.1) for i in range(5)), ("z", 0.1, 0.1))
    assert "first errors `a` (90.0; not clearly behind: 5 of 6 others)" in advice(many)


def test_advice_begins_with_who_is_best_over_all_settings_and_says_who_is_not_fragile() -> None:
    each = {name: Interval(0.9, 0.8, 1.0) for name in FIGURES}

    def row(size: int, kind: str, f1: float, order: float = 0.5) -> KindRow:
        return KindRow("exact", size, kind, {**each, "f1": Interval(f1, 0.0, 1.0), "order": Interval(order, 0.0, 1.0)})

    rows = (row(24, "a", 0.5), row(48, "a", 0.9), row(24, "b", 0.6), row(48, "b", 0.7), row(24, "c", 0.1),
            row(48, "c", 0.2, 0.9), row(24, "d", 0.95, 0.9))  # fmt: skip
    found = Kinds(KindPlan(labels=("exact",), sizes=("24", "48")), Interval(0.7, 0.6, 0.8), rows)
    assert advice(found).startswith(
        "Over all labels and sizes first errors are found best by `a` (F1 70.0 on average, best in 1 of 2 settings), then by "
        "`b` (65.0) and `c` (15.0). On 24 traces"
    ), "of `d` one setting is missing"
    assert "Where steps are changed (order), more than 0.05 of AUC is lost by all kinds but `d`." in advice(found)
    some = replace(found, rows=(row(24, "a", 0.5), row(48, "b", 0.7)))
    assert advice(some).startswith("No kind was measured with all labels and sizes. On 24 traces")


@pytest.mark.long
def test_the_command_writes_figures_page_and_charts_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["bench", "kinds", "--option", *ONE, "--out", "runs/kinds", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["kind"] for row in told["rows"]} == {"soft-bce", "both-ways"}
    assert all(set(row["figures"]) == set(FIGURES) for row in told["rows"])
    plain, both = (next(r["figures"] for r in told["rows"] if r["kind"] == kind) for kind in ("soft-bce", "both-ways"))
    assert both["score_tokens"]["value"] == pytest.approx(2 * plain["score_tokens"]["value"], rel=0.05)
    folder = tmp_path / "runs" / "kinds"
    assert {"report.json", "report.html", "kinds-f1.svg", "kinds-best_of_n.svg"} <= {p.name for p in folder.iterdir()}
    assert not list((folder / "models").iterdir()), "models are measured and removed"
    assert len(list((folder / "units").rglob("*.json"))) == 2


def test_what_nothing_was_measured_of_is_said_and_has_no_chart() -> None:
    found = Kinds(
        KindPlan(labels=("exact",), sizes=("8",)), Interval(1.0, math.nan, math.nan),
        (KindRow("exact", 8, "a", {}), KindRow("exact", 8, "b", {})),
    )  # fmt: skip
    assert (
        advice(found)
        == "Nothing was measured: so few traces have no pair of a right and a wrong one, or one label only."
    )
    assert KINDS.charts(found) == {} and "Nothing was measured" in KINDS.page(found)
    beside = replace(made(("a", 0.9, 0.5)), plan=KindPlan(labels=("exact", "noised"), sizes=("24",)))
    lost = replace(beside, rows=(*beside.rows, KindRow("noised", 24, "a", {})))
    assert "On 24 traces with noised labels: first errors no kind was measured" in advice(lost)
    assert "F1 of the first error" in KINDS.page(lost)
