"""The script behind `footfall/smol`: rows from each source, nothing measured on is trained on, the whole run in small."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from footfall.benchmarks.scores import Scores
from footfall.reward.prm import PRM
from footfall.reward.shipped import load_shipped
from footfall.train import TrainConfig, train_prm
from footfall.types import AFTER_ERROR, Judged, Problem
from scripts import loop_data, loop_rows, smol_rows
from scripts import train_smol as script
from tests.reward.tiny_models import byte_tokenizer, decoder, trace

torch.set_num_threads(1)
DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


STEPS = ["She has 48/2 = <<48/2=24>>24 clips.", "With 48+24 = <<48+24=72>>72 clips she has 72 in all."]


def test_an_injected_error_changes_one_result_and_its_uses_and_ends_the_trace() -> None:
    seen = {tuple(broken) for seed in range(40) if (broken := smol_rows.inject_error(STEPS, rng(seed)))}
    firsts = {steps[-1] for steps in seen if len(steps) == 1}
    seconds = {steps[-1] for steps in seen if len(steps) == 2}
    assert firsts and seconds
    assert all(text.startswith("She has 48/2 = ") and "= 24 clips" not in text for text in firsts)
    assert all(text.startswith("With 48+24 = ") and "72" not in text.replace("720", "") for text in seconds)
    assert {steps[0] for steps in seen if len(steps) == 2} == {"She has 48/2 = 24 clips."}
    assert smol_rows.inject_error(STEPS, rng(3)) == smol_rows.inject_error(STEPS, rng(3))


def test_a_solution_without_a_marked_result_takes_no_error() -> None:
    assert smol_rows.inject_error(["Nothing is computed.", "<<1+1=2>> two"], rng()) is None


@given(st.integers(0, 10**7), st.integers(0, 3), st.booleans(), st.integers(0, 1000))
def test_a_wrong_number_is_another_number_written_the_same_way(
    units: int, places: int, commas: bool, seed: int
) -> None:
    shown = f"{units / 10**places:,.{places}f}"
    number = shown if commas else shown.replace(",", "")
    wrong = smol_rows.wrong_number(number, rng(seed))
    assert float(wrong.replace(",", "")) != float(number.replace(",", ""))
    assert float(wrong.replace(",", "")) > 0
    assert len(wrong.partition(".")[2]) == places
    assert commas or "," not in wrong


def solution(steps: list[str], correctness: str, first: str) -> dict[str, Any]:
    return {
        "Question": "Q?", "Options": "A: 1 \nB: 2", "Model_Solution_Steps": steps,
        "Model_Solution_Correctness": correctness, "Model_Solution_First_Error_Step": first,
    }  # fmt: skip


def test_an_mr_ben_solution_ends_at_its_first_error() -> None:
    row = smol_rows.mr_ben_row("s", solution(["Step 1: a", "Step 2: b", "Step 3: c"], "incorrect", "2"))
    assert row is not None and row.judgement is not None
    assert [step.text for step in row.trajectory.steps] == ["a", "b"]
    assert row.judgement.values == (1.0, 0.0)
    assert row.trajectory.problem.text == "Q?\nA: 1 \nB: 2"
    whole = smol_rows.mr_ben_row("s", solution(["Step 1: a", "Step 2: b"], "correct", "N/A"))
    assert whole is not None and whole.judgement is not None and whole.judgement.values == (1.0, 1.0)


def test_a_whole_mr_ben_solution_goes_on_behind_its_first_error_without_labels() -> None:
    lines = ["Step 1: a", "Step 2: b", "Step 3: c", "Step 4:"]
    row = smol_rows.mr_ben_row("s", solution(lines, "incorrect", "2"), whole=True)
    assert row is not None and row.judgement is not None
    assert [step.text for step in row.trajectory.steps] == ["a", "b", "c"]
    assert (row.judgement.values, row.judgement.failures) == ((1.0, 0.0, None), (None, None, AFTER_ERROR))
    short = smol_rows.mr_ben_row("s", solution(lines, "incorrect", "2"))
    assert loop_rows.up_to_error(row) == short and short != row


def test_an_mr_ben_error_goes_by_the_number_that_a_step_calls_itself_not_by_its_line() -> None:
    lines = ["Step 1: a", "", "Step 2:", "Choice A: b", " ", "Step 3: c", "Solution: Choice_A"]
    assert smol_rows.mr_ben_steps(lines) == [(1, "a"), (2, "Choice A: b"), (3, "c"), (4, "Solution: Choice_A")]
    row = smol_rows.mr_ben_row("s", solution(lines, "incorrect", "3"))
    assert row is not None and row.judgement is not None
    assert [step.text for step in row.trajectory.steps] == ["a", "Choice A: b", "c"]
    assert row.judgement.values == (1.0, 1.0, 0.0)


def test_an_mr_ben_solution_with_repeated_step_numbers_is_left_out() -> None:
    lines = ["Step 1: a", "Step 2: b", "Step 1: c", "Step 2: d"]
    assert smol_rows.mr_ben_row("s", solution(lines, "incorrect", "2")) is None
    assert smol_rows.mr_ben_steps(["Here it is.", "Step 1: a"]) == [(0, "Here it is."), (1, "a")]


@pytest.mark.parametrize("first", ["4", "0", "", "x"])
def test_a_wrong_mr_ben_solution_whose_first_error_is_none_of_its_steps_is_left_out(first: str) -> None:
    assert smol_rows.mr_ben_row("s", solution(["a", "b", "c"], "incorrect", first)) is None


def row(name: str, question: str) -> Judged:
    return smol_rows.make_row(name, question, ["a", "b"], [1.0, 0.0], "test")


def test_held_out_problems_are_trained_on_by_no_source_and_a_heavy_one_is_never_held_out() -> None:
    heavy = [row(f"h{k}", "Which number comes up again and again?") for k in range(20)]
    light = [row(f"l{k}", f"What is {k} plus {k}?") for k in range(20)]
    others = [row(f"o{k}", f"What is {k} plus {k} ?") for k in range(20)]
    kept, held, dropped = script.hold_out({"prm800k": heavy + light, "mr-ben": others}, ["prm800k"], 0.2, seed=0)
    assert len(held) == 4 and {r.trajectory.id[0] for r in held} == {"l"}
    assert dropped == {"prm800k": 0, "mr-ben": 4}, "the same problem with other spacing"
    assert len(kept["prm800k"]) == 36 and len(kept["mr-ben"]) == 16


def test_rows_about_an_evaluation_problem_are_dropped_and_counted_by_source() -> None:
    sources = {"a": [row("1", "What is 3 plus 4 times 5?"), row("2", "Who?")], "b": [row("3", "WHO")]}
    kept, dropped = script.without(sources, [Problem("e", "what is 3 plus 4 times 5")])
    assert dropped == {"a": 1, "b": 0}
    assert [r.trajectory.id for r in kept["a"]] == ["2"]


def test_held_out_rows_about_a_trained_problem_are_refused(tmp_path: Path) -> None:
    rows = [row("1", "What is 1?"), row("2", "What is 2?")]
    model = PRM.from_backbone(decoder(), byte_tokenizer(), max_length=256)
    with pytest.raises(ValueError, match="'3' is about a problem that is trained on"):
        train_prm(rows, model, TrainConfig(device="cpu"), tmp_path, held_out=[row("3", "what is 1")])


@pytest.mark.skipif(not DATA.is_dir(), reason="the public data is not here")
def test_the_human_labels_are_those_of_the_sources() -> None:
    rows = smol_rows.prm800k_rows(DATA)
    values = [v for r in rows if r.judgement is not None for v in r.judgement.values]
    assert (len(rows), len(values), values.count(0.0)) == (1818, 10801, 1566)
    solutions = smol_rows.mr_ben_rows(DATA, ["math"])
    assert (len(solutions), sum(0.0 in r.judgement.values for r in solutions if r.judgement)) == (912, 764)
    right, wrong = smol_rows.gsm8k_rows(DATA, 100, seed=0)
    assert (len(right), len(wrong)) == (50, 50)
    assert not any("<<" in step.text for r in right + wrong for step in r.trajectory.steps)


@pytest.mark.skipif(not DATA.is_dir(), reason="the public data is not here")
def test_whole_rows_up_to_their_errors_are_the_others_and_go_on_as_the_gold_solutions_do() -> None:
    """So a PRM that reads forwards learns from the same rows, and none is decontaminated or held out that was not."""
    for make in (smol_rows.gsm8k_rows, smol_rows.math_rows):
        (right, wrong), (also_right, whole) = make(DATA, 200, 0), make(DATA, 200, 0, whole=True)
        assert also_right == right and [loop_rows.up_to_error(row) for row in whole] == wrong
        for solved, broken, ended in zip(right, whole, wrong, strict=True):
            at = len(ended.trajectory.steps)
            assert broken.trajectory.steps[at:] == solved.trajectory.steps[at:]
        assert 40 < sum(broken != ended for broken, ended in zip(whole, wrong, strict=True)) < 100
    solutions, rows = (smol_rows.mr_ben_rows(DATA, ["math"], whole) for whole in (True, False))
    assert [loop_rows.up_to_error(row) for row in solutions] == rows


def write(path: Path, content: Any, lines: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(item) for item in content) if lines else json.dumps(content)
    path.write_bytes(gzip.compress(text.encode()))


def public_data(folder: Path) -> Path:
    """Every file that the script reads, with a few rows each; a step is wrong if and only if it says `no`."""
    ok = [[(3 * i + k * k) % 4 != 0 for k in range(1 + i % 3)] for i in range(120)]
    texts = [["ok" if good else "no" * (1 + i % 2) for good in steps] for i, steps in enumerate(ok)]
    rated = [
        {"id": f"r{i}", "problem": f"Rated {i // 2}", "steps": texts[i], "ratings": [1 if g else -1 for g in ok[i]]}
        for i in range(120)
    ]
    write(folder / "prm800k" / "prm800k_validation_1818_decoded.jsonl.gz", rated)
    wrong = solution(["Step 1: ok", "Step 2: no"], "incorrect", "2")
    for subject in smol_rows.SUBJECTS:
        write(folder / "mr_ben" / f"{subject}.json.gz", {"u": [{**wrong, "Question": f"{subject}?"}]}, lines=False)
    sums = [
        {"question": f"Sum {k}?", "answer": f"It is {k}+1=<<{k}+1={k + 1}>>{k + 1}\n#### {k + 1}"} for k in range(9)
    ]
    write(folder / "gsm8k" / "train.jsonl.gz", sums)
    bench = {"id": "g-0", "generator": "x", "problem": "Rated 98", "steps": ["ok", "no"], "label": 1}
    fine = {**bench, "id": "g-1", "steps": ["ok", "ok"], "label": -1}
    for split in ("gsm8k", "math", "olympiadbench", "omnimath"):
        write(folder / "processbench" / f"{split}.json.gz", [bench, fine], lines=False)
    flawed = {
        "question": "Rated 0", "original_question": "What was rated nought?", "modified_question": "Other?",
        "original_process": ["1. ok"], "modified_process": ["1. ok", "2. no"], "error_steps": [2], "modified_steps": [2],
        "reason": "", "idx": "7", "classification": "circular",
    }  # fmt: skip
    write(folder / "prmbench" / "prmbench_all_6216.jsonl.gz", [flawed])
    return folder


def test_a_problem_of_prmbench_is_held_against_in_all_its_words(tmp_path: Path) -> None:
    """`question` has it as MATH does, which training sets hold; the others are a model's words for it."""
    data = public_data(tmp_path)
    write(data / "gsm8k" / "test.jsonl.gz", [{"question": "Sum?", "answer": "#### 1"}])
    write(data / "math" / "math500.jsonl.gz", [{"problem": "Product?", "answer": "1"}])
    asked = ["Other?", "Rated 0", "What was rated nought?"]
    assert loop_data.evaluation_texts(data)["prmbench"] == asked
    assert {*asked} <= {problem.text for problem in script.evaluation_problems(data, [])}


@pytest.mark.long
@pytest.mark.parametrize("full", [False, True], ids=["lora", "full"])
def test_the_whole_run_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    monkeypatch.setattr(script, "load_model", lambda *given: (decoder(context=2048), byte_tokenizer()))
    data, out = public_data(tmp_path / "data"), tmp_path / "out"
    options = ["--epochs", "3", "--batch", "8", "--lr", "1e-2", "--rank", "8", "--device", "cpu"]
    facts = script.main(
        ["--data", str(data), "--gguf", "x", "--out", str(out), *options, *(["--full"] if full else [])]
    )
    assert facts["rows"] == {"prm800k": 120, "mr-ben": 5, "gsm8k": 9, "gsm8k-injected": 9}
    assert facts["dropped, problem of a benchmark"]["prm800k"] == 2, "PRMBench's original problem"
    assert [update for update, _ in facts["loss held out"]] == [16, 32, 48], "after each epoch"
    assert facts["validation"]["auc"] > 0.9
    assert set(facts["thresholds of sanity judges"]) == {"length", "random"}
    assert facts["benchmarks"]["processbench"]["figures"]["mean"]["f1"] == 1.0
    stored = Scores.read(out / "scores" / "processbench.jsonl.gz")
    assert len(stored) == 8
    assert (facts["kept in the adapter"] < 1) == full, "a full training is shipped as the nearest adapter"
    model = load_shipped(out / "smol", decoder(context=2048).base_model, byte_tokenizer(), device="cpu")
    assert model.threshold == facts["validation"]["threshold"]
    (values,) = model.score([model.read(trace("ok", "no", prompt="Rated 98"))])
    assert stored.judgement("gsm8k", trace("ok", "no", id="g-0")).values == pytest.approx(values, abs=1e-4)


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "best_of_n").is_dir(), reason="the pools are not here")
def test_pool_rows_carry_the_scores_of_a_published_prm() -> None:
    rows = smol_rows.pool_rows(DATA, 200, 0)
    assert len(rows) == 200
    assert all(len(r.trajectory.steps) == len(r.judgement.values) for r in rows if r.judgement)
    assert rows == smol_rows.pool_rows(DATA, 200, 0)


def test_an_equation_error_changes_one_number_behind_an_equals_sign_and_ends_the_trace() -> None:
    steps = ["We have $3 + 4 = 7$.", "Twice that is $2 \\cdot 7 = \\boxed{14}$.", "Done."]
    seen = [smol_rows.inject_equation_error(steps, rng(seed)) for seed in range(30)]
    assert {len(broken) for broken in seen if broken} == {1, 2}
    for broken in seen:
        assert broken is not None and broken[:-1] == steps[: len(broken) - 1] and broken[-1] != steps[len(broken) - 1]
    assert smol_rows.inject_equation_error(["Nothing here.", "x = y"], rng()) is None


@pytest.mark.skipif(not (DATA / "math").is_dir(), reason="needs the shared data")
def test_math_solutions_come_right_and_with_one_error() -> None:
    right, wrong = smol_rows.math_rows(DATA, 40, seed=0)
    assert len(right) == len(wrong) == 20
    for good, bad in zip(right, wrong, strict=True):
        assert good.trajectory.problem == bad.trajectory.problem
        assert good.judgement is not None and set(good.judgement.values) == {1.0}
        assert bad.judgement is not None and bad.judgement.values[-1] == 0.0
