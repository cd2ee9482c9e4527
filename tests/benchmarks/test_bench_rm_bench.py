"""RM-Bench and RMB: hand-computed rows, then the real data with judges that know nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from footfall.benchmarks.rewardbench import rm_bench, rmb, style_matrix
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.metrics.cases import LengthJudge, Oracle, RandomJudge, always_right

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "domains" / "reward"


def prompt(name: int, chosen: list[str], rejected: list[str], **more: Any) -> dict[str, Any]:
    return {"id": name, "prompt": "?", "chosen": chosen, "rejected": rejected, **more}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text(json.dumps(list(rows)))
    return path


def test_a_better_dressed_wrong_response_is_the_hard_one() -> None:
    assert style_matrix([5, 5, 5], [1, 1, 1]) == (1, 1, 1, 1)
    assert style_matrix([1, 1, 1], [1, 1, 1]) == (0, 0, 0, 0)
    # By style alone: a right response wins only where it is dressed better.
    assert style_matrix([1, 2, 3], [1, 2, 3]) == pytest.approx((0, 0, 1, 1 / 3))


def test_rm_bench_by_hand(tmp_path: Path) -> None:
    short_to_long = ["a", "aa", "aaa"]
    written(tmp_path / "chat_filtered.json", prompt(8, short_to_long, short_to_long))
    written(tmp_path / "code_filtered.json", prompt(8, ["a"] * 3, ["bb"] * 3))
    written(tmp_path / "total.json", prompt(1, ["a"] * 3, ["a"] * 3, domain="safety-refuse"),
            prompt(2, ["a"] * 3, ["bb"] * 3, domain="safety-response"))  # fmt: skip
    bench = rm_bench(tmp_path)
    report = run(bench, LengthJudge(), resamples=5)
    assert [report.value("chat", name) for name in ("hard", "normal", "easy")] == [1, 0, 0]
    assert report.value("code", "accuracy") == 1
    assert report.value("safety", "accuracy") == 0.5
    assert report.value("mean", "accuracy") == pytest.approx((1 / 3 + 1 + 0.5) / 3)
    assert run(bench, always_right(), resamples=5).value("mean", "accuracy") == 0
    assert run(bench, Oracle(bench.cases), resamples=5).value("mean", "accuracy") == 1
    assert bench.notes == ("domains that are not in the data: math",)


def test_rm_bench_leaves_out_and_counts_a_prompt_without_all_scores(tmp_path: Path) -> None:
    data = written(tmp_path / "chat_filtered.json", prompt(0, ["a"] * 3, ["b"] * 3), prompt(1, ["a"] * 3, ["b"] * 3))
    rows = [{"id": f"chat-{p}#{which}-{i}", "scores": [None if (p, i) == (1, 2) else float(which == "chosen")]}
            for p in (0, 1) for which in ("chosen", "rejected") for i in range(3)]  # fmt: skip
    report = run(rm_bench(data), Scores.from_rows("s", enumerate(rows, start=1)), resamples=5)
    assert (report.value("chat", "hard"), report.value("chat", "unscored")) == (1, 0.5)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (prompt(0, ["a"], ["b"] * 3), 'field "chosen": expected 3 responses'),
        (prompt(0, ["a"] * 3, ["b"] * 3, domain="law"), 'field "domain": expected one of chat'),
    ],
)
def test_a_bad_prompt_is_refused_by_line_and_field(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="line 1, " + message):
        rm_bench(written(tmp_path / "chat_filtered.json", row))


def comparison(kind: str, uid: str, *answers: str) -> dict[str, Any]:
    best, *others = [{"llm_name": "m", "answer": answer} for answer in answers]
    shared = {"conversation_input": [{"role": "user", "content": "?", "language": "English"}]}
    if kind == "pair":
        return {**shared, "pair_uid": uid, "chosen": best, "reject": others[0], "category_path": "Pairwise_set/H/Code"}
    return {**shared, "bon_uid": uid, "bon_best": best, "loser_list": others, "category_path": "BoN_set/H/Code"}


def test_rmb_by_hand(tmp_path: Path) -> None:
    data = written(tmp_path / "all.json", comparison("pair", "1", "a", "bb"), comparison("pair", "2", "aa", "b"),
                   comparison("bon", "1", "a", "bb", "ccc"), comparison("bon", "2", "a", "bb", "c"))  # fmt: skip
    bench = rmb(data)
    report = run(bench, LengthJudge(), resamples=5)
    assert [report.value(name, "accuracy") for name in ("pairwise/H/Code", "pairwise")] == [0.5, 0.5]
    assert report.value("best-of-n", "accuracy") == 0.5
    assert run(bench, always_right(), resamples=5).value("best-of-n", "accuracy") == 0
    assert run(bench, Oracle(bench.cases), resamples=5).value("pairwise", "accuracy") == 1
    with pytest.raises(ValueError, match='field "loser_list": expected at least one response'):
        rmb(written(tmp_path / "bad.json", comparison("bon", "1", "a")))


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason="the reward data is not here")
def test_the_real_data_is_read_and_chance_is_chance() -> None:
    bench = rm_bench(DATA / "rm_bench")
    report = run(bench, RandomJudge(), resamples=20)
    assert [(row.name, row.n) for row in report.splits[:4]] == [
        ("chat", 129), ("code", 228), ("safety-refuse", 284), ("safety-response", 157)]  # fmt: skip
    assert run(bench, always_right(), resamples=5).value("mean", "accuracy") == 0
    # A random judge is no coin: the minimum over more steps is lower, so the plainer response wins more often.
    assert report.value("chat", "hard") > 0.6 > 0.4 > report.value("chat", "easy")
    assert 0.4 < run(rm_bench(DATA / "rm_bench", "last"), RandomJudge(), resamples=5).value("mean", "hard") < 0.6
    pairs = rmb(DATA / "rmb")
    assert len({(case.split, case.group) for case in pairs.cases}) == 1779
    assert 0.3 < run(pairs, RandomJudge(), resamples=5).value("pairwise", "accuracy") < 0.7
