"""Refined best-of-N: the worked numbers of the card, and corrections that come as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from footfall.policy.protocol import Completion, SamplingParams, sample_seed
from footfall.search import BestOf, Budget, Method, Searcher
from footfall.search.refined_bon import MARK, RefinedBestOf, correction_of, critique_score, question
from footfall.types import Cost, Judgement, SearchResult, Step, Trajectory
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=6, max_tokens=100)


@dataclass
class Critic:
    """Replies with the step that it was told to, and remembers what it was asked."""

    step: str = "right"
    reply: str = f"The step is wrong.\n{MARK} {{step}}"
    name: str = "critic"
    asked: list[str] = field(default_factory=list)

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.asked += [prefix.problem.text for prefix in prefixes for _ in range(n)]
        text = self.reply.format(step=self.step)
        cost = Cost(generated_tokens=7, calls=1)
        return [[Completion((Step(text),), "end", first + i, cost=cost) for i in range(n)] for _ in prefixes]


def solve(method: Method, n: int, critic: Critic, p: float = 0.5, budget: Budget = Budget()) -> list[SearchResult]:
    helpers = {"critic": critic}
    searcher = Searcher(Coins(p, 3), SeesCoins(), method, budget, PARAMS, "\n", helpers)
    return searcher.solve(problems(n))


def test_card_check_1_the_pool_always_has_n_and_refined_ones_share_what_was_right() -> None:
    seen = set()
    for result in solve(RefinedBestOf(8), 60, Critic("right (corrected)")):
        assert result.tree is not None and len(result.candidates) == 8
        originals = [t for t, _ in result.candidates[:4]]
        errors = [i for t in originals for i in [SeesCoins()._judge(t).first_below(0.5)] if i is not None and i >= 0]
        made = [d for d in result.decisions if d.what == "corrected"]
        seen.add(len(made))
        assert len(made) == len(errors)
        for decision, error in zip(made, errors, strict=True):
            wrong, new = decision.nodes
            assert result.tree.nodes[wrong].parent == result.tree.nodes[new].parent
            assert len(result.tree.path(new)) == error + 1
            assert result.tree.nodes[new].step.text == "right (corrected)"
    assert {3, 4} <= seen, "with three located errors the pool is 4 originals, 3 refined and a fresh one"


def test_card_check_2_the_score_is_a_mean_with_nothing_after_the_error() -> None:
    assert critique_score((0.9, 0.8, 0.3, 0.7)) == pytest.approx(0.5)
    assert critique_score((0.9, 0.8)) == pytest.approx(0.85)
    assert critique_score((1.0, 0.0, None, None)) == 0.25, "a judge that stops at the first error, or fails after it"
    assert critique_score((0.0, None, None)) == 0.0
    assert critique_score((0.9, None)) == critique_score(()) == 0.5, "what could not be judged is neutral"


@dataclass
class Tries:
    """A first step, then an answer: right with chance .2, and with .6 after the critic's first step."""

    name: str = "tries"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._one(prefix, params, index) for index in range(first, first + n)] for prefix in prefixes]

    def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
        chance = 0.6 if prefix.steps else 0.2
        answer = Step(f"The answer is {int(Random(sample_seed(params, prefix, index)).random() < chance)}.")
        steps = (answer,) if prefix.steps else (Step("a guess"), answer)
        return Completion(steps, "end", index, cost=Cost(generated_tokens=len(steps), calls=1))


@dataclass
class BlamesTheFirst:
    """Of a wrong solution the first step is wrong."""

    name: str = "blames-the-first"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (float(bool(t.correct)),) * len(t.steps), self.name) for t in trajectories]


@pytest.mark.long
def test_card_check_3_with_a_correction_that_makes_it_solvable() -> None:
    def share(method: Method) -> float:
        searcher = Searcher(Tries(), BlamesTheFirst(), method, params=PARAMS, separator="\n",
                            helpers={"critic": Critic("an insight")})  # fmt: skip
        return sum(right(r.chosen) for r in searcher.solve(problems(400))) / 400

    assert share(RefinedBestOf(8)) == pytest.approx(0.989514, abs=4 * 0.0051)
    assert share(BestOf(8, "best")) == pytest.approx(0.832228, abs=4 * 0.0187)


def test_the_critic_sees_the_problem_the_steps_before_and_the_wrong_step() -> None:
    trace = Trajectory("t", problems(1)[0], (Step("first"), Step("second"), Step("third")), separator="\n")
    asked = question(trace, 1, "it does not follow").problem.text
    assert "Toss coin 0." in asked and "which are right]\nfirst\n" in asked
    assert "[Wrong step]\nsecond\n" in asked and asked.endswith("it does not follow") and "third" not in asked
    assert "which are right]\n(nothing)\n" in question(trace, 0, None).problem.text


@pytest.mark.parametrize(
    ("reply", "step"),
    [
        (f"No.\n{MARK} 2 + 2 = 4", "2 + 2 = 4"),
        (f"{MARK} a\n{MARK} b\nand more", "b"),
        (f"{MARK}     return found  ", "    return found"),
        (f"{MARK}\n  x = 1\ny = 2", "  x = 1"),
        ("I cannot help.", None),
        (f"{MARK}   ", None),
    ],
)
def test_a_correction_is_what_stands_after_the_last_mark(reply: str, step: str | None) -> None:
    assert correction_of(Completion((Step(reply),), "end"), "\n") == step


def test_a_failed_reply_is_no_correction() -> None:
    assert correction_of(Completion((Step(f"{MARK} x"),), "error", error="down"), "\n") is None


def test_a_step_in_which_the_reply_was_cut_is_no_correction() -> None:
    assert correction_of(Completion((Step(f"{MARK} 2 + 2 = 1"),), "length"), "\n") is None
    assert correction_of(Completion((Step(f"{MARK} 2 + 2 = 4\nand"),), "length"), "\n") == "2 + 2 = 4"


def test_a_reply_that_cannot_be_read_gives_a_fresh_sample_instead() -> None:
    for result in solve(RefinedBestOf(8), 10, Critic(reply="Hm.")):
        assert len(result.candidates) == 8
        assert not any(d.what == "corrected" for d in result.decisions)
        assert len({t.id for t, _ in result.candidates}) == 8


def test_a_correction_that_states_the_answer_is_not_gone_on_from() -> None:
    for result in solve(RefinedBestOf(4), 20, Critic("right. The answer is 1."), p=0.3):
        stated = [t for t, _ in result.candidates if any(s.text == "right. The answer is 1." for s in t.steps[:-1])]
        assert not stated and len(result.candidates) == 4


def test_each_solution_is_corrected_once_and_the_critics_tokens_count() -> None:
    critic = Critic()
    results = solve(RefinedBestOf(8), 10, critic)
    corrected = sum(d.what == "corrected" for r in results for d in r.decisions)
    assert len(critic.asked) == corrected <= 40
    first = next(r for r in results if any(d.what == "corrected" for d in r.decisions))
    made = sum(d.what == "corrected" for d in first.decisions)
    written = sum(n.cost.generated_tokens for n in first.tree.nodes) if first.tree else 0
    assert first.policy_cost.generated_tokens == written >= 7 * made + 4 * 30


def test_a_budget_leaves_the_solutions_so_far() -> None:
    results = solve(RefinedBestOf(8), 10, Critic(), budget=Budget(tokens=130))
    assert all(r.stopped == "tokens" and r.candidates for r in results)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="even n, not 7"):
        RefinedBestOf(7)
    with pytest.raises(ValueError, match="a threshold in"):
        RefinedBestOf(threshold=0.0)
