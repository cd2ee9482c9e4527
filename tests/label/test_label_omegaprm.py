"""OmegaPRM: the card's numbers, exact first errors with a monotone oracle, and trees grown together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.drive.rollout_store import StoredPolicy
from footfall.drive.rollouts import Estimate, Plan, Probe, Rollout, RolloutCache, graded, run_plans
from footfall.drive.trees import leaf_rows, node_rows, tree_of, trees_of, value_trees
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.omegaprm import (
    BinarySearch,
    Candidates,
    OmegaPRM,
    bisect,
    exploitation,
    exploration,
    rollout_length,
)
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Problem, Step, Trajectory, Tree
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import FOUR_STEPS, PROBLEM, Scripted, trace

WORLD = ArithmeticWorld()


def test_the_selection_rule_has_the_values_of_the_card() -> None:
    assert exploitation(0.75, 250) == pytest.approx(0.7977, abs=5e-5)
    assert exploration(2, 9) == pytest.approx(0.125)
    assert exploitation(0.75, 250) + exploration(2, 9) == pytest.approx(0.9227, abs=5e-5)
    assert exploitation(0.75, 1000) == pytest.approx(0.6811, abs=5e-5)
    assert exploitation(0.25, 250) == pytest.approx(0.5641, abs=5e-5)


def probes_of(steps: int, error: int) -> tuple[list[int], int]:
    """Probed steps and the result, where a prefix is lost if and only if it includes the error."""
    search, probed = bisect(steps), []
    try:
        at = next(search)
        while True:
            probed.append(at)
            at = search.send(at >= error)
    except StopIteration as stop:
        return probed, stop.value


@pytest.mark.parametrize(("error", "probes"), [(5, [3, 5, 4]), (0, [3, 1, 0]), (7, [3, 5, 6, 7])])
def test_binary_search_probes_as_the_card_says(error: int, probes: list[int]) -> None:
    assert probes_of(8, error) == (probes, error)


@given(st.integers(1, 200), st.data())
def test_binary_search_is_exact_and_short_if_errors_are_never_repaired(steps: int, data: st.DataObject) -> None:
    error = data.draw(st.integers(0, steps))
    probed, found = probes_of(steps, error)
    assert found == error and len(probed) <= math.ceil(math.log2(steps + 1))


def lost_from(error: int) -> Scripted:
    """A completer that always succeeds before step `error` (from 0) and never from it on."""
    return Scripted(lambda k, index: "right" if k <= error else "wrong")


def wrong_trace(steps: int) -> Trajectory:
    return trace(*(f"Step {k}." for k in range(steps - 1)), "The answer is 8.")


def test_the_judge_labels_up_to_the_first_error_and_leaves_the_rest() -> None:
    policy = lost_from(5)
    (said,) = BinarySearch(policy, rollouts=2).judge([wrong_trace(8)])
    assert list(said.values) == [1, 1, 1, 1, 1, 0, None, None]
    assert said.failures == (None,) * 6 + ("after the first error",) * 2
    assert list(said.aspects["rollouts"]) == [None, None, None, 2, 2, 2, None, None]
    assert len(policy.asked) == 6, "three probes of two rollouts"
    assert said.cost.calls == 6 and said.first_below(0.5) == 5


def test_the_outcome_is_known_so_an_error_in_the_last_step_costs_one_probe_less() -> None:
    policy = lost_from(7)
    (said,) = BinarySearch(policy, rollouts=2).judge([wrong_trace(8)])
    assert list(said.values) == [1.0] * 7 + [0.0] and len(policy.asked) == 6, "steps 3, 5 and 6 were probed, 7 was not"


def test_a_correct_trace_costs_no_rollout() -> None:
    policy = lost_from(0)
    (said,) = BinarySearch(policy).judge([FOUR_STEPS])
    assert list(said.values) == [1, 1, 1, 1] and not policy.asked and said.cost == Cost()


def test_an_unfinished_trace_may_have_no_error() -> None:
    (said,) = BinarySearch(lost_from(9), rollouts=2).judge([trace("One.", "Two.", "Three.")])
    assert list(said.values) == [1, 1, 1]
    (said,) = BinarySearch(lost_from(2), rollouts=2).judge([trace("One.", "Two.", "Three.")])
    assert list(said.values) == [1, 1, 0]


def test_a_completer_that_repairs_errors_needs_a_higher_bar() -> None:
    policy = Scripted(lambda k, index: "right" if k <= 5 or index == 0 else "wrong")
    assert BinarySearch(policy, 8).judge([wrong_trace(8)])[0].first_below(0.5) == 7, (
        "one repair in eight hides the error"
    )
    assert BinarySearch(policy, 8, lost=0.2).judge([wrong_trace(8)])[0].first_below(0.5) == 5
    with pytest.raises(ValueError, match="lost in"):
        BinarySearch(policy, lost=1.0)


def test_soft_labels_stand_at_the_probed_steps_alone() -> None:
    policy = Scripted(lambda k, index: "right" if index < 3 - k else "wrong")
    (said,) = BinarySearch(policy, rollouts=4, estimate="soft").judge([wrong_trace(4)])
    assert list(said.values) == [None, 0.25, 0.0, 0.0], "the last is the outcome"
    assert said.failures == ("not probed", None, None, None)


def test_a_probe_whose_calls_all_fail_leaves_steps_unlabelled_with_the_reason() -> None:
    policy = Scripted(lambda k, index: "error: timeout" if k == 6 else "right")
    (said,) = BinarySearch(policy, rollouts=2).judge([wrong_trace(8)])
    assert list(said.values) == [1, 1, 1, 1, None, None, None, None]
    assert set(said.failures[4:]) == {"all 2 rollouts failed: timeout"}


@dataclass
class Counting:
    """A policy that counts its calls."""

    inner: ArithmeticPolicy = field(default_factory=ArithmeticPolicy)
    calls: int = 0
    rollouts: int = 0

    @property
    def name(self) -> str:
        return self.inner.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.calls += 1
        self.rollouts += n * len(prefixes)
        return self.inner.sample(prefixes, n, params, first=first)


def test_many_traces_are_searched_in_as_many_calls_as_the_longest_one_needs() -> None:
    traces = [t for _, t in WORLD.traces(ArithmeticPolicy(), 60, seed=4) if not t.correct]
    policy = Counting()
    judge = BinarySearch(policy, rollouts=4)
    together = judge.judge(traces)
    assert policy.calls <= 3, "at most 8 steps, the last of which is known"
    alone = [judge.judge([t])[0] for t in traces]
    assert [j.values for j in alone] == [j.values for j in together]


def test_binary_search_agrees_with_step_by_step_labels_for_fewer_rollouts() -> None:
    """The same seed gives the same rollouts of a prefix, so where MC is monotone both find the same step."""
    traces = [t for _, t in WORLD.traces(ArithmeticPolicy(recover=0.0), 80, seed=5) if not t.correct]
    completer = ArithmeticPolicy(recover=0.0)
    few, many = Counting(completer), Counting(completer)
    search = [j.first_below(0.5) for j in BinarySearch(few, 16).judge(traces)]
    steps = [j.first_below(0.5) for j in MonteCarlo(many, 16, estimate="hard").judge(traces)]
    assert sum(a == b for a, b in zip(search, steps, strict=True)) > 0.9 * len(traces)
    assert few.rollouts < 0.75 * many.rollouts


def asked(cache: RolloutCache, *probes: Probe) -> list[tuple[Estimate, Cost]]:
    """Each probe by a plan of its own: what it is sent, and what it pays."""

    def plan(probe: Probe) -> Plan[Estimate]:
        (estimate,) = yield [probe]
        return estimate

    return [(done.result, done.cost) for done in run_plans([plan(probe) for probe in probes], cache)]


def test_rollouts_of_one_prefix_are_shared_and_topped_up() -> None:
    policy = Scripted(lambda k, index: "right" if index % 2 else "wrong")
    cache = RolloutCache(policy)
    prefix = FOUR_STEPS.prefix(1)
    (first, cost), (again, free) = asked(cache, Probe(prefix, 2), Probe(prefix, 3))
    assert first is again and first.value == pytest.approx(1 / 3) and (cost.calls, free.calls) == (3, 0)
    ((more, cost),) = asked(cache, Probe(prefix, 4))
    assert more.value == 0.5 and cost.calls == 1 and [i for _, i in policy.asked] == [0, 1, 2, 3]
    assert [rollout.correct for rollout in more.rollouts] == [False, True, False, True]
    with pytest.raises(ValueError, match="until='end'"):
        RolloutCache(policy, SamplingParams(until="step"))


def test_traces_that_begin_alike_share_nodes_and_every_node_is_valued_in_one_batch() -> None:
    a, b = trace("One.", "Two.", "The answer is 7."), trace("One.", "Other.", "The answer is 8.", id="t2")
    other = Trajectory("t3", Problem("p2", "What is 3 + 4?", "7"), (Step("One."),))
    trees = trees_of([graded(t) for t in (a, other, b)])
    assert [len(tree.nodes) for tree in trees] == [5, 1]
    policy = lost_from(1)
    cost = value_trees(trees, RolloutCache(policy), rollouts=2)
    tree = trees[0]
    assert [(node.step.text, node.value, node.terminal) for node in tree.nodes] == [
        ("One.", 1.0, False), ("Two.", 0.0, False), ("The answer is 7.", 1.0, True), ("Other.", 0.0, False),
        ("The answer is 8.", 0.0, True),
    ]  # fmt: skip
    assert tree.value == 1.0 and tree.nodes[1].meta == {"successes": 0, "rollouts": 2}
    assert cost.calls == len(policy.asked) == 2 * (4 + 2), "three inner nodes and a top; one node and a top"
    rows = leaf_rows(tree, "mc")
    assert [row.judgement.values for row in rows if row.judgement] == [(1.0, 0.0, 1.0), (1.0, 0.0, 0.0)]
    assert [row.trajectory.correct for row in rows] == [True, False]
    assert [row.judgement.values for row in node_rows(tree, "mc") if row.judgement][1] == (None, 0.0)
    with pytest.raises(ValueError, match="cannot share a tree"):
        tree_of([a, other])


def test_a_node_whose_calls_fail_has_a_reason_and_no_value() -> None:
    (tree,) = trees_of([trace("One.", "Two.")])
    value_trees([tree], RolloutCache(Scripted(lambda k, i: "error: gone" if k == 2 else "right")), rollouts=2)
    ((_, judgement),) = leaf_rows(tree, "mc")
    assert judgement is not None and judgement.values == (1.0, None)
    assert judgement.failures == (None, "all 2 rollouts failed: gone")


@dataclass
class Tangled:
    """Writes "good" or "bad" steps and an answer that is right if no step was bad; sample i of the top is bad at step i."""

    length: int = 4
    name: str = "tangled"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._write(prefix, i) for i in range(first, first + n)] for prefix in prefixes]

    def _write(self, prefix: Trajectory, index: int) -> Completion:
        texts = [step.text for step in prefix.steps]
        for k in range(len(texts), self.length):
            texts.append(f"bad {k}" if k == len(prefix.steps) + index % 4 else f"good {k}")
        bad = any(text.startswith("bad") for text in texts)
        texts.append(f"The answer is {8 if bad else 7}.")
        steps = tuple(map(Step, texts[len(prefix.steps) :]))
        return Completion(steps, "end", index, cost=Cost(generated_tokens=len(steps), calls=1))


def test_a_tree_holds_every_probed_prefix_and_its_value_is_the_share_of_right_rollouts() -> None:
    (grown,) = OmegaPRM(Tangled(), rollouts=5, leaves=False).grow([PROBLEM])
    tree = grown.tree
    assert tree.value == 0.0, "five rollouts of four steps: each is bad somewhere"
    assert tree.nodes == [] and (grown.searches, grown.rollouts) == (0, 5), "a lost state supplies no candidate"
    (grown,) = OmegaPRM(Tangled(length=3), rollouts=4, leaves=False).grow([PROBLEM])
    tree = grown.tree
    assert tree.value == 0.25 and grown.searches > 0
    for i, node in enumerate(tree.nodes):
        lost = any(tree.nodes[j].step.text.startswith("bad") for j in tree.path(i))
        if node.value is not None:
            assert (node.value == 0) == (lost or node.terminal)
    assert any(node.step.text == "bad 0" for node in tree.nodes)


def test_states_that_always_or_never_succeed_supply_no_candidates() -> None:
    for outcome in ("right", "wrong"):
        (grown,) = OmegaPRM(Scripted(lambda k, i, o=outcome: o), rollouts=4).grow([PROBLEM])  # type: ignore[misc]
        assert grown.searches == 0 and grown.rollouts == 4


def test_a_cut_rollout_is_no_candidate() -> None:
    (grown,) = OmegaPRM(Scripted(lambda k, i: "right" if i else "cut"), rollouts=4).grow([PROBLEM])
    assert grown.tree.value == 0.75 and grown.searches == 0


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_trees_of_many_problems_grown_together_are_those_grown_alone(seed: int, searches: int) -> None:
    problems = WORLD.problems(4, seed=seed)
    method = OmegaPRM(ArithmeticPolicy(), rollouts=4, searches=searches, params=SamplingParams(seed=seed))
    both = method.grow(problems, "\n")
    assert [g.tree for g in both] == [method.grow([p], "\n")[0].tree for p in problems]
    for grown in both:
        assert sum(node.visits for node in grown.tree.nodes) <= grown.searches <= searches
        assert grown.cost.calls == grown.rollouts


def test_tree_values_are_monte_carlo_values_of_their_prefixes() -> None:
    policy, params = ArithmeticPolicy(), SamplingParams(seed=3)
    for grown in OmegaPRM(policy, 8, searches=5, params=params).grow(WORLD.problems(3, seed=8), "\n"):
        inner = [i for i, node in enumerate(grown.tree.nodes) if node.value is not None and not node.terminal]
        prefixes = [grown.tree.trajectory(i) for i in inner]
        said = MonteCarlo(policy, 8, params=params).judge(prefixes)
        assert [grown.tree.nodes[i].value for i in inner] == [j.values[-1] for j in said]
        ends = {node.value for node in grown.tree.nodes if node.terminal}
        assert ends <= {0.0, 1.0}


def test_a_budget_of_rollouts_ends_the_search() -> None:
    problems = WORLD.problems(6, seed=2)
    grown = OmegaPRM(ArithmeticPolicy(), 4, budget=12).grow(problems, "\n")
    assert all(g.rollouts < 12 + 4 * 4 for g in grown) and any(g.rollouts >= 12 for g in grown)
    assert sum(g.rollouts for g in OmegaPRM(ArithmeticPolicy(), 4).grow(problems, "\n")) > sum(
        g.rollouts for g in grown
    )


def test_the_selection_prefers_good_states_short_rollouts_and_states_not_yet_searched() -> None:
    def wrong(words: int, index: int = 0) -> Rollout:
        return Rollout(Completion((Step("word " * words),), "end", index), False)

    method, prefix = OmegaPRM(Tangled()), FOUR_STEPS.prefix(1)
    good, poor = Candidates(0, prefix, 0.75, [wrong(1000), wrong(250)]), Candidates(1, prefix, 0.25, [wrong(250)])
    assert method.select([poor, good]) == (good, wrong(250))
    good.visits = 200
    assert method.select([poor, good]) == (poor, wrong(250)), "0.5641 + 0.125·sqrt(200) against 0.7977 + 0.0088"
    assert method.select([Candidates(2, prefix, 0.5, [])]) is None
    tie = [wrong(5, 0), wrong(5, 1)]
    assert method.select([Candidates(3, prefix, 0.5, tie)]) == (Candidates(3, prefix, 0.5, tie), tie[0])


def test_the_length_of_a_rollout_is_in_tokens_or_else_in_words() -> None:
    words = Completion((Step("one two three"),), "end")
    ids = Completion((Step("one two three", token_ids=(1, 2)),), "end", tokenizer="v")
    assert (rollout_length(words), rollout_length(ids)) == (3, 2)


def test_methods_that_share_a_store_share_their_rollouts(tmp_path_factory: pytest.TempPathFactory) -> None:
    traces = [t for _, t in WORLD.traces(ArithmeticPolicy(), 12, seed=6) if not t.correct]
    counting = Counting()
    folder = tmp_path_factory.mktemp("rollouts")
    MonteCarlo(StoredPolicy(counting, folder), 4).judge(traces)
    before = counting.rollouts
    BinarySearch(StoredPolicy(counting, folder), 4).judge(traces)
    assert counting.rollouts == before > 0


def test_an_empty_list_is_fine() -> None:
    assert BinarySearch(lost_from(1)).judge([]) == [] and OmegaPRM(lost_from(1)).grow([]) == []
    assert leaf_rows(Tree(PROBLEM), "x") == []
