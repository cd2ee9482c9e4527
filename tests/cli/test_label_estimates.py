"""`footfall label --estimate` for trees and critiques: bounds that hold; and labels that are one-sided, with a warning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.formats import write
from footfall.types import Judged, Problem, Step, Trajectory
from tests.cli.serving import Server
from tests.cli.telling import one_thread, told

MAX_TOKENS = 32


def trace(id: str, *steps: str) -> Trajectory:
    return Trajectory(id, Problem(id, f"{id}: what is 3 - 4?", "-1"), tuple(map(Step, steps)))


TRACES = [trace("a", "3 - 4 = -1.", "So \\boxed{-1}."), trace("b", "3 - 4 = 1.", "Then 2.", "So \\boxed{1}.")]


@pytest.fixture
def server(process: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.chdir(tmp_path)
    write("traces.jsonl", [Judged(t, None) for t in TRACES], "jsonl")
    process.behave(None, solve=True)
    return process


def within(estimate: dict[str, Any], cost: dict[str, Any]) -> bool:
    """Whether what was paid lies between the bounds, prompts that were found in a cache included."""
    paid = {
        "calls": cost["calls"],
        "generated_tokens": cost["generated_tokens"],
        "prompt_tokens": cost["prompt_tokens"] + cost["cached_tokens"],
    }
    low, high = estimate["low"], estimate["high"]
    assert all(low[name] <= estimate["expected"][name] <= high[name] for name in paid)
    return low["calls"] <= paid["calls"] and all(paid[name] <= high[name] for name in paid)


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("omegaprm", "--trees", "3", "--rollouts", "4"),
        ("hrm-hnc", "--trees", "2", "--set", "depth=2", "--temperature", "1"),
        ("grounded-prm", "--trees", "3"),
    ],
)
def test_what_trees_cost_is_bounded_before_anything_runs(
    words: tuple[str, ...], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ("label", "--data", "traces.jsonl", "--method", *words, "--url", server.url, "--max-tokens", str(MAX_TOKENS))
    estimate = told(capsys, *line, "--estimate", "--price-out", "1", "--tokens-per-second", "100")
    assert not server.asked() and not Path("runs").exists()
    assert estimate["problems"] == 2 and estimate["high"]["money"] > 0 and estimate["high"]["seconds"] > 0
    assert within(estimate, told(capsys, *line)["cost"]) and server.asked()
    assert cli.main([*line, "--estimate"]) == 0
    assert "trees on 2 problems" in (shown := capsys.readouterr().out) and "at most, every completion is max" in shown
    nobody = ("--url", "http://localhost:1/v1", "--retries", "0", "--estimate")
    assert cli.main([*line, *nobody]) == 0, "there need be no server yet"
    capsys.readouterr()
    assert cli.main([*line, "--estimate", "--probe", "1"]) == 2
    assert "--probe labels some of the given traces" in capsys.readouterr().err


@pytest.mark.long
def test_trees_of_a_model_in_this_process_are_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with one_thread():
        data = told(capsys, "sample", "--problems", "world:arithmetic:2", "--n", "1")["file"]
        line = ("label", "--data", data, "--method", "edu-prm", "--trees", "3", "--policy", "embedded")
        estimate = told(capsys, *line, "--estimate")
        cost = told(capsys, *line)["cost"]
    assert 0 < cost["generated_tokens"] <= estimate["high"]["generated_tokens"] == 2 * 3 * 512
    assert estimate["low"]["calls"] == 2 and estimate["high"]["calls"] == 6 and cost["calls"] <= 6


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (("prmbench-critic",), '{"validity": [1, 1], "redundancy": [0, 0]}'),
        (("genprm",), "It is right. \\boxed{Yes}"),
        (("thinkprm",), "It is right."),
        (("thinkprm", "--set", "steps=verdicts"), "Step 1: \\boxed{correct} Step 2: \\boxed{correct}"),
    ],
)
def test_what_critiques_cost_is_bounded_without_a_probe(
    words: tuple[str, ...], reply: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(reply)
    line = ("label", "--data", "traces.jsonl", "--method", *words, "--url", server.url, "--max-tokens", str(MAX_TOKENS))
    line += ("--mode", "chat")
    estimate = told(capsys, *line, "--estimate")
    assert not server.asked() and estimate["high"]["generated_tokens"] >= len(TRACES) * MAX_TOKENS
    capsys.readouterr()
    assert cli.main([*line, "--out", "run", "--json"]) in (0, 1)
    calls = len(server.asked())
    assert estimate["low"]["calls"] <= calls <= estimate["high"]["calls"] and calls


SCRIPTED = ("--policy", "scripted-arithmetic", "--estimate")


def test_an_estimate_says_when_some_traces_stand_for_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of 140 traces 128 are counted on, so "at least" and "at most" are what the others may break."""
    made = tmp_path / "s"
    words = [
        "sample",
        "--problems",
        "world:arithmetic:70",
        "--policy",
        "scripted-arithmetic",
        "--n",
        "2",
        "--out",
        str(made),
    ]
    assert cli.main(words) == 0
    data = ("--data", str(made / "trajectories.parquet"))
    assert told(capsys, "label", *data, "--method", "monte-carlo", *SCRIPTED)["counted_on"] == 128
    assert "counted_on" not in told(capsys, "label", *data, "--method", "monte-carlo", *SCRIPTED, "--limit", "100")
    assert told(capsys, "label", *data, "--method", "omegaprm", "--trees", "2", *SCRIPTED)["counted_on"] == 16
    capsys.readouterr()
    assert cli.main(["label", *data, "--method", "monte-carlo", *SCRIPTED]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "counted on 128 traces, spread over all" in shown and "the others are like those counted on" in shown


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("monte-carlo",),
        ("omegaprm", "--trees", "2"),
        ("edu-prm", "--trees", "2"),
        ("consensus", "--set", "judges=monte-carlo,formal"),
        ("actprm", "--set", "prm=prm", "judge=monte-carlo"),
    ],
)
def test_no_weights_are_loaded_for_an_estimate(words: tuple[str, ...], server: Server) -> None:
    """Neither those of the policy nor those of a PRM that chooses what is labelled: torch itself is not loaded."""
    Path("prm").mkdir()
    Path("prm/config.json").write_text("{}", "utf-8")
    line = ["label", "--data", "traces.jsonl", "--method", *words, "--policy", "embedded", "--estimate", "--json"]
    script = f"""
import sys
from footfall import cli
assert cli.main({line!r}) == 0
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    estimate = json.loads(done.stdout)
    assert estimate["tokens_counted_by"] == "the policy's tokenizer" and estimate["high"]["calls"] > 0
    assert (estimate["low"]["calls"] == 0) == (words[0] == "actprm"), "nobody knows of which traces a PRM is sure"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--probe", "2"), "--probe is for an estimate, and none is asked for: pass --estimate too"),
        (("--price-out", "2"), "--price-out is for an estimate"),
        (("--estimate", "--probe", "-1"), "--probe -1: it must be 0 or more"),
    ],
)
def test_figures_for_an_estimate_that_nobody_asked_for_are_refused(
    words: tuple[str, ...], said: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["label", "--data", "traces.jsonl", "--url", server.url, *words]) == 2
    assert said in capsys.readouterr().err and not server.asked() and not Path("runs").exists()


# One-sided labels


def test_labels_of_right_traces_alone_come_with_a_warning_and_its_cause(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["label", "--data", "traces.jsonl", "--method", "unprm", "--url", server.url]
    found = told(capsys, *line)
    assert found["one_sided"]["value"] == 1.0 and found["one_sided"]["unlabelled_traces"] == 1
    assert "no log-probabilities" in found["one_sided"]["because"] and "order=binary" in found["one_sided"]["because"]
    assert cli.main(line) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "one-sided all labels are 1, for 1 traces have none" in shown and "next:" not in shown
    estimate = told(capsys, *line, "--estimate")
    ((reason, count),) = estimate["without_label"].items()
    assert count == 1 and "no log-probabilities" in reason and estimate["high"]["calls"] == 0
    assert cli.main([*line, "--estimate"]) == 0
    assert "no label" in capsys.readouterr().out


def test_the_orders_that_the_warning_names_need_no_log_probabilities(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ("label", "--data", "traces.jsonl", "--method", "unprm", "--url", server.url)
    found = told(capsys, *line, "--set", "order=binary", "weighted=false", "draws=16", "enough=2")
    assert "one_sided" not in found and found["labelled"] == found["steps"]
