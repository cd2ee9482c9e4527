"""MCTS: the worked numbers of the card, its invariants, play mode, and rStar's search without a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.drive.budget import Account
from footfall.drive.requests import ROOT
from footfall.policy.protocol import Completion, SamplingParams
from footfall.search import HGS, MCTS, PATS, BestOf, Budget, Method, RStar, Searcher
from footfall.search.mcts import Stat, Visits, priors, puct, scheduled, uct
from footfall.search.state import SearchState
from footfall.types import Judgement, Reason, SearchResult, Step, Trajectory, Unjudged
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=5, max_tokens=100)
WORLD, WRITER = ArithmeticWorld(), ArithmeticPolicy()


def solve(method: Method, n: int = 1, budget: Budget = Budget(), **coins: Any) -> list[SearchResult]:
    return Searcher(Coins(**coins), SeesCoins(), method, budget, PARAMS, "\n").solve(problems(n))


def arithmetic(method: Method, n: int = 6) -> list[SearchResult]:
    searcher = Searcher(WRITER, ExactValueJudge(WRITER), method, params=PARAMS, separator="\n")
    return searcher.solve(WORLD.problems(n, seed=2, split="test"))


def empty_state() -> SearchState:
    return SearchState(problems(1)[0], "\n", Account(Budget()), seed=0, judged=True)


# -- card check 1 and 2: the scores


def test_card_check_1_puct_takes_the_unvisited_child() -> None:
    scores = [puct(0.7, 0.5, 10, 3), puct(0.65, 0.3, 10, 0), puct(0.7, 0.2, 10, 7)]
    assert scores == pytest.approx([1.194327, 1.836385, 0.798865], abs=1e-6)
    assert puct(0.0, 1.0, 1, 0) == pytest.approx(1.25 + np.log(19654 / 19652))


def test_card_check_1_in_a_tree_of_counts() -> None:
    tree = Visits(empty_state())
    tree.stats = {
        ROOT: Stat(ROOT, 0, visits=10, children=[0, 1, 2]),
        0: Stat(ROOT, 1, prior=0.5, visits=3, total=2.1),
        1: Stat(ROOT, 1, first=0.65, prior=0.3),
        2: Stat(ROOT, 1, prior=0.2, visits=7, total=4.9),
    }
    assert tree.pick_puct(ROOT, 19652, 1.25) == 1
    assert tree.pick_uct(ROOT, 2.0) == 1, "never visited comes first"
    tree[1].visits = 1
    tree[1].total = -9.0
    assert tree.pick_uct(ROOT, 2.0) == 0


def test_card_check_2_uct() -> None:
    assert uct(0.7, 10, 3, 2.0) == pytest.approx(2.452174, abs=1e-6)
    assert uct(0.7, 10, 7, 2.0) == pytest.approx(1.847067, abs=1e-6)


def test_card_check_1_the_factor_of_the_bonus_after_ten_visits() -> None:
    assert puct(0.0, 10**-0.5, 10, 0) == pytest.approx(1.250560, abs=1e-6)


def test_srm_findings_card_uct_of_weight_1_goes_to_the_child_seen_once() -> None:
    scores = [uct(3 / 4, 10, 4, 1.0), uct(1.0, 10, 1, 1.0), uct(0.0, 10, 2, 1.0)]
    assert scores == pytest.approx([1.508714, 2.517427, 1.072983], abs=1e-6)
    tree = Visits(empty_state())
    tree.stats = {
        ROOT: Stat(ROOT, 0, visits=10, children=[0, 1, 2]),
        0: Stat(ROOT, 1, visits=4, total=3.0),
        1: Stat(ROOT, 1, visits=1, total=1.0),
        2: Stat(ROOT, 1, visits=2, total=0.0),
    }
    assert tree.pick_uct(ROOT, 1.0) == 1


def test_the_weight_of_uct_falls_to_a_tenth_on_its_schedules() -> None:
    assert [scheduled(2.0, "const", i, 10) for i in (0, 10)] == [2.0, 2.0]
    assert [scheduled(2.0, "linear", i, 10) for i in (0, 5, 10)] == pytest.approx([2.0, 1.1, 0.2])
    assert [scheduled(2.0, "exponential", i, 10) for i in (0, 5, 10)] == pytest.approx([2.0, 2 * 0.1**0.5, 0.2])


def test_priors_are_mean_token_probabilities_and_even_without_logprobs() -> None:
    found = priors([(-0.2, -0.4), (-1.3,)])
    assert found[0] / found[1] == pytest.approx(np.exp(1.0)) and sum(found) == pytest.approx(1)
    assert priors([(-0.2,), None]) == [0.5, 0.5]
    assert priors([]) == []


# -- card check 3: invariants


def checked_counts(result: SearchResult, paths: int) -> None:
    """Visits and values as they stand in the tree and in the record."""
    assert result.tree is not None
    nodes = result.tree.nodes
    backed = [d for d in result.decisions if d.what == "backed-up"]
    of_root = [d for d in backed if d.nodes == (ROOT,)]
    assert len(of_root) == paths == len(result.candidates)
    assert of_root[-1].values[0] == pytest.approx(np.mean([s for s in result.scores if s is not None]))
    for i, node in enumerate(nodes):
        below = sum(nodes[child].visits for child in result.tree.children(i))
        assert node.visits >= below
        assert node.visits == sum(d.nodes == (i,) for d in backed)


@given(
    paths=st.integers(1, 6),
    width=st.integers(1, 4),
    selection=st.sampled_from(["puct", "uct"]),
    c_init=st.floats(0, 5),
    p=st.floats(0.1, 0.9),
)
@settings(max_examples=25, deadline=None)
def test_card_check_3_counts_and_means(paths: int, width: int, selection: Any, c_init: float, p: float) -> None:
    for result in solve(MCTS(paths, width, selection, c_init=c_init), 2, p=p, depth=3):
        checked_counts(result, paths)


@pytest.mark.parametrize("constants", [{}, {"c_init": 50.0}, {"c_base": 1.0, "c_init": 0.0}, {"backup": False}])
def test_card_check_3_the_first_path_is_the_greedy_descent_on_first_values(constants: dict[str, Any]) -> None:
    for result in arithmetic(MCTS(paths=1, width=4, **constants)):
        assert result.tree is not None and result.chosen is not None
        node = ROOT
        for step in result.chosen.steps:
            siblings = [i for i in result.tree.children(node) if not result.tree.nodes[i].pruned]
            values = [result.tree.nodes[i].value or 0.0 for i in siblings]
            best = siblings[values.index(max(values))]
            assert result.tree.nodes[best].step.text == step.text
            node = best


def test_children_are_distinct_and_each_node_is_expanded_once() -> None:
    for result in arithmetic(MCTS(paths=5, width=6)):
        assert result.tree is not None
        for parent in range(ROOT, len(result.tree.nodes)):
            kept = [result.tree.nodes[i] for i in result.tree.children(parent) if not result.tree.nodes[i].pruned]
            assert len({node.step.text for node in kept}) == len(kept)
            assert len(result.tree.children(parent)) in (0, 6)


# -- what the backup is for


@dataclass
class Misled:
    """Likes the left branch at first sight, and what comes of it not at all."""

    name: str = "misled"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, tuple(self._value(t, i) for i in range(len(t.steps))), self.name) for t in trajectories]

    def _value(self, trace: Trajectory, i: int) -> float:
        left = trace.steps[0].text == "left"
        return (0.9 if left else 0.6) if i == 0 else (0.1 if left else 0.7)


@dataclass
class Fork:
    """Left or right, then an answer: 0 on the left, 1 on the right."""

    name: str = "fork"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._one(prefix, index) for index in range(first, first + n)] for prefix in prefixes]

    def _one(self, prefix: Trajectory, index: int) -> Completion:
        if not prefix.steps:
            return Completion((Step(("left", "right")[index % 2]),), "step", index)
        answer = int(prefix.steps[0].text == "right")
        return Completion((Step(f"Way {index}. The answer is {answer}."),), "end", index)


def forked(backup: bool, paths: int) -> list[str]:
    method = MCTS(paths, 2, backup=backup, c_init=0.0)
    result = Searcher(Fork(), Misled(), method, params=PARAMS, separator="\n").solve(problems(1))[0]
    return [t.steps[0].text for t, _ in result.candidates]


def test_a_value_that_is_backed_up_leads_away_from_a_branch_that_only_looked_good() -> None:
    assert forked(backup=True, paths=3) == ["left", "right", "right"]
    assert forked(backup=False, paths=3) == ["left", "left", "left"]


@pytest.mark.long
def test_with_a_perfect_judge_it_succeeds_where_every_level_has_a_right_step() -> None:
    results = solve(MCTS(paths=2, width=4), 400, p=0.4)
    assert sum(right(r.chosen) for r in results) / 400 == pytest.approx((1 - 0.6**4) ** 3, abs=4 * 0.0237)


def test_later_paths_explore_and_may_come_again() -> None:
    distinct = [len({t.id for t, _ in r.candidates}) for r in arithmetic(MCTS(paths=8, width=4))]
    assert min(distinct) >= 1 and max(distinct) > 2


# -- ends, budgets, failures


def test_a_dead_end_is_worth_nothing_and_does_not_stop_the_search() -> None:
    @dataclass
    class Stuck(Coins):
        def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
            if any("wrong" in step.text for step in prefix.steps):
                return Completion((), "error", index, error="refused")
            return super()._one(prefix, params, index)

    @dataclass
    class Upside(SeesCoins):
        """Likes wrong steps."""

        def _judge(self, trajectory: Trajectory) -> Judgement:
            said = super()._judge(trajectory)
            return replace(said, values=tuple(1 - (v or 0) / 2 for v in said.values))

    results = Searcher(Stuck(depth=3), Upside(), MCTS(12, 4), params=PARAMS, separator="\n").solve(problems(20))
    assert sum(r.answer is not None for r in results) > 15
    dead = [
        n for r in results if r.tree for n in r.tree.nodes if "wrong" in n.step.text and n.visits and not n.terminal
    ]
    assert dead and {n.value for n in dead} == {0.0}


def test_a_dead_end_is_no_better_than_it_was_where_values_are_below_zero() -> None:
    state = SearchState(problems(1)[0], "\n", Account(Budget()), 0, True)
    tree = Visits(state)
    low, high = (state.add(ROOT, [Step(text)]) for text in ("low", "high"))
    tree.grow(ROOT, [low, high], [-0.9, 0.3], [0.5, 0.5])
    for node in (low, high):
        tree.grow(node, [], [], [])
    assert (tree.q(low), tree.q(high)) == (-0.9, 0.0)


def test_a_budget_that_ends_in_the_first_path_leaves_what_was_finished() -> None:
    for result in solve(MCTS(8, 4), 10, Budget(tokens=120), depth=3):
        assert result.stopped in (None, "tokens") and result.answer is not None
        assert result.cost.generated_tokens <= 120 + 10


def test_play_mode_moves_to_the_most_visited_child() -> None:
    for result in arithmetic(MCTS(width=3, play=6), 4):
        assert result.tree is not None and result.chosen is not None and len(result.candidates) == 1
        moves = [d.nodes[0] for d in result.decisions if d.what == "kept"]
        node = ROOT
        for move in moves:
            siblings = [i for i in result.tree.children(node) if not result.tree.nodes[i].pruned]
            assert move in siblings
            node = move
        assert [result.tree.nodes[i].step.text for i in moves] == [step.text for step in result.chosen.steps]


def test_drawn_moves_differ_with_the_seed_and_not_with_the_company() -> None:
    method = MCTS(width=3, play=4, tau=1.0)
    together = solve(method, 6, p=0.5)
    searcher = Searcher(Coins(), SeesCoins(), method, params=PARAMS, separator="\n")
    assert together == [searcher.solve([problem])[0] for problem in problems(6)]
    assert together != replace(searcher, params=replace(PARAMS, seed=6)).solve(problems(6))


@pytest.mark.parametrize("wrong", [{"selection": "ucb"}, {"paths": 0}, {"noise": 2.0}, {"rule": "first"}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        MCTS(**wrong)


# -- rStar


def no_judge(method: Method, n: int, **coins: Any) -> list[SearchResult]:
    return Searcher(Coins(**coins), None, method, params=PARAMS, separator="\n").solve(problems(n))


def test_rstar_needs_no_judge_and_values_answers_by_their_share() -> None:
    for result in no_judge(RStar(paths=6, width=4), 20, p=0.7):
        assert result.tree is not None and result.answer is not None
        assert all(score is not None and score in (0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1) for score in result.scores)
        assert not result.judge_cost.calls


def test_rstar_ends_every_path_at_its_depth() -> None:
    for result in no_judge(RStar(paths=8, width=2, actions=("step",), depth=3), 10, depth=6):
        assert result.candidates and all(t.answer is not None for t, _ in result.candidates)
        assert {len(t.steps) for t, _ in result.candidates} == {6}
        of_root = [d for d in result.decisions if d.what == "backed-up" and d.nodes == (ROOT,)]
        assert len(of_root) == 8


def test_rstar_with_whole_solutions_alone_is_one_vote() -> None:
    votes = no_judge(RStar(paths=1, width=7, actions=("rest",)), 60, p=0.8)
    majority = no_judge(BestOf(7, "majority"), 60, p=0.8)
    assert [r.answer for r in votes] == [r.answer for r in majority]


def test_further_actions_are_written_by_helpers_where_they_are_legal() -> None:
    @dataclass
    class Says:
        word: str

        @property
        def name(self) -> str:
            return self.word

        def sample(
            self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
        ) -> list[list[Completion]]:
            return [
                [Completion((Step(f"{self.word} {i}"),), "step", i) for i in range(first, first + n)] for _ in prefixes
            ]

    method = RStar(paths=40, width=2, actions=("rest", "subquestion", "reanswer", "rephrase"), depth=4)
    helpers = {word: Says(word) for word in ("subquestion", "reanswer", "rephrase")}
    searcher = Searcher(Coins(depth=8), None, method, params=PARAMS, separator="\n", helpers=helpers)
    tree = searcher.solve(problems(1))[0].tree
    assert tree is not None
    by_action = {word: [n for n in tree.nodes if n.meta["action"] == word] for word in helpers}
    assert all(by_action.values())
    assert {n.parent for n in by_action["rephrase"]} == {ROOT}
    assert {tree.nodes[n.parent].meta["action"] for n in by_action["reanswer"]} == {"subquestion"}
    with pytest.raises(ValueError, match="actions are step, rest"):
        RStar(actions=("rephrase",))


# -- what all methods owe the searcher

EACH: list[Method] = [MCTS(4, 3), MCTS(4, 3, "uct"), MCTS(width=3, play=3), RStar(4, 2), HGS(), PATS()]


@pytest.mark.parametrize("method", EACH, ids=["puct", "uct", "play", "rstar", "hgs-prm", "pats"])
def test_the_same_tree_alone_and_in_company_and_a_budget_that_holds(method: Method) -> None:
    together = solve(method, 5, Budget(tokens=150))
    searcher = Searcher(Coins(), SeesCoins(), method, Budget(tokens=150), PARAMS, "\n")
    assert together == [searcher.solve([problem])[0] for problem in problems(5)]
    priced = replace(searcher, judge=SeesCoins(tokens=10))
    for result in priced.solve(problems(5)):
        assert result.cost.generated_tokens + result.cost.scored_tokens <= 150 + 10 + 30


@pytest.mark.parametrize("method", [EACH[0], EACH[4], EACH[5]], ids=["puct", "hgs-prm", "pats"])
def test_a_judge_that_has_no_values_leads_to_no_error(method: Method) -> None:
    @dataclass
    class Silent(SeesCoins):
        def _judge(self, trajectory: Trajectory) -> Judgement:
            n = len(trajectory.steps)
            return Judgement(
                trajectory.id, (None,) * n, self.name, failures=(Unjudged(Reason.UNDECIDED, "silent"),) * n
            )

    for result in Searcher(Coins(), Silent(), method, params=PARAMS, separator="\n").solve(problems(3)):
        assert result.answer is not None or "silent" in str(result.failure)
