"""The command line: `footfall COMMAND …`. Nothing heavy is imported before a command needs it.

A command is a module with a frozen dataclass, which tyro turns into flags and help, and `main(config) -> int`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import logging
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from footfall import registry
from footfall._version import __version__
from footfall.commands import COMMANDS
from footfall.part_files import FILE_MODULE
from footfall.terminal import visible, without_keys

__all__ = ["main"]


_LONGEST = 4000
"""Of an error in characters: ids and names in it may be of any length."""
_SETTINGS = ("--set", "--option", "--map")
"""Flags that take any number of name=value."""
_NAMING_PARTS = (
    "--judge",
    "--judge-role",
    "--held-out-judge",
    "--policy",
    "--helper",
    "--prover",
    "--judge-policy",
    "--writer",
    "--method",
    "--objective",
    "--credit",
    "--filter",
)
"""Flags after which a part may be named by its file, mine.py:MyJudge."""


_RAY_ADDRESS = re.compile(r"auto|local|ray://.+|[^/\s]+:\d+")
"""What may follow --ray; any other word is not its value."""
_SECRETS = (
    (re.compile(r"//\S{1,999}@|(?<=\w:)/\S{1,999}@"), "//***@"),
    (re.compile(r"([?&][\w.-]+=)[^\s&'\"]+"), r"\1***"),
    (re.compile(r"(api[-_]key\s*=)\s*[^\s,'\"]+"), r"\1***"),
)
"""What no message repeats: of an address user and password before @ (a path has one slash of two) and what follows ?, and a
key among the words of a policy."""
_MOST_WORDS = 300
_LESS_MEMORY = (
    "free the device (`nvidia-smi` shows who holds it), name another --device, or take a smaller model; train with a lower "
    "--batch-size and a higher --accumulation, or with --lora-rank; score and search with a smaller --chunk"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. 1: it ran to its end, and nothing came of it (every call failed, no step has a label).

    2: the user has something to mend, said in one line on stderr.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by whoever started this process: nobody reads it
            setattr(sys, stream, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - as long as the process
    if "LOCAL_RANK" in os.environ:  # of several processes each would repeat torch's advice
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if os.environ.get("WANDB_MODE") == "offline":
        os.environ["WANDB_MODE"] = "dryrun"  # the same by its other name: of that one transformers tells on stdout
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"footfall {__version__}\n")
        return 0
    if words[0] not in COMMANDS:
        near = difflib.get_close_matches(words[0], COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(COMMANDS)}"
        return _fail(f"no command is called {words[0]!r}; {hint}")
    try:
        return _run(words[0], words[1:])
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    except KeyboardInterrupt:
        _fail(f"stopped; what is finished is kept, and the same command goes on: {shlex.join(['footfall', *words])}")
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`); the interpreter must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, KeyError, OSError, ImportError, RuntimeError, MemoryError) as error:
        if "LOCAL_RANK" in os.environ and not _is_first_to_fail():
            return 2
        if os.environ.get("FOOTFALL_DEBUG"):
            raise
        if _out_of_memory(error) and not type(error).__module__.startswith("footfall."):
            return _fail(f"out of memory: {_one_line(error)[:_MOST_WORDS]}; {_LESS_MEMORY}")
        if not _is_for_the_user(error) and not _in_file(error):
            raise
        return _fail(_in_file(error) + _one_line(error))
    except (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError) as error:
        # Of this package it is a fault to be seen whole; in the user's own file it is told with its place.
        if os.environ.get("FOOTFALL_DEBUG") or not _in_file(error):
            raise
        return _fail(_in_file(error) + _one_line(error))


def _run(name: str, words: list[str]) -> int:
    command = COMMANDS[name]
    module = importlib.import_module(command.module)
    config_name = command.config
    if config_name is None:
        return int(module.main(words))
    if not isinstance(config_name, str):
        if not words or words[0] not in config_name:
            return _group(name, {each: getattr(module, own) for each, own in config_name.items()}, words)
        name, config_name, words = f"{name} {words[0]}", config_name[words[0]], words[1:]
    import tyro

    from footfall.commands._config_file import with_file, without_values_of_unknown
    from footfall.commands._options import check_options

    logging.setLogRecordFactory(_Record)
    warnings.formatwarning = _warning
    kind = getattr(module, config_name)
    style = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
    registry.name_files(_naming_parts(words))
    default, words = with_file(kind, name, words)
    typed = _gathered(words)
    shown = without_values_of_unknown(kind, typed)
    config = tyro.cli(
        kind,
        args=shown,
        default=default,
        prog=f"footfall {name}",
        description=inspect.getdoc(kind),
        config=style,
    )
    for word, told in zip(typed, shown, strict=True):
        if word != told:  # it would go on under another name than was typed
            raise ValueError(
                f"{told!r}: *** looks like the key of a service, and no file has that name; keys are given by --api-key-env, "
                "and runs and models must be called otherwise"
            )
    check_options(config)
    return int(module.main(config))


class _Record(logging.LogRecord):
    """What a library logs may quote a file: no control character of it reaches the terminal, and no key."""

    def getMessage(self) -> str:  # noqa: N802 - logging's own name
        return visible(without_keys(super().getMessage())[:_LONGEST])


def _warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """What a library warns of may quote a file too."""
    return f"{filename}:{lineno}: {category.__name__}: {visible(without_keys(str(message))[:_LONGEST])}\n"


def _group(name: str, inner: Mapping[str, type], words: Sequence[str]) -> int:
    """The help of a command with commands of its own, or what is wrong with the word after it."""
    if words and words[0] in ("-h", "--help"):
        lines = [
            f"  {each:<{max(map(len, inner))}}  {(inspect.getdoc(kind) or '').partition(chr(10))[0]}"
            for each, kind in inner.items()
        ]
        usage = f"usage: footfall {name} COMMAND [OPTIONS]"
        sys.stdout.write("\n".join([usage, "", *lines, "", f"footfall {name} COMMAND --help explains it.", ""]))
        return 0
    near = difflib.get_close_matches(words[0], inner, n=1) if words else []
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(inner)}"
    return _fail(
        f"no command of `footfall {name}` is called {words[0]!r}; {hint}"
        if words
        else f"name a command of `footfall {name}`; {hint}"
    )


def _gathered(words: list[str]) -> list[str]:
    """`--set a=1 --set b=2` as `--set a=1 b=2`: of a flag given twice the parser would keep the last one only. And `--ray`
    without an address as `--ray local`."""
    kept: list[str] = []
    settings: dict[str, list[str]] = {}
    into: list[str] | None = None
    for word, following in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag in _SETTINGS:
            into = settings.setdefault(flag, [])
            into.extend([value] if equals else [])
        elif into is not None and not word.startswith("-") and "=" in word:
            into.append(word)
        else:
            into = None
            kept += [word, "local"] if word == "--ray" and not _RAY_ADDRESS.fullmatch(following) else [word]
    return kept + [word for flag, values in settings.items() for word in (flag, *values)]


def _naming_parts(words: Sequence[str]) -> Iterator[str]:
    """What was typed after the flags that name parts."""
    flag = ""
    for word in words:
        if word.startswith("--"):
            flag, _, value = word.partition("=")
            flag = flag.replace("_", "-")
        else:
            value = word
        if flag in _NAMING_PARTS and value:
            yield value


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: footfall COMMAND [OPTIONS]",
            "",
            "Process reward models, the whole loop: make step labels, train, search, evaluate.",
            "",
            *lines,
            "",
            "footfall COMMAND --help explains a command and shows how to call it; --config FILE reads its options from TOML or",
            "JSON, whichever command it is. A first look:",
            "  footfall demo",
            "  footfall score traces.jsonl",
            "",
            "An error is one line; FOOTFALL_DEBUG=1 shows where it came from. Exit codes: 0 done; 1 done, but every call",
            "failed or no step has a label; 2 something to mend; 130 stopped, and the same command goes on.",
            "",
        ]
    )


def _is_first_to_fail() -> bool:
    """Of several processes the first one tells its error."""
    from footfall.scale.processes import is_first_to_fail

    return is_first_to_fail()


def _out_of_memory(error: Exception) -> bool:
    """Python's own error, or one of torch, which is loaded where that was raised."""
    if isinstance(error, RuntimeError) and "torch" in sys.modules:
        from footfall.loading import out_of_memory

        return out_of_memory(error)
    return isinstance(error, MemoryError)


def _is_for_the_user(error: Exception) -> bool:
    """A RuntimeError is only if this package made it: one of torch is a fault to be seen whole."""
    return not isinstance(error, RuntimeError) or type(error).__module__.startswith("footfall.")


def _in_file(error: Exception) -> str:
    """Where in the user's own file (mine.py:MyJudge) it happened, and what: its message alone may say little."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(f, line) for f, line in frames if f.f_globals.get("__name__", "").startswith(FILE_MODULE)]
    return f"{own[-1][0].f_code.co_filename}, line {own[-1][1]}: {type(error).__name__}: " if own else ""


def _one_line(error: Exception) -> str:
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return " ".join(str(error).split()) or type(error).__name__


def _fail(message: str) -> int:
    for secret, instead in _SECRETS:
        message = secret.sub(instead, message)
    message = without_keys(message)
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
    sys.stderr.write(f"footfall: {visible(message)}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
