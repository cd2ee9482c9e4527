"""`footfall completion SHELL`: a script that completes commands, options and the names of parts.

The script holds the names as they are now, so nothing is started while one types; after an update it is written again.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_args, get_origin

from footfall.commands._config_file import options_of
from footfall.registry import KINDS, parts

_PARTS = {
    "policy": ("policy",), "judge": ("labeller", "reward"), "objective": ("objective",), "format": ("format",),
    "family": ("family",), "benchmark": ("benchmark",),
}  # fmt: skip
"""Options that name parts of these kinds."""
_PLAIN = re.compile(r"[\w./-]+")
"""Names that mean nothing to a shell; an extension may have others."""
_METHODS = {"label": ("labeller", "tree-labeller"), "search": ("searcher",)}
_BASH = """\
# footfall completion for bash; in zsh after: autoload -U compinit bashcompinit && compinit && bashcompinit
_footfall() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$cur"))
        return
    fi
    case "$command $prev" in
{values}
    esac
    case "$cur" in
        -*) case "$command" in
{options}
            esac
            COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
        *) COMPREPLY=($(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur")) ;;
    esac
}}
complete -o filenames -F _footfall footfall
"""


class Option(NamedTuple):
    """A flag, and the words that can follow it as far as they are known."""

    flag: str
    values: Sequence[str]


def main(arguments: Sequence[str]) -> int:
    """Print the script."""
    parser = argparse.ArgumentParser(
        "footfall completion",
        description="Print a completion script, e.g. for ~/.bashrc: source <(footfall completion bash)",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that it is for")
    shell = parser.parse_args(arguments).shell
    sys.stdout.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]())
    return 0


def _options() -> dict[str, list[Option]]:
    """The flags of each command; `list` takes a kind instead."""
    commands: Mapping[str, Any] = import_module("footfall.cli").COMMANDS
    found: dict[str, list[Option]] = {}
    for name, command in commands.items():
        kind = getattr(import_module(command.module), command.config) if command.config else None
        named = _PARTS | {"method": _METHODS.get(name, ())}
        found[name] = [] if kind is None else [
            Option("--" + option.replace("_", "-"), tuple(_values(hint, named.get(option, ()))))
            for option, hint in options_of(kind)
        ]  # fmt: skip
    return found


def _values(hint: Any, kinds: Sequence[str]) -> Iterator[str]:
    for kind in kinds:
        yield from (name for name in parts(kind) if _PLAIN.fullmatch(name))
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Literal:
            yield from map(str, get_args(each))


def _bash() -> str:
    options = _options()
    values = [
        f'        "{name} {option.flag}") words="{" ".join(option.values)}" ;;'
        for name, own in options.items()
        for option in own
        if option.values
    ]
    values.append(f'        "list list") words="{" ".join([*KINDS, "recipe"])}" ;;')
    flags = [
        f'                {name}) words="{" ".join(option.flag for option in own)}" ;;' for name, own in options.items()
    ]
    return _BASH.format(commands=" ".join(options), values="\n".join(values), options="\n".join(flags))


def _zsh() -> str:
    """Bash's script: zsh runs such by itself."""
    return f"#compdef footfall\nautoload -U compinit bashcompinit && compinit && bashcompinit\n{_bash()}"


def _fish() -> str:
    commands: Mapping[str, Any] = import_module("footfall.cli").COMMANDS
    lines = ["# footfall completion for fish"]
    for name, own in _options().items():
        lines.append(f"complete -c footfall -n __fish_use_subcommand -a {name} -d {_quoted(commands[name].summary)}")
        for option in own:
            known = f" -x -a {_quoted(' '.join(option.values))}" if option.values else ""
            flag = option.flag.removeprefix("--")
            lines.append(f"complete -c footfall -n '__fish_seen_subcommand_from {name}' -l {flag}{known}")
    lines.append(f"complete -c footfall -n '__fish_seen_subcommand_from list' -a {_quoted(' '.join(KINDS))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
