"""Rows are stale when figures change, not when files do: hashes of outcomes, and what a check does with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from footfall.cli import main
from footfall.lab import checking
from footfall.lab import ledger as the_ledger
from footfall.lab.checking import merge, record_run, update
from footfall.lab.fingerprint import (
    Kept,
    Record,
    Records,
    environment,
    fingerprint,
    outcome_hash,
    outcomes_file,
    read_kept,
    read_outcomes,
    record_outcomes,
)  # fmt: skip
from footfall.lab.ledger import RELABELLED, RESCALED, Row, lines, read_ledger
from footfall.lab.recipe import Entry, Outcome, find
from footfall.lab.runner import run_recipe
from footfall.lab.verdicts import effect, effect_by_looks
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
        self.record(entry, 3)
        (self.runs / "calls").unlink(missing_ok=True)
        return entry

    def entry(self, name: str) -> Entry:
        return find(name, self.folder)

    def record(self, entry: Entry, seeds: int) -> str:
        outcomes = run_recipe(entry, range(seeds), self.runs / entry.recipe.name).outcomes
        return record_run(self.ledger, entry, outcomes, self.runs)

    def check(self, entry: Entry) -> checking.Standing:
        kept = read_outcomes(self.ledger).get(entry.recipe.name)
        return checking.check(entry, read_ledger(self.ledger), kept, self.runs)

    @property
    def calls(self) -> list[str]:
        path = self.runs / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def row(self) -> Row:
        return read_ledger(self.ledger)[0]

    def outcome(self, name: str = "toy") -> Record:
        return read_outcomes(self.ledger)[name]["environments"][environment()]

    def remember(self, records: Records, name: str = "toy") -> None:
        """These records in place of the ones at hand."""
        kept = read_outcomes(self.ledger)[name]
        record_outcomes(self.ledger, name, Kept(statistics=kept["statistics"], rows=kept["rows"], environments=records))

    def elsewhere(self, name: str = "toy", code: str | None = None, quick: str | None = None) -> None:
        """As if what is recorded came from another machine."""
        here = self.outcome(name)
        there = Record(code=code or here["code"], quick=quick or here["quick"], seeds=here["seeds"])
        self.remember({"vax, torch 0.1": there}, name)


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
    assert lab.check(entry).status == "current"
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == []


def test_a_refactoring_that_leaves_the_figures_alone_keeps_the_row_current(lab: Lab) -> None:
    before = fingerprint(lab.measured().path)
    row, entry = lab.row, lab.recipe(REFACTORED)
    assert fingerprint(entry.path) != before
    assert lab.check(entry).status == "current"
    assert lab.calls == ["toy quick"]
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == ["toy quick"], "what the check measured is kept"
    assert lab.outcome()["code"] == fingerprint(entry.path), "the next look runs nothing"
    assert lab.row == row


def test_a_change_of_a_figure_makes_the_row_stale_and_an_update_makes_it_anew(lab: Lab) -> None:
    lab.measured()
    old, entry = lab.outcome(), lab.recipe(FIGURES_CHANGED)
    found = lab.check(entry)
    assert (found.status, found.why) == ("stale", "its quick outcome differs from the recorded one")
    assert lab.outcome() == old, "a check writes nothing"
    assert update(lab.ledger, entry, lab.runs).why == "measured anew on 3 seeds"
    assert lab.calls == ["toy quick", "toy 0", "toy 1", "toy 2"]
    assert lab.row["effect"] == pytest.approx(1.5)
    assert lab.row["version"].endswith(fingerprint(entry.path))
    assert lab.outcome()["seeds"].keys() == old["seeds"].keys()
    assert not set(lab.outcome()["seeds"].values()) & set(old["seeds"].values())
    assert lab.check(entry).status == "current"


def test_a_full_seed_with_the_recorded_figures_keeps_the_row_and_records_the_new_quick_hash(lab: Lab) -> None:
    lab.measured()
    row, old, entry = lab.row, lab.outcome(), lab.recipe(QUICK_CHANGED)
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == ["toy quick", "toy 0"]
    assert lab.row == row
    assert lab.outcome()["quick"] != old["quick"]
    assert lab.outcome()["seeds"] == old["seeds"]
    assert lab.check(lab.recipe((QUICK_CHANGED[0], QUICK_CHANGED[1] + "  #"))).status == "current"


def test_without_hashes_of_full_seeds_a_quick_outcome_that_differs_costs_all_of_them(lab: Lab) -> None:
    lab.measured()
    here = lab.outcome()
    lab.remember({environment(): Record(code=here["code"], quick=here["quick"], seeds={})})
    assert update(lab.ledger, lab.recipe(REFACTORED), lab.runs).status == "current"
    assert lab.calls == ["toy quick"]
    assert update(lab.ledger, lab.recipe(QUICK_CHANGED), lab.runs).why == "measured anew on 3 seeds"
    assert list(lab.outcome()["seeds"]) == ["0", "1", "2"]


def test_a_full_seed_of_another_machine_decides_too_if_its_figures_are_the_same(lab: Lab) -> None:
    lab.measured()
    here = lab.outcome()
    there = Record(code=here["code"], quick="f" * 16, seeds=here["seeds"])
    lab.remember({environment(): Record(code=here["code"], quick=here["quick"], seeds={}), "vax": there})
    assert update(lab.ledger, lab.recipe(QUICK_CHANGED), lab.runs).why == (
        "the quick outcome differs, a full seed does not: the row stays"
    )
    assert lab.calls == ["toy quick", "toy 0"]
    assert lab.outcome()["seeds"] == {"0": here["seeds"]["0"]}


def test_a_stale_row_is_made_anew_from_all_its_seeds_though_hashes_of_some_are_recorded(lab: Lab) -> None:
    lab.measured()
    here = lab.outcome()
    lab.remember({environment(): Record(code=here["code"], quick=here["quick"], seeds={"0": here["seeds"]["0"]})})
    assert update(lab.ledger, lab.recipe(FIGURES_CHANGED), lab.runs).why == "measured anew on 3 seeds"
    assert lab.row["seeds"] == len(lab.outcome()["seeds"]) == 3


def test_another_environment_cannot_tell_unless_the_hash_is_the_same(lab: Lab) -> None:
    lab.measured()
    lab.elsewhere()
    row, entry = lab.row, lab.recipe(FIGURES_CHANGED)
    for found in (lab.check(entry), update(lab.ledger, entry, lab.runs)):
        assert (found.status, found.why) == ("cannot tell", "cannot tell here: recorded on vax, torch 0.1")
    assert lab.row == row
    assert list(read_outcomes(lab.ledger)["toy"]["environments"]) == ["vax, torch 0.1"]
    assert lab.check(lab.recipe(REFACTORED)).status == "current", "equal hashes are equal anywhere"


def test_an_update_with_unchanged_code_records_this_environment_beside_the_others(lab: Lab) -> None:
    lab.measured()
    lab.elsewhere(quick="0123")
    entry = lab.recipe()
    assert lab.check(entry).status == "current"
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert list(read_outcomes(lab.ledger)["toy"]["environments"]) == ["vax, torch 0.1", environment()]
    assert lab.outcome()["seeds"] == {}
    assert lab.check(lab.recipe(FIGURES_CHANGED)).status == "stale", "now it can tell"


def test_new_rows_forget_what_other_code_gave_elsewhere(lab: Lab) -> None:
    lab.measured()
    lab.elsewhere(code="other")
    assert lab.record(lab.recipe(FIGURES_CHANGED), 3) == "rows of 3 seeds recorded"
    assert list(read_outcomes(lab.ledger)["toy"]["environments"]) == [environment()]


def test_recording_current_rows_adds_hashes_of_this_environment_and_keeps_the_rows(lab: Lab) -> None:
    entry = lab.measured()
    seeds, row = lab.outcome()["seeds"], lab.row
    lab.elsewhere()
    assert lab.record(entry, 1).startswith("hashes of 1 seeds recorded")
    assert lab.record(entry, 2).startswith("hashes of 2 seeds recorded")
    assert lab.outcome()["seeds"] == {seed: seeds[seed] for seed in ("0", "1")}
    assert list(read_outcomes(lab.ledger)["toy"]["environments"]) == ["vax, torch 0.1", environment()]
    assert lab.row == row
    assert lab.check(entry).status == "current"


def test_a_stale_row_is_not_replaced_by_one_of_fewer_seeds(lab: Lab) -> None:
    lab.measured()
    row, kept, changed = lab.row, read_outcomes(lab.ledger), lab.recipe(FIGURES_CHANGED)
    assert lab.record(changed, 2) == "not recorded: new rows need 3 seeds, 2 are measured"
    assert (lab.row, read_outcomes(lab.ledger)) == (row, kept)
    assert lab.record(changed, 4) == "rows of 4 seeds recorded"
    assert lab.row["seeds"] == 4


def test_at_another_scale_a_row_is_replaced_whatever_its_seeds(lab: Lab) -> None:
    lab.measured()
    assert lab.record(lab.recipe(LARGER), 2) == "rows of 2 seeds recorded"
    assert lab.row["seeds"] == 2


def test_a_row_that_was_edited_or_removed_by_hand_is_named_with_the_fix(lab: Lab) -> None:
    entry = lab.measured()
    rows = json.loads(lab.ledger.read_text())
    lab.ledger.write_text(json.dumps([{**rows[0], "effect": 1.25}]))
    found = lab.check(entry)
    assert found.status == "stale"
    assert found.why == (
        'row "More is more.": edited by hand; take the edit back, or make it anew: footfall lab run toy --record'
    )
    (line,) = lines([entry], read_ledger(lab.ledger), read_outcomes(lab.ledger))
    assert line.stale, "seen without a check too"
    lab.ledger.write_text("[]")
    assert "its row was removed" in lab.check(entry).why
    assert lab.record(entry, 3) == "rows of 3 seeds recorded"
    assert lab.check(entry).status == "current"
    lab.ledger.write_text(json.dumps([{**rows[0], "claim": "More is less."}]))
    assert 'row "More is less.": no claim of the recipe has these words' in lab.check(entry).why


def test_a_change_in_how_rows_are_computed_makes_them_stale_and_an_update_makes_them_anew(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = lab.measured()
    before = lab.row
    monkeypatch.setattr(
        the_ledger, "effect_by_looks", lambda *given: (found := effect_by_looks(*given))._replace(low=found.low + 0.01)
    )
    the_ledger.statistics_hash.cache_clear()
    try:
        found = lab.check(entry)
        assert found.status == "stale"
        assert found.why == (
            'row "More is more.": rows are computed from outcomes otherwise now: footfall lab ledger --update'
        )
        assert update(lab.ledger, entry, lab.runs).status == "current"
        assert lab.calls == [], "the seeds are stored"
        assert lab.row["ci95"][0] == pytest.approx(before["ci95"][0] + 0.01)
        assert lab.check(entry).status == "current"
    finally:
        the_ledger.statistics_hash.cache_clear()


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("effect_by_looks", lambda real: lambda d, p=None: real(d)),
        ("effect_by_looks", lambda real: lambda d, p=None: effect(d, p, 0.975)),
        ("decide", lambda real: lambda found, direction, margin, smallest: real(found, direction, 0.0, smallest)),
        ("decide", lambda real: lambda found, direction, margin, smallest: real(found, "higher", margin, smallest)),
        ("decide", lambda real: lambda found, direction, margin, smallest: real(found, direction, margin)),
        ("metric_of", lambda real: lambda claim: claim.metric),
        ("without_room", lambda real: lambda claim, means: []),
    ],
    ids=["problems in common", "looks", "margin", "direction", "smallest effect", "words", "flags"],
)
def test_the_hash_of_the_statistics_sees_each_part_of_a_row(
    part: str, other: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = the_ledger.statistics_hash.__wrapped__()
    assert before == the_ledger.statistics_hash.__wrapped__()
    monkeypatch.setattr(the_ledger, part, other(getattr(the_ledger, part)))
    assert the_ledger.statistics_hash.__wrapped__() != before


def test_hashes_of_another_machine_are_merged_and_the_rows_stay(lab: Lab) -> None:
    entry = lab.measured()
    row, here = lab.row, lab.outcome()
    there = Record(code=here["code"], quick="f" * 16, seeds={"0": "0" * 16})
    more = Record(code=here["code"], quick="f" * 16, seeds={"0": "0" * 16, "10": "a" * 16, "2": "2" * 16})
    for given in (there, more):
        told = merge(lab.ledger, entry, _given({"vax": given}), lab.runs)
        assert told == [f"toy: {len(given['seeds'])} seeds merged, on vax"]
    merged = read_outcomes(lab.ledger)["toy"]["environments"]
    assert merged == {environment(): here, "vax": more}
    assert list(merged["vax"]["seeds"]) == ["0", "2", "10"]
    assert (lab.row, lab.calls) == (row, [])
    clash = Record(code=here["code"], quick="f" * 16, seeds={"0": "1" * 16})
    assert (
        "its figures differ from the recorded ones, on vax"
        in merge(lab.ledger, entry, _given({"vax": clash}), lab.runs)[0]
    )
    assert merge(lab.ledger, entry, _given({"vax": more}), lab.runs) == [], "nothing new"


def test_hashes_are_merged_only_if_their_code_is_known_to_give_the_rows(lab: Lab) -> None:
    lab.measured()
    here, entry = lab.outcome(), lab.recipe(REFACTORED)
    elsewhere = Record(code="0" * 12, quick="f" * 16, seeds={"0": "0" * 16})
    assert "not merged, it was measured with code that is not known" in merge(
        lab.ledger, entry, _given({"vax": elsewhere}), lab.runs
    )[0]  # fmt: skip
    now = Record(code=fingerprint(entry.path), quick="f" * 16, seeds={"0": "0" * 16})
    assert "1 seeds merged" in merge(lab.ledger, entry, _given({"vax": now}), lab.runs)[0]
    assert lab.calls == ["toy quick"], "the present code was checked first"
    # The other machine's file says that its code gave our quick outcome on a machine like this one.
    seen = Record(code="0" * 12, quick=here["quick"], seeds={})
    told = merge(lab.ledger, entry, _given({environment(): seen, "pdp": elsewhere}), lab.runs)
    assert "toy: 1 seeds merged, on pdp" in told


def _given(records: Records) -> Kept:
    return Kept(statistics="", rows=[], environments=records)


def test_a_claim_that_is_stated_otherwise_is_stale_though_no_figure_changed(lab: Lab) -> None:
    lab.measured()
    entry = lab.recipe(('method="more"', 'method="more", margin=2.0'))
    found = lab.check(entry)
    assert found.status == "stale"
    assert found.why == 'row "More is more.": the recipe states it otherwise now: footfall lab ledger --update'
    assert update(lab.ledger, entry, lab.runs).why == "measured anew on 3 seeds"
    assert (lab.row["metric"], lab.row["verdict"]) == ("size, margin +2", "does not hold")


def test_what_a_header_says_of_a_claim_is_taken_up_without_running_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.measured()
    before = lab.row
    entry = lab.recipe(('method="more"', 'method="more", stand_in="Toys.", smallest_effect=2.0'))
    found = lab.check(entry)
    assert (found.status, found.why) == ("stale", f'row "More is more.": {RELABELLED}')
    monkeypatch.setattr(checking, "record", _killed)
    with pytest.raises(KeyboardInterrupt):
        update(lab.ledger, entry, lab.runs)
    monkeypatch.undo()
    assert RELABELLED in lab.check(entry).why, "after a kill it is still known for what it is"
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == ["toy quick"], "no full seed"
    said = {"stand_in": "Toys.", "smallest_effect": 2.0, "verdict": "no difference"}
    assert lab.row == {**before, **said}
    assert lab.check(entry).status == "current"


LARGER = ('scale="Two numbers."', 'scale="A thousand numbers."')


def test_a_quick_outcome_says_nothing_of_another_scale_and_an_update_runs_it(lab: Lab) -> None:
    lab.measured()
    source = RECIPE.replace("FULL, QUICK = 0.0, 0.0", "FULL, QUICK = 0.5, 0.0").replace(*LARGER)
    (lab.folder / "toy.py").write_text(source.format(name="toy"), encoding="utf-8")
    entry = lab.entry("toy")
    found = lab.check(entry)
    assert (found.status, found.why) == ("stale", f'row "More is more.": {RESCALED}')
    (line,) = lines([entry], read_ledger(lab.ledger), read_outcomes(lab.ledger))
    assert line.stale, "the ledger shows it without a check"
    assert lab.calls == []
    assert update(lab.ledger, entry, lab.runs).why == "measured anew on 3 seeds"
    assert lab.row["scale"].startswith("A thousand numbers. Means: ")
    assert lab.row["effect"] == pytest.approx(1.5)
    assert lab.check(entry).status == "current"


def test_other_words_for_the_same_scale_cost_one_full_seed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.measured()
    before, entry = lab.row, lab.recipe(LARGER)
    monkeypatch.setattr(checking, "record", _killed)
    with pytest.raises(KeyboardInterrupt):
        update(lab.ledger, entry, lab.runs)
    monkeypatch.undo()
    assert RESCALED in lab.check(entry).why, "after a kill it is still known for what it is"
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == ["toy quick", "toy 0"]
    assert lab.row == {**before, "scale": before["scale"].replace("Two", "A thousand")}
    assert lab.check(entry).status == "current"


def test_another_name_of_the_world_is_taken_up_without_running_it(lab: Lab) -> None:
    lab.measured()
    before, entry = lab.row, lab.recipe(('world="none"', 'world="toys"'))
    assert RELABELLED in lab.check(entry).why
    assert update(lab.ledger, entry, lab.runs).status == "current"
    assert lab.calls == ["toy quick"]
    assert lab.row == {**before, "world": "toys"}


def _killed(*given: object) -> None:
    raise KeyboardInterrupt


def test_changed_code_without_any_recorded_outcome_is_stale(lab: Lab) -> None:
    lab.measured()
    outcomes_file(lab.ledger).unlink()
    assert lab.check(lab.recipe()).status == "current"
    assert lab.check(lab.recipe(REFACTORED)).status == "stale"


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
        [lab.check(entry) for entry in entries]
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


def test_a_kill_between_rows_and_hashes_leaves_the_old_rows_stale_and_loses_no_other_machine(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.measured()
    entry = lab.recipe(FIGURES_CHANGED)
    outcomes = run_recipe(entry, range(3), lab.runs / "toy").outcomes
    there = Record(code=fingerprint(entry.path), quick="1", seeds={"0": "2"})
    lab.remember({"vax, torch 0.1": there, environment(): lab.outcome()})
    monkeypatch.setattr(checking, "record", _killed)
    with pytest.raises(KeyboardInterrupt):
        record_run(lab.ledger, entry, outcomes, lab.runs)
    monkeypatch.undo()
    assert lab.check(entry).status == "stale"
    assert record_run(lab.ledger, entry, outcomes, lab.runs) == "rows of 3 seeds recorded"
    assert lab.check(entry).status == "current"
    assert read_outcomes(lab.ledger)["toy"]["environments"]["vax, torch 0.1"] == there


def test_a_hash_sees_figures_problems_and_cost_but_no_seconds_and_no_last_bits() -> None:
    def of(a: float = 0.1, cost: Cost = Cost(calls=7, flops=1e12), problems: tuple[str, ...] = ("p",)) -> str:
        return outcome_hash(Outcome({"x": [a], "y": [1.0]}, cost, problems))

    assert of() == of(0.1 + 1e-9) == of(cost=Cost(calls=7, flops=1e12 + 1, seconds=5))
    assert of() == outcome_hash(Outcome({"y": [1], "x": [0.1]}, Cost(calls=7, flops=1e12), ("p",)))
    assert of(0.0) == of(-0.0) == of(5.6e-17), "nothing stands beyond the 9th decimal"
    changed = [of(0.10001), of(cost=Cost(calls=8, flops=1e12)), of(problems=("q",)), of(problems=())]
    assert len({of(), *changed}) == 5


def test_a_broken_file_of_outcomes_is_named(lab: Lab) -> None:
    record: object
    path = outcomes_file(lab.ledger)
    for record, complaint in (
        ({"code": "1"}, "'toy' on 'here' must have the fields code, quick, seeds"),
        ({"code": "1", "quick": "2", "seeds": ["3"]}, "'toy' on 'here': seeds cannot be"),
    ):
        path.write_text(json.dumps({"toy": {"statistics": "", "rows": [], "environments": {"here": record}}}))
        with pytest.raises(ValueError, match=f"ledger_outcomes.json: {complaint}"):
            read_outcomes(lab.ledger)
    path.write_text(json.dumps({"toy": {"here": {}}}))
    with pytest.raises(ValueError, match="'toy' must have the fields statistics, rows, environments"):
        read_kept(path)
    path.write_text("{")
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


def test_a_check_of_named_systems_runs_and_tells_of_no_other(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(lab.folder)
    monkeypatch.setattr("footfall.commands.lab.RUNS", lab.runs)
    monkeypatch.setattr("footfall.commands.lab.catalogue", lambda: [lab.entry("first"), lab.entry("second")])
    monkeypatch.setattr("footfall.commands.lab.find", lab.entry)
    for name in ("first", "second"):
        lab.measured(name)
    lab.recipe(REFACTORED, "first")
    lab.recipe(FIGURES_CHANGED, "second")
    command = ["lab", "ledger", "--ledger", str(lab.ledger)]
    capsys.readouterr()
    assert main([*command, "first", "--check"]) == 0
    assert lab.calls == ["first quick"] and "second" not in capsys.readouterr().err
    assert main([*command, "first", "--update"]) == 0
    assert lab.calls == ["first quick"] and lab.outcome("first")["code"] == fingerprint(lab.entry("first").path)
    assert main([*command, "second", "--check"]) == 1
    assert lab.calls == ["first quick", "second quick"]


@pytest.fixture
def command(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The recipes `first` and `second`, where the command line finds them; nothing is measured yet."""
    monkeypatch.chdir(lab.folder)
    monkeypatch.setattr("footfall.commands.lab.RUNS", lab.runs)
    monkeypatch.setattr("footfall.commands.lab.catalogue", lambda: [lab.entry("first"), lab.entry("second")])
    monkeypatch.setattr("footfall.commands.lab.find", lab.entry)
    monkeypatch.setattr("footfall.commands.lab.checkout_ledger", lambda: lab.ledger)
    for name in ("first", "second"):
        lab.recipe(name=name)
    return lab


def test_a_run_writes_into_its_directory_and_into_the_ledger_only_if_told(
    command: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", "first"]) == 0
    assert "first: More is more." in capsys.readouterr().out
    assert json.loads((command.runs / "first" / "result.json").read_text())["rows"][0]["effect"] == pytest.approx(1.0)
    assert not command.ledger.exists() and not outcomes_file(command.ledger).exists()
    assert main(["lab", "run", "first", "--record"]) == 0
    assert "first: rows of 5 seeds recorded" in capsys.readouterr().err
    assert [row["name"] for row in read_ledger(command.ledger)] == ["first"]
    assert command.calls == [f"first {seed}" for seed in range(5)] + ["first quick"], "stored seeds are read"
    for words in (["--record", "--quick"], ["--ledger", "other.json"], ["--workers", "0"], ["--minutes", "-1"],
                  ["--minutes", "nan"], ["--all"], ["all"]):  # fmt: skip
        assert main(["lab", "run", "first", *words]) == 2
    assert main(["lab", "run"]) == 2


def test_all_recipes_run_on_the_device_that_is_asked_for_and_are_recorded_under_its_name(
    command: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", "first", "--device", "gpu"]) == 2
    assert "an NVIDIA GPU is cuda" in capsys.readouterr().err
    monkeypatch.setattr("footfall.loading.pick_device", torch.device)  # as if this machine had one
    told = ("return Outcome(", "(trial.folder.parents[2] / 'devices').open('a').write(trial.device); return Outcome(")
    for name in ("first", "second"):
        command.recipe(told, name=name)
    assert main(["lab", "run", "--all", "--seeds", "2", "--device", "mps", "--record"]) == 0
    assert (command.runs / "devices").read_text() == "mps" * 6, "two seeds and the quick outcome of each"
    for kept in read_outcomes(command.ledger).values():
        assert list(kept["environments"]) == [f"mps, {environment()}"]


NOISY = ("v + 1 + (QUICK", "v + (-0.5, 0.5)[trial.seed % 2] + 0.3 + (QUICK")


def test_seeds_are_added_until_every_claim_is_decided_or_the_budget_is_spent(
    command: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    command.recipe(NOISY, name="first")
    assert main(["lab", "run", "all", "--budget", "10", "--record", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["second"]["verdict"], rows["second"]["seeds"]) == ("holds", 5), "decided at the first look"
    assert (rows["first"]["verdict"], rows["first"]["seeds"]) == ("undecided", 10)
    assert rows["first"]["notes"] == ["10 of 20 seeds"]
    assert [row["seeds"] for row in read_ledger(command.ledger)] == [10, 5]
    assert main(["lab", "run", "first", "--budget", "20", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["verdict"], row["seeds"]) == ("undecided", 20)
    assert command.calls.count("first 3") == 1, "what an earlier run measured is read"


@pytest.mark.long
def test_further_seeds_of_one_recipe_do_not_wait_for_another(command: Lab) -> None:
    """The last seed of `second` waits for the tenth of `first`, which needs a second look."""
    command.recipe(NOISY, name="first")
    waits = """if trial.seed == 4 and not trial.quick:
        import time
        until = time.monotonic() + 120
        while "first 9" not in (trial.folder.parents[2] / "calls").read_text():
            assert time.monotonic() < until, "first was not looked at again"
            time.sleep(0.1)
    less"""
    command.recipe(("less = [0.1", f"{waits} = [0.1"), name="second")
    assert main(["lab", "run", "all", "--budget", "10", "--workers", "2"]) == 0


def test_the_ledger_shows_main_claims_and_unfolds_a_system_with_its_notes(
    command: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    more = 'Claim("Less is less.", metric="accuracy", direction="higher", baseline="more", method="less")'
    command.recipe(('method="more"),)', f'method="more", stand_in="Toys."), {more})'), name="first")
    assert main(["lab", "run", "all", "--seeds", "5", "--record"]) == 0
    capsys.readouterr()
    shown = {}
    for words in ((), ("first",), ("--all",)):
        assert main(["lab", "ledger", "--ledger", str(command.ledger), *words]) == 0
        shown[words] = capsys.readouterr().out
    assert [text.count("is more.") for text in shown.values()] == [2, 1, 2]
    assert ["Less is less." in text for text in shown.values()] == [False, True, True]
    assert "Stand-in: Toys." in shown["first",] and "Ceiling: more" in shown["first",]
    assert "lab, 5 seeds" in shown[()]
    page = (command.folder / "ledger.md").read_text()
    assert page.count("More is more.") == 2 + 4, "a line a system, then its claims and its notes, folded"
    assert page.count("<details") == page.count("</details>") == 2


@pytest.mark.long
def test_workers_share_the_seeds_of_all_recipes_and_give_what_one_process_gives(command: Lab, tmp_path: Path) -> None:
    assert main(["lab", "run", "all", "--seeds", "3", "--out", str(tmp_path / "alone")]) == 0
    assert main(["lab", "run", "all", "--seeds", "3", "--workers", "2", "--record"]) == 0
    for name in ("first", "second"):
        alone, shared = (
            json.loads((folder / name / "result.json").read_text())["rows"]
            for folder in (tmp_path / "alone", command.runs)
        )
        for rows in (alone, shared):
            rows[0]["cost"]["seconds"] = 0
        assert alone == shared
        assert list(command.outcome(name)["seeds"]) == ["0", "1", "2"]
    units = [f"{name} {what}" for name in ("first", "second") for what in ("quick", 0, 1, 2)]
    assert sorted(command.calls) == sorted(units), "each unit once"
    assert [row["seeds"] for row in read_ledger(command.ledger)] == [3, 3]


def test_after_the_minutes_nothing_is_begun_and_what_is_done_is_recorded(
    command: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        command.record(command.entry(name), 3)
    command.elsewhere("first")
    (command.runs / "calls").unlink()
    rows = read_ledger(command.ledger)

    def full() -> list[str]:
        return [call for call in command.calls if "quick" not in call]

    monkeypatch.setattr("footfall.lab.runner.time", SimpleNamespace(monotonic=lambda: 60.0 * len(full())))
    run = ["lab", "run", "all", "--seeds", "3", "--seed", "3", "--record", "--minutes"]
    assert main([*run, "0"]) == 0
    assert command.calls == []
    assert main([*run, "2"]) == 0
    assert full() == ["first 3", "second 3"], "a minute each; a seed of each recipe comes first"
    assert "2 of 2 recipes are not done; the same command goes on" in capsys.readouterr().err
    assert "3" in command.outcome("first")["seeds"]
    assert read_ledger(command.ledger) == rows


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_one_broken_recipe_costs_only_itself(workers: str, command: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    command.recipe(("    less", "    assert trial.seed != 1\n    less"), "first")
    assert main(["lab", "run", "all", "--seeds", "2", "--workers", workers]) == 1
    said = capsys.readouterr()
    assert "1 recipes failed: first" in said.err
    assert "second: More is more." in said.out and "first: More is more." not in said.out


@pytest.mark.long
def test_a_check_shares_the_quick_outcomes_among_workers(command: Lab) -> None:
    assert main(["lab", "run", "all", "--record", "--seeds", "2"]) == 0
    (command.runs / "calls").unlink()
    for name in ("first", "second"):
        command.recipe(REFACTORED, name)
    checked = ["lab", "ledger", "--ledger", str(command.ledger), "--check"]
    assert main([*checked, "--workers", "2"]) == 0
    assert main(checked) == 0
    assert sorted(command.calls) == ["first quick", "second quick"], "each once"


def test_the_command_merges_what_another_machine_recorded(command: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "all", "--record", "--seeds", "2"]) == 0
    rows, kept = read_ledger(command.ledger), read_outcomes(command.ledger)
    for name in ("first", "second"):
        given = {"vax": Record(code=command.outcome(name)["code"], quick="f", seeds={"0": "a", "1": "b"})}
        kept[name] = Kept(statistics=kept[name]["statistics"], rows=kept[name]["rows"], environments=given)
    (command.folder / "theirs.json").write_text(json.dumps({**kept, "gone": kept["first"]}))
    merged = ["lab", "ledger", "--ledger", str(command.ledger), "--merge", "theirs.json"]
    assert main(merged) == 0
    said = capsys.readouterr().err
    assert "first: 2 seeds merged, on vax" in said and "gone: nothing is merged" in said
    assert list(read_outcomes(command.ledger)["second"]["environments"]) == [environment(), "vax"]
    assert read_ledger(command.ledger) == rows
    assert main([*merged, "--check"]) == 2
