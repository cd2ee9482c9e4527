"""Train the lab's model: a Llama of nine million parameters that reads and writes all worlds, at both tiers.

It imitates scripted writers whose rates of wrong decisions are in `PLACES`: at temperature 1 it errs where they do, at an
operator, a result, a rule or a line, and goes on from its errors as they do. Nine steps in ten have the first of their
wordings, so that what is uncertain is the decision and not the words. A third of the problems end in "Check each step.": there
errors are mostly noticed and mended. The truth of each step is a second target, read from the last states at its end by a
linear layer that is thrown away: so it is a direction of the states in every world, in code too, where lines cannot be mended.

Writers run in processes of their own and put packed rows into a folder; training takes what is there, new rows first. It stops
after `--minutes`, with a learning rate that falls to zero by then; called again on the same folder it goes on from there.

    python -m scripts.train_lab_model --out runs/lab --minutes 7 --workers 16
    python -m scripts.measure_lab_model runs/lab/model
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from footfall.policy.embedded import CHECKING
from footfall.render import Template
from footfall.store.processes import begun_deaf
from footfall.types import Problem, Step, Trajectory
from footfall.worlds import (
    AlgebraPolicy,
    AlgebraWorld,
    ArithmeticPolicy,
    ArithmeticWorld,
    CodePolicy,
    CodeWorld,
    LogicPolicy,
    LogicWorld,
    OpRates,
    StepTruth,
)
from footfall.worlds.multilingual import LANGUAGES, translate
from footfall.worlds.world import Split, Tier, pick
from scripts.train_embedded import make_tokenizer

WIDTH = 1024
"""Tokens of a row; a longer trace is left out."""
FIRST_WORDING = 0.9
CHECKED = 1 / 3
SKIPPED, WRITTEN, TRUTHS = 0, 1, (StepTruth.WRONG, StepTruth.RIGHT, StepTruth.CONSEQUENT)
"""The role of a token: not to be predicted, to be predicted, or the latter and the end of a step of this class (2, 3, 4)."""

Rows = tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]


class Place(NamedTuple):
    """A world, the writer that is imitated there, the language, and how many traces of a hundred are of it."""

    world: Callable[..., Any]
    policy: Any
    share: float
    language: str = "en"
    solutions: int = 2
    """Traces a problem: where a problem takes long to make there are more."""


_ARITHMETIC = ArithmeticPolicy(
    OpRates(0.11, 0.13, 0.18, 0.16), OpRates(0.12, 0.12, 0.12, 0.12), OpRates(0.5, 0.5, 0.5, 0.5), recover=0.06
)
PLACES: dict[str, Place] = {
    "arithmetic": Place(ArithmeticWorld.at, _ARITHMETIC, 18),
    **{f"arithmetic-{each}": Place(ArithmeticWorld.at, _ARITHMETIC, 4, each) for each in LANGUAGES if each != "en"},
    "logic": Place(LogicWorld.at, LogicPolicy(wrong_rule=0.08, flip=0.42, skip=0.1, recover=0.05), 20, solutions=4),
    "algebra": Place(
        AlgebraWorld.at,
        AlgebraPolicy(misread=0.32, sign=0.16, slip=0.13, division=0.13, lost_root=0.22, skip=0.1, recover=0.08),
        20,
        solutions=4,
    ),
    "code": Place(
        CodeWorld.at,
        CodePolicy(operator=0.09, off_by_one=0.09, variable=0.06, initial=0.13, missing=0.09, recover=0.15),
        18,
        solutions=8,
    ),
}
TIERS: dict[Tier, float] = {"default": 0.65, "hard": 0.35}


def written(
    place: Place, tier: Tier, problems: int, seed: int, split: Split = "train"
) -> Iterator[tuple[bool, Trajectory]]:
    """Traces by the writer of a place, mostly in the first wording, and whether each was asked to check its steps."""
    world, rng = place.world(tier), Random(seed)
    careful = replace(place.policy, recover=0.9)
    for problem in world.problems(problems, seed, split):
        for _ in range(place.solutions):
            checked = rng.random() < CHECKED
            yield checked, _trace(world, (careful if checked else place.policy).writer(problem), problem, rng)


def _trace(world: Any, writer: Any, problem: Problem, rng: Random) -> Trajectory:
    state = writer.read(world.prefix(problem))
    steps = []
    while state.answer is None:
        move = writer.draw(state, rng)
        wording = move.wordings[0] if rng.random() < FIRST_WORDING else pick(rng, move.wordings)
        steps.append(Step(move.text(wording)))
        state = move.after
    trace: Trajectory = world.prefix(problem).extend(steps)
    return trace


class Doc(NamedTuple):
    """What is read and what is to be written, with the class of each step."""

    prompt: str
    solution: str
    truths: tuple[StepTruth | None, ...]


def docs(name: str, tier: Tier, problems: int, seed: int) -> list[Doc]:
    """Training text of one place and tier."""
    place = PLACES[name]
    found = []
    for checked, trace in written(place, tier, problems, seed):
        truths = tuple(place.world(tier).check(trace))
        said = translate(trace, place.language)
        end = (CHECKING if checked else Template()).prompt_end
        found.append(Doc(said.problem.text + end, said.text, truths))
    return found


def mixture(size: int, seed: int) -> list[Doc]:
    """About `size` documents of all places and tiers, in random order."""
    rng = Random(seed)
    total = sum(place.share for place in PLACES.values())
    found: list[Doc] = []
    for name, place in PLACES.items():
        for tier, part in TIERS.items():
            wanted = size * place.share / total * part / place.solutions
            n = int(wanted) + (rng.random() < wanted % 1)
            found += docs(name, tier, n, rng.randrange(1 << 40)) if n else []
    rng.shuffle(found)
    return found


def packed(found: list[Doc], tokenizer: PreTrainedTokenizerFast) -> Rows:
    """(R, WIDTH) ids and roles: whole documents, each put into the fullest of a few open rows that has room for it."""
    (line_end,) = tokenizer.encode("\n", add_special_tokens=False)
    prompts, solutions = (tokenizer([d[i] for d in found], add_special_tokens=False)["input_ids"] for i in (0, 1))
    rows: list[tuple[list[int], list[int]]] = []
    open_rows: list[tuple[list[int], list[int]]] = []
    for prompt, solution, doc in zip(prompts, solutions, found, strict=True):
        ids = [tokenizer.bos_token_id, *prompt, *solution, tokenizer.eos_token_id]
        if len(ids) > WIDTH:
            continue
        roles = [SKIPPED] * (1 + len(prompt)) + [WRITTEN] * (len(solution) + 1)
        closing = [i for i in range(1 + len(prompt), len(ids)) if ids[i] == line_end]
        for at, truth in zip(closing, doc.truths, strict=True):
            if truth is not None:
                # A reader may look at the last word of a step or at the line end after it.
                roles[at] = roles[at - 1] = 2 + TRUTHS.index(truth)
        fitting = [row for row in open_rows if len(row[0]) + len(ids) <= WIDTH]
        row = max(fitting, key=lambda each: len(each[0]), default=None)
        if row is None:
            row = ([], [])
            open_rows.append(row)
        row[0].extend(ids)
        row[1].extend(roles)
        if len(open_rows) > 16:
            open_rows.sort(key=lambda each: len(each[0]))
            rows.append(open_rows.pop())
    rows += open_rows
    ids_RT = np.full((len(rows), WIDTH), tokenizer.pad_token_id, np.uint16)
    roles_RT = np.zeros((len(rows), WIDTH), np.uint8)
    for i, (own, role) in enumerate(rows):
        ids_RT[i, : len(own)], roles_RT[i, : len(own)] = own, role
    return ids_RT, roles_RT


def write_shards(folder: Path, tokenizer_folder: Path, seed: int, sizes: tuple[int, int]) -> None:
    """One process: shards for ever, the first ones small so that training can begin."""
    torch.set_num_threads(1)
    os.nice(5)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_folder)
    done = 0
    while True:
        ids, roles = packed(mixture(sizes[min(done, 1)], seed * 1_000_003 + done), tokenizer)
        part = folder / f"{seed}-{done}.part"
        with part.open("wb") as file:
            np.savez(file, ids=ids, roles=roles)
        part.replace(part.with_suffix(".npz"))
        done += 1


class Pool:
    """All rows so far on the device. A batch is of rows not seen yet in this round; new ones come first."""

    def __init__(self, folder: Path, device: str, seed: int) -> None:
        self.folder, self.device, self.rng = folder, device, np.random.default_rng(seed)
        self.read: set[Path] = set()
        self.ids, self.roles = (
            torch.zeros((0, WIDTH), dtype=kind, device=device) for kind in (torch.int16, torch.uint8)
        )
        self.waiting = np.zeros(0, np.int64)

    def refresh(self) -> None:
        """Take in the shards that have come."""
        new = sorted(set(self.folder.glob("*.npz")) - self.read)
        if not new:
            return
        self.read.update(new)
        loaded = [np.load(path, allow_pickle=False) for path in new]
        ids = torch.from_numpy(np.concatenate([each["ids"] for each in loaded]).astype(np.int16)).to(self.device)
        roles = torch.from_numpy(np.concatenate([each["roles"] for each in loaded])).to(self.device)
        fresh = len(self.ids) + self.rng.permutation(len(ids))
        self.ids, self.roles = torch.cat([self.ids, ids]), torch.cat([self.roles, roles])
        self.waiting = np.concatenate([self.waiting, fresh])

    def batch(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, T) ids and roles."""
        if len(self.waiting) < size:
            self.waiting = np.concatenate([self.rng.permutation(len(self.ids)), self.waiting])
        chosen, self.waiting = self.waiting[-size:], self.waiting[:-size]
        at = torch.from_numpy(chosen).to(self.device)
        return self.ids[at].long(), self.roles[at].long()


def make_model(tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int) -> Any:
    make: Any = LlamaForCausalLM
    return make(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=hidden * 8 // 3 // 32 * 32,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 32,
            num_key_value_heads=max(1, hidden // 64),
            max_position_embeddings=WIDTH,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


class Training(torch.nn.Module):
    """The model and the layer that reads the truth of steps, with their loss."""

    def __init__(self, model: Any, truth_weight: float) -> None:
        super().__init__()
        self.model, self.truth_weight = model, truth_weight
        self.truth = torch.nn.Linear(model.config.hidden_size, len(TRUTHS))

    def forward(self, ids_BT: torch.Tensor, roles_BT: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean loss of the tokens to be written, and of the classes of steps."""
        states_BTH = self.model.model(input_ids=ids_BT, use_cache=False).last_hidden_state
        logits_BTV = self.model.lm_head(states_BTH[:, :-1])
        targets_BT = torch.where(roles_BT[:, 1:] > SKIPPED, ids_BT[:, 1:], -100)
        text = functional.cross_entropy(logits_BTV.float().flatten(0, 1), targets_BT.flatten(), ignore_index=-100)
        classes_BT = torch.where(roles_BT > WRITTEN, roles_BT - 2, -100)
        read = functional.cross_entropy(
            self.truth(states_BTH).float().flatten(0, 1), classes_BT.flatten(), ignore_index=-100
        )
        return text, read


def rate(steps: int, progress: float, warm: int = 200, decay: float = 0.4) -> float:
    """The share of the peak learning rate: up by steps, level, and straight down to zero at the end of the time."""
    return max(0.0, min(1.0, (steps + 1) / warm, (1 - progress) / decay))


@cache
def _started() -> float:
    return time.monotonic()


def say(text: str) -> None:
    sys.stderr.write(f"{time.monotonic() - _started():6.0f}s {text}\n")
    sys.stderr.flush()


def train(args: argparse.Namespace, tokenizer: PreTrainedTokenizerFast, shards: Path) -> dict[str, Any]:
    """Train for the time given and save; returns what was done in all slices."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    if args.init is None:
        model = make_model(tokenizer, args.hidden, args.layers)
    else:
        model = LlamaForCausalLM.from_pretrained(args.init, dtype=torch.float32)
    training: Any = Training(model, args.truth_weight).to(device)
    decayed = [p for p in training.parameters() if p.dim() > 1]
    plain = [p for p in training.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=device == "cuda")
    done, kept = {"slices": 0, "steps": 0, "tokens": 0, "seconds": 0.0}, args.out / "state.pt"
    if kept.exists():
        state = torch.load(kept, map_location=device, weights_only=True)
        training.load_state_dict(state["training"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["done"]
    peak = args.lr * (0.5 if done["slices"] or args.init else 1.0)
    step_of = torch.compile(training) if args.compile else training
    pool = Pool(shards, device, args.seed + done["slices"])
    pool.refresh()
    while len(pool.ids) < args.batch:
        time.sleep(0.5)
        pool.refresh()
    say(f"training begins with {len(pool.ids)} rows")
    start = _started()
    limit = args.minutes * 60
    steps, shown = 0, time.monotonic()
    text = read = torch.zeros(())
    while (progress := (time.monotonic() - start) / limit) < 1 and steps != args.steps:
        for group in optimizer.param_groups:
            group["lr"] = peak * rate(steps, max(progress, steps / args.steps if args.steps else 0.0))
        ids, roles = pool.batch(args.batch)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            text, read = step_of(ids, roles)
        (text + args.truth_weight * read).backward()
        torch.nn.utils.clip_grad_norm_(training.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps += 1
        if steps % args.every == 0:
            pool.refresh()
            now, shown = time.monotonic() - shown, time.monotonic()
            speed = args.every * args.batch * WIDTH / now
            say(f"step {steps} text {text.item():.4f} truth {read.item():.4f} {speed:.0f} tok/s, {len(pool.ids)} rows")
    seconds = time.monotonic() - start
    done = {
        "slices": done["slices"] + 1, "steps": done["steps"] + steps, "tokens": done["tokens"] + steps * args.batch * WIDTH,
        "seconds": round(done["seconds"] + seconds, 1), "rows": len(pool.ids), "text_loss": round(text.item(), 4),
        "truth_loss": round(read.item(), 4),
    }  # fmt: skip
    torch.save({"training": training.state_dict(), "optimizer": optimizer.state_dict(), "done": done}, kept)
    model = training.model.to(torch.bfloat16)
    model.save_pretrained(args.out / "model")
    tokenizer.save_pretrained(args.out / "model")
    return {"parameters": model.num_parameters(), **done}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--minutes", type=float, default=7.0, help="the time of this slice, from the start of the program"
    )
    parser.add_argument(
        "--steps", type=int, default=0, help="stop after so many steps, if the time has not run out before"
    )
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64, help="rows of 1,024 tokens")
    parser.add_argument("--hidden", type=int, default=320)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--truth-weight", type=float, default=0.1)
    parser.add_argument("--docs", type=int, nargs=2, default=(150, 1500), help="in a first shard, in a later one")
    parser.add_argument("--every", type=int, default=100, help="steps between two looks for new rows")
    parser.add_argument("--init", type=Path, help="begin with the weights of a model that was saved")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    args = parser.parse_args()
    _started()
    shards, named = args.out / "shards", args.out / "tokenizer"
    shards.mkdir(parents=True, exist_ok=True)
    if not (named / "tokenizer.json").exists():
        pairs = [(doc.prompt, doc.solution) for doc in mixture(4000, seed=args.seed)]
        make_tokenizer(pairs, args.vocab).save_pretrained(named)
    first = len(list(shards.glob("*.npz"))) * 1000  # a later slice writes other text
    spawn = multiprocessing.get_context("spawn")
    jobs = [(shards, named, 1 + args.seed + first + i, tuple(args.docs)) for i in range(args.workers)]
    writers = [spawn.Process(target=write_shards, args=job, daemon=True) for job in jobs]
    with begun_deaf():
        for writer in writers:
            writer.start()
    try:
        facts = train(args, PreTrainedTokenizerFast.from_pretrained(named), shards)
    finally:
        for writer in writers:
            writer.kill()
    facts["arguments"] = {key: value for key, value in vars(args).items() if key != "out"}
    (args.out / "training.json").write_text(json.dumps(facts, indent=2) + "\n")
    sys.stdout.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
