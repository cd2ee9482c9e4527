"""`footfall label --method SYSTEM` where a system's labels are those of other judges: SSRM, ActPRM, PRM800K, AdaptiveStep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.formats import read, write
from footfall.train.active import Doubted, FirstError
from footfall.train.self_training import Sure
from footfall.types import Cost, Judged, Judgement, Problem, Step, Trajectory
from tests.cli.serving import Server
from tests.cli.telling import one_thread, told


def trace(id: str, *steps: str) -> Trajectory:
    return Trajectory(id, Problem(id, f"{id}: what is 3 - 4?", "-1"), tuple(map(Step, steps)))


TRACES = [trace("a", "3 - 4 = -1.", "So \\boxed{-1}."), trace("b", "3 - 4 = 1.", "Then 2.", "So \\boxed{1}.")]


class Says:
    """A judge with given values, and spreads if it is an ensemble."""

    def __init__(self, name: str, said: dict[str, tuple[float, ...]], spread: float | None = None) -> None:
        self.name, self.said, self.spread = name, said, spread
        self.asked: list[str] = []

    def judge(self, trajectories: Any) -> list[Judgement]:
        self.asked += [t.id for t in trajectories]
        return [self._of(t.id) for t in trajectories]

    def _of(self, id: str) -> Judgement:
        values = self.said[id]
        aspects = {} if self.spread is None else {"spread": (self.spread,) * len(values)}
        return Judgement(id, values, self.name, aspects=aspects, cost=Cost(calls=1))


# The rules


def test_a_prm_labels_what_it_is_sure_of_up_to_its_first_error() -> None:
    prm = Says("prm", {"a": (0.9, 0.7), "b": (0.95, 0.1, 0.6)})
    unsure, sure = Sure(prm).judge(TRACES)
    assert unsure.values == (None, None) and "not sure (above 0.8)" in str(unsure.failures[0])
    assert sure.values == (1.0, 0.0, None) and sure.failures[2] == "after the first predicted error"
    assert unsure.cost.calls == sure.cost.calls == 1 and unsure.judge == sure.judge == Sure(prm).name


def test_only_traces_that_an_ensemble_doubts_are_labelled_by_the_judge() -> None:
    prm = Says("heads", {"a": (0.99, 0.98), "b": (0.99, 0.7, 0.99)}, spread=0.001)
    judge = Says("judge", {"b": (1.0, 0.0, 1.0)})
    sure, doubted = Doubted(prm, judge).judge(TRACES)
    assert judge.asked == ["b"], "nobody pays for the others"
    assert sure.values == (None, None) and "sure of this trace" in str(sure.failures[0])
    assert doubted.values == (1.0, 0.0, None) and doubted.cost.calls == 2
    with pytest.raises(ValueError, match="several heads"):
        Doubted(Says("one head", prm.said), judge).judge(TRACES)


def test_a_judge_in_the_place_of_people_labels_up_to_the_first_error() -> None:
    (good, bad) = FirstError(Says("judge", {"a": (0.9, 0.3), "b": (0.9, 0.1, 0.9)}), threshold=0.25).judge(TRACES)
    assert good.values == (1.0, 1.0) and bad.values == (1.0, 0.0, None)


# The command


@pytest.fixture
def server(process: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.chdir(tmp_path)
    write("traces.jsonl", [Judged(t, None) for t in TRACES], "jsonl")
    process.behave("The first error is \\boxed{0}.")
    return process


def values(found: dict[str, Any]) -> list[tuple[float | None, ...]]:
    return [row.judgement.values for row in read(found["file"]) if row.judgement]


def test_a_system_over_a_judge_asks_that_judge(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("label", "--data", "traces.jsonl", "--method", "prm800k", "--set", "judge=critic")
    found = told(capsys, *words, "--url", server.url, "--mode", "chat")
    assert values(found) == [(0.0, None), (0.0, None, None)] and len(server.asked()) == 2
    assert found["judge"].startswith("prm800k(critic") and found["store"]["misses"] == 2
    estimate = told(capsys, *words, "--url", server.url, "--mode", "chat", "--estimate")
    assert estimate["expected"]["calls"] == 2


def test_a_system_over_a_prm_asks_it(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("label", "--data", "traces.jsonl", "--method", "ssrm", "--set", "prm=always-right", "confidence=0.9")
    found = told(capsys, *words)
    assert values(found) == [(1.0, 1.0), (1.0, 1.0, 1.0)] and "confidence=0.9" in found["judge"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prm800k",), "--set judge=NAME or FOLDER, whose labels it keeps"),
        (("ssrm",), "ssrm needs --set prm=FOLDER"),
        (("actprm", "--set", "prm=random"), "actprm needs --set prm=FOLDER, a PRM of several heads"),
        (("actprm", "--set", "prm=random", "judge=always-right"), "tells no spread: train it with several heads"),
        (("ssrm", "--set", "prm=random", "confidence=1"), "it is from 0.5 to below 1"),
        (("ssrm", "--set", "prm=no-such-prm"), "no judge and no folder is called 'no-such-prm'"),
        (("prm800k", "--set", "judge=critic"), "needs --policy"),
        (("adaptivestep", "--policy", "scripted-arithmetic"), "it needs a model in this process as --policy"),
        (("adaptivestep", "--policy", "embedded"), "that `footfall sample` wrote with the same model"),
        (("fover", "--url", "http://localhost:1/v1"), "takes no --url"),
        (("freeprm", "--url", "http://localhost:1/v1"), "takes no --url"),
    ],
)
def test_what_a_system_lacks_is_said_in_one_line(
    words: tuple[str, ...], said: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["label", "--data", "traces.jsonl", "--method", *words]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


@pytest.mark.long
def test_adaptive_steps_are_cut_where_the_writer_was_unsure_and_rolled_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with one_thread():
        sampled = told(capsys, "sample", "--problems", "world:arithmetic:2", "--n", "2")["file"]
        words = ("label", "--data", sampled, "--method", "adaptivestep", "--policy", "embedded", "--rollouts", "2")
        found = told(capsys, *words, "--set", "share=0.1")
        again = told(capsys, *words, "--set", "share=0.1", "--out", "runs/other")
    given, cut = ([row.trajectory for row in read(file)] for file in (sampled, found["file"]))
    assert ["".join(s.text for s in t.steps).split() for t in cut] == [t.text.split() for t in given]
    assert [len(t.steps) for t in cut] != [len(t.steps) for t in given] and all(t.separator == "" for t in cut)
    assert {value for row in values(found) for value in row} <= {0.0, 1.0} and found["labelled"] == found["steps"]
    assert again["store"]["misses"] == 0 and values(again) == values(found)


# Programs in rows of the short form


def test_a_program_and_its_tests_may_be_fields_of_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["def f(x):", "    y = x + 1", "    return y"]
    row: dict[str, Any] = {"problem": "Add one.", "steps": lines, "program": lines, "tests": ["assert f(1) == 2"]}
    Path("code.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    assert values(told(capsys, "label", "--data", "code.jsonl", "--method", "prlcoder")) == [(1.0, 1.0, 1.0)]
    del row["program"]
    Path("bare.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    (reason,) = told(capsys, "label", "--data", "bare.jsonl", "--method", "prlcoder", code=1)["unlabelled"]
    assert "put its lines into the field program of its row" in reason
