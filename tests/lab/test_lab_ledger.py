"""The ledger and its pages: merging, staleness, checks, and the command that shows them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import pytest

from footfall.cli import main
from footfall.lab.checking import check, record_run, update
from footfall.lab.fingerprint import fingerprint, read_outcomes, version_of
from footfall.lab.ledger import Row, checkout_ledger, lines, read_ledger, record
from footfall.lab.pages import brief_cost, out_of_date, write_pages
from footfall.lab.recipe import catalogue, find
from footfall.lab.runner import run_recipe
from footfall.types import Cost


def row(name: str = "math-shepherd", claim: int = 0, **changes: Any) -> Row:
    entry = find(name)
    stated = entry.recipe.claims[claim]
    made: dict[str, Any] = {
        "name": name, "claim": stated.claim, "world": "arithmetic", "metric": stated.metric, "direction": stated.direction,
        "baseline": stated.baseline, "method": stated.method, "effect": -0.05, "ci95": [-0.06, -0.04], "seeds": 5,
        "cost": Cost(generated_tokens=1_200_000, seconds=200).to_dict(), "verdict": "holds",
        "scale": f"{entry.recipe.scale} Means: none.",
        "version": version_of(entry.path), "main": claim == 0, "stand_in": stated.stand_in, "tier": "lab",
        "smallest_effect": 0.02, "notes": [],
    }  # fmt: skip
    return cast(Row, {**made, **changes})


def test_recording_replaces_the_rows_of_that_name_and_keeps_the_others(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    record(ledger, [row(), row(claim=1)])
    record(ledger, [row("best-of-n", verdict="does not hold")])
    record(ledger, [row(effect=-0.07), row(claim=1)])
    rows = read_ledger(ledger)
    assert [r["name"] for r in rows] == ["best-of-n", "math-shepherd", "math-shepherd"]
    assert [r["effect"] for r in rows] == [-0.05, -0.07, -0.05]


@pytest.mark.long
def test_a_claim_is_stale_when_its_version_differs_and_not_run_without_a_row() -> None:
    shown = lines(catalogue(), [row(version="0.1.0+000000000000"), row(claim=1)])
    by_claim = {(line.entry.recipe.name, line.claim.claim): line for line in shown}
    claims = [claim for claim in find("math-shepherd").recipe.claims if claim.tier == "lab"]
    first, second = (by_claim["math-shepherd", claim.claim] for claim in claims)
    assert (first.stale, second.stale) == (True, False)
    assert by_claim["best-of-n", find("best-of-n").recipe.claims[0].claim].verdict == "not run"


RECIPE = """
from footfall.lab.recipe import Claim, Outcome, Recipe

RECIPE = Recipe(
    name="toy", paper="Toy", arxiv=None, year=2025, stage="search", world="arithmetic", scale="Small.",
    claims=(
        Claim("A beats B.", metric="accuracy", direction="higher", baseline="B", method="A"),
        Claim("A beats B on GSM8K.", metric="accuracy", direction="higher", baseline="B", method="A", tier="real"),
    ),
)


def measure(trial):
    return Outcome({"A": [1.0, 1.0, 0.0], "B": [0.0, 1.0, 0.0]})
"""


GIVEN: dict[str, Any] = {
    "name": "toy", "claim": "A beats B on GSM8K.", "world": "GSM8K test", "effect": 0.04, "ci95": [0.01, 0.07], "seeds": 2,
    "means": {"B": 0.6, "A": 0.64}, "scale": "A model of 1.5B.", "command": "python -m scripts.loop evaluate",
}  # fmt: skip


def test_a_run_shows_its_own_means_beside_its_own_effects_and_says_which_figures_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.py").write_text(RECIPE)
    (tmp_path / "real.json").write_text(json.dumps([GIVEN]))
    monkeypatch.setattr("footfall.commands.lab.find", lambda name: find(name, tmp_path))
    assert main(["lab", "run", "toy", "--seeds", "2"]) == 0
    lab, real = capsys.readouterr().out.split("toy: A beats B on GSM8K.")
    assert "0.6667" in lab and "stored" not in lab
    assert "0.6667" not in real and "not measured by this run. A model of 1.5B. Means: B 0.6, A 0.64." in real


def test_stored_figures_that_decide_nothing_ask_for_no_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.py").write_text(
        RECIPE.replace('"B": [0.0, 1.0, 0.0]', '"B": [0.0, 0.0, 0.0]').replace("1.0, 0.0]", "1.0, 1.0]")
    )
    (tmp_path / "real.json").write_text(json.dumps([{**GIVEN, "ci95": [-0.01, 0.09]}]))
    monkeypatch.setattr("footfall.commands.lab.find", lambda name: find(name, tmp_path))
    assert main(["lab", "run", "toy", "--json"]) == 0
    assert [(row["verdict"], row["seeds"]) for row in json.loads(capsys.readouterr().out)] == [
        ("holds", 5),
        ("undecided", 2),
    ]


def test_a_claim_at_real_scale_gets_its_verdict_from_stored_figures_and_no_code_makes_it_stale(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(RECIPE)
    given = GIVEN
    (entry,), ledger, stored = catalogue(tmp_path), tmp_path / "ledger.json", tmp_path / "real.json"
    record_run(ledger, entry, run_recipe(entry, range(5), tmp_path / "runs" / "toy").outcomes, tmp_path / "runs")
    assert [row["tier"] for row in read_ledger(ledger)] == ["lab"]  # nothing is stored yet

    stored.write_text(json.dumps([given]))
    assert update(ledger, entry, tmp_path / "runs").status == "current"
    row = read_ledger(ledger)[1]
    assert (row["verdict"], row["effect"], row["ci95"], row["tier"]) == ("holds", 0.04, [0.01, 0.07], "real")
    assert "Means: B 0.6, A 0.64." in row["scale"] and given["command"] in row["scale"]

    (tmp_path / "toy.py").write_text(RECIPE.replace("1.0, 1.0, 0.0", "1.0, 0.0, 0.0"))
    (entry,) = catalogue(tmp_path)
    states = {
        line.row["tier"]: line.status for line in lines([entry], read_ledger(ledger), read_outcomes(ledger)) if line.row
    }
    assert states == {"lab": "unchecked", "real": "current"}

    stored.write_text(json.dumps([{**given, "ci95": [-0.01, 0.09]}]))
    recorded = read_ledger(ledger), read_outcomes(ledger)["toy"]
    assert "stored figures" in check(entry, *recorded, tmp_path / "runs").why
    update(ledger, entry, tmp_path / "runs")
    changed = read_ledger(ledger)[1]
    assert changed["verdict"] == "undecided" and changed["notes"] == ["the stored figures do not decide it"]

    stored.write_text(json.dumps([{"name": "toy"}]))
    with pytest.raises(ValueError, match=r"real.json: entry 1 must have name, claim"):
        check(entry, *recorded, tmp_path / "runs")


@pytest.mark.long
def test_a_release_alone_makes_nothing_stale() -> None:
    code = fingerprint(find("math-shepherd").path)
    (line,) = [line for line in lines(catalogue(), [row(version=f"9.9.9+{code}")]) if line.row]
    assert line.status == "current"


def test_a_row_without_its_recipe_or_with_other_fields_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such recipe"):
        lines(catalogue(), [row(name="math-shepherd") | {"name": "gone"}])
    bad = {k: v for k, v in row().items() if k != "seeds"}
    (tmp_path / "ledger.json").write_text(json.dumps([row(), bad]))
    with pytest.raises(ValueError, match=r"ledger.json: row 2 .* 'seeds'"):
        read_ledger(tmp_path / "ledger.json")
    (tmp_path / "ledger.json").write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        read_ledger(tmp_path / "ledger.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [("effect", None), ("effect", "x"), ("ci95", [0.1]), ("ci95", [math.nan, 1]), ("seeds", "5"), ("cost", 3), ("notes", [3]),
     ("verdict", []), ("verdict", "\x1b[2J"), ("version", []), ("stand_in", 5), ("smallest_effect", 10**400)],
)  # fmt: skip
def test_a_row_with_a_field_of_another_kind_is_named(field: str, value: object, tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text(json.dumps([row(), row() | {field: value}]))
    with pytest.raises(ValueError, match=rf"ledger.json: row 2: {field} "):
        read_ledger(tmp_path / "ledger.json")


def test_pages_link_recipe_and_paper_and_show_effect_and_verdict(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    record(ledger, [row(), row(claim=1, version="0.1.0+0")])
    write_pages(ledger, lines(catalogue(), read_ledger(ledger)))
    page, papers = (tmp_path / "ledger.md").read_text(), (tmp_path / "papers.md").read_text()
    link = page.partition("[math-shepherd](")[2].partition(")")[0]
    assert (tmp_path / link).resolve() == find("math-shepherd").path
    assert "(https://arxiv.org/abs/2312.08935)" in page
    assert "*(stand-in)* | -0.0500 [-0.0600, -0.0400] | holds | lab, 5 seeds |" in page
    assert "-0.0500 [-0.0600, -0.0400] | 0.02 | holds | 5 | 1.2M tokens, 3 min |" in page
    assert page.count("- Soft labels approach the exact value as rollouts grow. Stand-in: The paper verifies") == 1
    assert "| holds (stale) |" in page
    assert "| not run |" in page
    claims = [claim for entry in catalogue() for claim in entry.recipe.claims]
    left = f"Without a verdict, not run or undecided: {len(claims) - 2} of {len(claims)} claims ("
    assert left in page, "what was never run has no verdict either"
    assert "| holds; holds; not run; not run; not run |" in papers, "claims at real scale without figures too"


def test_the_page_tells_the_hours_of_sixteen_workers_and_what_is_not_in_them(tmp_path: Path) -> None:
    ledger, given = tmp_path / "ledger.json", row()
    record(ledger, [given | {"cost": given["cost"] | {"seconds": 16 * 3600.0 * 2}}])
    write_pages(ledger, lines(catalogue(), read_ledger(ledger)))
    costs = (tmp_path / "ledger.md").read_text().partition("## What it cost")[2]
    assert "took 32.0 hours of one core" in costs and "that is 2.0 hours of work for each" in costs
    assert "may take 384 minutes more" in costs, "five seeds of 32 hours"
    never = costs.partition("Never run, and not in it: ")[2].partition(".\n")[0].split(", ")
    assert "pav" in never and "math-shepherd" not in never


@pytest.mark.long
def test_the_check_finds_edited_pages_but_forgives_stale_marks(tmp_path: Path) -> None:
    ledger, page = tmp_path / "ledger.json", tmp_path / "ledger.md"
    record(ledger, [row()])
    assert main(["lab", "ledger", "--ledger", str(ledger), "--check"]) == 1
    assert main(["lab", "ledger", "--ledger", str(ledger)]) == 0
    assert main(["lab", "ledger", "--ledger", str(ledger), "--check"]) == 0
    page.write_text(page.read_text().replace("| holds |", "| holds (stale) |"))
    assert out_of_date(ledger, lines(catalogue(), read_ledger(ledger))) == []
    page.write_text(page.read_text().replace("-0.0500", "-0.5000"))
    assert main(["lab", "ledger", "--ledger", str(ledger), "--check"]) == 1


def test_the_ledger_command_prints_json_with_stale_rows_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "ledger.json", [row(version="0.1.0+0")])
    assert main(["lab", "ledger", "--ledger", str(tmp_path / "ledger.json"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [r.get("stale") for r in shown if r["name"] == "math-shepherd"] == [True, *[None] * 4]
    assert {r["verdict"] for r in shown} == {"holds", "not run"}


def test_a_ledger_that_is_not_there_is_no_empty_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "ledger", "--ledger", str(tmp_path / "legder.json")]) == 2
    said = capsys.readouterr()
    assert "legder.json: there is no such ledger" in said.err and said.out == ""
    assert list(tmp_path.iterdir()) == [], "no pages of it"


def test_the_ledger_as_json_has_the_systems_that_were_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "ledger.json", [row()])
    assert main(["lab", "ledger", "pav", "--ledger", str(tmp_path / "ledger.json"), "--json"]) == 0
    assert {r["name"] for r in json.loads(capsys.readouterr().out)} == {"pav"}


def test_the_ledger_command_shows_whole_claims_in_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "ledger.json", [row()])
    for columns in (70, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["lab", "ledger", "--ledger", str(tmp_path / "ledger.json")]) == 0
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= columns
        assert "-0.0500 [-0.0600, -0.0400]" in shown
        assert columns > 100 or find("math-shepherd").recipe.claims[0].claim in " ".join(shown.split())


def test_the_run_command_records_when_told_and_answers_wrong_use_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "run", "math-shepherd", "--quick", "--seeds", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [r["name"] for r in rows] == ["math-shepherd"] * 2
    assert (tmp_path / "runs" / "lab" / "math-shepherd-quick" / "result.json").is_file()
    assert main(["lab", "run", "no-such-thing"]) == 2
    assert main(["lab", "run", "math-shepherd", "--seeds", "0"]) == 2
    assert capsys.readouterr().err.count("\nfootfall: ") == 1


@pytest.mark.long
def test_an_installed_package_shows_the_ledger_that_it_came_with_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "ledger.json"
    for module in ("footfall.commands.lab", "footfall.lab.ledger"):
        monkeypatch.setattr(f"{module}.SHIPPED", shipped)
        monkeypatch.setattr(f"{module}.checkout_ledger", lambda: None)
    assert main(["lab", "ledger"]) == 2
    record(shipped, [row()])
    for words in ([], ["--check"]):
        assert main(["lab", "ledger", "--json", *words]) == 0
        assert "holds" in {shown["verdict"] for shown in json.loads(capsys.readouterr().out)}
    assert main(["lab", "ledger", "--update"]) == 2
    assert "the ledger of an installed package is for reading" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.json"]


@pytest.mark.long
def test_a_wheel_has_the_ledger_and_the_documentation_of_its_checkout(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    ledger = checkout_ledger()
    if ledger is None:
        pytest.skip("no checkout")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ledger.parents[1], check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    assert (tmp_path / "site/footfall/docs/first_hour.md").is_file(), "the documentation is in the wheel"
    shown = subprocess.run(
        [sys.executable, "-m", "footfall.cli", "lab", "ledger", "--json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "site")}, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    claims = [(r["name"], r["claim"], r.get("effect"), r.get("status", "current")) for r in json.loads(shown.stdout)]
    assert claims == [
        (line.entry.recipe.name, line.claim.claim, line.row and line.row["effect"], line.status)
        for line in lines(catalogue(), read_ledger(ledger), read_outcomes(ledger))
    ]


def test_costs_are_told_briefly() -> None:
    assert brief_cost(Cost(generated_tokens=999, seconds=4)) == "999 tokens, 4 s"
    assert brief_cost(Cost(generated_tokens=2_000, scored_tokens=500, seconds=150)) == "2.5k tokens, 2 min"


@pytest.mark.long
def test_the_committed_pages_are_what_the_committed_ledger_gives() -> None:
    ledger = checkout_ledger()
    if ledger is None or not ledger.exists():
        pytest.skip("no checkout")
    assert out_of_date(ledger, lines(catalogue(), read_ledger(ledger))) == []
