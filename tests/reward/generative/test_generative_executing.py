"""GenPRM's code goes through the sandbox: whatever it does, the critic reads a plain observation and comes to a verdict."""

from __future__ import annotations

from math import log

import pytest

from footfall.registry import create
from footfall.reward.generative.genprm import in_sandbox, observation
from footfall.tools import Limits, Result, Sandbox, why_no_walls
from tests.reward.generative.scripted import Asked, Scripted, trace

needs_walls = pytest.mark.skipif(why_no_walls() is not None, reason=f"no sandbox here: {why_no_walls()}")
SHORT = Sandbox(Limits(seconds=1))


def critic(code: str) -> Scripted:
    """Writes this code, reads what it printed, and says No."""

    def write(asked: Asked, index: int) -> str:
        if asked.opening.endswith("```python\n"):
            return f"{code}\n```\n"
        if asked.opening.endswith("\n```\n"):
            return "So it is.</verify>\n<output>\n**Judgement**: $\\boxed{No}$\n</output>\n"
        return "hm.</analyze>\n"

    return Scripted(write, lambda asked: (log(0.1), log(0.9)))


@needs_walls
@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("while True: pass", "Code execution time out: it was stopped after 1 seconds"),
        ("print(3 * 4)", "12"),
        ("print(1 / 0)", "ZeroDivisionError: division by zero"),
        ("import os; os.kill(os.getpid(), 9)", "Code execution was stopped: SIGKILL"),
    ],
)
def test_an_endless_loop_is_an_observation_like_any_other_and_the_step_gets_its_value(code: str, seen: str) -> None:
    judge = create("reward", "genprm", policy=critic(code), execute=in_sandbox(SHORT))
    (said,) = judge.judge([trace("3 * 4 = 12.")])
    assert said.values == pytest.approx((0.1,)) and not any(said.failures)
    assert said.rationales[0] is not None and f"[Code Output]\n\n```\n{seen}\n```\n" in said.rationales[0]


@needs_walls
def test_blocks_of_one_critique_share_their_names_and_what_they_printed_is_told_once() -> None:
    blocks = ["total = 3 * 4\nprint(total)", "print(total + 2)"]

    def write(asked: Asked, index: int) -> str:
        ran = asked.opening.count("[Code Output]")
        if "<verify>" in asked.opening and ran < 2:
            return ("```python\n" if ran else "") + blocks[ran] + "\n```\n"
        return "<output>\n**Judgement**: $\\boxed{Yes}$\n</output>\n" if ran else "hm.</analyze>\n"

    judge = create("reward", "genprm", policy=Scripted(write, lambda asked: (log(0.9), log(0.1))), code=True)
    (said,) = judge.judge([trace("3 * 4 = 12.")])
    assert said.values == pytest.approx((0.9,)) and judge.name.startswith("genprm:")
    assert (said.rationales[0] or "").count("```\n12\n```") == 1 and "```\n14\n```" in (said.rationales[0] or "")


def test_what_was_printed_before_the_end_is_shown_too() -> None:
    late = Result("half\n", "", None, timed_out=True, killed_by="time")
    assert observation(late, 5).splitlines() == ["half", "Code execution time out: it was stopped after 5 seconds"]
    assert observation(Result("", "", 3), 5) == "exit code 3"
    assert observation(Result("", "", 0), 5) == ""
