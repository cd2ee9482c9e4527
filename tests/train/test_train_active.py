"""Active learning: the card's worked numbers, the selectors, and a loop that goes on where it was killed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from footfall.store import RunError
from footfall.train import TrainConfig
from footfall.train.active import (
    AtRandom,
    MostUncertain,
    Uncertain,
    doubt,
    flags,
    train_actively,
    train_once_more,
    until_first_error,
)
from footfall.types import Judgement, Reason, Trajectory, Unjudged
from tests.reward.tiny_models import backbone_folder, trace

torch.set_num_threads(1)
A = (0.990, 0.974, 0.305), (0.00163, 0.00316, 0.02082)
B = (0.990, 0.974, 0.0203, 0.5875), (0.00163, 0.00316, 0.00171, 0.08539)
C = (0.990, 0.975), (0.00163, 0.01291)


def test_flags_of_the_cards_three_trajectories() -> None:
    assert flags(*A) == (True, True)
    assert flags(*B) == (False, False), "the step after the first predicted error does not count"
    assert flags(*C) == (False, True)


def test_thresholds_that_keep_nothing_and_everything() -> None:
    for means, spreads in (A, B, C):
        assert not any(flags(means, spreads, confidence=0.5, spread=math.inf))
        assert any(flags(means, spreads, spread=-1.0))


def test_doubt_is_the_least_confidence_and_the_largest_spread_before_the_first_error() -> None:
    assert doubt(*B) == pytest.approx((0.974, 0.00316))
    assert doubt(*A) == pytest.approx((0.695, 0.02082))
    with pytest.raises(ValueError, match="one of each a step"):
        doubt((0.5,), ())


def said(means: Sequence[float | None], spreads: Sequence[float | None]) -> Judgement:
    return Judgement("t", tuple(means), "ensemble", aspects={"spread": tuple(spreads)})


def some(n: int) -> list[Trajectory]:
    return [trace(f"step {i}", id=f"t{i}", prompt=f"q{i}") for i in range(n)]


def test_the_papers_rule_keeps_what_is_flagged_and_what_could_not_be_read() -> None:
    judgements = [said(*A), said(*B), said(*C), said((0.99, None), (0.001, None))]
    assert Uncertain().keep(some(4), judgements) == [True, False, True, True]
    assert Uncertain().keep(some(2), None) == [True, True]
    with pytest.raises(ValueError, match="tells no spread"):
        Uncertain().keep(some(1), [Judgement("t", (0.5,), "plain")])


def test_a_share_is_kept_by_either_kind_of_doubt() -> None:
    judgements = [said((c,), (s,)) for c, s in ((0.99, 0.001), (0.6, 0.002), (0.97, 0.09), (0.9, 0.003))]
    assert MostUncertain(0.5).keep(some(4), judgements) == [False, True, True, False]
    assert sum(MostUncertain(0.25).keep(some(4), judgements)) == 1


def test_a_random_share_is_drawn_by_content_and_seed() -> None:
    judgements = [said(*A)] * 40
    kept = AtRandom(0.5, seed=1).keep(some(40), judgements)
    assert sum(kept) == 20 and kept == AtRandom(0.5, seed=1).keep(some(40), judgements)
    assert kept != AtRandom(0.5, seed=2).keep(some(40), judgements)
    assert all(AtRandom().keep(some(40), judgements))


def test_labels_end_at_the_first_error_or_where_nobody_can_say() -> None:
    assert until_first_error(Judgement("t", (1.0, 0.6, 0.0, 1.0), "j")).values == (1.0, 1.0, 0.0, None)
    assert until_first_error(Judgement("t", (1.0, 1.0), "j")).values == (1.0, 1.0)
    ended = until_first_error(
        Judgement("t", (1.0, None, 0.0), "j", failures=(None, Unjudged(Reason.FAILED_CALL, "timed out"), None))
    )
    assert ended.values == (1.0, None, None)
    assert ended.failures == (None, "timed out", "timed out")


class Teacher:
    """Calls steps with the word wrong wrong; counts what it was asked, and may fail."""

    name = "teacher"

    def __init__(self, dies_after: int | None = None) -> None:
        self.asked = 0
        self.dies_after = dies_after

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        if self.dies_after is not None and self.asked + len(trajectories) > self.dies_after:
            raise KeyboardInterrupt
        self.asked += len(trajectories)
        return [Judgement(t.id, tuple(float("wrong" not in s.text) for s in t.steps), self.name) for t in trajectories]


def pool(n: int = 32) -> list[Trajectory]:
    return [trace("fine", "wrong" if i % 2 else "fine", id=f"t{i}", prompt=f"q{i}") for i in range(n)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return backbone_folder(tmp_path_factory.mktemp("base"))


CONFIG = TrainConfig(heads=3, lr=3e-3, epochs=1, eval_share=0, device="cpu", batch_size=8)


@pytest.mark.long
def test_the_loop_labels_the_first_round_whole_and_then_what_is_kept(base: Path, tmp_path: Path) -> None:
    teacher = Teacher()
    result = train_actively(pool(), base, teacher, CONFIG, tmp_path, select=MostUncertain(0.25), rounds=4, chunk=8)
    assert [(r.seen, r.labelled) for r in result.rounds] == [(8, 8), (8, 2), (8, 2), (8, 2)]
    assert (result.seen, result.labelled, teacher.asked) == (32, 14, 14)
    assert result.cost.scored_tokens > 0
    more = train_once_more(pool(), result.folder, Teacher(), CONFIG, tmp_path / "more", select=Uncertain(spread=-1.0))
    assert more.labelled == 32 and more.folder != result.folder


@pytest.mark.long
def test_a_killed_loop_goes_on_at_its_round_and_ends_with_the_same_model(base: Path, tmp_path: Path) -> None:
    given = {"select": MostUncertain(0.5), "rounds": 4, "chunk": 4}
    whole = train_actively(pool(), base, Teacher(), CONFIG, tmp_path / "whole", **given)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        train_actively(pool(), base, Teacher(dies_after=13), CONFIG, tmp_path / "cut", **given)  # type: ignore[arg-type]
    rest = Teacher()
    again = train_actively(pool(), base, rest, CONFIG, tmp_path / "cut", **given)  # type: ignore[arg-type]
    assert rest.asked == whole.labelled - 12, "what was labelled before the kill is not labelled again"
    assert [r.trajectory.id for r in again.rows] == [r.trajectory.id for r in whole.rows]
    assert (again.folder / "head.safetensors").read_bytes() == (whole.folder / "head.safetensors").read_bytes()
    with pytest.raises(RunError, match="select"):
        train_actively(pool(), base, rest, CONFIG, tmp_path / "cut", select=AtRandom(), rounds=4)


@pytest.mark.long
def test_rows_of_one_label_wait_for_the_next_round(base: Path, tmp_path: Path) -> None:
    traces = sorted(pool(16), key=lambda t: "wrong" in t.text)
    result = train_actively(traces, base, Teacher(), CONFIG, tmp_path, rounds=4)
    assert [r.model is None for r in result.rounds] == [True, True, False, False]


def test_one_head_cannot_be_unsure(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        train_actively(pool(), base, Teacher(), TrainConfig(), tmp_path)
