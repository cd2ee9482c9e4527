"""A head that reads later steps is not trained on traces that were cut at their first error."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.cli import main
from footfall.formats import write
from footfall.registry import parts
from footfall.reward.heads import make_head
from footfall.reward.prm import PRM
from footfall.train import TrainConfig, train_prm
from footfall.train.later_steps import ends_at_error, refuse_cut_traces
from footfall.train.objectives import make_objective
from footfall.types import Judged, Judgement
from tests.reward.tiny_models import byte_tokenizer, decoder, trace

torch.set_num_threads(1)
BOTH = TrainConfig(epochs=1, eval_share=0, device="cpu", head="both-ways")
NOWHERE = Path("nowhere")
SOFT = make_objective("soft-bce", {})


def row(n: int, *labels: float | None) -> Judged:
    steps = ["no" if label is not None and label <= 0.5 else "ok" for label in labels]
    made = trace(*steps, id=f"t{n}", prompt=f"q{n}")
    return Judged(made, Judgement(made.id, labels, "toy"))


def cut(count: int, tail: Sequence[float | None] = ()) -> list[Judged]:
    """So many traces with right steps and a wrong one, and as many that are right to their end."""
    return [row(2 * i + right, *(1.0,) * (1 + i % 3), float(right), *(() if right else tail))
            for i in range(count) for right in (0, 1)]  # fmt: skip


def test_traces_that_end_at_their_first_error_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    said = (
        "the head both-ways also reads what comes after a step, and of 30 training traces with a wrong step 30 end at their "
        r"first one: it would learn where traces end, .* keep the steps after the first error, without labels \(null\)"
    )
    with pytest.raises(ValueError, match=said) as found:
        train_prm(cut(30), NOWHERE, BOTH, tmp_path / "run")
    assert "\n" not in str(found.value) and not (tmp_path / "run").exists()


def test_the_same_traces_with_their_later_steps_are_learned_from(tmp_path: Path) -> None:
    model = PRM.from_backbone(decoder(), byte_tokenizer(), head={"name": "both-ways"}, max_length=256)
    trained = train_prm(cut(30, tail=(None,)), model, BOTH, tmp_path)
    assert (trained.train.used, trained.train.unlabelled) == (60, 30)


@pytest.mark.parametrize(
    ("labels", "ends"),
    [
        ((1.0, 0.0), True),
        ((1.0, 0.4), True),  # a soft label
        ((1.0, 0.0, None), False),  # whole, as people label it
        ((0.0, 0.0), False),  # whole, as rollouts label it
        ((1.0, 1.0), None),  # right
        ((0.0,), None),  # merely the only step
        ((None, 0.0), None),  # the outcome
        ((None, None), None),
    ],
)
def test_whether_a_trace_ends_at_its_first_wrong_step(labels: tuple[float | None, ...], ends: bool | None) -> None:
    assert ends_at_error(row(0, *labels), SOFT) is ends


def test_what_is_wrong_is_as_the_objective_takes_it() -> None:
    hard = make_objective("bce", {"threshold": 0.0})
    assert ends_at_error(row(0, 1.0, 0.25), hard) is None, "one rollout in four came right"
    named = make_objective("ce", {})
    assert ends_at_error(row(0, 1.0, 0.0), named) is True
    with pytest.raises(ValueError, match=r"trajectory 't0', step 2: label 0.25 stands for no class"):
        ends_at_error(row(0, 1.0, 0.25), named)


def test_a_few_such_traces_or_a_mixture_of_whole_ones_pass() -> None:
    whole = [row(100 + i, 1.0, 0.0, None) for i in range(2)]
    refuse_cut_traces(cut(19), NOWHERE, BOTH, SOFT)
    refuse_cut_traces([*cut(37), *whole], NOWHERE, BOTH, SOFT)  # 37 of 39
    for rows in (cut(20), [*cut(38), *whole]):  # all, and 38 of 40
        with pytest.raises(ValueError, match="end at their first one"):
            refuse_cut_traces(rows, NOWHERE, BOTH, SOFT)
    refuse_cut_traces([row(i, None, float(i % 2)) for i in range(80)], NOWHERE, BOTH, SOFT)  # outcomes alone


@pytest.mark.parametrize(
    ("head", "options", "refused"),
    [
        (None, {}, False), ("frozen-linear", {}, False), ("uncertainty", {}, False),
        ("uncertainty", {"causal": True}, False), ("uncertainty", {"causal": False}, True),
        ("both-ways", {"fusion": "mean"}, True),
    ],
)  # fmt: skip
def test_a_head_that_reads_forwards_alone_learns_from_them(
    head: str | None, options: dict[str, Any], refused: bool
) -> None:
    config = replace(BOTH, head=head, head_options=options)
    why: AbstractContextManager[Any] = nullcontext()
    if refused:
        why = pytest.raises(ValueError, match=f"the head {head} also reads")
    with why:
        refuse_cut_traces(cut(30), NOWHERE, config, SOFT)


def test_a_model_to_go_on_from_tells_its_head_itself(tmp_path: Path) -> None:
    model = PRM.from_backbone(decoder(), byte_tokenizer(), head={"name": "both-ways"}, max_length=256)
    folder = train_prm(cut(30, tail=(None,)), model, BOTH, tmp_path / "first").folder
    for begun in (model, folder, str(folder)):
        with pytest.raises(ValueError, match="the head both-ways also reads"):
            train_prm(cut(30), begun, replace(BOTH, head=None), tmp_path / "run")


def test_every_head_that_is_given_both_orders_declares_it() -> None:
    """What is declared is all that is known before a model is there."""
    known = {"uncertainty": {"size": 16, "heads": 2, "top": 0}}

    class Shape:
        num_hidden_layers, num_attention_heads = 2, 2

    both = {
        name for name in parts("head")
        if make_head({"name": name, **known.get(name, {})}, 8, 1, decoder=Shape()).both_ways
    }  # fmt: skip
    assert both == {"both-ways"}
    for name in both:
        with pytest.raises(ValueError, match=f"the head {name} also reads"):
            refuse_cut_traces(cut(30), NOWHERE, replace(BOTH, head=name), SOFT)


def test_the_command_says_so_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "rows.jsonl", cut(30), "processbench")
    given = ["train", "--data", str(tmp_path / "rows.jsonl"), "--head", "both-ways", "--out", str(tmp_path / "run")]
    assert main(given) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "of 30 training traces with a wrong step 30 end at their first one" in told and "Traceback" not in told
