"""Training of PRMs that are language models: implicit ones by outcomes, critics by their verdicts.

    implicit   r(y) = β Σ_t [log π(y_t) − log π_ref(y_t)],   a loss of `log_ratio`: cross-entropy, DPO, NCA or KTO
    critic     loss = −log π(verdict | question, critique), or of the critique too: the mean over all tokens of both

Implicit ones are trained by `transformers.Trainer`, critics by TRL's `SFTTrainer` (the extra `rl`), both on one plan of
batches (`footfall.train.planned`), from the last checkpoint where a run was stopped.

A trace's label is its outcome, or that of its last step where that is not known. The reference is read once, before training,
and stored: one number a trace, so that no second model is held meanwhile. What is saved is a causal LM with the family's name
beside it.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from footfall.loading import load_model, pack, padded, pick_device, quiet
from footfall.policy.torch_policy import first_token
from footfall.render import Reading, Writer, dialogue_text
from footfall.reward.backbone import add_lora, context_length
from footfall.reward.checkpoint import evidence
from footfall.reward.config import CONFIG_FILE, PRMConfig, read_json
from footfall.reward.families.critics import PROMPT_FILE
from footfall.reward.families.eurus import token_log_probs
from footfall.reward.family import Evidence, Family
from footfall.reward.generative.critic import Request
from footfall.reward.packed import pack_row, packable, packing
from footfall.reward.publish import check_kind, check_vocabulary
from footfall.store import keep_json, kept_json
from footfall.train.config import TrainConfig, length_limit, usual_lr
from footfall.train.data import DataReport, checked, members, refuse_parted, report_of
from footfall.train.imitation import ImitationConfig, planned
from footfall.train.objectives import Objective
from footfall.train.planned import Keeping, Plan, fit_loss
from footfall.train.trainer import Progress, step_metrics
from footfall.train.writers import refuse_head
from footfall.types import Judged, Judgement, Trajectory

_TOKENS = 4096
"""In a batch that is only read."""


class Item(NamedTuple):
    """A sequence of which the tokens from `first` on are scored, and the label that this is about."""

    trajectory: Trajectory
    step: int
    ids: tuple[int, ...]
    first: int
    label: float
    other: int | None = None
    """Of a verdict: the token of the opposite one."""


class LanguagePRM(NamedTuple):
    """A trained model with all that a run keeps of it."""

    save: Callable[[Path, Mapping[str, Any]], None]
    """Into a folder, with the facts of its training."""
    metrics: Mapping[str, float]
    curve: tuple[tuple[int, float], ...]
    train: DataReport
    held_out: DataReport
    told: list[Judged]
    """The held-out traces with its values."""
    updates: int
    tokens: int
    flops: float


def train_language_prm(
    train_rows: Sequence[Judged],
    held_rows: Sequence[Judged],
    source: str,
    family: Family,
    objective: Objective,
    config: TrainConfig,
    progress: Progress | None = None,
    stored: Path | None = None,
    keeping: Keeping | None = None,
) -> LanguagePRM:
    """Fit the causal LM at `source` as its family is read. What the reference says is kept in the file `stored`, and
    checkpoints as `keeping` says."""
    _refuse_settings(config, family)
    sft = _sft() if family.spans is None else None
    seen, place = evidence(source), pick_device(config.device)
    if config.as_family is not None:
        check_kind(family, seen.config.get("model_type"), source)
    lm: Any
    lm, tokenizer = load_model(seen.folder, str(place))
    if config.as_family is not None:
        check_vocabulary(family, Writer(tokenizer, str(source)))
    lm.float()
    limit = length_limit(config.max_length, context_length(lm))
    if limit is None:
        raise ValueError(f"the config of {source} names no context length; give max_length")
    if config.packing and not packable(lm, limit):
        raise ValueError(f"a {type(lm).__name__} cannot be packed (`footfall.reward.packed`): leave packing out")
    items_of = _outcomes(seen, family) if family.spans is not None else _verdicts(seen, family, tokenizer, objective)
    train, train_report = _items(train_rows, items_of, limit, config, objective)
    held, held_report = _items(held_rows, items_of, limit, config, objective)
    _refuse_nothing(train, train_rows, objective)
    # What was trained here goes on against the reference that it began with.
    begun = read_json(seen.folder)["training"] if (seen.folder / CONFIG_FILE).is_file() else {}
    base = objective.settings.get("base") or begun.get("base")

    def by_reference() -> list[float]:
        return _read(lm if base is None else _reference(str(base), tokenizer, place), [*train, *held])

    behind = _kept(stored, by_reference) if family.spans is not None else [0.0] * (len(train) + len(held))
    if config.lora_rank is not None:
        lm = add_lora(lm, config.lora_rank, config.lora_alpha or 2 * config.lora_rank, config.seed)

    plan, packed = _plan(train, objective.together, lm, config), bool(config.packing)
    with packing(_whole(lm)) if packed else nullcontext():
        if sft is not None:
            taught = [sft.Taught(item.ids, item.first) for item in train]
            losses = sft.fit_sft(lm, tokenizer, taught, plan, progress, keeping, packed)
        else:
            loss_of = _log_ratio_loss(lm, train, behind, objective, packed)
            losses = fit_loss(lm, plan, loss_of, progress, keeping)
    lm = lm.merge_and_unload() if config.lora_rank is not None else lm
    odds = _log_odds(lm, held, behind[len(train) :], objective, family)
    tokens = sum(len(item.ids) for item in train) * config.epochs
    facts = {"base": base or source, "beta": objective.settings["beta"]} if family.spans is not None else {}
    made = PRMConfig(source, family.name, max_length=limit, training=facts)
    return LanguagePRM(
        partial(_save, lm, tokenizer, seen.folder / PROMPT_FILE, made), _metrics(odds, held, objective) if held else {},
        tuple((round((k + 1) * plan.updates / len(losses)), loss) for k, loss in enumerate(losses)),
        train_report, held_report, _told(held, torch.sigmoid(odds).tolist(), objective), plan.updates, tokens,
        6.0 * sum(p.numel() for p in lm.parameters()) * tokens,
    )  # fmt: skip


def _save(lm: Any, tokenizer: Any, prompt: Path, made: PRMConfig, folder: Path, training: Mapping[str, Any]) -> None:
    """The model with its tokenizer, the question that it was trained behind if it has one, and the facts of its training."""
    folder.mkdir(parents=True, exist_ok=True)
    with quiet():
        lm.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if prompt.is_file():
        shutil.copy(prompt, folder / PROMPT_FILE)
    stored = replace(made, training={**training, **made.training})
    (folder / CONFIG_FILE).write_text(json.dumps(stored.to_dict(), indent=1) + "\n", encoding="utf-8")


def _plan(items: Sequence[Item], size: int, lm: Any, config: TrainConfig) -> Plan:
    """Batches of units of `size` items: those that are compared stand in one batch, as one unit of their padded length."""
    lengths = [len(item.ids) for item in items]
    lr = config.lr or usual_lr(sum(p.numel() for p in lm.parameters()), config.lora_rank is not None)
    settings = ImitationConfig(
        lr=lr, epochs=config.epochs, batch_tokens=config.batch_size * max(lengths), warmup=config.warmup,
        weight_decay=config.weight_decay, max_grad_norm=config.max_grad_norm, seed=config.seed,
    )  # fmt: skip
    longest = [size * max(lengths[i : i + size]) for i in range(0, len(lengths), size)]
    return replace(planned(longest, settings), checkpointing=config.gradient_checkpointing)


def _log_ratio_loss(
    lm: Any, items: Sequence[Item], behind: Sequence[float], objective: Objective, packed: bool
) -> Callable[[Sequence[int]], Tensor]:
    """The objective's loss of the log-ratios of units; `behind` is what the reference says of each item."""

    def loss_of(units: Sequence[int]) -> Tensor:
        batch = members(units, objective.together)
        said_N = written_log_probs(_whole(lm), [items[i] for i in batch], packed)
        ratio_N = said_N - torch.tensor([behind[i] for i in batch], device=said_N.device)
        targets_N1 = torch.tensor([[objective.target(items[i].label)] for i in batch], device=said_N.device)
        logits_N11 = objective.settings["beta"] * ratio_N[:, None, None]
        return objective.loss(logits_N11, targets_N1, torch.ones_like(targets_N1, dtype=torch.bool))

    return loss_of


def _sft() -> ModuleType:
    """Supervised fine-tuning on verdicts, or on critiques with them."""
    try:
        return import_module("footfall.train.sft")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("trl", "datasets"):
            raise
        raise ModuleNotFoundError(
            "judges that write are trained by TRL, which is not installed: pip install 'footfall[rl]'"
        ) from error


def _refuse_nothing(items: Sequence[Item], rows: Sequence[Judged], objective: Objective) -> None:
    """Labels from which this objective cannot learn."""
    if objective.settings.get("whole") and not items:
        raise ValueError(
            f"{objective.name} learns to write the critiques that labels bring, and none of {len(rows)} rows has one that "
            "can be used; `footfall label --method agreeing` writes them"
        )
    if len({objective.is_good(item.label) for item in items}) < 2:
        raise ValueError(
            f"nothing to learn for {objective.name}: the {len(items)} usable rows have one label value at most"
        )


def _refuse_settings(config: TrainConfig, family: Family) -> None:
    """What would be left unheeded."""
    usual = TrainConfig()
    unheeded = [
        "heads", "head", "view", "marker", "head_lr", "accumulation", "patience", "schedule", "anchor", "template",
    ]  # fmt: skip
    asked = [name for name in unheeded if getattr(config, name) != getattr(usual, name)]
    asked += ["compile"] if config.compile else []
    asked += ["merge_lora"] if config.merge_lora and config.lora_rank is None else []
    if asked:
        raise ValueError(f"a {family.name} is a language model, trained without {', '.join(asked)}; leave that out")


def _reference(base: str, tokenizer: Any, place: torch.device) -> Any:
    refuse_head(base)
    reference, theirs = load_model(base, str(place))
    if theirs.get_vocab() != tokenizer.get_vocab():
        raise ValueError(
            f"the reference {base} has another vocabulary, so its tokens do not compare; name one of the same tokenizer"
        )
    return reference


# -- data


def _outcomes(seen: Evidence, family: Family) -> Callable[[Judged], list[Item]]:
    assert family.spans is not None
    writer, spans = Writer(seen.tokenizer, seen.name), family.spans

    def items(row: Judged) -> list[Item]:
        trace, said = row
        labels = [] if said is None else [value for value in said.values[-1:] if value is not None]
        label = labels[0] if trace.correct is None and labels else trace.correct
        if label is None or not trace.steps:
            return []
        scored = spans(writer, trace)
        return [Item(trace, len(trace.steps) - 1, scored.ids[: scored.ends[-1] + 1], scored.first, float(label))]

    return items


def _verdicts(seen: Evidence, family: Family, tokenizer: Any, objective: Objective) -> Callable[[Judged], list[Item]]:
    assert family.verdicts is not None
    verdicts, whole = family.verdicts(seen), bool(objective.settings.get("whole"))

    def ids_of(request: Request, opening: str) -> list[int]:
        text = dialogue_text(tokenizer, request.messages, opening, request.header)
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    def items(row: Judged) -> list[Item]:
        found = []
        # The verdicts that a question shows of earlier steps are those that were learned of them.
        for verdict in verdicts(_hard(row, objective)):
            request, first = verdict.request, 0
            written = row.judgement.rationales[verdict.step] if row.judgement and row.judgement.rationales else None
            if whole and not written:
                continue  # a label without a critique has nothing to write
            asked = ids_of(request, request.opening)
            if whole:
                given = ids_of(request, verdict.opening)
                first = next((i for i, token in enumerate(given) if token != asked[i]), len(given))
            words = [first_token(tokenizer, word) for word in (verdict.good, verdict.bad)]
            if words[0] == words[1]:
                raise ValueError(
                    f"{verdict.good!r} and {verdict.bad!r} begin with the same token of {seen.name}, so a verdict cannot be "
                    "told from the other; begin from a model with another vocabulary"
                )
            own = words if objective.is_good(verdict.value) else words[::-1]
            scored = first or len(asked)
            found.append(Item(row.trajectory, verdict.step, (*asked, own[0]), scored, verdict.value, own[1]))
        return found

    return items


def _hard(row: Judged, objective: Objective) -> Judged:
    """The row with 1 and 0 for labels, by the objective's threshold."""
    trace, said = row
    if said is None:
        return row
    labels = [None if v is None else checked(v, objective, trace, k) for k, v in enumerate(said.values)]
    return Judged(
        trace, replace(said, values=tuple(None if v is None else float(objective.is_good(v)) for v in labels))
    )


def _items(
    rows: Sequence[Judged],
    items_of: Callable[[Judged], list[Item]],
    limit: int,
    config: TrainConfig,
    objective: Objective,
) -> tuple[list[Item], DataReport]:
    """The items of all rows that can be used, and a count of those that cannot. Nothing is cut."""
    found: list[Item] = []
    dropped: Counter[str] = Counter()
    used = 0
    for row in rows:
        items = items_of(row)
        longest = max((len(item.ids) for item in items), default=0)
        if longest > limit and config.too_long == "error":
            raise ValueError(
                f"trajectory {row.trajectory.id!r} has {longest} tokens, the limit is {limit}; "
                'raise max_length, or use too_long="drop" (--too-long drop) to leave such rows out (they are counted)'
            )
        if not items or longest > limit:
            dropped["too long" if items else "no label"] += 1
            continue
        for item in items:
            checked(item.label, objective, row.trajectory, item.step)
        used += 1
        found += items
    labels = [item.label for item in found]
    if objective.together > 1:
        refuse_parted([item.trajectory for item in found], labels, dropped, objective)
    steps = sum(len(row.trajectory.steps) for row in rows)
    return found, report_of(len(rows), used, dropped, sum(len(item.ids) for item in found), steps, labels)


# -- reading


def _whole(lm: Any) -> Any:
    """The causal LM itself, also of one with adapters."""
    return lm.get_base_model() if hasattr(lm, "get_base_model") else lm


def written_log_probs(lm: Any, batch: Sequence[Item], packed: bool = False) -> Tensor:
    """Σ log π of the scored tokens of each item, (N,), in float32; `packed` inside `packing` only."""
    states, ids = (_packed_states if packed else _padded_states)(lm, batch)
    # The token before predicts the token: the state at i − 1 for the target at i.
    before = [row_TH[item.first - 1 : len(item.ids) - 1] for row_TH, item in zip(states, batch, strict=True)]
    targets = [row_T[item.first : len(item.ids)] for row_T, item in zip(ids, batch, strict=True)]
    found_M = token_log_probs(torch.cat(before), torch.cat(targets), lm.get_output_embeddings().weight)
    return torch.stack([each.sum() for each in torch.split(found_M, [len(t) for t in targets])])


def _padded_states(lm: Any, batch: Sequence[Item]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Last states and ids of each item, with what pads it."""
    ids_NT = padded([item.ids for item in batch]).to(lm.device)
    hidden_NTH: Tensor = lm.base_model(input_ids=ids_NT, use_cache=False).last_hidden_state
    return list(hidden_NTH), list(ids_NT)


def _packed_states(lm: Any, batch: Sequence[Item]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The same from one row without padding."""
    row = pack_row([Reading(item.ids, ()) for item in batch], 0)
    lengths = [len(item.ids) for item in batch]
    ids_1T, own_1T, starts = (each.to(lm.device) for each in (row.input_ids, row.position_ids, row.starts))
    told = {"cu_seq_lens_q": starts, "max_length_q": max(lengths)}
    hidden_1TH = lm.base_model(input_ids=ids_1T, position_ids=own_1T, use_cache=False, **told).last_hidden_state
    return torch.split(hidden_1TH[0], lengths), torch.split(ids_1T[0], lengths)


@torch.inference_mode()
def _read(lm: Any, items: Sequence[Item]) -> list[float]:
    found = [0.0] * len(items)
    for group in pack([len(item.ids) for item in items], _TOKENS):
        for i, value in zip(group, written_log_probs(lm, [items[i] for i in group]).tolist(), strict=True):
            found[i] = value
    return found


def _kept(stored: Path | None, read: Callable[[], list[float]]) -> list[float]:
    """What was read before, or what is read now and then kept; a run's folder holds one plan, so it is of the same traces.
    Damaged, it is read again."""
    if stored is None:
        return read()
    known = kept_json(stored) or keep_json(stored, {"log_probs": read()})
    found: list[float] = known["log_probs"]
    return found


def _log_odds(lm: Any, held: Sequence[Item], behind: Sequence[float], objective: Objective, family: Family) -> Tensor:
    """What the trained model says of held-out items, as the logit that they are good."""
    said = _read(lm, held)
    if family.spans is not None:
        beta = float(objective.settings["beta"])
        return torch.tensor([beta * (ours - theirs) for ours, theirs in zip(said, behind, strict=True)])
    others = _read(lm, [item._replace(ids=(*item.ids[:-1], item.other or 0)) for item in held])
    signs = [1 if objective.is_good(item.label) else -1 for item in held]
    return torch.tensor([sign * (own - other) for sign, own, other in zip(signs, said, others, strict=True)])


def _metrics(odds: Tensor, held: Sequence[Item], objective: Objective) -> dict[str, float]:
    targets_N1 = torch.tensor([[objective.target(item.label)] for item in held])
    loss = objective.loss(odds[:, None, None], targets_N1, torch.ones_like(targets_N1, dtype=torch.bool))
    labels = [item.label for item in held]
    return {"loss": float(loss), **step_metrics(torch.sigmoid(odds).tolist(), labels, objective)}


def _told(held: Sequence[Item], values: Sequence[float], objective: Objective) -> list[Judged]:
    by_trace: dict[str, list[tuple[Item, float]]] = {}
    for item, value in zip(held, values, strict=True):
        by_trace.setdefault(item.trajectory.id, []).append((item, value))
    return [_row(items, objective) for items in by_trace.values()]


def _row(items: Sequence[tuple[Item, float]], objective: Objective) -> Judged:
    trace = items[0][0].trajectory
    said: list[float | None] = [None] * len(trace.steps)
    labels = list(said)
    for item, value in items:
        said[item.step], labels[item.step] = value, item.label
    good = tuple(None if label is None else float(objective.is_good(label)) for label in labels)
    return Judged(trace, Judgement(trace.id, tuple(said), "model", aspects={"label": tuple(labels), "good": good}))
