"""A step of `CreditTrainer` against stock `GRPOTrainer` with transformers' generation: same model, problems, sizes, in one run.

    python -m benchmarks.rl                                              # the embedded model on this CPU
    python -m benchmarks.rl --model Qwen/Qwen2.5-0.5B-Instruct --prompts 16 --tokens 512      # on a CUDA machine

Steps of all kinds take turns, so that a busy machine is busy for all of them; weights stay as they are, so that completions are
of one length. A step is writing, judging, the forward and the backward pass. The prompts' ids are Footfall's for both.
`process` pays steps by a judge beside the outcome. The matrix rate is that of a large product on the same device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from footfall.answers import grade
from footfall.commands._judges import make_judge
from footfall.loading import load_model, quiet
from footfall.policy.embedded import EMBEDDED
from footfall.policy.splitting import trajectory_from_ids
from footfall.registry import create
from footfall.render import prompt_ids, template_for
from footfall.rl.rewards import Reward
from footfall.rl.trainer import CreditTrainer
from footfall.types import Problem
from footfall.worlds import ArithmeticWorld


class Stock(GRPOTrainer):
    """TRL's trainer; only the prompts' ids are given to it."""

    problems: Sequence[Problem] = ()
    asked: Sequence[Problem] = ()

    def _tokenize_prompts(self, prompts: Any) -> Any:
        tokenizer: Any = self.processing_class
        return [prompt_ids(tokenizer, problem, template_for(tokenizer)) for problem in self.asked], None, {}

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.asked = [self.problems[row["problem"]] for row in inputs]
        base: Any = super()
        return base._generate_and_score_completions(inputs)


def trainers(given: argparse.Namespace, folder: str) -> dict[str, Any]:
    problems = ArithmeticWorld().problems(max(given.prompts, 64))
    separator = "\n" if given.model == str(EMBEDDED) else "\n\n"

    def parts() -> tuple[Any, Any, GRPOConfig]:
        dtype = torch.float32 if given.device == "cpu" else torch.bfloat16
        model, tokenizer = load_model(given.model, given.device, dtype)
        args = GRPOConfig(
            folder, per_device_train_batch_size=given.prompts * given.group, num_generations=given.group,
            max_completion_length=given.tokens, use_cpu=given.device == "cpu", bf16=given.device != "cpu", report_to="none",
            save_strategy="no", gradient_checkpointing=False, temperature=1.0,
        )  # fmt: skip
        return model, tokenizer, args

    def outcome(completion_ids: Any, problem: Sequence[int], **_: Any) -> list[float | None]:
        tokenizer: Any = stock.processing_class
        found = [
            trajectory_from_ids(problems[at], ids, tokenizer, separator).trajectory
            for at, ids in zip(problem, completion_ids, strict=True)
        ]
        return [float(grade(trace).correct or 0) for trace in found]

    model, tokenizer, args = parts()
    rows = Dataset.from_list([{"prompt": problem.text, "problem": i} for i, problem in enumerate(problems)])
    stock: Any = Stock(model=model, reward_funcs=outcome, args=args, train_dataset=rows, processing_class=tokenizer)
    stock.problems = problems
    judge = make_judge(given.judge, {}, {"device": given.device})
    rewards = {
        "outcome": Reward(create("credit", "grpo")),
        "process": Reward(create("credit", "capo"), judge),
    }
    made = {"stock": stock}
    for name, reward in rewards.items():
        model, tokenizer, args = parts()
        made[name] = CreditTrainer(model, tokenizer, problems, reward, args, separator=separator)
    for each in made.values():
        each.model.train()
        each.current_gradient_accumulation_steps = 1
    return made


def step(trainer: Any, rows: Sequence[dict[str, Any]], at: int) -> dict[str, float]:
    """One step; seconds of its parts, and the tokens of the completions."""
    trainer.state.global_step = at
    before = dict(getattr(trainer, "seconds", {}))
    begun = _now()
    batch = trainer._generate_and_score_completions([dict(row) for row in rows])
    written = _now()
    torch.autograd.backward([trainer.compute_loss(trainer.model, batch)])
    ended = _now()
    trainer.model.zero_grad(set_to_none=True)
    found = {
        "step": ended - begun,
        "training": ended - written,
        "writing": written - begun,
        "tokens": float(batch["completion_mask"].sum()),
        "trained": float(batch["prompt_mask"].sum() + batch["completion_mask"].sum()),
    }
    for name in ("writing", "judging"):
        if name in getattr(trainer, "seconds", {}):
            found[name] = trainer.seconds[name] - before.get(name, 0.0)
    return found


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def matrix_rate(device: str) -> float:
    """FLOP/s of a product of two large matrices."""
    size, dtype = (1024, torch.float32) if device == "cpu" else (8192, torch.bfloat16)
    a = torch.randn(size, size, device=device, dtype=dtype)
    times = []
    for _ in range(6):
        begun = _now()
        torch.mm(a, a)
        times.append(_now() - begun)
    return 2 * size**3 / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(EMBEDDED))
    parser.add_argument("--judge", default="truth-arithmetic", help="of the process reward: a PRM's folder, or a name")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128, help="most of a completion")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, quiet():
        made = trainers(given, folder)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in made}
        for at in range(given.rounds + 1):
            first = at * given.prompts % 32
            rows = [{"prompt": "", "problem": first + i // given.group} for i in range(given.prompts * given.group)]
            for name, trainer in made.items():
                taken = step(trainer, rows, at)
                if at:  # the first is for warming up
                    found[name].append(taken)
    middle = {
        name: {part: statistics.median(row[part] for row in rows if part in row) for part in rows[0]}
        for name, rows in found.items()
    }

    def ratio(slow: str, fast: str, part: str) -> float:
        """Of neighbours in time, the median."""
        return statistics.median(a[part] / b[part] for a, b in zip(found[slow], found[fast], strict=True))

    own = middle["outcome"]
    weights = made["outcome"].model.num_parameters()
    rate = own["trained"] / own["training"]
    told = {
        "device": given.device, "model": given.model.rpartition("/")[2], "completions": given.prompts * given.group,
        "seconds": {name: {part: round(value, 3) for part, value in row.items()} for name, row in middle.items()},
        "faster_than_stock": round(ratio("stock", "outcome", "step"), 2),
        "faster_writing": round(ratio("stock", "outcome", "writing"), 2),
        "process_over_outcome": round(ratio("process", "outcome", "step"), 3),
        "judging_share": round(statistics.median(p["judging"] / p["step"] for p in found["process"]), 4),
        "tokens_trained_per_second": round(rate),
        "share_of_matrix_rate": round(6 * weights * rate / matrix_rate(given.device), 3),
    }  # fmt: skip
    sys.stdout.write(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
