"""Rows are stale when figures change, not when files do: hashes of outcomes, and what a check does with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from footfall.cli import main
from footfall.lab import check as checking
from footfall.lab.check import check, record_run, update
from footfall.lab.fingerprint import fingerprint
from footfall.lab.ledger import Row, lines, read_ledger, record
from footfall.lab.outcomes import Record, environment, outcome_hash, outcomes_file, read_outcomes, record_outcomes
from footfall.lab.recipe import Entry, Outcome, find
from footfall.lab.runner import run_recipe
from footfall.types import Cost

RECIPE = '''"""A paper. What differs: nothing."""

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.types import Cost

RECIPE = Recipe(
    name="{name}", paper="Toys", arxiv="1234.56789", year=2024, stage="search", world="none", scale="Two numbers.",
    claims=(Claim("More is more.", metric="size", direction="higher", baseline="less", method="more"),),
)
FULL, QUICK = 0.0, 0.0


def measure(trial: Trial) -> Outcome:
    with (trial.folder.parents[2] / "calls").open("a") as calls:
        calls.write(f"{{RECIPE.name}} {{'quick' if trial.quick else trial.seed}}\\n")
    less = [0.1 * trial.seed, 0.2]
    return Outcome({{"less": less, "more": [v + 1 + (QUICK if trial.quick else FULL) for v in less]}}, Cost(calls=2))
'''
REFACTORED = ("less = [0.1 * trial.seed, 0.2]", "less = [trial.seed / 10, 1 / 5]")
QUICK_CHANGED = ("FULL, QUICK = 0.0, 0.0", "FULL, QUICK = 0.0, 0.5")
FIGURES_CHANGED = ("FULL, QUICK = 0.0, 0.0", "FULL, QUICK = 0.5, 0.5")


class Lab:
    """A folder with recipes, their ledger and their runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ledger, self.runs = folder, folder / "ledger.json", folder / "runs"
        self.runs.mkdir()

    def recipe(self, change: tuple[str, str] = ("", ""), name: str = "toy") -> Entry:
        source = RECIPE.format(name=name)
        assert change[0] in source
        (self.folder / f"{name}.py").write_text(source.replace(*change), encoding="utf-8")
        return find(name, self.folder)

    def measured(self, name: str = "toy") -> Entry:
        """The recipe with a row of three seeds and the hashes of its outcomes; calls are counted from here."""
        entry = self.recipe(name=name)
        record_run(self.ledger, entry, run_recipe(entry, range(3), self.runs / name), self.runs)
        (self.runs / "calls").unlink(missing_ok=True)
        return entry

    @property
    def calls(self) -> list[str]:
        path = self.runs / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def row(self) -> Row:
        return read_ledger(self.ledger)[0]

    def outcome(self, name: str = "toy") -> Record:
        return read_outcomes(self.ledger)[name][environment()]

    def elsewhere(self, code: str | None = None, quick: str | None = None) -> None:
        """As if what is recorded came from another machine."""
        here = self.outcome()
        there = Record(code=code or here["code"], quick=quick or here["quick"], seeds=here["seeds"])
        record_outcomes(self.ledger, "toy", {"vax, torch 0.1": there})


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_run_records_hashes_of_its_seeds_and_of_the_quick_outcome(lab: Lab) -> None:
    entry = lab.measured()
    assert list(lab.outcome()) == ["code", "quick", "seeds"]
    assert lab.outcome()["code"] == fingerprint(entry.path)
    assert list(lab.outcome()["seeds"]) == ["0", "1", "2"]
    assert len({lab.outcome()["quick"], *lab.outcome()["seeds"].values()}) == 3, "quick and seed 0 have equal figures"


def test_unchanged_code_is_current_and_nothing_is_run(lab: Lab) -> None:
    entry = lab.measured()
    assert check(lab.ledger, entry, lab.runs).status == "current"
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == []


def test_a_refactoring_that_leaves_the_figures_alone_keeps_the_row_current(lab: Lab) -> None:
    before = fingerprint(lab.measured().path)
    row, entry = lab.row, lab.recipe(REFACTORED)
    assert fingerprint(entry.path) != before
    assert check(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == ["toy quick"]
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == ["toy quick"], "what the check measured is kept"
    assert lab.outcome()["code"] == fingerprint(entry.path), "the next look runs nothing"
    assert lab.row == row


def test_a_change_of_a_figure_makes_the_row_stale_and_an_update_makes_it_anew(lab: Lab) -> None:
    lab.measured()
    old, entry = lab.outcome(), lab.recipe(FIGURES_CHANGED)
    found = check(lab.ledger, entry, lab.runs)
    assert (found.status, found.why) == ("stale", "its quick outcome differs from the recorded one")
    assert lab.outcome() == old, "a check writes nothing"
    assert update(lab.ledger, entry, lab.runs).why == "measured anew on 3 seeds"
    assert lab.calls == ["toy quick", "toy 0", "toy 1", "toy 2"]
    assert lab.row["effect"] == pytest.approx(1.5)
    assert lab.row["version"].endswith(fingerprint(entry.path))
    assert lab.outcome()["seeds"].keys() == old["seeds"].keys()
    assert not set(lab.outcome()["seeds"].values()) & set(old["seeds"].values())
    assert check(lab.ledger, entry, lab.runs).status == "current"


def test_a_full_seed_with_the_recorded_figures_keeps_the_row_and_records_the_new_quick_hash(lab: Lab) -> None:
    lab.measured()
    row, old, entry = lab.row, lab.outcome(), lab.recipe(QUICK_CHANGED)
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == ["toy quick", "toy 0"]
    assert lab.row == row
    assert lab.outcome()["quick"] != old["quick"]
    assert lab.outcome()["seeds"] == old["seeds"]
    assert check(lab.ledger, lab.recipe((QUICK_CHANGED[0], QUICK_CHANGED[1] + "  #")), lab.runs).status == "current"


def test_without_hashes_of_full_seeds_a_quick_outcome_that_differs_costs_all_of_them(lab: Lab) -> None:
    lab.measured()
    here = lab.outcome()
    record_outcomes(lab.ledger, "toy", {environment(): Record(code=here["code"], quick=here["quick"], seeds={})})
    assert update(lab.ledger, lab.recipe(REFACTORED), lab.runs).status == "current"
    assert lab.calls == ["toy quick"]
    assert update(lab.ledger, lab.recipe(QUICK_CHANGED), lab.runs).why == "measured anew on 3 seeds"
    assert list(lab.outcome()["seeds"]) == ["0", "1", "2"]


def test_another_environment_cannot_tell_unless_the_hash_is_the_same(lab: Lab) -> None:
    lab.measured()
    lab.elsewhere()
    row, entry = lab.row, lab.recipe(FIGURES_CHANGED)
    for look in (check, update):
        found = look(lab.ledger, entry, lab.runs)
        assert (found.status, found.why) == ("cannot tell", "cannot tell here: recorded on vax, torch 0.1")
    assert lab.row == row
    assert list(read_outcomes(lab.ledger)["toy"]) == ["vax, torch 0.1"]
    assert check(lab.ledger, lab.recipe(REFACTORED), lab.runs).status == "current", "equal hashes are equal anywhere"


def test_an_update_with_unchanged_code_records_this_environment_beside_the_others(lab: Lab) -> None:
    lab.measured()
    lab.elsewhere(quick="0123")
    entry = lab.recipe()
    assert check(lab.ledger, entry, lab.runs).status == "current"
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert list(read_outcomes(lab.ledger)["toy"]) == ["vax, torch 0.1", environment()]
    assert lab.outcome()["seeds"] == {}
    assert check(lab.ledger, lab.recipe(FIGURES_CHANGED), lab.runs).status == "stale", "now it can tell"


def test_a_run_forgets_what_other_code_gave_elsewhere(lab: Lab) -> None:
    lab.measured()
    lab.elsewhere(code="other")
    lab.measured()
    assert list(read_outcomes(lab.ledger)["toy"]) == [environment()]


def test_a_claim_that_is_stated_otherwise_is_stale_though_no_figure_changed(lab: Lab) -> None:
    lab.measured()
    entry = lab.recipe(('method="more"', 'method="more", margin=2.0'))
    found = check(lab.ledger, entry, lab.runs)
    assert (found.status, found.why) == ("stale", "a claim is stated otherwise")
    assert update(lab.ledger, entry, lab.runs).why == "measured anew on 3 seeds"
    assert (lab.row["metric"], lab.row["verdict"]) == ("size, margin +2", "does not hold")


def test_changed_code_without_any_recorded_outcome_is_stale(lab: Lab) -> None:
    lab.measured()
    outcomes_file(lab.ledger).unlink()
    assert check(lab.ledger, lab.recipe(), lab.runs).status == "current"
    assert check(lab.ledger, lab.recipe(REFACTORED), lab.runs).status == "stale"


def test_at_sight_changed_code_is_unchecked_and_not_stale(lab: Lab) -> None:
    lab.measured()
    (line,) = lines([lab.recipe(FIGURES_CHANGED)], read_ledger(lab.ledger), read_outcomes(lab.ledger))
    assert (line.status, line.stale) == ("unchecked", False)
    (line,) = lines([line.entry], read_ledger(lab.ledger), read_outcomes(lab.ledger), {"toy": "stale"})
    assert line.stale


def test_a_killed_check_and_a_killed_update_go_on(lab: Lab) -> None:
    names = ("first", "second")
    for name in names:
        lab.measured(name)
    killed = ("    less", '    assert (trial.folder.parents[2] / "go").exists()\n    less')
    entries = [lab.recipe(REFACTORED, "first"), lab.recipe(killed, "second")]
    with pytest.raises(AssertionError):
        [check(lab.ledger, entry, lab.runs) for entry in entries]
    with pytest.raises(AssertionError):
        [update(lab.ledger, entry, lab.runs) for entry in entries]
    assert lab.calls == ["first quick", "second quick", "second quick"], "the first is not measured twice"
    assert lab.outcome("first")["code"] == fingerprint(entries[0].path), "what was decided is recorded"
    (lab.runs / "go").touch()
    assert [update(lab.ledger, entry, lab.runs).status for entry in entries] == ["current", "current"]
    assert lab.calls[3:] == ["second quick"]


def test_an_update_that_is_killed_between_seeds_goes_on_with_the_next(lab: Lab) -> None:
    lab.measured()
    stops = RECIPE.format(name="toy").replace(*FIGURES_CHANGED).replace(
        "    less", '    assert trial.seed < 2 or (trial.folder.parents[2] / "go").exists()\n    less'
    )  # fmt: skip
    (lab.folder / "toy.py").write_text(stops)
    entry = find("toy", lab.folder)
    with pytest.raises(AssertionError):
        update(lab.ledger, entry, lab.runs)
    assert lab.row["effect"] == pytest.approx(1.0), "no half of a row"
    (lab.runs / "go").touch()
    update(lab.ledger, entry, lab.runs)
    assert lab.calls == ["toy quick", "toy 0", "toy 1", "toy 2", "toy 2"]
    assert lab.row["effect"] == pytest.approx(1.5)


def test_a_kill_between_rows_and_hashes_leaves_no_old_hash(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.measured()
    finding = run_recipe(lab.recipe(FIGURES_CHANGED), range(3), lab.runs / "toy")

    def killed(ledger: Path, rows: list[Row]) -> None:
        record(ledger, rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "record", killed)
    with pytest.raises(KeyboardInterrupt):
        record_run(lab.ledger, find("toy", lab.folder), finding, lab.runs)
    assert "toy" not in read_outcomes(lab.ledger)


def test_a_hash_sees_figures_problems_and_cost_but_no_seconds_and_no_last_bits() -> None:
    def of(a: float = 0.1, cost: Cost = Cost(calls=7, flops=1e12), problems: tuple[str, ...] = ("p",)) -> str:
        return outcome_hash(Outcome({"x": [a], "y": [1.0]}, cost, problems))

    assert of() == of(0.1 + 1e-9) == of(cost=Cost(calls=7, flops=1e12 + 1, seconds=5))
    assert of() == outcome_hash(Outcome({"y": [1], "x": [0.1]}, Cost(calls=7, flops=1e12), ("p",)))
    assert of(0.0) == of(-0.0) == of(5.6e-17), "nothing stands beyond the 9th decimal"
    changed = [of(0.10001), of(cost=Cost(calls=8, flops=1e12)), of(problems=("q",)), of(problems=())]
    assert len({of(), *changed}) == 5


def test_a_broken_file_of_outcomes_is_named(lab: Lab) -> None:
    outcomes_file(lab.ledger).write_text(json.dumps({"toy": {"here": {"code": "1"}}}))
    with pytest.raises(
        ValueError, match=r"ledger_outcomes.json: 'toy' on 'here' must have the fields code, quick, seeds"
    ):
        read_outcomes(lab.ledger)
    outcomes_file(lab.ledger).write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        read_outcomes(lab.ledger)


def test_the_command_checks_and_updates(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(lab.folder)
    monkeypatch.setattr("footfall.commands.lab.RUNS", lab.runs)
    monkeypatch.setattr("footfall.commands.lab.catalogue", lambda: [find("toy", lab.folder)])
    lab.measured()
    command = ["lab", "ledger", "--ledger", str(lab.ledger)]
    assert main(command) == 0
    lab.recipe(REFACTORED)
    assert main(command) == 0
    assert "code changed since the last check of toy; compare" in capsys.readouterr().err
    assert main([*command, "--check"]) == 0
    lab.recipe(FIGURES_CHANGED)
    capsys.readouterr()
    assert main([*command, "--check", "--json"]) == 1
    said = capsys.readouterr()
    assert [(row["status"], row["stale"]) for row in json.loads(said.out)] == [("stale", True)]
    assert "toy: its quick outcome differs" in said.err
    assert main([*command, "--update"]) == 0
    assert main([*command, "--check"]) == 0
    assert "+1.5000" in (lab.folder / "ledger.md").read_text()
    lab.elsewhere()
    lab.recipe()
    capsys.readouterr()
    assert main([*command, "--check"]) == 0
    assert "toy: cannot tell here: recorded on vax, torch 0.1" in capsys.readouterr().err
    assert main([*command, "--check", "--update"]) == 2
