"""A PRM of `scripts/loop.py` as the package ships it: adapter, head, `step_head.json` with canary and threshold, model card.

The card is written from what training and evaluation left behind, so that no figure in it is typed by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from footfall.damaged import naming
from footfall.reward.config import CONFIG_FILE, read_json
from footfall.reward.prm import HEAD_FILE
from footfall.reward.shipped import ADAPTER_CONFIG, ADAPTER_FILE
from scripts.loop_files import kept
from scripts.loop_measure import tables

MOST_BYTES = 20_000_000
SOURCES = {
    "prm800k": ("PRM800K, rated traces; people", "MIT"),
    "mr-ben": ("MR-Ben, the first error; people", "MIT"),
    "eic-math": (
        "EIC-Math: solutions of GSM8K and MathQA, and the same with one error that a model wrote",
        "none stated",
    ),
    "gold": ("solutions of GSM8K train and MATH test; right by construction", "MIT"),
    "injected": ("the same with one wrong result; wrong by construction", "MIT"),
    "outcome": (
        "whether the answers of the base's own solutions to GSM8K train and MATH train are right",
        "MIT (problems)",
    ),
    "distilled": ("step scores that Qwen2.5-Math-PRM-7B gave to pools of StrictPRMBench", "CC-BY-4.0"),
}
OWN = (
    "{}: the base's own solutions to GSM8K train and MATH train, labelled with its own completions",
    "MIT (problems)",
)
OTHERS = {"mr-ben": "MR-Ben", "eic-math": "EIC-Math"}
"""Sources that are benchmarks of others."""
LICENCE = "adapter and head: Apache-2.0, as the base; what they were trained on is named in the model card"
LIMITS = """\
- It reads English mathematics in steps with a blank line after each; other subjects, languages and programs were not measured.
- A value is how likely a step is right as the labels saw it, not a calibrated probability: `footfall calibrate` makes it one.
- Problems of ProcessBench, PRMBench, GSM8K test and MATH-500 were kept out of the training as far as the table above says;
  of MATH's other test problems and of {seen} it has seen some: report no figure of it there.
- On other numbers of the same base (full precision, another quantisation) values move a little; the canary allows 0.25."""


def ship(out: Path, name: str, to: Path, hub: str) -> None:
    """Write the folder `to`; refused if the PRM was not measured, or is too large."""
    source = out / f"prm-{name}"
    facts = kept(source / "facts.json", validation=dict, config=dict, labels=dict)
    evaluated = kept(out / "evaluate.json").get(name, {})
    if not isinstance(evaluated, dict) or "processbench" not in evaluated:
        raise SystemExit(f"{name} has no figures of ProcessBench: run the stages score and evaluate first")
    size = sum((source / file).stat().st_size for file in (ADAPTER_FILE, HEAD_FILE))
    if size > MOST_BYTES:
        raise SystemExit(f"{name} has {size:,} bytes, more than {MOST_BYTES:,}: train it with a smaller --rank")
    config = read_json(source)
    adapter = kept(source / ADAPTER_CONFIG, r=int) | {"base_model_name_or_path": hub}
    with naming(source):
        config |= {"backbone": hub, "training": config["training"] | {"licence": LICENCE}}
        written = card(to.name, hub, facts, config, evaluated, size, adapter["r"])
    to.mkdir(parents=True, exist_ok=True)
    for file in (ADAPTER_FILE, HEAD_FILE):
        (to / file).write_bytes((source / file).read_bytes())
    for file, given in ((ADAPTER_CONFIG, adapter), (CONFIG_FILE, config)):
        (to / file).write_text(json.dumps(given, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    (to / "README.md").write_text(written, encoding="utf-8")


def card(
    name: str, hub: str, facts: Mapping[str, Any], config: Mapping[str, Any], evaluated: Mapping[str, Any], size: int, rank: int
) -> str:  # fmt: skip
    """The model card in Markdown."""
    chosen, settings = facts["validation"], facts["config"]
    rows = [(*_source(label), counts) for label, counts in facts["labels"].items()]
    data = "\n".join(
        f"| {what} | {licence} | {counts['traces']:,} | {counts['steps']:,} | {counts['below one half']:,} "
        f"| {counts['generated tokens']:,} |"
        for what, licence, counts in rows
    )
    way = f"LoRA of rank {rank}"
    if settings["lora_rank"] is None:
        kept = 100 * facts["kept in the adapter"]
        way = f"All linear layers, of which the nearest adapter of rank {rank} is kept ({kept:.0f}% of the change)"
    area = "" if chosen["auc"] is None else f", step AUC there {chosen['auc']:.3f}"
    canary = "; ".join(", ".join(f"{value:.3f}" for value in trace["values"]) for trace in config["canary"]["traces"])
    seen = "".join(
        f"Of {on} it has seen {len(ids):,} problems; its figures there are over the others.\n"
        for on, ids in facts.get("seen", {}).items()
    )  # fmt: skip
    own = {label: _source(label)[1] for label in facts["labels"]}
    unlicensed = ""
    if "none stated" in own.values():
        unlicensed = "Data without a stated licence were used to train, and are not passed on.\n"
    others = ", ".join(name for label, name in OTHERS.items() if label in own)
    return f"""\
---
license: apache-2.0
base_model: {hub}
library_name: footfall
tags: [process-reward-model, prm, mathematics]
---

# footfall/{name}

A process reward model: an adapter and a step head ({size / 1e6:.1f} MB) on {hub}, which is not in this folder.

    footfall score traces.jsonl --judge footfall/{name} --base FILE_OR_HUB_ID

`--base` is a GGUF file, a folder or a hub id; without it {hub} is fetched. It was trained on {facts["model"]}.

## Data

| labels | licence | traces | labelled steps | below one half | tokens generated for them |
|---|---|---:|---:|---:|---:|
{data}

Held against {", ".join(facts["against"])}: no training problem is one of theirs, or nearly (`footfall.train.find_overlaps`).
{seen}{unlicensed}
## Training

{way}, objective {settings["objective"]}, epochs: {settings["epochs"]}, learning rate {settings["lr"]:g}, seed
{settings["seed"]}: {facts["updates"]:,} updates over {facts["tokens"]:,} tokens, {facts["training seconds"]:,.0f} s.

## Threshold

A step valued below **{chosen["threshold"]:.4f}** is called wrong. It has the highest first-error F1 ({100 * chosen["f1"]:.1f})
on {chosen["rows"]:,} held-out rows of other problems{area}; no benchmark had a part in it.

## Figures

In percent, with 95% bootstrap intervals over cases and problems.

{tables({name: evaluated})}
## Limits

{LIMITS.format(seen=others or "none")}

## Canary

Two solutions are scored when it is loaded: {canary}. Other values, or other token ids, are refused.
"""


def _source(label: str) -> tuple[str, str]:
    what, licence = SOURCES.get(label, OWN)
    return what.format(label), licence
