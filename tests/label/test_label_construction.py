"""FreePRM's pseudo labels, SCAN, UnPRM and HNC: the cards' numbers first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.drive.trees import leaf_rows, score_nodes
from footfall.label.freeprm import freeprm
from footfall.label.hrm_hnc import (
    Expansion,
    FullTrees,
    balanced_nodes,
    compress,
    merge_steps,
    merged_pairs,
    tree_samples,
)
from footfall.label.scan import denoised, label_noise, scan
from footfall.label.unprm import (
    Uncertain,
    choose_traces,
    probe_order,
    rollout_budget,
    step_uncertainty,
    trace_uncertainty,
    unprm,
    weighted_value,
)
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Judged, Judgement, Problem, Step, Trajectory, Tree
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import PROBLEM, Scripted, trace

WORLD = ArithmeticWorld()


def near(found: Sequence[float | None], *expected: float | None) -> bool:
    return len(found) == len(expected) and all(
        (a is None and b is None) or (a is not None and b is not None and abs(a - b) < 5e-5)
        for a, b in zip(found, expected, strict=True)
    )


# FreePRM


def test_every_step_has_the_outcome_of_its_trace() -> None:
    right, wrong = trace("One.", "The answer is 7."), trace("One.", "The answer is 8.")
    said = freeprm().judge([right, wrong, trace("One.", "Two."), replace(right, problem=Problem("q", "?"))])
    assert [j.values for j in said] == [(1.0, 1.0), (0.0, 0.0), (None, None), (None, None)]
    assert said[0].aspects["pseudo"] == (1.0, 0.0), "only the last step's label is true"
    assert [j.failures[:1] for j in said[2:]] == [
        ("there is no answer in the trace",),
        ("there is no reference answer, so no outcome",),
    ]


# SCAN


def test_denoised_labels_are_those_of_the_card() -> None:
    rates = [1.0, 0.9, 0.5, 0.25, 0.0]
    assert near(denoised(rates, 0.8), 1, 1, 0.625, 0.3125, 0)
    assert denoised(rates, 0.8, window=0) == [1, 1, 1, 1, 0]
    assert denoised([0.875, 0.0], 0.75) == [1.0, 0.0], "never above 1"
    assert denoised([0.0], 0.9) == [0.0] and denoised([0.5, 0.5], 0.9) == []


@given(st.lists(st.floats(0.01, 1), max_size=8), st.floats(0.75, 1), st.integers(0, 4))
def test_denoised_labels_end_in_the_error_and_stay_in_bounds(rates: list[float], sc: float, window: int) -> None:
    labels = denoised([*rates, 0.0, 0.5], sc, window)
    assert len(labels) == len(rates) + 1 and labels[-1] == 0
    assert all(0 < label <= 1 for label in labels[:-1])
    assert all(label == 1 for label in labels[: max(0, len(rates) - window)])


def scanned(policy: Scripted, trajectory: Trajectory) -> Judgement:
    (said,) = scan(policy, rollouts=20, responses=20).judge([trajectory])
    return said


def test_scan_labels_a_wrong_trace_up_to_its_error() -> None:
    counts = (16, 20, 18, 10, 5, 0)
    policy = Scripted(lambda k, i: "right" if i < counts[k] else "wrong")
    said = scanned(policy, trace("1.", "2.", "3.", "4.", "5.", "The answer is 8."))
    assert near(said.values, 1, 1, 0.625, 0.3125, 0, None)
    assert said.failures[-1] == "after the first error"
    assert len(policy.asked) == 20 + 5 * 20, "the responses, and (t* + 1)·R"
    assert said.aspects["confidence"][0] == 0.8


def test_scan_spends_nothing_on_correct_traces_and_skips_unsure_problems() -> None:
    sure = Scripted(lambda k, i: "right" if i < 15 else "wrong")
    assert scanned(sure, trace("One.", "The answer is 7.")).values == (1.0, 1.0) and len(sure.asked) == 20
    unsure = Scripted(lambda k, i: "right" if i < 14 else "wrong")
    said = scanned(unsure, trace("One.", "The answer is 7."))
    assert said.values == (None, None) and said.failures[0] == "the self-confidence is below 0.75"
    assert said.aspects["confidence"] == (0.7, 0.7)
    assert scanned(sure, trace("The answer is 8.")).values == (0.0,), "a one-step response"
    open_end = scanned(sure, trace("One.", "Two."))
    assert open_end.values == (None, None) and "no error was found" in str(open_end.failures[0])
    busy = Scripted(lambda k, i: "error: busy" if k else "right")
    assert scanned(busy, trace("One.", "The answer is 8.")).failures[0] == "all 20 rollouts failed: busy"


def test_the_responses_of_a_problem_are_shared_by_its_traces() -> None:
    policy = Scripted(lambda k, i: "right" if k == 0 else "wrong")
    traces = [trace("One.", "The answer is 8.", id="a"), trace("Two.", "The answer is 8.", id="b")]
    said = scan(policy, rollouts=2, responses=10).judge(traces)
    assert len(policy.asked) == 10 + 2 * 2 and [j.cost.calls for j in said] == [12, 2]


def test_noise_is_early_or_late() -> None:
    noise = label_noise([2, 1, 4, -1, -1, 3], [2, 3, 2, 1, -1, -1])
    assert noise == (4 / 6, 2 / 6, 2 / 6)
    with pytest.raises(ValueError, match="no traces"):
        label_noise([], [])


# UnPRM


def test_step_uncertainty_has_the_values_of_the_card() -> None:
    assert step_uncertainty([0, -1, -2]) == pytest.approx(1.0854, abs=5e-5)
    assert step_uncertainty([0, -1, -2], "log-sum") == pytest.approx(3.3357, abs=5e-5)
    assert step_uncertainty([-0.1] * 3) == pytest.approx(1.0986, abs=5e-5)


@given(st.integers(1, 40), st.floats(-9, 0))
def test_the_entropy_of_a_flat_step_is_its_length_and_nothing_else(n: int, logprob: float) -> None:
    assert step_uncertainty([logprob] * n) == pytest.approx(math.log(n), abs=1e-9)


def test_steps_are_probed_by_falling_jumps_or_falling_uncertainty() -> None:
    steps = [1.0, 1.4, 1.2, 2.0]
    assert probe_order(steps) == [3, 1, 2] and probe_order(steps, "uncertainty") == [3, 1, 2, 0]
    assert trace_uncertainty(steps) == pytest.approx(1.4 / 3) and trace_uncertainty([1.0]) == 0


def test_rollouts_are_weighed_by_their_probability() -> None:
    assert weighted_value([0.9, 0.6, 0.8, 0.7], [True, False, True, False]) == pytest.approx(0.5667, abs=5e-5)


def test_the_budget_is_what_it_takes_to_see_ten_right_rollouts() -> None:
    assert rollout_budget([True] * 72) == 16
    assert rollout_budget([False] * 20 + [True] * 20) == 32, "the tenth came at 30"
    assert rollout_budget([True] * 10 + [False] * 62) is None


def test_the_most_uncertain_trace_comes_first_and_likeness_counts_against_the_next() -> None:
    ids = [[1, 0], [1, 0], [0, 1]]
    assert choose_traces([0.9, 0.8, 0.1], ids, 2) == [0, 1]
    assert choose_traces([0.9, 0.8, 0.1], ids, 2, weight=0.5) == [0, 2]
    assert choose_traces([0.5, 0.5], [[1], [2]], 5) == [0, 1] and choose_traces([], [], 3) == []


@dataclass
class Probable(Scripted):
    """A scripted completer whose tokens have log-probabilities."""

    def _complete(self, prefix: Trajectory, index: int) -> Completion:
        made = super()._complete(prefix, index)
        steps = tuple(replace(s, token_ids=(1, 2), logprobs=(-0.5, -0.5)) for s in made.steps)
        return replace(made, steps=steps, tokenizer="v")


def uncertain_trace(*sizes: int, answer: int = 8) -> Trajectory:
    """A wrong trace whose step k has sizes[k] equally likely tokens: its uncertainty is ln(size)."""
    steps = [
        Step(
            f"Step {k}." if k < len(sizes) - 1 else f"The answer is {answer}.",
            None,
            None,
            None,
            (),
            (1,) * n,
            (-1.0,) * n,
        )
        for k, n in enumerate(sizes)
    ]
    return Trajectory("t1", PROBLEM, tuple(steps), tokenizer="v")


def test_the_first_probed_step_below_the_problems_value_is_the_error() -> None:
    policy = Probable(lambda k, i: "right" if k < 3 else "wrong")
    (said,) = unprm(policy).judge([uncertain_trace(2, 3, 9, 2, 2)])
    assert said.values == (1.0, 1.0, 0.0, 0.0, 0.0) and said.aspects["probes"][0] == 1
    assert said.cost.calls == 72 + 16 + 16
    late = Probable(lambda k, i: "right")
    (said,) = unprm(late).judge([uncertain_trace(2, 3, 9, 2, 2)])
    assert said.values == (1.0, 1.0, 1.0, 1.0, 0.0) and said.aspects["probes"][0] == 3, "none found: the last"


def test_unprm_takes_no_prefix_whose_rollouts_were_all_cut_for_a_lost_one() -> None:
    (said,) = unprm(Probable(lambda k, i: "cut" if k else "right")).judge([uncertain_trace(2, 3, 9, 2, 2)])
    assert set(said.values) == {None} and "were cut before their end" in str(said.failures[0])


def test_unprm_says_why_a_trace_has_no_labels() -> None:
    policy = Probable(lambda k, i: "right" if i < 5 else "wrong")
    traces = [uncertain_trace(2, 2), trace("One.", "The answer is 8."), trace("One."), uncertain_trace(2, 2, answer=7)]
    said = unprm(policy).judge(traces)
    assert [j.failures[0] if j.failures else None for j in said] == [
        "only 5 of 72 rollouts of the problem are right",
        "the trace's tokens have no log-probabilities to order probes by: label traces that `footfall sample` wrote, or take "
        "an order that needs none (order=sequential or order=binary)",
        "the trace states no answer, so its last step has no outcome",
        None,
    ]
    assert said[3].values == (1.0, 1.0)
    plain = Scripted(lambda k, i: "right")
    (blind,) = unprm(plain).judge([uncertain_trace(2, 3, 2)])
    assert blind.values == (None,) * 3 and "weighted=False" in str(blind.failures[0])
    (told,) = Uncertain(plain, weighted=False).judge([uncertain_trace(2, 3, 2)])
    assert told.values == (1.0, 1.0, 0.0)


# HRM and HNC


def small_tree() -> Tree:
    """Top, one node P, and four leaves below it: right, right, wrong, wrong."""
    tree = Tree(PROBLEM, separator="\n")
    parent = tree.add(-1, Step("P"))
    for k, right in enumerate((1.0, 1.0, 0.0, 0.0)):
        tree.add(parent, Step(f"c{k}"), terminal=True, value=right)
    score_nodes(tree)
    return tree


def test_compression_moves_one_child_up_and_the_top_keeps_its_value() -> None:
    tree = small_tree()
    assert tree.nodes[0].value == tree.value == 0.5
    seen = set()
    for seed in range(12):
        new = compress(tree, np.random.default_rng(seed))
        for moved in (node for node in new.nodes[1:] if node.parent == -1):
            assert moved.step.text.startswith("P\nc") and new.value == 0.5
            assert new.nodes[0].value == pytest.approx(1 / 3 if moved.value else 2 / 3)
            seen.add(moved.value)
    assert seen == {0.0, 1.0} and tree == small_tree(), "the tree itself stays as it was"
    assert compress(tree, np.random.default_rng(0), share=0.0) == tree
    assert compress(tree, np.random.default_rng(0), share=1.0, min_children=5) == tree


def test_children_are_drawn_in_turn_until_one_moves() -> None:
    """As in the authors' `split_node`: at ½ the first of four moves in 8 of 16 cases, the last in one, none in one."""
    counts = Counter[str]()
    for seed in range(1600):
        moved = [n.step.text for n in compress(small_tree(), np.random.default_rng(seed)).nodes[1:] if n.parent == -1]
        assert len(moved) <= 1
        counts[moved[0] if moved else "none"] += 1
    shares = [counts[name] / 100 for name in ("P\nc0", "P\nc1", "P\nc2", "P\nc3", "none")]
    assert shares == pytest.approx([8, 4, 2, 1, 1], abs=0.5), "of 16"


def test_a_pair_has_the_label_of_its_later_step() -> None:
    repaired = Judged(trace("Bad.", "Repair."), Judgement("t1", (0.0, 1.0), "human"))
    ((pair, judgement),) = merged_pairs(repaired)
    assert [s.text for s in pair.steps] == ["Bad.\n\nRepair."]
    assert judgement is not None and judgement.values == (1.0,)
    three = Judged(trace("One.", "Two.", "Three."), Judgement("t1", (1.0, None, 0.0), "human"))
    ((pair, judgement),) = merged_pairs(three)
    assert [s.text for s in pair.steps] == ["One.", "Two.\n\nThree."]
    assert judgement is not None and judgement.values == (None, 0.0)
    assert merged_pairs(Judged(repaired.trajectory, None)) == []


def test_steps_between_which_an_environment_spoke_are_no_pair() -> None:
    steps = (Step("Ask.", observation="4"), Step("So 4."), Step("Done."))
    used = Judged(Trajectory("t", PROBLEM, steps), Judgement("t", (1.0, 1.0, 0.0), "human"))
    ((pair, _),) = merged_pairs(used)
    assert [s.written for s in pair.steps] == ["Ask.\n4", "So 4.\n\nDone."]
    tree = small_tree()
    tree.update(0, step=Step("P", observation="4"))
    assert compress(tree, np.random.default_rng(0), share=1.0) == tree
    rows = [row.trajectory for row in tree_samples([tree])]
    assert all(row.steps[0].observation == "4" for row in rows if row.steps[0].text.startswith("P")), "not lost"


def test_merged_steps_keep_ids_if_both_have_them() -> None:
    a, b = Step("a", token_ids=(1, 9), logprobs=(-1.0, -2.0)), Step("b", token_ids=(2,), logprobs=(-3.0,))
    merged = merge_steps(a, b, "\n")
    assert (merged.text, merged.token_ids, merged.logprobs) == ("a\nb", (1, 9, 2), (-1.0, -2.0, -3.0))
    assert merge_steps(a, Step("b"), "\n").token_ids is None


def test_a_node_gives_one_sample_at_depth_one_and_two_below() -> None:
    tree = small_tree()
    rows = tree_samples([tree])
    assert len(rows) == 1 + 2 * 4
    both = tree_samples([tree, compress(tree, np.random.default_rng(1), share=1.0)])
    assert len(both) == len(rows) + 1, "the moved node is a pair that was there; its parent's new score is one more"
    assert len(tree_samples([tree, tree])) == len(rows)
    assert len(tree_samples([tree], nodes=[[0]])) == 1


def test_nodes_are_balanced_by_score_at_each_depth() -> None:
    tree = Tree(PROBLEM)
    for k in range(30):
        tree.add(-1, Step(f"n{k}"), value=float(k < 2))
    chosen = balanced_nodes(tree, np.random.default_rng(0))
    assert sum(tree.nodes[i].value == 1 for i in chosen) == 2 and len(chosen) == 4
    assert (
        len(balanced_nodes(Tree(PROBLEM, [replace(n, value=1.0) for n in tree.nodes]), np.random.default_rng(0))) == 5
    )


@dataclass
class Levels:
    """Counts its calls."""

    inner: ArithmeticPolicy
    calls: int = 0
    name: str = "levels"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.calls += 1
        return self.inner.sample(prefixes, n, params, first=first)


def test_full_trees_grow_level_by_level_for_all_problems_at_once() -> None:
    policy = Levels(ArithmeticPolicy())
    grown = FullTrees(policy, branch=3, depth=3).grow(WORLD.problems(3, seed=1), "\n")
    assert policy.calls < 3 * len(grown.trees) and grown.cost.calls == sum(len(tree.nodes) for tree in grown.trees)
    for tree in grown.trees:
        for i, node in enumerate(tree.nodes):
            assert node.value is not None and 0 <= node.value <= 1
            below = [leaf for leaf in tree.leaves() if i in tree.path(leaf)]
            won = sum(bool(tree.nodes[leaf].terminal and tree.nodes[leaf].value) for leaf in below)
            assert node.value == pytest.approx(won / len(below))
    assert FullTrees(policy).grow([]) == Expansion([])


def test_a_node_after_which_every_call_failed_has_no_score_and_no_zero() -> None:
    class Failing(Levels):
        def sample(
            self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
        ) -> list[list[Completion]]:
            failed = [[Completion((), "error", i, error="timeout") for i in range(n)] for _ in prefixes]
            return failed if self.calls else super().sample(prefixes, n, params, first=first)

    (tree,) = FullTrees(Failing(ArithmeticPolicy()), branch=2, depth=3).grow(WORLD.problems(1, seed=1), "\n").trees
    assert [(node.value, node.meta) for node in tree.nodes] == [
        (None, {"failure": "all 2 next steps failed: timeout"})
    ] * 2
    assert tree.value is None and tree_samples([tree]) == []
    assert leaf_rows(tree, "x")[0].judgement.failures == ("all 2 next steps failed: timeout",)  # type: ignore[union-attr]
