"""RLCM's probe as a judge that stands alone, and how well its confidences hold on held-out problems."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch

from footfall import cli
from footfall.loading import load_model
from footfall.policy.embedded import EMBEDDED
from footfall.registry import create
from footfall.render import prompt_ids, template_for
from footfall.reward.confidence_probe import STATES
from footfall.reward.prm import PRM
from footfall.rl.confidence import ConfidenceProbe, states_at
from footfall.rl.loop import Watch
from footfall.rl.monitors import Logged, measure
from footfall.rl.online import Sequences
from footfall.types import Judgement, Problem, Step, Trajectory
from tests.rl.runs import events, weights, words
from tests.rl.test_rl_kills import Killed

PROBLEM = Problem("p", "Compute 37 - 12 - 4.")
TEXTS = ("We start with 37 - 12 = 25.", "Now 25 - 4 = 21.", "The answer is 21.")


def test_alone_it_says_what_it_says_beside_the_policy(tmp_path: Path) -> None:
    model, tokenizer = load_model(str(EMBEDDED), "cpu", torch.float32)
    template = template_for(tokenizer)
    probe = ConfidenceProbe(int(model.config.hidden_size), seed=5)
    probe.save_prm(tmp_path / "probe", model, tokenizer, template, "\n")
    assert all(weight.requires_grad for weight in model.parameters()), "the policy can be trained on"
    steps = [tokenizer.encode(text + "\n", add_special_tokens=False) for text in TEXTS]
    ids = torch.tensor([[*prompt_ids(tokenizer, PROBLEM, template), *(token for step in steps for token in step)]])
    batch = Sequences(ids, torch.ones_like(ids), sum(map(len, steps)))
    (states,) = states_at(model, batch, [np.array([*map(len, steps)])])
    judge = create("reward", "step-head", path=str(tmp_path / "probe"), device="cpu")
    trace = Trajectory("t", PROBLEM, tuple(map(Step, TEXTS)), separator="\n")
    (said,) = judge.judge([trace])
    assert said.values[:-1] == pytest.approx(probe.says(states)[:-1], abs=1e-5)


def test_a_step_near_the_start_has_fewer_states() -> None:
    model, tokenizer = load_model(str(EMBEDDED), "cpu", torch.float32)
    head = PRM.from_backbone(model, tokenizer, head={"name": "confidence-probe"}, seed=2).eval().head
    states = torch.randn(1, 6, int(model.config.hidden_size), generator=torch.Generator().manual_seed(0))
    found = head.at(states, torch.tensor([[1, 5]]))
    wanted = head.of(torch.stack([states[0, :2].mean(0), states[0, 6 - STATES :].mean(0)])[None])
    torch.testing.assert_close(found, wanted)


SIZES = ("--updates", "2", "--measured", "8", "--max-tokens", "96", "--credit", "rlcm")


@pytest.mark.long
def test_a_run_leaves_a_probe_that_scores_and_tells_its_calibration_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was killed behind its last checkpoint: the probe that is saved is the one that had learnt."""
    assert cli.main(words(Path("embedded"), tmp_path / "whole", *SIZES)) == 0
    look = Watch.look

    def killed(watch: Watch, update: int) -> None:
        if update == 2:
            raise Killed
        look(watch, update)

    with monkeypatch.context() as once, pytest.raises(Killed):
        once.setattr(Watch, "look", killed)
        cli.main(words(Path("embedded"), tmp_path / "run", *SIZES))
    capsys.readouterr()
    assert cli.main(words(Path("embedded"), tmp_path / "run", *SIZES)) == 0
    assert json.loads(capsys.readouterr().out)["probe"] == str(tmp_path / "run" / "probe")
    figures = [[row["figures"] for row in events(tmp_path / name, "checkpoint")] for name in ("whole", "run")]
    assert figures[0] == figures[1]
    assert all(
        0 <= row["overconfidence"] <= row["confidence_error"] <= 1 and 0 < row["confidence"] < 1 for row in figures[0]
    )
    assert figures[0][0]["confidence"] != figures[0][-1]["confidence"]
    heads = [(tmp_path / name / "probe" / "head.safetensors").read_bytes() for name in ("whole", "run")]
    assert heads[0] == heads[1]
    assert all(
        torch.equal(weight, weights(tmp_path / "run")[name]) for name, weight in weights(tmp_path / "whole").items()
    )
    assert "calibration error" in (tmp_path / "run" / "report.html").read_text()
    rows = tmp_path / "traces.jsonl"
    rows.write_text(json.dumps({"problem": PROBLEM.text, "steps": TEXTS, "separator": "\n"}) + "\n")
    capsys.readouterr()
    given = ("score", str(rows), "--judge", str(tmp_path / "run" / "probe"), "--out", str(tmp_path / "score"))
    assert cli.main([*given, "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["judge"].startswith("step-head@")


@pytest.mark.parametrize(
    ("sure", "right", "error", "over"),
    [
        ([0.75, 0.75, 0.75, 0.75], [True, True, True, False], 0.0, 0.0),
        ([0.9, 0.2], [False, True], 0.85, 0.45),
        ([0.5], [None], None, None),
    ],
)
def test_the_calibration_error_of_whole_completions(
    sure: list[float], right: list[bool | None], error: float | None, over: float | None
) -> None:
    rows = [
        Logged(Trajectory("t", PROBLEM, (Step("4"),), "4", each), Judgement("t", (None,), "j"), None, 1, confidence=c)
        for c, each in zip(sure, right, strict=True)
    ]
    found = measure(rows)
    assert found["confidence"] == pytest.approx(np.mean(sure)) and found["confidence_error"] == pytest.approx(error)
    assert found["overconfidence"] == pytest.approx(over)
