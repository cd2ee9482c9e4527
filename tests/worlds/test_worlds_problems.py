"""Problems of the arithmetic world: by seed, in bounds, in two splits that never meet."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any, get_args

import pytest

from footfall.registry import create
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from footfall.worlds.arithmetic.problem import SYMBOLS, apply, program_of
from footfall.worlds.world import Split

WORLD = ArithmeticWorld()


def test_the_same_seed_gives_the_same_problems_however_many_are_asked_for() -> None:
    assert WORLD.problems(50, seed=3) == WORLD.problems(80, seed=3)[:50]
    assert WORLD.problems(50, seed=3) != WORLD.problems(50, seed=4)


def test_train_and_test_share_no_program_for_any_seeds() -> None:
    small = ArithmeticWorld(max_ops=2, max_start=6, max_term=4, max_factor=3)
    found: dict[Split, set[str]] = {}
    for split in get_args(Split):
        problems = [p for seed in range(5) for p in small.problems(150, seed, split)]
        found[split] = {json.dumps([p.meta["start"], p.meta["ops"]]) for p in problems}
    assert len(found["train"]) > 100 and len(found["test"]) > 15
    assert not found["train"] & found["test"]


def test_problems_of_one_call_are_different_and_their_ids_name_their_content() -> None:
    problems = WORLD.problems(300, seed=1)
    assert len({p.id for p in problems}) == len({p.text for p in problems}) == 300
    again = {p.text: p.id for p in WORLD.problems(300, seed=1)}
    assert all(again[p.text] == p.id for p in problems)


def test_true_values_stay_in_bounds_and_divisions_come_out() -> None:
    world = ArithmeticWorld(min_ops=1, max_ops=10, trap_rate=0.5)
    seen = set()
    for problem in world.problems(400, seed=0):
        program = program_of(problem)
        values = program.truth
        assert all(1 <= value <= 999 for value in values)
        assert problem.answer == str(values[-1])
        for before, (symbol, operand) in zip(values, program.ops, strict=False):
            seen.add(symbol)
            assert 2 <= operand <= (99 if symbol in "+-" else 9)
            assert symbol != "/" or before % operand == 0
    assert seen == set(SYMBOLS)


def test_the_text_names_the_start_and_every_operand_in_order() -> None:
    for problem in WORLD.problems(200, seed=2):
        program = program_of(problem)
        assert [int(n) for n in re.findall(r"\d+", problem.text)] == [
            program.start,
            *(op.operand for op in program.ops),
        ]


def test_the_number_of_operations_and_the_share_of_tricky_clauses_follow_the_parameters() -> None:
    programs = [program_of(p) for p in ArithmeticWorld(min_ops=3, max_ops=5, trap_rate=0.3).problems(1000, seed=0)]
    assert {len(program.ops) for program in programs} == {3, 4, 5}
    flags = [flag for program in programs for flag in program.tricky]
    assert abs(sum(flags) / len(flags) - 0.3) < 5 * (0.3 * 0.7 / len(flags)) ** 0.5


def test_a_tricky_gain_never_looks_like_a_loss_of_more_than_there_is() -> None:
    for problem in ArithmeticWorld(trap_rate=1.0).problems(300, seed=0):
        program = program_of(problem)
        for before, (symbol, operand) in zip(program.truth, program.ops, strict=False):
            assert symbol != "+" or apply("-", before, operand) >= 0


def test_meta_is_plain_json_and_holds_the_program() -> None:
    problem = WORLD.problems(1, seed=0)[0]
    meta: dict[str, Any] = json.loads(json.dumps(problem.meta))
    assert problem.domain == "arithmetic"
    assert set(meta) == {"start", "ops", "tricky", "name", "item"}
    assert len(meta["ops"]) == len(meta["tricky"])


def test_a_world_without_another_problem_says_so() -> None:
    # All of its programs (4 + 2, 4 + 3, 5 + 2, 5 + 3, 4 * 2) happen to belong to the train split.
    tiny = ArithmeticWorld(min_ops=1, max_ops=1, min_value=4, max_start=5, max_term=3, max_value=8, max_factor=2)
    assert len(tiny.problems(50, split="train")) == 50
    with pytest.raises(ValueError, match="no more than about 0 test problems; allow more operations or values"):
        tiny.problems(1, split="test")


@pytest.mark.parametrize("wrong", [{"min_ops": 0}, {"min_ops": 7}, {"trap_rate": 1.5}, {"max_start": 2000}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ArithmeticWorld needs"):
        ArithmeticWorld(**wrong)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="no split is called 'dev'"):
        WORLD.problems(1, split="dev")  # type: ignore[arg-type]


def test_traces_come_graded_one_step_a_line_and_by_seed() -> None:
    policy = ArithmeticPolicy()
    pairs = list(WORLD.traces(policy, 150, seed=5))
    assert pairs == list(WORLD.traces(policy, 150, seed=5))
    assert [problem for problem, _ in pairs] == WORLD.problems(150, seed=5)
    for problem, trajectory in pairs:
        assert trajectory.problem is problem and trajectory.separator == "\n"
        assert trajectory.text.endswith(f"The answer is {trajectory.answer}.\n")
        assert trajectory.correct is (trajectory.answer == problem.answer)


def test_the_world_is_a_named_part() -> None:
    assert create("world", "arithmetic", max_ops=3) == ArithmeticWorld(max_ops=3)


@pytest.mark.long
def test_worlds_are_imported_without_torch() -> None:
    code = "import sys, footfall.worlds; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
