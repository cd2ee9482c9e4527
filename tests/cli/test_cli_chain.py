"""The loop by hand: sample, label, train, score, search, bench; runs that resume and that refuse to mix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from footfall import cli
from footfall.formats import read, read_parquet, write
from footfall.registry import create
from footfall.types import Judged
from tests.cli.telling import one_thread, run_chain, told

SAMPLE = ["sample", "--problems", "world:arithmetic:12", "--policy", "scripted-arithmetic", "--n", "2", "--chunk", "8"]
LABEL = ["label", "--data", "s/trajectories.parquet", "--policy", "scripted-arithmetic", "--rollouts", "4"]
TRAIN = ["train", "--data", "l/judged.parquet", "--epochs", "1", "--against", "world:arithmetic:20"]


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sampling run `s`, a labelling run `l` and a training run `t`."""
    commands = ([*SAMPLE, "--out", "s"], [*LABEL, "--out", "l"], [*TRAIN, "--out", "t"])
    return run_chain(tmp_path_factory.mktemp("loop"), *commands)


@pytest.fixture
def here(loop: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(loop)
    with one_thread():
        yield loop


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*/*.parquet")}


def test_sampled_traces_are_graded_and_kept(here: Path) -> None:
    traces = read_parquet(here / "s" / "trajectories.parquet", "trajectory")
    assert len(traces) == 24
    assert {t.correct for t in traces} == {True, False}
    result = json.loads((here / "s" / "result.json").read_text())
    assert result["accuracy"]["value"] == pytest.approx(sum(t.correct for t in traces) / 24)


def test_labels_stand_beside_their_traces(here: Path) -> None:
    rows = read(here / "l" / "judged.parquet")
    result = json.loads((here / "l" / "result.json").read_text())
    values = [value for row in rows if row.judgement for value in row.judgement.values]
    assert result["labelled"] == result["steps"] == len(values) == sum(len(row.trajectory.steps) for row in rows)
    assert set(values) <= {0, 0.25, 0.5, 0.75, 1}


def test_a_training_as_a_family_ends_with_how_its_folder_is_read(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By itself a folder with a blank line for separator is read as one with a newline, to other values."""
    assert cli.main([*TRAIN, "--objective", "bce", "--as", "trl-blank-line", "--out", "as"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("read by")]
    found = []
    for judge in (["--judge", "as/model"], line.split()[2:]):
        assert cli.main(["score", "s/trajectories.parquet", "--limit", "4", *judge, "--json"]) == 0
        found.append([trace["values"] for trace in json.loads(capsys.readouterr().out)["rows"]])
    for ours, theirs in zip(*found, strict=True):
        assert theirs == pytest.approx(ours, abs=1e-5)


@pytest.mark.parametrize(("words", "folder"), [(SAMPLE, "s"), (LABEL, "l"), (TRAIN, "t")])
def test_the_same_command_again_does_nothing_again(
    words: list[str], folder: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = here / "t" / "model" / "step_head.json"
    before = times(here / folder), model.stat().st_mtime_ns
    told(capsys, *words, "--out", folder)
    assert (times(here / folder), model.stat().st_mtime_ns) == before


def test_other_settings_in_the_same_folder_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SAMPLE, "--out", "s", "--seed", "1"]) == 2
    shown = capsys.readouterr().err
    assert "config.seed: 0 there, 1 now" in shown and "--fresh" in shown


def test_the_folder_is_named_by_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [told(capsys, *SAMPLE, *more)["file"] for more in ([], ["--seed", "1"], [])]
    assert files[0] == files[2] != files[1]
    assert files[0].startswith("runs/sample-")


def test_a_lost_chunk_is_made_again_to_the_bit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the embedded model, whose prefix cache must not let one chunk change the next."""
    words = ["label", "--data", "s/trajectories.parquet", "--policy", "embedded", "--rollouts", "2", "--chunk", "12",
             "--max-tokens", "40", "--out", "e"]  # fmt: skip
    told(capsys, *words)
    first, second = sorted((here / "e" / "judgements").glob("*.parquet"))
    before = (here / "e" / "judged.parquet").read_bytes(), second.read_bytes(), first.stat().st_mtime_ns
    second.unlink()
    told(capsys, *words)
    after = (here / "e" / "judged.parquet").read_bytes(), second.read_bytes(), first.stat().st_mtime_ns
    assert after == before


def test_unlabelled_steps_are_counted_by_reason(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, *LABEL, "--until", "first-error", "--out", "f")
    assert found["unlabelled"].keys() == {"after the first error"}
    assert found["labelled"] + sum(found["unlabelled"].values()) == found["steps"]


def test_truth_needs_no_policy(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["label", "--data", "s/trajectories.parquet", "--method", "truth-arithmetic", "--set", "consequent=0.5"]
    assert told(capsys, *words)["judge"] == "truth-arithmetic(consequent=0.5)"


def test_an_own_trace_is_scored_by_the_trained_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "own.jsonl").write_text('{"problem": "Tom has 3 pens.", "steps": ["3 + 4 = 7", "So 7."]}\n', "utf-8")
    capsys.readouterr()
    for judge in ("t", "t/model"):
        assert cli.main(["score", "own.jsonl", "--judge", judge, "--json"]) == 0
    shown = capsys.readouterr()
    (row,) = json.loads(shown.out.partition("}\n{")[0] + "}")["rows"]
    assert len(row["values"]) == 2 and all(0 < value < 1 for value in row["values"])
    assert row["aggregate"] == min(row["values"])
    assert "read with '\\n' after each step" in shown.err


def test_every_run_has_a_page_that_names_the_judge_as_it_was_typed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "search",
        "--problems",
        "world:arithmetic:4",
        "--policy",
        "scripted-arithmetic",
        "--judge",
        "t",
        "--n",
        "2",
    ]
    assert cli.main([*words, "--out", "p"]) == 0
    shown = capsys.readouterr().out
    assert "page       p/report.html" in shown and "judge      t (step-head@" in shown
    pages = {run: (here / run / "report.html").read_text("utf-8") for run in ("l", "t", "p")}
    assert " labels by monte-carlo</h1>" in pages["l"]
    assert "<h1>A PRM on embedded" in pages["t"] and "Held-out traces, step by step" in pages["t"]
    assert "<dd>t (step-head@" in pages["p"] and "Chosen solutions, step by step" in pages["p"]
    rows = read(here / "t" / "held_out.parquet")
    labels = {row.trajectory.id: row.judgement and row.judgement.values for row in read(here / "l" / "judged.parquet")}
    assert rows and all(r.judgement and r.judgement.aspects["label"] == labels[r.trajectory.id] for r in rows)


@pytest.mark.parametrize("method", ["best-of-n", "weighted-vote"])
def test_search_with_the_trained_model(method: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["search", "--problems", "world:arithmetic:10", "--policy", "scripted-arithmetic", "--judge", "t"]
    words += ["--method", method, "--n", "4", "--chunk", "5", "--out", f"search-{method}"]
    found = told(capsys, *words)
    before = times(here / f"search-{method}")
    assert found["decided"] == found["problems"] == 10 and found["failed"] == {}
    accuracy = found["accuracy"]
    assert accuracy["oracle"]["value"] >= accuracy["chosen"]["value"]
    assert accuracy["chosen"]["ci95"][0] <= accuracy["chosen"]["value"] <= accuracy["chosen"]["ci95"][1]
    kept = {"method", "n", "aggregate", "policy", "judge", "accuracy", "failed", "file", "cost"}
    again = told(capsys, *words)
    assert {name: again[name] for name in kept} == {name: found[name] for name in kept}
    assert times(here / f"search-{method}") == before


def test_search_keeps_what_a_policy_in_this_process_writes_only_if_it_is_told_to(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "search",
        "--problems",
        "world:arithmetic:2",
        "--policy",
        "scripted-arithmetic",
        "--method",
        "majority",
        "--n",
        "4",
    ]
    assert told(capsys, *words, "--out", "unkept")["store"] is None
    assert told(capsys, *words, "--out", "kept", "--store", "stored")["store"]["misses"] == 8
    assert told(capsys, *words, "--out", "found", "--store", "stored")["store"]["hits"] == 8


def test_truth_as_judge_finds_what_can_be_found(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["search", "--problems", "world:arithmetic:10", "--policy", "scripted-arithmetic", "--n", "4"]
    last = ["--aggregate", "last"]
    guided = told(capsys, *words, *last, "--method", "best-of-n", "--judge", "truth-arithmetic")["accuracy"]
    voted = told(capsys, *words, "--method", "majority")
    assert guided["chosen"] == guided["oracle"] == voted["accuracy"]["oracle"]
    assert voted["judge"] is None


def test_a_judge_is_measured_on_a_world(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "steps", "--data", "world:arithmetic:30", "--out"]
    truth = told(capsys, *words, "b", "--judge", "truth-arithmetic")
    assert truth["splits"]["all"]["f1"]["value"] == 1.0
    assert json.loads((here / "b" / "report.json").read_text()) == truth
    trained = told(capsys, *words, "b2", "--judge", "t")
    assert trained["judge"].startswith("step-head@") and trained["revision"] == truth["revision"]
    assert trained["cost"]["scored_tokens"] > 0


def test_python_and_the_command_line_give_the_same_values(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The PRM has learnt to read steps that end with a line break; the file has blank lines between them."""
    given = [row.trajectory for row in read(here / "l" / "judged.parquet")[:3]]
    plain = [replace(t, steps=tuple(step.without_ids() for step in t.steps), tokenizer=None) for t in given]
    traces = [replace(t, separator="\n\n") for t in plain]
    write(here / "blank.jsonl", [Judged(t, None) for t in traces], "jsonl")
    said = told(capsys, "score", "blank.jsonl", "--judge", "t/model")["rows"]
    judge = create("reward", "step-head", path=here / "t" / "model")
    assert [list(j.values) for j in judge.judge(traces)] == [row["values"] for row in said]
    lines = [replace(t, separator="\n") for t in traces]
    assert [j.values for j in judge.judge(lines)] == [j.values for j in judge.judge(traces)]


def test_scores_made_elsewhere_are_measured(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = read(here / "l" / "judged.parquet")
    with (here / "scores.jsonl").open("w", encoding="utf-8") as stream:
        for row in rows[:20]:
            assert row.judgement is not None
            stream.write(json.dumps({"id": row.trajectory.id, "scores": row.judgement.values}) + "\n")
    found = told(capsys, "bench", "steps", "--data", "l/judged.parquet", "--scores", "scores.jsonl")
    assert (found["used"], found["left_out"]) == (20, 4)
    assert found["splits"]["judged"]["f1"]["value"] == 1.0


def test_info_tells_runs_and_models(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = told(capsys, "info", "l")
    assert run["command"] == "label" and run["finished"]
    assert run["chunks"] == {"judgements": {"done": 2, "planned": 2}}
    assert told(capsys, "info", "t/model")["training"]["separators"] == ["\n"]
    assert told(capsys, "info")["embedded"]["parameters"] > 1_000_000


def test_people_get_a_summary_and_the_next_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, following in (
        ([*SAMPLE, "--out", "s"], "footfall label --method monte-carlo --data s/trajectories.parquet"),
        ([*LABEL, "--out", "l"], "footfall train --data l/judged.parquet"),
        ([*TRAIN, "--out", "t"], "footfall score --judge t/model traces.jsonl\nor: footfall serve --judge t/model\n"),
    ):
        assert cli.main(words) == 0
        assert f"next: {following}" in capsys.readouterr().out
