"""Best-of-N pools: expected values over subsets, both schemas, and the released step scores where they are."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.benchmarks.best_of_n import best_of_n_pool, read_pools
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.formats import FormatError
from footfall.metrics.cases import LengthJudge, Oracle, RandomJudge, always_right
from footfall.metrics.preferences import best_of, sizes_up_to, subsets, vote_of
from footfall.search.votes import best, leader, pass_at_k, tally

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "best_of_n"


def problem(name: str, *candidates: tuple[str, str | None, bool]) -> dict[str, Any]:
    listed = [{"steps": [text], "answer": answer, "correct": correct} for text, answer, correct in candidates]
    return {"id": name, "problem": "1 + 1?", "answer": "2", "candidates": listed}


def written(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "pool.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def two_problems(tmp_path: Path) -> Path:
    """p: right, wrong, wrong (3 = 3), right; q: all wrong but the last."""
    return written(
        tmp_path,
        problem("p", ("a", "2", True), ("bb", "3", False), ("ccc", "3", False), ("dddd", "2", True)),
        problem("q", ("a", "1", False), ("bb", "1", False), ("ccc", "1", False), ("dddd", "2", True)),
    )


def scores(**values: list[list[float | None]]) -> Scores:
    rows = [{"id": f"{name}#{i}", "scores": steps} for name, row in values.items() for i, steps in enumerate(row)]
    return Scores.from_rows("mine", enumerate(rows, start=1))


def test_problems_of_two_files_stay_apart_though_their_ids_are_the_same(tmp_path: Path) -> None:
    two_problems(tmp_path)
    (tmp_path / "other.jsonl").write_text((tmp_path / "pool.jsonl").read_text())
    groups = dict.fromkeys((case.split, case.group) for case in best_of_n_pool(tmp_path).cases)
    assert list(groups) == [("other", "p"), ("other", "q"), ("pool", "p~2"), ("pool", "q~2")]


def test_the_expected_best_of_n_by_hand() -> None:
    # Ranked: wrong, right, right. Of the three pairs two hold the wrong one, which then wins.
    assert best_of([0.9, 0.5, 0.4], [False, True, True], 1) == pytest.approx(2 / 3)
    assert best_of([0.9, 0.5, 0.4], [False, True, True], 2) == pytest.approx(1 / 3)
    assert best_of([0.9, 0.5, 0.4], [False, True, True], 3) == 0
    # A tie goes to the first of the pool.
    assert best_of([0.5, 0.5], [True, False], 2) == 1
    # Without a score nobody is chosen: of the pairs {0,1}, {0,2}, {1,2} each has a scored one.
    assert best_of([None, 0.5, 0.4], [True, False, True], 2) == pytest.approx(1 / 3)
    assert math.isnan(best_of([None, None], [True, True], 1))


Pool = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, None]), st.sampled_from([0, 1, 2, None]), st.booleans()),
                min_size=1, max_size=6)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(Pool, st.integers(1, 6))
def test_expected_values_are_means_over_all_subsets(pool: list[tuple[float | None, int | None, bool]], n: int) -> None:
    n = min(n, len(pool))
    given_scores, labels, correct = ([row[k] for row in pool] for k in range(3))
    groups = [None if g is None else labels.index(g) for g in labels]
    by_score, by_vote = [], []
    for inside in itertools.combinations(range(len(pool)), n):
        if any(given_scores[i] is not None for i in inside):
            here = best([given_scores[i] for i in inside])
            by_score.append(pool[inside[here or 0]][2])
        firsts = [next(j for j in inside if groups[j] == groups[i]) if groups[i] is not None else None for i in inside]
        winner = leader(tally(firsts, [1.0] * n))
        by_vote.append(winner is not None and pool[winner][2])
    expected = np.mean(by_score) if by_score else math.nan
    assert best_of(given_scores, correct, n) == pytest.approx(expected, nan_ok=True)  # type: ignore[arg-type]
    inside_SM = subsets(len(pool), n, 256, 0)
    found = vote_of(inside_SM, groups, [1.0] * len(pool), correct)  # type: ignore[arg-type]
    assert found == pytest.approx(np.mean(by_vote))


def test_a_subset_is_drawn_without_repetition_and_by_the_seed_alone() -> None:
    drawn = subsets(32, 8, 100, 0)
    assert drawn.shape == (100, 32)
    assert set(drawn.sum(axis=1)) == {8}
    assert (drawn == subsets(32, 8, 100, 0)).all()
    assert (drawn != subsets(32, 8, 100, 1)).any()
    assert subsets(32, 32, 100, 0).all()
    assert len(subsets(32, 1, 100, 0)) == 32


def test_a_vote_counts_weights_and_leaves_out_subsets_that_only_lack_scores() -> None:
    whole = np.ones((1, 3), dtype=np.bool_)
    assert vote_of(whole, [0, 1, 1], [1.0, 1.0, 1.0], [True, False, False]) == 0
    assert vote_of(whole, [0, 1, 1], [0.9, 0.4, 0.4], [True, False, False]) == 1
    assert vote_of(whole, [0, 1, 1], [0.9, None, None], [True, False, False]) == 1
    assert math.isnan(vote_of(whole, [0, 1, 1], [None, None, None], [True, False, False]))
    assert vote_of(whole, [None, None, None], [1.0, 1.0, 1.0], [True, True, True]) == 0


def test_sizes_are_powers_of_two_and_the_pool() -> None:
    assert sizes_up_to(32) == (1, 2, 4, 8, 16, 32)
    assert sizes_up_to(6) == (1, 2, 4, 6)
    assert sizes_up_to(1) == (1,)


def test_sanity_judges_and_the_oracle_get_their_hand_computed_figures(tmp_path: Path) -> None:
    bench = best_of_n_pool(two_problems(tmp_path))
    constant = run(bench, always_right(), resamples=5)
    # The first candidate wins every tie: right in p, wrong in q.
    assert constant.value("N=4", "best_min") == 0.5
    assert (
        constant.value("N=1", "best_min") == constant.value("N=1", "one_sample") == pytest.approx((2 / 4 + 1 / 4) / 2)
    )
    # p: the answers 2 and 3 have two votes each and 2 was seen first; q: three votes for 1.
    assert constant.value("N=4", "majority") == constant.value("N=4", "weighted") == 0.5
    assert constant.value("N=4", "pass") == 1
    assert constant.value("N=2", "pass") == pytest.approx((pass_at_k(4, 2, 2) + pass_at_k(4, 1, 2)) / 2)
    # The shortest candidate is the first one, so length chooses as the constant does.
    assert run(bench, LengthJudge(), resamples=5).value("N=2", "best_prod") == constant.value("N=2", "best_prod")
    oracle = run(bench, Oracle(bench.cases), resamples=5)
    for n in (1, 2, 4):
        assert oracle.value(f"N={n}", "best_min") == pytest.approx(oracle.value(f"N={n}", "pass"))
    assert 0 <= run(bench, RandomJudge(), resamples=5).value("N=4", "best_min") <= 1


def test_the_file_is_the_split_and_its_row_is_that_of_the_whole_pool(tmp_path: Path) -> None:
    report = run(best_of_n_pool(two_problems(tmp_path)), always_right(), resamples=5)
    assert [(row.name, row.n) for row in report.splits] == [("pool", 2), ("N=1", None), ("N=2", None), ("N=4", None)]
    assert report.splits[0].figures == report.splits[-1].figures
    assert report.main_row().name == "N=4"
    (tmp_path / "other.jsonl").write_text((tmp_path / "pool.jsonl").read_text())
    both = run(best_of_n_pool(tmp_path), always_right(), resamples=5)
    assert [row.name for row in both.splits][3:6] == ["other N=4", "pool", "pool N=1"]


def test_scores_address_a_candidate_by_problem_and_index(tmp_path: Path) -> None:
    bench = best_of_n_pool(two_problems(tmp_path))
    last = scores(p=[[0.1], [0.2], [0.3], [0.4]], q=[[0.1], [0.2], [0.3], [0.4]])
    assert run(bench, last, resamples=5).value("pool", "best_last") == 1
    some = scores(p=[[0.1], [0.2], [0.3], [None]], q=[[0.1], [0.2], [0.3], [0.4]])
    report = run(bench, some, resamples=5)
    assert report.value("pool", "best_last") == 0.5
    assert report.value("pool", "unscored") == pytest.approx(1 / 8)
    assert report.value("pool", "majority") == 0.5


def test_signed_scores_have_no_product_and_no_weighted_vote(tmp_path: Path) -> None:
    signed = scores(p=[[-1.0], [-2.0], [-2.0], [-2.0]], q=[[-1.0], [-2.0], [-2.0], [-0.5]])
    report = run(best_of_n_pool(two_problems(tmp_path)), signed, resamples=5)
    assert report.value("pool", "best_min") == 1
    assert math.isnan(report.value("pool", "best_prod"))
    assert math.isnan(report.value("pool", "weighted"))
    assert report.value("pool", "majority") == 0.5


def test_a_judges_own_value_stands_beside_its_steps(tmp_path: Path) -> None:
    rows = [{"id": f"{p}#{i}", "scores": [1.0 - i / 10], "value": i} for p in "pq" for i in range(4)]
    report = run(best_of_n_pool(two_problems(tmp_path)), Scores.from_rows("s", enumerate(rows, 1)), resamples=5)
    assert (report.value("pool", "best_min"), report.value("pool", "best_own")) == (0.5, 1)


def test_answers_are_read_from_the_text_and_compared_as_mathematics(tmp_path: Path) -> None:
    listed = [{"text": "Halve it.\n\nThe answer is 1/2.", "correct": True}, {"text": "So \\boxed{0.5}", "correct": True},
              {"text": "I do not know", "correct": False}]  # fmt: skip
    pool = next(read_pools(written(tmp_path, {"id": 5, "problem": "?", "candidates": listed})))
    assert pool.answers == [0, 0, None]
    assert [len(case.trajectory.steps) for case in pool.cases] == [2, 1, 1]
    assert [case.trajectory.id for case in pool.cases] == ["5#0", "5#1", "5#2"]


def test_traces_one_a_record_are_told_what_a_pool_is(tmp_path: Path) -> None:
    path = written(tmp_path, {"problem": {"id": "p", "prompt": "?"}, "steps": ["a"]})
    with pytest.raises(FormatError, match=r"all candidates of a problem in one record, .*fields problem, steps"):
        best_of_n_pool(path)


def test_a_pool_without_answers_has_no_votes(tmp_path: Path) -> None:
    data = written(tmp_path, problem("p", ("def f(): pass", None, True), ("def g(): pass", None, False)))
    assert "majority" not in run(best_of_n_pool(data), always_right(), resamples=5).splits[0].figures
    whole = best_of_n_pool(two_problems(tmp_path), votes=False)
    assert "weighted" not in run(whole, always_right(), resamples=5).splits[0].figures


def test_released_pools_use_regraded_verdicts_but_never_the_regraded_answers(tmp_path: Path) -> None:
    candidate = {"steps": ["Evelyn is fastest."], "answer": "3.6", "is_correct": False, "is_correct_regraded": True,
                 "answer_regraded": "Evelyn", "grade_rule": "last_sentence"}  # fmt: skip
    data = written(tmp_path, {"problem_id": "m_0", "question": "?", "gold_answer": "Evelyn", "candidates": [candidate]})
    pool = next(read_pools(data))
    assert (pool.correct, pool.cases[0].trajectory.answer) == ([True], "3.6")
    assert next(read_pools(data, "released")).correct == [False]


def test_pools_of_different_sizes_end_at_the_smallest(tmp_path: Path) -> None:
    data = written(tmp_path, problem("p", ("a", "2", True), ("b", "2", True), ("c", "2", True)),
                   problem("q", ("a", "2", False), ("b", "2", True)))  # fmt: skip
    bench = best_of_n_pool(data)
    assert bench.notes == ("pools have 2 to 3 candidates; N ends at 2",)
    assert run(bench, always_right(), resamples=5).value("N=2", "best_min") == 0.5


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "p", "problem": "?"}, 'field "candidates": expected all candidates of a problem in one record'),
        ({"id": "p", "problem": "?", "candidates": []}, 'field "candidates": expected at least one candidate'),
        ({"id": "p", "problem": "?", "candidates": [{"steps": []}]}, r'"candidates\[0\].steps": expected at least one'),
        ({"id": "p", "problem": "?", "candidates": [{"steps": ["a"]}]}, r'"candidates\[0\].correct": expected true or'),
        ({"id": "p", "problem": "?", "candidates": [{"correct": True}]}, r'"candidates\[0\].text": expected a string'),
        ({"problem": "?", "candidates": []}, 'field "id"'),
    ],
)
def test_a_bad_pool_is_refused_by_line_and_field(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="line 1, .*" + message):
        best_of_n_pool(written(tmp_path, row))
    with pytest.raises(ValueError, match="no aggregation is called 'median'"):
        best_of_n_pool(two_problems(tmp_path), aggregations=("median",))  # type: ignore[arg-type]


def released(name: str) -> Scores:
    with gzip.open(DATA / "step_scores" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return Scores.from_rows(name, enumerate(
        ({"id": f"{r['problem_id']}#{r['candidate_index']}", "scores": r["step_scores"]} for r in rows), start=1))  # fmt: skip


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "step_scores").is_dir(), reason="the released pools are not here")
def test_qwen_prm_on_math_500_gives_the_known_best_of_32() -> None:
    # The votes are left out: comparing thousands of formulas takes minutes.
    bench = best_of_n_pool(DATA / "math500_500x32.jsonl.gz", votes=False)
    report = run(bench, released("qwen_prm_math500"), resamples=20)
    figures = {name: round(100 * figure.value, 1) for name, figure in report.splits[0].figures.items()}
    assert figures == {"best_min": 83.8, "best_prod": 84.4, "best_last": 81.0, "best_mean": 83.2, "pass": 93.0,
                       "one_sample": 74.2}  # fmt: skip
    curve = [report.value(f"N={n}", "best_prod") for n in (1, 2, 4, 8, 16, 32)]
    assert curve == sorted(curve)
    assert curve[0] == pytest.approx(report.value("N=1", "one_sample"))


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "step_scores").is_dir(), reason="the released pools are not here")
def test_qwen_prm_on_gsm8k_gives_the_known_best_of_32_and_beats_the_majority() -> None:
    report = run(best_of_n_pool(DATA / "gsm8k_500x32.jsonl.gz"), released("qwen_prm_gsm8k"), resamples=20)
    figures = {name: round(100 * figure.value, 1) for name, figure in report.splits[0].figures.items()}
    assert figures == {"best_min": 96.2, "best_prod": 96.2, "best_last": 94.8, "best_mean": 96.4, "weighted": 94.4,
                       "majority": 94.0, "pass": 98.0, "one_sample": 92.3}  # fmt: skip


def traces(tmp_path: Path, *rows: tuple[str, str, str, bool | None]) -> Path:
    """Traces of problems whose answer is 2: id, problem, last step, verdict."""
    path = tmp_path / "traces.jsonl"
    listed = [
        {"id": name, "problem_id": of, "problem": f"{of}: 1 + 1?", "answer": "2", "steps": [last], "correct": right}
        for name, of, last, right in rows
    ]
    path.write_text("\n".join(map(json.dumps, listed)))
    return path


def test_traces_of_one_problem_are_its_candidates(tmp_path: Path) -> None:
    """Right as they say; where they do not, if they state the reference answer. Scores go by the traces' own ids."""
    path = traces(
        tmp_path, ("a", "p", "The answer is 2.", None), ("b", "q", "The answer is 3.", True),
        ("c", "p", "The answer is 3.", None), ("d", "q", "The answer is 2.", False),
    )  # fmt: skip
    first, second = read_pools(path)
    assert [case.trajectory.id for case in first.cases] == ["a", "c"]
    assert (first.correct, second.correct) == ([True, False], [True, False])
    assert {case.trajectory.correct for case in first.cases} == {None}, "a judge is not told"
    said = [{"id": name, "scores": [score]} for name, score in (("a", 0.9), ("b", 0.1), ("c", 0.2), ("d", 0.8))]
    report = run(best_of_n_pool(path), Scores.from_rows("mine", enumerate(said, start=1)))
    assert report.figure("traces", "best_min").value == 0.5


def test_one_trace_a_problem_is_no_pool(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"in one record, as .* or several traces of it"):
        best_of_n_pool(traces(tmp_path, ("a", "p", "2", True), ("b", "q", "2", True)))


def test_a_trace_of_which_nobody_knows_whether_it_is_right(tmp_path: Path) -> None:
    path = written(tmp_path, {"problem": "?", "id": "t", "steps": ["a"]}, {"problem": "?", "id": "u", "steps": ["b"]})
    with pytest.raises(FormatError, match="whether trace 't' is right, or its problem's reference answer"):
        best_of_n_pool(path)


def test_candidates_without_a_verdict_are_graded(tmp_path: Path) -> None:
    row = {"id": "p", "problem": "1 + 1?", "answer": "2", "candidates": ["The answer is 2.", {"steps": ["It is 3."]}]}
    (pool,) = read_pools(written(tmp_path, row))
    assert [case.trajectory.id for case in pool.cases] == ["p#0", "p#1"]
    assert pool.correct == [True, False]
