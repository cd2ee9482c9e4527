"""The lab's model, as it ships: its size, what it writes in each world, and that it is the one that was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from footfall.policy.lab import LAB, lab
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.types import Trajectory
from footfall.worlds import AlgebraWorld, ArithmeticWorld, CodeWorld, LogicWorld
from footfall.worlds.world import World

torch.set_num_threads(1)
MEASURED = json.loads((Path(__file__).parents[2] / "docs" / "lab_model.json").read_text(encoding="utf-8"))["measured"]
WORLDS: tuple[World, ...] = (ArithmeticWorld(), LogicWorld(), AlgebraWorld(), CodeWorld())
CANARIES = (
    "First, 45 - 4 = 41.\nThen 41 * 6 = 246.\nThen 246 / 2 = 123.\nThen 123 - 50 = 73.\nThen 73 - 48 = 25.\n"
    "Then 25 / 5 = 5.\nThe answer is 5.\n",
    "Since every vug is a dax, Tim is a dax.\nSince every dax is a gorp, Tim is a gorp.\nThe answer is: Tim is a gorp.\n",
    "Expand the brackets: 9x + 36 = -72.\nSubtract 36 from both sides: 9x = -108.\nDivide both sides by 9: x = -12.\n"
    "The answer is x = -12.\n",
    "def work(low, second):\n    total = 0\n    for pos in range(low, second):\n        if pos % 3 == 0:\n"
    "            total += pos\n    return total\n# The answer is [0, 3, 9, 0, 0, 0].\n",
)
"""What it writes greedily for the first test problem of each."""


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    return lab()


def drawn(policy: TorchPolicy, world: World, n: int, params: SamplingParams) -> list[Trajectory]:
    prefixes = [world.prefix(problem) for problem in world.problems(n, seed=1, split="test")]
    rows = policy.sample(prefixes, 1, params)
    return [world.graded(row[0].after(prefix, policy.name)) for prefix, row in zip(prefixes, rows, strict=True)]


def test_it_is_small_enough_to_ship() -> None:
    assert sum(file.stat().st_size for file in LAB.iterdir()) < 20_000_000
    assert not [file.name for file in LAB.iterdir() if file.suffix not in (".json", ".safetensors")]


@pytest.mark.long
def test_greedily_it_writes_what_it_wrote_when_it_was_shipped(policy: TorchPolicy) -> None:
    """The canary: other weights, another tokenizer or another prompt format show here."""
    for world, text in zip(WORLDS, CANARIES, strict=True):
        (trace,) = drawn(policy, world, 1, SamplingParams(temperature=0.0, max_tokens=200))
        assert trace.text == text


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.domain)
def test_a_single_sample_solves_about_the_measured_share(policy: TorchPolicy, world: World) -> None:
    traces = drawn(policy, world, 32, SamplingParams(max_tokens=300, seed=2))
    share = sum(bool(trace.correct) for trace in traces) / len(traces)
    assert abs(share - MEASURED[f"{world.domain}/default"]["accuracy"]) < 0.26, "three standard errors"


def test_what_was_measured_is_what_the_lab_needs() -> None:
    for name, facts in MEASURED.items():
        if name.endswith("/default"):
            assert 0.25 <= facts["accuracy"] <= 0.5, name
        if facts["probe_first_error"] is not None:
            assert min(facts["probe_first_error"], facts["probe_all_steps"]) >= 0.9, name
            assert facts["errors"].get("words", 0.0) < 0.05, name


def test_a_prm_can_be_made_of_it(policy: TorchPolicy) -> None:
    traces = drawn(policy, LogicWorld(), 2, SamplingParams(max_tokens=200))
    judged = PRMJudge(PRM.from_backbone(LAB, seed=0)).judge(traces)
    assert [len(each.values) for each in judged] == [len(trace.steps) for trace in traces]
