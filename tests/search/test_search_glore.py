"""GLoRe: when a draft is refined, where a local refinement begins, and who chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import Searcher
from footfall.search.glore import GlobalLocal, shares
from footfall.types import Judgement, SearchResult, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, OpRates, TruthJudge

WRITER = ArithmeticPolicy(OpRates(0.5, 0.5, 0.5, 0.5))
PROBLEMS = ArithmeticWorld().problems(12)
PARAMS = SamplingParams(max_tokens=200)


@dataclass
class Outcomes:
    """An ORM that knows: the last value of a solution is whether its answer is right."""

    name: str = "orm"
    asked: list[str] = field(default_factory=list)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.asked += [t.key for t in trajectories]
        return [
            Judgement(t.id, (0.9,) * (len(t.steps) - 1) + (float(bool(t.correct)),), self.name) for t in trajectories
        ]


def solve(method: GlobalLocal) -> list[SearchResult]:
    judges = {"sorm": TruthJudge()}
    return Searcher(WRITER, Outcomes(), method, judges=judges, params=PARAMS, separator="\n").solve(PROBLEMS)


def test_a_draft_that_the_orm_believes_is_kept_and_a_doubted_one_is_refined() -> None:
    for result in solve(GlobalLocal(greedy=False, locator="sorm")):
        draft, *refined = [trace for trace, _ in result.candidates]
        assert len(refined) == (0 if draft.correct else 2)
        assert result.chosen is not None and bool(result.chosen.correct) == any(t.correct for t in (draft, *refined))


def test_a_local_refinement_keeps_the_steps_before_the_first_error() -> None:
    found = [r for r in solve(GlobalLocal(n=2, where="local", greedy=False, locator="sorm")) if len(r.candidates) == 2]
    assert found
    for result in found:
        draft, refined = [trace for trace, _ in result.candidates]
        error = ArithmeticWorld().first_error(draft)
        assert [s.text for s in refined.steps[:error]] == [s.text for s in draft.steps[:error]]
        assert any(decision.what == "located" for decision in result.decisions)


def test_refinements_are_shared_out_and_nonsense_is_refused() -> None:
    assert [shares(2, where) for where in ("both", "global", "local")] == [(1, 1), (2, 0), (0, 2)]
    assert shares(3, "both") == (1, 2)
    assert all(len(r.candidates) == 1 for r in solve(GlobalLocal(n=1, greedy=False)))
    with pytest.raises(ValueError, match="glore needs n >= 1"):
        GlobalLocal(n=0)
