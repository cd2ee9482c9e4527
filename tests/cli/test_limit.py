"""`--limit N`: only so many traces, problems or cases are taken, and the result says of how many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from footfall import cli
from footfall.benchmarks.runner import Benchmark, limited
from footfall.metrics.cases import Case
from footfall.types import Judgement, Problem, Step, Trajectory
from tests.cli.telling import told

ROWS = [
    {"id": f"t{i}", "problem": f"{i} + 1 = ?", "answer": str(i + 1), "steps": ["a", "b"], "labels": [1, i % 2]}
    for i in range(12)
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")


POLICY = ["--policy", "scripted-arithmetic"]
COMMANDS = [
    ["score", "rows.jsonl", "--judge", "random"],
    ["label", "--data", "rows.jsonl", "--method", "random"],
    ["calibrate", "--data", "rows.jsonl", "--judge", "random", "--method", "temperature"],
    ["bench", "steps", "--data", "rows.jsonl", "--judge", "oracle"],
    ["bench", "steps", "--data", "world:arithmetic:12", "--judge", "oracle"],
    ["sample", "--problems", "world:arithmetic:12", "--n", "1", *POLICY],
    ["search", "--problems", "rows.jsonl", "--method", "majority", "--n", "1", *POLICY],
]


@pytest.mark.parametrize("words", COMMANDS, ids=[" ".join(words[:3]) for words in COMMANDS])
def test_the_result_says_of_how_many(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([*words, "--limit", "5"])
    assert "5 of 12" in capsys.readouterr().out
    cli.main([*words, "--limit", "5", "--json"])
    assert json.loads(capsys.readouterr().out)["limited"] == {"used": 5, "of": 12}
    cli.main([*words, "--limit", "12", "--json"])
    assert "limited" not in json.loads(capsys.readouterr().out)


def test_an_estimate_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["label", "--data", "rows.jsonl", *POLICY, "--rollouts", "2", "--estimate", "--limit", "5"]
    assert told(capsys, *words)["limited"] == {"used": 5, "of": 12}
    assert cli.main(words) == 0 and "5 of 12 traces" in capsys.readouterr().out


def test_the_page_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["bench", "steps", "--data", "rows.jsonl", "--judge", "oracle", "--limit", "5", "--out", "b"])
    assert "5 of 12" in Path("b/report.html").read_text(encoding="utf-8")


def test_another_limit_is_another_run(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [len(told(capsys, *COMMANDS[0], *more)["rows"]) for more in ([], ["--limit", "3"], ["--limit", "4"])]
    assert rows == [12, 3, 4] and len(list(Path("runs").glob("score-*"))) == 3


def test_none_at_all_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMANDS[0], "--limit", "0"]) == 2
    assert "--limit 0: it must be 1 or more" in capsys.readouterr().err


def case(split: str, number: int, group: str = "") -> Case:
    name = f"{split}-{number}"
    return Case(split, Trajectory(name, Problem(name, "?"), (Step("a"),)), Judgement(name, (1.0,), "truth"), group)


def benchmark(cases: list[Case]) -> Benchmark:
    return Benchmark("b", cases, lambda *_: {}, "", "f1", "")


def test_every_split_has_its_share_of_a_limited_benchmark() -> None:
    cases = [case("one", i) for i in range(30)] + [case("two", i) for i in range(10)]
    found = limited(benchmark(cases), 8)
    assert [c.split for c in found.cases] == ["one"] * 6 + ["two"] * 2 and found.of == 40
    assert limited(benchmark(cases), 40).of is None


def test_groups_stay_whole_in_a_limited_benchmark() -> None:
    cases = [case(split, i, group=f"g{i // 2}") for split in ("a", "b") for i in range(8)]
    found = limited(benchmark(cases), 8).cases
    assert len(found) == 8 and all(sum(c.group == o.group for o in found) == 4 for c in found)
