"""Speculative reward model: the worked numbers of the card, and a host search that it only ever prunes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from footfall.policy.protocol import Completion, SamplingParams
from footfall.search import Budget, Method, Searcher
from footfall.search.speculative import Speculative, consistency, normalised, verify
from footfall.types import Judgement, Reason, SearchResult, Trajectory, Unjudged, failures_of
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=5, max_tokens=100)
R, P = (0.9, 0.6, 0.2, 0.1), (0.4, 0.4, 0.15, 0.05)


def solve(
    method: Method, n: int, p: float = 0.5, judge: SeesCoins | None = None, budget: Budget = Budget()
) -> list[SearchResult]:
    return Searcher(Coins(p, 3), judge or SeesCoins(), method, budget, PARAMS, "\n").solve(problems(n))


def accuracy(results: Sequence[SearchResult]) -> float:
    return sum(right(r.chosen) for r in results) / len(results)


def test_card_check_1_the_pairwise_loss_and_the_scores() -> None:
    torch = pytest.importorskip("torch")
    from footfall.train.losses import bradley_terry_loss

    logits, targets = torch.tensor([[[1.2]], [[0.3]]]), torch.tensor([[1.0], [0.0]])
    loss = bradley_terry_loss(logits, targets, torch.ones(2, 1, dtype=torch.bool), centering=0.0)
    assert loss.item() == pytest.approx(0.341154, abs=1e-6)
    assert logits.sigmoid().flatten().tolist() == pytest.approx([0.768525, 0.574443], abs=1e-6)


def test_card_check_2_acceptance_and_order() -> None:
    assert normalised(R) == pytest.approx([0.5, 0.3333, 0.1111, 0.0556], abs=1e-4)
    assert consistency(normalised(R), P)[:2] == pytest.approx([1.25, 0.8333], abs=1e-4)
    found = verify(R, P, tau=0.0)
    assert found.chances == pytest.approx([1, 0.8333, 0.7407, 1], abs=1e-4)
    assert found.consistency[0] == pytest.approx(1.25) and found.consistency[3] == pytest.approx(1.1111, abs=1e-4)
    assert found.accepted == [0, 3, 1, 2], "a1, a4, a2, a3"
    assert verify(R, P).accepted == [0, 3], "exactly those with q >= p"


def test_equal_rewards_are_as_likely_as_equal_chances_to_the_last_digit() -> None:
    for k in range(1, 9):
        assert all(verify([r / 20] * k, [0.3] * k).accepted == list(range(k)) for r in range(1, 20))


class Mute(SeesCoins):
    """Has no word on what is wrong."""

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = super()._judge(trajectory)
        reason = Unjudged(Reason.UNREADABLE, "babble")
        values = [value or None for value in said.values]
        return replace(said, values=tuple(values), failures=failures_of(None if value else reason for value in values))


def test_a_step_that_could_not_be_judged_is_seen_to_be_given_up() -> None:
    for result in solve(Speculative(3, keep=2), 10, judge=Mute()):
        assert result.tree is not None
        assert all(node.pruned for node in result.tree.nodes if "wrong" in node.step.text)


def test_acceptance_happens_as_often_as_it_should() -> None:
    rng = np.random.default_rng(0)
    counts = np.zeros(4)
    for _ in range(4000):
        counts[verify(R, P, rng).accepted] += 1
    assert counts / 4000 == pytest.approx([1, 0.8333, 0.7407, 1], abs=0.03)


def test_if_all_are_rejected_the_one_with_the_highest_reward_stays() -> None:
    assert verify((0.1, 0.3, 0.3), (1, 1, 1), tau=5.0).accepted == [1]
    assert verify((0.0, 0.0), (1, 1)).accepted == [0, 1], "no reward at all prefers nobody"


def test_consistency_is_clipped() -> None:
    assert consistency([0.9, 0.1], [0.001, 0.999], clip=10)[0] == 10
    assert consistency([1.0], [0.0], clip=3) == [3]


@dataclass
class Alike(SeesCoins):
    """Finds every step of a trace as good as the others: q = p where the policy tells no probabilities."""

    def _judge(self, trajectory: Trajectory) -> Judgement:
        return Judgement(trajectory.id, (0.5,) * len(trajectory.steps), self.name)


def test_card_check_3_with_q_equal_to_p_the_host_search_is_unchanged() -> None:
    for drawn in (True, False):
        tested = solve(Speculative(drawn=drawn), 10, judge=Alike())
        host = solve(Speculative(test=False), 10, judge=Alike())
        assert [r.chosen and r.chosen.text for r in tested] == [r.chosen and r.chosen.text for r in host]
        assert [r.cost for r in tested] == [r.cost for r in host]


def test_card_check_3_it_never_writes_more_than_the_host() -> None:
    tested, host = solve(Speculative(), 60), solve(Speculative(test=False), 60)
    pairs = [(a.cost.generated_tokens, b.cost.generated_tokens) for a, b in zip(tested, host, strict=True)]
    assert all(mine <= others for mine, others in pairs) and any(mine < others for mine, others in pairs)
    assert accuracy(tested) >= accuracy(host) - 0.1


def test_rejected_steps_are_never_grown() -> None:
    for result in solve(Speculative(drawn=False), 20):
        assert result.tree is not None
        lost = {i for d in result.decisions if d.what == "pruned" and "rejected" in d.why for i in d.nodes}
        assert not any(node.parent in lost for node in result.tree.nodes)


class Telling(Coins):
    """Gives a wrong step three times the probability of a right one."""

    def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
        found = super()._one(prefix, params, index)
        likely = {"right": math.log(0.2), "wrong": math.log(0.6)}
        steps = [replace(s, token_ids=(1, 2), logprobs=(likely[s.text.split(".")[0]],) * 2) for s in found.steps]
        return replace(found, steps=tuple(steps), tokenizer="t")


def test_the_policys_probabilities_are_read_from_its_logprobs() -> None:
    method = Speculative(width=6, drawn=False)
    result = Searcher(Telling(0.5, 1), Alike(), method, params=PARAMS, separator="\n").solve(problems(1))[0]
    kept = next(d for d in result.decisions if "accepted" in d.why)
    assert result.tree is not None and kept.nodes
    assert all("right" in result.tree.nodes[i].step.text for i in kept.nodes), "liked alike, so the rarer ones pass"
    share = len(kept.nodes)
    p = 0.2 / (0.2 * share + 0.6 * (6 - share))
    assert kept.values[0] == pytest.approx(1 / 6 / p)


def test_a_budget_ends_it() -> None:
    results = solve(Speculative(), 5, budget=Budget(tokens=150))
    assert all(r.cost.generated_tokens <= 160 for r in results)


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"width": 0}, {"keep": 0}, {"tau": -1.0}, {"clip": 0.0}, {"iterations": 0}):
        with pytest.raises(ValueError, match="speculative search needs"):
            Speculative(**wrong)
