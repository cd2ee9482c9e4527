"""The model that training begins with: a decoder with a fresh head, a PRM to go on from, or one in a family's own format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from footfall.loading import pick_device
from footfall.reward.checkpoint import to_train
from footfall.reward.config import CONFIG_FILE, FOOTFALL
from footfall.reward.family import Family, families
from footfall.reward.prm import PRM
from footfall.reward.publish import begin_as, publishable
from footfall.scale.processes import count
from footfall.train.config import TrainConfig, length_limit
from footfall.train.objectives import Objective


def fresh_model(backbone: str | Path | PRM, config: TrainConfig, objective: Objective) -> PRM:
    """The model that training begins with: one that is a PRM already, or a plain decoder with a fresh head."""
    if isinstance(backbone, PRM):
        return limited(backbone, config)
    # A frozen base may be half precision; weights that are trained stay float32 under autocast.
    half = pick_device(config.device).type == "cuda" and objective.weighing is None
    frozen_half = config.lora_rank is not None and half
    dtype = torch.bfloat16 if frozen_half else torch.float32
    known: PRM | None = None
    if config.as_family is not None:
        return limited(begin_as(backbone, config.as_family, dtype, config.seed), config)
    if (Path(backbone) / CONFIG_FILE).is_file():
        known = PRM.load(backbone, device="cpu", dtype=torch.float32, trainable=True)
        known.head.requires_grad_(True)
    elif config.family != FOOTFALL:
        known = to_train(backbone, config.family, dtype)
        if known is not None and config.lora_rank is not None:
            known.adapt(config.lora_rank, config.lora_alpha, config.seed)
    if known is not None:
        return continued(known, str(backbone), config, objective)
    return PRM.from_backbone(
        backbone,
        marker=config.marker,
        classes=objective.classes,
        good=objective.good,
        heads=config.heads,
        head={"name": config.head, **config.head_options} if config.head else None,
        columns=objective.columns,
        template=config.template,
        view=config.view,
        max_length=config.max_length,
        lora_rank=config.lora_rank,
        lora_alpha=config.lora_alpha,
        dtype=dtype,
        seed=config.seed,
    )


def continued(model: PRM, source: str, config: TrainConfig, objective: Objective) -> PRM:
    """A PRM to go on from; its layout and head stay what they were, but named outputs may take the place of its value."""
    known = model.prm_config
    _refuse_other_adapters(model, source, config)
    if config.marker not in (None, known.marker):
        raise ValueError(f"{source} reads at {known.marker!r}; a further training cannot change that")
    if config.heads not in (0, known.heads):
        raise ValueError(f"{source} has {known.heads} small heads; a further training cannot make them {config.heads}")
    if config.head not in (None, known.head["name"]):
        raise ValueError(f"{source} has the head {known.head['name']}; a further training cannot make it {config.head}")
    for name, value in config.head_options.items():
        if known.head.get(name, value) != value:
            raise ValueError(
                f"{source} has a head with {name}={known.head[name]}; a further training cannot make it {name}={value}"
            )
    if config.template not in (None, known.template):
        raise ValueError(f"{source} is read as {known.template}; a further training cannot make it {config.template}")
    if config.view not in ("all", known.view):
        raise ValueError(f"{source} is shown the view {known.view}; a further training cannot make it {config.view}")
    if config.family not in (None, known.family):
        raise ValueError(
            f"{source} is of the family {known.family}; a further training cannot read it as {config.family}"
        )
    if objective.columns and model.family.marks:
        raise ValueError(
            f"a {known.family} reads its marks and its value with one head and cannot hold the outputs "
            f"{', '.join(objective.columns)}; leave {objective.name} out, or put a fresh head on it (--family {FOOTFALL})"
        )
    if objective.columns and not known.columns:
        model.widen(objective.columns)
    return limited(model, config)


def _refuse_other_adapters(model: PRM, source: str, config: TrainConfig) -> None:
    """Adapters to go on from have the shape that they were made with."""
    if config.lora_rank is None:
        return
    if not model.prm_config.lora:
        raise ValueError(f"{source} was trained without lora; a further training cannot change that")
    stored: Any = model.backbone.peft_config["default"]
    for name, asked, known in (("rank", config.lora_rank, stored.r), ("alpha", config.lora_alpha, stored.lora_alpha)):
        if asked not in (None, known):
            raise ValueError(f"{source} has adapters of {name} {known}; a further training cannot make it {asked}")


def limited(model: PRM, config: TrainConfig) -> PRM:
    """The model with the context that it has, or less where the config says so."""
    limit = length_limit(config.max_length, model.max_length) or model.max_length
    model.prm_config = replace(model.prm_config, max_length=limit)
    return model


def refuse_unfit(objective: Objective, family: Family | None) -> None:
    """An objective that trains another kind of model, or what several processes cannot train."""
    if objective.language != (family and family.objective):
        if family is not None:
            own = family.objective
            raise ValueError(
                f"a {family.name} is trained by the objective {own} (--objective {own}), not by {objective.name}"
            )
        fitting = ", ".join(name for name, known in families().items() if known.objective == objective.language)
        raise ValueError(
            f"{objective.name} trains no head, but a language model of the families {fitting}: name one (--family)"
        )
    if count() > 1 and (family is not None or objective.whole):
        what = (
            f"a {family.name} is a language model" if family else f"{objective.name} weighs the steps of a whole batch"
        )
        raise ValueError(f"{what}, and is trained by one process: start it without a launcher")


def as_published(config: TrainConfig, objective: Objective, backbone: str | Path | PRM) -> TrainConfig:
    """The config of a run that is written as a family, whose folders hold one head and all weights."""
    family = publishable(str(config.as_family))
    if isinstance(backbone, PRM) or config.family not in (None, family.name):
        raise ValueError(
            f"a plain decoder is trained as {family.name}; leave --family out and name its folder or hub id"
        )
    if family.objective is not None:
        return replace(config, family=family.name)
    asked = {"heads": config.heads, "head": config.head, "marker": config.marker, "view": config.view != "all",
             "template": config.template}  # fmt: skip
    own = [name for name, given in asked.items() if given]
    if objective.columns or own:
        what = f"the outputs {', '.join(objective.columns)}" if objective.columns else f"{own[0]} of your own"
        raise ValueError(
            f"a {family.name} folder holds one head with the outputs {', '.join(family.readout.classes)} and cannot hold "
            f"{what}; leave --as out"
        )
    if config.lora_rank is not None:
        raise ValueError(f"a {family.name} folder holds all weights, no adapter: leave lora_rank out with --as")
    return config
