"""`footfall bench` from the command line: thresholds, scores, the oracle, pages, all benchmarks, comparisons."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from footfall import cli
from footfall.commands import bench
from footfall.commands.bench import find_data
from footfall.formats import read
from footfall.judging import Traits
from footfall.metrics.cases import Constant
from footfall.train.data import data_key
from tests.cli.telling import told

LABELS = {"gsm8k": (1, -1, 0, -1), "math": (2, -1)}
"""By split, the index of the first error of each solution of three steps."""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `data/processbench` with two splits; the working directory is beside it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "processbench"
    folder.mkdir(parents=True)
    for split, labels in LABELS.items():
        rows = [
            {"id": f"{split}-{i}", "generator": "g", "problem": "1 + 1?", "steps": [f"{split} {i} {k}" for k in range(3)],
             "final_answer_correct": label < 0, "label": label}
            for i, label in enumerate(labels)
        ]  # fmt: skip
        (folder / f"{split}.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


BENCH = ["bench", "processbench", "--data", "data/processbench"]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a user gets who has something to mend."""
    capsys.readouterr()
    assert cli.main(words) == 2
    return capsys.readouterr().err


def write_scores(path: str, **values: list[float | None]) -> None:
    """Keys are gsm8k_0 for gsm8k-0."""
    rows = [json.dumps({"id": name.replace("_", "-"), "scores": given}) for name, given in values.items()]
    Path(path).write_text("\n".join(rows), encoding="utf-8")


def test_a_sanity_judge_gets_its_figures_and_the_run_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, *BENCH, "--judge", "always-right", "--out", "run")
    assert (found["threshold"], found["threshold_policy"], found["used"]) == (0.5, "the benchmark's own", 6)
    split = found["splits"]["gsm8k"]
    assert [split[name]["value"] for name in ("acc_err", "acc_cor", "f1")] == [0.0, 1.0, 0.0]
    # Known steps of gsm8k: 2 + 3 + 1 + 3, of math: 3 + 3; each erroneous solution has one wrong step.
    assert found["diagnostics"]["confusion"] == {
        "wrong_found": 0, "right_flagged": 0, "right_passed": 12, "wrong_missed": 3}  # fmt: skip
    assert [(p["label"], p["found"]) for p in found["diagnostics"]["positions"]] == [("0", 0), ("1", 0), ("2", 0)]
    assert found["diagnostics"]["no_error"]["accuracy"] == 1.0
    assert found["published"]["Qwen2.5-Math-PRM-7B"]["gsm8k"] == 82.4
    assert found["know_nothing"]["always-right"]["gsm8k"]["f1"]["value"] == split["f1"]["value"]
    assert json.loads(Path("run/report.json").read_text()) == found
    root = ElementTree.fromstring(Path("run/report.html").read_text(encoding="utf-8"))
    assert "always-right" in "".join(root.itertext())
    with np.load("run/resamples.npz", allow_pickle=False) as held:
        assert held["values"].shape == (7, 2001)  # three figures of two splits and the mean


def test_people_see_threshold_policy_and_where_the_page_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*BENCH, "--judge", "always-wrong", "--threshold", "0.25", "--out", "run"]) == 0
    shown = capsys.readouterr().out
    assert "0.25 (fixed)" in shown and "run/report.html" in shown and "published f1" in shown


STEPS = ["bench", "steps", "--data", "mine.jsonl", "--judge", "always-wrong"]


def test_people_see_that_n_counts_problems_where_traces_share_them(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"problem": f"{i % 2}?", "steps": [f"a{i}", "b"], "labels": [1, i % 2]} for i in range(6)]
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert cli.main(STEPS) == 0
    shown = capsys.readouterr().out
    assert "steps, 6 traces" in shown and "as those of one problem, count once" in shown
    assert cli.main([*BENCH, "--judge", "always-wrong"]) == 0
    assert "count once" not in capsys.readouterr().out


def test_traces_of_a_split_that_the_judge_has_no_figure_of_do_not_count_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """MR-MATH has a split that is measured only for judges which say what is redundant."""
    row = {"id": 0, "question": "?", "model_output_step_format": [["a"], ["b"]]}
    wrong = {**row, "model_output_solution_correctness": "wrong", "model_output_solution_first_error_step": 2}
    for name, record in (("invalid", wrong), ("redundant", {**row, "rating": [1, 0]})):
        Path(f"mr-math_{name}_errors.json").write_text(json.dumps(record), encoding="utf-8")
    assert cli.main(["bench", "mr-math", "--data", ".", "--judge", "always-wrong"]) == 0
    shown = capsys.readouterr().out
    assert "mr-math, 2 traces" in shown and "count once" not in shown


def test_labels_on_another_scale_are_named_before_the_judge_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": f"t{i}", "problem": f"{i}?", "steps": ["a", "b"], "labels": [1, 80 * i]} for i in range(2)]
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    expected = "mine.jsonl: trace 't1', step 2: label 80 is no probability; bring labels into [0, 1]"
    for words in (STEPS, ["calibrate", "--data", "mine.jsonl", "--judge", "always-wrong"]):
        assert expected in refused([*words, "--out", "run"], capsys)
    assert not Path("run").exists()


def test_scores_of_elsewhere_are_measured_and_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    write_scores("s.jsonl", gsm8k_0=[0.9, 0.1, None], gsm8k_1=[0.9, 0.8, 0.7], gsm8k_2=[0.6, 0.2, 0.2], nobody=[0.5])
    found = told(capsys, *BENCH, "--scores", "s.jsonl")
    assert [found["splits"]["gsm8k"][name]["value"] for name in ("acc_err", "acc_cor")] == [0.5, 1.0]
    assert (found["left_out"], found["left_out_ids"]) == (3, ["gsm8k/gsm8k-3", "math/math-0", "math/math-1"])
    assert (found["unknown"], found["unknown_ids"], found["unjudged_steps"]) == (1, ["nobody"], 1)


@pytest.mark.parametrize(
    ("factor", "words", "warned"),
    [(1, (), False), (100, (), True), (100, ("--threshold", "50"), False), (-1, ("--threshold", "-0.5"), False)],
)
def test_scores_on_another_scale_than_the_threshold_are_warned_of(
    factor: int, words: tuple[str, ...], warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_scores("s.jsonl", gsm8k_0=[0.9 * factor, 0.1 * factor, 0.1 * factor], gsm8k_1=[0.9 * factor] * 3)
    assert cli.main([*BENCH, "--scores", "s.jsonl", *words]) == 0
    assert ("s.jsonl: 6 of 6 scores lie outside [0, 1], the furthest is 90" in capsys.readouterr().err) == warned


def test_bad_scores_are_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    Path("nan.jsonl").write_text('{"id": "gsm8k-0", "scores": [0.5, NaN, 1]}\n', encoding="utf-8")
    assert "nan.jsonl, line 1, field scores, step 2" in refused([*BENCH, "--scores", "nan.jsonl"], capsys)
    write_scores("same.jsonl", gsm8k_0=[0.5, 0.5, 0.5], gsm8k_1=[0.5, 0.5, 0.5])
    assert "every score is 0.5" in refused([*BENCH, "--scores", "same.jsonl"], capsys)
    allowed = told(capsys, *BENCH, "--scores", "same.jsonl", "--allow-constant")
    assert allowed["splits"]["gsm8k"]["acc_cor"]["value"] == 1.0
    both = [*BENCH, "--scores", "same.jsonl", "--judge", "random"]
    assert "either --scores or --judge" in refused(both, capsys)


def test_the_threshold_is_fixed_own_or_tuned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*BENCH, "--judge", "always-right", "--threshold"]
    assert "always-right declares no threshold of its own" in refused([*words, "own"], capsys)
    assert "a finite number is needed" in refused([*words, "nan"], capsys)
    assert told(capsys, *words, "0.75")["threshold_policy"] == "fixed"
    tuned = told(capsys, *BENCH, "--judge", "random", "--tune-on", "gsm8k")
    assert tuned["threshold_policy"] == "tuned for f1 on gsm8k, which is not reported"
    assert list(tuned["splits"]) == ["math"] and tuned["tuned_away"] == 4
    monkeypatch.setattr(Constant, "traits", Traits(threshold=0.125), raising=False)
    for more in ([], ["--threshold", "own"]):
        found = told(capsys, *BENCH, "--judge", "always-right", *more)
        assert (found["threshold"], found["threshold_policy"]) == (0.125, "the judge's own")


def test_a_judge_that_is_measured_on_the_labels_it_was_trained_on_comes_with_a_caution(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"problem": f"{i}?", "steps": ["a", "b"], "labels": [1, i % 2]} for i in range(8)]
    for name, some in (("learned", rows), ("other", rows[1:])):
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, some)), encoding="utf-8")
    monkeypatch.setattr(Constant, "traits", Traits(trained_on=data_key(read("learned.jsonl"))), raising=False)
    for name, cautions in (("learned", 1), ("other", 0)):
        words = ["--data", f"{name}.jsonl", "--judge", "always-right"]
        notes = told(capsys, "bench", "steps", *words)["notes"]
        assert ["was trained on these labels" in note for note in notes] == [True] * cautions
        assert ("caution" in told(capsys, "calibrate", *words)) == bool(cautions)
    with Path("learned.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('\n{"problem": "?", "steps": ["nobody has labelled this"]}')  # a training counts it in its data
    monkeypatch.setattr(Constant, "traits", Traits(trained_on=data_key(read("learned.jsonl"))), raising=False)
    assert "caution" in told(capsys, "calibrate", "--data", "learned.jsonl", "--judge", "always-right")


def test_the_oracle_finds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, *BENCH, "--judge", "oracle")
    assert [found["splits"][row]["f1"]["value"] for row in ("gsm8k", "math", "mean")] == [1.0, 1.0, 1.0]
    assert found["judge"].startswith("oracle@")
    assert "takes no --set" in refused([*BENCH, "--judge", "oracle", "--set", "x=1"], capsys)


def test_judges_are_compared_in_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    for judge in ("always-right", "oracle"):
        told(capsys, *BENCH, "--judge", judge, "--out", judge)
    found = told(capsys, "bench", "compare", "always-right", "oracle", "--out", "c")
    (against,) = found["differences"].values()
    assert list(against) == ["gsm8k", "math", "mean"]
    assert against["gsm8k"]["difference"] == {"value": 1.0, "ci95": [1.0, 1.0]}
    assert against["gsm8k"]["p"] < 0.2
    assert json.loads(Path("c/report.json").read_text()) == found
    ElementTree.fromstring(Path("c/report.html").read_text(encoding="utf-8"))
    assert cli.main(["bench", "compare", "always-right", "oracle", "--out", "c"]) == 0
    typed, by_content = BENCH[BENCH.index("--data") + 1], found["revision"]
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{typed} ({by_content})" in shown and "+100.0 [100.0, 100.0]" in shown
    assert f"{typed} ({by_content})" in Path("c/report.html").read_text(encoding="utf-8")


def test_what_cannot_be_compared_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, *BENCH, "--judge", "random", "--out", "one")
    told(capsys, *BENCH, "--judge", "random", "--seed", "1", "--out", "two")
    assert "their seeds differ: 0 and 1" in refused(["bench", "compare", "one", "two"], capsys)
    assert "two runs or more" in refused(["bench", "compare", "one"], capsys)
    assert "nowhere is no finished run" in refused(["bench", "compare", "one", "nowhere"], capsys)
    assert "no --judge" in refused(["bench", "compare", "one", "two", "--judge", "random"], capsys)
    assert "only `footfall bench compare` takes runs" in refused([*BENCH, "one"], capsys)


def test_a_full_disk_ends_bench_all_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device (3 MiB are free)", "all/x.json")

    monkeypatch.setattr(bench, "write_kept", full)
    assert cli.main(["bench", "all", "--data", "data", "--judge", "random", "--out", "all"]) == 2
    errors = capsys.readouterr().err
    assert (
        errors.count("o space left") == 1 and "footfall: all/x.json: no space left on device (3 MiB are free)" in errors
    )


def test_all_benchmarks_with_data_are_on_one_page_and_can_be_resumed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", "all", "--data", "data", "--judge", "random", "--out", "all"]
    found = told(capsys, *words)
    assert list(found["benchmarks"]) == ["processbench"] and found["failed"] == {}
    assert found["not_run"]["steps"] == "there is no steps/ in data"
    said = "".join(ElementTree.fromstring(Path("all/report.html").read_text(encoding="utf-8")).itertext())
    assert "processbench" in said and "there is no steps/ in data" in said
    alone = told(capsys, *BENCH, "--judge", "random", "--out", "alone")
    assert found["benchmarks"]["processbench"] == alone

    def again(*_: object) -> None:
        raise AssertionError("what was judged is judged again")

    monkeypatch.setattr("footfall.store.run.write_parquet", again)
    assert told(capsys, *words) == found
    assert told(capsys, "bench", "compare", "all/processbench", "alone")["benchmark"] == "processbench"


def test_a_benchmark_with_bad_data_does_not_stop_the_others(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data.parent / "PRM_Bench").mkdir()
    (data.parent / "PRM_Bench" / "broken.jsonl").write_text("{", encoding="utf-8")
    found = told(capsys, "bench", "all", "--data", "data", "--judge", "always-wrong", "--out", "all", code=1)
    assert list(found["benchmarks"]) == ["processbench"] and list(found["failed"]) == ["prmbench"]
    said = "".join(ElementTree.fromstring(Path("all/report.html").read_text(encoding="utf-8")).itertext())
    assert "Failed" in said and found["failed"]["prmbench"] in " ".join(said.split())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "needs --data DIR"),
        (["--data", "nowhere"], "needs --data DIR"),
        (["--data", "data/processbench"], "has no data of a benchmark"),
        (["--data", "data", "--scores", "s.jsonl"], "--scores is for one benchmark"),
        (["--data", "data", "--tune-on", "gsm8k"], "--tune-on is for one benchmark"),
    ],
)
def test_all_says_what_it_needs(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(["bench", "all", "--judge", "random", *more], capsys)


def test_data_is_found_by_the_benchmarks_name_with_either_sign(tmp_path: Path) -> None:
    for name in ("socratic_prmbench", "mr-ben", "Best_of_N"):
        (tmp_path / name).mkdir()
    (tmp_path / "steps.jsonl").touch()
    found = {
        name: find_data(tmp_path, name) for name in ("socratic-prmbench", "mr-ben", "best-of-n", "steps", "prmbench")
    }
    assert [path and path.name for path in found.values()] == [
        "socratic_prmbench", "mr-ben", "Best_of_N", "steps.jsonl", None]  # fmt: skip


def test_diagnostics_and_figures_call_the_same_steps_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """Soft truth: a step that is right in 7 of 10 rollouts is wrong where `truth_threshold` is 0.8."""
    rows = [{"id": "0", "problem": "?", "steps": ["a", "b"], "values": [1.0, 0.7]},
            {"id": "1", "problem": "!", "steps": ["a", "b"], "values": [1.0, 0.9]}]  # fmt: skip
    Path("soft.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    Path("said.jsonl").write_text('{"id": "0", "scores": [0.9, 0.2]}\n{"id": "1", "scores": [0.9, 0.8]}')
    words = ["bench", "steps", "--data", "soft.jsonl", "--scores", "said.jsonl", "--out", "run"]
    found = told(capsys, *words, "--option", "truth_threshold=0.8")
    assert found["splits"]["soft"]["f1"]["value"] == 1.0
    assert found["diagnostics"]["confusion"] == {
        "wrong_found": 1, "right_flagged": 0, "right_passed": 3, "wrong_missed": 0}  # fmt: skip
    assert [(at["label"], at["found"]) for at in found["diagnostics"]["positions"]] == [("1", 1)]


def test_diagnostics_leave_out_steps_whose_truth_is_another_question(capsys: pytest.CaptureFixture[str]) -> None:
    """A redundant step is not a wrong one: values of validity are not held against it."""
    steps: list[list[str]] = [["1. a"], ["2. b"]]
    wrong = {"id": 0, "question": "?", "generator": "g", "model_output_step_format": steps,
             "model_output_solution_correctness": "wrong", "model_output_solution_first_error_step": 2}  # fmt: skip
    redundant = {"id": 0, "question": "!", "model_output_step_format": steps, "rating": [1, 0]}
    Path("reasoneval").mkdir()
    for name, row in (("invalid", wrong), ("redundant", redundant)):
        Path(f"reasoneval/mr-math_{name}_errors.json").write_text(json.dumps(row), encoding="utf-8")
    found = told(capsys, "bench", "mr-math", "--data", "reasoneval", "--judge", "always-right", "--out", "run")
    diagnostics = found["diagnostics"]
    assert (diagnostics["steps"], diagnostics["wrong"], diagnostics["positions"][0]["n"]) == (2, 1, 1)
    assert "1 of 1 cases" in Path("run/report.html").read_text(encoding="utf-8")
