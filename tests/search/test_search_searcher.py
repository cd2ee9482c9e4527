"""The searcher: hard budgets, shared batches, the same tree for the same seed, failures that stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from footfall.formats import read_parquet, write_parquet
from footfall.policy.protocol import Completion, SamplingParams
from footfall.search import (
    DVTS,
    ROOT,
    BeamSearch,
    BestOf,
    Budget,
    BudgetSpent,
    Choice,
    Course,
    Method,
    Searcher,
    SearchState,
    described,
)  # fmt: skip
from footfall.search.searcher import replay, told
from footfall.types import Cost, Judgement, Problem, SearchResult, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge, TruthJudge
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=3, max_tokens=30)
METHODS: list[Method] = [BestOf(8, "best"), BeamSearch(8, 4), BeamSearch(8, 2, lookahead=1), DVTS(8, 4)]
NAMES = ["best-of-n", "beam", "lookahead", "dvts"]


def solve(
    method: Method,
    n: int = 12,
    budget: Budget | None = None,
    judge: SeesCoins | None = None,
    policy: Coins | None = None,
) -> list[SearchResult]:
    searcher = Searcher(policy or Coins(), judge or SeesCoins(), method, budget or Budget(), PARAMS, "\n")
    return searcher.solve(problems(n))


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_the_same_seed_grows_the_same_tree_however_many_problems_run_together(method: Method) -> None:
    together = solve(method)
    searcher = Searcher(Coins(), SeesCoins(), method, Budget(), PARAMS, "\n")
    apart = [result for problem in problems(12) for result in searcher.solve([problem])]
    assert together == apart
    other = replace(searcher, params=replace(PARAMS, seed=4)).solve(problems(12))
    assert [r.tree for r in other] != [r.tree for r in together]


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
@pytest.mark.parametrize("tokens", [1, 37, 90, 200])
def test_a_token_budget_is_not_exceeded_by_more_than_one_step_with_its_judging(method: Method, tokens: int) -> None:
    judge = SeesCoins(tokens=10)
    for result in solve(method, budget=Budget(tokens=tokens), judge=judge):
        used = result.cost.generated_tokens + result.cost.scored_tokens
        in_flight = 10 + 30 if not isinstance(method, BestOf) else 30 + 30
        assert used <= tokens + in_flight
        assert result.cost == result.policy_cost + result.judge_cost
        assert result.stopped in (None, "tokens")


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_calls_are_a_budget_too_and_judgements_count(method: Method) -> None:
    for result in solve(method, budget=Budget(calls=11)):
        assert result.cost.calls <= 11 + 1


def test_flops_and_seconds_stop_a_search() -> None:
    @dataclass
    class Heavy(Coins):
        def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
            done = super()._one(prefix, params, index)
            return replace(done, cost=done.cost + Cost(flops=100.0 * done.cost.generated_tokens))

    for result in solve(DVTS(8, 4), budget=Budget(flops=9000), policy=Heavy()):
        assert result.stopped == "flops" and 9000 <= result.cost.flops < 9000 + 3000
    for result in solve(DVTS(8, 4), budget=Budget(seconds=1e-9)):
        assert result.stopped == "seconds" and result.cost == Cost()


def test_a_budget_that_allows_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="0 tokens allows nothing"):
        Budget(tokens=0)


def test_with_a_budget_best_of_n_answers_with_what_it_could_pay_for() -> None:
    results = solve(BestOf(8, "best"), n=40, budget=Budget(tokens=100))
    assert {len(r.candidates) for r in results} == {4}, "three whole ones, and one that is cut where the budget ends"
    assert all(90 <= r.policy_cost.generated_tokens <= 100 and r.stopped == "tokens" for r in results)
    assert all(r.answer is not None for r in results)


def test_a_hundred_searches_share_every_batch() -> None:
    policy, judge = Coins(), SeesCoins()
    solve(DVTS(8, 4), n=100, policy=policy, judge=judge)
    assert len(policy.calls) < 12, "three iterations, a few runs of sample indices each"
    assert judge.batches[0] == 800 and len(judge.batches) == 3


def test_decisions_can_be_replayed_and_told() -> None:
    result = solve(BeamSearch(4, 2))[0]
    scenes = list(replay(result))
    assert result.tree is not None
    assert scenes[-1].nodes == frozenset(range(len(result.tree.nodes)))
    assert scenes[-1].pruned == {i for i, node in enumerate(result.tree.nodes) if node.pruned}
    assert scenes[-1].values == {i: node.value for i, node in enumerate(result.tree.nodes)}
    kinds = [decision.what for decision in result.decisions]
    assert kinds[0] == "expanded" and kinds[-1] == "chosen" and {"scored", "kept", "pruned"} <= set(kinds)
    assert any(line.endswith("best") and "pruned #" in line for line in told(result))
    assert sum((node.cost for node in result.tree.nodes), Cost()) == result.cost


def test_a_result_with_its_tree_and_decisions_is_read_back_from_parquet(tmp_path: Path) -> None:
    results = solve(DVTS(8, 4), budget=Budget(tokens=90))
    write_parquet(tmp_path / "r.parquet", results, "search-result")
    assert read_parquet(tmp_path / "r.parquet", "search-result") == results


@dataclass
class Fragile(Coins):
    """Raises on one problem, and answers another with failed samples."""

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        if any(prefix.problem.id == "p1" for prefix in prefixes):
            raise ConnectionError("the server is gone")
        rows = super().sample(prefixes, n, params, first)
        lost = Completion((), "error", error="timed out after 3 tries")
        return [
            [replace(lost, index=c.index) if prefix.problem.id == "p2" else c for c in row]
            for prefix, row in zip(prefixes, rows, strict=True)
        ]


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_a_policy_that_fails_on_one_problem_fails_that_problem_only(method: Method) -> None:
    whole, some = solve(method, 4), solve(method, 4, policy=Fragile())
    assert some[1].failure == "ConnectionError: the server is gone"
    assert some[2].answer is None and "timed out after 3 tries" in str(some[2].failure)
    assert [some[0], some[3]] == [whole[0], whole[3]]


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_a_judge_that_fails_on_one_problem_fails_that_problem_only(method: Method) -> None:
    @dataclass
    class Picky(SeesCoins):
        def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
            if any(t.problem.id == "p0" for t in trajectories):
                raise ValueError("trajectory 'p0#3' is too long")
            return super().judge(trajectories)

    results = solve(method, 3, judge=Picky())
    assert results[0].failure == "ValueError: judge 'sees-coins': trajectory 'p0#3' is too long"
    assert results[0].tree is not None and results[0].tree.nodes, "what was written is kept"
    assert results[1:] == solve(method, 3)[1:]


@dataclass(frozen=True)
class Careless:
    """Never looks at the budget, and never stops."""

    stubborn: bool = False

    @property
    def name(self) -> str:
        return described("careless", self)

    @property
    def judged(self) -> bool:
        return True

    def search(self, state: SearchState) -> Course:
        while True:
            try:
                yield from state.expand([ROOT], 1, "end", score=True)
            except BudgetSpent:
                if not self.stubborn:
                    raise


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_method_that_does_not_care_is_stopped_and_its_best_finished_trace_taken(stubborn: bool) -> None:
    results = solve(Careless(stubborn), n=20, budget=Budget(tokens=200))
    assert all(r.stopped == "tokens" and r.answer is not None for r in results)
    assert all(right(r.chosen) == any(right(t) for t, _ in r.candidates) for r in results)


@dataclass(frozen=True)
class Refining:
    """Asks a critic outside the tree, grafts a step, and lets a second judge and a second policy take part."""

    @property
    def name(self) -> str:
        return "refining"

    @property
    def judged(self) -> bool:
        return True

    def search(self, state: SearchState) -> Course:
        critic = Trajectory("critique", Problem("critique", "What is wrong?"), separator="\n")
        [[said]] = yield from state.ask([critic], policy="critic", until="step")
        node = state.add(ROOT, [Step(f"refined after {said.steps[0].text}")])
        [[child]] = yield from state.expand([node], 1, "end", policy="large")
        [fragment] = yield from state.score([Trajectory("f", state.problem, (Step("wro"),))], partial=True)
        assert fragment is not None and fragment.values == (1.0,) and state.judgement(child) is None
        yield from state.score([child], judge="second")
        assert state.judgement(child) is None and state.aggregate(child, judge="second") is not None
        return Choice(child, [child], [state.aggregate(child, judge="second")])


def test_a_method_may_ask_others_and_write_a_step_itself() -> None:
    critic, large = Coins(p=1, depth=1, name="critic"), Coins(p=1, name="large")
    searcher = Searcher(
        Coins(), SeesCoins(), Refining(), params=PARAMS, separator="\n",
        helpers={"critic": critic, "large": large}, judges={"second": SeesCoins(name="second")},
    )  # fmt: skip
    [result] = searcher.solve(problems(1))
    assert result.chosen is not None and result.answer == "1" and result.chosen.author == "large"
    assert result.chosen.steps[0].text.startswith("refined after right")
    assert result.policy_cost.calls == 2 and result.judge_cost.calls == 2
    with pytest.raises(TypeError, match="asks for a policy called 'critic'"):
        replace(searcher, helpers={}).solve(problems(1))


def test_a_method_that_needs_a_judge_says_so() -> None:
    with pytest.raises(ValueError, match="needs a judge"):
        Searcher(Coins(), None, DVTS())


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS, ids=NAMES)
@pytest.mark.parametrize("exact", [True, False])
def test_with_a_judge_that_knows_search_reaches_what_can_be_reached(method: Method, exact: bool) -> None:
    writer = ArithmeticPolicy()
    judge = ExactValueJudge(writer) if exact else TruthJudge()
    searcher = Searcher(writer, judge, method, params=SamplingParams(seed=1, max_tokens=64), separator="\n")
    results = searcher.solve(ArithmeticWorld().problems(25, seed=5, split="test"))
    assert sum(right(r.chosen) for r in results) >= 24
