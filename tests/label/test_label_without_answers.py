"""A problem without a reference answer: rollouts of it cannot be graded, so none are made, and nothing is labelled zero."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from footfall import cli
from footfall.drive.rollouts import RolloutCache
from footfall.drive.trees import tree_of, value_trees
from footfall.formats import read_parquet, write_parquet
from footfall.label.counting import Rehearsal
from footfall.label.estimate import planned
from footfall.label.grounded import Grounded, GroundedTrees
from footfall.label.hrm_hnc import FullTrees
from footfall.label.monte_carlo import MonteCarlo, er_prm, symbolic_mc
from footfall.label.omegaprm import BinarySearch, OmegaPRM
from footfall.label.pav import StepAdvantage
from footfall.label.relative_progress import RelativeProgress
from footfall.label.scan import SelfDenoising
from footfall.label.unprm import Uncertain
from footfall.types import Cost, Judge, Judged, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import FOUR_STEPS, PROBLEM, Scripted

WRONG = replace(FOUR_STEPS.prefix(3).extend([FOUR_STEPS.steps[0]]), id="t2", answer="8", correct=False)
BLIND = replace(FOUR_STEPS, id="blind", problem=replace(PROBLEM, id="p9", answer=None))
REASON = "problem 'p9' has no reference answer, so rollouts cannot be graded"
LABELLERS: dict[str, Callable[[Scripted], Judge]] = {
    "monte-carlo": MonteCarlo,
    "monte-carlo until the first error": lambda policy: MonteCarlo(policy, until="first-error"),
    "omegaprm": BinarySearch,
    "er-prm": er_prm,
    "pav": StepAdvantage,
    "relative-progress": RelativeProgress,
    "scan": SelfDenoising,
    "symbolic-mc": symbolic_mc,
    "grounded": Grounded,
    "unprm": lambda policy: Uncertain(policy, order="sequential", weighted=False),
}


def completer() -> Scripted:
    return Scripted(lambda k, index: "right" if index % 4 else "wrong")


@pytest.mark.parametrize("name", LABELLERS)
@pytest.mark.parametrize("known", [None, True, False])
def test_such_a_trace_stays_unlabelled_with_the_reason_and_the_others_are_as_if_it_were_not_there(
    name: str, known: bool | None
) -> None:
    alone, among = completer(), completer()
    others = [FOUR_STEPS, WRONG]
    right, wrong = LABELLERS[name](alone).judge(others)
    judged = LABELLERS[name](among).judge([FOUR_STEPS, replace(BLIND, correct=known), WRONG])
    assert [judged[0], judged[2]] == [right, wrong]
    assert judged[1].values == (None,) * 4 and judged[1].failures == (REASON,) * 4
    assert judged[1].cost == Cost() and judged[1].judge == right.judge
    assert among.asked == alone.asked


def test_the_estimate_plans_no_rollouts_for_such_a_trace() -> None:
    rehearsal = Rehearsal()
    judge = MonteCarlo(rehearsal.policy())
    with_answer, with_both = (planned(rehearsal, judge.judge, t) for t in ([FOUR_STEPS], [FOUR_STEPS, BLIND]))
    assert with_answer.expected.calls == with_both.expected.calls == 8 * 3


def test_trees_of_such_problems_stay_empty_and_cost_nothing() -> None:
    policy = completer()
    (omega,), (grounded,) = OmegaPRM(policy).grow([BLIND.problem]), GroundedTrees(policy).grow([BLIND.problem])
    full = FullTrees(policy).grow([BLIND.problem])
    (hierarchical,) = full.trees
    assert omega.tree.nodes == grounded.tree.nodes == hierarchical.nodes == [] and not policy.asked
    assert omega.tree.value is grounded.tree.value is hierarchical.value is None
    assert omega.cost == grounded.cost == full.cost == Cost()


def test_a_given_tree_keeps_the_reason_in_its_nodes() -> None:
    policy, tree = completer(), tree_of([BLIND])
    assert value_trees([tree], RolloutCache(policy)) == Cost() and not policy.asked
    assert {(node.value, node.meta["failure"]) for node in tree.nodes} == {(None, REASON)}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("monte-carlo", ["--rollouts", "2"]),
        ("omegaprm", ["--rollouts", "2"]),
        ("er-prm", ["--rollouts", "2"]),
        ("pav", ["--rollouts", "2"]),
        ("relative-progress", ["--rollouts", "2", "--set", "pass_rollouts=8"]),
        ("grounded", ["--rollouts", "2"]),
        ("unprm", ["--set", "order=sequential", "weighted=false", "draws=16", "enough=2"]),
    ],
)
def test_the_command_labels_the_other_traces_and_counts_these(
    tmp_path: Path, method: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    traces: list[Trajectory] = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 4, seed=2)]
    blind = [replace(t, problem=replace(t.problem, answer=None), correct=None) for t in traces[:2]]
    data, out = tmp_path / "traces.parquet", tmp_path / "run"
    write_parquet(data, [Judged(t, None) for t in (*blind, *traces[2:])], "judged")
    asked = ["label", "--data", str(data), "--method", method, "--policy", "scripted-arithmetic", *options]
    assert cli.main([*asked, "--out", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    steps = sum(len(t.steps) for t in blind)
    assert summary["unlabelled"]["the problem has no reference answer, so rollouts cannot be graded"] == steps
    assert summary["labelled"] > 0
    rows = [row.judgement for row in read_parquet(out / "judged.parquet", "judged")]
    for trace, said in zip(blind, rows, strict=False):
        assert said is not None and set(said.values) == {None} and not said.cost.calls
        assert all(f"problem {trace.problem.id!r} has no reference answer" in str(reason) for reason in said.failures)
