"""`footfall label` over a server that stalls, breaks off or never solves: no zero, nothing unsaid, everything charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.commands._reasons import counted
from footfall.formats import read, write
from footfall.types import Judged, Problem, Step, Trajectory
from tests.cli.serving import Server
from tests.cli.telling import told


def trace(name: str, answer: str, *steps: str) -> Trajectory:
    problem = Problem(name, f"{name}: what is 3 - 4?", answer)
    return Trajectory(name, problem, tuple(map(Step, (*steps, f"It is \\boxed{{{answer}}}"))))


ANN, BOB = trace("Ann", "-1", "Take two.", "So 3 - 4 = -1."), trace("Bob", "-1", "Take ten.", "So 3 - 4 = -1.")
LEA = trace("Lea", "9", "Take one.", "So it is 9.")
"""The server never finds this answer."""
STALLED = {"faults": [{"kind": "stall", "match": "Bob"}]}
BROKEN = {"faults": [{"kind": "500", "match": "Bob"}]}


@pytest.fixture
def server(process: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that solves three times in four, and a file with two traces."""
    monkeypatch.chdir(tmp_path)
    given(ANN, BOB)
    process.behave(None, solve=True)
    return process


def given(*traces: Trajectory) -> None:
    write("traces.jsonl", [Judged(t, None) for t in traces], "jsonl")


def words(server: Server, method: str, *more: str, timeout: int = 60) -> tuple[str, ...]:
    server_words = ("--url", server.url, "--timeout", str(timeout), "--retries", "0")
    return ("label", "--data", "traces.jsonl", "--method", method, *server_words, *more)


def rows(found: dict[str, Any]) -> dict[str, list[tuple[float | None, str | None]]]:
    """The values of each trace with their reasons."""
    return {
        row.trajectory.id: list(zip(row.judgement.values, row.judgement.failures or (None,) * 9, strict=False))
        for row in read(found["file"]) if row.judgement
    }  # fmt: skip


# Steps


@pytest.mark.long
@pytest.mark.parametrize("method", ["monte-carlo", "grounded", "grounded-prm", "er-prm", "symbolic-mc"])
def test_a_step_whose_rollouts_stall_has_the_reason_and_no_label(
    method: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(None, solve=True, **STALLED)
    found = told(capsys, *words(server, method, "--rollouts", "4", timeout=2))
    first, second, last = rows(found)["Bob"]
    assert last == (1.0, None), "the outcome of a finished trace needs no rollout"
    for value, reason in (first, second):
        assert value is None and "all 4 rollouts failed" in str(reason)
    assert found["labelled"] == 4 and list(found["unlabelled"].values()) == [2] and "in_vain" not in found


@pytest.mark.parametrize("method", ["monte-carlo", "grounded", "omegaprm"])
def test_a_step_whose_rollouts_are_all_cut_has_the_reason_and_the_summary_counts_them(
    method: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Trajectory("w", ANN.problem, tuple(map(Step, ("Take two.", "So 3 - 4 = 1.", "It is \\boxed{1}"))))
    given(ANN, wrong)
    found = told(capsys, *words(server, method, "--rollouts", "4", "--max-tokens", "2"), code=1)
    assert [value for value, _ in rows(found)["w"]][:2] == [None, None]
    ((reason, _),) = [(why, n) for why, n in found["unlabelled"].items() if "after the first error" not in why]
    assert "were cut before their end" in reason
    assert found["cut_rollouts"]["cut"] == found["cut_rollouts"]["of"] > 0
    assert found["in_vain"] == "every rollout was cut at max_tokens"


@pytest.mark.parametrize(
    ("method", "mode"),
    [("monte-carlo", "completions"), ("grounded", "completions"), ("er-prm", "completions"), ("birm", "chat")],
)
def test_if_every_call_fails_known_answers_alone_are_nothing_to_train_on(
    method: str, mode: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(None, faults=[{"kind": "500"}])
    line = words(server, method, "--mode", mode)
    found = told(capsys, *line, code=1)
    assert found["labelled"] == 2 and found["in_vain"] == "every rollout failed"
    assert cli.main(list(line)) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "in vain every rollout failed: no label is of a rollout" in shown and "next:" not in shown


# Trees


@pytest.mark.parametrize(
    ("method", "more"),
    [("omegaprm", ("--rollouts", "4")), ("grounded-prm", ()), ("hrm-hnc", ("--set", "depth=3", "--temperature", "1"))],
    ids=["omegaprm", "grounded-prm", "hrm-hnc"],
)
class TestTrees:
    def test_all_that_was_asked_is_charged(
        self, method: str, more: tuple[str, ...], server: Server, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given(ANN, BOB, LEA)
        found = told(capsys, *words(server, method, "--trees", "3", *more))
        assert found["cost"]["calls"] == len(server.asked()) > 0 and found["labelled"] > 0

    def test_a_problem_whose_calls_fail_is_counted_with_the_reason(
        self, method: str, more: tuple[str, ...], server: Server, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.behave(None, solve=True, **BROKEN)
        line = words(server, method, "--trees", "3", *more)
        found = told(capsys, *line)
        ((reason, count),) = found["problems_without_tree"].items()
        assert count == 1 and "failed: " in reason and "trouble 500" in reason
        assert {row.trajectory.problem.id for row in read(found["file"])} == {"Ann"}
        assert found["cost"]["calls"] == len(server.asked())
        assert cli.main(list(line)) == 0
        assert f"no tree 1 problem: {reason}" in " ".join(capsys.readouterr().out.split())

    def test_if_every_call_fails_nothing_came_of_the_run_but_it_is_charged(
        self, method: str, more: tuple[str, ...], server: Server, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.behave(None, faults=[{"kind": "500"}])
        found = told(capsys, *words(server, method, "--trees", "3", *more, "--retries", "1"), code=1)
        assert sum(found["problems_without_tree"].values()) == 2 and found["steps"] == 0
        assert 0 < found["cost"]["calls"] == len(set(server.asked())) < len(server.asked()), (
            "what is tried twice counts once"
        )

    def test_rollouts_that_are_all_cut_give_no_zero(
        self, method: str, more: tuple[str, ...], server: Server, capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = told(capsys, *words(server, method, "--trees", "3", *more, "--max-tokens", "2"), code=1)
        assert found["labelled"] == 0 and found["cut_rollouts"]["cut"] == found["cut_rollouts"]["of"] > 0
        reasons = [*found["problems_without_tree"], *found["unlabelled"]]
        assert any("cut before" in reason for reason in reasons)


def test_problems_that_are_never_solved_are_counted_and_charged(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    given(LEA, trace("Max", "8", "Take six."))
    found = told(capsys, *words(server, "omegaprm", "--trees", "3"), code=1)
    ((reason, count),) = found["problems_without_tree"].items()
    assert count == 2 and reason.startswith("never solved")
    assert found["cost"]["calls"] == len(server.asked()) == 16


def test_a_node_of_a_tree_whose_rollouts_fail_has_a_row_with_the_reason(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(None, solve=True, faults=[{"kind": "500", "match": "Take"}])
    found = told(capsys, *words(server, "omegaprm", "--trees", "3", "--rollouts", "8"))
    (failed,) = [reason for reason in found["unlabelled"] if "all 8 rollouts failed" in reason]
    ends = [pairs[-1] for pairs in rows(found).values()]
    assert found["unlabelled"][failed] == sum(value is None for value, _ in ends) > 0


@pytest.mark.parametrize("name", ["grounded", "grounded-prm"])
def test_the_trees_of_grounded_prm_have_rationales_and_their_own_settings(
    name: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, *words(server, name, "--trees", "2", "--set", "children=4", "wanted=2"))
    assert "grounded-tree" in found["judge"] and "children=4,rounds=2,depth=9,wanted=2" in found["judge"]
    said = [row.judgement for row in read(found["file"])]
    assert said and all(j is not None and j.rationales and None not in j.values for j in said)
    plain = told(capsys, *words(server, name, "--rollouts", "2"))
    assert "grounded(" in plain["judge"] and plain["traces"] == 2, "without --trees the given traces are labelled"


# Reasons


def test_replies_that_break_off_at_different_places_are_one_reason(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(None, solve=True, faults=[{"kind": "truncated"}])
    found = told(capsys, *words(server, "monte-carlo", "--rollouts", "2"), code=1)
    ((reason, count),) = found["unlabelled"].items()
    assert count == 4 and "all 2 rollouts failed: the answer is not whole JSON" in reason and "(char …)" in reason


def test_reasons_alike_but_for_numbers_are_counted_together_and_agreed_numbers_stay() -> None:
    problems = [Problem(f"p{k}", "") for k in range(3)]
    said = [f"step 2 of problem 'p{k}' broke at {k}" for k in range(3)]
    assert counted(zip(said, problems, strict=True)) == {"step 2 of the problem broke at …": 3}
    statuses = ["HTTP 500", None, "HTTP 503", "HTTP 503"]
    assert counted((why, problems[0]) for why in statuses) == {"HTTP 503": 2, "HTTP 500": 1, "no reason given": 1}
