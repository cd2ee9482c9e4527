"""A few updates whose completions vLLM writes in this very process (TRL's `vllm_mode="colocate"`), and what was seen of each.

    python tests/rl/colocated.py MODEL FOLDER

A process of its own: vLLM makes its process a group of one, and there is room for one of its engines.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import vllm._custom_ops
from trl.generation import vllm_generation

from footfall.loading import load_model
from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.rl import loop
from footfall.rl.online import scored
from footfall.rl.rewards import Reward
from footfall.rl.settings import RlSettings
from footfall.rl.trainer import CreditTrainer, _sequences
from footfall.worlds import ArithmeticWorld

SAMPLING = SamplingParams(temperature=0.8, max_tokens=96)


class Watched(CreditTrainer):
    """Keeps what TRL has of a batch before it is credited, and what becomes of it."""

    seen: list[dict[str, Any]] = []  # noqa: RUF012

    def _credit(self, output: dict[str, Any]) -> dict[str, Any]:
        own = output["completion_mask"].bool()
        told, trained = output["sampling_per_token_logps"], output["old_per_token_logps"]
        assert self.beside.reference is not None
        first = scored(self.beside.reference, _sequences(output), SAMPLING.temperature)
        ids = [row[mask].tolist() for row, mask in zip(output["completion_ids"], own, strict=True)]
        said = super()._credit(output)
        given = said["advantages"]
        self.seen.append(
            {
                "from_trained": (told - trained)[own].abs().max().item(),
                "from_first": (told - first)[own].abs().max().item(),
                "ratios": output["importance_sampling_ratio"].flatten().tolist(),
                "same_ids": ids == [list(each.ids) for each in self.batch],
                "distinct": len({tuple(row) for row in ids}),
                "ended": sum(row[-1] == self.processing_class.eos_token_id for row in ids),
                "steps": max(len(each.trajectory.steps) for each in self.batch),
                "right": sum(each.trajectory.correct is True for each in self.batch),
                "shape": list(given.shape) == list(said["completion_ids"].shape),
                "by_token": any(len(set(row[mask].tolist())) > 1 for row, mask in zip(given, own, strict=True)),
                "as_credited": all(
                    row[: len(each.ids)].tolist() == torch.tensor(each.advantages, dtype=torch.float32).tolist()
                    for row, each in zip(given, self.batch, strict=True)
                ),
            }
        )
        return said


def main(source: str, folder: str) -> None:
    # On a CPU vLLM packs its weights anew and forgets where they were, so that TRL could not send it others.
    vllm._custom_ops._supports_onednn = False
    # TRL leaves vLLM to compile for minutes and to choose bfloat16; float32 lets log-probabilities be compared.
    engine: Any = vllm_generation
    engine.LLM = partial(engine.LLM, enforce_eager=True, dtype="float32")
    loop.__dict__["CreditTrainer"] = Watched
    model, tokenizer = load_model(source, "cpu", torch.float32)
    world = ArithmeticWorld()
    reward = Reward(create("credit", "capo"), create("labeller", "truth-arithmetic", consequent=1.0))
    setting = loop.Setting(
        model, tokenizer, world.problems(32), world.problems(4, split="test"), reward, SAMPLING, "\n", writer="trl",
        vllm={"max_model_length": 256},
    )  # fmt: skip
    settings = RlSettings(4, prompts=4, group=4, lr=3e-3, checkpoint_every=2, measured=4)
    logged: list[dict[str, Any]] = []
    trained = loop.train_policy(
        setting, settings, Path(folder), told=lambda event, facts: logged.append({"event": event, **facts})
    )
    found = {"seen": Watched.seen, "logged": logged, "seconds": dict(trained.seconds), "model": str(trained.folder)}
    (Path(folder) / "seen.json").write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
