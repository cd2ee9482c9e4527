"""Heads with several outputs: quantiles by the pinball loss (calibration-ias), a value and a reward (birm)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from footfall.label.consensus import Beside
from footfall.label.counting import Rehearsal
from footfall.label.estimate import planned
from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.reward.prm import PRM
from footfall.search import BiRM, Searcher
from footfall.simulate import Noisy
from footfall.train import TrainConfig, train_prm
from footfall.train.data import data_key
from footfall.train.losses import pinball_loss, value_and_reward_loss
from footfall.train.objectives import make_objective
from footfall.types import Judged, Judgement
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge, TruthJudge
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder, trace

torch.set_num_threads(1)
QUICK = TrainConfig(lr=3e-3, epochs=2, batch_size=8, eval_share=0.2, device="cpu")
TENTHS = (0.1, 0.5, 0.9)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return backbone_folder(tmp_path_factory.mktemp("lm"))


def logits(*values: float) -> torch.Tensor:
    return torch.tensor([math.log(p / (1 - p)) for p in values])


def toy_rows(n: int = 48, reward: bool = False) -> list[Judged]:
    """A step that says `ok` succeeds half the time or always, as chance has it; one that says `no` never. `!`: it is right."""
    rows = []
    luck = np.random.default_rng(0)
    for i in range(n):
        words = [("ok", "no")[(i * 7 + k * 3 + i // 3) % 3 == 0] + "!" * ((i + k) % 2) for k in range(1 + i % 4)]
        t = trace(*words, id=f"t{i}", prompt=f"q{i // 2}")
        values = tuple(float("ok" in word) * float(luck.choice([0.5, 1.0])) for word in words)
        aspects = {"reward": tuple(float("!" in word) for word in words)} if reward else {}
        rows.append(Judged(t, Judgement(t.id, values, "toy", aspects=aspects)))
    return rows


def test_calibration_card_check_3_pinball_of_three_outputs() -> None:
    target, mask = torch.tensor([0.25]), torch.tensor([True])
    assert float(pinball_loss(logits(0.6, 0.6, 0.6)[None], target, mask, TENTHS)) == pytest.approx(0.175)
    assert float(pinball_loss(logits(0.1, 0.3, 0.5)[None], target, mask, TENTHS)) == pytest.approx(0.021667, abs=1e-6)


def test_calibration_card_check_3_on_constant_features_outputs_become_the_empirical_quantiles() -> None:
    targets = torch.tensor(np.random.default_rng(0).uniform(size=999), dtype=torch.float32)
    output = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([output], lr=0.05)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, 600)
    for _ in range(600):
        optimizer.zero_grad()
        loss = pinball_loss(output.expand(999, 3), targets, torch.ones(999, dtype=torch.bool), TENTHS)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    assert output.detach().sigmoid().tolist() == pytest.approx(np.quantile(targets.numpy(), TENTHS).tolist(), abs=0.02)


def test_birm_card_the_two_parts_of_the_loss() -> None:
    values, rewards = logits(0.6, 0.7, 0.1), logits(0.9, 0.8, 0.2)
    targets = torch.tensor([[0.75, 1.0], [0.5, 1.0], [0.125, 0.0]])
    both = torch.stack([values, rewards], dim=-1)
    of_values, of_rewards = torch.tensor([True, False]).expand(3, 2), torch.tensor([False, True]).expand(3, 2)
    assert 3 * float(value_and_reward_loss(both, targets, of_values)) == pytest.approx(0.063125)
    assert 3 * float(value_and_reward_loss(both, targets, of_rewards)) == pytest.approx(0.09)
    everything = torch.ones(3, 2, dtype=torch.bool)
    assert 6 * float(value_and_reward_loss(both, targets, everything)) == pytest.approx(0.09 + 0.063125)


def test_birm_card_a_reward_label_has_no_part_in_the_gradient_of_the_value_head() -> None:
    both = torch.randn(4, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    targets, mask = torch.rand(4, 2, generator=torch.Generator().manual_seed(1)), torch.ones(4, 2, dtype=torch.bool)
    flipped = targets.clone()
    flipped[2, 1] = 1 - flipped[2, 1]
    (one,), (other,) = (torch.autograd.grad(value_and_reward_loss(both, t, mask), both) for t in (targets, flipped))
    assert bool((one[:, 0] == other[:, 0]).all()) and float(one[2, 1]) != float(other[2, 1])


@pytest.mark.parametrize("classes", [(), ("bad", "good")])
def test_a_widened_head_says_in_every_output_what_the_old_one_said(classes: tuple[str, ...]) -> None:
    good = ("good",) if classes else ()
    model = PRM.from_backbone(decoder(), byte_tokenizer(), classes=classes, good=good, seed=3).eval()
    reading = [model.read(trace("3 + 4 = 7", "so 7"))]
    [before] = model.score(reading)
    model.widen(("q50", "q10", "q90"))
    columns = model.columns(model.logits(reading)[0])
    assert columns.values == pytest.approx(before, abs=1e-6)
    assert set(columns.aspects) == {"q10", "q50", "q90"}
    assert all(column == pytest.approx(before, abs=1e-6) for column in columns.aspects.values())


def test_only_a_single_logit_can_be_repeated() -> None:
    three = PRM.from_backbone(decoder(), byte_tokenizer(), classes=("a", "b", "c"), good=("a",))
    with pytest.raises(ValueError, match="no single logit"):
        three.widen(("q50", "q10"))
    many = PRM.from_backbone(decoder(), byte_tokenizer(), heads=3)
    with pytest.raises(ValueError, match="linear head"):
        many.widen(("q50", "q10"))


@pytest.mark.long
def test_quantiles_are_trained_from_a_prm_on_saved_and_read_in_order(base: Path, tmp_path: Path) -> None:
    rows = toy_rows()
    prm = train_prm(rows, base, QUICK, tmp_path / "prm")
    config = replace(QUICK, objective="quantile", epochs=12)
    wide = train_prm(rows, prm.folder, config, tmp_path / "wide")
    judge = create("reward", "step-head", path=str(wide.folder), device="cpu")
    said = judge.judge([row.trajectory for row in rows])
    assert all(one.values == one.aspects["q50"] for one in said)
    low, high = (np.concatenate([one.aspects[name] for one in said]) for name in ("q10", "q90"))
    fine = np.concatenate([[v == 0.5 or v == 1.0 for v in row.judgement.values] for row in rows if row.judgement])
    assert low[fine].mean() < high[fine].mean() - 0.1, "half or all of them succeed: the quantiles part"
    assert high[~fine].mean() < low[fine].mean(), "none of them succeeds"


@pytest.mark.long
def test_value_and_reward_learn_different_things_of_the_same_step(base: Path, tmp_path: Path) -> None:
    rows = toy_rows(96, reward=True)
    config = replace(QUICK, objective="value-and-reward", epochs=10)
    result = train_prm(rows, base, config, tmp_path / "birm")
    assert result.metrics["steps"] == result.held_out.steps, "a step counts once, however many labels it has"
    judge = create("reward", "step-head", path=str(result.folder), device="cpu")
    said = judge.judge([row.trajectory for row in rows])
    words = [step.text for row in rows for step in row.trajectory.steps]
    value = dict.fromkeys(("ok", "no", "ok!", "no!"), 0.0)
    reward = dict(value)
    for word in value:
        at = [k for k, other in enumerate(words) if other == word]
        value[word] = float(np.mean([np.concatenate([one.values for one in said])[k] for k in at]))
        reward[word] = float(np.mean([np.concatenate([one.aspects["reward"] for one in said])[k] for k in at]))
    assert min(value["ok"], value["ok!"]) > max(value["no"], value["no!"]) + 0.2
    assert min(reward["ok!"], reward["no!"]) > max(reward["ok"], reward["no"]) + 0.2


@pytest.mark.long
def test_a_reward_label_that_is_missing_is_masked_and_one_that_is_nowhere_is_an_error(
    base: Path, tmp_path: Path
) -> None:
    config = replace(QUICK, objective="value-and-reward", epochs=1)
    rows = toy_rows(reward=True)
    first = rows[0].judgement
    assert first is not None
    rows[0] = Judged(rows[0].trajectory, replace(first, aspects={"reward": (None,) * len(first.values)}))
    assert math.isfinite(train_prm(rows, base, config, tmp_path / "some").metrics["loss"])
    with pytest.raises(ValueError, match="the labeller `beside` writes the word of a second judge there"):
        train_prm(toy_rows(), base, config, tmp_path / "none")
    assert data_key(rows, ("reward",)) != data_key(toy_rows(reward=True), ("reward",)), (
        "reward labels name the data too"
    )
    assert data_key(rows) == data_key(toy_rows())


def test_settings_that_make_no_sense_are_refused(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="different numbers between 0 and 1"):
        make_objective("quantile", {"quantiles": [0.5, 1.5]})
    with pytest.raises(ValueError, match="a head with 3 outputs, not 1"):
        pinball_loss(torch.zeros(1, 1), torch.zeros(1), torch.tensor([True]), TENTHS)
    with pytest.raises(ValueError, match="go with no classes or heads"):
        train_prm(toy_rows(), base, replace(QUICK, objective="quantile", heads=2), tmp_path / "heads")


def test_labels_of_both_kinds_stand_beside_each_other_and_the_search_reads_both() -> None:
    world, writer = ArithmeticWorld(), ArithmeticPolicy()
    traces = [t for _, t in world.traces(writer, 6)]
    judge = Beside(ExactValueJudge(writer), TruthJudge())
    for said, value, truth in zip(
        judge.judge(traces), ExactValueJudge(writer).judge(traces), TruthJudge().judge(traces), strict=True
    ):
        assert said.values == value.values and said.aspects["reward"] == truth.values
        assert said.judge == judge.name
    problems = world.problems(4, 0)
    params = SamplingParams(max_tokens=120, seed=0)
    noisy = Noisy(TruthJudge(), 0.25, 0.25, seed=1)
    one = Searcher(writer, Beside(ExactValueJudge(writer), noisy), BiRM(4, 2), params=params, separator="\n")
    two = Searcher(
        writer,
        ExactValueJudge(writer),
        BiRM(4, 2, reward="steps"),
        params=params,
        separator="\n",
        judges={"steps": noisy},
    )
    assert [r.answer for r in one.solve(problems)] == [r.answer for r in two.solve(problems)]
    assert [r.scores for r in one.solve(problems)] == [r.scores for r in two.solve(problems)]


def test_the_labeller_beside_by_name() -> None:
    made = create("labeller", "beside", policy=ArithmeticPolicy(), judges="monte-carlo,truth-arithmetic")
    assert isinstance(made, Beside) and "monte-carlo" in made.values.name and made.aspect == "reward"
    traces = [t for _, t in ArithmeticWorld().traces(ArithmeticPolicy(), 3)]
    rehearsal = Rehearsal()
    alone = create("labeller", "monte-carlo", policy=rehearsal.policy())
    both = create("labeller", "beside", policy=rehearsal.policy(), judges="monte-carlo,truth-arithmetic")
    plans = [planned(rehearsal, each.judge, traces) for each in (both, alone)]
    assert plans[0] == plans[1] and plans[0].low.calls > 0, "it costs what its judges cost"
    with pytest.raises(ValueError, match="two judges"):
        create("labeller", "beside", policy=ArithmeticPolicy(), judges="monte-carlo")
