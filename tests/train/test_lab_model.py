"""The scripts behind the lab's model: what it is trained on, how rows are packed, and what is measured of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from footfall.policy.embedded import EMBEDDED
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.types import Step
from footfall.worlds import StepTruth
from scripts import measure_lab_model as measuring
from scripts import train_lab_model as script

torch.set_num_threads(1)
WORLDS = ("arithmetic", "logic", "algebra", "code")


@pytest.mark.parametrize("name", WORLDS)
def test_the_writers_err_at_decisions_of_kinds_that_have_names(name: str) -> None:
    place = script.PLACES[name]
    traces = [trace for checked, trace in script.written(place, "default", 6, seed=4) if not checked][:8]
    found = [measuring.checked(name, "default", trace) for trace in traces]
    assert all(each.error not in ("words", "another") for each in found)
    assert any(each.error for each in found)
    assert any(places for each in found for places in each.partings), "somewhere another decision was open"


def test_words_that_cannot_be_read_are_no_decision() -> None:
    place = script.PLACES["arithmetic"]
    world = place.world("default")
    (problem,) = world.problems(1)
    garbled = world.prefix(problem).extend([Step("Then the the.")])
    assert measuring.checked("arithmetic", "default", garbled).error == "words"


def test_a_place_in_another_language_has_the_same_steps_and_truths() -> None:
    english, chinese = (script.docs(name, "default", 3, seed=1) for name in ("arithmetic", "arithmetic-zh"))
    assert [doc.truths for doc in english] == [doc.truths for doc in chinese]
    assert english[0].prompt != chinese[0].prompt


def test_rows_hold_whole_documents_and_mark_the_class_of_each_step_at_its_end(tmp_path: Path) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(EMBEDDED)
    found = script.docs("arithmetic", "default", 12, seed=2)
    ids, roles = script.packed(found, tokenizer)
    assert ids.shape == roles.shape and ids.shape[1] == script.WIDTH
    begun, ended = ((ids == each).sum() for each in (tokenizer.bos_token_id, tokenizer.eos_token_id))
    assert begun == ended == len(found)
    truths = [truth for doc in found for truth in doc.truths]
    (line_end,) = tokenizer.encode("\n", add_special_tokens=False)
    marked = roles[(ids == line_end) & (roles > script.WRITTEN)]
    assert sorted(marked - 2) == sorted(script.TRUTHS.index(truth) for truth in truths if truth)
    texts = "".join(tokenizer.decode(row) for row in ids)
    assert all(doc.prompt + doc.solution in texts for doc in found)
    assert not roles[ids == tokenizer.bos_token_id].any(), "the prompt is not predicted"


def test_new_rows_come_first_and_a_round_has_every_row_once(tmp_path: Path) -> None:
    def shard(name: str, value: int) -> None:
        rows = np.full((4, script.WIDTH), value, np.uint16)
        np.savez(tmp_path / name, ids=rows, roles=rows.astype(np.uint8))

    shard("a.npz", 1)
    pool = script.Pool(tmp_path, "cpu", seed=0)
    pool.refresh()
    pool.batch(2)
    shard("b.npz", 2)
    pool.refresh()
    firsts = [pool.batch(2)[0][:, 0].tolist() for _ in range(3)]
    assert firsts == [[2, 2], [2, 2], [1, 1]]


def test_the_learning_rate_rises_by_steps_and_falls_by_time() -> None:
    assert script.rate(0, 0.3) < script.rate(100, 0.3) < script.rate(400, 0.3) == 1.0
    assert script.rate(400, 0.8) == pytest.approx(0.5) and script.rate(400, 1.0) == 0.0


def test_the_probe_finds_a_direction_on_held_out_states_and_none_in_noise() -> None:
    def drawn(n: int, signal: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        right = (torch.rand(n, generator=generator) < 0.5).float()
        noise = torch.randn(n, 8, generator=generator)
        return noise + signal * right[:, None], right

    assert (measuring.probe(drawn(400, 1.0, 0), drawn(400, 1.0, 1)) or 0) > 0.95
    assert abs((measuring.probe(drawn(400, 0.0, 0), drawn(400, 0.0, 1)) or 0) - 0.5) < 0.1
    assert measuring.probe((torch.zeros(3, 2), torch.ones(3)), drawn(4, 1.0, 0)) is None


def test_examples_stop_at_the_first_error_or_take_all_steps() -> None:
    truths = (StepTruth.RIGHT, StepTruth.WRONG, StepTruth.CONSEQUENT)
    found, read = [measuring.Checked(False, truths, "slip", ())], [torch.zeros(3, 4)]
    assert measuring.examples(found, read, to_first=True)[1].tolist() == [1, 0]
    assert measuring.examples(found, read, to_first=False)[1].tolist() == [1, 0, 0]
    assert measuring.examples(found, read, to_first=False, answers=False)[1].tolist() == [1, 0]


@pytest.mark.long
def test_two_slices_in_small_and_what_is_measured_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole run: text written beside the training, a slice, another that goes on from it, and a model that loads."""
    sizes = ["--hidden", "64", "--layers", "1", "--batch", "2", "--steps", "3", "--docs", "20", "20", "--workers", "1"]
    (tmp_path / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "tokenizer" / name).write_text((EMBEDDED / name).read_text())
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["train", "--out", str(tmp_path), "--no-compile", *sizes])
        script.main()
    facts = json.loads((tmp_path / "training.json").read_text())
    assert facts["slices"] == 2 and facts["steps"] == 6
    policy = TorchPolicy.load(tmp_path / "model", "cpu", label="lab")
    world = script.PLACES["algebra"].world("hard")
    (drawn,) = policy.sample([world.prefix(*world.problems(1))], 2, SamplingParams(max_tokens=8))
    assert len(drawn) == 2
