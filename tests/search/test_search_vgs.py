"""Value-guided search: the worked numbers of the card, blocks of scripted steps, and blocks that cut a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, Budget, Method, Searcher
from footfall.search.vgs import ValueGuided, survivors
from footfall.types import Cost, Judgement, SearchResult, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=3, max_tokens=1000)


def solve(method: Method, n: int, p: float = 0.5, depth: int = 4, budget: Budget = Budget()) -> list[SearchResult]:
    return Searcher(Coins(p, depth), SeesCoins(), method, budget, PARAMS, "\n").solve(problems(n))


def accuracy(results: Sequence[SearchResult]) -> float:
    return sum(right(r.chosen) for r in results) / len(results)


def test_card_check_1_values_and_loss_of_a_right_rollout() -> None:
    torch = pytest.importorskip("torch")
    from footfall.train.losses import token_value_loss, token_values

    logits = torch.tensor([[0.0, 1, -1], [0, 2, -1], [1, 0, 0]])
    assert token_values(logits).tolist() == pytest.approx([0.6652, 0.8438, 0.2119], abs=1e-4)
    loss = token_value_loss(logits[None], torch.tensor([1]), torch.ones(1, 3, dtype=torch.bool))
    assert loss.item() == pytest.approx(0.709632, abs=1e-6)


def test_card_check_2_both_survivors_may_have_one_parent() -> None:
    assert survivors([[0.2, 0.7], [0.8, 0.75]], 2) == [2, 3]


def test_card_check_3_one_block_a_solution_is_best_of_n_and_the_vote_sees_the_best_half() -> None:
    searched = solve(ValueGuided(8, 2, block=1000, length=1000, rule="best"), 40, p=0.7)
    sampled = solve(BestOf(8, "best", "last"), 40, p=0.7)
    assert [r.chosen and r.chosen.text for r in searched] == [r.chosen and r.chosen.text for r in sampled]
    for few, all_ in zip(searched, sampled, strict=True):
        best = sorted((s for s in all_.scores if s is not None), reverse=True)[:4]
        assert sorted((s for s in few.scores if s is not None), reverse=True) == best


def test_card_check_3_rollin_tokens_carry_no_gradient() -> None:
    torch = pytest.importorskip("torch")
    from footfall.train.losses import token_value_loss

    logits = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    mask = torch.tensor([[False, False, True, True, True], [False] * 5])
    [grad] = torch.autograd.grad(token_value_loss(logits, torch.tensor([1, 0]), mask), logits)
    assert grad[~mask].abs().max() == 0 and grad[mask].abs().min() > 0


def test_the_label_of_a_rollout_is_how_it_ended() -> None:
    pytest.importorskip("torch")
    from footfall.train.losses import Ending, ending_of

    trace = Trajectory("t", problems(1)[0], (Step("a"),))
    assert ending_of(trace) is Ending.INCOMPLETE
    cases = ((True, Ending.CORRECT), (False, Ending.INCORRECT))
    for correct, ending in cases:
        given = Trajectory("t", problems(1)[0], (Step("a"),), answer="1", correct=correct)
        assert ending_of(given) is ending


def test_the_objective_labels_every_place_of_a_rollout_with_its_ending_and_weighs_rollouts_alike() -> None:
    torch = pytest.importorskip("torch")
    from footfall.train.losses import token_value_loss
    from footfall.train.objectives import make_objective

    objective = make_objective("token-value", {})
    assert (objective.classes, objective.good) == (("incorrect", "correct", "incomplete"), ("correct",))
    assert [objective.target(label) for label in (0.0, 1.0, 0.5)] == [0, 1, 2]
    with pytest.raises(ValueError, match="says no ending"):
        objective.target(0.3)
    logits = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[True] * 4, [False, False, True, True], [False, True, False, False]])
    targets = torch.tensor([[1.0] * 4, [0.0] * 4, [2.0] * 4])
    given = objective.loss(logits, targets, mask)
    assert given.item() == pytest.approx(token_value_loss(logits, torch.tensor([1, 0, 2]), mask).item())
    assert objective.items(mask).item() == 3


def test_guided_decoding_with_models_is_greedy_where_the_writer_is_sure_enough() -> None:
    pytest.importorskip("torch")
    from footfall.policy.embedded import EMBEDDED, embedded
    from footfall.policy.protocol import draw_traces
    from footfall.reward.prm import PRM
    from footfall.search.vgs import guided_solution

    policy, prm = embedded(), PRM.from_backbone(EMBEDDED, seed=1)
    world = ArithmeticWorld(min_ops=1, max_ops=1)
    top = world.prefix(world.problems(1)[0])
    ((greedy,),) = draw_traces(policy, [top], 1, SamplingParams(temperature=0.0, max_tokens=60))
    alone = guided_solution(policy, prm, top, threshold=0.0, max_tokens=60)
    assert (alone.text.strip(), alone.answer, alone.correct) == (greedy.text.strip(), greedy.answer, greedy.correct)
    assert guided_solution(policy, prm, top, threshold=1.0, m=1, max_tokens=60).text == alone.text
    guided = guided_solution(policy, prm, top, threshold=0.9, max_tokens=60)
    assert guided.text != alone.text, "an untrained head chooses other words where the writer is unsure of them"


@pytest.mark.long
def test_blocks_of_one_step_prune_early_what_whole_solutions_cannot() -> None:
    blocks, whole = ValueGuided(4, 4, block=10, length=40), ValueGuided(4, 4, block=40, length=40)
    each = 1 - 0.5**4
    assert accuracy(solve(blocks, 300)) == pytest.approx(each**4, abs=0.1)
    assert accuracy(solve(whole, 300)) == pytest.approx(1 - (1 - 0.5**4) ** 4, abs=0.1)


def test_blocks_hold_as_many_whole_steps_as_fit() -> None:
    result = solve(ValueGuided(4, 2, block=25, length=100), 1)[0]
    assert result.tree is not None
    cut = [d for d in result.decisions if d.what == "expanded"]
    assert len(cut) == 4, "two rounds of two beams, each round two steps of ten tokens"
    assert all(len(t.steps) == 4 and t.answer is not None for t, _ in result.candidates)


def test_it_writes_as_many_tokens_as_best_of_n() -> None:
    spent = [r.cost.generated_tokens for r in solve(ValueGuided(8, 2, block=20, length=40), 5)]
    assert spent == [r.cost.generated_tokens for r in solve(BestOf(8, "best"), 5)] == [320] * 5


def test_a_full_block_is_no_end_but_the_length_is() -> None:
    result = solve(ValueGuided(4, 2, block=10, length=20), 1)[0]
    assert result.tree is not None and result.answer is None
    assert [t.meta["finish"] for t, _ in result.candidates] == ["length", "length"]
    inner = {n.parent for n in result.tree.nodes}
    assert not any(result.tree.nodes[i].terminal for i in inner if i >= 0)


@dataclass
class Uneven(Coins):
    """Solutions of two steps if the first is right, of four else."""

    def _one(self, prefix: Trajectory, params: SamplingParams, index: int):  # type: ignore[no-untyped-def]
        self.depth = 2 if prefix.steps and "right" in prefix.steps[0].text else 4
        return super()._one(prefix, params, index)


def test_finished_beams_keep_their_slots() -> None:
    method = ValueGuided(8, 2, block=10, length=40)
    results = Searcher(Uneven(0.5), SeesCoins(), method, params=PARAMS, separator="\n").solve(problems(20))
    assert all(len(r.candidates) == 4 for r in results)
    assert {len(t.steps) for r in results for t, _ in r.candidates} == {2, 4}


def test_independent_searches_pool_their_beams() -> None:
    result = solve(ValueGuided(4, 2, block=10, length=40, searches=3), 1)[0]
    assert len(result.candidates) == 6 and result.cost.generated_tokens == 3 * 4 * 40


def test_when_the_budget_is_spent_finished_and_open_beams_are_what_there_is() -> None:
    results = solve(ValueGuided(4, 2, block=10, length=40), 5, budget=Budget(tokens=100))
    assert all(r.stopped == "tokens" and r.candidates and r.cost.generated_tokens <= 110 for r in results)


def test_on_a_world_blocks_guided_by_exact_values_beat_a_vote() -> None:
    policy, world = ArithmeticPolicy(), ArithmeticWorld()
    given, judge = world.problems(40, seed=1), ExactValueJudge(policy)
    vgs = Searcher(policy, judge, ValueGuided(8, 2, block=30, length=240), params=PARAMS, separator="\n").solve(given)
    vote = Searcher(policy, None, BestOf(8, "majority"), params=PARAMS, separator="\n").solve(given)
    assert accuracy(vgs) > accuracy(vote)


def test_settings_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of width, not 6 and 4"):
        ValueGuided(6, 4)
    with pytest.raises(ValueError, match="multiple of block, not 100 and 30"):
        ValueGuided(block=30, length=100)
    with pytest.raises(ValueError, match="at least one search"):
        ValueGuided(searches=0)


@dataclass
class ByLength:
    """Likes what holds many digits; sees every fragment."""

    name: str = "by-length"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(t) for t in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        values = tuple(1 - math.exp(-sum(c.isdigit() for c in step.text)) for step in trajectory.steps)
        return Judgement(trajectory.id, values, self.name, cost=Cost(calls=1))


def test_a_model_goes_on_in_the_middle_of_a_line() -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from footfall.policy.embedded import embedded
    from footfall.policy.torch_policy import AnyCut

    policy = embedded()
    method = ValueGuided(4, 2, block=7, length=140)
    searcher = Searcher(AnyCut(policy), ByLength(), method, params=SamplingParams(seed=1), separator="")
    result = searcher.solve(ArithmeticWorld().problems(1, split="test"))[0]
    assert result.answer is not None and result.chosen is not None
    blocks = result.chosen.steps
    assert all(len(block.token_ids or ()) == 7 for block in blocks[:-1])
    assert any(not block.text.endswith("\n") for block in blocks[:-1]), "some block is cut inside a line"
    ids = [i for block in blocks for i in block.token_ids or ()]
    assert str(policy.tokenizer.decode(ids)).strip() == result.chosen.text.strip()
