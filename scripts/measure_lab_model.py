"""Measure the lab's model on held-out problems of every world and tier, at temperature 1.

accuracy     right answers of single samples; in the same way when it is asked to check its steps
errors       what the first wrong step is: the kind of wrong decision that the scripted writers make, another one, or words
             that cannot be read
entropy      nats before tokens at which two decisions part, before tokens that open a step, and before all others
probe        AUC of a linear layer on the last states at step ends: right steps against first errors, and right steps
             against wrong ones and what is built on them; fitted on traces of training problems

python -m scripts.measure_lab_model runs/lab/model --to measured.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from footfall.metrics.steps import auc
from footfall.policy.embedded import CHECKING
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy, next_tokens
from footfall.render import encode
from footfall.store.processes import Processes, worker_processes
from footfall.types import Trajectory
from footfall.worlds import StepTruth
from footfall.worlds.code.world import in_reference_names
from footfall.worlds.multilingual import canonical, translate_problem
from footfall.worlds.world import Split, Tier
from scripts.train_lab_model import PLACES, TIERS, say

PARAMS = SamplingParams(max_tokens=384, seed=1)
OPENS, DECIDES, FORCED = "opening", "decision", "other"


class Checked(NamedTuple):
    """One trace: whether its answer is right, the class of each step, and what its first wrong step is."""

    correct: bool
    truths: tuple[StepTruth | None, ...]
    error: str | None
    partings: tuple[tuple[int, ...], ...]
    """Where in each step's text, up to the first error, another decision would read otherwise."""


def sampled(policy: TorchPolicy, name: str, tier: Tier, n: int, split: Split) -> list[Trajectory]:
    """One solution of each of `n` problems."""
    place = PLACES[name]
    world = place.world(tier)
    problems = [
        translate_problem(p, place.language) if place.language != "en" else p for p in world.problems(n, 1, split)
    ]
    prefixes = [world.prefix(problem) for problem in problems]
    rows = policy.sample(prefixes, 1, PARAMS)
    return [row[0].after(prefix, policy.name) for prefix, row in zip(prefixes, rows, strict=True)]


def checked(name: str, tier: Tier, trace: Trajectory) -> Checked:
    """What the world says of a trace, and what the writer that was imitated might have written instead."""
    place = PLACES[name]
    world = place.world(tier)
    if place.language != "en":
        trace = canonical(trace)
    if name == "code":
        trace = in_reference_names(trace)
    truths = tuple(world.check(trace))
    first = next((i for i, truth in enumerate(truths) if truth is not StepTruth.RIGHT), None)
    writer = place.policy.new_writer(trace.problem)
    error, partings = None, []
    for k, step in enumerate(trace.steps[: len(truths) if first is None else first + 1]):
        state = writer.read(trace.prefix(k))
        moves = [] if state.answer is not None else writer.possible(state)
        own = next(((m, i) for m in moves for i, w in enumerate(m.wordings) if m.text(w) == step.text), None)
        if own is not None:
            partings.append(_partings(step.text, own, moves))
        if k == first:
            after = writer.read(trace.prefix(k + 1))
            said = truths[k] is not None and after != state and not getattr(after, "broken", False)
            error = own[0].kind if own is not None else "another" if said else "words"
    return Checked(bool(world.graded(trace).correct), truths, error, tuple(partings))


def _partings(text: str, own: tuple[Any, int], moves: Sequence[Any]) -> tuple[int, ...]:
    """The places at which the same wording of another move is different for the first time."""
    found = set()
    for move in moves:
        if move is not own[0] and own[1] < len(move.wordings):
            other = move.text(move.wordings[own[1]])
            found.add(
                next(
                    (i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other))
                )
            )
    return tuple(sorted(found))


def entropies(policy: TorchPolicy, traces: Sequence[Trajectory], found: Sequence[Checked]) -> dict[str, float]:
    """Mean entropy by what a token does, over steps that the scripted writer could have written."""
    told: dict[str, list[float]] = {OPENS: [], DECIDES: [], FORCED: []}
    for trace, thought, each in zip(traces, next_tokens(policy, traces), found, strict=True):
        at = 0
        for k, step in enumerate(trace.steps):
            ids = step.token_ids or ()
            if k < len(each.partings):
                starts = np.cumsum([0] + [len(policy.tokenizer.decode([i])) for i in ids])
                deciding = {int(np.searchsorted(starts, place, side="right")) - 1 for place in each.partings[k]}
                for j, entropy in enumerate(thought.entropy[at : at + len(ids)]):
                    told[DECIDES if j in deciding else OPENS if j == 0 else FORCED].append(entropy)
            at += len(ids)
    return {kind: round(float(np.mean(values)), 4) if values else 0.0 for kind, values in told.items()}


@torch.inference_mode()
def states(policy: TorchPolicy, traces: Sequence[Trajectory], rows: int = 64) -> list[torch.Tensor]:
    """(S, H) for each trace: the last states at its step ends."""
    found = []
    model: Any = policy.engine.model
    for at in range(0, len(traces), rows):
        readings = [encode(policy.tokenizer, trace, policy.template) for trace in traces[at : at + rows]]
        longest = max(len(reading.ids) for reading in readings)
        ids = torch.tensor([[*r.ids, *[0] * (longest - len(r.ids))] for r in readings], device=model.device)
        states_NTH = model.model(input_ids=ids, use_cache=False).last_hidden_state.float()
        found += [states_NTH[i, list(r.positions)].cpu() for i, r in enumerate(readings)]
    return found


def probe(train: tuple[torch.Tensor, torch.Tensor], test: tuple[torch.Tensor, torch.Tensor]) -> float | None:
    """AUC on the test states of logistic regression, with a little weight decay, on the training states."""
    states_NH, right_N = train
    if any(len(set(right.tolist())) < 2 for _, right in (train, test)):
        return None
    mean, scale = states_NH.mean(0), states_NH.std(0) + 1e-6
    layer = torch.nn.Linear(states_NH.shape[1], 1)
    torch.nn.init.zeros_(layer.weight)
    optimizer: Any = torch.optim.LBFGS(layer.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimizer.zero_grad()
        said = layer((states_NH - mean) / scale).squeeze(-1)
        total: Any = functional.binary_cross_entropy_with_logits(said, right_N) + 1e-3 * layer.weight.square().sum()
        total.backward()
        return total

    optimizer.step(loss)
    with torch.inference_mode():
        said = layer((test[0] - mean) / scale).squeeze(-1)
    return round(float(auc(said.numpy(), test[1].numpy())), 4)


def examples(
    found: Sequence[Checked], read: Sequence[torch.Tensor], to_first: bool, answers: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """States and whether the step is right; up to the first error, or all steps whose class is known; or all but the last."""
    kept, right = [], []
    for each, states_SH in zip(found, read, strict=True):
        for truth, state in list(zip(each.truths, states_SH, strict=True))[: None if answers else -1]:
            if truth is None:
                break
            kept.append(state)
            right.append(float(truth is StepTruth.RIGHT))
            if to_first and truth is not StepTruth.RIGHT:
                break
    return torch.stack(kept) if kept else torch.zeros(0, 1), torch.tensor(right)


def measure(policy: TorchPolicy, asked: TorchPolicy, name: str, tier: Tier, n: int, pool: Processes) -> dict[str, Any]:
    """All figures of one place and tier."""
    traces = {split: sampled(policy, name, tier, n, split) for split in ("train", "test")}
    found = {
        split: list(pool.map(checked, repeat(name), repeat(tier), rows, chunksize=8)) for split, rows in traces.items()
    }
    again = list(pool.map(checked, repeat(name), repeat(tier), sampled(asked, name, tier, n // 2, "test"), chunksize=8))
    read = {split: states(policy, rows) for split, rows in traces.items()}
    errors = Counter(each.error for each in found["test"] if each.error is not None)
    facts: dict[str, Any] = {
        "problems": n,
        "accuracy": round(float(np.mean([each.correct for each in found["test"]])), 4),
        "accuracy_checking": round(float(np.mean([each.correct for each in again])), 4),
        "errors": {kind: round(count / sum(errors.values()), 4) for kind, count in errors.most_common()},
        "entropy": entropies(policy, traces["test"], found["test"]) if PLACES[name].language == "en" else None,
    }
    for key, chosen in (
        ("probe_first_error", (True,)),
        ("probe_all_steps", (False,)),
        ("probe_but_answers", (False, False)),
    ):
        facts[key] = probe(*(examples(found[split], read[split], *chosen) for split in ("train", "test")))
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--to", type=Path, default=Path("measured.json"))
    parser.add_argument(
        "--problems", type=int, default=500, help="of each split, world and tier; a third in other languages"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default=None)
    parser.add_argument(
        "--only", nargs="+", default=list(PLACES), help="these worlds; the figures of others in --to stay"
    )
    args = parser.parse_args()
    policy, asked = (
        TorchPolicy.load(args.model, args.device, label="lab", template=each, cache_bytes=1 << 30)
        for each in (None, CHECKING)
    )
    facts: dict[str, Any] = json.loads(args.to.read_text()) if args.to.exists() else {}
    with worker_processes(args.workers, lambda: f"the figures of {args.model}", "pass fewer --workers") as pool:
        for name, place in ((name, PLACES[name]) for name in args.only):
            n = args.problems if place.language == "en" else args.problems // 3
            for tier in list(TIERS)[: None if place.language == "en" else 1]:
                facts[f"{name}/{tier}"] = measure(policy, asked, name, tier, n, pool)
                say(f"{name}/{tier} {json.dumps(facts[f'{name}/{tier}'])}")
                args.to.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
