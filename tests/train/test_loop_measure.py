"""Figures of the loop from scores alone: what is known beforehand comes out, with intervals, and beside the right things."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from footfall.drive.rollouts import RolloutCache
from footfall.formats import write_parquet
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.registry import create
from footfall.types import Cost, Judged, Judgement, Problem, Step, Trajectory
from footfall.worlds import ArithmeticWorld
from scripts import loop_data, loop_measure
from scripts.loop_truth import MixedWithTruth

SPLITS = ("gsm8k", "math", "olympiadbench", "omnimath")


def write_scores(out: Path, name: str, on: str, scores: dict[tuple[str, str], list[float]]) -> None:
    lines = [{"id": id, "split": split, "scores": values} for (split, id), values in scores.items()]
    (out / f"scores-{name}-{on}.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Forty cases a split, half of them with a long, wrong second step; and a PRM `p` whose threshold is 0.3."""
    data = tmp_path / "processbench"
    data.mkdir()
    for split in SPLITS:
        cases = [
            {"id": f"{split}-{k}", "problem": f"What is {k} and {k}?", "steps": ["a" * 40, "b" * (80 if k % 2 else 40), "c"],
             "label": 1 if k % 2 else -1, "generator": "g", "final_answer_correct": not k % 2} for k in range(40)
        ]  # fmt: skip
        (data / f"{split}.json.gz").write_bytes(gzip.compress(json.dumps(cases).encode()))
    (tmp_path / "prm-p").mkdir()
    counts = {"traces": 3, "steps": 9, "below one half": 2, "generated tokens": 1234}
    facts = {
        "validation": {"threshold": 0.3}, "thresholds of sanity judges": {"length": 0.4}, "labels": {"monte-carlo": counts},
        "config": {"seed": 0},
    }  # fmt: skip
    (tmp_path / "prm-p" / "facts.json").write_text(json.dumps(facts))
    return tmp_path


def test_steps_are_measured_at_the_chosen_threshold_beside_length_and_published_figures(out: Path) -> None:
    # Right on gsm8k and math; on the others every wrong step is missed at 0.3, and found at 0.5.
    values = {"gsm8k": 0.1, "math": 0.1, "olympiadbench": 0.4, "omnimath": 0.4}
    scores = {
        (split, f"{split}-{k}"): [0.9, values[split] if k % 2 else 0.9, 0.8] for split in SPLITS for k in range(40)
    }
    write_scores(out, "p", "processbench", scores)
    found = loop_measure.evaluate(out, out, seed=0)
    figures: Any = found["p"]["processbench"]
    assert figures["cases"] == 160 and figures["threshold"] == 0.3 and figures["length threshold"] == 0.4
    assert figures["PRM"]["math"]["f1"] == [100.0, 100.0, 100.0] and figures["PRM"]["omnimath"]["f1"][0] == 0.0
    assert figures["PRM"]["omnimath"]["acc_cor"][0] == 100.0
    assert figures["PRM"]["mean"]["f1"][0] == 50.0 and figures["PRM at 0.5"]["mean"]["f1"][0] == 100.0
    length, difference = figures["length only"]["mean"]["f1"], figures["PRM − length only, mean f1"]
    assert difference[0] == pytest.approx(50 - length[0])
    assert (
        figures["published"]["Skywork-1.5B"]["mean"] == 36.4
        and figures["published"]["Math-Shepherd-7B"]["mean"] == 31.5
    )
    table = loop_measure.tables(found)
    assert (
        "| p | 100.0 [100.0, 100.0] | 100.0 [100.0, 100.0] | 0.0 [0.0, 0.0] | 0.0 [0.0, 0.0] | 50.0 [50.0, 50.0] |"
        in table
    )
    assert "| Qwen2.5-Math-PRM-7B (published) | 82.4 | 77.6 | 67.5 | 66.3 | 73.5 |" in table
    assert "| p | monte-carlo | 3 | 9 | 1,234 | 50.0 [50.0, 50.0] |" in table


def test_votes_are_held_against_the_majority_over_the_same_subsets(out: Path) -> None:
    """Of four solutions one is right and two agree on another answer: voting is wrong, the scores know better.

    The fourth has no answer. It is scored highest, but who asks for an answer would not be given it.
    """
    traces = [
        Trajectory(f"{p}-{k}", Problem(f"p{p}", f"{p}?", "7"), (Step("a"), Step("b")), answer, answer == "7")
        for p in range(30) for k, answer in enumerate(["7", "3", "3", None])
    ]  # fmt: skip
    write_parquet(out / "sample-math-500.parquet", traces, "trajectory")
    scores = {("math-500", t.id): [1.0, 1.0] if t.answer is None else [0.9, 0.9 if t.correct else 0.2] for t in traces}
    write_scores(out, "p", "math-500", scores)
    found: Any = loop_measure.evaluate(out, out, seed=0)["p"]["math-500"]
    assert (found["problems"], found["n"]) == (30, [1, 2, 4])
    accuracy, beside = found["accuracy"], found["− majority"]
    assert accuracy["majority"]["4"] == [0.0, 0.0, 0.0] and accuracy["any right"]["2"][0] == 50.0
    assert accuracy["best of N, last"]["4"][0] == accuracy["weighted vote, min"]["4"][0] == 100.0
    assert beside["weighted vote, last"]["4"] == [100.0, 100.0, 100.0]
    assert accuracy["best of N, min"]["1"][0] == accuracy["majority"]["1"][0] == 25.0, "one sample: nobody has a choice"
    thin = loop_data.thinned(traces)
    assert not any(trace.steps or trace.problem.text for trace in thin)
    write_parquet(out / "sample-math-500.parquet", thin, "trajectory")
    assert loop_measure.evaluate(out, out, seed=0)["p"]["math-500"]["accuracy"] == accuracy, "texts are not needed"
    known = {row["truth"]: row for row in found["mixed with the truth, N = 4"]["last"]}
    assert known[0.0]["AUC"] == known[1.0]["AUC"] == 1.0 and known[1.0]["best of N"][0] == 100.0


def test_prms_with_scores_of_fewer_samples_stand_in_the_table_of_those_with_more(out: Path) -> None:
    traces = [
        Trajectory(f"{p}-{k}", Problem(f"p{p}", f"{p}?", "7"), (Step("a"),), answer, answer == "7")
        for p in range(30) for k, answer in enumerate(["7", "3", "7", "3"])
    ]  # fmt: skip
    write_parquet(out / "sample-math-500.parquet", traces, "trajectory")
    (out / "prm-more").mkdir()
    (out / "prm-more" / "facts.json").write_bytes((out / "prm-p" / "facts.json").read_bytes())
    for name, known in (("p", traces[::2]), ("more", traces)):
        write_scores(out, name, "math-500", {("math-500", t.id): [0.9 if t.correct else 0.2] for t in known})
    lines = loop_measure.tables(loop_measure.evaluate(out, out, seed=0)).splitlines()
    assert "| accuracy in percent | N = 1 | N = 2 | N = 4 |" in lines
    right, half, most = "100.0 [100.0, 100.0]", "50.0 [50.0, 50.0]", "83.3 [83.3, 83.3]"
    assert f"| any right, 30 problems, 4 samples of each | {half} | {most} | {right} |" in lines
    assert f"| more: best of N, last | {half} | {most} | {right} |" in lines
    own = f"| majority, 30 problems, 2 samples of each | {right} | {right} |  |"
    assert own in lines, "the leads of a PRM are over the majority of its own candidates"
    assert lines.index(own) < lines.index(f"| p: best of N, last | {right} | {right} |  |"), "which are all right"


def test_equal_answers_of_many_problems_are_found_by_several_processes() -> None:
    pools = [
        [Trajectory(f"{p}-{k}", Problem(f"p{p}", "?"), (), answer) for k, answer in enumerate(["0.5", None, str(p), "1/2"])]
        for p in range(2, loop_data.MANY + 2)
    ]  # fmt: skip
    assert loop_data.equal_answers(pools) == [[0, None, 2, 0]] * len(pools)


def test_a_search_stands_beside_votes_that_its_tokens_would_have_paid_for(out: Path) -> None:
    """Of four samples of ten tokens each one is right; two agree on another answer in the first half of the problems only."""
    problems = [Problem(f"p{p}", f"{p}?", "7") for p in range(20)]
    (out / "problems").mkdir()
    lines = [json.dumps({"id": problem.id, "problem": "?"}) for problem in problems]
    (out / "problems" / "math-500.jsonl").write_text("\n".join(lines))
    traces = [
        Trajectory(f"{problem.id}-{k}", problem, (Step("a"),), answer, answer == "7", cost=Cost(generated_tokens=10))
        for p, problem in enumerate(problems) for k, answer in enumerate(["7", "3", "3" if p < 10 else "7", "4"])
    ]  # fmt: skip
    write_parquet(out / "sample-math-500.parquet", traces[::-1], "trajectory")
    searched = {
        "beam-search 4, 20 problems, truth 0.5": {"right": "1" * 20, "generated": 39.0, "AUC": 0.8},
        "mcts 4, 20 problems": {"right": "0" * 20, "generated": 400.0},
    }  # fmt: skip
    for called, facts in searched.items():
        (out / f"search-p-math-500-{called.split()[0]}.json").write_text(json.dumps({called: facts}))
    found = loop_measure.evaluate(out, out, seed=0)
    beam, mcts = found["p"]["search, math-500"]
    assert beam["samples for its tokens"] == 4 and beam["AUC"] == 0.8 and beam["accuracy"][0] == 100.0
    assert beam["− majority"][0] == 50.0, "the vote among four is wrong on the first ten problems"
    assert "− majority" not in mcts, "the pool has no forty samples"
    assert "| mcts 4, 20 problems |  | 0.0 [0.0, 0.0] | 400 |  |  |  |" in loop_measure.tables(found)


def test_the_truth_is_mixed_into_a_judge_that_is_always_wrong(out: Path) -> None:
    values, right = [[0.1, 0.6, None]], [[True, False, False]]
    assert loop_measure.outcome_auc(values, right) == 0.0
    mixed = loop_measure.mix(values[0], right[0], 0.5)
    assert mixed == [pytest.approx(0.55), pytest.approx(0.3), None]
    assert loop_measure.outcome_auc([mixed], right) == 1.0


def test_the_consensus_of_stored_labels_keeps_traces_on_whose_first_error_both_agree() -> None:
    traces = [Trajectory(f"t{k}", Problem("p", "?"), (Step("a"), Step("b"), Step("c"))) for k in range(3)]

    def said(by: str, tokens: int, *values: tuple[float, ...]) -> list[Judged]:
        judged = [Judgement(f"t{k}", row, by, cost=Cost(generated_tokens=tokens)) for k, row in enumerate(values)]
        return list(map(Judged, traces, judged))

    labels = {
        "monte-carlo": said("mc", 100, (0.5, 0.125, 0.25), (0.25, 0.0, 0.5), (0.5, 0.0, 0.0)),
        "critic": said("critic", 7, (1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0))[:],
    }
    rows = [row.judgement for row in loop_data.consensus_rows(labels)]
    assert [j.values for j in rows if j] == [(1.0, 1.0, 1.0), (1.0, 0.0, None), (None, None, None)]
    assert [j.cost.generated_tokens for j in rows if j] == [107] * 3
    assert loop_data.consensus_rows({"critic": labels["critic"]}) == labels["critic"]


def test_a_judge_that_knows_nothing_gets_as_good_as_the_truth_that_is_mixed_into_it() -> None:
    world, policy = ArithmeticWorld(), create("policy", "scripted-arithmetic")
    prefixes = [world.prefix(problem) for problem in world.problems(24)]
    traces = [trace for row in draw_traces(policy, prefixes, 4, SamplingParams(seed=3)) for trace in row]
    cache, blind = RolloutCache(policy, SamplingParams(seed=9)), create("labeller", "random")
    quality = []
    for share in (0.0, 0.3, 1.0):
        judge = MixedWithTruth(blind, cache, share, rollouts=8)
        said = judge.judge(traces)
        for mixed, own, trace in zip(said, blind.judge(traces), traces, strict=True):
            wanted = (1 - share) * own.values[-1] + share * bool(trace.correct)
            assert mixed.values[-1] == pytest.approx(wanted), "a finished trace is right or wrong, without a rollout"
        assert said[0].cost == blind.judge(traces)[0].cost, "the truth is no cost of the search"
        quality.append((judge.quality or 0.0, judge.spent.generated_tokens))
    (nothing, one), (some, eight), (all, none) = quality
    assert abs(nothing - 0.5) < 0.15 < 0.3 < all - 0.5 and nothing < some < all
    assert eight > 4 * one > 0 and none == 0, "mixtures share the rollouts"


def test_labels_are_cut_to_a_budget_of_generated_tokens() -> None:
    def row(k: int, tokens: int) -> Judged:
        trace = Trajectory(f"t{k}", Problem("p", "?"), (Step("a"), Step("b")))
        return Judged(trace, Judgement(trace.id, (1.0, 0.25), "mc", cost=Cost(generated_tokens=tokens)))

    rows = [row(0, 100), row(1, 50), row(2, 0), row(3, 70)]
    kept = loop_data.within_budget(rows, 150)
    assert [each.trajectory.id for each in kept] == ["t0", "t1", "t2"]
    assert loop_data.label_counts(kept) == {"traces": 3, "steps": 6, "below one half": 3, "generated tokens": 150}
