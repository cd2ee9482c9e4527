"""The commands of the command line, one a file: a typed configuration and `main(config)`. No torch until one runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["COMMANDS", "Command"]


class Command(NamedTuple):
    """Where a command lives. Without a `config` its `main` takes the words of the command line as they are."""

    module: str
    config: str | Mapping[str, str] | None
    """The name of its configuration; of a command with commands of its own, those by name."""
    summary: str


COMMANDS = {
    "demo": Command(
        "footfall.commands.demo", "DemoConfig", "the whole loop on this machine, in minutes, with a report"
    ),
    "sample": Command("footfall.commands.sample", "SampleConfig", "a policy writes traces for problems"),
    "label": Command("footfall.commands.label", "LabelConfig", "an expensive judge labels the steps of traces"),
    "train": Command("footfall.commands.train", "TrainConfig", "a PRM is fitted to those labels"),
    "rl": Command("footfall.commands.rl", "RlConfig", "a policy learns from its own completions, step by step"),
    "calibrate": Command(
        "footfall.commands.calibrate", "CalibrateConfig", "a judge's values are made success rates of your policy"
    ),
    "score": Command("footfall.commands.score", "ScoreConfig", "a judge scores traces of yours, from a file or stdin"),
    "serve": Command("footfall.commands.serve", "ServeConfig", "a judge behind HTTP, for commands on other machines"),
    "search": Command(
        "footfall.commands.search", "SearchConfig", "best-of-N and votes: policy and judge answer problems"
    ),
    "bench": Command("footfall.commands.bench", "BenchConfig", "how good a judge is, with 95% intervals"),
    "lab": Command(
        "footfall.commands.lab",
        {"run": "RunConfig", "ledger": "LedgerConfig"},
        "run a published system's claim; show the ledger",
    ),
    "list": Command("footfall.commands.listing", None, "all parts that can be named, one line each"),
    "show": Command("footfall.commands.show", "ShowConfig", "traces, labels and judgements, to read in the terminal"),
    "completion": Command(
        "footfall.commands.completion", None, "a script for your shell that completes commands and names"
    ),
    "info": Command("footfall.commands.info", "InfoConfig", "this installation, or what a run, model or file is"),
}
