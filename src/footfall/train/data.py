"""Judged traces as training examples: ids, read positions, targets and a mask of the labelled steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from footfall.render import Reading, Writer, both_ways
from footfall.reward.family import families
from footfall.reward.packed import pack_row
from footfall.reward.prm import PRM, pad
from footfall.train.decontaminate import normalise
from footfall.train.objectives import Objective, Weighing
from footfall.types import Json, Judged, Judgement, Trajectory, content_key

MANY_VALUES = 20


class Example(NamedTuple):
    """One trace; entries of `targets`, `labels` where `mask` is false mean nothing."""

    trajectory: Trajectory
    reading: Reading
    targets: tuple[float, ...]
    labels: tuple[float, ...]
    mask: tuple[bool, ...]
    beside: tuple[tuple[float | None, ...], ...] = ()
    """Targets of further outputs, a column each; None: no label."""
    marks: bool = False
    """It is read at the marks of its last step, not at its steps."""
    given: bool = False
    """Its reading tells the value the labelled marks of its last step."""


@dataclass(frozen=True)
class DataReport:
    """What became of the rows given to the trainer."""

    rows: int
    used: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Rows left out, by reason."""
    tokens: int = 0
    steps: int = 0
    unlabelled: int = 0
    """Steps of used rows without a label; they are masked."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """How often each label value occurs; above twenty values, only their range."""

    @property
    def unlabelled_share(self) -> float:
        """unlabelled / steps."""
        return self.unlabelled / self.steps if self.steps else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As the run's folder keeps it."""
        return {**asdict(self), "unlabelled_share": self.unlabelled_share}


def make_examples(
    rows: Sequence[Judged], model: PRM, objective: Objective, too_long: Literal["error", "drop"]
) -> tuple[list[Example], DataReport]:
    """Examples of all rows that can be used, and a count of those that cannot. Nothing is cut.

    A row is one example; of a model that must see each prefix apart, one a labelled step.
    """
    used: list[Example] = []
    examples: list[Example] = []
    dropped: Counter[str] = Counter()
    limit = model.max_length
    _refuse_marks(model, objective)
    _refuse_apart(model, objective)
    labelled = [
        (row.trajectory, said) for row in rows if (said := row.judgement) and any(v is not None for v in said.values)
    ]
    if unlabelled := len(rows) - len(labelled):
        dropped["no labelled step"] = unlabelled
    readings = model.read_each([trajectory for trajectory, _ in labelled])
    for (trajectory, said), reading in zip(labelled, readings, strict=True):
        whole = _example(trajectory, said.check(trajectory), reading, objective)
        made = _sequences(whole, model, objective)
        longest = max(len(reading.ids) for reading in both_ways([e.reading for e in (whole, *made)]))
        if longest <= limit:
            used.append(whole)
            examples += made
        elif too_long == "drop":
            dropped["too long"] += 1
        else:
            raise ValueError(
                f"trajectory {trajectory.id!r} has {longest} tokens, the limit is {limit}; "
                'raise max_length, or use too_long="drop" (--too-long drop) to leave such rows out (they are counted)'
            )
    if objective.together > 1:
        labels = [next(label for label, m in zip(e.labels, e.mask, strict=True) if m) for e in examples]
        refuse_parted([e.trajectory for e in examples], labels, dropped, objective)
    return examples, replace(_report(len(rows), used, dropped), tokens=sum(e.reading.tokens for e in examples))


def _sequences(whole: Example, model: PRM, objective: Objective) -> list[Example]:
    """What the model reads of a row: the trace itself, or a sequence or two for each labelled step."""
    if model.family.marks and model.family.marks == objective.beside:
        return _in_passes(whole, model)
    return _prefixes(whole, model) if model.layout.per_prefix else [whole]


def _prefixes(whole: Example, model: PRM) -> list[Example]:
    """Each labelled step as the last one of a trace of its own."""
    at = [k for k, labelled in enumerate(whole.mask) if labelled]
    prefixes = [whole.trajectory.prefix(k + 1) for k in at]
    return [
        Example(
            prefix, model.read(prefix), (whole.targets[k],), (whole.labels[k],), (True,),
            tuple((column[k],) for column in whole.beside),
        )
        for k, prefix in zip(at, prefixes, strict=True)
    ]  # fmt: skip


def _refuse_marks(model: PRM, objective: Objective) -> None:
    """Labels of marks are of use to a model that marks steps, and to no other."""
    if objective.beside and not objective.columns and model.family.marks != objective.beside:
        marking = ", ".join(name for name, family in families().items() if family.marks == objective.beside)
        raise ValueError(
            f"{objective.name} trains PRMs that mark the {' and the '.join(objective.beside)} of a step, and this is a "
            f"{model.family.name}: begin from one of the family {marking}, or train a plain decoder --as {marking}"
        )


def _refuse_apart(model: PRM, objective: Objective) -> None:
    """Steps that are read in sequences of their own cannot be held against each other."""
    if objective.along and model.layout.per_prefix:
        view = model.prm_config.view
        by = f"the view {view}" if view != "all" else f"a {model.family.name}"
        raise ValueError(
            f"{objective.name} holds the steps of a trace against each other, and {by} reads each in a sequence of its own: "
            "take a loss of single steps (--objective soft-bce), or a PRM that reads a trace in one pass"
        )


def _in_passes(whole: Example, model: PRM) -> list[Example]:
    """Two examples a step of a family that marks steps before it values them: its marks, and its value given these marks."""
    taught, writer = model.family.taught, Writer(model.tokenizer, model.prm_config.backbone)
    assert taught is not None
    found = []
    for k, labelled in enumerate(whole.mask):
        marks = tuple(column[k] for column in whole.beside)
        known = [mark for mark in marks if mark is not None]
        if not labelled or len(known) < len(marks):
            continue
        if whole.labels[k] == 1 and min(known) < 1:
            raise ValueError(
                f"trajectory {whole.trajectory.id!r}, step {k + 1}: the label is good and a mark is bad; a step is good if "
                "all its marks are"
            )
        prefix, name = whole.trajectory.prefix(k + 1), f"trajectory {whole.trajectory.id!r}"
        first, second = (
            writer.read(taught(writer, prefix, given), name) for given in (None, [mark == 1 for mark in known])
        )
        found.append(Example(prefix, first, tuple(known), tuple(known), (True,) * len(known), marks=True))
        found.append(Example(prefix, second, (whole.targets[k],), (whole.labels[k],), (True,), given=True))
    return found


def refuse_parted(
    traces: Sequence[Trajectory], labels: Sequence[float], dropped: Mapping[str, int], objective: Objective
) -> None:
    """Traces that are compared come as neighbours, of one problem and with other labels; a dropped one would leave another
    alone."""
    size = objective.together
    if dropped:
        raise ValueError(f"{objective.name} compares rows, so none can be left out, but there are {dict(dropped)}")
    for at in range(0, len(traces), size):
        group = traces[at : at + size]
        if len(group) < size or len({trace.problem.id for trace in group}) > 1:
            raise ValueError(
                f"{objective.name} takes {size} rows of one problem side by side; "
                f"row {at + 1} ({group[0].id!r}) and its neighbour are of different problems"
            )
        if len(set(labels[at : at + size])) < size:
            raise ValueError(
                f"{objective.name} compares a right trace (label 1) with a wrong one (label 0) of a problem; row {at + 1} "
                f"({group[0].id!r}) and its neighbour both have the label {labels[at]:g}: leave one of them out"
            )


def refuse_nothing_to_learn(examples: Sequence[Example], objective: Objective) -> None:
    """Without two labels that differ, as the objective takes them, every model that says one value fits."""
    targets = {t for e in examples for t, m in zip(e.targets, e.mask, strict=True) if m}
    if len(targets) < 2:
        raise ValueError(
            f"nothing to learn for {objective.name}: the {len(examples)} usable training rows have "
            f"{'no labels' if not targets else 'only one label value, as it takes them'}"
        )


def members(groups: Sequence[int], together: int) -> list[int]:
    """Indices of the examples in these groups of neighbours."""
    return [group * together + k for group in groups for k in range(together)]


def _example(trajectory: Trajectory, judgement: Judgement, reading: Reading, objective: Objective) -> Example:
    values = judgement.values
    targets = [0.0 if v is None else checked(v, objective, trajectory, k) for k, v in enumerate(values)]
    labels = [0.0 if value is None else value for value in values]
    known = {value for value in values if value is not None}
    if objective.one_label and len(known) > 1:
        raise ValueError(
            f"trajectory {trajectory.id!r}: {objective.name} learns from the outcome, the same label on every step, and this "
            f"one has {', '.join(f'{value:g}' for value in sorted(known))}; the labeller `freeprm` writes outcomes"
        )
    if objective.together > 1 and sum(value is not None for value in values) != 1:
        raise ValueError(
            f"trajectory {trajectory.id!r}: {objective.name} takes one labelled step of each trace, its last; this one has "
            f"{sum(value is not None for value in values)}"
        )
    mask = tuple(value is not None for value in judgement.values)
    beside = tuple(_further(trajectory, judgement, name, objective) for name in objective.beside)
    return Example(trajectory, reading, tuple(targets), tuple(labels), mask, beside)


def checked(label: float, objective: Objective, trajectory: Trajectory, step: int) -> float:
    """The label as the loss takes it; one that it cannot take is named by trace and step."""
    if not math.isfinite(label):
        raise ValueError(f"trajectory {trajectory.id!r}: step {step + 1} has the label {label}")
    try:
        return objective.target(label)
    except ValueError as error:
        raise ValueError(f"trajectory {trajectory.id!r}, step {step + 1}: {error}") from error


def _further(trajectory: Trajectory, judgement: Judgement, name: str, objective: Objective) -> tuple[float | None, ...]:
    if name not in judgement.aspects:
        raise ValueError(
            f"trajectory {trajectory.id!r}: {objective.name} learns from the aspect {name!r} too, and the labels of "
            f"{judgement.judge} have {', '.join(judgement.aspects) or 'none'}; {objective.labels_by}"
        )
    try:
        return tuple(None if label is None else objective.target(label) for label in judgement.aspects[name])
    except ValueError as error:
        raise ValueError(f"trajectory {trajectory.id!r}, aspect {name!r}: {error}") from error


def _report(rows: int, examples: Sequence[Example], dropped: Counter[str]) -> DataReport:
    labels = [label for e in examples for label, m in zip(e.labels, e.mask, strict=True) if m]
    tokens = sum(len(e.reading.ids) for e in examples)
    return report_of(rows, len(examples), dropped, tokens, sum(len(e.mask) for e in examples), labels)


def report_of(
    rows: int, used: int, dropped: Mapping[str, int], tokens: int, steps: int, given: Sequence[float]
) -> DataReport:
    """The report of so many rows; `given` are all labels that were used."""
    known = Counter(given)
    if len(known) <= MANY_VALUES:
        labels = {f"{value:g}": known[value] for value in sorted(known)}
    else:
        labels = {f"{min(known):g} to {max(known):g}, {len(known)} values": sum(known.values())}
    return DataReport(
        rows=rows,
        used=used,
        dropped=dict(sorted(dropped.items())),
        tokens=tokens,
        steps=steps,
        unlabelled=steps - len(given),
        labels=labels,
    )


def collate(examples: Sequence[Example], pad_id: int, packed: bool = False) -> dict[str, Tensor]:
    """A batch for the model and its loss, padded on the right or packed; labels of further outputs make a last axis.

    Examples without steps to label are read only: targets and mask have no rows for them.
    """
    readings = [e.reading for e in examples]
    batch = pack_row(readings, pad_id) if packed else pad(readings, pad_id)
    shape = sum(bool(e.mask) for e in examples), batch.positions.shape[-1]  # mirrors have positions of their own
    targets_NS, mask_NS = torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)
    for n, example in enumerate(e for e in examples if e.mask):
        targets_NS[n, : len(example.targets)] = torch.tensor(example.targets)
        mask_NS[n, : len(example.mask)] = torch.tensor(example.mask)
    if not any(e.beside for e in examples):
        return {**batch._asdict(), "targets": targets_NS, "mask": mask_NS}
    targets_KNS, mask_KNS = [targets_NS], [mask_NS]
    for column in zip(*(e.beside for e in examples), strict=True):
        rows = [torch.tensor([float("nan" if v is None else v) for v in row]) for row in column]
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float("nan"))
        mask_KNS.append(~padded.isnan())
        targets_KNS.append(padded.nan_to_num(0.0))
    return {**batch._asdict(), "targets": torch.stack(targets_KNS, dim=-1), "mask": torch.stack(mask_KNS, dim=-1)}


def split_by_problem(
    rows: Sequence[Judged], share: float, seed: int, *, needed: bool = False, option: str = "--eval-share "
) -> tuple[list[Judged], list[Judged]]:
    """Training and held-out rows; problems of equal text are never parted. Row order does not matter.

    `needed`: held-out rows cannot be done without, so that no error advises to; `option`: where the share is given.
    """
    texts = [normalise(row.trajectory.problem.text) for row in rows]
    order = sorted(set(texts), key=lambda text: content_key("split", seed, text))
    held = set(order[: round(share * len(order))])
    if share > 0 and not 0 < len(held) < len(order):
        other = [f"{option}{max(0.5 if len(order) == 2 else 1 / len(order), 0.01):.2g}"] if len(order) > 1 else []
        other += [] if needed else ["--eval-share 0 (in Python eval_share=0) to hold out none"]
        fix = f"pass {' or '.join(other)}" if other else "two are needed, so label traces of other problems too"
        raise ValueError(
            f"{len(order)} problem{'s' * (len(order) != 1)} cannot be split with a held-out share of {share:g}; {fix}"
        )
    train = [row for row, text in zip(rows, texts, strict=True) if text not in held]
    return train, [row for row, text in zip(rows, texts, strict=True) if text in held]


def held_out_of(
    rows: Sequence[Judged], held_out: Sequence[Judged], share: float, seed: int
) -> tuple[Sequence[Judged], Sequence[Judged]]:
    """Training and held-out rows: those given, or a share of the problems."""
    if not held_out:
        return split_by_problem(rows, share, seed)
    refuse_shared(held_out, rows, "is trained on")
    return rows, held_out


def refuse_shared(held_out: Sequence[Judged], others: Sequence[Judged], why: str) -> None:
    """A problem of held-out rows may not be among the others."""
    texts = {normalise(row.trajectory.problem.text) for row in others}
    for row in held_out:
        if normalise(row.trajectory.problem.text) in texts:
            raise ValueError(f"the held-out row {row.trajectory.id!r} is about a problem that {why} too")


def data_key(rows: Sequence[Judged], beside: Sequence[str] = ()) -> str:
    """Content address of traces and labels, in order; aspects `beside` are labels too."""

    def labels(j: Judgement) -> list[Json]:
        return [j.judge, list(j.values), *(list(j.aspects.get(name, ())) for name in beside)]

    return content_key([[t.key, None if j is None else labels(j)] for t, j in rows])


def taught_key(rows: Sequence[Judged]) -> str:
    """Content address of what language models learn from beside labels: outcomes of traces, and critiques."""
    return content_key([[t.correct, None if j is None else list(j.rationales or ())] for t, j in rows])


def domain_of(trace: Trajectory, name: str) -> str:
    """What the trace or its problem says under this name of their `meta`; `domain` is the problem's own, if they say none."""
    said = {"domain": trace.problem.domain, **trace.problem.meta, **trace.meta}
    if name not in said:
        raise ValueError(
            f"trajectory {trace.id!r} says no {name!r} to weigh it by (--set domain=…); it says {', '.join(said)}"
        )
    return str(said[name])


def weighed_key(rows: Sequence[Judged], meta: Sequence[Judged], weighing: Weighing) -> str:
    """Content address of what weights of rows go by: domains, grades, and the meta set."""
    domains: list[Json] = [weighing.domain and domain_of(t, weighing.domain) for t, _ in rows]
    graded = [[[t.key, t.correct] for t, _ in given] for given in (rows, meta)]
    return content_key(domains, *graded)
