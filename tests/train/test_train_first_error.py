"""Training ends with a figure that shows a useless PRM: first-error F1 on held-out problems beside judges that know nothing."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from footfall.commands.train import _show
from footfall.train import TrainConfig, TrainResult, train_prm
from footfall.train.config import LARGE_LR, LORA_LR, SMALL, SMALL_LR, usual_lr
from footfall.train.first_error import HeldOutErrors, cross_tuned, first_error
from footfall.types import Judged, Judgement
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint
from tests.reward.tiny_models import backbone_folder, trace
from tests.train.test_train_prm import QUICK

torch.set_num_threads(1)


def rows(n: int = 60) -> list[Judged]:
    """Traces of three steps, two of each problem; in every other one the second step says `no`, and all is wrong from there."""
    found = []
    for i in range(n):
        wrong = i % 2 == 1
        t = trace("ok", "no" if wrong else "ok", "ok", id=f"t{i}", prompt=f"q{i // 2}")
        found.append(Judged(t, Judgement(t.id, (0.875, 0.0, 0.0) if wrong else (0.875, 0.75, 1.0), "toy")))
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainResult, TrainResult]:
    """A PRM that has learned it, and one whose rate was so low that it learned nothing."""
    base = backbone_folder(tmp_path_factory.mktemp("lm"))
    good = train_prm(rows(), base, replace(QUICK, lr=3e-3, epochs=4, eval_share=0.3), tmp_path_factory.mktemp("good"))
    bad = train_prm(rows(), base, replace(QUICK, lr=1e-9, epochs=1, eval_share=0.3), tmp_path_factory.mktemp("bad"))
    return good, bad


def told(result: TrainResult) -> str:
    console = Console(file=io.StringIO(), width=400)
    _show(console, result, {"page": "report.html"})
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_prm_that_learned_finds_first_errors_and_one_that_did_not_is_called_useless(
    trained: tuple[TrainResult, TrainResult],
) -> None:
    good, bad = trained
    assert good.first_error is not None and bad.first_error is not None
    assert good.first_error.traces == 18 and good.first_error.erroneous == 9 and good.first_error.error_up_to == 0
    assert good.first_error.f1 > 0.9 and good.first_error.beats_sanity
    assert set(good.first_error.sanity) == {"length", "random"}
    assert "caution" not in told(good) and f"F1 {good.first_error.f1:.3f} [" in told(good)
    assert "9 with an error (a label of 0)" in told(good)
    assert not bad.first_error.beats_sanity and "caution" in told(bad)


@pytest.mark.parametrize(
    ("gain_ci95", "said"),
    [
        ((0.02, 0.6), None),
        (
            (-0.1, 0.6),
            "F1 +0.300 [-0.100, +0.600] against the best judge that knows nothing: 40 held-out traces are too few",
        ),
        ((-0.2, 0.05), "it does not find first errors; train on more problems"),
    ],
)
def test_what_is_said_of_a_prm_goes_by_the_interval_of_its_gain(
    gain_ci95: tuple[float, float], said: str | None
) -> None:
    found = HeldOutErrors(40, 17, 0.0, 0.5, (0.3, 0.8), (0.4, 0.6), {"length": 0.2, "random": 0.1}, gain_ci95)
    assert found.beats_sanity is (said is None)
    assert found.caution is None if said is None else said in str(found.caution)


def test_the_figure_is_stored_with_the_run(trained: tuple[TrainResult, TrainResult]) -> None:
    good, _ = trained
    assert TrainResult.from_dict(good.to_dict(), good.folder.parent) == good
    assert good.to_dict()["first_error"]["beats_sanity"] is True


def test_traces_of_one_kind_have_no_figure(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = backbone_folder(tmp_path_factory.mktemp("lm"))
    right = [row for row in rows() if row.judgement and row.judgement.values[-1] == 1.0]
    result = train_prm(right, base, replace(QUICK, epochs=1), tmp_path)
    assert result.first_error is None and "not measured" in told(result)


def test_labels_that_are_outcomes_have_no_figure(tmp_path: Path) -> None:
    outcomes = [
        Judged(t, Judgement(t.id, (said.values[2],) * 3, "outcome")) for t, said in rows(24) if said is not None
    ]
    base = backbone_folder(tmp_path)
    result = train_prm(outcomes, base, replace(QUICK, objective="self-agreement", eval_share=0.3), tmp_path / "run")
    assert result.first_error is None and "not measured: it takes labels of steps" in told(result)


def test_of_a_language_model_it_says_who_measures_it(tmp_path: Path) -> None:
    """The held-out traces would do, so it must not be said that they do not."""
    save_checkpoint(tmp_path / "lm", "qwen2", qwen_tokenizer(), seed=1)
    graded = [Judged(replace(t, correct=said.values[2] == 1.0), said) for t, said in rows(24) if said is not None]
    config = replace(QUICK, epochs=1, eval_share=0.3, objective="log-ratio", as_family="eurus-prm")
    result = train_prm(graded, tmp_path / "lm", config, tmp_path / "run")
    assert result.metrics and "not measured in the training of a language model; `footfall bench`" in told(result)


def test_the_first_error_is_the_first_label_that_is_one() -> None:
    def of(*labels: float | None) -> int | None:
        return first_error(Judgement("t", labels, "toy"), 0.5)

    assert [of(0.9, 0.5, 0.9), of(0.9, 0.6), of(0.9, None, 0.1), of(0.1, None)] == [1, -1, None, 0]
    assert first_error(None, 0.5) is None


def test_each_problem_is_measured_with_the_threshold_of_the_others() -> None:
    """Errors of problem a lie below 0.3, of problem b below 0.7: neither threshold is right for the other."""
    values = [[0.2, 0.9], [0.4, 0.9], [0.6, 0.9], [0.8, 0.9]]
    said, thresholds = cross_tuned([0, -1, 0, -1], values, ["a", "a", "b", "b"])
    assert list(thresholds) == pytest.approx([0.3, 0.7])
    assert said == [0, 0, -1, -1], "0.4 is called an error, 0.6 is not"


def test_values_that_are_all_equal_find_nothing() -> None:
    assert cross_tuned([0, -1], [[0.7], [0.7]], ["a", "b"]) == ([-1, -1], (0.5, 0.5))


def test_the_rate_where_none_is_named_depends_on_what_is_trained() -> None:
    assert usual_lr(1_100_000, lora=False) == usual_lr(1_100_000, lora=True) == SMALL_LR
    assert (usual_lr(SMALL, lora=True), usual_lr(SMALL, lora=False)) == (LORA_LR, LARGE_LR)


@pytest.mark.parametrize(("head", "rate"), [("linear", LARGE_LR), ("frozen-linear", SMALL_LR)])
def test_the_rate_of_a_head_on_a_frozen_decoder_is_that_of_the_head(
    head: str, rate: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large decoder it was the rate of all its weights, at which a linear probe does not learn."""
    monkeypatch.setattr("footfall.train.config.SMALL", 1000)
    base = backbone_folder(tmp_path / "lm")
    config = TrainConfig(epochs=1, eval_share=0, head=head, device="cpu")
    assert train_prm(rows(8), base, config, tmp_path / "run").lr == rate


def test_a_stored_figure_of_a_run_reads_back() -> None:
    found = HeldOutErrors(4, 2, 0.0, 0.5, (0.4, 0.6), (0.3, 0.7), {"length": 0.2}, (-0.1, 0.5))
    assert HeldOutErrors.from_dict(found.to_dict()) == found
