"""Running recipes: seeds as units that survive a kill, rows with the ledger's schema, fingerprints that notice change."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from footfall.lab.checking import record_run
from footfall.lab.fingerprint import fingerprint, modules_of, version_of
from footfall.lab.recipe import Claim, Entry, Outcome, Trial, catalogue, find, load_measure
from footfall.lab.runner import run_recipe

HEADER = '''"""A paper. What differs: nothing."""

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.types import Cost

RECIPE = Recipe(
    name="toy-recipe", paper="Toys", arxiv="1234.56789", year=2024, stage="search", world="none",
    scale="Two numbers.",
    claims=(Claim("More is more.", metric="size", direction="higher", baseline="less", method="more", beside=("most",)),),
)
'''
MEASURE = """
def measure(trial: Trial) -> Outcome:
    (trial.folder / "called").touch()
    less = [0.1 * trial.seed, 0.2]
    return Outcome({"less": less, "more": [v + 1 + 0.01 * trial.seed for v in less], "most": 9}, Cost(calls=2))
"""


def toy(folder: Path, header: str = HEADER, measure: str = MEASURE) -> Entry:
    (folder / "toy_recipe.py").write_text(header + measure, encoding="utf-8")
    return find("toy-recipe", folder)


def test_a_row_has_exactly_the_fields_of_the_ledger(tmp_path: Path) -> None:
    (row,) = run_recipe(toy(tmp_path), range(3), tmp_path / "run").rows
    fields = "name claim world metric direction baseline method effect ci95 seeds cost verdict scale version "
    fields += "main stand_in tier smallest_effect notes"
    assert list(row) == fields.split()
    assert row["effect"] == pytest.approx(1.01)
    assert row["ci95"][0] < 1.01 < row["ci95"][1]
    assert (row["name"], row["seeds"], row["verdict"]) == ("toy-recipe", 3, "holds")
    assert (row["main"], row["stand_in"], row["tier"], row["smallest_effect"]) == (True, None, "lab", 0.015)
    assert row["cost"]["calls"] == 6
    assert row["scale"] == "Two numbers. Means: less 0.15, more 1.16, most 9."
    assert row["version"] == version_of(tmp_path / "toy_recipe.py")


def test_a_claim_by_one_figure_has_no_row_after_one_seed_and_is_not_recorded(tmp_path: Path) -> None:
    single = "\ndef measure(trial: Trial) -> Outcome:\n    return Outcome({'less': 0.1, 'more': 0.2 + trial.seed, 'most': 9})\n"
    entry = toy(tmp_path, measure=single)
    found = run_recipe(entry, [0], tmp_path / "runs" / "toy-recipe")
    assert found.rows == [] and found.means == pytest.approx({"less": 0.1, "more": 0.2, "most": 9})
    ledger = tmp_path / "ledger.json"
    assert record_run(ledger, entry, found.outcomes, tmp_path / "runs").startswith(
        "not recorded: one seed with one figure"
    )
    assert not ledger.exists()
    assert len(run_recipe(entry, [0, 1], tmp_path / "runs" / "toy-recipe").rows) == 1


def test_a_finished_seed_is_read_and_not_measured_again(tmp_path: Path) -> None:
    entry = toy(tmp_path)
    first = run_recipe(entry, range(2), tmp_path / "run")
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "seeds").iterdir()}
    again = run_recipe(entry, range(3), tmp_path / "run")
    assert len(list((tmp_path / "run" / "seeds").iterdir())) == 3
    assert all(path.stat().st_mtime_ns == then for path, then in stored.items())
    assert run_recipe(entry, range(2), tmp_path / "run").rows == first.rows != again.rows
    assert not list((tmp_path / "run" / "work").iterdir()), "scratch folders go when the outcome is stored"


def test_a_run_stopped_between_seeds_goes_on_and_gives_the_same(tmp_path: Path) -> None:
    stops = MEASURE.replace(
        "less = ", "assert trial.seed < 2 or (trial.folder.parents[1] / 'go').exists()\n    less = "
    )
    entry = toy(tmp_path, measure=stops)
    with pytest.raises(AssertionError):
        run_recipe(entry, range(4), tmp_path / "run")
    (tmp_path / "run" / "go").touch()
    resumed = run_recipe(entry, range(4), tmp_path / "run").rows[0]
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "go").touch()
    whole = run_recipe(entry, range(4), tmp_path / "whole").rows[0]
    timeless = [{**row, "cost": {**row["cost"], "seconds": 0}} for row in (resumed, whole)]
    assert timeless[0] == timeless[1]


def test_changed_code_is_measured_again(tmp_path: Path) -> None:
    before = run_recipe(toy(tmp_path), range(2), tmp_path / "run").rows[0]
    after = run_recipe(toy(tmp_path, measure=MEASURE.replace("v + 1", "v + 2")), range(2), tmp_path / "run").rows[0]
    assert after["effect"] == pytest.approx(before["effect"] + 1)


def test_the_result_is_in_the_run_directory(tmp_path: Path) -> None:
    finding = run_recipe(toy(tmp_path), range(2), tmp_path / "run", quick=True)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["rows"] == finding.rows
    assert result["quick"] is True
    assert result["means"]["most"] == 9


def test_a_fingerprint_sees_code_and_not_comments_or_docstrings(tmp_path: Path) -> None:
    path = toy(tmp_path).path
    code = fingerprint(path)
    retold = HEADER.replace("What differs: nothing", "What differs: little")
    toy(tmp_path, retold, MEASURE.replace("    less", "    # why\n    less"))
    assert fingerprint(path) == code
    assert version_of(path).partition("+")[2] == code, "the release is not in it: it alone makes nothing stale"
    toy(tmp_path, measure=MEASURE.replace("0.01", "0.02"))
    assert fingerprint(path) != code


def test_a_fingerprint_of_unchanged_files_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = toy(tmp_path).path
    code = fingerprint(path)
    monkeypatch.delitem(fingerprint.__globals__, "_source")
    assert fingerprint(path) == code


def test_a_collection_within_a_unit_goes_through_what_the_unit_made(tmp_path: Path) -> None:
    entry = toy(tmp_path, measure="import gc\n" + MEASURE.replace('"most": 9', '"most": len(gc.get_objects())'))
    before = len(gc.get_objects())
    assert run_recipe(entry, range(2), tmp_path / "run").means["most"] < before / 2
    assert gc.get_freeze_count() == 0 and len(gc.get_objects()) > before / 2, "afterwards all is looked through again"


def test_a_fingerprint_follows_imports_to_the_files_that_have_the_parts(tmp_path: Path) -> None:
    imports = "from footfall.search import BestOfN\nfrom footfall.train import train_prm\n"
    path = toy(tmp_path, measure=imports + MEASURE).path
    found = modules_of(path)
    assert {"footfall.search.best_of_n", "footfall.search.votes", "footfall.train.prm", "footfall.types.traces"} <= set(
        found
    )
    assert "footfall.label.monte_carlo" in modules_of(find("math-shepherd").path)
    assert {"footfall.search", "footfall.search.beam", "footfall.lab.recipe", "footfall.registry"}.isdisjoint(found)


def test_a_part_named_in_a_string_is_followed_too(tmp_path: Path) -> None:
    path = toy(tmp_path, measure=MEASURE + '\nPOLICY = "no"\n\ndef policy() -> str:\n    return "embedded"\n').path
    assert "footfall.policy.embedded" in modules_of(path)


def test_the_embedded_weights_belong_to_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = toy(tmp_path, measure="from footfall.policy.embedded import embedded\n" + MEASURE).path
    before = fingerprint(path)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.safetensors").write_bytes(b"other")
    monkeypatch.setitem(fingerprint.__globals__["_ASSETS"], "footfall.policy.embedded", tmp_path / "weights")
    assert fingerprint(path) != before


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (HEADER.replace('"toy-recipe"', '"other"'), "belongs into a file called other.py"),
        (HEADER.replace('"higher"', '"up"'), "line 6: direction is"),
        (HEADER.replace("2024", "1 + len('x')"), "no literal"),
        (HEADER.replace("RECIPE", "RECEIPT"), "has no `RECIPE"),
        (HEADER.replace('paper="Toys", ', ""), "missing 1 required"),
        (HEADER.replace('method="more"', 'method="less"'), "same arm"),
    ],
)
def test_a_wrong_header_is_refused_with_file_and_reason(tmp_path: Path, header: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as error:
        toy(tmp_path, header)
    assert "toy_recipe.py" in str(error.value)


def test_an_unknown_recipe_is_answered_with_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean 'math-shepherd'"):
        find("math-sheperd")


def test_a_recipe_without_a_measurement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no function `measure"):
        load_measure(toy(tmp_path, measure=""))


def test_listing_recipes_does_not_import_them(tmp_path: Path) -> None:
    toy(tmp_path, measure='raise SystemExit("imported")')
    assert [entry.recipe.name for entry in catalogue(tmp_path)] == ["toy-recipe"]


def test_an_outcome_refuses_arms_that_cannot_be_compared() -> None:
    claim = Claim("c", "m", "higher", "a", "b")
    with pytest.raises(ValueError, match="same problems"):
        Outcome({"a": [1.0], "b": [1.0, 2.0]}).differences(claim)
    with pytest.raises(ValueError, match="no arm 'b'"):
        Outcome({"a": [1.0]}).differences(claim)
    with pytest.raises(ValueError, match="not finite"):
        Outcome({"a": [float("nan")]})
    with pytest.raises(ValueError, match="1 figures for 2 problems"):
        Outcome({"a": [1.0]}, problems=("p", "q"))


def test_a_trial_chooses_its_sizes(tmp_path: Path) -> None:
    assert (Trial(0, True, tmp_path).size(100, 5), Trial(0, False, tmp_path).size(100, 5)) == (5, 100)
