"""`footfall bench credit`: estimates of the policy gradient against the exact one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from footfall import cli
from footfall.metrics.intervals import Interval
from footfall.registry import declared, parts, systems
from footfall.rl.exact import FILLER, RIGHT, WRONG, Chain, solve
from footfall.studies.credit_report import CREDIT, HEAD, advice, cells
from footfall.studies.credits import (
    FIGURES,
    JUDGES,
    CreditGradients,
    CreditPlan,
    CreditRow,
    CreditSite,
    figures_of,
    judge_table,
    left_out,
    methods,
    together,
)
from footfall.studies.study import measure_all
from scripts import write_tables

SMALL = CreditPlan(seeds=2, batches=8, groups=2, size=6)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> CreditGradients:
    folder = tmp_path_factory.mktemp("credit")
    return together(SMALL, measure_all("credit", [CreditSite(SMALL, folder, "chain", seed) for seed in range(2)]))


# The figures.


def test_an_estimate_without_bias_points_along_the_gradient_whatever_its_scale() -> None:
    g, rng = np.array([[3.0, 4.0]]), np.random.default_rng(0)
    rows = 7 * (g + rng.normal(0, 5.0, (4000, 1, 2)))
    told = figures_of(rows, g, np.array([[0.0, 1.0]]), per_batch=10)
    assert told["direction"] == pytest.approx(1, abs=0.02) and told["noise"] == pytest.approx(2, abs=0.15)
    assert told["rollouts"] == pytest.approx(10 * 2 / 0.25, rel=0.1) and told["wasted"] == pytest.approx(0, abs=0.03)
    assert 0.4 < told["batch"] < 0.9


def test_bias_that_is_larger_than_the_error_is_mended_by_no_number_of_rollouts() -> None:
    g = np.array([[1.0, 0.0]])
    slanted = np.array([[[0.9, 0.3]], [[1.1, 0.3]]])
    across = np.array([[[0.0, 0.9]], [[0.0, 1.1]]])
    told = figures_of(slanted, g, np.array([[0.0, 1.0]]), 1)
    assert told["direction"] == pytest.approx(1 / math.hypot(1, 0.3), abs=0.01) and told["rollouts"] > 0
    assert told["wasted"] == pytest.approx(0.3 / math.hypot(1, 0.3), abs=0.01)
    assert figures_of(across, g, g, 1)["rollouts"] is None
    assert figures_of(np.zeros((3, 1, 2)), g, g, 1) == dict.fromkeys(FIGURES)


def test_judges_that_are_right_blurred_and_hackable() -> None:
    chain = Chain()
    truth = solve(chain, chain.policy(0), chain.solved)
    exact, noisy, hackable = (judge_table(name, chain, truth, 0) for name in JUDGES)
    assert exact.start == truth.value and (exact.table[..., RIGHT] == truth.values).all()
    assert 0.05 < np.abs(noisy.table - exact.table).mean() < 0.25 and noisy.table.min() >= 0
    assert (noisy.table == judge_table("noisy", chain, truth, 0).table).all()
    assert (hackable.table[..., FILLER] > hackable.table[1, 0, RIGHT]).all() and (
        hackable.table[..., WRONG] < 0.5
    ).all()


# What comes out.


def test_every_credit_system_and_filter_has_a_row_or_a_reason(found: CreditGradients) -> None:
    there = {row.method for row in found.rows}
    assert set(parts("credit")) | set(systems("credit")) <= there | set(left_out())
    assert all(f"grpo + {name}" in there for name in parts("filter"))
    assert len(found.rows) == len(JUDGES) * len(methods()) and all(left_out().values())


def test_what_no_judge_has_a_say_in_is_the_same_with_all(found: CreditGradients) -> None:
    by_place = {(row.method, row.judge): row for row in found.rows}
    for name, method in methods().items():
        rows = [by_place[name, judge].figures for judge in JUDGES]
        assert by_place[name, "exact"].asks is method.asks
        if not method.asks:
            assert rows[0] == rows[1] == rows[2]
    assert not methods()["grpo"].asks and methods()["grpo + prof"].asks and methods()["pure"].asks


def test_outcomes_are_unbiased_and_a_hackable_judge_leads_pooled_steps_astray(found: CreditGradients) -> None:
    by_place = {(row.method, row.judge): row.value("direction") for row in found.rows}
    assert by_place["rloo", "exact"] > 0.95 and by_place["grpo", "exact"] > 0.95
    assert by_place["grpo-process", "hackable"] < 0.6 < by_place["clip-delta", "hackable"]
    waste = {row.method: row.value("wasted") for row in found.of("hackable")}
    assert waste["grpo-process"] > waste["clip-delta"] + 0.2, "it is paid for needless steps"


def test_values_of_an_exact_judge_spare_rollouts(found: CreditGradients) -> None:
    needed = {row.method: row.value("rollouts") for row in found.of("exact")}
    assert needed["oprl"] < 0.5 * needed["grpo"]


def test_a_report_comes_back_from_json_and_gives_the_same_page(found: CreditGradients) -> None:
    back = CreditGradients.from_dict(json.loads(json.dumps(found.to_dict())))
    page = CREDIT.page(found)
    assert back.to_dict() == found.to_dict() and CREDIT.page(back) == page
    assert all(row.method in page for row in found.rows)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    plan = CreditPlan(judges=("exact",), seeds=1, batches=2, groups=1, size=2)
    first = together(plan, measure_all("credit", [CreditSite(plan, tmp_path, "chain", 0)]))
    units = sorted(tmp_path.glob("units/*/*.json"))
    assert len(units) == len(methods())
    units[0].unlink()
    assert together(plan, measure_all("credit", [CreditSite(plan, tmp_path, "chain", 0)])).to_dict() == first.to_dict()


# The advice follows from the figures.


def invented(**directions: tuple[float, float, bool]) -> CreditGradients:
    """Methods with their direction and rollouts with the exact judge; the hackable one halves that of the last."""
    rows = []
    for judge in ("exact", "hackable"):
        for i, (name, (direction, rollouts, asks)) in enumerate(directions.items()):
            hacked = judge == "hackable" and i == len(directions) - 1
            told = {"direction": direction / 2 if hacked else direction, "rollouts": rollouts}
            known = {key: Interval(value, math.nan, math.nan) for key, value in told.items() if math.isfinite(value)}
            rows.append(CreditRow(judge, name, asks, known))
    return CreditGradients(CreditPlan(judges=("exact", "hackable")), Interval(0.3, 0.2, 0.4), tuple(rows))


def test_the_advice_names_the_cheapest_that_is_unbiased_and_those_that_are_led_astray() -> None:
    told = advice(invented(grpo=(1.0, 60, False), steady=(0.995, 40, True), greedy=(1.0, 10, True)))
    assert "`grpo` needs 60 rollouts" in told and "exact judge `greedy` needs 10" in told
    assert "hackable judge `steady` needs 40" in told and "Do not train by `greedy`" in told
    assert "of these `steady` needs fewest" in told


def test_the_advice_says_where_no_judge_helps() -> None:
    told = advice(invented(grpo=(1.0, 60, False), slanted=(0.8, math.inf, True)))
    assert "With the exact judge no credit that listens to it needs fewer" in told and "of these" not in told


def judged(**directions: Mapping[str, float | None]) -> CreditGradients:
    """Credits that listen to judges, each with its direction by judge; `None`: it has none. `grpo` listens to nobody."""
    judges = tuple(next(iter(directions.values())))
    given: dict[str, Mapping[str, float | None]] = {"grpo": dict.fromkeys(judges, 1.0), **directions}
    rows = [
        CreditRow(judge, name, name != "grpo", {
            key: Interval(value, math.nan, math.nan)
            for key, value in (("direction", at), ("rollouts", 40.0 if at and at > 0.9 else None)) if value is not None
        })
        for judge in judges for name, known in given.items() for at in (known[judge],)
    ]  # fmt: skip
    return CreditGradients(CreditPlan(judges=judges), Interval(0.3, 0.2, 0.4), tuple(rows))


def test_how_wide_intervals_are_is_said_of_directions_and_in_shares_of_the_rollouts() -> None:
    said = CREDIT.blocks["credit-gradients-sizes"]
    without = judged(a={"exact": 0.99})
    assert "4 groups of 8 rollouts." in said(without) and "interval" not in said(without), "one seed has none"
    figures = {"direction": Interval(0.9, 0.85, 0.95), "rollouts": Interval(40.0, 30.0, 50.0)}
    known = replace(without, rows=tuple(replace(row, figures=figures) for row in without.rows))
    assert "0.100 wide at the median and 0.10 at most for directions; for rollouts 50% of the figure" in said(known)


def test_a_credit_without_a_direction_stands_last_and_is_not_called_sound() -> None:
    found = judged(
        lost={"noisy": None, "exact": 0.99}, late={"noisy": 0.99, "exact": None}, kept={"noisy": 0.96, "exact": 0.97}
    )
    assert [row.method for row in found.of("noisy")] == ["grpo", "late", "kept", "lost"]
    assert [row.method for row in found.of("exact")] == ["grpo", "lost", "kept", "late"]
    told = advice(found)
    assert "Of 3 credits that listen to a judge `kept` keeps 0.95 of the direction" in told
    assert "Do not train" not in told, "of what has no direction nothing is known"


def test_the_advice_speaks_of_the_judges_that_were_measured() -> None:
    found = judged(greedy={"noisy": 0.6, "exact": 0.96}, steady={"noisy": 0.96, "exact": 0.97})
    told = advice(found)
    assert (
        "Do not train by `greedy` on the noisy judge: with it it keeps less than 0.7" in told and "hacked" not in told
    )
    assert "With the exact judge no credit that listens to it needs fewer" in told, "0.97 is not without bias"
    assert "where the judge is the noisy one; those" in CREDIT.page(found)
    both = advice(judged(greedy={"exact": 0.5, "hackable": 0.6}))
    assert "Do not train by `greedy` on a judge that can be hacked" in both
    charts = {f"credit_gradients-{name}{width}.svg" for name in ("direction", "rollouts") for width in ("", "-narrow")}
    assert set(CREDIT.charts(judged(greedy={"noisy": 0.6}))) == charts
    nobody = replace(
        found, rows=tuple(replace(row, figures={"direction": row.figures["direction"]}) for row in found.rows)
    )
    assert set(CREDIT.charts(nobody)) == {file for file in charts if "direction" in file}
    assert "never" in CREDIT.page(nobody)


def test_what_no_number_of_rollouts_mends_is_never_a_number() -> None:
    row = CreditRow("exact", "m", True, {"direction": Interval(0.5, 0.4, 0.6)})
    assert cells(row)[:3] == ["m", "0.500 [0.400, 0.600]", "–"] and cells(row)[4] == "never"


# The command.


def run(*words: Any) -> int:
    return cli.main(["bench", "credit", *map(str, words)])


def test_the_command_writes_report_page_and_charts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = (
        "--option",
        "judges=exact",
        "seeds=1",
        "batches=2",
        "groups=1",
        "size=2",
        f"docs={tmp_path / 'docs'}",
        "workers=1",
    )
    (tmp_path / "docs").mkdir()
    assert run(*small, "--out", tmp_path / "run", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in said["rows"]} == set(methods()) and said["left_out"]["rlfr"]
    names = {path.name for path in (tmp_path / "run").iterdir()}
    charts = {f"credit_gradients-{name}{width}.svg" for name in ("direction", "rollouts") for width in ("", "-narrow")}
    assert {"report.json", "report.html", *charts} <= names
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {"credit_gradients.json", *charts}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--option", "judges=mine"), "no judge is called 'mine'"),
        (("--option", "worlds=arithmetic"), "takes no option 'worlds'; it takes judges, seeds, batches"),
        (("--option", "size=1"), "size=1: at least 2"),
        (("--option", "judges="), "judges of bench credit names nothing; leave the option away for all of them"),
        (("--option", "horizon=3"), "3 steps and an answer do not fit"),
        (("--judge", "x"), "bench credit has its own worlds and judges and takes no --judge"),
    ],
)
def test_what_the_command_cannot_do_is_said(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    assert why in " ".join(capsys.readouterr().err.split())


def test_the_page_of_the_docs_says_what_the_figures_say() -> None:
    text = (write_tables.DOCS / "rl.md").read_text(encoding="utf-8")
    stored = write_tables.credit_gradients()
    assert write_tables.written(text) == text, "run: python -m scripts.write_tables"
    assert advice(stored) in text and stored.plan.seeds >= 5
    assert {row.method for row in stored.rows} == set(methods()), "run: footfall bench credit --option docs=docs"
    assert all(declared("credit", name).unmeasured or f"`{name}`" in text for name in parts("credit"))


def test_the_page_of_the_docs_has_every_figure_that_is_stored() -> None:
    stored = write_tables.credit_gradients()
    tables = [CREDIT.blocks[f"credit-gradients-{name}"](stored).splitlines() for name in ("table", "batches")]
    heads = {cell.strip() for table in tables for cell in table[0].split("|")}
    missing = [what for what in HEAD[1:] if f"hackable: {what}" not in heads]
    assert missing == []
    (row,) = (line for line in tables[1] if line.startswith("| `capo` |"))
    # capo points 0.88 along the gradient in one batch with the exact judge, and 0.71 with the one that can be hacked.
    assert [cell.strip() for cell in row.split("|")[2:-1]] == ["0.88", "0.22", "0.82", "0.23", "0.71", "0.19"]
