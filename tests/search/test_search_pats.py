"""PATS: the worked numbers of the card, and the bounds of what a step can cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.policy.protocol import Completion, SamplingParams
from footfall.search import DVTS, PATS, Budget, Searcher
from footfall.search.pats import Mode
from footfall.types import Cost, Judgement, SearchResult, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge
from tests.search.coins import Coins, SeesCoins, problems

PARAMS = SamplingParams(seed=4, max_tokens=40)
CARD = (0.9, 0.95, 0.8, 0.3, 0.35, 0.88)


@dataclass
class Counts:
    """Numbered steps that are never the same twice; the last of `depth` states the answer."""

    depth: int = 5
    name: str = "counts"
    drawn: list[int] = field(default_factory=list)
    """How many were wanted in each call."""

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.drawn.append(n)
        return [[self._one(prefix, i) for i in range(first, first + n)] for prefix in prefixes]

    def _one(self, prefix: Trajectory, i: int) -> Completion:
        at = len(prefix.steps)
        last = at == self.depth - 1
        step = Step(f"Step {at}, version {i}." + (" The answer is 1." if last else ""))
        return Completion((step,), "end" if last else "step", i, cost=Cost(generated_tokens=1))


@dataclass
class InTurn:
    """The best score of each round in turn; the others of the round get half of it."""

    scores: Sequence[float]
    name: str = "in-turn"
    rounds: int = 0

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        best = self.scores[self.rounds % len(self.scores)]
        self.rounds += 1
        return [
            Judgement(t.id, (*[1.0] * (len(t.steps) - 1), best if i == 1 else best / 2), self.name)
            for i, t in enumerate(trajectories)
        ]


def follow(method: PATS, scores: Sequence[float], depth: int) -> tuple[list[int], SearchResult]:
    policy = Counts(depth)
    result = Searcher(policy, InTurn(scores), method, params=PARAMS, separator="\n").solve(problems(1))[0]
    return policy.drawn, result


def test_card_check_1_widths_and_steps() -> None:
    widths, result = follow(PATS(), CARD, depth=5)
    assert widths == [8, 4, 2, 2, 8, 8]
    assert result.chosen is not None and len(result.chosen.steps) == 5 and result.answer == "1"
    assert [d.values[0] for d in result.decisions if d.what == "kept"] == [0.9, 0.95, 0.8, 0.35, 0.88]
    assert sum("refused" in d.why for d in result.decisions) == 1
    assert result.cost.generated_tokens == sum(widths), "all candidates are paid for"


def test_card_check_1_as_the_controller_alone() -> None:
    mode, taken = Mode(0), []
    for score in CARD:
        ok, mode = PATS().switched(mode, score)
        taken.append((ok, mode.width))
    assert taken == [(True, 1), (True, 2), (True, 2), (False, 0), (True, 0), (True, 1)]


def test_card_check_2_without_thresholds_it_is_greedy_search_of_fixed_width() -> None:
    method = PATS(v_bad=0, v_low=0, v_good=1.01, initial=1)
    widths, _ = follow(method, CARD, depth=6)
    assert widths == [4] * 6
    writer = ArithmeticPolicy()
    given = ArithmeticWorld().problems(30, split="test")
    ours, greedy = (
        Searcher(writer, ExactValueJudge(writer), m, params=PARAMS, separator="\n").solve(given)
        for m in (method, DVTS(4, 4))
    )
    assert [r.chosen.text for r in ours if r.chosen] == [r.chosen.text for r in greedy if r.chosen]


@given(
    scores=st.lists(st.floats(0, 1), min_size=1, max_size=12),
    penalty=st.integers(0, 3),
    initial=st.integers(0, 2),
)
@settings(max_examples=40, deadline=None)
def test_card_check_3_a_step_costs_between_two_and_eight_candidates_and_its_retries(
    scores: list[float], penalty: int, initial: int
) -> None:
    widths, result = follow(PATS(penalty_times=penalty, initial=initial), scores, depth=4)
    assert result.chosen is not None and len(result.chosen.steps) == 4
    assert all(width in (2, 4, 8) for width in widths)
    assert 4 <= len(widths) <= 4 * (1 + penalty)
    assert 2 * 4 <= result.cost.generated_tokens <= 8 * 4 * (1 + penalty)


def test_card_check_3_locked_modes_are_the_two_ends() -> None:
    assert follow(PATS(initial=2, locked=True), CARD, depth=5)[0] == [2] * 6
    assert follow(PATS(locked=True), CARD, depth=5)[0] == [8] * 6


def test_one_candidate_and_four_penalties_are_stepwiser_s_chunk_reset() -> None:
    """A chunk that the judge calls bad is written anew from the same point, five times in all; the fifth is taken."""
    reset = PATS(widths=(1,), v_good=0.5, v_low=0.5, v_bad=0.5, penalty_times=4, iterations=200)
    scores = (0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    drawn, result = follow(reset, scores, depth=4)
    assert drawn == [1] * 10, "one chunk at a time: a third try, a first one, a fifth one, a first one"
    assert result.chosen is not None
    assert [step.text.partition(".")[0] for step in result.chosen.steps] == [
        "Step 0, version 2", "Step 1, version 0", "Step 2, version 4", "Step 3, version 0",
    ]  # fmt: skip
    assert sum("refused" in d.why for d in result.decisions) == 6, "rejected, and paid for"


def test_without_a_penalty_bad_steps_are_taken_and_with_a_large_one_hardly_ever() -> None:
    assert follow(PATS(penalty_times=0), [0.1], depth=4)[0] == [8] * 4
    widths, result = follow(PATS(penalty_times=100), [0.1], depth=4)
    assert widths == [8] * 35 and result.answer is None and result.failure is not None


def test_a_text_of_the_path_is_not_taken_again_and_repeats_are_not_judged() -> None:
    judge = SeesCoins()
    result = Searcher(Coins(1.0, 3), judge, PATS(iterations=5), params=PARAMS, separator="\n").solve(problems(1))[0]
    assert judge.batches == [1], "eight times the same step, and then never again"
    assert result.chosen is None and sum(d.what == "nothing-new" for d in result.decisions) == 4


def test_the_mode_stands_at_each_step() -> None:
    _, result = follow(PATS(), CARD, depth=5)
    assert result.tree is not None
    assert [result.tree.nodes[i].meta["mode"] for i in (0, 8, 12, 14, 16, 24)] == [0, 1, 2, 2, 0, 0]


def test_a_budget_is_kept_and_a_finished_candidate_is_better_than_none() -> None:
    results = Searcher(Counts(2), InTurn([0.1]), PATS(penalty_times=100), Budget(tokens=40), PARAMS, "\n").solve(
        problems(3)
    )
    assert all(r.stopped == "tokens" and r.cost.generated_tokens <= 41 for r in results)


@pytest.mark.parametrize("wrong", [{"widths": ()}, {"initial": 3}, {"v_low": 0.2}, {"penalty_times": -1}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="pats needs"):
        PATS(**wrong)
