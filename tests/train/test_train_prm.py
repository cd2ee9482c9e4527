"""`train_prm`: learns, repeats itself to the bit, goes on after a kill, drops nothing silently."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from footfall.registry import create
from footfall.render import Reading
from footfall.reward.canary import Canary, check_canary
from footfall.reward.prm import PRM
from footfall.train import TrainConfig, TrainResult, train_prm
from footfall.train.checkpoints import last_checkpoint, seal
from footfall.train.data import collate, make_examples, split_by_problem
from footfall.train.objectives import make_objective
from footfall.train.trainer import LengthGrouped, training_arguments
from footfall.types import Judged, Judgement, Problem, Trajectory
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder, trace

torch.set_num_threads(1)
QUICK = TrainConfig(lr=3e-3, epochs=2, batch_size=8, save_steps=3, eval_share=0.2, device="cpu")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return backbone_folder(tmp_path_factory.mktemp("lm"))


def toy_rows(n: int = 48, unlabelled: bool = False) -> list[Judged]:
    """A step is good if and only if it says `ok`."""
    rows = []
    for i in range(n):
        good = [(i * 7 + k * k * 3 + i // 3) % 3 != 0 for k in range(1 + i % 4)]
        t = trace(*("ok" if g else "no" for g in good), id=f"t{i}", prompt=f"q{i // 2}")
        labels = [0.875 if g else 0.125 for g in good]
        values = tuple(None if unlabelled and k == 1 else v for k, v in enumerate(labels))
        rows.append(Judged(t, Judgement(t.id, values, "toy")))
    return rows


def weights(result: TrainResult) -> dict[str, torch.Tensor]:
    files = sorted(result.folder.glob("*.safetensors"))
    return {f"{f.name}/{k}": v for f in files for k, v in safetensors.torch.load_file(f).items()}


def difference(a: TrainResult, b: TrainResult) -> float:
    one, other = weights(a), weights(b)
    assert one.keys() == other.keys()
    return max(float((one[k] - other[k]).abs().max()) for k in one)


def stop_at(update: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done == update:
            raise KeyboardInterrupt

    return progress


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"objective": "bce", "objective_options": {"threshold": 0.5}, "marker": "<step>"},
        {"objective": "mse"},
        {"objective": "ce", "objective_options": {"values": {"good": 0.875, "bad": 0.125}}},
        {"lora_rank": 8, "lr": 1e-2},
    ],
    ids=["soft-bce", "bce-marker", "mse", "ce", "lora"],
)
def test_a_learnable_signal_is_learned_and_the_saved_model_judges_by_it(
    change: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    result = train_prm(toy_rows(80), base, replace(QUICK, epochs=5, **change), tmp_path)
    assert result.metrics["step_auc"] > 0.95
    assert result.curve[-1][1] < result.curve[0][1]
    judge = create("reward", "step-head", path=str(result.folder), device="cpu")
    good, bad = judge.judge([trace("ok", prompt="new"), trace("no", prompt="new")])
    assert good.values[0] > bad.values[0]
    facts = judge.model.prm_config.training
    assert (facts["labels_by"], facts["seed"]) == (["toy"], 0)


@pytest.mark.long
def test_two_runs_with_one_seed_agree_to_the_bit(base: Path, tmp_path: Path) -> None:
    a, b = (train_prm(toy_rows(), base, QUICK, tmp_path / name) for name in "ab")
    assert difference(a, b) == 0.0
    assert a.metrics == b.metrics
    c = train_prm(toy_rows(), base, replace(QUICK, seed=1), tmp_path / "c")
    assert difference(a, c) > 0


@pytest.mark.long
@pytest.mark.parametrize(
    "change", [{}, {"lora_rank": 4}, {"accumulation": 2, "save_steps": 1}], ids=["full", "lora", "accumulated"]
)
def test_a_run_that_was_killed_and_started_again_ends_where_the_undisturbed_one_does(
    change: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    config = replace(QUICK, **change)
    whole = train_prm(toy_rows(), base, config, tmp_path / "whole")
    for update in (4, 7) if whole.updates > 7 else (2, 4):
        with pytest.raises(KeyboardInterrupt):
            train_prm(toy_rows(), base, config, tmp_path / "broken", progress=stop_at(update))
    seen: list[int] = []
    resumed = train_prm(toy_rows(), base, config, tmp_path / "broken", progress=lambda done, total: seen.append(done))
    assert 1 < seen[0] < whole.updates, "it went on from a checkpoint"
    assert difference(whole, resumed) < 1e-6
    assert resumed.metrics == pytest.approx(whole.metrics, abs=1e-6)
    assert resumed.cost.scored_tokens == whole.cost.scored_tokens


@pytest.mark.long
def test_a_run_killed_between_its_last_checkpoint_and_the_saved_model_is_finished(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(QUICK, save_steps=5)
    whole = train_prm(toy_rows(), base, config, tmp_path / "whole")
    assert whole.updates % 5 == 0

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("footfall.train.prm.close_run", kill)
        train_prm(toy_rows(), base, config, tmp_path / "broken")
    assert difference(whole, train_prm(toy_rows(), base, config, tmp_path / "broken")) < 1e-6


def test_training_leaves_the_callers_generators_and_terminal_alone(
    base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = torch.random.get_rng_state(), random.getstate(), str(np.random.get_state())
    train_prm(toy_rows(), base, QUICK, tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert (random.getstate(), str(np.random.get_state())) == before[1:]
    assert capfd.readouterr() == ("", "")


def test_a_checkpoint_cut_short_by_the_kill_is_passed_over(tmp_path: Path) -> None:
    for step in (3, 6):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
            (folder / name).touch()
        (folder / "trainer_state.json").write_text("{}", encoding="utf-8")
        if step == 3:
            seal(folder)
    (tmp_path / "checkpoint-9").mkdir()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-3"


@pytest.mark.long
def test_a_finished_run_is_not_repeated_and_another_one_does_not_overwrite_it(base: Path, tmp_path: Path) -> None:
    first = train_prm(toy_rows(), base, QUICK, tmp_path)
    again = train_prm(toy_rows(), base, QUICK, tmp_path, progress=stop_at(1))
    assert json.dumps(again.to_dict()) == json.dumps(first.to_dict())
    assert not (tmp_path / "checkpoints").exists()
    with pytest.raises(ValueError, match=r"other config.*resume=False"):
        train_prm(toy_rows(), base, replace(QUICK, seed=5), tmp_path)
    assert train_prm(toy_rows(), base, replace(QUICK, seed=5), tmp_path, resume=False).updates == first.updates


@pytest.mark.long
def test_accumulation_weighs_every_labelled_step_alike(base: Path, tmp_path: Path) -> None:
    config = replace(QUICK, epochs=1, eval_share=0, batch_size=48, warmup=0.0)
    one = train_prm(toy_rows(unlabelled=True), base, config, tmp_path / "one")
    two = train_prm(toy_rows(unlabelled=True), base, replace(config, batch_size=12, accumulation=4), tmp_path / "two")
    assert (one.updates, two.updates) == (1, 1)
    assert two.curve[0][1] == pytest.approx(one.curve[0][1], abs=1e-5)


@pytest.mark.long
def test_early_stopping_keeps_the_best_epoch(base: Path, tmp_path: Path) -> None:
    config = replace(QUICK, lr=0.5, epochs=6, patience=1, max_grad_norm=1e9)
    result = train_prm(toy_rows(), base, config, tmp_path)
    assert result.updates < 6 * 5, "a rate this high gets worse and is stopped"
    PRM.load(result.folder, device="cpu")


@pytest.mark.long
def test_what_a_model_trained_in_half_precision_said_when_it_was_saved_is_what_its_weights_say(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(*given: Any) -> Any:
        args = training_arguments(*given)
        return replace(args, bf16=True)

    monkeypatch.setattr("footfall.train.prm.training_arguments", half)
    result = train_prm(toy_rows(16), base, replace(QUICK, epochs=1), tmp_path)
    kept = Canary.from_dict(json.loads((result.folder / "step_head.json").read_text())["canary"])
    check_canary(PRM.load(result.folder, device="cpu"), kept, "model", tolerance=1e-6)


def test_a_trained_model_can_be_trained_further(base: Path, tmp_path: Path) -> None:
    first = train_prm(toy_rows(), base, replace(QUICK, lora_rank=4), tmp_path / "first")
    more = train_prm(toy_rows(), first.folder, QUICK, tmp_path / "more")
    assert more.metrics["loss"] < first.metrics["loss"]
    with pytest.raises(ValueError, match="classes"):
        train_prm(toy_rows(), first.folder, replace(QUICK, objective="ce"), tmp_path / "other")


def test_unlabelled_steps_are_masked_and_dropped_rows_are_counted(base: Path, tmp_path: Path) -> None:
    rows = toy_rows(unlabelled=True)
    nothing = trace("a", "b", id="nothing", prompt="n")
    rows += [Judged(nothing, Judgement("nothing", (None, None), "toy")), Judged(nothing, None)]
    long = trace("ok " * 300, id="long", prompt="l")
    rows.append(Judged(long, Judgement("long", (1.0,), "toy")))
    with pytest.raises(ValueError, match=r"'long'.*limit is 512.*drop"):
        train_prm(rows, base, replace(QUICK, eval_share=0), tmp_path / "a")
    result = train_prm(rows, base, replace(QUICK, eval_share=0, too_long="drop"), tmp_path / "b")
    assert (result.train.rows, result.train.used) == (51, 48)
    assert result.train.dropped == {"no labelled step": 2, "too long": 1}
    assert result.train.unlabelled == 36
    assert set(result.train.labels) == {"0.125", "0.875"}
    assert result.metrics == {}


def test_a_collated_batch_is_padded_right_and_masks_what_has_no_label() -> None:
    model = PRM.from_backbone(decoder(), byte_tokenizer())
    rows = [Judged(t, Judgement(t.id, v, "j")) for t, v in ((trace("a"), (1.0,)), (trace("b", "c"), (None, 0.0)))]
    examples, _ = make_examples(rows, model, make_objective("soft-bce", {}), "error")
    batch = collate(examples, pad_id=2)
    assert batch["mask"].tolist() == [[True, False], [False, True]]
    short = len(examples[0].reading.ids)
    assert batch["input_ids"][0].tolist()[short:] == [2] * (len(examples[1].reading.ids) - short)
    assert batch["positions"][1].tolist() == list(examples[1].reading.positions)


def test_labels_beside_the_label_may_be_whole_numbers() -> None:
    """`aspects={"reward": (1, 0)}`: two traces of unequal length ended in an overflow of torch."""
    model = PRM.from_backbone(decoder(), byte_tokenizer())
    rows = [
        Judged(t, Judgement(t.id, (1, 0)[: len(t.steps)], "j", aspects={"reward": (0, 1)[: len(t.steps)]}))
        for t in (trace("a"), trace("b", "c"))
    ]
    examples, _ = make_examples(rows, model, make_objective("value-and-reward", {}), "error")
    batch = collate(examples, pad_id=2)
    assert batch["targets"].tolist() == [[[1, 0], [0, 0]], [[1, 0], [0, 1]]]
    assert batch["mask"].tolist() == [[[True, True], [False, False]], [[True, True], [True, True]]]


def test_rows_are_tokenised_together_and_read_as_each_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of the tokenizer for each of many rows uses one core, and that for minutes."""
    model, calls = PRM.from_backbone(decoder(), byte_tokenizer()), list[int]()
    whole = model.layout.reads_of

    def counted(traces: Sequence[Trajectory]) -> list[list[Reading]]:
        calls.append(len(traces))
        return whole(traces)

    monkeypatch.setattr(model.layout, "reads_of", counted)
    monkeypatch.setattr("footfall.reward.prm.READ_TOGETHER", 2)
    traces = [trace("a", "b" * k, id=str(k)) for k in range(1, 6)]
    rows = [Judged(t, Judgement(t.id, (1.0, 0.0), "j")) for t in traces]
    rows.insert(2, Judged(trace("unlabelled"), None))
    examples, _ = make_examples(rows, model, make_objective("soft-bce", {}), "error")
    assert calls == [2, 2, 1]
    assert [example.reading for example in examples] == [whole([t])[0][0] for t in traces]


@pytest.mark.parametrize(("values", "message"), [((2.0,), "step 1: label 2"), ((0.5, 0.5), "has 1 steps")])
def test_labels_that_do_not_fit_are_named(values: tuple[float, ...], message: str, base: Path, tmp_path: Path) -> None:
    rows = [*toy_rows(), Judged(trace("a"), Judgement("t", values, "j"))]
    with pytest.raises(ValueError, match=message):
        train_prm(rows, base, replace(QUICK, eval_share=0), tmp_path)


def test_labels_that_are_all_equal_teach_nothing(base: Path, tmp_path: Path) -> None:
    rows = [Judged(t, Judgement(t.id, (1.0,) * len(t.steps), "j")) for t, _ in toy_rows()]
    with pytest.raises(ValueError, match="only one label value"):
        train_prm(rows, base, QUICK, tmp_path)


def test_rows_about_evaluation_problems_are_refused_or_dropped_with_their_count(base: Path, tmp_path: Path) -> None:
    held = [Problem("bench-1", "Q3 ."), Problem("bench-2", "something else")]
    with pytest.raises(ValueError, match=r"2 training rows .*'bench-1'"):
        train_prm(toy_rows(), base, QUICK, tmp_path / "a", against=held)
    result = train_prm(toy_rows(), base, replace(QUICK, contaminated="drop"), tmp_path / "b", against=held)
    assert result.contaminated == 2
    assert result.train.rows + result.held_out.rows == 46


def test_a_clean_problem_that_shares_an_evaluation_problems_id_stays(base: Path, tmp_path: Path) -> None:
    """Sets of data count their problems from 0: of two with one id, the one about an evaluation problem alone is dropped."""
    rows = [Judged(replace(t, problem=replace(t.problem, id="0")), said) for t, said in toy_rows()]
    held = [Problem("bench-1", "Q3 ."), Problem("0", "something else")]
    with pytest.raises(ValueError, match=r"2 training rows .*problem '0' matches 'bench-1'"):
        train_prm(rows, base, QUICK, tmp_path / "a", against=held)
    result = train_prm(rows, base, replace(QUICK, epochs=1, contaminated="drop"), tmp_path / "b", against=held)
    assert result.contaminated == 2


def test_the_split_is_by_problem_text_and_ignores_row_order() -> None:
    rows = toy_rows()
    train, held = split_by_problem(rows, 0.25, seed=0)

    def problems(part: Sequence[Judged]) -> set[str]:
        return {row.trajectory.problem.text for row in part}

    assert not problems(train) & problems(held)
    assert len(problems(held)) == 6
    assert problems(split_by_problem(rows[::-1], 0.25, seed=0)[1]) == problems(held)
    assert problems(split_by_problem(rows, 0.25, seed=1)[1]) != problems(held)
    with pytest.raises(ValueError, match="cannot be split"):
        split_by_problem(rows[:2], 0.1, seed=0)


def test_an_epochs_order_depends_on_seed_and_epoch_alone() -> None:
    lengths = [i % 17 + 1 for i in range(100)]

    def order(seed: int, epoch: int) -> list[int]:
        return list(LengthGrouped(lengths, 8, seed, lambda: epoch))

    orders = [order(0, 0), order(0, 0), order(0, 1), order(1, 0)]
    assert sorted(orders[0]) == list(range(100))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2] != orders[3]
    waste = sum(max(lengths[i] for i in orders[0][k : k + 8]) * 8 for k in range(0, 96, 8)) / sum(lengths)
    assert waste < 1.3, "batches hold like lengths"


@pytest.mark.parametrize("change", [{"epochs": 0}, {"eval_share": 1.0}, {"lr": 0.0}])
def test_a_config_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(QUICK, **change)
