"""What judging takes is learned from what was read, so that a token budget holds whatever the lengths of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from footfall.drive.budget import GROWTH, Account, Load, Readings, tokens_of
from footfall.drive.requests import ROOT
from footfall.judging import Bound, Traits
from footfall.policy.protocol import Completion, SamplingParams, sample_seed
from footfall.registry import load
from footfall.search import BeamSearch, BestOf, Budget, Method, Searcher
from footfall.search.searcher import replay
from footfall.search.state import Choice, Course, SearchState
from footfall.simulate import Noisy, Priced, Reader
from footfall.types import Cost, Judge, Judgement, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge
from tests.search.coins import Coins, SeesCoins, problems

SHORT, LONG, DEPTH = 4, 60, 4
PARAMS = SamplingParams(seed=3, max_tokens=64)
NOISY = Noisy(TruthJudge(), 0.2, 0.2, seed=1)


@dataclass
class Uneven:
    """Four steps of 4 or 60 words, a word a token."""

    name: str = "uneven"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._one(prefix, params, i) for i in range(first, first + n)] for prefix in prefixes]

    def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
        rng = Random(sample_seed(params, prefix, index))
        texts: list[str] = []
        written, finish = 0, "step"
        while (done := len(prefix.steps) + len(texts)) < DEPTH and (not texts or params.until == "end"):
            words = SHORT if rng.random() < 0.5 else LONG
            if written + words > params.max_tokens:
                finish = "length"
                break
            end = f"The answer is {int(rng.random() < 0.5)}." if done == DEPTH - 1 else f"s{rng.random()} a b c"
            texts.append(" ".join(["w"] * (words - SHORT)) + " " + end)
            written += words
        if len(prefix.steps) + len(texts) == DEPTH:
            finish = "end"
        cost = Cost(generated_tokens=written, calls=1)
        return Completion(tuple(map(Step, texts)), finish, index, cost=cost)  # type: ignore[arg-type]


@dataclass
class Reads:
    """Reads every word of a trace, and a prompt of so many before it; its values are noise."""

    prompt: int = 0
    name: str = "reads"
    batches: list[int] = field(default_factory=list)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.batches.append(len(trajectories))
        return [self._one(trace) for trace in trajectories]

    def _one(self, trace: Trajectory) -> Judgement:
        words = self.prompt + sum(len(step.text.split()) for step in trace.steps)
        values = tuple(Random(step.text).random() for step in trace.steps)
        return Judgement(trace.id, values, self.name, cost=Cost(scored_tokens=words, calls=1))


@pytest.mark.parametrize("prompt", [0, 30])
@pytest.mark.parametrize(
    ("method", "budgets"),
    [
        (BeamSearch(64, 4, lookahead=2), (3000, 6000, 8000)),
        (load("searcher", "dvts")(n=64, lookahead=2), (3000, 6000, 8000)),
        (load("searcher", "mcts")(width=64), (1500, 3000, 5000)),
        (load("searcher", "pats")(widths=(64, 32, 16)), (1500, 3000, 5000)),
    ],
)
def test_a_token_budget_is_exceeded_by_one_step_and_the_reading_of_one_trace_at_most(
    method: Method, budgets: Sequence[int], prompt: int
) -> None:
    for tokens in budgets:
        results = Searcher(Uneven(), Reads(prompt), method, Budget(tokens=tokens), PARAMS, "\n").solve(problems(5))
        over = max(tokens_of(result.cost) for result in results) - tokens
        assert over <= LONG + prompt + DEPTH * LONG


CRITIQUE = 400
ASKED, WROTE = Cost(calls=1), Cost(generated_tokens=CRITIQUE, calls=1)
CUT, CHOSE = Cost(generated_tokens=20, calls=1), Cost(generated_tokens=20, scored_tokens=CRITIQUE - 20, calls=2)


@dataclass
class Babbles:
    """Writes a word about most traces and hundreds about some; it does not say how many at most."""

    name: str = "babbles"
    batches: list[int] = field(default_factory=list)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.batches.append(len(trajectories))
        return [self._one(trace) for trace in trajectories]

    def _one(self, trace: Trajectory) -> Judgement:
        rng = Random(trace.key)
        cost = Cost(generated_tokens=CRITIQUE if rng.random() < 0.3 else 1, calls=1)
        return Judgement(trace.id, tuple(rng.random() for _ in trace.steps), self.name, cost=cost)


@dataclass
class SaysHowMuch(Babbles):
    """The same, but it says so, where it knows of how many steps."""

    per_step: bool = False

    @property
    def traits(self) -> Traits:
        return Traits(at_most=self.at_most)

    def at_most(self, steps: int | None) -> Bound | None:
        return None if self.per_step and steps is None else Bound(CRITIQUE, 1)


@dataclass
class Late(Babbles):
    """Its judgements cost nothing, or a little, until it has read so many traces of a problem; then they cost a lot."""

    first: Cost = ASKED
    then: Cost = WROTE
    quiet: int = 3
    seen: dict[str, int] = field(default_factory=dict)

    def _one(self, trace: Trajectory) -> Judgement:
        seen = self.seen[trace.problem.id] = self.seen.get(trace.problem.id, 0) + 1
        return replace(super()._one(trace), cost=self.first if seen <= self.quiet else self.then)


@dataclass
class LateChoice(Late):
    """Its first critiques are cut, so that they end in no choice; a choice counts what it reads."""

    first: Cost = CUT
    then: Cost = CHOSE

    @property
    def traits(self) -> Traits:
        return Traits(at_most=self.at_most)

    def at_most(self, steps: int | None) -> Bound | None:
        return Bound(20, 2, choices=1)


STEERED = [BestOf(32, "best"), BeamSearch(16, 4), *(load("searcher", name)() for name in ("dvts", "mcts", "pats"))]


@pytest.mark.long
@pytest.mark.parametrize("judge", [Babbles, SaysHowMuch, lambda: SaysHowMuch(per_step=True), Late, LateChoice])
@pytest.mark.parametrize("method", STEERED)
def test_a_judge_that_writes_as_it_likes_exceeds_a_budget_by_one_judgement_at_most(
    method: Method, judge: Callable[[], Judge]
) -> None:
    for tokens in (300, 700, 1500, 3000):
        results = Searcher(Uneven(), judge(), method, Budget(tokens=tokens), PARAMS, "\n").solve(problems(20))
        assert max(tokens_of(result.cost) for result in results) - tokens <= LONG + CRITIQUE


@dataclass
class CallsForSteps(Reads):
    """A call a step, and the beginning of the trace read again in each."""

    def _one(self, trace: Trajectory) -> Judgement:
        cost = Cost.total(Reads._one(self, trace.prefix(k + 1)).cost for k in range(len(trace.steps)))
        return replace(super()._one(trace), cost=cost)


@pytest.mark.long
@pytest.mark.parametrize(
    ("judge", "most"), [(CallsForSteps, DEPTH), (lambda: Late(then=Cost(calls=20)), 20), (Babbles, 1)]
)
@pytest.mark.parametrize("method", STEERED)
def test_a_budget_of_calls_is_exceeded_by_one_sample_and_the_judging_of_one_trace_at_most(
    method: Method, judge: Callable[[], Judge], most: int
) -> None:
    for calls in (20, 40, 80, 200):
        results = Searcher(Uneven(), judge(), method, Budget(calls=calls), PARAMS, "\n").solve(problems(10))
        assert max(result.cost.calls for result in results) - calls <= 1 + most


def test_a_judge_that_says_how_much_it_writes_gets_all_that_fits_at_once() -> None:
    silent, open_ = Babbles(), SaysHowMuch()
    for judge in (silent, open_):
        Searcher(Uneven(), judge, BestOf(64, "best"), Budget(tokens=10**6), PARAMS, "\n").solve(problems(3))
    assert open_.batches == [3, 3 * 63]
    assert set(silent.batches) == {3}, "one of each problem"


@dataclass
class NobodyKnows(Reads):
    """Reads, but what one trace takes says nothing of another, and it says so."""

    @property
    def traits(self) -> Traits:
        return Traits(at_most=self.at_most)

    def at_most(self, steps: int | None) -> Bound | None:
        return None


@dataclass
class Around:
    """A judge with another inside, as a calibration is."""

    inner: Babbles | Reads
    name: str = "around"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self.inner.judge(trajectories)


@pytest.mark.parametrize(("inner", "at_once"), [(SaysHowMuch(), 3 * 63), (NobodyKnows(), 3), (Reads(), 3 * 63)])
def test_what_the_judge_inside_says_of_its_writing_counts(inner: Babbles | Reads, at_once: int) -> None:
    Searcher(Uneven(), Around(inner), BestOf(64, "best"), Budget(tokens=10**6), PARAMS, "\n").solve(problems(3))
    assert inner.batches[:2] == [3, at_once]


def test_with_a_large_budget_all_traces_but_the_first_are_judged_in_one_batch() -> None:
    judge = Reads()
    Searcher(Uneven(), judge, BestOf(64, "best"), Budget(tokens=10**6), PARAMS, "\n").solve(problems(3))
    assert judge.batches == [3, 3 * 63]


def trace(words: int) -> Trajectory:
    return Trajectory("t", Problem("p", "?"), (Step(" ".join(["w"] * words)),))


def test_a_trace_longer_than_all_before_is_taken_to_cost_as_many_times_as_much() -> None:
    readings = Readings()
    readings.learn(trace(4), Cost(scored_tokens=4, calls=1))
    assert readings.worst(trace(60))[0] >= 60 and readings.worst(trace(1)) == (4, 1)
    readings.learn(trace(60), Cost(scored_tokens=60, calls=1))
    assert readings.worst(trace(60)) == (60, 1), "once it was read it is no longer overrated"


def test_units_are_granted_one_after_the_other_until_their_sum_is_reached() -> None:
    account = Account(Budget(tokens=200))
    loads = [Load(0, trace(words)) for words in (10, 20, 40, 80, 80)]
    assert account.units(loads) == 1, "nobody knows yet what a judgement takes"
    for _ in range(4):
        account.read(Cost(scored_tokens=10), trace(10))
    assert account.units(loads) == 4, "10 + 20 + 40 + 80 of the 160 that are left"
    assert account.units(loads[3:]) == 1 and account.units(loads[3:], spare=150) == 0


def test_where_room_is_scarce_few_readings_speak_of_few_traces() -> None:
    account = Account(Budget(tokens=200))
    account.read(Cost(scored_tokens=10), trace(10))
    assert account.units([Load(0, trace(10))] * 19) == GROWTH
    large = Account(Budget(tokens=2000))
    large.read(Cost(scored_tokens=10), trace(10))
    assert large.units([Load(0, trace(10))] * 19) == 19


@pytest.mark.parametrize(
    "name", ["weighted-vote", "frequency-vote", "hybrid-vote", "vgs", "gflownet", "compute-optimal"]
)
@pytest.mark.parametrize("value", [-1.5, math.nan])
def test_a_value_that_a_method_cannot_use_fails_its_own_problem_with_the_judges_name(name: str, value: float) -> None:
    results = Searcher(
        Coins(), OneBad(value=value), load("searcher", name)(), params=PARAMS, separator="\n"
    ).solve(problems(4))  # fmt: skip
    assert [result.failure is None for result in results] == [True, False, True, True]
    failure = results[1].failure or ""
    assert failure.startswith("ValueError") and "'one-bad'" in failure
    assert ("map logits by a sigmoid" if value < 0 else "nan") in failure
    assert results[1].decisions[-1].what == "failed"


@dataclass
class OneBad(SeesCoins):
    """Says `value` of the steps of one problem."""

    name: str = "one-bad"
    value: float = -1.5

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = super()._judge(trajectory)
        return said if trajectory.problem.id != "p1" else replace(said, values=(self.value,) * len(said.values))


@dataclass
class Picky:
    """A method whose settings turn out to be wrong when it begins."""

    even: bool = False
    name: str = "picky"
    judged: bool = False

    def search(self, state: SearchState) -> Course:
        if not self.even:
            raise ValueError("n must be even")
        yield from state.expand([ROOT])
        return Choice(None)


def test_a_wrong_setting_is_an_error_and_no_failure_of_a_problem() -> None:
    with pytest.raises(ValueError, match=r"^n must be even$"):
        Searcher(Coins(), None, Picky(), params=PARAMS, separator="\n").solve(problems(2))


@pytest.mark.parametrize("name", ["beam-search", "dvts", "mcts", "pats", "birm"])
def test_judging_leaves_enough_to_write_a_solution(name: str) -> None:
    policy, judge = Coins(depth=4, tokens=3), SeesCoins(tokens=15)
    results = Searcher(policy, judge, load("searcher", name)(), Budget(tokens=80), PARAMS, "\n").solve(problems(20))
    assert all(result.answer is not None for result in results)


@pytest.mark.parametrize("tokens", [150, 200, 300])
def test_of_several_traces_one_is_judged_so_that_a_method_has_something_to_go_on_with(tokens: int) -> None:
    judge = Priced("noisy", Reader(NOISY, NOISY), {})
    method = load("searcher", "early-rejection")(n=8, expansions=4, tokens=4)
    params = SamplingParams(seed=0, max_tokens=200)
    searcher = Searcher(ArithmeticPolicy(), judge, method, Budget(tokens=tokens), params, "\n")
    for result in searcher.solve(ArithmeticWorld().problems(12, 3, split="test")):
        assert result.answer is not None or result.stopped == "tokens"
        left_off = any("no more is judged" in decision.why for decision in result.decisions)
        assert not left_off or result.stopped == "tokens"


def test_a_trace_without_steps_costs_the_reading_of_its_problem() -> None:
    judge = Priced("noisy", Reader(NOISY, NOISY), {})
    trace = Trajectory("t", Problem("q", "How much is 2 plus 2?"))
    assert [said.cost.scored_tokens for said in (*judge.judge([trace]), *judge.judge_partial([trace]))] == [7, 0]


@pytest.mark.parametrize("name", ["dvts", "mcts", "gflownet", "hgs-prm"])
@pytest.mark.parametrize("tokens", [60, 120, 250])
def test_what_was_given_up_on_the_chosen_path_is_taken_up_again(name: str, tokens: int) -> None:
    judge = SeesCoins(tokens=2)
    searcher = Searcher(Coins(depth=4, tokens=3), judge, load("searcher", name)(), Budget(tokens=tokens), PARAMS, "\n")
    for result in searcher.solve(problems(20)):
        tree = result.tree
        assert tree is not None
        *_, last = replay(result)
        assert last.pruned == {i for i, node in enumerate(tree.nodes) if node.pruned}
        chosen = [node for decision in result.decisions if decision.what == "chosen" for node in decision.nodes]
        assert not any(tree.nodes[i].pruned for node in chosen for i in tree.path(node))


def test_why_a_pruned_node_was_taken_up_again_is_said() -> None:
    method = load("searcher", "dvts")()
    results = Searcher(Coins(depth=4, tokens=3), SeesCoins(tokens=2), method, Budget(tokens=60), PARAMS, "\n").solve(
        problems(20)
    )
    said = {decision.why for result in results for decision in result.decisions if decision.what == "taken-up"}
    assert said and all(why.startswith("taken up again: ") for why in said)
