"""`footfall search`: methods and budgets by name, and problems that failed are tried again by the same command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.formats import read_parquet
from footfall.policy.protocol import Completion, SamplingParams
from footfall.registry import create, parts
from footfall.search.state import draws_independently
from footfall.types import Trajectory
from footfall.worlds import ArithmeticPolicy

WORDS = ["search", "--problems", "world:arithmetic:8", "--policy", "scripted-arithmetic", "--judge", "exact-value",
         "--max-tokens", "64", "--chunk", "3", "--json"]  # fmt: skip


def told(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.main(list(words)) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("method", ["best-of-n", "beam-search", "dvts"])
def test_methods_by_name_with_settings_and_a_budget(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [] if method == "best-of-n" else ["--set", "expansions=2"]
    found = told([*WORDS, "--method", method, "--n", "4", *own, "--out", str(tmp_path / "a")], capsys)
    assert found["accuracy"]["chosen"]["value"] >= 7 / 8 and found["failed"] == {} and found["stopped"] == {}
    assert "n=4" in found["settings"] and ("expansions=2" in found["settings"]) == bool(own)
    words = [*WORDS, "--method", method, "--n", "4", "--budget-tokens", "30", "--out", str(tmp_path / "b")]
    assert told(words, capsys)["stopped"] == {"tokens": 8}
    results = read_parquet(tmp_path / "b" / "results.parquet", "search-result")
    assert all(r.cost.generated_tokens <= 30 + 64 and r.tree is not None and r.decisions for r in results)


def test_settings_that_nobody_takes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*WORDS, "--method", "dvts", "--set", "expansion=2", "--out", str(tmp_path / "a")]) != 0


@pytest.mark.parametrize("in_memory", [1000, 1])
def test_failed_problems_are_listed_and_tried_again_by_the_same_command(
    in_memory: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("footfall.commands.search._LISTED", in_memory)
    monkeypatch.setattr("footfall.formats.spool.IN_MEMORY", in_memory)
    words = [*WORDS, "--method", "dvts", "--n", "4", "--store", "none", "--out"]
    whole = told([*words, str(tmp_path / "whole")], capsys)
    sample = ArithmeticPolicy.sample
    asked: list[str] = []
    bad = [r.problem.id for r in read_parquet(tmp_path / "whole" / "results.parquet", "search-result")][4:6]

    def dying(
        self: ArithmeticPolicy, prefixes: Sequence[Trajectory], n: int = 1,
        params: SamplingParams = SamplingParams(), first: int = 0,
    ) -> list[list[Completion]]:  # fmt: skip
        if any(prefix.problem.id in bad for prefix in prefixes):
            raise ConnectionError("the server is gone")
        return sample(self, prefixes, n, params, first)

    monkeypatch.setattr(ArithmeticPolicy, "sample", dying)
    broken = told([*words, str(tmp_path / "a")], capsys)
    assert broken["failed"] == dict.fromkeys(bad, "ConnectionError: the server is gone") and broken["decided"] == 6
    assert told([*words, str(tmp_path / "a")], capsys)["failed"] == broken["failed"], "tried again, in vain"

    def counted(
        self: ArithmeticPolicy, prefixes: Sequence[Trajectory], n: int = 1,
        params: SamplingParams = SamplingParams(), first: int = 0,
    ) -> list[list[Completion]]:  # fmt: skip
        asked.extend(prefix.problem.id for prefix in prefixes)
        return sample(self, prefixes, n, params, first)

    monkeypatch.setattr(ArithmeticPolicy, "sample", counted)
    mended = told([*words, str(tmp_path / "a")], capsys)
    assert mended["failed"] == {} and mended["accuracy"] == whole["accuracy"] and set(asked) == set(bad)
    asked.clear()
    told([*words, str(tmp_path / "a")], capsys)
    assert not asked
    files = [(tmp_path / run / "results.parquet").read_bytes() for run in ("whole", "a")]
    assert files[0] == files[1]


def test_what_a_judge_has_selected_is_not_called_one_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["search", "--problems", "world:arithmetic:20", "--policy", "scripted-arithmetic", "--n", "8"]
    plain = told([*words, "--json", "--method", "majority", "--out", str(tmp_path / "plain")], capsys)["accuracy"]
    assert list(plain) == ["single", "chosen", "oracle"] and plain["single"]["value"] < 0.8
    steered = [*words, "--judge", "truth-arithmetic", "--method", "beam-search", "--out", str(tmp_path / "steered")]
    found = told([*steered, "--json"], capsys)["accuracy"]
    assert list(found) == ["candidates_mean", "chosen", "candidates_any"]
    assert found["candidates_mean"]["value"] > plain["single"]["value"] + 0.2
    assert cli.main(steered) == 0
    shown = capsys.readouterr().out
    assert "mean of its candidates" in shown and "one sample" not in shown and "oracle" not in shown


def test_no_problem_missed_does_not_mean_that_none_would_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--method", "beam-search", "--n", "8", "--out", str(tmp_path)]
    found = told(words, capsys)["accuracy"]["chosen"]
    assert found == {"value": 1.0, "ci95": [pytest.approx(0.6756, abs=1e-3), 1.0]}


def test_methods_say_themselves_whether_their_candidates_are_plain_samples() -> None:
    plain = {name for name in parts("searcher") if draws_independently(create("searcher", name))}
    assert plain == {"best-of-n", "weighted-vote", "majority", "hybrid-vote", "frequency-vote", "self-prm"}
