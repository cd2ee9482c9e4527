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

from footfall.commands import COMMANDS, listing
from footfall.commands._config_file import options_of, with_defaults
from footfall.registry import parts

_SHELLS = ("bash", "zsh", "fish")
_PARTS = {
    "policy": ("policy",), "prover": ("policy",), "judge_policy": ("policy",), "judge": ("labeller", "reward"),
    "held_out_judge": ("labeller", "reward"), "objective": ("objective",),
    "format": ("format",), "family": ("family",), "benchmark": ("benchmark",), "segment": ("segmenter",),
    "as": ("family",), "head": ("head",), "credit": ("credit",), "filter": ("filter",),
}  # fmt: skip
"""Options that name parts of these kinds."""
_PLAIN = re.compile(r"[\w./-]+")
"""Names that mean nothing to a shell; an extension may have others."""
_METHODS = {"label": ("labeller", "tree-labeller"), "search": ("searcher",)}
_BASH = """\
# footfall completion for bash; in zsh after: autoload -U compinit bashcompinit && compinit && bashcompinit
_footfall() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}" words="" at=2
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$cur"))
        return
    fi
    case "$command" in
{groups}
    esac
    case "$command $prev" in
{values}
        *) case "$command" in
{first}
            esac ;;
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
_IN_FISH = """\
# footfall completion for fish
function __footfall_in
    string match -q -- "x $argv *" (string join -- " " x (commandline -opc)[2..] "")
end
function __footfall_at
    string match -q -- "x $argv " (string join -- " " x (commandline -opc)[2..] "")
end
"""


class Option(NamedTuple):
    """A flag, whether a value follows it, and the words that can, as far as they are known."""

    flag: str
    valued: bool
    values: Sequence[str]


class _Known(NamedTuple):
    """What can follow a command: options, words without a flag, and whether only one of these."""

    options: Sequence[Option]
    words: Sequence[str] = ()
    once: bool = True


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = argparse.ArgumentParser(
        "footfall completion",
        description="Print a completion script, e.g. for ~/.bashrc: source <(footfall completion bash)",
    )
    made.add_argument("shell", nargs="?", choices=_SHELLS, help="the shell that it is for")
    return made


def main(arguments: Sequence[str]) -> int:
    """Print the script."""
    shell = with_defaults(parser(), "completion", arguments).shell
    if shell not in _SHELLS:
        raise ValueError(f"name the shell: footfall completion {'|'.join(_SHELLS)}")
    sys.stdout.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]())
    return 0


def _known() -> dict[str, _Known]:
    """What can be typed after each command, `lab run` and so on among them."""
    found: dict[str, _Known] = {}
    for name, (home, config, _) in COMMANDS.items():
        module = import_module(home)
        if config is None:
            usage = module.parser().format_usage()
            flags = [Option(flag, False, ()) for flag in re.findall(r"--[\w-]+", usage)]
            found[name] = _Known([*flags, Option("--config", True, ())], _first_words(name))
        elif isinstance(config, str):
            found[name] = _Known(_options(name, getattr(module, config)), _first_words(name))
        else:
            for inner, own in config.items():
                each = f"{name} {inner}"
                found[each] = _Known(_options(each, getattr(module, own)), _first_words(each), once=False)
    return found


def _first_words(command: str) -> Sequence[str]:
    """What a command takes without a flag, beside files."""
    from footfall.commands.bench import MORE

    named = {
        "bench": (*parts("benchmark"), *MORE), "lab run": (*listing.recipes(), "all"), "lab ledger": tuple(listing.recipes()),
        "list": tuple(listing.ABOUT), "completion": _SHELLS,
    }  # fmt: skip
    return [name for name in named.get(command, ()) if _PLAIN.fullmatch(name)]


def _options(command: str, kind: Any) -> list[Option]:
    named = _PARTS | {"method": _METHODS.get(command, ())}
    return [
        Option("--" + option.replace("_", "-"), hint is not bool, tuple(_values(hint, named.get(option, ()))))
        for option, hint in options_of(kind)
    ]


def _values(hint: Any, kinds: Sequence[str]) -> Iterator[str]:
    for kind in kinds:
        yield from (name for name in parts(kind) if _PLAIN.fullmatch(name))
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Literal:
            yield from map(str, get_args(each))
        elif each is bool and hint is not bool:
            yield from ("True", "False")


def _bash() -> str:
    known, groups = _known(), {name: each.config for name, each in COMMANDS.items() if isinstance(each.config, Mapping)}
    values = [
        f'        "{name} {option.flag}") words="{" ".join(option.values)}" ;;'
        for name, own in known.items()
        for option in own.options
        if option.valued
    ]
    once = '[ "$COMP_CWORD" -eq "$at" ] && '
    first = [
        f'                "{name}") {once if own.once else ""}words="{" ".join(own.words)}" ;;'
        for name, own in known.items()
        if own.words
    ]
    flags = [
        f'                "{name}") words="{" ".join(option.flag for option in own.options)}" ;;'
        for name, own in known.items()
    ]
    inner = [
        f'        {name}) if [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "{" ".join(own)}" -- "$cur")); return; fi\n'
        f'            command="$command ${{COMP_WORDS[2]}}" at=3 ;;'
        for name, own in groups.items()
    ]
    parts_of_script = {"groups": inner, "values": values, "first": first, "options": flags}
    lines = {name: "\n".join(each) for name, each in parts_of_script.items()}
    return _BASH.format(commands=" ".join(COMMANDS), **lines)


def _zsh() -> str:
    """Bash's script: zsh runs such by itself."""
    return f"#compdef footfall\nautoload -U compinit bashcompinit && compinit && bashcompinit\n{_bash()}"


def _fish() -> str:
    lines = [_IN_FISH]
    for name, command in COMMANDS.items():
        lines.append(f"complete -c footfall -n __fish_use_subcommand -a {name} -d {_quoted(command.summary)}")
        if isinstance(command.config, Mapping):
            lines.append(f"complete -c footfall -n '__footfall_at {name}' -x -a {_quoted(' '.join(command.config))}")
    for name, own in _known().items():
        for option in own.options:
            values = f" -a {_quoted(' '.join(option.values))}" if option.values else ""
            takes = (" -x" if values else " -r") if option.valued else ""
            flag = option.flag.removeprefix("--")
            lines.append(f"complete -c footfall -n '__footfall_in {name}' -l {flag}{takes}{values}")
        if own.words:
            where = "__footfall_at" if own.once else "__footfall_in"
            lines.append(f"complete -c footfall -n '{where} {name}' -a {_quoted(' '.join(own.words))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
