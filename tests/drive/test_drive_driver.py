"""The driver: one batch a round for all, shared rollouts that the first pays for, calls that fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from footfall.drive import Account, Budget, Driver, Estimate, GrowingTree, Plan, Probe, RolloutCache, Score, Task, Write
from footfall.drive.rollouts import run_plans
from footfall.judging import Traits
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Judgement, Problem, Step, Trajectory, Tree

PROBLEM = Problem("p", "What is 3 + 4?", "7")


def prefix(*steps: str, id: str = "t") -> Trajectory:
    return Trajectory(id, PROBLEM, tuple(map(Step, steps)))


@dataclass
class Answers:
    """Always answers 7, and notes every call; a prefix whose last step is `bad` is an error."""

    calls: list[list[tuple[int, int, int]]] = field(default_factory=list)
    """Of each call, by prefix: its steps, the first sample and how many."""
    bad: str = "bad"
    name: str = "answers"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        if any(p.steps and p.steps[-1].text == self.bad for p in prefixes):
            raise RuntimeError("cannot go on from here")
        self.calls.append([(len(p.steps), first, n) for p in prefixes])
        cost = Cost(generated_tokens=5, calls=1, seconds=2.0)
        return [
            [Completion((Step("The answer is 7."),), "end", first + i, cost=cost) for i in range(n)] for _ in prefixes
        ]


@dataclass
class LengthOf:
    """Values each step by how many there are."""

    calls: list[int] = field(default_factory=list)
    name: str = "length"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.calls.append(len(trajectories))
        return [
            Judgement(t.id, (1 / len(t.steps),) * len(t.steps), self.name, cost=Cost(calls=1)) for t in trajectories
        ]


def one_by_one(trace: Trajectory, rollouts: int = 2) -> Plan[list[Estimate]]:
    found = []
    for k in range(1, len(trace.steps) + 1):
        (estimate,) = yield [Probe(trace.prefix(k), rollouts)]
        found.append(estimate)
    return found


def test_what_all_plans_want_in_a_round_is_one_call_and_the_first_to_ask_pays() -> None:
    policy = Answers()
    traces = [prefix("a", "b"), prefix("a", "c", id="u"), prefix("a", id="v")]
    done = run_plans([one_by_one(trace) for trace in traces], RolloutCache(policy))
    assert policy.calls == [[(1, 0, 2)], [(2, 0, 2), (2, 0, 2)]]
    assert [each.cost.calls for each in done] == [4, 2, 0]
    assert done[0].result[0] is done[1].result[0] is done[2].result[0] and done[0].result[0].value == 1
    assert done[0].cost.seconds == 8.0, "what labelling takes is told with its time"


def test_plans_go_in_step_though_one_finds_all_that_it_wants() -> None:
    policy = Answers()
    cache = RolloutCache(policy)
    run_plans([one_by_one(prefix("b"))], cache)
    done = run_plans([one_by_one(prefix("a", "x")), one_by_one(prefix("b", "y"))], cache)
    assert policy.calls[1:] == [[(1, 0, 2)], [(2, 0, 2), (2, 0, 2)]] and [each.cost.calls for each in done] == [4, 2]


def test_a_policy_that_fails_in_labelling_is_an_error_and_the_cache_can_be_used_again() -> None:
    policy = Answers()
    cache = RolloutCache(policy)
    with pytest.raises(RuntimeError, match="cannot go on"):
        run_plans([one_by_one(prefix("a", "bad")), one_by_one(prefix("a", "good"))], cache)
    policy.bad = ""
    (done,) = run_plans([one_by_one(prefix("a", "bad"))], cache)
    assert [estimate.value for estimate in done.result] == [1.0, 1.0] and done.cost.calls == 2


class Asking(Task[list[Any]]):
    """Asks one thing after the other, and keeps all that it is sent."""

    def __init__(self, *requests: Write | Score) -> None:
        super().__init__(self._course(requests), Account(Budget()))
        self.result: list[Any] = []
        self.failure: str | None = None

    def _course(self, requests: Sequence[Write | Score]) -> Any:
        found = []
        for request in requests:
            found.append((yield request))
        return found

    def _end(self, result: list[Any]) -> None:
        self.result = result

    def fail(self, reason: str) -> None:
        super().fail(reason)
        self.failure = reason


def test_a_call_that_fails_fails_those_whose_call_it_was() -> None:
    tasks = [Asking(Write([prefix("good")], 2, "end")), Asking(Write([prefix("bad")], 2, "end"))]
    Driver({"policy": Answers()}).run(tasks)
    assert tasks[1].failure == "RuntimeError: cannot go on from here" and tasks[1].result == []
    assert tasks[0].failure is None and [c.index for c in tasks[0].result[0][0]] == [0, 1]
    assert tasks[0].account.policy == Cost(generated_tokens=10, calls=2), "of a search without its seconds"


def test_judgements_of_all_tasks_are_one_batch_and_an_empty_request_is_answered_at_once() -> None:
    judge, policy = LengthOf(), Answers()
    tasks = [Asking(Score([]), Score([prefix("a")]), Write([prefix("a")], 3, "end")), Asking(Score([prefix("b", "c")]))]
    Driver({"policy": policy}, {"judge": judge}).run(tasks)
    assert judge.calls == [2] and policy.calls == [[(1, 0, 3)]]
    (nothing, [said], [samples]), [[other]] = tasks[0].result, tasks[1].result
    assert nothing == [] and said.values == (1.0,) and other.values == (0.5, 0.5) and len(samples) == 3


@dataclass
class Critic(LengthOf):
    """A judge that asks a policy."""

    policy: Answers = field(default_factory=Answers)


@dataclass
class Around:
    """A judge made of another."""

    inner: Critic
    name: str = "around"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self.inner.judge(trajectories)


@dataclass
class Uncounted(Answers):
    counts_tokens: bool = False
    name: str = "uncounted"


def test_a_budget_of_tokens_is_refused_where_a_part_of_the_judge_counts_none() -> None:
    def run(policy: Answers) -> Critic:
        critic, task = Critic(policy=policy), Asking(Score([prefix("a")]))
        task.account = Account(Budget(tokens=100))
        Driver({}, {"judge": Around(critic)}).run([task])
        return critic

    assert run(Answers()).calls == [1]
    with pytest.raises(ValueError, match=r"^uncounted counts no tokens, so a budget of tokens cannot hold"):
        run(Uncounted())


@dataclass
class Silent(Critic):
    """Says of itself that its costs hold no tokens."""

    name: str = "silent"

    @property
    def traits(self) -> Traits:
        return Traits(counts_tokens=False)


def test_a_judge_inside_that_counts_no_tokens_is_heard_too() -> None:
    task = Asking(Score([prefix("a")]))
    task.account = Account(Budget(tokens=100))
    with pytest.raises(ValueError, match=r"^silent counts no tokens"):
        Driver({}, {"judge": Around(Silent())}).run([task])


def test_a_growing_tree_finds_a_step_where_it_stands_and_adds_one_twice_if_told_to() -> None:
    growing = GrowingTree(Tree(PROBLEM))
    assert growing.path(-1, (Step("a"), Step("b"))) == [0, 1] and growing.path(-1, (Step("a"), Step("c"))) == [0, 2]
    assert growing.add_step(-1, Step("a")) == 3 and growing.path(-1, (Step("a"),)) == [0]
    assert growing.prefix(-1).steps == () and [s.text for s in growing.prefix(2).steps] == ["a", "c"]
    before = growing.key(2)
    growing.rewrite(2, Step("d"))
    assert growing.prefix(2).steps[-1].text == "d" and growing.key(2) == prefix("a", "d").key != before
