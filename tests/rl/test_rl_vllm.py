"""TRL's vLLM writes the completions, in the process that trains: real vLLM, on a CPU too.

It runs where vLLM can be imported by this Python, or by the one that FOOTFALL_VLLM_PYTHON names, which needs footfall[rl] too.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from footfall.policy.embedded import EMBEDDED
from tests.policy.vllm_here import PYTHON, environment, need_vllm

pytestmark = pytest.mark.long
SCRIPT = Path(__file__).with_name("colocated.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of four updates with a process reward."""
    need_vllm()
    folder = tmp_path_factory.mktemp("colocated")
    done = subprocess.run(
        [PYTHON, str(SCRIPT), str(EMBEDDED), str(folder)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return found


def test_completions_come_back_in_their_own_ids_and_are_cut_into_steps(told: dict[str, Any]) -> None:
    for each in told["seen"]:
        assert each["same_ids"] and each["steps"] > 1, each
        assert each["distinct"] > 8 and each["ended"] > 0, "sixteen samples of four problems, most of them finished"


def test_the_weights_of_every_update_reach_vllm(told: dict[str, Any]) -> None:
    for each in told["seen"]:
        assert each["from_trained"] < 1e-3, "its log-probabilities are those of the weights that are trained"
        assert each["ratios"] == pytest.approx([1.0] * 16, abs=0.02)
    assert told["seen"][0]["from_first"] < 1e-3 < 0.1 < told["seen"][-1]["from_first"], "which have moved since"


def test_advantages_are_those_of_the_credit_token_by_token(told: dict[str, Any]) -> None:
    assert all(each["shape"] and each["as_credited"] for each in told["seen"])
    assert any(each["by_token"] for each in told["seen"]), "right and wrong steps of one completion"
    updates = [row for row in told["logged"] if row["event"] == "update"]
    assert [row["update"] for row in updates] == [1, 2, 3, 4] and updates[0]["grad_norm"] > 0
