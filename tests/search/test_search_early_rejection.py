"""Early rejection: the worked numbers of the card, fragments judged as such, steps finished as they were begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch

from footfall.judging import Traits
from footfall.policy.embedded import embedded
from footfall.policy.protocol import Completion, SamplingParams
from footfall.policy.resuming import InWords, is_unfinished, unfinished
from footfall.search import BeamSearch, Budget, Method, Searcher
from footfall.search.early_rejection import (
    EarlyRejection,
    agreement,
    expected_correlation,
    fragment_needed,
    rejection_bound,
    tokens_a_step,
)
from footfall.simulate import Blurred
from footfall.types import Cost, Judgement, SearchResult, Step, Trajectory
from footfall.worlds import AlgebraPolicy, AlgebraWorld, ArithmeticPolicy, ArithmeticWorld
from footfall.worlds.judges import ExactFragmentJudge
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=1, max_tokens=100)


@dataclass
class LongCoins(Coins):
    """Each step is a coin, then padding up to ten words; the last one states the answer. Scripted: it has a value."""

    def value(self, prefix: Trajectory) -> float:
        return self.p ** (self.depth - len(prefix.steps))

    def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
        done = super()._one(prefix, params, index)
        padded = tuple(Step(_padded(step.text, self.tokens - 1)) for step in done.steps)
        return replace(done, steps=padded)


def _padded(text: str, words: int) -> str:
    first, *rest = text.split(" ")
    return " ".join([first, *["so"] * (words - 1 - len(rest)), *rest])


@dataclass
class ReadsParts(SeesCoins):
    """Knows which traces it read as fragments."""

    parts: tuple[str, ...] = ()

    @property
    def traits(self) -> Traits:
        return Traits(judge_partial=self.judge_partial)

    def judge_partial(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.parts += tuple(t.steps[-1].text for t in trajectories)
        return self.judge(trajectories)


def solve(method: Method, n: int, judge: SeesCoins | None = None, budget: Budget | None = None) -> list[SearchResult]:
    policy = LongCoins(depth=4)
    return Searcher(policy, judge or ReadsParts(), method, budget or Budget(), PARAMS, "\n").solve(problems(n))


def test_card_check_1_with_tokens_for_a_whole_step_it_is_beam_search() -> None:
    vanilla, early = solve(BeamSearch(8, 4), 30), solve(EarlyRejection(8, 4, tokens=10), 30)
    assert [r.tree and r.tree.nodes for r in early] == [r.tree and r.tree.nodes for r in vanilla]
    assert [(r.chosen, r.scores, r.cost) for r in early] == [(r.chosen, r.scores, r.cost) for r in vanilla]


def test_card_check_2_tokens_of_an_iteration() -> None:
    assert tokens_a_step(16, 4, 200, 200) == 3200 and tokens_a_step(16, 4, 200, 64) == 1568
    assert tokens_a_step(16, 4, 200, 200) / tokens_a_step(16, 4, 200, 64) == pytest.approx(2.041, abs=1e-3)
    assert tokens_a_step(16, 4, 10**6, 1) / tokens_a_step(16, 4, 10**6, 10**6) == pytest.approx(1 / 4, abs=1e-4)


def test_card_check_3_what_a_fragment_tells() -> None:
    assert expected_correlation(64, 100) == pytest.approx(0.8) and expected_correlation(9, 4) == 1
    assert fragment_needed(0.8, 100) == 64
    assert rejection_bound(16, 0.5, 0.1) == pytest.approx(0.028957, abs=1e-6)
    assert rejection_bound(16, 0.2, 0.1) == 1, "5.52 before it is clipped"


def test_a_search_writes_as_many_tokens_as_the_formula_says() -> None:
    result = solve(EarlyRejection(8, 4, tokens=3), 1)[0]
    assert result.policy_cost.generated_tokens == 4 * tokens_a_step(8, 4, 10, 3) == 4 * (8 * 3 + 2 * 7)
    assert result.tree is not None and sum((node.cost for node in result.tree.nodes), Cost()) == result.cost


@pytest.mark.long
def test_where_the_fragment_tells_all_the_answers_are_those_of_beam_search() -> None:
    vanilla, early = solve(BeamSearch(8, 4), 200), solve(EarlyRejection(8, 4, tokens=2), 200)
    share = sum(right(r.chosen) for r in early) / 200
    assert share == pytest.approx(sum(right(r.chosen) for r in vanilla) / 200, abs=0.06)
    spent = [sum(r.policy_cost.generated_tokens for r in results) for results in (early, vanilla)]
    assert spent[0] < 0.5 * spent[1]


def test_fragments_are_judged_as_fragments_and_only_survivors_are_finished() -> None:
    judge = ReadsParts()
    result = solve(EarlyRejection(4, 2, tokens=3), 1, judge)[0]
    assert judge.parts and all(len(part.split()) == 3 for part in judge.parts)
    assert result.tree is not None
    lengths = {node.pruned: len(node.step.text.split()) for node in result.tree.nodes}
    assert lengths == {True: 3, False: 9}
    assert result.chosen is not None and result.chosen.answer in ("0", "1"), "stated in the part that was finished"


def test_rescored_solutions_are_judged_as_a_whole() -> None:
    judge = ReadsParts()
    result = solve(EarlyRejection(4, 2, tokens=3, rescore=True), 1, judge)[0]
    assert judge.texts[-1] == result.candidates[-1].trajectory.text


def test_a_budget_leaves_the_solutions_that_ended() -> None:
    for result in solve(EarlyRejection(8, 4, tokens=3), 20, budget=Budget(tokens=90)):
        assert result.stopped == "tokens" and result.policy_cost.generated_tokens <= 90 + 10


def test_a_solution_that_the_budget_brought_to_its_end_goes_before_a_fragment_that_was_judged() -> None:
    writer, method = ArithmeticPolicy(), EarlyRejection(4, 2, tokens=3, rest=16)
    params = SamplingParams(seed=1, max_tokens=60)
    searcher = Searcher(writer, Blurred(writer, 1.0), method, Budget(tokens=150), params, "\n")
    results = searcher.solve(ArithmeticWorld().problems(20, split="test"))
    stated = [any(trace.answer is not None for trace, _ in result.candidates) for result in results]
    assert [result.answer is not None for result in results] == stated and sum(stated) > 15


def test_the_last_iteration_writes_to_the_end() -> None:
    for result in solve(EarlyRejection(4, 2, tokens=3, iterations=2), 10):
        assert result.candidates and all(len(t.steps) == 4 for t, _ in result.candidates)


def test_a_policy_that_cannot_go_on_in_a_step_fails_its_problem_with_the_reason() -> None:
    @dataclass
    class Cuts(Coins):
        def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
            done = super()._one(prefix, params, index)
            return replace(done, finish="length") if params.max_tokens < 10 else done

    searcher = Searcher(Cuts(), SeesCoins(), EarlyRejection(4, 2, tokens=3), params=PARAMS, separator="\n")
    assert "cannot go on in the middle of a step" in str(searcher.solve(problems(1))[0].failure)


def test_a_scripted_policy_goes_on_as_it_would_have() -> None:
    world = ArithmeticWorld()
    policy, problem = InWords(ArithmeticPolicy()), world.problems(1, 0)[0]
    params = SamplingParams(seed=5, max_tokens=3, until="step")
    prefix = world.prefix(problem)
    wholes = policy.policy.sample([prefix], 8, replace(params, max_tokens=64))[0]
    for whole, part in zip(wholes, policy.sample([prefix], 8, params)[0], strict=True):
        assert whole.steps[0].text.startswith(part.steps[0].text + " ") and part.finish == "length"
        begun = unfinished(part.after(prefix, "me"))
        assert is_unfinished(begun)
        done = policy.resume([begun], 8, replace(params, max_tokens=64))[0]
        assert whole.steps in [d.steps for d in done] and [d.index for d in done] == list(range(8))
        assert all(d.cost.generated_tokens + 3 == d.steps[0].text.count(" ") + 2 for d in done)
        assert policy.resume([begun], 2, replace(params, max_tokens=64), first=3)[0] == done[3:5]


@pytest.mark.parametrize("tokens", [1, 4, 9])
def test_a_model_goes_on_from_the_very_tokens_of_the_fragment(tokens: int) -> None:
    """Greedy: cut and finished is the same as written in one go, and no step end comes in between."""
    torch.set_num_threads(1)
    policy, world = embedded(), ArithmeticWorld()
    prefixes = [world.prefix(problem) for problem in world.problems(4, 0, split="test")]
    greedy = SamplingParams(temperature=0, max_tokens=64, until="step")
    wholes = policy.sample(prefixes, 1, greedy)
    parts = policy.sample(prefixes, 1, replace(greedy, max_tokens=tokens))
    begun = [unfinished(row[0].after(prefix, "me")) for row, prefix in zip(parts, prefixes, strict=True)]
    for [whole], [part], [done] in zip(wholes, parts, policy.resume(begun, 1, greedy), strict=True):
        assert part.finish == "length"
        assert [s.text for s in done.steps] == [s.text for s in whole.steps] and done.finish == whole.finish
        assert done.steps[0].token_ids == whole.steps[0].token_ids
        assert part.cost.generated_tokens + done.cost.generated_tokens == whole.cost.generated_tokens


def test_a_model_refuses_a_fragment_of_other_tokens() -> None:
    world = ArithmeticWorld()
    foreign = unfinished(world.prefix(world.problems(1, 0)[0]).extend([Step("So")]))
    with pytest.raises(ValueError, match="no unfinished step of this model's own tokens"):
        embedded().resume([foreign])


def test_the_value_of_a_fragment_is_the_mean_over_the_steps_that_begin_with_it() -> None:
    world, policy = AlgebraWorld(), AlgebraPolicy()
    problem = world.problems(1, 0)[0]
    judge, prefix = ExactFragmentJudge(policy), world.prefix(problem)
    params = SamplingParams(seed=5, max_tokens=2, until="step")
    drawn = policy.sample([prefix], 400, replace(params, max_tokens=64))[0]
    part = InWords(policy).sample([prefix], 1, params)[0][0]
    same = [c.after(prefix, "me") for c in drawn if c.steps[0].text.startswith(part.steps[0].text + " ")]
    values = [float(said.values[-1] or 0) for said in judge.judge(same)]
    [said] = judge.judge_partial([part.after(prefix, "me")])
    assert said.values[-1] == pytest.approx(sum(values) / len(values), abs=0.1)


def test_correlations_by_hand() -> None:
    assert agreement([1, 2, 3], [2, 4, 6]) == pytest.approx((1, 1))
    assert agreement([1, 2, 3, 4], [1, 2, 4, 3])[1] == pytest.approx(4 / 6)
    assert agreement([1, 1], [1, 2]) == (0, 0)
    with pytest.raises(ValueError, match="two pairs"):
        agreement([1], [1])


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"n": 2, "expansions": 4}, {"tokens": 0}, {"rest": 0}, {"iterations": 0}):
        with pytest.raises(ValueError, match="early rejection needs"):
            EarlyRejection(**wrong)  # type: ignore[arg-type]
