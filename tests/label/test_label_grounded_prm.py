"""GroundedPRM: the card's rewards, how values go up the tree, and what the tool's verdict does to a label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.label.formal import Formal
from footfall.label.grounded import (
    Grounded,
    GroundedTree,
    GroundedTrees,
    before_recovery,
    rationale,
    rollout_reward,
    uct,
    verdict_sum,
)
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.types import Step, Trajectory, Tree
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

WORLD, POLICY = ArithmeticWorld(), ArithmeticPolicy()


@pytest.mark.parametrize(
    ("verdicts", "outcome", "reward"),
    [((1, 1, -1), 1, 0.7778), ((1, 1, -1), -1, 0.1111), ((), 1, 1.0), ((-1, -1), -1, -1.25)],
)
def test_rewards_are_those_of_the_card(verdicts: tuple[int, ...], outcome: int, reward: float) -> None:
    assert rollout_reward(verdicts, outcome) == pytest.approx(reward, abs=5e-5)


def test_ancestors_get_less_of_a_reward() -> None:
    tree = Tree(WORLD.problems(1)[0])
    for parent in range(-1, 2):
        tree.add(parent, Step(f"Step {parent}"))
    GroundedTree(tree).reward(2, rollout_reward((1, 1, -1), 1), decay=0.9)
    assert [node.value for node in tree.nodes] == pytest.approx([0.63, 0.7, 0.7778], abs=5e-5)
    assert [node.visits for node in tree.nodes] == [1, 1, 1]


def test_earlier_verdicts_weigh_more() -> None:
    assert verdict_sum((-1, 1)) < verdict_sum((1, -1))


@given(st.lists(st.sampled_from((-1.0, 0.0, 1.0)), min_size=1, max_size=12))
def test_a_better_verdict_never_lowers_the_reward(verdicts: list[float]) -> None:
    better = [min(1.0, verdicts[0] + 1), *verdicts[1:]]
    assert rollout_reward(better, 1) >= rollout_reward(verdicts, 1) > rollout_reward(verdicts, -1)


def test_uct_prefers_what_was_seen_less_and_turns_around_for_wrong_paths() -> None:
    assert uct(0.5, visits=0, parent_visits=9) > uct(0.5, visits=5, parent_visits=9)
    assert uct(-1.0, 2, 9, sign=-1) > uct(1.0, 2, 9, sign=-1)


def slip() -> tuple[Trajectory, int]:
    """A trace with a false equation before its last step, and where that is."""
    for _, trace in WORLD.traces(POLICY, 60, seed=2):
        refuted = [k for k, value in enumerate(Formal().judge([trace])[0].values[:-1]) if value == 0]
        if refuted:
            return trace, refuted[0]
    raise AssertionError("no trace with a slip")


def test_a_refuted_step_is_never_labelled_right() -> None:
    trace, at = slip()
    for clean in (True, False):
        said = Grounded(POLICY, rollouts=4, clean=clean, params=SamplingParams(seed=1)).judge([trace])[0]
        assert said.aspects["verdict"][at] == -1.0 and said.values[at] in ((0.0, None) if clean else (0.0,))


def test_a_refuted_step_with_a_positive_value_is_dropped_with_the_reason() -> None:
    method = Grounded(POLICY)
    assert method._label(0.4, -1.0) == (None, "the tool refutes the step, but its value is positive")
    assert method._label(-0.4, 1.0) == (0.0, None)
    assert method._label(0.4, 0.0) == (1.0, None)


def test_it_costs_what_monte_carlo_costs() -> None:
    traces = [trace for _, trace in WORLD.traces(POLICY, 5, seed=3)]
    params = SamplingParams(seed=1)
    both = Grounded(POLICY, rollouts=4, params=params), MonteCarlo(POLICY, rollouts=4, params=params)
    fused, plain = (sum(said.cost.generated_tokens for said in judge.judge(traces)) for judge in both)
    assert fused == plain > 0


def test_an_unfinished_trace_has_rollouts_at_its_last_step_too() -> None:
    trace = next(trace for _, trace in WORLD.traces(POLICY, 1, seed=4)).prefix(1)
    said = Grounded(POLICY, rollouts=4).judge([trace])[0]
    assert len(said.values) == 1 and said.cost.calls == 4


def test_a_step_that_the_tool_cannot_read_is_judged_by_its_value() -> None:
    trace = next(trace for _, trace in WORLD.traces(POLICY, 1, seed=4))
    vague = Trajectory("v", trace.problem, (Step("Let us see."),), separator="\n")
    said = Grounded(POLICY, rollouts=8).judge([vague])[0]
    assert said.aspects["verdict"] == (0.0,) and said.values[0] in (0.0, 1.0)


class TestTrees:
    METHOD = GroundedTrees(ArithmeticPolicy(recover=0.3), rounds=6, params=SamplingParams(seed=2))
    PROBLEMS = WORLD.problems(8, seed=1)

    def test_a_tree_ends_with_enough_paths_of_both_kinds_or_its_rounds(self) -> None:
        for grown in self.METHOD.grow(self.PROBLEMS, "\n"):
            enough = min(len(grown.paths(True)), len(grown.paths(False))) >= 3
            assert (
                enough
                or grown.rounds == 6
                or all(node.terminal for node in map(grown.tree.nodes.__getitem__, grown.tree.children(-1)))
            )
            assert grown.cost.calls == 3 * grown.rounds == grown.top_visits

    def test_the_value_of_a_node_is_what_its_simulations_and_those_below_gave(self) -> None:
        (grown,) = GroundedTrees(POLICY, rounds=1, children=1).grow(self.PROBLEMS[:1], "\n")
        path = grown.tree.path(grown.tree.leaves()[0])
        outcome = 1.0 if grown.paths(True) else -1.0
        verdicts = [grown.evidence[i][0] for i in path]
        assert verdicts[-1] == outcome, "the outcome takes the place of the last verdict"
        expected = [rollout_reward(verdicts[k + 1 : -1], outcome) for k in range(len(path))]
        assert [grown.tree.nodes[i].value for i in path[:-1]] == pytest.approx(expected[:-1])

    def test_trees_grown_together_are_those_grown_alone(self) -> None:
        both = self.METHOD.grow(self.PROBLEMS[:2], "\n")
        alone = [self.METHOD.grow([problem], "\n")[0] for problem in self.PROBLEMS[:2]]
        assert [grown.tree.nodes for grown in both] == [grown.tree.nodes for grown in alone]

    def test_rows_are_clean_paths_whose_labels_are_signs_and_whose_rationales_end_in_the_label(self) -> None:
        rows = self.METHOD.collect(self.PROBLEMS, "\n")
        assert {row.trajectory.correct for row in rows} == {True, False}
        for row in rows:
            assert row.judgement is not None
            aspects = row.judgement.aspects
            for label, score, verdict, text in zip(
                row.judgement.values, aspects["score"], aspects["verdict"], row.judgement.rationales, strict=True
            ):
                assert score is not None and verdict is not None and text is not None and label is not None
                assert verdict >= 0 or score <= 0, "no step that the tool refutes has a positive value"
                assert label == float(score > 0 or (score == 0 and verdict > 0))
                assert text.endswith("\\boxed{+}" if label else "\\boxed{-}")

    def test_what_a_tree_cost_stands_in_its_first_row(self) -> None:
        grown, rows = self.METHOD.grow(self.PROBLEMS, "\n"), self.METHOD.collect(self.PROBLEMS, "\n")
        told = {row.trajectory.problem.id for row in rows}
        paid = sum(row.judgement.cost.calls for row in rows if row.judgement)
        assert paid == sum(each.cost.calls for each in grown if each.tree.problem.id in told)

    def test_children_by_chance_are_an_option(self) -> None:
        by_chance = GroundedTrees(POLICY, rounds=4, select="random")
        assert (
            by_chance.grow(self.PROBLEMS[:1], "\n")[0].tree.nodes
            == by_chance.grow(self.PROBLEMS[:1], "\n")[0].tree.nodes
        )


@pytest.mark.parametrize(
    ("scores", "kept"), [((1, -1, -0.5), 3), ((1, -1, 0.5, -1), 2), ((0, 0, -1), 1), ((1, 1), 2), ((-1,), 1)]
)
def test_a_wrong_path_is_cut_before_its_first_recovery(scores: tuple[float, ...], kept: int) -> None:
    assert before_recovery(scores) == kept


def test_a_rationale_holds_the_evidence_the_verdict_and_the_label() -> None:
    assert rationale("2 + 2 is 4", -1.0, False) == (
        "Verify: 2 + 2 is 4\nJudge: The tool refutes the step. [Wrong]\nOutput: \\boxed{-}"
    )
    assert rationale(None, 0.0, True) == "Verify: there is nothing to compute.\nJudge: [Right]\nOutput: \\boxed{+}"
