"""Published scores of published checkpoints, where the weights are in the hub's cache.

The authors' examples are not ours to copy: each is read from a JSON file (`question`, `steps`, and `answer` where the model
is shown one) in the folder that FOOTFALL_GOLDEN names. Run by `pytest -m long`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from footfall.reward.checkpoint import checkpoint
from footfall.types import Problem, Step, Trajectory

pytestmark = pytest.mark.long


class Golden(NamedTuple):
    """What the authors say that their checkpoint says of their example."""

    hub_id: str
    example: str
    values: tuple[float, ...]
    redundancy: tuple[float, ...] = ()
    family: str | None = None


GOLDEN = [
    Golden(
        "GAIR/ReasonEval-7B", "reasoneval",
        (0.9492, 0.7863, 0.2520, 0.7860, 0.9125, 0.5916, 0.4494, 0.8189, 0.8240, 0.2671),
        (0.4433, 0.1287, 0.0397, 0.0789, 0.0789, 0.0509, 0.0487, 0.0702, 0.0955, 0.0120),
    ),
    Golden(
        "GAIR/ReasonEval-34B", "reasoneval",
        (0.9360, 0.6813, 0.0720, 0.2811, 0.4531, 0.1122, 0.1328, 0.2026, 0.2265, 0.1163),
        (0.6060, 0.1682, 0.0258, 0.1044, 0.1604, 0.0404, 0.0447, 0.0507, 0.0492, 0.0236),
    ),
    Golden("peiyi9979/math-shepherd-mistral-7b-prm", "math-shepherd-18", (0.9955, 0.9958, 0.9983, 0.9957)),
    Golden("peiyi9979/math-shepherd-mistral-7b-prm", "math-shepherd-17", (0.9955, 0.9958, 0.9983, 0.0240)),
    Golden("sail/ActPRM", "actprm", (0.99937, 0.23168, 0.73117, 0.83145)),
    Golden(
        "infly/Universal-PRM-7B", "universal-prm", (0.73828, 0.72656, 0.73047, 0.73828, 0.73438),
        family="universal-prm-reference",
    ),
]  # fmt: skip
TOLERANCE = 0.02
"""The authors ran some of these in bfloat16, and so does CUDA here."""


def cached(hub_id: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(hub_id, "config.json"), str)


def example(name: str) -> Trajectory:
    path = Path(os.environ.get("FOOTFALL_GOLDEN", "")) / f"{name}.json"
    if "FOOTFALL_GOLDEN" not in os.environ or not path.is_file():
        pytest.skip(f"FOOTFALL_GOLDEN names no folder with {name}.json")
    given = json.loads(path.read_text(encoding="utf-8"))
    problem = Problem(name, given["question"], answer=given.get("answer"))
    return Trajectory(name, problem, tuple(Step(text) for text in given["steps"]))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"{golden.hub_id}-{golden.example}")
def test_a_published_checkpoint_says_what_its_authors_say_it_says(golden: Golden) -> None:
    if not cached(golden.hub_id):
        pytest.skip(f"{golden.hub_id} is not in the hub's cache")
    judgement = checkpoint(golden.hub_id, golden.family).judge([example(golden.example)])[0]
    assert list(judgement.values) == pytest.approx(golden.values, abs=TOLERANCE)
    assert list(judgement.aspects.get("redundancy", ())) == pytest.approx(golden.redundancy, abs=TOLERANCE)
