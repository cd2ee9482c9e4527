"""Every judge that writes can be asked of an OpenAI-compatible server, `footfall score --url`; what it cannot read is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from footfall.formats import write
from footfall.types import Judged, Problem, Step, Trajectory
from tests.cli.serving import Server
from tests.cli.telling import told

RIGHT, WRONG = "\\boxed{correct}", "\\boxed{incorrect}"
SAID = {
    "stepwiser": ("Fine. \\boxed{Positive}", [1.0, 1.0]),
    "spark": (f"1: {RIGHT} 2: {WRONG} Final verdict: No", [1.0, 0.0]),
    "rrm-reasoning": ("\\boxed{Assistant 1}", [0.5, 0.5]),
    "rm-r1": ("<answer>[[B]]</answer>", [0.5, 0.5]),
    "rubric-rm": ('{"rubric": [{"criterion": "all", "points": 10}]} {"points": [7], "miracle": [2]}', [0.7, 0.0]),
    "dg-prm": ('{"criteria": ["progress"], "analysis": ""} {"scores": [4]}', [0.4, 0.4]),
    "critic": ("\\boxed{1}", [1.0, 0.0]),
}
"""A reply that each can read, and the values of two steps that it gives; a pair judge that goes by the place draws."""


@pytest.fixture
def server(process: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.chdir(tmp_path)
    problem = Problem("p", "What is 3 - 4?", "-1")
    traces = [Trajectory(name, problem, (Step("3 - 4 = -1."), Step(f"{name}: -1."))) for name in ("one", "two")]
    write("traces.jsonl", [Judged(trace, None) for trace in traces], "jsonl")
    return process


def scored(capsys: pytest.CaptureFixture[str], server: Server, name: str) -> tuple[list[list[float | None]], int]:
    """The values, and the number of steps without one that the command counts."""
    words = ("--url", server.url, "--mode", "chat", "--model", "toy", "--max-tokens", "64", "--set", "n=2")
    found = told(capsys, "score", "traces.jsonl", "--judge", name, *words, "--temperature", "0.5", "--fresh")
    return [row["values"] for row in found["rows"]], sum(found["unjudged"].values())


@pytest.mark.parametrize("name", SAID)
def test_a_judge_reads_a_server_s_replies(name: str, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    text, values = SAID[name]
    server.behave(text=text)
    found, silent = scored(capsys, server, name)
    assert found == [pytest.approx(values)] * 2 and silent == 0
    assert all(request["max_tokens"] == 64 for request in server.requests())
    server.behave(text="I would rather not say.")
    assert scored(capsys, server, name) == ([[None, None]] * 2, 4), "no verdict is no zero, and is counted"
