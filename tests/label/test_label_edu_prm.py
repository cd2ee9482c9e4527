"""EDU-PRM: scores of fragments, and trees that branch where the embedded model could have gone either way."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from footfall.label.edu_prm import EntropyTrees, Grown, score_fragments
from footfall.policy.embedded import embedded
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.policy.torch_policy import TorchPolicy, next_tokens
from footfall.types import Cost, Problem, Step, Tree
from footfall.worlds import ArithmeticWorld

WORLD = ArithmeticWorld()


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    torch.set_num_threads(1)
    return embedded()


@pytest.fixture(scope="module")
def grown(policy: TorchPolicy) -> list[Grown]:
    return EntropyTrees(policy, leaves=4).grow(WORLD.problems(2, 0, split="test"))


def test_fragment_scores_are_those_of_the_card() -> None:
    tree = Tree(Problem("p", "q", "1"))
    root = tree.add(-1, Step("root"))
    left, right = tree.add(root, Step("l")), tree.add(root, Step("r"))
    for parent, outcomes in ((left, (1, 0)), (right, (1, 1))):
        for k, outcome in enumerate(outcomes):
            tree.add(parent, Step(str(k)), value=float(outcome), terminal=True)
    score_fragments(tree)
    assert [node.value for node in tree.nodes] == [0.75, 0.5, 1.0, 1.0, 0.0, 1.0, 1.0]
    assert tree.value == 0.75, "of a full tree: the mean of its leaves"


def test_an_infinite_threshold_gives_the_greedy_solution_alone(policy: TorchPolicy) -> None:
    (problem,) = WORLD.problems(1, 4, split="test")
    (each,) = EntropyTrees(policy, leaves=4, threshold=math.inf).grow([problem])
    ((greedy,),) = draw_traces(policy, [WORLD.prefix(problem)], 1, SamplingParams(0.0, max_tokens=200))
    assert [s.text for s in each.solutions[0].steps] == [s.text for s in greedy.steps] and len(each.solutions) == 1
    assert each.solutions[0].correct == greedy.correct and each.cost.generated_tokens == greedy.cost.generated_tokens


def test_a_tree_has_as_many_leaves_as_wanted_and_siblings_share_their_prefix_exactly(grown: list[Grown]) -> None:
    for each in grown:
        assert len(each.solutions) == len(each.tree.leaves()) == 4
        assert len({s.text for s in each.solutions}) == 4
        inner = [i for i in range(-1, len(each.tree.nodes)) if len(each.tree.children(i)) > 1]
        assert all(len(each.tree.children(i)) == 2 for i in inner) and len(inner) == 3
        for i in inner:
            first, second = (each.tree.nodes[k].step.token_ids for k in each.tree.children(i))
            assert first and second and first[0] != second[0]


def test_a_problem_without_a_reference_answer_has_an_empty_tree_and_costs_nothing(
    policy: TorchPolicy, grown: list[Grown]
) -> None:
    (known, _) = WORLD.problems(2, 0, split="test")
    trees = EntropyTrees(policy, leaves=4)
    blind, other = trees.grow([replace(known, answer=None), known])
    assert blind == Grown(Tree(replace(known, answer=None), separator=""), (), Cost()) and not blind.rows("edu-prm")
    assert [node.value for node in other.tree.nodes] == [node.value for node in grown[0].tree.nodes]
    assert trees.grow([replace(known, answer=None)]) == [blind]


def test_fragments_begin_only_where_the_entropy_is_high(policy: TorchPolicy, grown: list[Grown]) -> None:
    for row in grown[0].rows("edu"):
        (thought,) = next_tokens(policy, [row.trajectory])
        at = 0
        for step in row.trajectory.steps[:-1]:
            at += len(step.token_ids or ())
            assert thought.entropy[at] > 1.0


def test_branches_pay_only_for_what_they_write_themselves(grown: list[Grown]) -> None:
    for each in grown:
        in_tree = sum(len(node.step.token_ids or ()) for node in each.tree.nodes)
        whole = sum(len(s.token_ids or ()) for t in each.solutions for s in t.steps)
        assert in_tree <= each.cost.generated_tokens <= in_tree + 4 < whole  # a text's end is drawn too, once a leaf


def test_rows_are_whole_solutions_with_a_score_for_each_fragment(grown: list[Grown]) -> None:
    for each in grown:
        for row in each.rows("edu"):
            assert row.judgement is not None and None not in row.judgement.values
            assert row.judgement.values[-1] == float(bool(row.trajectory.correct))
    with pytest.raises(ValueError, match="at least one leaf"):
        EntropyTrees(grown, leaves=0)  # type: ignore[arg-type]
