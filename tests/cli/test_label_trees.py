"""`footfall label --trees N`: rows of tree nodes, from the problems of a file alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.formats import read_parquet, write_parquet
from footfall.label.edu_prm import EntropyTrees
from footfall.label.hrm_hnc import FullTrees, tree_samples
from footfall.label.omegaprm import OmegaPRM
from footfall.policy.protocol import SamplingParams
from footfall.types import Judged, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.cli.telling import told

TRACES = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 4, seed=7)]
WORDS = ["label", "--method", "omegaprm", "--policy", "scripted-arithmetic", "--trees", "3", "--rollouts", "4"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each problem twice, and one without a reference answer."""
    monkeypatch.chdir(tmp_path)
    blind = replace(TRACES[0], id="blind", problem=replace(TRACES[0].problem, id="blind", answer=None), correct=None)
    again = [replace(trace, id=f"{trace.id}-again") for trace in TRACES]
    write_parquet(Path("traces.parquet"), [*TRACES, *again, blind], "trajectory")
    return "traces.parquet"


def test_the_rows_are_those_of_the_tree_search_in_python(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, *WORDS, "--data", data)
    rows: list[Judged] = read_parquet(Path(found["file"]), "judged")
    method = OmegaPRM(ArithmeticPolicy(), rollouts=4, searches=3)
    assert found["judge"] == method.name and found["problems_without_answer"] == 1
    expected = method.collect([trace.problem for trace in TRACES], TRACES[0].separator)
    assert [(row.trajectory.key, row.judgement and row.judgement.values) for row in rows] == [
        (row.trajectory.key, row.judgement and row.judgement.values) for row in expected
    ]
    assert len(rows) > len(TRACES) and found["labelled"] == len(rows), "one label a row, and more rows than traces"
    costs = [row.judgement.cost.generated_tokens for row in expected if row.judgement is not None]
    assert found["cost"]["generated_tokens"] == sum(costs)


def test_problems_are_counted_as_their_trees_are_grown(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*WORDS, "--data", data]) == 0
    assert f"trees: {len(TRACES) + 1}/{len(TRACES) + 1}, " in capsys.readouterr().err


def test_the_same_command_again_finds_all_rollouts_in_the_store(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, again = (told(capsys, *WORDS, "--data", data) for _ in range(2))
    assert first["store"]["misses"] > 0 and again["store"]["misses"] == 0
    assert {**again, "store": 0, "seconds": 0} == {**first, "store": 0, "seconds": 0}


def test_a_killed_run_goes_on_with_the_trees_that_it_has(
    data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a store of rollouts: what was grown lies in the run, and nothing of it is asked for again."""
    words = [*WORDS, "--data", data, "--store", "none", "--chunk", "1"]
    whole = told(capsys, *words, "--out", "whole")
    asked: list[str] = []
    sample = ArithmeticPolicy.sample

    def killed_at_the_third(self: ArithmeticPolicy, prefixes: Sequence[Trajectory], *how: Any) -> Any:
        asked.extend(prefix.problem.id for prefix in prefixes)
        if len(set(asked)) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return sample(self, prefixes, *how)

    def counted(self: ArithmeticPolicy, prefixes: Sequence[Trajectory], *how: Any) -> Any:
        asked.extend(prefix.problem.id for prefix in prefixes)
        return sample(self, prefixes, *how)

    monkeypatch.setattr(ArithmeticPolicy, "sample", killed_at_the_third)
    process = multiprocessing.get_context("fork").Process(target=cli.main, args=([*words, "--out", "killed"],))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    done = sorted(path.name for path in Path("killed/trees").iterdir())
    assert done == sorted(path.name for path in Path("whole/trees").iterdir())[:2] and not asked

    monkeypatch.setattr(ArithmeticPolicy, "sample", counted)
    found = told(capsys, *words, "--out", "killed")
    assert set(asked) == {trace.problem.id for trace in TRACES[2:]}
    assert Path("killed/judged.parquet").read_bytes() == Path("whole/judged.parquet").read_bytes()
    differ = {"file": 0, "page": 0, "seconds": 0}
    assert {**found, **differ} == {**whole, **differ}

    asked.clear()
    assert {**told(capsys, *words, "--out", "killed", "--again"), **differ} == {**whole, **differ}
    assert not asked, "a problem without an answer asks nobody, and has no tree again"


def test_trees_of_many_rows_are_those_of_a_list(
    data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = told(capsys, *WORDS, "--data", data, "--chunk", "2", "--out", "aaaa")
    for name in (
        "footfall.commands._trees.IN_MEMORY",
        "footfall.formats.spool.IN_MEMORY",
        "footfall.formats.spool._A_FILE",
    ):
        monkeypatch.setattr(name, 3)
    many = told(capsys, *WORDS, "--data", data, "--chunk", "2", "--out", "bbbb")
    differ = {"file": 0, "page": 0, "seconds": 0, "store": 0}
    assert {**few, **differ} == {**many, **differ} and few["traces"] > 3
    assert Path("aaaa/judged.parquet").read_bytes() == Path("bbbb/judged.parquet").read_bytes()
    pages = [Path(name, "report.html").read_text().replace(name, "") for name in ("aaaa", "bbbb")]
    assert pages[0] == pages[1]


@pytest.mark.long
def test_trees_that_branch_where_the_writer_is_unsure(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    from footfall.policy.embedded import embedded

    words = ("label", "--method", "edu-prm", "--policy", "embedded", "--trees", "3", "--max-tokens", "120")
    found = told(capsys, *words, "--data", data)
    trees = EntropyTrees(embedded(), leaves=3, max_tokens=120, separator=TRACES[0].separator)
    grown = trees.grow([trace.problem for trace in TRACES])
    expected = [row for each in grown for row in each.rows(trees.name)]
    rows: list[Judged] = read_parquet(Path(found["file"]), "judged")
    assert [row.trajectory.key for row in rows] == [row.trajectory.key for row in expected]
    assert found["judge"] == trees.name and found["labelled"] == found["steps"] > len(rows) > len(TRACES)
    assert found["cost"]["generated_tokens"] == sum(each.cost.generated_tokens for each in grown) > 0
    cut = told(capsys, *words, "--data", data, "--max-tokens", "2", code=1)
    assert cut["labelled"] == 0 < cut["cut_rollouts"]["cut"] == cut["cut_rollouts"]["of"], "nobody can say, and no zero"


def test_full_trees_and_their_compressed_copies(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["label", "--method", "hrm-hnc", "--policy", "scripted-arithmetic", "--trees", "4", "--set", "depth=3"]
    whole = told(capsys, *words, "share=0", "--data", data, "--out", "runs/whole")
    params = SamplingParams(temperature=0.1)
    grown = FullTrees(ArithmeticPolicy(), 4, 3, params).grow([t.problem for t in TRACES], TRACES[0].separator)
    expected = {(row.trajectory.key, row.judgement.values[-1]) for row in tree_samples(grown.trees) if row.judgement}
    assert found_rows(whole) == expected and whole["cost"]["generated_tokens"] == grown.cost.generated_tokens
    more = [told(capsys, *words, "share=1", "--data", data, "--chunk", chunk, "--out", chunk) for chunk in ("1", "16")]
    assert found_rows(more[0]) == found_rows(more[1]) > expected, "whatever the chunks, compression adds rows"


def test_a_model_that_ends_in_a_step_of_no_words_is_graded(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("label", "--method", "hrm-hnc", "--policy", "embedded", "--trees", "1", "--set", "depth=12")
    assert told(capsys, *words, "--data", data)["mean_label"] > 0


def found_rows(found: dict[str, Any]) -> set[tuple[str, float | None]]:
    """Prefixes and the value of the last step of each."""
    rows: list[Judged] = read_parquet(Path(found["file"]), "judged")
    return {(row.trajectory.key, row.judgement.values[-1]) for row in rows if row.judgement}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "edu-prm"], "takes no --rollouts"),
        (
            ["--method", "monte-carlo"],
            "of --method edu-prm, grounded, hrm-hnc or omegaprm; monte-carlo has none",
        ),
        (["--values", "soft"], "takes no --values"),
    ],
)
def test_what_does_not_go_with_trees_is_refused(
    data: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*WORDS, "--data", data, *words]) != 0
    assert message in " ".join(capsys.readouterr().err.split())
