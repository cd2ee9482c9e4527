"""Objectives: a loss (`footfall.train.losses`) with what it asks of the head and of the labels, by a registered name.

An objective is made by name (`make_objective`) and fitted to the read-out of the model that learns it (`fitted_to`).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from footfall.registry import Declared, load, named_files, parts, register
from footfall.reward.readout import MeanOfHeads, Readout, Several
from footfall.train.losses import (
    Ending,
    bce_loss,
    bradley_terry_loss,
    buffer_loss,
    ce_loss,
    labelled_steps,
    mse_loss,
    pairs,
    pinball_loss,
    single_logit,
    soft_bce_loss,
    token_value_loss,
    traces,
    value_and_reward_loss,
)
from footfall.types import Json


def probability(label: float) -> float:
    """The label, if it is one."""
    if not 0 <= label <= 1:
        fix = "bring labels into [0, 1] (null: a step without a label), or use ce with named classes"
        raise ValueError(f"label {label:g} is no probability; {fix}")
    return label


def likely(label: float) -> bool:
    """Whether a label that is a probability counts as good."""
    return label > 0.5


By: TypeAlias = Literal["domain", "table", "net"]
"""How a weight is made: of a domain, of a row by itself, or by a network of the PRM's values (`footfall.train.row_weights`)."""


@dataclass(frozen=True)
class Weighing:
    """Rows get weights, which a second loss on graded solutions decides."""

    by: By
    loss: Callable[[Tensor, Tensor, Tensor], Tensor]
    """Of log-odds and mask (solutions, steps), and of whether each solution is correct."""
    domain: str | None
    """What of a trace names its domain. None: each row has a weight of its own."""
    lr: float
    unroll: int
    """Updates for each step of the weights."""
    share: float
    """Of the problems, for the meta set where none is given."""


@dataclass(frozen=True)
class Objective:
    """A loss with what it asks of the head and of the labels."""

    name: str
    """With its settings, so that a model can say how it was trained."""
    loss: Callable[[Tensor, Tensor, Tensor], Tensor]
    target: Callable[[float], float] = probability
    """A label as the loss takes it; raises on a label it cannot take."""
    is_good: Callable[[float], bool] = likely
    """Whether a label counts as good where a metric needs two classes."""
    classes: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    together: int = 1
    """Rows that stand side by side and are compared: they share a problem and are never parted. 2 for pairs."""
    columns: tuple[str, ...] = ()
    """Names of outputs that each mean something by itself; the first is the value."""
    beside: tuple[str, ...] = ()
    """Aspects of a judgement that are labels too: targets and mask are then (..., 1 + aspects), the label first."""
    labels_by: str = "a labeller of your own can add it"
    """Who writes these aspects, for a user whose labels lack one."""
    items: Callable[[Tensor], Tensor] = labelled_steps
    """What the loss is a mean over, counted in a batch's mask; the mean of several batches weighs each by this."""
    whole: bool = False
    """Whether its loss weighs steps or traces by more than themselves, so that a batch cannot be parted among processes."""
    along: bool = False
    """Whether its loss looks from a step to others of its trace, which must then stand in one sequence."""
    weighing: Weighing | None = None
    """Whether rows are weighed, and by what."""
    one_label: bool = False
    """All labels of a trace are one: how it ended."""
    language: str | None = None
    """Its registered name, if it trains language models (`Family.objective`) and no head."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What training a language model goes by beside the loss."""


_OWN_LOSS = "a loss of your own is loss(logits, targets, mask), or a function of settings alone that makes an Objective"


def make_objective(name: str, options: Mapping[str, Json]) -> Objective:
    """The registered objective `name` with these options.

    In a file of the user's (mine.py:my_loss) it may be the loss itself, of three tensors (traces, steps) and of settings.
    """
    factory = load("objective", name)
    if name not in named_files():
        _refuse_unknown(name, factory, options)
    if name in named_files() and not _binds(factory, options):
        if not _binds(factory, options, "logits", "targets", "mask"):
            given = f"; the settings are {', '.join(options)}" if options else ""
            raise ValueError(f"{name} takes {inspect.signature(factory)}: {_OWN_LOSS}{given}")
        return Objective(name, lambda logits, *rest: factory(single_logit(logits), *rest, **options))
    objective = factory(**options)
    if not isinstance(objective, Objective):
        raise ValueError(f"{name} gave {type(objective).__name__}: {_OWN_LOSS}")
    return objective


def _refuse_unknown(name: str, factory: Callable[..., Any], options: Mapping[str, Json]) -> None:
    """A setting that the objective does not have, with what has it."""
    takes = inspect.signature(factory).parameters
    for option in options:
        if option not in takes:
            users = [each for each in parts("objective") if each not in named_files()]
            users = [each for each in users if option in inspect.signature(load("objective", each)).parameters]
            whose = f"{option} is a setting of {', '.join(users)}" if users else f"no objective has a setting {option}"
            own = f"it takes {', '.join(takes)}" if takes else "it takes none"
            near = [] if users else difflib.get_close_matches(option, takes, n=1)
            hint = f"did you mean {near[0]}?" if near else f"{own}; {whose}"
            raise ValueError(f"the objective {name} takes no setting {option}: {hint}")


def _binds(factory: Callable[..., Any], options: Mapping[str, Json], *first: str) -> bool:
    try:
        inspect.signature(factory).bind(*first, **options)
    except TypeError:
        return False
    return True


def fitted_to(objective: Objective, readout: Readout, source: str = "the model") -> Objective:
    """The objective as a model with this read-out learns it; refused where its outputs are not what the loss needs.

    Classes are found by name, in any order. A loss of one output is fitted to the log-odds that the step is good, whatever the
    outputs are; of several heads each is fitted to the same labels, and all weigh the same.
    """
    names = readout.names if isinstance(readout, Several) else ()
    if isinstance(readout, MeanOfHeads):
        return _on_heads(objective, readout.members)
    if objective.columns != names or (objective.classes and _sides(objective) != _sides(readout)):
        raise ValueError(
            f"{source} has the classes {readout.classes} and the outputs {names}, the objective {objective.name} "
            f"needs {objective.classes} and {objective.columns}: take an objective that fits these outputs, or put a fresh "
            "head on a decoder (--family footfall, without --as)"
        )
    if objective.columns or (objective.classes == readout.classes and readout.is_chance):
        return objective
    if objective.classes:
        order = [readout.classes.index(name) for name in objective.classes]
        return _seen_by(objective, lambda logits: logits[..., order])
    return _seen_by(objective, lambda logits: readout.log_odds(logits).unsqueeze(-1))


def _sides(given: Objective | Readout) -> tuple[set[str], set[str]]:
    return set(given.classes), set(given.good)


def _seen_by(objective: Objective, view: Callable[[Tensor], Tensor]) -> Objective:
    """The loss of what `view` makes of the logits."""
    return replace(objective, loss=lambda logits, targets, mask: objective.loss(view(logits), targets, mask))


def _on_heads(objective: Objective, heads: int) -> Objective:
    if objective.classes or objective.columns or objective.together > 1:
        raise ValueError(f"several heads give one logit each; {objective.name} needs classes, outputs or pairs")

    def loss(logits_NSE: Tensor, targets_NS: Tensor, mask_NS: Tensor) -> Tensor:
        # Head by head: a loss that looks along a trace must not take heads for steps.
        each = [objective.loss(logits_NS1, targets_NS, mask_NS) for logits_NS1 in torch.split(logits_NSE, 1, dim=-1)]
        return torch.stack(each).mean()

    return replace(objective, name=f"{objective.name} on {heads} heads", loss=loss)


@register("objective", "bce")
def bce(threshold: float = 0.0) -> Objective:
    """Binary cross-entropy on hard labels: a step is good if its label is above the threshold.

    The default 0 is Math-Shepherd's hard estimate: one successful rollout is enough.
    """
    return Objective(
        f"bce(threshold={threshold:g})",
        lambda logits, targets, mask: bce_loss(logits, targets, mask, threshold),
        # Hard already here, so that labels which are all on one side are seen to teach nothing.
        lambda label: float(probability(label) > threshold),
        lambda label: label > threshold,
    )


@register("objective", "soft-bce", Declared(serves=("default",)))
def soft_bce(wrong_weight: float = 1.0) -> Objective:
    """Binary cross-entropy on soft labels: the label is the probability that the step is good."""
    if wrong_weight <= 0:
        raise ValueError(f"wrong_weight multiplies the loss of wrong steps and is above 0, not {wrong_weight:g}")
    if wrong_weight == 1:
        return Objective("soft-bce", soft_bce_loss)
    return Objective(
        f"soft-bce(wrong_weight={wrong_weight:g})",
        lambda logits, targets, mask: soft_bce_loss(logits, targets, mask, wrong_weight),
    )


@register("objective", "mse")
def mse() -> Objective:
    """Squared error between value and label."""
    return Objective("mse", mse_loss)


@register("objective", "ce")
def ce(values: Mapping[str, float] | None = None, good: tuple[str, ...] | list[str] = ("good",)) -> Objective:
    """Cross-entropy over named classes, each standing for one label value, e.g. `{"bad": 0, "good": 1}`."""
    values = dict(values or {"bad": 0.0, "good": 1.0})
    classes = tuple(values)
    missing = [name for name in good if name not in values]
    if missing or not good:
        raise ValueError(f"the good class {missing[0] if missing else ''!r} is not among the classes {classes}")
    if len(set(values.values())) != len(classes):
        raise ValueError(f"two classes stand for the same label value: {values}")
    index = {float(value): k for k, value in enumerate(values.values())}

    def target(label: float) -> float:
        if label not in index:
            raise ValueError(f"label {label:g} stands for no class; the classes are {values}")
        return float(index[label])

    settings = ", ".join(f"{name}={value:g}" for name, value in values.items())
    return Objective(
        f"ce({settings}; good: {', '.join(good)})",
        ce_loss,
        target,
        lambda label: classes[index[label]] in good,
        classes,
        tuple(good),
    )


@register(
    "objective",
    "error-types",
    Declared(
        unmeasured="it trains families that mark what is wrong with a step; `footfall lab run pathfinder-prm` measures it"
    ),
)
def error_types() -> Objective:
    """PathFinder-PRM: cross-entropy of both marks of a step, and of its value given the marks; trains families with marks.

    The label of a step is 1 if all is well with it; the aspects `math` and `consistency` say which mark is bad.
    """
    by = "footfall.label.error_types:ErrorTypes writes it"
    return replace(ce(), name="error-types", beside=("math", "consistency"), labels_by=by)


@register("objective", "bradley-terry")
def bradley_terry(centering: float = 0.0) -> Objective:
    """Pairs of traces of one problem, chosen and rejected, side by side; only the last step of each is labelled (1, 0).

    A `centering` of 0.01 keeps rewards around zero, so that they can be compared across problems (card: toolrm).
    """
    if centering < 0:
        raise ValueError(f"centering pulls rewards to 0 and is 0 at least, not {centering:g}")
    return Objective(
        f"bradley-terry(centering={centering:g})",
        lambda logits, targets, mask: bradley_terry_loss(logits, targets, mask, centering),
        side,
        lambda label: label == 1,
        together=2,
        items=pairs,
    )


@register("objective", "quantile")
def quantile(quantiles: tuple[float, ...] | list[float] = (0.1, 0.5, 0.9)) -> Objective:
    """Pinball loss: outputs q10, q50, q90 of the success rate given as label; the one nearest to the median is the value.

    From a trained PRM on (`--backbone FOLDER`) all of them begin as its value.
    """
    if len(set(quantiles)) != len(quantiles) or not quantiles or not all(0 < q < 1 for q in quantiles):
        raise ValueError(f"quantiles are different numbers between 0 and 1, not {tuple(quantiles)}")
    ranked = sorted(quantiles, key=lambda q: abs(q - 0.5))
    names = tuple(f"q{100 * q:g}" for q in ranked)
    return Objective(
        f"quantile({', '.join(f'{q:g}' for q in sorted(ranked))})",
        lambda logits, targets, mask: pinball_loss(logits, targets, mask, ranked),
        columns=names,
    )


@register("objective", "value-and-reward")
def value_and_reward(aspect: str = "reward") -> Objective:
    """Two outputs (BiRM): a value fitted to the labels, a reward fitted to this aspect of the same judgements."""
    columns = ("value", "reward")
    return Objective(
        f"value-and-reward(aspect={aspect})", value_and_reward_loss, columns=columns, beside=(aspect,),
        labels_by="the labeller `beside` writes the word of a second judge there",
    )  # fmt: skip


@register("objective", "buffer", Declared(needs=("outcomes",)))
def buffer(factor: float | None = None, last_weight: float = 1.0) -> Objective:
    """Outcome labels on every step with a buffer class for their noise (FreePRM); the last label counts as true."""
    if factor is not None and not 0 <= factor <= 1:
        raise ValueError(f"a buffer factor lies between 0 and 1, not at {factor}")
    if last_weight <= 0:
        raise ValueError(f"the last step's weight must be positive, not {last_weight}")
    shown = "drawn" if factor is None else f"{factor:g}"
    return Objective(
        f"buffer(factor={shown}, last_weight={last_weight:g})",
        lambda logits, targets, mask: buffer_loss(logits, targets, mask, factor, last_weight),
        outcome,
        classes=("good", "bad", "buffer"),
        good=("good",),
        along=True,
        one_label=True,
    )


@register("objective", "token-value", Declared(needs=("outcomes",)))
def token_value() -> Objective:
    """How a roll-out ended, learned at every labelled place of it (VGS): 1 correct, 0 incorrect, 0.5 incomplete.

    With a step a token (`footfall.segment.tokens.recut`) every token is such a place; the roll-in has no labels.
    """
    index = {0.0: Ending.INCORRECT, 1.0: Ending.CORRECT, 0.5: Ending.INCOMPLETE}

    def target(label: float) -> float:
        if label not in index:
            raise ValueError(f"label {label:g} says no ending; 1 is correct, 0 incorrect, 0.5 incomplete")
        return float(index[label])

    return Objective(
        "token-value",
        lambda logits, targets, mask: token_value_loss(logits, targets.masked_fill(~mask, 0).amax(dim=-1), mask),
        target,
        lambda label: label == 1,
        classes=tuple(ending.name.lower() for ending in Ending),
        good=(Ending.CORRECT.name.lower(),),
        items=traces,
        one_label=True,
    )


@register("objective", "verdict", Declared(unmeasured="it trains critics, which write before they judge"))
def verdict(threshold: float = 0.5) -> Objective:
    """Language modelling of a critic's verdict, given its question and the critique of the labels, if they have one.

    loss = −log π(verdict | question, critique); a step is good if its label is above the threshold.
    """
    return Objective(
        f"verdict(threshold={threshold:g})",
        lambda logits, targets, mask: bce_loss(logits, targets, mask, threshold),
        is_good=lambda label: label > threshold,
        language="verdict",
    )


@register("objective", "critique", Declared(unmeasured="it trains critics, which write before they judge"))
def critique(threshold: float = 0.5) -> Objective:
    """Language modelling of whole critiques and their verdicts: what `footfall label --method agreeing` keeps.

    loss = −(1/T) Σ_t log π(token_t | question, tokens before it), over the critique that a label brings and its verdict.
    """
    made = verdict(threshold)
    return replace(made, name=f"critique(threshold={threshold:g})", settings={"whole": True})


def side(label: float) -> float:
    """The label, if it names a side of a pair."""
    if label not in (0, 1):
        raise ValueError(f"label {label:g} names no side of a pair; the chosen trace has 1, the rejected one 0")
    return label


def outcome(label: float) -> float:
    """The label, if it says how a trace ended."""
    if label not in (0, 1):
        raise ValueError(f"label {label:g} is no outcome; this loss takes 1 (right) and 0 (wrong)")
    return label
