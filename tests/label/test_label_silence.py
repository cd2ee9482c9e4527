"""What rollouts that fail or are cut leave behind: steps and trees with a reason, never a zero, and a cost that adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from footfall.drive.trees import score_nodes
from footfall.label.edu_prm import score_fragments
from footfall.label.grounded import Grounded, GroundedTrees
from footfall.label.hrm_hnc import FullTrees, tree_samples
from footfall.label.omegaprm import OmegaPRM
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Problem, Step, Trajectory, Tree
from tests.label.scripted_policy import FOUR_STEPS, PROBLEM, Scripted

FAILED, CUT = "all 4 rollouts failed: gone", "all 4 rollouts were cut before their end: raise max_tokens (--max-tokens)"


@pytest.mark.parametrize(("outcome", "reason"), [("error: gone", FAILED), ("cut", CUT)])
def test_a_grounded_step_whose_rollouts_say_nothing_has_the_reason_and_no_label(outcome: str, reason: str) -> None:
    policy = Scripted(lambda k, i: outcome if k == 2 else "right")
    (said,) = Grounded(policy, rollouts=4).judge([FOUR_STEPS])
    assert said.values == (1.0, None, 1.0, 1.0) and said.failures == (None, reason, None, None)
    assert said.aspects["score"][1] is None and said.cost.calls == 12
    assert said.aspects["rollouts"] == (4.0, 0.0 if reason == FAILED else 4.0, 4.0, None)


def test_silent_rollouts_do_not_weigh_on_the_steps_before_them() -> None:
    """Of a wrong trace: the rollouts of the first step are right, all others fail."""
    wrong = replace(FOUR_STEPS, steps=(*FOUR_STEPS.steps[:-1], Step("The answer is 8.")))
    (said,) = Grounded(Scripted(lambda k, i: "right" if k == 1 else "error: gone"), rollouts=4).judge([wrong])
    assert said.aspects["score"][0] == pytest.approx((4 - 0.9**3) / 5), "four rewards of 1 and the outcome, decayed"
    assert said.values == (1.0, None, None, 0.0)


def test_one_good_rollout_among_failed_ones_is_enough() -> None:
    (said,) = Grounded(Scripted(lambda k, i: "right" if i == 3 else "error: gone"), rollouts=4).judge([FOUR_STEPS])
    assert said.values == (1.0,) * 4 and not said.failures


@pytest.mark.parametrize(
    ("outcome", "reason"), [("error: gone", FAILED), ("cut", CUT), ("wrong", "never solved"), ("right", None)]
)
def test_a_search_without_rows_says_why_and_what_it_cost(outcome: str, reason: str | None) -> None:
    found = OmegaPRM(Scripted(lambda k, i: outcome), rollouts=4).harvest([PROBLEM])
    assert found.cost.calls == 4 and found.unfinished == (4 if outcome == "cut" else 0)
    if reason is None:
        assert len(found.rows) == 1 and not found.barren
        return
    ((problem, told),) = found.barren
    assert problem == PROBLEM and told.startswith(reason) and not found.rows


@pytest.mark.parametrize(
    ("outcome", "reason"), [("error: gone", "all 3 rollouts failed: gone"), ("cut", "all 3 rollouts")]
)
def test_a_grounded_tree_without_rows_says_why_and_what_it_cost(outcome: str, reason: str) -> None:
    blind = Problem("blind", "?")
    found = GroundedTrees(Scripted(lambda k, i: outcome), rounds=2).harvest([PROBLEM, blind])
    assert not found.rows and found.cost.calls == 3
    told = {problem.id: why for problem, why in found.barren}
    assert told[PROBLEM.id].startswith(reason) and "no reference answer" in told["blind"]


@dataclass
class Steps:
    """Writes one step; how the second one ends depends on the sample's index."""

    finishes: Sequence[str]
    name: str = "steps"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._write(prefix, i) for i in range(first, first + n)] for prefix in prefixes]

    def _write(self, prefix: Trajectory, index: int) -> Completion:
        finish = "step" if not prefix.steps else self.finishes[index % len(self.finishes)]
        text = f"Step {index}." if finish != "end" else "The answer is 7."
        if finish == "error":
            return Completion((), "error", index, error="gone", cost=Cost(calls=1))
        return Completion((Step(text),), finish, index, cost=Cost(calls=1))  # type: ignore[arg-type]


def test_a_cut_leaf_is_a_wrong_one_beside_others_and_unknown_alone() -> None:
    kinds = (("length", "end"), ("length",))
    mixed, lost = (FullTrees(Steps(each), branch=2, depth=2).grow([PROBLEM]) for each in kinds)
    assert [node.value for node in mixed.trees[0].nodes] == [0.5, 0.5, None, 1.0, None, 1.0]
    assert (mixed.written, mixed.unfinished, mixed.cost.calls) == (6, 2, 6)
    (tree,) = lost.trees
    assert tree.value is None and {node.value for node in tree.nodes} == {None}
    rows = [row.judgement for row in tree_samples([tree], silent=True)]
    assert len(rows) == 6 and all(said is not None and said.failures[-1] for said in rows) and not tree_samples([tree])
    again = [node.value for node in mixed.trees[0].nodes]
    score_nodes(mixed.trees[0])
    assert [node.value for node in mixed.trees[0].nodes] == again, "scoring twice changes nothing"


def test_a_node_above_failed_calls_alone_has_their_reason() -> None:
    found = FullTrees(Steps(("error",)), branch=2, depth=3).grow([PROBLEM])
    assert {node.meta["failure"] for node in found.trees[0].nodes} == {"all 2 next steps failed: gone"}
    assert found.cost.calls == 6 and not found.silences
    failing = FullTrees(Scripted(lambda k, i: "error: gone"), branch=2, depth=3)
    empty = failing.grow([PROBLEM, Problem("blind", "?")])
    assert empty.silences[0] == "all 2 next steps failed: gone" and "no reference answer" in empty.silences[1]


def test_fragments_after_which_all_was_cut_have_no_score() -> None:
    tree = Tree(PROBLEM)
    root = tree.add(-1, Step("root"))
    cut = tree.add(root, Step("a"), meta={"cut": True})
    tree.add(root, Step("b"), value=1.0, terminal=True)
    assert [node.value for node in score_fragments(tree).nodes] == [0.5, None, 1.0]
    assert "raise max_tokens" in str(tree.nodes[cut].meta["failure"])
