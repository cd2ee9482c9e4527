"""A step of `CreditTrainer` against stock `GRPOTrainer` with transformers' generation: same model, problems, sizes, in one run.

    python -m benchmarks.rl                                              # the embedded model on this CPU
    python -m benchmarks.rl --model Qwen/Qwen2.5-0.5B-Instruct --prompts 16 --tokens 512      # on a CUDA machine
    python -m benchmarks.rl --shape qwen2-0.5b --prompts 16 --tokens 256        # the same without a file: random weights

Steps of all kinds take turns, so that a busy machine is busy for all of them: in a round stock makes one, and the two others
two each (one, the other, the other, the one). Figures are medians of rounds. Weights stay as they are, so that completions
are of one length, and those of outcome and process are the same. A step is writing, judging, the forward and the backward
pass. The prompts' ids are Footfall's for both; both train on the same number of completions, each whole, in one update; stock
pads them to the longest prompt and completion.
`process` pays steps by a judge beside the outcome; `--judge same` is a PRM of the policy's own size. With `--cached` it has the
prefix cache that it has in a search, where `footfall rl` has it read each batch as one row and keep nothing. On the CPU seconds
are CPU seconds of the process, which do not count what others do there; `by_the_clock` has the ratios of wall-clock seconds.
The matrix rate is that of a large product on the same device. Tokens trained are those of prompts and completions as a batch
has them, each prompt with every completion; tokens run went through the model, padding too, and the share of the matrix rate is
theirs.

Random weights never end a completion, so all have --tokens tokens; one id in 24 ends a step, and the judge is a PRM of the same
shape, with random weights too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from footfall.answers import grade
from footfall.commands._judges import make_judge
from footfall.judging import keep_nothing
from footfall.loading import load_model, quiet
from footfall.policy.embedded import EMBEDDED
from footfall.policy.splitting import trajectory_from_ids
from footfall.registry import create
from footfall.render import Template, prompt_ids, template_for
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.rl.rewards import Reward
from footfall.rl.trainer import CreditTrainer
from footfall.types import Judge, Problem
from footfall.worlds import ArithmeticWorld

SHAPES: dict[str, dict[str, Any]] = {
    "qwen2-0.5b": {
        "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2,
    },
    "narrow": {
        "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2,
    },
}  # fmt: skip


def shaped(shape: str, folder: Path, device: str) -> PRMJudge:
    """A model with random weights goes into the folder, with a tokenizer of as many ids; the judge is one of its shape."""
    torch.manual_seed(0)
    config = Qwen2Config(**SHAPES[shape], max_position_embeddings=4096, tie_word_embeddings=True, eos_token_id=0)
    letters = sorted(ByteLevel.alphabet())
    words = [f"w{i}" + ("\u010a\u010a" if i % 24 == 23 else "\u0120") for i in range(config.vocab_size - len(letters))]
    plain = Tokenizer(BPE({word: i for i, word in enumerate(words + letters)}, []))
    plain.pre_tokenizer, plain.decoder = ByteLevel(add_prefix_space=False), ByteLevelDecoder()
    wrap: Any = PreTrainedTokenizerFast
    tokenizer = wrap(tokenizer_object=plain, eos_token=words[0], pad_token=words[0])
    build: Any = Qwen2ForCausalLM
    with torch.device(device):
        model = build(config)
    model.to(_dtype(device)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # As the policy reads it from there: a judge with another vocabulary would be given texts, each word in letters.
    _, own = load_model(folder, device, _dtype(device))
    prm = PRM.from_backbone(model.train(False), own, template=Template("plain", prompt_end="\n\n"), seed=1).eval()
    return PRMJudge(prm.to(device), cache_tokens=0, compile=False)


def _dtype(device: str) -> torch.dtype:
    return torch.float32 if device == "cpu" else torch.bfloat16


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
    if given.shape is not None:
        given.model = f"{folder}/{given.shape}"
        judge: Judge = shaped(given.shape, Path(given.model), given.device)
    elif given.judge == "same":
        backbone, tokenizer = load_model(given.model, given.device, _dtype(given.device))
        prm = PRM.from_backbone(backbone.train(False), tokenizer, seed=1).eval()
        judge = PRMJudge(prm, cache_tokens=1 << 16 if given.device == "cpu" else 0, compile=False)
    else:
        judge = make_judge(given.judge, {}, {"device": given.device})
    if not given.cached:
        keep_nothing(judge)  # as `footfall rl` does
    problems = ArithmeticWorld().problems(max(given.prompts, 64))
    separator = "\n" if given.model == str(EMBEDDED) else "\n\n"

    def parts() -> tuple[Any, Any, GRPOConfig]:
        model, tokenizer = load_model(given.model, given.device, _dtype(given.device))
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
    """One step; seconds of its parts (writing includes judging), the share of judging, and the tokens of the completions."""
    trainer.state.global_step = at
    before, clock = dict(getattr(trainer, "seconds", {})), time.perf_counter()
    begun = _now()
    batch = trainer._generate_and_score_completions([dict(row) for row in rows])
    written = _now()
    read: list[int] = []
    watch = trainer.model.get_input_embeddings().register_forward_hook(lambda _, ids, __: read.append(ids[0].numel()))
    torch.autograd.backward([trainer.compute_loss(trainer.model, batch)])
    ended, clock = _now(), time.perf_counter() - clock
    watch.remove()
    trainer.model.zero_grad(set_to_none=True)
    found = {
        "step": ended - begun,
        "training": ended - written,
        "writing": written - begun,
        "clock": clock,
        "tokens": float(batch["completion_mask"].sum()),
        "trained": float(batch["prompt_mask"].sum() + batch["completion_mask"].sum()),
        "run": float(sum(read)),
    }
    if hasattr(trainer, "seconds"):
        found["judging"] = (trainer.seconds["judging"] - before.get("judging", 0.0)) / clock
    return found


def _now() -> float:
    if not torch.cuda.is_available():
        return time.process_time()
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
    parser.add_argument("--shape", choices=list(SHAPES), help="random weights of this shape instead of a model")
    parser.add_argument(
        "--judge", default="truth-arithmetic", help="of the process reward: a PRM's folder, a name, or same"
    )
    parser.add_argument("--cached", action="store_true", help="the judge keeps what it reads, as in a search (CPU)")
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
            one, other = ("outcome", "process") if at % 2 else ("process", "outcome")
            turns: dict[str, list[dict[str, float]]] = {name: [] for name in made}
            for name in ("stock", one, other, other, one):  # a machine that gets slower or faster does so for both
                turns[name].append(step(made[name], rows, at))
            if at:  # the first round is for warming up
                for name, pair in turns.items():
                    found[name].append({part: statistics.mean(each[part] for each in pair) for part in pair[0]})
    middle = {
        name: {part: statistics.median(row[part] for row in rows if part in row) for part in rows[0]}
        for name, rows in found.items()
    }

    def ratio(slow: str, fast: str, part: str) -> float:
        """Of neighbours in time, the median."""
        return statistics.median(a[part] / b[part] for a, b in zip(found[slow], found[fast], strict=True))

    own = middle["outcome"]
    weights = made["outcome"].model.num_parameters()
    rate, run = (own[tokens] / own["training"] for tokens in ("trained", "run"))
    told = {
        "device": given.device, "model": given.model.rpartition("/")[2], "completions": given.prompts * given.group,
        "seconds": {name: {part: round(value, 3) for part, value in row.items()} for name, row in middle.items()},
        "faster_than_stock": round(ratio("stock", "outcome", "step"), 2),
        "faster_writing": round(ratio("stock", "outcome", "writing"), 2),
        "process_over_outcome": round(ratio("process", "outcome", "step"), 3),
        "by_the_clock": [round(ratio(*pair, "clock"), 3) for pair in (("stock", "outcome"), ("process", "outcome"))],
        "judging_share": round(middle["process"]["judging"], 4),
        "tokens_trained_per_second": round(rate),
        "tokens_run_per_second": round(run),
        "share_of_matrix_rate": round(6 * weights * run / matrix_rate(given.device), 3),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1) if given.device != "cpu" else None,
    }  # fmt: skip
    sys.stdout.write(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
