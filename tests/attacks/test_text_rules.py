"""Texts that are made to be slow to read cost time in proportion to their length, whoever reads them.

Each rule of `text_rules.rules` meets a seeded sample of the texts here; the long tier meets twenty times as many, and texts of
1 MB.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules
from types import FrameType
from typing import Any

import pytest

from footfall import label
from footfall.reward import generative
from tests.attacks.text_rules import rules, texts

LIMIT = 10
"""Seconds of processor time for one text: a rule that is worse than linear needs minutes at these sizes."""
RULES = rules()


@contextmanager
def stopped_after(seconds: int, what: str) -> Iterator[None]:
    """Fail rather than hang; counted in processor time, so that a busy machine changes nothing."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} takes more than {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def read_all(name: str, size: int, count: int, seed: int) -> None:
    for each in random.Random(f"{name} {seed}").sample(list(texts()), count):
        text = each.of(size)
        with stopped_after(LIMIT, f"{name} on {len(text)} characters, {each.made_of},"):
            RULES[name](text)


def test_every_reader_of_what_a_judge_wrote_is_attacked() -> None:
    """A new judge that writes has a function `read_…(text, …)`; here it is missed until it is among the rules."""
    rooms = [(label, "footfall.label."), (generative, "footfall.reward.generative.")]
    modules = [import_module(place + each.name) for room, place in rooms for each in iter_modules(room.__path__)]
    readers = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in modules
        for name, found in vars(module).items()
        if name.startswith("read_") and getattr(found, "__module__", "") == module.__name__
        and next(iter(signature(found).parameters)) in ("text", "tagged")
    }  # fmt: skip
    assert len(readers) > 10 and readers <= RULES.keys()


@pytest.mark.parametrize("name", RULES)
def test_no_text_takes_a_rule_long(name: str) -> None:
    read_all(name, size=50_000, count=12, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_no_text_takes_a_rule_long_in_many_tries(name: str) -> None:
    read_all(name, size=20_000, count=240, seed=2)


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_time_grows_with_the_length_up_to_a_megabyte(name: str) -> None:
    read_all(name, size=1_000_000, count=12, seed=3)


@pytest.mark.parametrize(
    "made",
    [
        lambda n: "#### " + " " * n + "\nx",
        lambda n: "\\boxed{" * n,
        lambda n: "\\boxed{" * n + "}" * n,
        lambda n: "the answer is" + "\n" * n,
        lambda n: "# answer" + "\n" * n,
        lambda n: "\\(" * n + "\\)" * n,
        lambda n: "(" + "1" * n + ")",
    ],
)
def test_the_answer_is_found_in_time_that_grows_with_the_text(made: Callable[[int], str]) -> None:
    """Twenty times the text may take 100 times as long; the rules that were here before took 400 to 8,000 times."""

    def seconds(n: int) -> float:
        text, took = made(n), []
        for _ in range(3):  # the best of three: other work on the machine costs cache, and so processor time
            start = time.process_time()
            with stopped_after(60, f"extract on {len(text)} characters"):
                RULES["answers.extract"](text)
            took.append(time.process_time() - start)
        return min(took)

    assert seconds(40_000) <= 100 * max(seconds(2_000), 1e-3)


def test_tags_that_are_never_closed_take_no_longer_than_the_text() -> None:
    """700 KB of them took ten minutes and more."""
    with stopped_after(LIMIT, "read_chunks"):
        RULES["stepwiser.read_chunks"]("<chunk>" * 100_000)


def test_a_text_that_is_too_long_for_the_formal_readers_is_left_open() -> None:
    verdicts: Any = RULES["formal math"]("3 + 4 = 8. " * 1_000)
    assert [(verdict.holds, "not read" in verdict.reason) for verdict in verdicts] == [(None, True)]
