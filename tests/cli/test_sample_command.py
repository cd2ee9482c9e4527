"""`footfall sample` over a server that fails for a while: what failed is asked for again, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.formats import read_parquet, spool
from footfall.terminal import Progress
from tests.cli.serving import Server

N = 3


@pytest.fixture
def server(process: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"p{k}", "problem": f"p{k}: what is 3 - 4?", "answer": "-1"} for k in range(4)]
    Path("problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    process.behave(None, solve=True)
    return process


def told(capsys: pytest.CaptureFixture[str], server: Server, *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    fixed = [
        "sample",
        "--problems",
        "problems.jsonl",
        "--url",
        server.url,
        "--n",
        str(N),
        "--retries",
        "0",
        "--chunk",
        "2",
    ]
    assert cli.main([*fixed, "--json", *words]) == code, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("store", "in_memory"), [("none", 20_000), ("rollouts", 20_000), ("none", 1)])
def test_failed_calls_are_tried_again_by_the_same_command_and_the_result_is_as_if_none_had_failed(
    store: str, in_memory: int, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = told(capsys, server, "--out", "whole", "--store", "none")
    monkeypatch.setattr(spool, "IN_MEMORY", in_memory)
    assert whole["failed"] == {} and whole["traces"] == 4 * N
    words = ("--out", "run", "--store", store)
    server.behave(None, solve=True, faults=[{"kind": "500", "match": "p1:"}, {"kind": "500", "match": "p3:"}])
    first = told(capsys, server, *words)
    assert sum(first["failed"].values()) == 2 * N and len(read_parquet(Path(first["file"]), "trajectory")) == 2 * N
    server.behave(None, solve=True, faults=[{"kind": "500", "match": "p3:"}])
    second = told(capsys, server, *words)
    asked = server.asked()
    assert len(asked) == 2 * N and not any("p0:" in key or "p2:" in key for key in asked)
    assert sum(second["failed"].values()) == N
    server.behave(None, solve=True)
    third = told(capsys, server, *words)
    assert len(server.asked()) == N and all("p3:" in key for key in server.asked()) and third["failed"] == {}
    assert Path(third["file"]).read_bytes() == Path(whole["file"]).read_bytes()
    server.behave(None, solve=True)
    assert told(capsys, server, *words)["accuracy"] == whole["accuracy"] and server.asked() == []


def test_problems_that_are_all_wrong_leave_their_share_an_interval(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Resamples of four problems that are all wrong have no spread; that no fifth can be right does not follow."""
    rows = [{"problem": f"p{k}: what is 3 - 4?", "answer": "7000"} for k in range(4)]
    Path("problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    accuracy = told(capsys, server, "--out", "wrong", "--store", "none")["accuracy"]
    assert accuracy["value"] == 0.0 and accuracy["ci95"] == pytest.approx([0.0, 0.490], abs=0.001)


def test_replies_are_counted_within_a_chunk(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Progress, "tell", lambda self, batch: seen.append(batch))
    told(capsys, server, "--out", "run", "--store", "none")
    assert seen == [f"{done}/{2 * N} answered" for _ in range(2) for done in range(1, 2 * N + 1)]


def test_a_run_in_which_everything_failed_goes_on_when_the_server_is_back(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(None, solve=True, faults=[{"kind": "503"}])
    told(capsys, server, "--out", "run", code=1)
    server.behave(None, solve=True)
    assert told(capsys, server, "--out", "run")["failed"] == {}
