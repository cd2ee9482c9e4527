"""Every recipe of the package: its header, its length, and a smoke test that really runs it and compares its figures."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.lab.checking import compared
from footfall.lab.fingerprint import outcome_hash, read_outcomes
from footfall.lab.ledger import checkout_ledger
from footfall.lab.recipe import OTHER_DATA, RECIPES, Entry, Outcome, Trial, catalogue, find, load_measure
from footfall.lab.shared import prms
from footfall.lab.shared.cases import first_error_f1
from footfall.train.run import TrainResult
from footfall.types import Cost, Judged, Problem, SearchResult, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

ENTRIES = catalogue()
LEDGER = checkout_ledger()
OUTCOMES = read_outcomes(LEDGER) if LEDGER else {}
RECORDED = next(entry for entry in ENTRIES if entry.recipe.name in OUTCOMES)


def names(entry: Entry) -> str:
    return entry.recipe.name


@pytest.fixture
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models that several recipes use are made once."""
    return tmp_path_factory.mktemp("shared")


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("entry", ENTRIES, ids=names)
def test_a_recipe_runs_quickly_and_measures_both_sides_of_its_claims(
    entry: Entry, tmp_path: Path, shared: Path
) -> None:
    outcome = load_measure(entry)(Trial(0, True, tmp_path, shared))
    for claim in (claim for claim in entry.recipe.claims if claim.tier == "lab"):
        assert outcome.differences(claim)
        assert all(outcome.values(arm) for arm in claim.beside)
    assert outcome.cost.generated_tokens + outcome.cost.scored_tokens > 0
    compare_with_the_recorded_outcome(entry, outcome)


def compare_with_the_recorded_outcome(entry: Entry, outcome: Outcome) -> None:
    kept = OUTCOMES.get(entry.recipe.name)
    standing = compared(entry.recipe.name, outcome_hash(outcome), kept["environments"] if kept else {})
    if standing.status == "cannot tell":
        pytest.skip(f"it runs, but its figures are not compared; {standing.why}")
    assert standing.status == "current", (
        f"{standing.why}: if that is meant, `footfall lab ledger --update` decides what becomes of the row"
    )


def test_on_a_machine_of_another_kind_figures_are_not_compared_and_the_suite_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = Outcome({"an arm": [0.123]})
    monkeypatch.setattr("footfall.lab.checking.environment", lambda: "vax, python 2.7")
    with pytest.raises(pytest.skip.Exception, match="figures are not compared; cannot tell here: recorded on "):
        compare_with_the_recorded_outcome(RECORDED, other)
    recorded = next(iter(OUTCOMES[RECORDED.recipe.name]["environments"]))
    monkeypatch.setattr("footfall.lab.checking.environment", lambda: recorded)
    with pytest.raises(AssertionError, match="its quick outcome differs from the recorded one: if that is meant"):
        compare_with_the_recorded_outcome(RECORDED, other)


def _lines_of_claims(source: str) -> set[int]:
    """The lines of the docstring and of `RECIPE = …`: what is said, not what is done."""
    tree = ast.parse(source)
    said = [
        tree.body[0],
        *(n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "RECIPE"),
    ]
    return {k for node in said for k in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


@pytest.mark.parametrize("entry", ENTRIES, ids=names)
def test_a_recipe_is_one_short_file_whose_header_names_its_paper(entry: Entry) -> None:
    source = entry.path.read_text(encoding="utf-8")
    header = ast.get_docstring(ast.parse(source)) or ""
    code = set(range(1, len(source.splitlines()) + 1)) - _lines_of_claims(source)
    written = [line for k, line in enumerate(source.splitlines(), 1) if k in code and line.strip()]
    assert len(written) <= 65, "a recipe composes parts; what is longer belongs into a room"
    assert "What differs" in header
    assert entry.recipe.arxiv is None or entry.recipe.arxiv in header


@pytest.mark.parametrize("entry", ENTRIES, ids=names)
def test_an_f1_said_to_be_cut_by_other_data_is_tuned_by_the_shared_parts_that_do_so(entry: Entry) -> None:
    calls = [n for n in ast.walk(ast.parse(entry.path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
    if OTHER_DATA in {claim.threshold for claim in entry.recipe.claims if claim.tier == "lab"}:
        tuned = [c for c in calls if ast.unparse(c.func) == "first_error_f1" and len(c.args) == 2]
        assert tuned or {"Tuned", "both_f1", "prms.figures"} & {ast.unparse(c.func) for c in calls}


@pytest.mark.parametrize("entry", ENTRIES, ids=names)
def test_every_f1_is_cut_by_other_data_and_nothing_unfair_is_left_standing(entry: Entry) -> None:
    for claim in entry.recipe.claims:
        assert claim.threshold in (None, OTHER_DATA)
        assert claim.caveat is None, "mend the comparison; a caveat is for the time in between"


@pytest.mark.parametrize("entry", ENTRIES, ids=names)
def test_beside_hard_monte_carlo_labels_stands_a_prm_on_soft_ones(entry: Entry) -> None:
    assert not without_soft_ones(entry.path.read_text(encoding="utf-8")), (
        "soft labels of the same rollouts cost nothing more"
    )


def without_soft_ones(source: str) -> set[str]:
    """Trainings on rows whose shares are cut above 0, and hard labellers, that have no soft counterpart in the source.

    A counterpart is the same call on the same rows by the loss that takes shares, or the same labeller with "soft".
    """
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    trained = {"bce": set[str](), "soft-bce": set[str]()}
    for call in calls:
        words = [arg.value if isinstance(arg, ast.Constant) else None for arg in call.args]
        for loss in {"bce", "soft-bce"} & set(words):
            rows = [ast.unparse(arg) for arg in call.args[: words.index(loss)] if not isinstance(arg, ast.Constant)]
            text = ast.unparse(call)
            hard = loss == "bce" and ("threshold=0.0" in text or "'threshold': 0.0" in text)
            if hard or loss == "soft-bce":
                trained[loss].add(f"{ast.unparse(call.func)}({', '.join(rows)})")
    labellers = {ast.unparse(call) for call in calls if ast.unparse(call.func).endswith("MonteCarlo")}
    alone = {each for each in labellers if "'hard'" in each and each.replace("'hard'", "'soft'") not in labellers}
    return trained["bce"] - trained["soft-bce"] | alone


def test_a_hard_arm_is_told_from_one_that_has_a_soft_arm_on_the_same_rows() -> None:
    lines = 'a = (train(trial, "lines", lines, "bce", threshold=0.0), train(trial, "soft", lines, "soft-bce"))\n'
    assert not without_soft_ones(lines)
    assert without_soft_ones(lines + 'b = train(trial, "steps", steps, "bce", threshold=0.0)') == {
        "train(trial, steps)"
    }
    assert without_soft_ones('c = TrainConfig("bce", {"threshold": 0.0}, lr=1e-3)') == {"TrainConfig()"}
    assert not without_soft_ones('d = train(trial, "truth", rows, "bce")'), "labels that are classes have no shares"
    hard, soft = (f"MonteCarlo(writer, 8, '{each}', params=params)" for each in ("hard", "soft"))
    assert not without_soft_ones(f"{hard}\n{soft}") and without_soft_ones(hard) == {hard}


@pytest.mark.parametrize("entry", ENTRIES, ids=names)
def test_the_scale_says_which_model_a_full_run_has_for_a_quick_one_is_blind_to_it(entry: Entry) -> None:
    calls = [n for n in ast.walk(ast.parse(entry.path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
    large = {"large", "prms.large"} & {ast.unparse(call.func) for call in calls}
    assert bool(large) == ("9.5M" in entry.recipe.scale)


def test_the_threshold_of_a_half_is_chosen_on_the_other_half() -> None:
    pool = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 40)]
    truths = TruthJudge().judge(pool)
    assert first_error_f1(pool, truths) == 1.0
    # Every second problem is judged as well as before, on a scale of its own: only its own half could tell the threshold.
    scales = ((0.6, 0.9), (0.1, 0.4))
    scaled = [replace(j, values=tuple(scales[i % 2][v == 1.0] for v in j.values)) for i, j in enumerate(truths)]
    assert first_error_f1(pool, scaled) < 0.1


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
def test_confidence_steps_are_labelled_for_no_more_tokens_than_lines(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid: dict[str, float] = {}

    def counted(trial: Trial, name: str, rows: Sequence[Judged], *args: Any, **options: Any) -> TrainResult:
        paid[name] = sum(row.judgement.cost.generated_tokens for row in rows if row.judgement)
        return train_alike(trial, name, rows, *args, **options)

    train_alike = prms.train_alike
    monkeypatch.setattr(prms, "train_alike", counted)
    load_measure(find("adaptivestep"))(Trial(0, True, tmp_path, shared))
    assert 0 < paid["adaptivestep"] <= paid["adaptivestep-lines"]


def test_short_and_long_solutions_are_those_of_each_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome model chooses rightly in one world alone, whose solutions are the shortest: its lead is not of length."""
    measure = load_measure(find("multi-rm"))
    lines = {name: 2 * k + 1 for k, name in enumerate(("arithmetic", "short logic", "algebra", "short code"))}
    order = iter(name for name in lines for _ in range(2))  # solutions to train on, and to choose among

    def drawn(trial: Trial, n: int, problems: Sequence[Problem], policy: object) -> list[SearchResult]:
        name = next(order)
        steps = (Step("."),) * lines[name]
        pairs = [
            [Trajectory(f"{name}-{i}-{k}", p, steps, answer=str(k), correct=bool(k)) for k in range(2)]
            for i, p in enumerate(problems)
        ]
        return [SearchResult(t[0].problem, name, t[0], tuple(Judged(each, None) for each in t)) for t in pairs]

    def scores(trial: Trial, rows: object, asked: Sequence[Trajectory]) -> tuple[dict[str, list[float]], Cost]:
        knows = [float(bool(t.correct) == t.id.startswith("arithmetic")) for t in asked]
        never = [float(not t.correct) for t in asked]
        return {"gORM": never, "gPRM": never, "dORM": knows, "dPRM": never}, Cost()

    monkeypatch.setitem(measure.__globals__, "drawn", drawn)
    monkeypatch.setitem(measure.__globals__, "_scores", scores)
    found = measure(Trial(0, True, tmp_path))
    assert found.values("lead, short") == found.values("lead, long") == [1.0, 0.0, 0.0, 0.0]


def test_the_first_two_recipes_are_there() -> None:
    assert {"best-of-n", "math-shepherd"} <= {entry.recipe.name for entry in ENTRIES}


def test_nobody_imports_a_recipe() -> None:
    package = RECIPES.parent
    importers = [
        path.name for path in package.rglob("*.py")
        if any(line.startswith(("import footfall.recipes", "from footfall.recipes")) for line in path.read_text().splitlines())
    ]  # fmt: skip
    assert importers == []


def test_math_shepherd_measures_the_error_rates_of_its_card(tmp_path: Path) -> None:
    outcome: Outcome = load_measure(find("math-shepherd"))(Trial(3, True, tmp_path))
    hard, theory = outcome.values("hard labels"), outcome.values("hard labels in theory")
    assert sum(hard) / len(hard) == pytest.approx(sum(theory) / len(theory), abs=0.25)
    assert len(outcome.values("4 rollouts")) == 10
