"""`footfall label` with methods that go on in the middle of a line, over a server that is sent ids: --tokenizer FOLDER."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.formats import read, write
from footfall.types import Judged
from tests.cli.serving import Server
from tests.cli.telling import told
from tests.policy.served_tokens import DOUBTS, FOLDER, embedded_tokenizer, vocabulary

NAMES = ("a", "b")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return embedded_tokenizer()


@pytest.fixture
def server(process: Server, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": name, "problem": f"{name}: what is 3 - 4?", "answer": "-1"} for name in NAMES]
    Path("problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    solving(process, tokenizer)
    return process


def solving(server: Server, tokenizer: Any, **more: Any) -> None:
    server.behave(None, solve=True, vocabulary=vocabulary(tokenizer), doubts=DOUBTS, **more)


def over(server: Server) -> tuple[str, ...]:
    return ("--url", server.url, "--tokenizer", str(FOLDER), "--retries", "0")


def sampled(capsys: pytest.CaptureFixture[str], server: Server, *words: str) -> str:
    return str(told(capsys, "sample", "--problems", "problems.jsonl", "--n", "2", *over(server), *words)["file"])


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--step-end", "none")])
def test_adaptive_steps_go_on_from_exactly_their_ids(
    words: tuple[str, ...], server: Server, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = sampled(capsys, server, *words)
    solving(server, tokenizer)
    line = ("label", "--data", data, "--method", "adaptivestep", *over(server), "--rollouts", "2", "--set", "share=0.2")
    estimate = told(capsys, *line, "--estimate")
    found = told(capsys, *line)
    rows = read(found["file"])
    expected = set()
    for row in rows:
        assert row.trajectory.separator == "" and row.judgement and set(row.judgement.values) <= {0.0, 1.0}
        ids = [1, *tokenizer.encode(row.trajectory.problem.text + "\n", add_special_tokens=False)]
        for step in row.trajectory.steps[:-1]:
            ids += step.token_ids or ()
            expected.add(tuple(ids))
    asked = [tuple(request["prompt"]) for request in server.requests()]
    assert set(asked) == expected and found["labelled"] == found["steps"] > len(rows)
    assert any(not tokenizer.decode(ids).endswith("\n") for ids in asked), "in the middle of a line"
    assert estimate["low"]["calls"] <= len(asked) <= estimate["high"]["calls"]
    assert told(capsys, *line, "--out", "runs/other")["store"]["misses"] == 0


def test_a_trace_without_ids_has_no_label_and_the_others_have_theirs(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [row.trajectory for row in read(sampled(capsys, server))]
    Path("none.jsonl").write_text(
        json.dumps({"problem": "3 - 4?", "steps": ["So -1."], "answer": "-1"}) + "\n", "utf-8"
    )
    (bare,) = (row.trajectory for row in read("none.jsonl"))
    write("mixed.jsonl", [Judged(trace, None) for trace in (*given, bare)], "jsonl")
    line = ("label", "--data", "mixed.jsonl", "--method", "adaptivestep", *over(server), "--rollouts", "1")
    assert list(told(capsys, *line, "--estimate")["without_label"].values()) == [1]
    found = told(capsys, *line)
    assert found["labelled"] == found["steps"] - 1
    assert ["does not hold the ids" in reason for reason in found["unlabelled"]] == [True]


def test_trees_branch_where_a_server_is_unsure(
    server: Server, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = sampled(capsys, server)
    solving(server, tokenizer)
    line = ("label", "--data", data, "--method", "edu-prm", "--trees", "3", *over(server))
    estimate = told(capsys, *line, "--estimate")
    assert not server.asked() and estimate["tokens_counted_by"] == "the policy's tokenizer"
    found = told(capsys, *line)
    rows = read(found["file"])
    assert len(rows) == len(NAMES) * 3 and found["labelled"] == found["steps"] > len(rows)
    assert found["cost"]["calls"] == len(server.requests()) == 6 == estimate["high"]["calls"]
    assert 0 < found["cost"]["generated_tokens"] <= estimate["high"]["generated_tokens"]
    assert 0 < found["cost"]["prompt_tokens"] <= estimate["high"]["prompt_tokens"]
    assert {row.trajectory.tokenizer for row in rows} == {row.trajectory.tokenizer for row in read(data)}


def test_a_problem_whose_request_failed_has_no_tree(
    server: Server, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = sampled(capsys, server)
    solving(server, tokenizer, faults=[{"kind": "500", "match": "a: what"}])
    found = told(capsys, "label", "--data", data, "--method", "edu-prm", "--trees", "2", *over(server))
    assert found["traces"] == 2 and found["cost"]["calls"] == 3
    assert [(count, "HTTP 500" in why) for why, count in found["problems_without_tree"].items()] == [(1, True)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("adaptivestep",),
            "adaptivestep goes on in the middle of a line, from token ids: over a server it needs --tokenizer",
        ),
        (("edu-prm", "--trees", "2"), "over a server it needs --tokenizer FOLDER"),
        (("edu-prm", "--trees", "2", "--tokenizer", str(FOLDER)), "gives no log-probabilities of the likeliest tokens"),
        (("edu-prm", "--trees", "2", "--tokenizer", str(FOLDER), "--mode", "chat"), "use mode='completions'"),
        (("adaptivestep", "--tokenizer", str(FOLDER)), "with the same --tokenizer (and --step-end none"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    words: tuple[str, ...], said: str, server: Server, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("traces.jsonl").write_text(
        json.dumps({"problem": "3 - 4?", "steps": ["So -1."], "answer": "-1"}) + "\n", "utf-8"
    )
    solving(server, tokenizer, no_logprobs=True)
    capsys.readouterr()
    assert cli.main(["label", "--data", "traces.jsonl", "--url", server.url, "--method", *words]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line
