"""Scores from elsewhere: what is refused, what is left out and said, and values of whole responses."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from footfall.benchmarks import scores as scores_module
from footfall.benchmarks.processbench import measure
from footfall.benchmarks.runner import Benchmark, measured, run
from footfall.benchmarks.scores import Scores
from footfall.judging import Traits
from footfall.metrics.cases import Case, Oracle, always_right
from footfall.metrics.intervals import Floats
from footfall.types import Judgement, Problem, Step, Trajectory


def trace(name: str, n_steps: int = 2) -> Trajectory:
    return Trajectory(name, Problem(name, "?"), tuple(Step(f"{name} {k}") for k in range(n_steps)))


def first_error_cases() -> list[Case]:
    """x: the second step is wrong, y: all right, z: the first step is wrong."""
    truths = {"x": (1.0, 0.0), "y": (1.0, 1.0), "z": (0.0, None)}
    return [Case("s", trace(name), Judgement(name, truth, "human")) for name, truth in truths.items()]


def by_steps() -> Benchmark:
    return Benchmark("steps-here", first_error_cases(), measure, "first below", "f1", "r1")


def chosen_wins(
    cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats
) -> dict[str, dict[str, Floats]]:
    """The share of pairs whose chosen response has the higher value; a pair weighs what its first response does."""
    pairs: dict[str, list[int]] = {}
    for i, case in enumerate(cases):
        pairs.setdefault(case.group, []).append(i)
    won = np.asarray([float(_value(judgements[a]) > _value(judgements[b])) for a, b in pairs.values()])
    weights = weights_RN[:, [a for a, _ in pairs.values()]]
    return {"p": {"accuracy": weights @ won / weights.sum(axis=1)}}


def _value(judgement: Judgement) -> float:
    assert judgement.value is not None
    return judgement.value


def by_pairs() -> Benchmark:
    """Three pairs; the first response of each is the chosen one."""
    cases = [
        Case("p", trace(f"{g}{k}"), Judgement(f"{g}{k}", (None, None), "human", value=1.0 - k), group=g)
        for g in "abc" for k in (0, 1)
    ]  # fmt: skip
    return Benchmark("pairs", cases, chosen_wins, "higher value", "accuracy", "r2")


def written(tmp_path: Path, *lines: str, name: str = "scores.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


GOOD = '{"id": "x", "scores": [0.9, 0.1]}'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": "y", "scores": [0.5, NaN]}', r"scores.jsonl, line 2, field scores, step 2: a finite number or null"),
        ('{"id": "y", "scores": [-Infinity]}', r"line 2, field scores, step 1: .* not -Infinity"),
        ('{"id": "y", "scores": [1e999]}', r"line 2, field scores, step 1: .* not Infinity"),
        ('{"id": "y", "scores": [1' + "0" * 400 + "]}", r"line 2, field scores, step 1: a finite number"),
        ('{"id": "y", "scores": [1' + "0" * 5000 + "]}", r"line 2: not JSON that can be read"),
        ('{"id": "y", "scores": ["0.5"]}', r"line 2, field scores, step 1: .* not \"0.5\""),
        ('{"id": "y", "value": NaN}', r"line 2, field value: a finite number"),
        ('{"id": "y", "value": null}', r"line 2, field scores: a list"),
        ('{"id": "x", "value": 0.5}', r"line 2: the id 'x' was scored before"),
        ("[" * 100_000, r"line 2: not JSON"),
    ],
)
def test_what_is_no_finite_number_is_refused_by_line_and_step(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Scores.read(written(tmp_path, GOOD, line))


def test_the_same_id_may_stand_in_two_splits_but_not_twice_in_one(tmp_path: Path) -> None:
    lines = ['{"id": "x", "split": "a", "scores": [1]}', '{"id": "x", "split": "b", "scores": [0]}']
    assert len(Scores.read(written(tmp_path, *lines))) == 2
    with pytest.raises(ValueError, match="line 3: the id 'x' was scored before"):
        Scores.read(written(tmp_path, *lines, lines[0]))


def test_constant_scores_are_refused_unless_they_are_wanted(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": "x", "scores": [0.5, null]}', '{"id": "y", "scores": [0.5, 0.5]}')
    with pytest.raises(ValueError, match=r"every score is 0.5, so it can order nothing; .*--allow-constant"):
        Scores.read(path)
    assert run(by_steps(), Scores.read(path, allow_constant=True)).used == 2


def test_long_lines_and_large_files_are_not_read_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, GOOD, '{"id": "y", "scores": [' + "1, " * 40 + "0]}")
    monkeypatch.setattr(scores_module, "LINE_LIMIT", 100)
    with pytest.raises(ValueError, match="line 2: longer than 100 bytes"):
        Scores.read(path)
    monkeypatch.setattr(scores_module, "LINE_LIMIT", 1000)
    monkeypatch.setattr(scores_module, "FILE_LIMIT", 100)
    with pytest.raises(ValueError, match="line 2: the file has more than 100 bytes"):
        Scores.read(path)


def test_a_gzip_file_is_known_by_its_bytes_and_refused_if_it_was_cut(tmp_path: Path) -> None:
    packed = gzip.compress(f"\ufeff{GOOD}\n".encode())
    (tmp_path / "packed").write_bytes(packed)
    assert len(Scores.read(tmp_path / "packed")) == 1
    (tmp_path / "cut.gz").write_bytes(packed[:-9])
    with pytest.raises(ValueError, match=r"cut\.gz: not a whole gzip file"):
        Scores.read(tmp_path / "cut.gz")
    (tmp_path / "latin").write_bytes(b'{"id": "\xe9"}')
    with pytest.raises(ValueError, match="line 1: not UTF-8 text"):
        Scores.read(tmp_path / "latin")


def test_ids_left_out_and_ids_of_other_data_are_counted_and_named(tmp_path: Path) -> None:
    others = [json.dumps({"id": f"other-{k}", "scores": [0.5]}) for k in range(7)]
    path = written(tmp_path, GOOD, '{"id": "x", "split": "t", "scores": [1, 1]}', *others)
    said = run(by_steps(), Scores.read(path)).to_dict()
    assert (said["used"], said["left_out"], said["left_out_ids"]) == (1, 2, ["s/y", "s/z"])
    assert (said["unknown"], said["unknown_ids"]) == (8, ["t/x", "other-0", "other-1", "other-2", "other-3"])


def test_a_judge_leaves_nothing_out() -> None:
    said = run(by_steps(), always_right()).to_dict()
    assert (said["left_out"], said["left_out_ids"], said["unknown"], said["unknown_ids"]) == (0, [], 0, [])


def test_values_of_whole_responses_need_no_step_scores(tmp_path: Path) -> None:
    values = {"a0": 0.9, "a1": 0.1, "b0": 0.2, "b1": 0.3, "c0": 5, "c1": -5}
    path = written(tmp_path, *(json.dumps({"id": name, "value": value}) for name, value in values.items()))
    report = run(by_pairs(), Scores.read(path))
    assert report.value("p", "accuracy") == pytest.approx(2 / 3)
    both = written(tmp_path, *(json.dumps({"id": n, "scores": [0, 1], "value": v}) for n, v in values.items()))
    assert run(by_pairs(), Scores.read(both)).splits == report.splits


def test_a_row_counts_groups_where_responses_are_compared_in_groups() -> None:
    report = run(by_pairs(), Oracle(by_pairs().cases))
    assert [(row.name, row.n, report.used) for row in report.splits] == [("p", 3, 6)]
    assert run(by_steps(), always_right()).splits[0].n == 3


def test_a_group_that_is_not_scored_whole_is_left_out_whole(tmp_path: Path) -> None:
    path = written(tmp_path, *(json.dumps({"id": n, "value": v}) for n, v in (("a0", 1), ("a1", 0), ("b0", 1))))
    report = run(by_pairs(), Scores.read(path))
    assert (report.used, report.left_out, report.value("p", "accuracy")) == (2, 4, 1.0)
    assert report.notes == ("1 scored responses are left out: others of their group have no scores",)
    with pytest.raises(ValueError, match="no group of pairs has scores for all of its responses"):
        run(by_pairs(), Scores("half", {}, {(None, "a0"): 1.0}))


def test_step_benchmarks_refuse_scores_without_a_single_step() -> None:
    with pytest.raises(ValueError, match="no score of a single step, and steps-here measures steps"):
        run(by_steps(), Scores("whole", {}, {(None, "x"): 1.0}))


class Shy:
    """A judge with a threshold of its own: it values right steps at 0.3 and wrong ones at 0.1."""

    name = "shy"
    traits = Traits(threshold=0.2)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (0.1, 0.3) if t.id == "z" else (0.3, 0.1 if t.id == "x" else 0.3), "shy")
                for t in trajectories]  # fmt: skip


def test_the_threshold_is_the_judges_own_then_the_benchmarks_and_own_must_exist() -> None:
    own = run(by_steps(), Shy())
    assert (own.threshold, own.threshold_policy, own.value("s", "f1")) == (0.2, "the judge's own", 1.0)
    assert run(by_steps(), Shy(), "own") == own
    fixed = run(by_steps(), Shy(), 0.5)
    assert (fixed.threshold, fixed.threshold_policy, fixed.value("s", "f1")) == (0.5, "fixed", 0.0)
    right = run(by_steps(), always_right())
    assert (right.threshold, right.threshold_policy) == (0.5, "the benchmark's own")
    with pytest.raises(ValueError, match="always-right declares no threshold of its own"):
        run(by_steps(), always_right(), "own")


def test_the_oracle_says_what_is_known_and_nothing_of_other_traces() -> None:
    oracle = Oracle(first_error_cases())
    said = oracle.judge([case.trajectory for case in first_error_cases()][::-1])
    assert [judgement.values for judgement in said] == [(0.0, None), (1.0, 1.0), (1.0, 0.0)]
    assert run(by_steps(), oracle).value("s", "f1") == 1.0
    assert run(by_pairs(), Oracle(by_pairs().cases)).value("p", "accuracy") == 1.0
    assert oracle.name.startswith("oracle@") and oracle.name != Oracle(first_error_cases()[:2]).name
    with pytest.raises(ValueError, match="'x' is no case of the benchmark"):
        oracle.judge([trace("x", n_steps=3)])


def test_the_figures_of_all_resamples_are_kept_beside_the_report() -> None:
    found = measured(by_steps(), always_right(), resamples=10)
    assert found.figures["s"]["acc_cor"].shape == (11,)
    assert found.figures["s"]["acc_cor"][0] == found.report.value("s", "acc_cor") == 1.0
    assert (
        [case.trajectory.id for case in found.cases] == [j.trajectory_id for j in found.judgements] == ["x", "y", "z"]
    )


def test_what_score_writes_is_a_file_of_scores(tmp_path: Path) -> None:
    judgement = {"values": [0.9, None], "judge": "j"}
    rows = [
        {"id": "x", "problem": {"id": "p", "prompt": "?"}, "steps": ["a", "b"], "judgement": judgement},
        {"id": "y", "problem": {"id": "p", "prompt": "?"}, "steps": ["a"], "judgement": {**judgement, "value": 0.2}},
    ]
    path = tmp_path / "scored.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    scores = Scores.read(path)
    assert scores.judgement("s", trace("x")).values == (0.9, None)
    assert scores.judgement("s", trace("y")).value == 0.2


def test_a_row_without_scores_is_told_what_it_has() -> None:
    with pytest.raises(ValueError, match=r"field scores: a list .* not a row without it, which has id, points"):
        Scores.from_rows("mine.jsonl", [(1, {"id": "x", "points": [1]})])
