"""The loop on a real model, in small: every stage over files, and nothing that is measured on is trained on."""

from __future__ import annotations

import gzip
import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import footfall
from footfall.formats import read_parquet, read_problems, write_parquet
from footfall.types import Judged, Problem, Reason, Step, Trajectory
from scripts import loop, loop_data, loop_files, loop_rows
from scripts.smol_rows import make_row, read_lines
from tests.test_gguf import write_gguf

TEXTS = {
    "gsm8k-test": ["Ann has 3 apples and buys 4 more apples at the shop today, how many apples has she now?"],
    "math-500": ["Find the value of $x$ for which $3x + 5 = 17$ holds."],
    "processbench": ["How many integers lie strictly between 12 and 30 on the number line?"],
    "prmbench": ["Compute the area of a square whose side has length 9 metres."],
}


def rows(name: str, questions: list[str]) -> list[Judged]:
    """Two a question: one right to its end, one with a wrong second step."""
    return [
        make_row(f"{name}-{k}-{right}", question, ["a" * (k + 1), "b a"], [1.0, float(right)], name)
        for k, question in enumerate(questions) for right in (0, 1)
    ]  # fmt: skip


def test_problems_and_rows_that_are_measured_on_are_left_out(tmp_path: Path) -> None:
    everywhere = loop_data.evaluation_problems(TEXTS, loop_data.EVALUATED)
    measured = [Problem(f"m{k}", text.upper()) for k, (text,) in enumerate(TEXTS.values())]
    own = [Problem("own", "What is 7 times 8?")]
    assert loop_data.clean_problems([*measured, *own], everywhere) == own
    questions = [f"What is {n} times {n + 1}?" for n in range(20)]
    found = {name: rows(name, questions) for name in ("prm800k", "mr-ben", "gold", "injected")}
    found["gold"] += rows("seen", [text for texts in TEXTS.values() for text in texts])
    seen = [TEXTS["gsm8k-test"][0], TEXTS["processbench"][0]]
    found["distilled"] = rows("Qwen2.5-Math-PRM-7B", [*seen, *(f"What is {n} minus 1?" for n in range(20))])
    facts: Any = loop_data.write_rows(found, TEXTS, tmp_path, seed=0)
    assert facts["dropped, measured on"] == {"prm800k": 0, "mr-ben": 0, "gold": 8, "injected": 0, "distilled": 2}
    kept = {
        name: read_parquet(tmp_path / f"{name}.parquet", "judged")
        for name in [*found, "held-out", "held-out-distilled"]
    }
    held = {row.trajectory.problem.text for name in ("held-out", "held-out-distilled") for row in kept[name]}
    assert (
        held
        and kept["held-out-distilled"]
        and not held & {r.trajectory.problem.text for name in found for r in kept[name]}
    )
    loop_data.refuse_measured(kept["gold"], TEXTS, loop_data.EVALUATED)
    loop_data.refuse_measured(kept["distilled"], TEXTS, loop_data.STEPS)
    with pytest.raises(ValueError, match="the training rows hold 1 problems that are measured on"):
        loop_data.refuse_measured(kept["distilled"], TEXTS, loop_data.EVALUATED)


def test_rows_about_held_out_problems_are_left_out_and_counted() -> None:
    """Samples of MATH's training problems may be about those of PRM800K that the threshold is chosen on."""
    held, other = rows("prm800k", ["What is 2 times 3?"]), rows("outcome", ["What is 4 times 5?"])
    same = rows("outcome", ["what is  2 times 3 ?"])
    assert loop_data.apart_from([*same, *other], held) == (other, 2)


def test_the_outcome_labels_the_last_step_of_finished_solutions_alone() -> None:
    trace = replace(rows("x", ["What is 1 plus 1?"])[0].trajectory, correct=False)
    cut = replace(trace, meta={"finish": "length"})
    (row,) = loop_data.outcome_rows([trace, cut, replace(trace, correct=None)])
    assert row.judgement is not None and row.judgement.values == (None, 0.0)
    assert [why and why.reason for why in row.judgement.failures] == [Reason.NOT_ASKED, None]


def test_outcomes_are_known_of_what_others_have_labelled_where_no_samples_came_along(tmp_path: Path) -> None:
    row, _ = rows("x", ["What is 1 plus 1?"])
    labelled = Judged(replace(row.trajectory, correct=True), row.judgement)
    write_parquet(tmp_path / "label-omegaprm-gsm8k-train.parquet", [labelled], "judged")
    ((said,),) = loop_rows.labels_of(tmp_path, "outcome@omegaprm")
    assert said.judgement is not None and said.judgement.values == (None, 1.0)
    with pytest.raises(ValueError, match=r"there is no label-critic-SET\.parquet"):
        loop_rows.labels_of(tmp_path, "outcome@critic")
    with pytest.raises(ValueError, match="as outcome@omegaprm"):
        loop_rows.labels_of(tmp_path, "steps@omegaprm")


def test_a_pool_grows_by_samples_of_another_seed_and_twice_is_once() -> None:
    pool = [row.trajectory for row in rows("x", ["What is 1 plus 1?", "What is 2 plus 2?"])]
    grown = loop_data.together(pool, pool, "seed 1")
    assert [trace.id for trace in grown] == [t.id for t in pool] + [f"{t.id}, seed 1" for t in pool]
    assert loop_data.together(grown, pool, "seed 1") == grown
    assert loop_data.in_rounds(grown, 2) == [pool, grown[4:]], "the first two of each problem are those that were there"
    assert loop_data.in_rounds(grown, 2, 3) == [pool, [grown[4], grown[6]]]
    assert loop_data.in_rounds(grown, 9, 2) == [pool] and loop_data.in_rounds([], 2) == []


def test_few_candidates_of_few_problems_are_cut_from_a_pool_with_their_texts(tmp_path: Path) -> None:
    problems = [Problem(name, f"{name}?", "7") for name in "abc"]
    (tmp_path / "problems").mkdir()
    lines = [json.dumps({"id": problem.id, "problem": problem.text}) for problem in problems]
    (tmp_path / "problems" / "math-500.jsonl").write_text("\n".join(lines))
    pool = [Trajectory(f"{problem.id}{k}", problem, (Step("x"),)) for problem in problems for k in range(3)]
    write_parquet(tmp_path / "sample-math-500.parquet", pool, "trajectory")
    loop.main(["few", "--out", str(tmp_path), "--sets", "math-500", "--problems", "2", "--first", "2"])
    few = read_parquet(tmp_path / "few" / "sample-math-500.parquet", "trajectory")
    assert few == [pool[0], pool[1], pool[3], pool[4]]


def test_how_many_sequences_are_written_side_by_side_is_a_setting_of_the_policy() -> None:
    def policy(*words: str) -> str:
        drawn = loop.drawing(loop.arguments(["sample", "--out", "O", "--model", "model.gguf", *words]))
        return drawn[drawn.index("--policy") + 1]

    assert policy() == "model.gguf" and policy("--at-once", "640") == "model.gguf,rows=640"


def test_labels_end_at_a_written_error_and_rows_whose_number_is_off_are_left_out(tmp_path: Path) -> None:
    right, wrong = "2 + 3 = 5\n5 * 2 = 10\n#### 10", "2 + 3 = 5\n5 * 2 = 12\nSo 12\n#### 12"
    given = [
        {"transformed_solution": wrong, "wrong_step": 2},  # taken
        {"transformed_solution": wrong, "wrong_step": 2},  # the same once more
        {"transformed_solution": wrong, "wrong_step": 1},  # that step is the original's
        {"transformed_solution": "2 + 3 = 6\n6 * 2 = 12", "wrong_step": 2},  # the first step is wrong already
        {"transformed_solution": wrong, "wrong_step": 2, "is_single_error": False},
    ]
    both = {"question": "How much is (2 + 3) * 2?", "original_solution": right, "is_single_error": True}
    for folder in ("generated_cases_GSM8K", "EP_robustness_testing_cases_GSM8K"):
        file = tmp_path / "eic_math" / folder / "generated_cases_clean.jsonl.gz"
        file.parent.mkdir(parents=True)
        lines = [json.dumps(both | row) for row in given] if folder.startswith("generated") else ["no labels"]
        file.write_bytes(gzip.compress("\n".join(lines).encode()))
    found = {tuple(step.text for step in row.trajectory.steps): row for row in loop_data.eic_math_rows(tmp_path)}
    assert {steps: row.judgement.values for steps, row in found.items() if row.judgement} == {
        ("2 + 3 = 5", "5 * 2 = 10"): (1.0, 1.0), ("2 + 3 = 5", "5 * 2 = 12", "So 12"): (1.0, 0.0, None),
    }  # fmt: skip


def learned(out: Path, whole: bool = False) -> loop_rows.Lessons:
    given = ["train", "--out", str(out), "--model", "m", "--rows", "gold", "prm800k"]
    return loop_rows.lessons_of(loop.arguments(given), whole)


def test_rows_are_read_up_to_the_first_error_or_whole(prepared: tuple[list[str], Path]) -> None:
    """Up to the error they are the rows that prepare wrote when it kept nothing behind it: trainings stay what they were."""
    _, out = prepared

    def given(name: str, first: int, after: list[str]) -> list[Judged]:
        """Eight wrong solutions, and the right ones."""
        asked = [(f"{name}-{n}", f"What is {n} plus 1?") for n in range(first, first + 8)]
        wrong = [make_row(*each, ["a", "b"], [1.0, 0.0], "gold", after) for each in asked]
        return wrong + [make_row(f"{id}-right", text, ["a", "b", "c"], [1.0] * 3, "gold") for id, text in asked]

    rated = [make_row(f"rated-{n}", f"Who is {n}?", ["a", "b"], [1.0, 0.0], "prm800k") for n in range(20)]
    write_parquet(out / "rows" / "prm800k.parquet", rated, "judged")
    write_parquet(out / "rows" / "gold.parquet", given("gold", 0, ["c", "d"]), "judged")
    also = [make_row(f"held-rated-{n}", f"Where is {n}?", ["a", "b"], [1.0, 0.0], "prm800k") for n in range(20)]
    write_parquet(out / "rows" / "held-out.parquet", [*given("held", 20, ["c"]), *also], "judged")
    short, whole = learned(out), learned(out, whole=True)
    assert short.rows == [*given("gold", 0, []), *rated] and short.held == [*given("held", 20, []), *also]
    assert whole.rows == given("gold", 0, ["c", "d"]), "of rated solutions there is nothing behind the error"
    assert whole.held == given("held", 20, ["c"])
    assert [facts["labels"]["prm800k"]["traces"] for facts in (short.facts, whole.facts)] == [20, 0]
    write_parquet(out / "rows" / "gold.parquet", given("gold", 0, []), "judged")
    assert learned(out) == short
    write_parquet(out / "rows" / "held-out.parquet", also, "judged")  # as an earlier prepare left them
    with pytest.raises(ValueError, match="no held-out rows that go on after their first errors: run the stage prepare"):
        learned(out, whole=True)


def test_rows_with_labels_of_samples_keep_what_has_no_label(tmp_path: Path) -> None:
    """A search for the first error leaves steps behind it; these rows were always read whole."""
    made = make_row("s", "What is 1 plus 1?", ["a"], [0.0], "omegaprm", after=["b"])
    write_parquet(tmp_path / "label-omegaprm-gsm8k-train.parquet", [made], "judged")
    args = loop.arguments(["train", "--out", str(tmp_path), "--model", "m", "--rows", "omegaprm"])
    assert loop_rows.rows_of(args)[0][0] == made


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[list[str], Path]:
    """A tiny model, a benchmark of four cases, and what the stage prepare leaves."""
    model, out, given = write_gguf(tmp_path / "tiny.gguf"), tmp_path / "out", tmp_path / "data" / "processbench"
    given.mkdir(parents=True)
    for split in ("gsm8k", "math", "olympiadbench", "omnimath"):
        cases = [
            {"id": f"{split}-{k}", "problem": TEXTS["processbench"][0], "steps": ["a", "b"], "label": k, "generator": "g",
             "final_answer_correct": k < 0} for k in (-1, 1)
        ]  # fmt: skip
        (given / f"{split}.json.gz").write_bytes(gzip.compress(json.dumps(cases).encode()))
    loop_files.keep(out / "evaluation.json", TEXTS)
    for name in ("gsm8k-train", "gsm8k-test"):
        lines = [{"id": f"{name}-{n}", "problem": f"What is {n} times {n}?", "answer": str(n)} for n in range(3)]
        file = out / "problems" / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (out / "rows").mkdir()
    for name, first in (("gold", 0), ("distilled", 0), ("held-out", 20), ("held-out-distilled", 40)):
        questions = [f"What is {n} plus 1?" for n in range(first, first + 8)]
        write_parquet(out / "rows" / f"{name}.parquet", rows(name, questions), "judged")
    return ["--out", str(out), "--model", str(model), "--device", "cpu", "--data", str(given.parent)], out


def ship(out: Path, shared: list[str]) -> str:
    """Ships the PRM `gold`, opens it as a user would, on the base of the training, and gives its card."""
    folder = out / "shipped"
    loop.main(["ship", "--out", str(out), "--name", "gold", "--to", str(folder), "--hub", "some/base"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # it is the base of the training
        judge = footfall.load("footfall/coder-1.5b", folder=folder, base=shared[3], device="cpu")
    case = json.loads(gzip.decompress((out.parent / "data" / "processbench" / "math.json.gz").read_bytes()))[0]
    trace = make_row("t", case["problem"], case["steps"], [1.0, 1.0], "x").trajectory
    scores = {row["id"]: row["scores"] for row in read_lines(out / "scores-gold-processbench.jsonl.gz")}
    assert judge.judge([trace])[0].values == pytest.approx(scores["math--1"], abs=1e-4)
    return (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_every_stage_goes_on_from_the_files_of_the_one_before(
    prepared: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shared, out = prepared
    short = ["--max-tokens", "8"]
    loop.main(["sample", *shared, *short, "--sets", "gsm8k-train", "gsm8k-test", "--n", "2"])
    traces = read_parquet(out / "sample-gsm8k-train.parquet", "trajectory")
    assert len(traces) == 6 and all(step.logprobs is None for trace in traces for step in trace.steps)
    more = ["--sets", "gsm8k-test", "--n", "1", "--seed", "1", "--more", "--skip", "1"]
    for _ in range(2):
        loop.main(["sample", *shared, *short, *more])
        grown = read_parquet(out / "sample-gsm8k-test.parquet", "trajectory")
        assert [t.problem.id for t in grown[6:]] == ["gsm8k-test-1", "gsm8k-test-2"], "the first problem was skipped"
    solved = [replace(t, steps=(Step("a"), Step("b")), tokenizer=None, meta={}) for t in traces[::2]]
    write_parquet(out / "sample-gsm8k-train.parquet", solved, "trajectory")
    loop.main(["label", *shared, "--max-tokens", "90", "--sets", "gsm8k-train", "--rollouts", "16", "--traces", "2"])
    labelled = read_parquet(out / "label-monte-carlo-gsm8k-train.parquet", "judged")
    assert len(labelled) == 2 and 0.0 in {value for row in labelled for value in row.judgement.values}
    train = ["train", *shared, "--rank", "2", "--batch", "4", "--accumulation", "1", "--max-length", "128"]
    loop.main([*train, "--name", "gold", "--rows", "gold", "monte-carlo"])
    seen = read_problems(out / "problems" / "gsm8k-test.jsonl")[1]
    known = [*rows("distilled", [seen.text]), *read_parquet(out / "rows" / "distilled.parquet", "judged")]
    write_parquet(out / "rows" / "distilled.parquet", known, "judged")
    loop.main([*train, "--name", "far", "--rows", "gold", "distilled", "--against", "processbench", "math-500"])
    loop.main([*train, "--name", "full", "--rows", "gold", "outcome", "--full", "--hard"])
    assert json.loads((out / "prm-full" / "facts.json").read_text(encoding="utf-8"))["kept in the adapter"] < 1
    folder = out / "prm-gold"
    assert {file.name for file in folder.iterdir()} == {
        "adapter_model.safetensors", "adapter_config.json", "head.safetensors", "step_head.json", "facts.json",
    }  # fmt: skip
    loop.main(["score", *shared, "--name", "gold", "--on", "processbench", "gsm8k-test", "--first", "2"])
    first = list(read_lines(out / "scores-gold-gsm8k-test.jsonl.gz"))
    assert len(first) == 6
    loop.main(["score", *shared, "--name", "gold", "--on", "processbench", "gsm8k-test", "--first", "3"])
    further = list(read_lines(out / "scores-gold-gsm8k-test.jsonl.gz"))
    assert further[:6] == first and len(further) == 8, "those of which there were no scores yet"
    pool = out / "sample-gsm8k-test.parquet"
    drawn = read_parquet(pool, "trajectory")
    write_parquet(pool, [replace(drawn[0], steps=(*drawn[0].steps, Step("more"))), *drawn[1:]], "trajectory")
    with pytest.raises(SystemExit, match=f"{drawn[0].id} has .* they are of other samples; remove the file"):
        loop.main(["score", *shared, "--name", "gold", "--on", "gsm8k-test"])
    write_parquet(pool, drawn, "trajectory")
    with pytest.raises(SystemExit, match="far may have seen problems of prmbench"):
        loop.main(["score", *shared, "--name", "far", "--on", "prmbench"])
    loop.main(["score", *shared, "--name", "far", "--on", "processbench", "gsm8k-test"])
    capsys.readouterr()
    loop.main(["evaluate", *shared])
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((out / "evaluate.json").read_text(encoding="utf-8"))
    assert found["gold"]["processbench"]["cases"] == 8 and found["gold"]["gsm8k-test"]["problems"] == 3
    assert (
        found["far"]["gsm8k-test"]["problems"] == 2
        and seen.id not in gzip.decompress((out / "scores-far-gsm8k-test.jsonl.gz").read_bytes()).decode()
    )
    spent = sum(row.judgement.cost.generated_tokens for row in labelled)
    assert found["gold"]["labels"]["monte-carlo"]["generated tokens"] == spent > 0
    loop.main(["thin", "--out", str(out), "--sets", "gsm8k-test"])
    (out / "thin" / pool.name).replace(pool)
    loop.main(["evaluate", *shared])
    assert found == json.loads((out / "evaluate.json").read_text(encoding="utf-8")), "texts are not needed"
    capsys.readouterr()
    card = ship(out, shared)
    assert f"**{found['gold']['threshold']:.4f}**" in card and f"| 2 | 4 | 4 | {spent:,} |" in card
    assert "| Skywork-1.5B (published) | 59.0 | 48.0 | 19.3 | 19.2 | 36.4 |" in card
    searched = ["search", *shared, *short, "--name", "gold", "--sets", "gsm8k-test", "--n", "4"]
    loop.main([*searched, "--methods", "best-of-n"])
    loop.main([*searched, "--methods", "majority", "beam-search", "--truth", "0", "0.5", "--oracle", "2"])
    facts = {
        method: list(json.loads((out / f"search-gold-gsm8k-test-{method}.json").read_text(encoding="utf-8")))
        for method in ("best-of-n", "majority", "beam-search-truth")
    }
    assert facts == {
        "best-of-n": ["best-of-n 4, 3 problems"], "majority": ["majority 4, 3 problems"],
        "beam-search-truth": ["beam-search 4, 3 problems, truth 0", "beam-search 4, 3 problems, truth 0.5"],
    }  # fmt: skip
    loop.main(
        ["label", *shared, "--max-tokens", "40", "--sets", "gsm8k-train", "--method", "omegaprm", "--traces", "2"]
    )
    (regularised,) = loop_rows.labels_of(out, "er-prm")
    for given, row in zip(labelled, regularised, strict=True):
        assert row.judgement and row.judgement.cost == given.judgement.cost
        wanted = [math.log(1 - p + p * math.e) for p in given.judgement.values]
        assert list(row.judgement.values) == pytest.approx(wanted)
    both = loop_rows.labels_of(out, "monte-carlo+omegaprm")
    assert [[row.trajectory.id for row in rows] for rows in both] == [[row.trajectory.id for row in labelled]]
