"""PRLCoder: versions of a line, and what running them says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from footfall.formats import write_parquet
from footfall.label.execution import Execution, asserts_of, execution, mutation_rows, reference_of
from footfall.label.mutation import normal, variants
from footfall.registry import create
from footfall.tools import why_no_walls
from footfall.types import Judged, Problem, Step, Trajectory
from footfall.worlds import CodePolicy, CodeWorld

WORLD = CodeWorld()
ADD = ("def add(a, b):", "    return a+b")
needs_walls = pytest.mark.skipif(why_no_walls() is not None, reason="no sandbox can be built here")


def add(*tests: str) -> Problem:
    return Problem("add", "Add two numbers.", domain="code", meta={"program": list(ADD), "tests": list(tests)})


def program(problem: Problem, *lines: str) -> Trajectory:
    return Trajectory("t", problem, tuple(map(Step, lines)), separator="\n")


@needs_walls
def test_the_cards_mutation_is_bad_and_its_refactoring_good() -> None:
    problem = add("assert add(2, 3) == 5")
    bad, good = execution().judge(
        [program(problem, ADD[0], "    return a-b"), program(problem, ADD[0], "    return b+a")]
    )
    assert bad.values == (1.0, 0.0) and good.values == (1.0, 1.0)
    assert "add(2, 3) == 5" in str(bad.rationales[1]) and bad.aspects["tests"] == (1.0, 1.0)


@needs_walls
def test_weak_tests_pass_a_mutation_and_the_label_says_how_many_tests_there_were() -> None:
    (said,) = execution().judge([program(add("assert add(2, 0) == 2"), ADD[0], "    return a-b")])
    assert said.values == (1.0, 1.0) and said.aspects["tests"] == (1.0, 1.0)


def test_versions_of_the_cards_line() -> None:
    found = {(each.kind, each.text.strip()) for each in variants(ADD, 1)}
    assert {("mutation", "return a - b"), ("refactor", "return b + a")} <= found
    assert variants(ADD, 0) == [], "a def stays"


@pytest.mark.parametrize("line", ["x = a < b", "elif a < b:", "while a <= 3:", "total += a * 2", "xs.append(a)  # why"])
def test_versions_keep_the_indentation_are_all_different_and_none_is_the_line_itself(line: str) -> None:
    lines = ["def f(a, b, xs, total):", "    " + line]
    found = [each.text for each in variants(lines, 1)]
    assert found and len(set(map(normal, found))) == len(found)
    assert all(text.startswith("    ") and normal(text) != normal(line) for text in found)


@pytest.mark.parametrize("line", ["", "# only a comment", "else:", "x = = 1", "import os"])
def test_lines_that_are_no_statement_to_change_have_no_versions(line: str) -> None:
    assert variants([line], 0) == []


def test_every_original_line_is_good_and_only_the_changed_line_has_the_verdict() -> None:
    problem = WORLD.problems(1, 2)[0]
    original, *changed = mutation_rows(problem, Execution(run="world"))
    assert original.kind == "original" and original.row.judgement is not None
    assert set(original.row.judgement.values) == {1.0}
    assert {sample.report.good for sample in changed} == {True, False}
    for sample in changed:
        assert sample.row.judgement is not None
        values = sample.row.judgement.values
        assert set(values[: sample.line]) <= {1.0} and values[sample.line] == float(sample.report.good)
        assert set(values[sample.line + 1 :]) <= {None} and sample.report.tests == 6


@needs_walls
def test_the_worlds_interpreter_and_the_sandbox_agree() -> None:
    world, sandbox = Execution(run="world"), Execution()
    for problem in WORLD.problems(4, 7):
        samples = mutation_rows(problem, world)
        for sample in (samples[1], samples[len(samples) // 2], samples[-1]):
            lines = [step.text for step in sample.row.trajectory.steps]
            assert sandbox.report(problem, lines).good == sample.report.good, lines


@needs_walls
def test_a_program_that_the_world_cannot_read_goes_to_the_sandbox() -> None:
    problem = WORLD.problems(1, 2)[0]
    lines = [*map(str, problem.meta["program"])]  # type: ignore[arg-type]
    lines.insert(1, "    import math")
    assert Execution(run="world").report(problem, lines).good


def test_labels_are_the_truth_of_the_world_but_for_a_few_lines() -> None:
    traces = [trace for _, trace in WORLD.traces(CodePolicy(), 80, 1)]
    pairs = []
    for trace, said in zip(traces, Execution(run="world").judge(traces), strict=True):
        error = WORLD.first_error(trace)
        known = range(len(trace.steps) if error < 0 else error + 1)
        pairs += [(said.values[k] == 1.0, k != error) for k in known]
    assert sum(a == b for a, b in pairs) / len(pairs) > 0.98
    assert any(not b for _, b in pairs)


def test_problems_of_one_id_are_run_on_their_own_tests() -> None:
    problem, second = WORLD.problems(2, 0)
    other = replace(second, id=problem.id)
    labeller = Execution(run="world")
    found = [labeller.report(each, reference_of(problem)).good for each in (problem, other, problem)]
    assert found == [True, False, True]


def test_a_line_left_out_is_noticed_at_the_line_in_its_place() -> None:
    problem = next(p for p in WORLD.problems(40, 0) if any(" += " in str(line) for line in p.meta["program"]))  # type: ignore[union-attr]
    lines = [*map(str, problem.meta["program"])]  # type: ignore[arg-type]
    at = next(k for k, line in enumerate(lines) if " += " in line)
    lines[at : at + 1] = [" " * (len(lines[at]) - len(lines[at].lstrip())) + "pass"] * lines[at - 1].endswith(":")
    (said,) = Execution(run="world").judge([program(problem, *lines)])
    assert set(said.values[:at]) == {1.0} and set(said.values[at:]) == {0.0}


def test_what_cannot_be_run_is_left_unlabelled_with_the_reason() -> None:
    bare = Problem("p", "Add.", domain="code")
    untested = Problem("p", "Add.", domain="code", meta={"program": "\n".join(ADD)})
    for problem, reason in ((bare, "no reference program"), (untested, "no tests")):
        (said,) = create("labeller", "execution").judge([program(problem, *ADD)])
        assert said.values == (None, None) and reason in str(said.failures[0])


@needs_walls
def test_a_reference_that_fails_its_own_tests_blames_no_line() -> None:
    problem = add("assert add(2, 3) == 6")
    own, other = execution().judge([program(problem, *ADD), program(problem, ADD[0], "    return a-b")])
    assert own.values == (1.0, 1.0), "nothing differs, so nothing is run"
    assert other.values == (None, None) and "the reference program fails a test of its own" in str(other.failures[0])
    with pytest.raises(ValueError, match="'add': the reference program fails a test of its own, assert add"):
        mutation_rows(problem, Execution())


def test_the_code_worlds_inputs_are_its_tests() -> None:
    problem = WORLD.problems(1, 0)[0]
    assert len(asserts_of(problem)) == 6 and all(test.startswith("assert ") for test in asserts_of(problem))


@needs_walls
def test_what_forty_failing_tests_say_is_the_traces_own_and_can_be_stored(tmp_path: Path) -> None:
    problem = add(*["assert add(2, 3) == 5"] * 40)
    for word in ("\U0001f600" * 300, r"\ud800" * 300):
        trajectory = program(problem, ADD[0], f"    raise ValueError('{word}')")
        (said,) = execution().judge([trajectory])
        assert said.values == (1.0, 0.0)
        write_parquet(tmp_path / "said.parquet", [Judged(trajectory, said)], "judged")


@needs_walls
def test_names_that_the_reference_does_not_define_are_not_the_programs() -> None:
    problem = add("assert all(add(n, 1) == n + 1 for n in range(3))", "assert math.isclose(add(0.1, 0.2), 0.3)")
    fake = "from types import SimpleNamespace; math = SimpleNamespace(isclose=lambda *a: True); all = lambda it: True"
    (said,) = execution().judge([program(problem, fake, ADD[0], "    return 0")])
    assert said.values == (1.0, 1.0, 0.0)


def test_a_reference_without_a_line_is_no_reference() -> None:
    empty = Problem("p", "Add.", "[3]", domain="code", meta={"program": " \n", "inputs": [[1, 2]]})
    (said,) = execution().judge([program(empty, *ADD)])
    assert "no reference program" in str(said.failures[0])


@needs_walls
@pytest.mark.parametrize("run", ["sandbox", "world"])
@pytest.mark.parametrize(
    "line", ["x = 1" + " + 1" * 900, "x = " + "-" * 900 + "1", "not " * 900 + "x", "x" + "()" * 900]
)
def test_a_line_of_a_thousand_parts_ends_no_run(run: Literal["sandbox", "world"], line: str) -> None:
    problem = WORLD.problems(1, 0)[0] if run == "world" else add("assert add(2, 3) == 5")
    head = reference_of(problem)[0]
    (said,) = Execution(run=run).judge([program(problem, head, f"    {line}")])
    assert said.values[0] == 1.0 and said.values[1] is not None and normal(f" {line} ") == line
