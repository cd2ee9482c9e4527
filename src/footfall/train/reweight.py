"""The PRM trainer with weights of rows that a meta set of graded solutions decides (`footfall.train.row_weights`).

Rows and meta rows are drawn with replacement, all from one seed before the training begins; a run of so many epochs makes as
many updates as that many passes would. After every `unroll` updates the weights make one step of Adam, before the PRM makes
its own along the new ones. A checkpoint also holds the weights and their optimizer, as `row_weights.safetensors`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler
from transformers import TrainingArguments
from transformers.training_args import OptimizerNames

from footfall.formats import atomic_write
from footfall.loading import quiet
from footfall.reward.prm import PRM
from footfall.train.config import TrainConfig
from footfall.train.data import Example, collate, domain_of, make_examples, refuse_shared, split_by_problem
from footfall.train.objectives import By, Objective, Weighing, fitted_to, make_objective
from footfall.train.row_weights import InstanceNet, Table, hypergradient, losses_by_trace
from footfall.train.trainer import StepTrainer, own_randomness, training_arguments
from footfall.types import Json, Judged, Judgement, Trajectory

KEPT = "row_weights.safetensors"


class Draw(NamedTuple):
    """The rows of an update, and of the meta set those of the step that the weights make before it, if they make one."""

    rows: list[int]
    meta: list[int]


def draws(rows: int, meta: int, updates: int, unroll: int, size: int, seed: int) -> list[Draw]:
    """Those of all updates, each row by chance and as often as it comes."""
    generator = torch.Generator().manual_seed(seed)

    def some(of: int) -> list[int]:
        chosen: list[int] = torch.randint(of, (size,), generator=generator).tolist()
        return chosen

    return [Draw(some(rows), some(meta) if update % unroll == unroll - 1 else []) for update in range(updates)]


class _Epoch(Sampler[list[int]]):
    """The draws of the epoch at hand; a run that goes on finds the ones that it was at."""

    def __init__(self, trainer: ReweightingTrainer) -> None:
        self.trainer = trainer
        self.updates = len(trainer.draws) // int(trainer.args.num_train_epochs)

    def __len__(self) -> int:
        return self.updates

    def __iter__(self) -> Iterator[list[int]]:
        first = self.trainer.state.global_step // self.updates * self.updates
        return iter([draw.rows for draw in self.trainer.draws[first : first + self.updates]])


class ReweightingTrainer(StepTrainer):
    """Fits a PRM to rows whose weights it learns; the objective says how (`Objective.weighing`)."""

    def __init__(
        self, model: PRM, objective: Objective, args: TrainingArguments, train: Sequence[Example], *given: Any,
        domains: Sequence[Hashable], meta: Sequence[Example], updates: int, **named: Any,
    ) -> None:  # fmt: skip
        """`domains` are those of the examples; `updates`: in all epochs together."""
        assert objective.weighing is not None
        super().__init__(model, objective, args, train, *given, **named)
        self.weighing: Weighing = objective.weighing
        self.meta = meta
        self.names = list(dict.fromkeys(domains))
        places = {name: k for k, name in enumerate(self.names)}
        self.index_N = torch.tensor([places[domain] for domain in domains])
        by = self.weighing.by
        self.row_weights: nn.Module = InstanceNet(seed=args.seed) if by == "net" else Table(len(self.names), by)
        self.upper = torch.optim.Adam(self.row_weights.parameters(), lr=self.weighing.lr)
        self.draws = draws(len(train), len(meta), updates, self.weighing.unroll, self.batch_size, args.seed)
        self.meta_losses: list[float] = []
        self.tokens_read = 0
        """By the updates, and by the changes of the weights."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches of the draws, which know their rows."""
        rows: Any = list(enumerate(self.examples))

        def numbered(batch: Sequence[tuple[int, Example]]) -> dict[str, Tensor]:
            return {**self._batch([e for _, e in batch]), "rows": torch.tensor([n for n, _ in batch])}

        pinned = self.args.dataloader_pin_memory
        return DataLoader(rows, batch_sampler=_Epoch(self), collate_fn=numbered, pin_memory=pinned)

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], *given: Any) -> Tensor:
        """A step of the weights, if it is time for one, and then one of the PRM."""
        chosen = self.draws[self.state.global_step].meta
        if chosen:
            with _evaluating(model):  # two passes whose difference counts must drop out the same
                self._change_weights(model, self._prepare_inputs(inputs), [self.meta[i] for i in chosen])
        loss: Tensor = super().training_step(model, inputs, *given)
        return loss

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *given: Any, **named: Any) -> Any:
        rows = inputs.pop("rows").cpu()
        self._weights_N = self._weights(model, rows, inputs).detach().to(self.step_model.device)
        self._count(self.examples[n] for n in rows.tolist())
        return super().compute_loss(model, inputs, *given, **named)

    def loss_of(self, logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """The mean of the weighted losses of the traces."""
        return (self._weights_N * losses_by_trace(self.step_objective.loss, logits, targets, mask)).mean()

    def weights(self) -> dict[Hashable, float]:
        """Of each domain, the mean over its traces, as the PRM is now."""
        found: list[Tensor] = []
        with _evaluating(self.step_model), torch.no_grad():
            for n, example in enumerate(self.examples):
                given = self._prepare_inputs(collate([example], self.step_model.pad_id))
                found.append(self._weights(self.step_model, torch.tensor([n]), given))
        each_N = torch.cat(found)
        shares = [float(each_N[self.index_N == k].mean()) for k in range(len(self.names))]
        return dict(zip(self.names, shares, strict=True))

    def write_weights(self, file: Path) -> None:
        """The weights by domain, or of each trace with its id, which others may have too, and the meta losses, as JSON."""
        weights = self.weights()
        found: Any = {str(name): weight for name, weight in weights.items()}
        if self.weighing.domain is None:
            pairs = zip(self.examples, weights.values(), strict=True)
            found = [{"trace": example.trajectory.id, "weight": weight} for example, weight in pairs]
        with atomic_write(file) as stream:
            stream.write(json.dumps({"weights": found, "meta_losses": self.meta_losses}, indent=1).encode())

    def _weights(self, model: nn.Module, rows: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """(N) weights of these rows, on the CPU."""
        if self.weighing.by != "net":
            by_domain: Tensor = self.row_weights(self.index_N[rows])
            return by_domain
        self._count(self.examples[n] for n in rows.tolist())
        with torch.no_grad():
            values_NS = self._log_odds(model, inputs).sigmoid().cpu()
        own_NS = inputs["mask"].cpu()
        by_values: Tensor = self.row_weights(values_NS, own_NS if own_NS.dim() == 2 else own_NS[..., 0])
        return by_values

    def _change_weights(self, model: nn.Module, inputs: dict[str, Tensor], meta: Sequence[Example]) -> None:
        """One step of the weights along the meta loss."""
        inputs = dict(inputs)
        rows = inputs.pop("rows").cpu()
        weights_N = self._weights(model, rows, inputs)
        solutions: dict[str, Tensor] = self._prepare_inputs(self._batch(meta))
        correct_N = solutions["targets"][:, 0]

        def losses() -> Tensor:
            self._count(self.examples[n] for n in rows.tolist())
            logits = model(**_read_only(inputs))
            own = self.step_objective.loss
            return losses_by_trace(own, logits, inputs["targets"], inputs["mask"]) / len(rows)

        def meta_loss() -> Tensor:
            self._count(meta)
            loss = self.weighing.loss(self._log_odds(model, solutions), solutions["mask"], correct_N)
            self.meta_losses.append(loss.item())
            return loss

        fixed_N = weights_N.detach().to(self.step_model.device)
        assert self.optimizer is not None
        rates = {id(p): group["lr"] for group in self.optimizer.param_groups for p in group["params"]}
        parameters = [p for p in self.step_model.parameters() if p.requires_grad]
        slope_N = hypergradient(losses, meta_loss, parameters, fixed_N, [rates[id(p)] for p in parameters])
        self.upper.zero_grad(set_to_none=True)
        torch.autograd.backward([(weights_N * slope_N.cpu()).sum()])
        self.upper.step()

    def _batch(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        return collate(examples, self.step_model.pad_id, self.packed)

    def _log_odds(self, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        return self.step_model.readout.log_odds(model(**_read_only(inputs)))

    def _count(self, examples: Iterable[Example]) -> None:
        self.tokens_read += sum(example.reading.tokens for example in examples)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        super()._save(output_dir, state_dict)
        state = {f"weights.{name}": tensor.contiguous() for name, tensor in self.row_weights.state_dict().items()}
        for at, moments in self.upper.state_dict()["state"].items():
            state |= {f"adam.{at}.{name}": tensor.contiguous() for name, tensor in moments.items()}
        told = {"meta_losses": json.dumps(self.meta_losses), "tokens": str(self.tokens_read)}
        folder = Path(output_dir or str(self.args.output_dir))
        safetensors.torch.save_file(state, folder / KEPT, metadata=told)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        file = Path(resume_from_checkpoint) / KEPT
        with safetensors.safe_open(file, framework="pt") as stored:
            told = stored.metadata()
        state = safetensors.torch.load_file(file)
        own = {name.removeprefix("weights."): t for name, t in state.items() if name.startswith("weights.")}
        self.row_weights.load_state_dict(own)
        adam: dict[int, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            if name.startswith("adam."):
                _, at, moment = name.split(".")
                adam.setdefault(int(at), {})[moment] = tensor
        self.upper.load_state_dict({**self.upper.state_dict(), "state": adam})
        self.meta_losses, self.tokens_read = json.loads(told["meta_losses"]), int(told["tokens"])


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Nothing is dropped out inside."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def _read_only(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in inputs.items() if name not in ("targets", "mask", "rows")}


def domains_of(traces: Sequence[Trajectory], weighing: Weighing) -> list[Hashable]:
    """What the weights of these traces go by: each trace is its own domain, or says which (or its problem does)."""
    name = weighing.domain
    if name is None:
        return list(range(len(traces)))
    return [domain_of(trace, name) for trace in traces]


def refuse_idle_meta(meta: Sequence[Judged], objective: Objective) -> None:
    """A meta set for an objective that has no use for one."""
    if meta and objective.weighing is None:
        raise ValueError(f"{objective.name} weighs no rows, so a meta set is of no use to it; leave it out")


def meta_of(
    train: Sequence[Judged], held: Sequence[Judged], meta: Sequence[Judged], objective: Objective, seed: int
) -> tuple[Sequence[Judged], Sequence[Judged]]:
    """Training rows and the meta set: the one given, or a share of the training problems; none is held out."""
    if objective.weighing is None:
        return train, ()
    if not meta:
        option = "--meta FILE, or --set meta_share="
        return split_by_problem(train, objective.weighing.share, seed, needed=True, option=option)
    refuse_shared(held, meta, "the meta set decides by")
    return train, meta


def graded_solutions(rows: Sequence[Judged], model: PRM, too_long: Literal["error", "drop"]) -> list[Example]:
    """The meta set: solutions whose every step is read, and labelled by how the solution ended."""
    ungraded = next((row.trajectory.id for row in rows if row.trajectory.correct is None), None)
    if ungraded is not None:
        raise ValueError(
            "the meta set needs graded solutions: `correct` of each says whether its answer is right, and "
            f"trajectory {ungraded!r} has none"
        )
    if model.layout.per_prefix:
        raise ValueError(f"a {model.family.name} reads each step apart, so whole solutions cannot decide its weights")
    ended = [Judged(t, Judgement(t.id, (float(bool(t.correct)),) * len(t.steps), "outcome")) for t, _ in rows]
    found, _ = make_examples(ended, model, make_objective("mse", {}), too_long)
    if len({example.targets[0] for example in found}) < 2:
        raise ValueError(f"the meta set needs graded solutions, right ones and wrong ones; {len(found)} can be used")
    return found


class Reweighted(NamedTuple):
    """The weight of each domain at the end, and the meta loss before each change of them."""

    weights: dict[Hashable, float]
    meta_losses: tuple[float, ...]
    tokens: int = 0
    """Read in all, by the updates and by the changes of the weights."""


def train_reweighted(
    model: PRM,
    rows: Sequence[Judged],
    domains: Sequence[Hashable],
    meta: Sequence[Judged],
    *,
    by: By = "domain",
    updates: int = 200,
    unroll: int | None = None,
    batch_size: int = 16,
    lr: float = 3e-4,
    meta_lr: float | None = None,
    seed: int = 0,
) -> Reweighted:
    """Fit the PRM in place to rows of these domains, with weights that a meta set of graded solutions decides.

    A training of so many updates at a constant rate that keeps nothing; `train_prm` with the objectives `domain-weights` and
    `instance-weights` is the same with all that a run has. By table (one clipped weight a domain, which is a row's own where
    each row has one) or by net is DreamPRM-1.5. An `unroll` or `meta_lr` of None is the objective's own, which is the
    paper's; a `meta_lr` of 0 leaves all weights alike.
    """
    if len(rows) != len(domains):
        raise ValueError(f"{len(rows)} rows have {len(domains)} domains: one each is needed")
    told: dict[str, Json] = {"meta_lr": meta_lr, "unroll": unroll, "by": None if by == "domain" else by}
    settings = {name: value for name, value in told.items() if value is not None}
    named = make_objective("domain-weights" if by == "domain" else "instance-weights", settings)
    objective = fitted_to(named, model.readout)
    train, report = make_examples(rows, model, objective, "error")
    if report.dropped:
        raise ValueError(f"rows that cannot be used have no weight; leave them out: {dict(report.dropped)}")
    judged = graded_solutions(meta, model, "error")
    config = TrainConfig(epochs=1, batch_size=batch_size, warmup=0.0, schedule="constant", seed=seed)
    with quiet(), own_randomness(), tempfile.TemporaryDirectory() as folder:
        args = training_arguments(config, lr, Path(folder), updates, model.device.type == "cuda", half=False)
        # The fused one rounds otherwise, and the ledger has figures of this one.
        args.optim = OptimizerNames.ADAMW_TORCH
        trainer = ReweightingTrainer(
            model, objective, args, train, batch_size=batch_size, domains=domains, meta=judged, updates=updates
        )
        trainer.train()
        model.eval()
        weights = trainer.weights()
    return Reweighted(weights, tuple(trainer.meta_losses), trainer.tokens_read)
