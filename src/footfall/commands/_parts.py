"""Parts made from what the user asked for: an option that a part does not take is an error that says so."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from footfall.commands._options import PolicyOptions, given
from footfall.policy.protocol import Policy
from footfall.registry import load, parts

__all__ = ["make_part", "open_policy", "separator_of", "settings"]

_NAMED_BY = {
    "policy": "--policy, who completes the prefixes (embedded, scripted-arithmetic, http with --url, a folder)",
    "url": "--url, the address of the server",
    "data": "--data, the file or folder to measure on",
    "path": "its folder: give that to --judge",
}
"""How a user supplies what a part cannot do without."""
_LINE_WRITERS = ("embedded", "scripted-arithmetic")
"""Policies that put a single line break after each step."""


def make_part(kind: str, name: str, asked: Mapping[str, Any], offered: Mapping[str, Any] | None = None) -> Any:
    """The registered part with all that was asked for, and what is offered as far as it takes it.

    A value that is a `PolicyOptions` is opened here, after the options have been found to fit.
    """
    factory = load(kind, name)
    takes = inspect.signature(factory).parameters
    for option in asked:
        if option not in takes:
            near = difflib.get_close_matches(option, takes, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it takes: {', '.join(takes) or 'nothing'}"
            raise ValueError(f"the {kind} {name!r} takes no {_flag(option)}; {hint}")
    arguments = {**{k: v for k, v in (offered or {}).items() if k in takes}, **asked}
    for option, parameter in takes.items():
        if parameter.default is parameter.empty and option not in arguments:
            raise ValueError(f"the {kind} {name!r} needs {_NAMED_BY.get(option, _flag(option))}")
    opened = {k: open_policy(v) if isinstance(v, PolicyOptions) else v for k, v in arguments.items()}
    return factory(**opened)


def _flag(option: str) -> str:
    if option == "params":
        return "--temperature, --top-p, --top-k or --max-tokens"
    return "--" + option.replace("_", "-")


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """`name=value` pairs; a value that is JSON is read as JSON, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"--set takes name=value, not {pair!r}")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            found[name.replace("-", "_")] = value
    return found


def open_policy(options: PolicyOptions) -> Policy:
    """The policy of a registered name, of a folder, or of a hub id (which has a slash)."""
    name = options.policy or ("http" if options.url else None)
    if name is None:
        raise ValueError(f"name {_NAMED_BY['policy']}")
    asked = {k: v for k, v in given(options).items() if k not in ("policy", "step_end")}
    if name not in parts("policy") and (Path(name).is_dir() or "/" in name):
        if name[0] in "./~" and not Path(name).is_dir():
            raise FileNotFoundError(f"{name}: there is no such folder to load a policy from")
        name, asked = "torch", {"path": name, **asked}
    policy: Policy = make_part("policy", name, asked)
    return policy


def separator_of(options: PolicyOptions) -> str:
    """What stands after each step that the policy writes."""
    line = options.step_end == "line" or (options.step_end == "auto" and options.policy in _LINE_WRITERS)
    return "\n" if line else "\n\n"
