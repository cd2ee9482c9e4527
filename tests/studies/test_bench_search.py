"""Search costs: what judging costs, the frontier, advice by rule, resuming, and the page of the docs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from footfall.cli import main
from footfall.metrics.intervals import wilson
from footfall.policy.protocol import SamplingParams
from footfall.recipes import early_rejection
from footfall.registry import StudyRow, create, declared, parts
from footfall.search import BestOf, Searcher
from footfall.simulate import Priced, Reader, tokens_of_text
from footfall.store import Run
from footfall.studies import search_judges
from footfall.studies.frontier import cheapest_as_good, frontier
from footfall.studies.search import (
    SINGLE,
    Plan,
    Point,
    SearchCosts,
    SearchSite,
    World,
    chosen,
    make_method,
    search_rows,
)
from footfall.studies.search_judges import NOISE, WAYS, Finished, PrmSetting, exact, noisy, solution_auc, step_auc
from footfall.studies.search_report import LEVELS, SEARCH, advice, chart, pick_rows, prm_rows
from footfall.types import Judgement, Problem, Step, Trajectory
from footfall.worlds import (
    ArithmeticPolicy,
    ArithmeticWorld,
    ExactValueJudge,
    LogicPolicy,
    LogicWorld,
    TruthJudge,
)
from footfall.worlds.judges import ExactFragmentJudge
from scripts import write_tables

ROOT = Path(__file__).resolve().parents[2]
SMALL = Plan(
    worlds=("arithmetic",), judges=("exact", "noisy"), methods=("majority", "best-of-n", "beam-search"), seeds=2, problems=4,
    most=4,
)  # fmt: skip


def trace(*steps: str) -> Trajectory:
    return Trajectory("t", Problem("p", "one two three"), tuple(map(Step, steps)))


class Said:
    """A judge of given values, that notes which texts it was asked about and in which batches."""

    name = "said"

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.batches.append([t.text.replace("\n", "") for t in trajectories])
        return [Judgement(t.id, tuple((k + 1) / 10 for k in range(len(t.steps))), self.name) for t in trajectories]


def priced(reread: bool = False) -> Priced:
    return Priced("j", Reader(Said(), Said()), {}, reread)


def read(judge: Priced, trajectory: Trajectory) -> int:
    return judge.judge([trajectory])[0].cost.scored_tokens


def test_a_judge_reads_a_problem_once_and_every_new_step_once() -> None:
    judge = priced()
    costs = [read(judge, t) for t in (trace("a b"), trace("a b", "c"), trace("a b", "d"))]
    assert costs == [4 + 3, 2, 2], "a word a token, one for the end"
    assert read(judge, trace("a b", "c")) == 0, "all of it was read"
    judge.forget()
    assert read(judge, trace("a b", "c")) == 9
    again = priced(reread=True)
    assert [read(again, trace("a b", "c")) for _ in range(2)] == [9, 9]


def test_a_beginning_is_read_without_an_end_and_only_the_rest_of_its_step_later() -> None:
    judge = priced()
    assert judge.judge_partial([trace("a", "b c")])[0].cost.scored_tokens == 4 + 2 + 2
    assert judge.judge_partial([trace("a", "b c")])[0].cost.scored_tokens == 0
    assert read(judge, trace("a", "b c d e")) == 2 + 1, "two words and the end"
    assert read(judge, trace("a", "b cd")) == 3, "begins with other words"
    again = priced(reread=True)
    assert [again.judge_partial([trace("a", "b c")])[0].cost.scored_tokens, read(again, trace("a", "b c d"))] == [8, 10]


def test_what_is_said_of_a_text_is_asked_once_in_one_batch_for_all_that_share_a_memory() -> None:
    said = Said()
    memory: dict[str, float | None] = {}
    for _ in range(2):
        found = Priced("j", Reader(said, said), memory).judge(
            [trace("a"), trace("a", "b"), trace("a", "c"), trace("a", "b")]
        )
        assert [j.values for j in found] == [(0.1,), (0.1, 0.2), (0.1, 0.2), (0.1, 0.2)]
    assert said.batches == [["ab", "ac"]], "one that another begins with is read with it"


def test_judges_are_as_good_as_they_should_be() -> None:
    world, policy = ArithmeticWorld(), ArithmeticPolicy()
    traces = [t for _, t in world.traces(policy, 150, seed=1)]
    for t, said in zip(traces[:5], Priced("e", exact(policy, 0), {}).judge(traces[:5]), strict=True):
        assert said.values == tuple(policy.value(t.prefix(k + 1)) for k in range(len(t.steps)))
    flipped = [v for j in Priced("n", noisy(world, policy, 3), {}).judge(traces) for v in j.values]
    truth = [v for j in TruthJudge(world).judge(traces) for v in j.values]
    wrong = sum(a != b for a, b in zip(flipped, truth, strict=True)) / len(truth)
    assert wrong == pytest.approx(NOISE, abs=4 * (NOISE * (1 - NOISE) / len(truth)) ** 0.5)


def test_a_beginning_is_worth_what_its_ends_are() -> None:
    policy = LogicPolicy()
    [(_, whole)] = LogicWorld().traces(policy, 1, seed=4)
    before, step = whole.prefix(1), whole.steps[1].text
    cuts = [before.extend([Step(" ".join(step.split(" ")[:k]))]) for k in range(2, step.count(" "))]
    near = Finished(ExactValueJudge(policy), policy, 0).judge(cuts)
    known = ExactFragmentJudge(policy).judge_partial(cuts)
    assert [j.values[:-1] for j in near] == [j.values[:-1] for j in known]
    for a, b in zip(near, known, strict=True):
        assert a.values[-1] == pytest.approx(b.values[-1], abs=4 * 0.5 / WAYS**0.5)


def test_how_good_a_judge_is_is_told_from_steps_up_to_the_first_error() -> None:
    world = ArithmeticWorld()
    traces = [t for _, t in world.traces(ArithmeticPolicy(), 60, seed=2)]
    truth = TruthJudge(world).judge(traces)
    assert step_auc(world, traces, truth) == 1.0 and solution_auc(traces, truth) == pytest.approx(1.0, abs=0.1)
    turned = [replace(j, values=tuple(1 - v for v in j.values if v is not None)) for j in truth]
    assert step_auc(world, traces, turned) == 0.0
    firsts = [world.first_error(t) if (world.first_error(t) or 0) >= 0 else len(t.steps) for t in traces]
    late = [
        replace(j, values=(*j.values[: f + 1], *[2.0] * len(j.values[f + 1 :])))
        for f, j in zip(firsts, truth, strict=True)
    ]
    assert step_auc(world, traces, late) == 1.0, "what comes after the first error does not count"
    right = [t for t in traces if t.correct]
    assert solution_auc(right, TruthJudge(world).judge(right)) is None, "nothing to tell apart"


def test_a_prm_is_trained_on_problems_that_are_not_measured() -> None:
    for name in ("arithmetic", "logic", "algebra", "code"):
        world = create("world", name)
        site = PrmSetting(world, create("policy", f"scripted-{name}"), 0)
        texts = [{problem.text for problem in site.problems(20, split)} for split in ("train", "test")]
        measured = {problem.text for problem in world.problems(20, 0, split="test")}
        assert not texts[0] & measured and not texts[0] & texts[1] and len(texts[1] & measured) < 10, name


def point(name: str, tokens: float, right: str, judged: bool = True) -> Point:
    return Point("w", "exact", name, judged, "n", 4, tuple(map(int, right)), 1.0, tokens, 0.0)


def test_the_frontier_and_the_choice_by_rule() -> None:
    points = [
        point(SINGLE, 10, "1000000000", judged=False), point("majority", 40, "1110000000", judged=False),
        point("poor", 50, "1100000000"), point("noisy", 60, "1101111111"), point("best", 90, "1111111111"),
    ]  # fmt: skip
    assert [p.method for p in frontier(points) if p.frontier] == [SINGLE, "majority", "noisy", "best"]
    choice = cheapest_as_good(points, 100)
    assert choice is not None and (choice.point.method, choice.best.method) == ("noisy", "best")
    assert cheapest_as_good(points, 5) is None
    worlds = {"w/exact": World("scripted", 0.5, 10.0)}
    costs = SearchCosts(replace(SMALL, judges=("exact",)), worlds, points, {}, {})
    assert [(one.level, one.point.method) for one in costs.picks(LEVELS)] == [
        ("low", "noisy"), ("middle", "noisy"), ("high", "noisy"),
    ]  # fmt: skip
    said = advice(costs)
    assert (
        "With the exact judge take `noisy`, whatever the budget. The choices are right on 90% (one sample: 50%)" in said
    )
    assert "for 6 times its tokens. The judge clearly helps on w." in said and "\n" not in said
    noisy_at = "noisy, n 4: 90% [60, 98] for 60 tokens"
    assert pick_rows(costs) == [
        ["w", "exact", "low", noisy_at, "the same", "clearly"],
        ["w", "exact", "middle, high", noisy_at, "best, n 4: 100% [72, 100] for 90 tokens", "clearly"],
    ]
    assert "Each point has 8 problems (4 of each of 2 seeds); its 95% interval is" in SEARCH.blocks[
        "search-costs-picks"
    ](costs)


TEN, FIVE, NONE = "1" * 10, "10" * 5, "0" * 10


def found_with(judge: str, worlds: dict[str, list[Point]], aucs: dict[str, float] | None = None) -> SearchCosts:
    """One sample, for 10 tokens, is right half of the time everywhere; and what else there is in each world."""
    points = [
        replace(p, world=world, judge=judge)
        for world, others in worlds.items()
        for p in [point(SINGLE, 10, FIVE, judged=False), *others]
    ]
    prms = {
        world: [{"training_traces": 9, "step_auc": auc, "solution_auc": auc}] for world, auc in (aucs or {}).items()
    }
    known = {f"{world}/{judge}": World("scripted", 0.5, 10.0) for world in worlds}
    return SearchCosts(replace(SMALL, judges=(judge,)), known, points, prms, {})


def test_the_advice_says_otherwise_where_the_figures_say_otherwise() -> None:
    beam, vote = point("beam", 60, TEN), point("vote", 60, TEN, judged=False)
    steered = advice(found_with("noisy", {"a": [beam], "b": [beam]}))
    assert "With the noisy judge take `beam`, whatever the budget. The choices are right on 100%" in steered
    assert "The judge clearly helps on a and b." in steered
    voted = advice(found_with("noisy", {"a": [vote, point("beam", 90, TEN)], "b": [vote]}))
    assert "take `vote`, whatever the budget" in voted and "The judge clearly helps nowhere: leave it out." in voted
    mixed = advice(found_with("noisy", {"a": [beam], "b": [vote]}))
    assert "no one method leads everywhere: take `beam` on a and `vote` on b, whatever the budget." in mixed
    assert "helps on a, not on b." in mixed
    late = advice(found_with("noisy", {"a": [point("beam", 300, TEN)]}))
    assert (
        f"take at a low budget `{SINGLE}`; at a middle or high one `beam`." in late and "on a (middle, high)." in late
    )
    useless = advice(found_with("noisy", {"a": [point("beam", 60, NONE)]}))
    assert f"take `{SINGLE}`, whatever the budget" in useless and "leave it out" in useless


def test_a_judge_that_the_choices_ask_is_not_told_to_be_left_out() -> None:
    # The beam is as good as the vote for fewer tokens, so it is taken; but the judge makes nothing clearly better.
    beam, vote = point("beam", 60, "1" * 9 + "0"), point("vote", 70, "1" * 9 + "0", judged=False)
    said = advice(found_with("noisy", {"a": [beam, vote]}))
    assert "take `beam`, whatever the budget" in said
    assert said.endswith("The judge clearly helps nowhere, though `beam` among the choices asks it.")


def test_worlds_whose_prm_is_near_chance_are_summed_up_alone() -> None:
    beam, vote = point("beam", 60, TEN), point("vote", 60, TEN, judged=False)
    worlds = {"a": [beam], "b": [vote, point("beam", 60, NONE)], "c": [vote]}
    costs = found_with("prm", worlds, {"a": 0.9, "b": 0.5, "c": 0.69})
    said = advice(costs)
    assert "With a PRM that tells steps apart (AUC 0.90: a) take `beam`" in said
    assert "With a PRM that hardly tells steps apart (AUC 0.50–0.69: b and c) take `vote`" in said
    assert said.endswith("The judge clearly helps nowhere: leave it out.")
    assert [row[1] for row in pick_rows(costs)] == ["prm, AUC 0.90", "prm, AUC 0.50", "prm, AUC 0.69"]
    assert [row[-1] for row in prm_rows(costs)] == ["yes", "hardly", "hardly"]
    better = advice(found_with("prm", worlds, {"a": 0.9, "b": 0.8, "c": 0.7}))
    assert "hardly" not in better and "take `beam` on a and `vote` on b and c, whatever the budget" in better
    assert "(AUC unknown: a)" in advice(found_with("prm", {"a": [beam]})), "what is not known to be good is not"


def test_the_interval_of_a_point_has_a_width_where_no_problem_was_missed() -> None:
    assert point("m", 1, "1" * 80).accuracy == wilson(80, 80) and wilson(80, 80).low < 0.96
    assert point("m", 1, "0" * 80).accuracy.high > 0.04 and point("m", 1, "1").accuracy.low > 0


def test_the_interval_covers_the_draw_of_prms_where_each_seed_has_its_own() -> None:
    """Three seeds with a good PRM and one with a poor one: t(3) · s / √4 = 3.182 · 0.5 / 2 = 0.796 around 0.75."""
    pooled = replace(point("m", 1, "1" * 30 + "0" * 10), seeds=4)
    assert pooled.accuracy == wilson(30, 40)
    assert replace(pooled, judge="prm", judged=False).accuracy == wilson(30, 40), "it asked no PRM"
    drawn = replace(pooled, judge="prm").accuracy
    assert (drawn.value, drawn.high) == (0.75, 1.0) and drawn.low == 0.0
    even = replace(point("m", 1, "1110" * 10), seeds=5, judge="prm")
    assert even.accuracy == wilson(30, 40), "seeds that agree make it no narrower"


def test_ties_share_a_row_of_the_frontier_and_every_point_has_a_row_below() -> None:
    points = [
        point("a", 10, "1100"),
        point("b", 10, "1100"),
        replace(point("a", 10, "1100"), budget=8),
        point("c", 20, "1000"),
    ]
    found = SearchCosts(SMALL, {"w/exact": World("scripted", 0.5, 10.0)}, frontier(points), {}, {})
    _, _, *body = SEARCH.blocks["search-costs-frontier"](found).splitlines()
    assert [row.split(" | ")[2:4] for row in body] == [["`a` and `b`, with n 8", "n 4"]]
    table = SEARCH.blocks["search-costs-all"](found)
    assert "<summary>w, exact judge: 3 methods, 4 points</summary>" in table
    assert [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")] == [
        "| `a` \\*", "| `b` \\*", "| `a` \\*", "| `c`",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> SearchCosts:
    with Run(tmp_path_factory.mktemp("search"), "bench-search", {}) as run:
        return SEARCH.run(SMALL, run)


def test_tokens_are_those_of_policy_and_judge_and_the_same_samples_cost_the_same(costs: SearchCosts) -> None:
    four = {p.method: p for p in costs.of("arithmetic", "exact") if p.budget == 4}
    best, majority = four["best-of-n"], four["majority"]
    assert best.policy_tokens == majority.policy_tokens and len(best.right) == 8
    assert majority.judge_tokens == 0 and not majority.judged
    assert best.tokens == best.policy_tokens + best.judge_tokens
    problems = [ArithmeticWorld().problems(4, seed, split="test") for seed in range(2)]
    read = 0
    for seed, some in enumerate(problems):
        params = SamplingParams(seed=seed, max_tokens=256)
        searcher = Searcher(ArithmeticPolicy(), None, BestOf(4, "majority"), params=params, separator="\n")
        for result in searcher.solve(some):
            seen = {t.prefix(k + 1).text: t.steps[k].text for t, _ in result.candidates for k in range(len(t.steps))}
            read += tokens_of_text(result.problem.text) + sum(map(tokens_of_text, seen.values()))
    assert best.judge_tokens == pytest.approx(read / 8)


def test_a_method_without_a_judge_is_measured_once_for_all_judges(costs: SearchCosts) -> None:
    by_judge = [[p for p in costs.of("arithmetic", judge) if p.method == "majority"] for judge in ("exact", "noisy")]
    assert [replace(p, judge="", frontier=False) for p in by_judge[0]] == [
        replace(p, judge="", frontier=False) for p in by_judge[1]
    ]


def test_a_report_comes_back_from_json_and_gives_the_same_page(costs: SearchCosts) -> None:
    written = json.loads(json.dumps(costs.to_dict(), allow_nan=False))
    again = SearchCosts.from_dict(written)
    assert json.loads(json.dumps(again.to_dict())) == written
    ElementTree.fromstring(chart(again, "arithmetic", "exact"))
    assert "beam-search" in SEARCH.page(again) and len(SEARCH.rows(again.points)) == len(again.points)
    assert f"{', '.join(map(str, [*LEVELS.values()][:-1]))} or {LEVELS['high']} times one sample's tokens" in advice(
        again
    )


@pytest.mark.long
def test_a_run_goes_on_where_it_stopped_and_other_processes_give_the_same(tmp_path: Path, costs: SearchCosts) -> None:
    folder = tmp_path / "run"
    with Run(folder, "bench-search", {}) as run:
        assert SEARCH.run(SMALL, run, workers=2).to_dict() == costs.to_dict()
    units = sorted((folder / "units").rglob("*.json"))
    kept = {unit: unit.stat().st_mtime_ns for unit in units[1:]}
    units[0].unlink()
    with Run(folder, "bench-search", {}) as run:
        assert SEARCH.run(SMALL, run).to_dict() == costs.to_dict()
    assert units[0].exists() and kept == {unit: unit.stat().st_mtime_ns for unit in units[1:]}


@pytest.mark.long
def test_the_trained_judge_is_the_same_after_a_stop_and_its_quality_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_judges, "HELD_OUT", 20)
    plan = replace(SMALL, judges=("prm",), methods=("best-of-n", "early-rejection"), seeds=1, problems=2, prm_traces=4)
    with Run(tmp_path, "bench-search", {}) as run:
        before = SEARCH.run(plan, run)
    [told] = before.prms["arithmetic"]
    assert 0 < told["step_auc"] < 1 and told["training_traces"] == 4 and "AUC of steps" in SEARCH.page(before)
    weights = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model/*")}
    for path in [*tmp_path.rglob("quality.json"), *tmp_path.rglob("*early-rejection*.json")]:
        path.unlink()
    with Run(tmp_path, "bench-search", {}) as run:
        assert SEARCH.run(plan, run).to_dict() == before.to_dict()
    assert weights and weights == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model/*")}, "trained once"
    assert {p.method for p in before.of("arithmetic", "prm") if p.judged} == {"best-of-n", "early-rejection"}


@pytest.mark.long
def test_the_command_writes_report_page_and_charts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs, out = tmp_path / "docs", tmp_path / "run"
    docs.mkdir()
    options = ["worlds=code", "judges=exact", "methods=best-of-n", "seeds=1", "problems=2", "most=4"]
    words = ["bench", "search", "--option", *options, "workers=1"]
    assert main([*words, f"docs={docs}", "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "report.json").read_text())
    assert printed == json.loads((docs / "search_costs.json").read_text())
    name = "search_costs-code-exact.svg"
    assert (out / name).read_bytes() == (docs / name).read_bytes()
    assert "<svg" in (out / "report.html").read_text()
    assert main([*words, "--out", str(out)]) == 0, "docs= and workers= do not make another run"
    assert "frontier" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--option", "methods=beem"], "no search method is called 'beem'"),
        (["--option", "worlds=geometry"], "no world is called"),
        (["--option", "judges=oracle"], "no judge is called 'oracle'"),
        (["--option", "prm_traces=0"], "want a world, a judge"),
        (["--option", "colour=red"], "takes no option 'colour'"),
        (["--data", "x"], "takes no --data"),
    ],
)
def test_what_the_command_cannot_do_is_said(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "search", *words, "--out", str(tmp_path / "run")]) == 2
    assert reason in capsys.readouterr().err


def test_every_registered_searcher_has_a_row_or_a_reason() -> None:
    assert search_rows().unmeasured.keys() == {"glore"}
    assert {row.method for row in search_rows().known.values()} == set(parts("searcher")) - {"glore"}


@pytest.mark.parametrize("row", chosen(None), ids=lambda row: row.name)
def test_every_row_makes_its_method_at_each_place_and_it_searches(row: StudyRow) -> None:
    assert row.name in {own.name or row.method for own in declared("searcher", row.method).study}
    for budget in row.budgets:
        assert make_method(row, budget, "mean").name
    for world in ("arithmetic", "code"):
        plan = Plan((world,), problems=2, methods=(row.name,))
        figures = SearchSite(plan, Path(), world, 0).figures(make_method(row, row.budgets[0], "last"), "noisy")
        assert figures["answered"] == [1, 1] and min(figures["policy_tokens"]) > 0
        assert (min(figures["judge_tokens"]) > 0) == figures["judged"]


@pytest.mark.long
def test_the_page_of_the_docs_says_what_the_figures_say() -> None:
    stored = write_tables.search_costs()
    text = (ROOT / "docs" / "search_costs.md").read_text(encoding="utf-8")
    assert write_tables.written(text) == text, "run: python -m scripts.write_tables"
    assert advice(stored) in text and len(advice(stored)) < 1900, "a paragraph that is read"
    kept = (ROOT / "docs" / "search_costs.json").read_text(encoding="utf-8")
    assert kept == json.dumps(stored.to_dict(), indent=2) + "\n", "run: python -m scripts.write_tables"
    drawn = SEARCH.charts(stored)
    assert len(drawn) == 2 * len(stored.settings()), "for a desk and for a phone"
    for file, svg in drawn.items():
        assert (ROOT / "docs" / file).read_text(encoding="utf-8") == svg + "\n", "run: python -m scripts.write_tables"
        assert f'{"srcset" if "narrow" in file else "src"}="{file}"' in text


def test_the_ledger_measures_early_rejection_on_every_world_as_it_loses_most_where_errors_end_a_step() -> None:
    right = {
        (p.world, p.method): p.accuracy.value
        for p in write_tables.search_costs().points
        if p.judge == "exact" and (p.dial, p.budget) == ("n", 4)
    }
    worlds = {world for world, _ in right}
    behind = {w: right[w, "beam-search"] - right[w, "early-rejection"] for w in worlds}
    assert worlds == set(early_rejection.PLACES)
    assert behind["logic"] < 0.1 < min(behind["arithmetic"], behind["code"])
