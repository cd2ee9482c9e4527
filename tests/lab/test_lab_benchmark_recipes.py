"""What the benchmark recipes are made of: flaws in known places, judges of a known error rate, models made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.benchmarks import processbench
from footfall.benchmarks.prmbench import CATEGORIES, PATTERNS
from footfall.lab.fingerprint import modules_of
from footfall.lab.recipe import Trial, catalogue, find, load_measure
from footfall.lab.runner import run_recipe
from footfall.lab.shared import prms
from footfall.lab.shared.cases import NoisyTruth, Said, credits, figures, judged_once, response_cases, step_cases
from footfall.lab.shared.flaws import CAREFUL, FLAWS, flawed_cases, offline_pairs, online_pairs, right_traces
from footfall.metrics.cases import Oracle, always_right
from footfall.metrics.preferences import last_step_score, measure_by, strict_credit
from footfall.policy.embedded import EMBEDDED
from footfall.policy.lab import LAB
from footfall.train import TrainConfig
from footfall.types import Judged, Judgement, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

torch.set_num_threads(1)
WORLD = ArithmeticWorld()
BENCHMARKS = {
    "processbench", "prmbench", "socratic-prmbench", "toolprmbench", "toolcomp", "toolrm", "rewardbench", "rewardbench2",
    "checkpoints",
}  # fmt: skip
PROBLEMS = WORLD.problems(40, seed=5)


@pytest.fixture(scope="module")
def traces() -> list[Trajectory]:
    return [trace for _, trace in WORLD.traces(ArithmeticPolicy(), 120, seed=3, split="test")]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def trial(tmp_path: Path, shared: Path) -> Trial:
    return Trial(0, True, tmp_path, shared)


def texts(trace: Trajectory) -> list[str]:
    return [step.text for step in trace.steps]


def test_every_benchmark_has_its_recipe() -> None:
    assert {entry.recipe.name for entry in catalogue()} >= BENCHMARKS


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_in_every_rewritten_trace_and_the_world_sees_it_first_where_it_is(
    flaw: str, traces: list[Trajectory]
) -> None:
    right = right_traces(traces)
    cases = flawed_cases(right, {"it": flaw}, seed=0)[::2]
    assert len(cases) > 0.8 * len(right) > 40
    whole = {trace.id: trace for trace in right}
    for case in cases:
        own = whole[case.group]
        first = case.truth.first_below(0.5)
        assert first is not None and first == WORLD.first_error(case.trajectory) >= 0
        assert texts(case.trajectory)[:first] == texts(own)[:first], "up to the flaw nothing is changed"
        assert texts(case.trajectory) != texts(own)


@pytest.mark.parametrize(("flaw", "more"), [("repeated step", 1), ("circle", 2)])
def test_steps_that_do_no_work_are_wrong_and_those_after_them_are_right(
    flaw: str, more: int, traces: list[Trajectory]
) -> None:
    right = {trace.id: trace for trace in right_traces(traces)}
    for case in flawed_cases(list(right.values()), {"NR": flaw}, seed=1)[::2]:
        kept = [s for s, value in zip(texts(case.trajectory), case.truth.values, strict=True) if value]
        assert kept == texts(right[case.group])
        assert case.truth.values.count(0.0) == more


def test_after_a_wrong_number_a_careful_writer_goes_on_and_later_steps_are_not_counted() -> None:
    problem = next(p for p in WORLD.problems(200, seed=1) if [op[0] for op in ops(p)] == ["+", "-"])
    ((completion,),) = CAREFUL.sample([WORLD.prefix(problem)], 1)
    trace = completion.after(WORLD.prefix(problem), "careful")
    case, twin = flawed_cases([trace], {"ES": "wrong result"}, seed=0)
    first = case.truth.first_below(0.5)
    assert first is not None
    assert case.truth.values == (1.0,) * first + (0.0,) + (None,) * (2 - first)
    assert (twin.split, twin.trajectory, twin.truth.values, twin.group) == ("ES", trace, (1.0,) * 3, case.group)


def ops(problem: Problem) -> list[Any]:
    return list(problem.meta["ops"])  # type: ignore[arg-type]


def test_the_careful_writer_makes_no_error() -> None:
    completions = CAREFUL.sample([WORLD.prefix(problem) for problem in PROBLEMS], 1)
    written = [c.after(WORLD.prefix(p), "careful") for p, (c,) in zip(PROBLEMS, completions, strict=True)]
    assert [WORLD.first_error(trace) for trace in written] == [-1] * len(written)


def test_an_oracle_is_perfect_and_a_constant_judge_gets_no_negative_f1_on_the_flaws(traces: list[Trajectory]) -> None:
    splits = {"NR": "repeated step", "ES": "wrong result", "DR": "slightly wrong result"}
    cases = flawed_cases(right_traces(traces)[:20], splits, seed=0)
    seen = [case.trajectory for case in cases]
    said, _ = judged_once(Oracle(cases), cases)
    assert said == Oracle(cases).judge(seen)
    perfect = figures(CATEGORIES.measure, cases, said)
    assert [perfect[split]["prm_score"] for split in (*splits, "overall")] == [1.0] * 4
    constant = figures(CATEGORIES.measure, cases, always_right().judge(seen))
    assert (constant["overall"]["f1_neg"], constant["overall"]["acc_right"], constant["overall"]["acc_wrong"]) == (
        0,
        1,
        0,
    )


def test_each_flaw_that_a_recipe_names_is_a_category_of_its_benchmark() -> None:
    for name, categories in (("prmbench", CATEGORIES), ("socratic-prmbench", PATTERNS)):
        splits: dict[str, str] = load_measure(find(name)).__globals__["SPLITS"]
        assert set(splits) <= set(categories.splits)
        assert set(splits.values()) <= set(FLAWS)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_flaws_depend_on_the_seed_alone(seed: int) -> None:
    ((completion,),) = CAREFUL.sample([WORLD.prefix(PROBLEMS[0])], 1)
    trace = completion.after(WORLD.prefix(PROBLEMS[0]), "careful")
    names = {name: name for name in FLAWS}
    assert flawed_cases([trace], names, seed) == flawed_cases([trace], names, seed)


@pytest.mark.parametrize("error", [0.0, 0.2, 0.5, 0.8])
def test_a_noisy_judge_is_right_on_as_many_pairs_as_it_says(error: float, traces: list[Trajectory]) -> None:
    right = right_traces(traces)
    worse = flawed_cases(right, {"it": "wrong answer"}, seed=0)
    of = {case.group: case.trajectory for case in worse[::2]}
    cases = []
    for trace in right:
        for name, member, value in (("right", trace, 1.0), ("wrong", of[trace.id], 0.0)):
            case = response_cases([member])[0]
            truth = Judgement(case.trajectory.id, case.truth.values, name, value)
            cases.append(case._replace(truth=truth, group=trace.id))
    found = []
    for seed in range(20):
        said = NoisyTruth(error, seed).judge([case.trajectory for case in cases])
        found.append(figures(measure_by(last_step_score), cases, said)["world"]["accuracy"])
    # 20 seeds of some 60 pairs: a standard error of at most 0.015.
    assert np.mean(found) == pytest.approx(1 - error, abs=0.045)


def test_credits_of_a_whole_pool_are_best_of_n_with_ties_shared() -> None:
    problem = Problem("p", "?")
    solutions = [Trajectory(str(i), problem, (Step("x"),), correct=i == 0) for i in range(4)]
    said = [Judgement(str(i), (value,), "j") for i, value in enumerate((0.9, 0.9, 0.1, 0.2))]
    cases = response_cases(solutions)
    assert credits(cases, said) == [0.5]
    assert credits(cases, said, credit=strict_credit) == [0.0]
    assert credits(cases, Said.of("again", said).judge(solutions)) == [0.5]


def test_constant_judges_get_no_f1(traces: list[Trajectory]) -> None:
    cases = step_cases(traces)
    assert figures(processbench.measure, cases, always_right().judge(traces))["world"]["f1"] == 0.0


@pytest.mark.long
def test_models_and_pools_are_made_once_and_found_again(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prms.judged_pool(trial, "truth")
    assert len(made) == len(prms.pool(trial)) == 4 * prms.POOL
    stored = {path: path.stat().st_mtime_ns for path in trial.shared.iterdir()} if trial.shared else {}
    prms._read.cache_clear()
    monkeypatch.setattr("footfall.train.prm._fit", _fails)
    assert prms.judged_pool(trial, "truth") == made
    assert prms.prm(trial, "truth").metrics
    assert {path: path.stat().st_mtime_ns for path in stored} == stored
    monkeypatch.setattr(prms, "_code", lambda: "changed code")
    with pytest.raises(AssertionError, match="trained again"):
        prms.prm(trial, "truth")


def _fails(*given: object) -> None:
    raise AssertionError("trained again")


@pytest.mark.long
def test_a_large_trial_has_the_labs_model_and_its_data_and_a_quick_one_the_small_model(trial: Trial) -> None:
    whole = trial._replace(quick=False)
    assert [prms.backbone(t) for t in (whole, prms.large(whole), prms.large(trial))] == [EMBEDDED, LAB, EMBEDDED]
    assert prms._place(whole, "pool") != prms._place(prms.large(whole), "pool")
    assert prms._place(whole, "pool") != prms._place(whole._replace(device="cuda"), "pool")
    assert [prms._size(t, 150, 600, 6) for t in (whole, prms.large(whole), prms.large(trial))] == [150, 600, 6]


def test_other_seeds_and_settings_have_their_own_place(trial: Trial) -> None:
    place: Callable[..., Path] = prms._place
    names = {
        place(trial, "a"), place(trial, "b"), place(trial._replace(seed=1), "a"), place(trial._replace(quick=False), "a"),
        place(trial, "a", TrainConfig().to_dict()), place(trial, "a", TrainConfig(lr=1e-3).to_dict()),
    }  # fmt: skip
    assert len(names) == 6
    assert place(trial._replace(shared=None), "a").parent == trial.folder / "shared"


def test_the_outcome_model_is_told_of_the_last_step_only(trial: Trial) -> None:
    for trace, label in zip(prms.training_traces(trial), prms._labels(trial, "outcome"), strict=True):
        assert label.values == (None,) * (len(trace.steps) - 1) + (float(bool(trace.correct)),)


def test_pairs_of_next_steps_share_their_history_and_part_in_the_last_step(trial: Trial) -> None:
    cases = offline_pairs(trial) + online_pairs(trial)
    assert {case.split for case in cases} == {"offline", "online"}
    for right, wrong in zip(cases[::2], cases[1::2], strict=True):
        assert right.group == wrong.group and (right.truth.value, wrong.truth.value) == (1.0, 0.0)
        assert texts(right.trajectory)[:-1] == texts(wrong.trajectory)[:-1]
        assert WORLD.first_error(right.trajectory) == -1
        assert WORLD.first_error(wrong.trajectory) == len(wrong.trajectory.steps) - 1


def test_training_pairs_are_a_right_and_a_wrong_solution_of_one_problem(trial: Trial) -> None:
    rows: list[Judged] = load_measure(find("toolrm")).__globals__["training_pairs"](trial)
    assert rows
    for chosen, rejected in zip(rows[::2], rows[1::2], strict=True):
        assert chosen.trajectory.problem == rejected.trajectory.problem
        assert (chosen.trajectory.correct, rejected.trajectory.correct) == (True, False)


def test_what_recipes_share_belongs_to_their_fingerprints() -> None:
    assert {"footfall.lab.shared.prms", "footfall.lab.shared.flaws", "footfall.train.prm"} <= set(
        modules_of(find("prmbench").path)
    )
    assert "footfall.lab.recipe" not in modules_of(find("prmbench").path)


def test_a_run_keeps_what_recipes_share_beside_the_runs(tmp_path: Path) -> None:
    (tmp_path / "toy_recipe.py").write_text(
        '"""A paper. What differs: nothing."""\n'
        "from footfall.lab.recipe import Claim, Outcome, Recipe, Trial\n"
        'RECIPE = Recipe(name="toy-recipe", paper="T", arxiv=None, year=2024, stage="s", world="w", scale="S.",\n'
        '    claims=(Claim("c", metric="m", direction="higher", baseline="a", method="b"),))\n'
        "def measure(trial: Trial) -> Outcome:\n"
        "    trial.shared.mkdir(parents=True, exist_ok=True)\n"
        "    (trial.shared / f'{trial.seed}').touch()\n"
        "    return Outcome({'a': [0.0, 1.0], 'b': [1.0, 1.0]})\n"
    )
    run_recipe(find("toy-recipe", tmp_path), range(2), tmp_path / "runs" / "toy")
    assert sorted(path.name for path in (tmp_path / "runs" / "shared").iterdir()) == ["0", "1"]
    run_recipe(find("toy-recipe", tmp_path), range(2, 3), tmp_path / "runs" / "toy", shared=tmp_path / "else")
    assert [path.name for path in (tmp_path / "else").iterdir()] == ["2"]
