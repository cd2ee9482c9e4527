"""The slow way, written from the cards: one prefix at a time, text joined first, one sequence a batch, no cache, no packing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from footfall.types import Judge, Problem, Step, Trajectory

TOLERANCE = 2e-5
"""Float32, another batch shape: sums are made in another order."""

QUESTION = "Janet has 16 eggs. She eats 3 and bakes with 4. How many are left?"
STEPS = ("She uses 3 + 4 = 7 eggs.", "So 16 - 7 = 9 are left.", "The answer is 9.")


def trace(*steps: str, question: str = QUESTION, id: str = "t") -> Trajectory:
    return Trajectory(id, Problem(f"p-{question}", question), tuple(Step(s) for s in steps or STEPS))


def hidden(model: Any, ids: Sequence[int]) -> Tensor:
    """Last hidden states (T, H) of one sequence."""
    with torch.inference_mode():
        found: Tensor = model.model(input_ids=torch.tensor([list(ids)])).last_hidden_state[0].float()
    return found


def next_logits(model: Any, ids: Sequence[int]) -> Tensor:
    """Vocabulary logits (T, V) of one sequence."""
    with torch.inference_mode():
        found: Tensor = model(input_ids=torch.tensor([list(ids)])).logits[0].float()
    return found


def prefix_by_prefix(score: Callable[[list[str]], float], steps: Sequence[str]) -> list[float]:
    """The score of each prefix's last step."""
    return [score(list(steps[: k + 1])) for k in range(len(steps))]


def values(judge: Judge, trajectory: Trajectory) -> list[float | None]:
    return list(judge.judge([trajectory])[0].values)
