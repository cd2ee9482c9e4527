"""The probe of RLCM: where completions are cut, what forced answers say, what it learns, and a run with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch

from footfall import cli
from footfall.loading import load_model, load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import create
from footfall.render import prompt_ids, template_for
from footfall.reward.confidence_probe import STATES
from footfall.rl.beside import SOLVED, Beside
from footfall.rl.confidence import ConfidenceProbe, Forcing, cuts_of, forced_right, forced_shares, states_at
from footfall.rl.groups import Rollout
from footfall.rl.online import Sequences
from footfall.rl.rewards import Reward
from footfall.types import Problem
from footfall.worlds import ArithmeticWorld
from tests.rl.runs import events, words
from tests.rl.test_rl_trainer import batch_of, graded, small, trainer

CUTS = Forcing().cuts


@pytest.mark.parametrize(
    ("lengths", "after"),
    [
        ([5, 5, 5, 5], [0, 1, 2]),
        ([5, 5], [0]),  # a quarter is within the first step, three quarters are behind it
        ([1, 1, 18], [1]),
        ([18, 1, 1], []),
        ([20], []),
        ([10, 0, 10], [1]),
    ],
)
def test_a_completion_is_cut_behind_the_last_step_that_is_written_by_then(lengths: list[int], after: list[int]) -> None:
    assert cuts_of(np.array(lengths), CUTS) == after


class Said(NamedTuple):
    tokens: list[int]


class Echo:
    """An engine that writes given texts in turn, and keeps what it was asked."""

    def __init__(self, tokenizer: Any, *texts: str) -> None:
        self.tokens = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        self.asked: list[Any] = []

    def generate(self, requests: Any, params: Any) -> list[Said]:
        self.asked += [(each, params) for each in requests]
        return [Said(self.tokens[i % len(self.tokens)]) for i in range(len(requests))]


def test_forced_answers_are_read_from_their_line_and_a_problem_without_answer_has_none() -> None:
    tokenizer = load_tokenizer(str(EMBEDDED))
    engine = Echo(tokenizer, " 21.", " 22.", " 20.\nThe answer is 21.", " 21")
    problems = [Problem("a", "?", "21"), Problem("b", "?"), Problem("c", "?", "22")]
    assert forced_right(engine, tokenizer, [[5, 6], [7], [8, 9]], problems, Forcing(), 3) == [0.5, None, 0.25]
    words = tokenizer.encode("The answer is", add_special_tokens=False)
    assert [each.ids for each, _ in engine.asked] == [(5, 6, *words)] * 4 + [(8, 9, *words)] * 4
    assert len({each.seed for each, _ in engine.asked}) == 8
    assert {(each.max_tokens, params.temperature) for each, params in engine.asked} == {(32, 0.8)}


def test_shares_stand_behind_the_steps_at_which_a_completion_is_cut() -> None:
    tokenizer = load_tokenizer(str(EMBEDDED))
    engine = Echo(tokenizer, " 21.", " 22.")
    lengths, problem = [np.array([2, 2]), np.array([3])], Problem("a", "?", "21")
    ids, prompts = [[11, 12, 13, 14], [15, 16, 17]], [[5], [6]]
    found = forced_shares(engine, tokenizer, [problem] * 2, prompts, ids, lengths, Forcing(), 0)
    assert found[0][0] == 0.5 and np.isnan(found[0][1]) and np.isnan(found[1]).all()
    assert {each.ids[:3] for each, _ in engine.asked} == {(5, 11, 12)}, "the prompt, and the first step alone"


def test_the_embedded_model_knows_the_answer_when_only_the_answer_is_missing() -> None:
    model, tokenizer = load_model(str(EMBEDDED), "cpu")
    policy = TorchPolicy(model, tokenizer, label="embedded")
    problem = ArithmeticWorld().problems(1)[0]
    prompt = prompt_ids(tokenizer, problem, template_for(tokenizer))
    steps = "We start with 37 - 12 = 25.\n", "Now 25 - 4 = 21.\n"
    begun = [[*prompt, *tokenizer.encode("".join(steps[:n]), add_special_tokens=False)] for n in (1, 2)]
    early, late = forced_right(policy.engine, tokenizer, begun, [problem] * 2, Forcing(answers=8), 0)
    assert early is not None and late is not None and early < 0.5 < late


def test_states_are_means_over_the_last_tokens_of_a_step_and_padding_does_not_matter() -> None:
    model = small().train(False)
    ids = torch.arange(3, 15)[None]
    lengths = [np.array([6, 2])]
    (found,) = states_at(model, Sequences(ids, torch.ones_like(ids), 8), lengths)
    with torch.no_grad():
        last = model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
    torch.testing.assert_close(found, torch.stack([last[10 - STATES : 10].mean(0), last[12 - STATES : 12].mean(0)]))
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids, torch.zeros(1, 2, dtype=torch.long)], dim=1)
    mask = torch.tensor([[0] * 3 + [1] * 12 + [0] * 2])
    (same,) = states_at(model, Sequences(padded, mask, 10), lengths)
    torch.testing.assert_close(same, found, rtol=1e-4, atol=1e-5)


def test_a_prompt_shorter_than_the_states_that_are_averaged_reads_no_padding() -> None:
    model, ids, lengths = small().train(False), torch.arange(3, 7)[None], [np.array([1, 2])]
    (alone,) = states_at(model, Sequences(ids, torch.ones_like(ids), 3), lengths)
    padded = torch.cat([torch.zeros(1, 5, dtype=torch.long), ids], dim=1)
    (beside,) = states_at(model, Sequences(padded, torch.tensor([[0] * 5 + [1] * 4]), 3), lengths)
    torch.testing.assert_close(beside, alone, rtol=1e-4, atol=1e-5)


def test_the_probe_learns_soft_shares_and_the_same_seed_gives_the_same_probe() -> None:
    drawn = torch.Generator().manual_seed(0)
    states = torch.randn(96, 16, generator=drawn)
    shares = (0.25 + 0.5 * (states[:, 0] > 0)).tolist()
    probe, again = ConfidenceProbe(16), ConfidenceProbe(16)
    assert probe.learn(states[:0], [], 0) is None
    for seed in range(8):
        assert probe.learn(states, shares, seed) == again.learn(states, shares, seed)
    said = probe.says(states)
    assert np.array_equal(said, again.says(states)) and np.array_equal(said, probe.says(states)), (
        "no dropout in what it says"
    )
    high = np.array(shares) > 0.5
    assert abs(said[high].mean() - 0.75) < 0.08 and abs(said[~high].mean() - 0.25) < 0.08


def test_a_probe_that_is_fed_what_is_no_number_says_so() -> None:
    with pytest.raises(ValueError, match="the loss of the confidence probe is nan"):
        ConfidenceProbe(4).learn(torch.full((2, 4), torch.nan), [0.0, 1.0], 0)


def test_only_prefixes_with_forced_answers_teach_and_all_steps_have_a_confidence() -> None:
    model = small().train(False)
    beside = Beside(("outcome", "confidence"), model)
    ids = torch.arange(3, 23).reshape(2, 10)
    batch = Sequences(ids, torch.ones_like(ids), 6)
    shares = np.array([1.0, np.nan, np.nan])
    rollouts = [Rollout(np.array([2, 2, 2]), 1.0, aspects={SOLVED: shares}), Rollout(np.array([6]), 0.0)]
    assert beside.probe is not None and beside.reference is None
    before = beside.probe.says(torch.cat(states_at(model, batch, [each.lengths for each in rollouts])))
    looked, nothing = beside.scores(model, batch, rollouts, None, 0, training=False)
    assert nothing == {} and np.allclose(np.concatenate([each["confidence"] for each in looked]), before)
    found, figures = beside.scores(model, batch, rollouts, None, 0, training=True)
    assert [len(each["confidence"]) for each in found] == [3, 1] and set(figures) == {"calibration", "probe_loss"}
    assert found[0]["confidence"][0] > before[0], "all forced answers were right there"


def test_a_batch_gets_confidences_and_shares_and_what_was_forced_is_not_trained_on(tmp_path: Path) -> None:
    made = graded(trainer(tmp_path, Reward(create("credit", "rlcm")), max_completion_length=48))
    batch = batch_of(made)
    assert batch["completion_ids"].shape[1] <= 48
    for each in made.batch:
        assert each.rollout.confidence is not None and each.rollout.confidence.shape == (each.rollout.steps,)
        forced = np.flatnonzero(np.isfinite(each.rollout.aspects[SOLVED])).tolist()
        assert forced == cuts_of(each.rollout.lengths, CUTS)
        assert each.rollout.tokens == len(each.ids)


def test_rlcm_brings_its_own_probe_and_is_told_what_forces_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Forcing] = []

    def forced(*given: Any) -> Any:
        told.append(given[6])
        return forced_shares(*given)

    monkeypatch.setattr("footfall.rl.rollouts.forced_shares", forced)
    sizes = ("--updates", "1", "--measured", "2", "--max-tokens", "80")
    how = (*sizes, "--credit", "rlcm", "--forced", "The answer is now")
    assert cli.main(words(Path("embedded"), tmp_path / "run", *how)) == 0
    assert json.loads(capsys.readouterr().out)["left"] == 0
    (update,) = events(tmp_path / "run", "update")
    assert 0 <= update["calibration"] <= 1 and update["probe_loss"] > 0
    assert told == [Forcing("The answer is now")], "once a batch"


@pytest.mark.long
def test_a_resumed_run_ends_with_the_same_probe(tmp_path: Path) -> None:
    reward, model = Reward(create("credit", "rlcm")), str(EMBEDDED)
    whole = trainer(tmp_path / "whole", reward, load_model(model, "cpu")[0], steps=4, max_completion_length=96)
    whole.train()
    assert "probe_loss" in whole.state.log_history[-2]
    first = trainer(
        tmp_path / "cut", reward, load_model(model, "cpu")[0], steps=2, max_completion_length=96, save_strategy="steps",
        save_steps=2,
    )  # fmt: skip
    first.train()
    again = trainer(tmp_path / "cut", reward, load_model(model, "cpu")[0], steps=4, max_completion_length=96)
    again.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-2"))
    for own, other in zip(whole.beside.probe.net.parameters(), again.beside.probe.net.parameters(), strict=True):
        assert torch.equal(own, other)
    for own, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(own, other)
