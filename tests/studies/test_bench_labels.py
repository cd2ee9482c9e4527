"""Label costs: figures by hand, what each method pays, the frontier, advice by rule, resuming, and the page of the docs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from footfall.cli import main
from footfall.label.freeprm import OutcomeLabels
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.prompted import Critiqued, asked, cut_after_error, in_turn
from footfall.metrics.intervals import Interval, mean_of_seeds
from footfall.policy.protocol import SamplingParams
from footfall.registry import StudyRow, create
from footfall.simulate import noisy
from footfall.store import Run
from footfall.studies import labels
from footfall.studies.frontier import clearly_better, frontier, picks_of
from footfall.studies.frontier import measured as measured_points
from footfall.studies.label_report import LABELS, LEVELS, advice, better_critics, chart, checkers
from footfall.studies.label_setting import OwnTraces, ReadOnce, Setting, chosen, label_rows, lacks, make_labeller
from footfall.studies.labels import FIGURES, Known, LabelCosts, Plan, Point, World, measure, measure_own, per_1000
from footfall.types import Cost, Judge, Judgement, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge
from footfall.worlds.world import StepTruth
from scripts import write_tables

ROOT = Path(__file__).resolve().parents[2]
SMALL = Plan(
    worlds=("arithmetic",),
    methods=("monte-carlo", "omegaprm", "freeprm", "critic-10", "unprm", "symbolic-mc"),
    seeds=2,
    traces=8,
)

R, W, C = StepTruth.RIGHT, StepTruth.WRONG, StepTruth.CONSEQUENT


class Table:
    """A world that knows what it is told: the classes of each trace, by id."""

    def __init__(self, truths: dict[str, list[StepTruth]]) -> None:
        self.truths = truths

    def check(self, trajectory: Trajectory) -> Sequence[StepTruth]:
        return self.truths[trajectory.id]


class Values:
    """A policy whose value is 0.5 everywhere."""

    name = "half"

    def value(self, prefix: Trajectory) -> float:
        return 0.5


def known(**truths: list[StepTruth]) -> Known:
    traces = [
        Trajectory(n, Problem(n, "?", "1"), tuple(Step(str(k)) for k in range(len(t)))) for n, t in truths.items()
    ]
    setting = Setting("table", Table(truths), ArithmeticPolicy(), SamplingParams(), 30, {})
    return Known(setting, traces, Values())


def method(**given: object) -> StudyRow:
    return StudyRow("m", make=lambda setting, budget: OutcomeLabels(), **given)  # type: ignore[arg-type]


def said(*values: float | None, tokens: int = 0) -> Judgement:
    return Judgement("t", values, "j", cost=Cost(generated_tokens=tokens))


def test_the_figures_of_three_traces_by_hand() -> None:
    here = known(a=[R, W, C], b=[R, R], c=[W, C])
    judgements = [said(0.9, 0.2, 0.9, tokens=100), said(0.4, 0.8, tokens=50), said(None, 0.0)]
    found = measure(here, method(value="values"), judgements)
    assert found["first_error"] == pytest.approx(1 / 3)  # a; b is given an error that is not there, c has no verdict
    assert found["said"] == pytest.approx(2 / 3) and found["first_error_said"] == 0.5
    assert found["coverage"] == pytest.approx(6 / 7)
    assert found["step_accuracy"] == 0.75  # 0.9 and 0.2 of a, 0.8 of b are right, 0.4 is not; consequent steps are out
    assert found["brier"] == pytest.approx((0.1**2 + 0.2**2 + 0.6**2 + 0.2**2) / 4)
    assert found["value_mae"] == pytest.approx((0.4 + 0.3 + 0.4 + 0.1 + 0.3 + 0.5) / 6)
    assert found["tokens"] == 50
    rates = per_1000(found)
    assert rates["first_error"] == pytest.approx(20 / 3) and rates["brier"] == pytest.approx((1 - 0.1125) * 20)


def test_steps_are_held_against_the_truth_up_to_the_first_error_where_both_conventions_agree() -> None:
    here = known(a=[R, W, R, W, C], b=[R, R])
    every, cut = [said(1, 0, 1, 0, 1), said(1, 1)], [said(1, 0, 0, 0, 0), said(1, 1)]
    both = [measure(here, method(), judgements) for judgements in (every, cut)]
    assert [(found["step_accuracy"], found["brier"], found["ece"]) for found in both] == [(1.0, 0.0, 0.0)] * 2
    assert [found["later_accuracy"] for found in both] == [1.0, 0.5], "a right step after an error has a truth too"
    early = measure(here, method(), [said(0, 0, 0, 0, 0), said(1, 0)])
    assert early["step_accuracy"] == 0.5, "a false alarm counts under either convention"
    assert measure(known(a=[R, W]), method(), [said(1, 0)])["later_accuracy"] is None


def test_what_cannot_be_measured_is_none_not_zero() -> None:
    here = known(a=[R, W])
    found = measure(here, method(), [said(None, None)])
    assert found["first_error"] == 0 and found["said"] == 0 and found["coverage"] == 0
    assert [found[name] for name in ("first_error_said", "step_accuracy", "brier", "value_mae")] == [None] * 4
    assert per_1000(found)["first_error"] is None, "what is free has no figure by tokens"
    signed = measure(here, method(probability=False, threshold=-0.2), [said(-0.1, -0.5)])
    assert signed["first_error"] == 1 and signed["brier"] is None


def test_the_mean_of_seeds_has_students_interval() -> None:
    value, low, high = mean_of_seeds([0.1, 0.2, 0.3, 0.4, 0.5])
    assert (value, high - value) == pytest.approx((0.3, 2.7764 * math.sqrt(0.025 / 5)), abs=1e-4)
    assert value - low == pytest.approx(high - value)
    assert math.isnan(mean_of_seeds([0.5]).low)


def point(name: str, tokens: float, *seeds: float, kind: str = "measured") -> Point:
    figures = {"tokens": Interval(tokens, tokens, tokens), "first_error": mean_of_seeds(seeds)}
    return Point("w", name, kind, "rollouts", 2, figures, {}, seeds)  # type: ignore[arg-type]


def test_the_frontier_is_what_no_measured_method_beats() -> None:
    points = [
        point("free", 0, 0.4, 0.4), point("poor", 50, 0.3, 0.3), point("good", 100, 0.6, 0.6), point("dear", 200, 0.6, 0.6),
        point("best", 300, 0.9, 0.9), point("same", 300, 0.9, 0.9), point("critic", 90, 0.7, 0.7, kind="stand-in"),
        point("bad critic", 120, 0.6, 0.6, kind="stand-in"), point("truth", 0, 1.0, 1.0, kind="reference"),
        point("trees", 10, 1.0, 1.0, kind="own traces"),
    ]  # fmt: skip
    marked = [p.method for p in frontier(points) if p.frontier]
    assert marked == ["free", "good", "best", "same", "critic"], "a critic is held against methods, and beats none"


def test_advised_is_the_cheapest_that_is_not_clearly_worse() -> None:
    cheap, noisy_, best = (
        point("cheap", 10, 0.5, 0.5, 0.5),
        point("noisy", 50, 0.9, 0.6, 0.9),
        point("best", 90, 0.8, 0.9, 0.85),
    )
    points = frontier([cheap, noisy_, best, point("critic", 80, 1.0, 1.0, 1.0, kind="stand-in")])
    assert clearly_better(best, cheap) and not clearly_better(best, noisy_)
    small, found = picks_of(measured_points(points), ("w",), {"none": 5, "low": 20, "high": 100})
    assert (small.level, small.point.method) == ("low", "cheap")
    assert (found.point.method, found.best.method, found.again) == ("noisy", "best", False)
    costs = LabelCosts(SMALL, {}, points, {}, {})
    assert better_critics(costs, found) == ["critic"] and better_critics(costs, small) == []


def on_worlds(**points: list[Point]) -> LabelCosts:
    """Costs of worlds whose traces have 10 tokens, so that the budgets are 40, 160 and 640."""
    worlds = {name: World("scripted", 5, 10, 0.5) for name in points}
    placed = [p for name, own in points.items() for p in frontier([replace(p, world=name) for p in own])]
    return LabelCosts(replace(SMALL, seeds=2), worlds, placed, {}, {})


def test_a_free_checker_comes_first_in_the_advice_where_nothing_measured_is_clearly_better() -> None:
    here = [point("cheap", 10, 0.5, 0.5), point("good", 90, 0.8, 0.8)]
    truth, proof = point("truth-w", 0, 1.0, 1.0, kind="reference"), point("formal", 0, 1.0, 1.0, kind="reference")
    some = point("formal", 0, 0.6, 0.6, kind="reference")
    found = on_worlds(logic=[*here, truth, proof], code=[*here, truth, some], chat=[*here, truth])
    by_rule = [
        one
        for world in found.worlds
        for one in picks_of(measured_points(found.of(world)), (world,), {"low": 40, "high": 640})
    ]
    assert {world: levels for world, (_, levels) in checkers(found, by_rule).items()} == {
        "logic": ["low", "middle", "high"], "code": ["low", "middle"],
    }  # fmt: skip
    said = advice(found)
    assert said.startswith("Where a checker applies, use it"), said
    assert "`formal` on logic, 100%" in said and "`formal` on code at a low budget, 60%" in said
    assert "Otherwise" in said and "truth-w" not in said and "on chat, " not in said
    assert "a checker" not in advice(on_worlds(chat=[*here, truth]))


def test_the_advice_says_when_a_larger_budget_changes_nothing_and_how_sure_it_is() -> None:
    said = advice(on_worlds(w=[point("cheap", 10, 0.5, 0.7), point("dear", 90, 0.9, 0.5)]))
    assert "low, `cheap` with 2 rollouts, 60% [0, 187] for 10 tokens; middle, the same again" in said.replace(
        "-67", "0"
    )
    assert "not clearly better: `dear` with 2 rollouts, 70%" in said
    assert "Each point has 16 traces (8 of each of 2 seeds); its 95% interval is" in said


def test_exact_ties_on_the_frontier_share_a_row_that_names_them_all() -> None:
    tied = [point("first", 20, 0.6, 0.6), point("equal", 20, 0.6, 0.6), replace(point("other", 20, 0.6, 0.6), budget=4)]
    table = LABELS.blocks["label-costs-frontier"](on_worlds(w=[*tied, point("critic", 20, 0.6, 0.6, kind="stand-in")]))
    _, _, *rows_ = table.splitlines()
    assert [row.split("|")[2].strip() for row in rows_] == ["`first` and `equal`, `other` with 4 rollouts", "*critic*"]


def test_the_page_has_a_row_for_every_method_at_every_budget_of_every_world() -> None:
    kinds = ("measured", "stand-in", "reference", "own traces")
    some = [replace(point(kind, tokens, 0.5, 0.6, kind=kind), budget=tokens) for kind in kinds for tokens in (3, 9)]
    table = LABELS.blocks["label-costs-all"](on_worlds(logic=some, code=some))
    for world in ("logic", "code"):
        part = table.split(f"<summary>{world}: 4 methods, 8 points</summary>")[1].split("</details>")[0]
        found = [[cell.strip() for cell in row.split("|")] for row in part.strip().splitlines()[2:]]
        assert [(cells[2], cells[3]) for cells in found] == [(p.kind, f"{p.budget:g} rollouts") for p in some]
        assert all("[" in cells[5] for cells in found), "with its interval"


def names_in(drawn: str) -> set[str]:
    return {(e.text or "").split("  ")[0] for e in ElementTree.fromstring(drawn).iter() if e.tag.endswith("text")}


def test_every_method_is_in_a_chart_what_is_free_as_a_dashed_level() -> None:
    free = [point("freeprm", 0, 0.4, 0.4)] + [point(n, 0, 1.0, 1.0, kind="reference") for n in ("formal", "truth-w")]
    trees = [
        point("grounded-tree", 30, 0.7, 0.7, kind="own traces"),
        point("hrm-tree", 60, 0.7, 0.7, kind="own traces"),
    ]
    found = LABELS.charts(
        on_worlds(w=[point("paid", 20, 0.6, 0.6), *free, *trees, point("critic", 9, 0.5, 0.5, kind="stand-in")])
    )
    assert list(found) == [
        f"label_costs-w{view}{width}.svg" for view in ("", "-critics", "-own") for width in ("", "-narrow")
    ]
    measured, critics, own = (drawn for file, drawn in found.items() if "narrow" not in file)
    assert {"paid", "freeprm", "formal", "truth-w"} <= names_in(measured) and measured.count("line dashed") == 3
    assert {"critic", "best measured"} <= names_in(critics) and {"grounded-tree", "hrm-tree"} <= names_in(own)


def test_a_chart_draws_what_there_is() -> None:
    trees = point("grounded-tree", 30, 0.7, 0.7, kind="own traces")
    assert "grounded-tree" in names_in(chart(on_worlds(w=[trees]), "w"))
    assert list(LABELS.charts(on_worlds(w=[trees]))) == ["label_costs-w-own.svg", "label_costs-w-own-narrow.svg"]
    assert "formal" in names_in(chart(on_worlds(w=[point("formal", 0, 1.0, 1.0, kind="reference")]), "w"))
    assert "hrm-tree" in LABELS.page(on_worlds(w=[replace(trees, method="hrm-tree")]))


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> LabelCosts:
    with Run(tmp_path_factory.mktemp("labels"), "bench-labels", {}) as run:
        return LABELS.run(SMALL, run)


def test_each_method_pays_for_its_own_rollouts_though_they_are_shared(costs: LabelCosts) -> None:
    world, policy = ArithmeticWorld(), ArithmeticPolicy()
    tokens = []
    for seed in range(2):
        traces = [trace for _, trace in world.traces(policy, 8, seed=seed)]
        judgements = MonteCarlo(policy, 4, params=SamplingParams(seed=100_000 + seed)).judge(traces)
        tokens.append(sum(j.cost.generated_tokens for j in judgements) / 8)
    four = next(p for p in costs.points if p.method == "monte-carlo" and p.budget == 4)
    assert four.tokens == pytest.approx(sum(tokens) / 2)
    assert next(p for p in costs.points if p.method == "freeprm").tokens == 0
    one = next(p for p in costs.points if p.method == "critic-10" and p.budget == 1)
    assert one.tokens == pytest.approx(30 * costs.worlds["arithmetic"].steps, abs=0.01)


def test_more_rollouts_come_closer_to_the_exact_value(costs: LabelCosts) -> None:
    errors = [p.figures["value_mae"].value for p in costs.points if p.method == "monte-carlo"]
    assert len(errors) == 5 and errors[-1] < errors[0] / 2


def test_a_method_that_lacks_something_is_named_with_the_reason(costs: LabelCosts) -> None:
    assert costs.lacking == {"symbolic-mc": {"arithmetic": "it is for logic alone"}}
    assert "symbolic-mc" in LABELS.blocks["label-costs-methods"](costs)
    policy = create("policy", "scripted-arithmetic-multilingual")
    other = Setting("arithmetic-multilingual", ArithmeticWorld(), policy, SamplingParams(), 30, {})
    unprm = label_rows().known["unprm"]
    assert lacks(unprm, other) == "the log-probabilities of this policy are not known"
    assert lacks(unprm, other._replace(policy=ArithmeticPolicy())) is None


def test_every_labeller_has_a_row_or_a_reason() -> None:
    others = {"actprm", "adaptivestep", "agreeing", "beside", "prm800k", "reasonflux", "sorm", "ssrm"}
    assert label_rows().unmeasured.keys() <= others
    assert not any("declares no row" in why for why in label_rows().unmeasured.values())
    made = {"aurora", "prompted", "prompted-step", "prompted-meta", "prompted-reverse", "prompted-ensemble", "unprm"}
    assert made | {"grounded", "grounded-tree", "symbolic-mc", "formal", "execution"} <= label_rows().known.keys()
    assert {"arithmetic", "logic", "algebra", "code"} <= set(label_rows().known["formal"].worlds or ())


def test_a_report_comes_back_from_json_and_gives_the_same_page(costs: LabelCosts) -> None:
    written = json.loads(json.dumps(costs.to_dict(), allow_nan=False))
    again = LabelCosts.from_dict(written)
    assert json.loads(json.dumps(again.to_dict())) == written
    ElementTree.fromstring(chart(again, "arithmetic"))
    assert chart(again, "arithmetic") == chart(LabelCosts.from_dict(written), "arithmetic")
    assert {"label_costs-arithmetic.svg", "label_costs-arithmetic-critics.svg"} < set(LABELS.charts(again))
    critics = ElementTree.tostring(
        ElementTree.fromstring(LABELS.charts(again)["label_costs-arithmetic-critics.svg"]), "unicode"
    )
    assert "critic-10" in critics and "best measured" in critics and "monte-carlo" not in critics
    page = LABELS.page(again)
    assert "omegaprm" in page and "does not apply" in page
    assert len(LABELS.rows(again.points)) == len(again.points)
    said = advice(again)
    assert "\n" not in said and all(level in said for level in LEVELS)


def test_a_run_goes_on_where_it_stopped_and_gives_the_same(tmp_path: Path, costs: LabelCosts) -> None:
    folder = tmp_path / "run"
    with Run(folder, "bench-labels", {}) as run:
        first = LABELS.run(SMALL, run).to_dict()
    assert first == costs.to_dict(), "the same plan gives the same figures"
    units = sorted((folder / "units" / "arithmetic").iterdir())
    assert not any((folder / "rollouts").iterdir()), "rollouts are dropped when their units are done"
    kept = {unit: unit.stat().st_mtime_ns for unit in units[1:]}
    units[0].unlink()
    with Run(folder, "bench-labels", {}) as run:
        assert LABELS.run(SMALL, run).to_dict() == first
    assert units[0].exists() and kept == {unit: unit.stat().st_mtime_ns for unit in units[1:]}


def test_figures_that_mean_something_else_now_are_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(SMALL, methods=("freeprm",), seeds=1)
    for _ in range(2):
        with Run(tmp_path, "bench-labels", {}) as run:
            LABELS.run(plan, run)
        assert len(list(tmp_path.rglob("*-freeprm-*.json"))) == 1
    monkeypatch.setattr(labels, "FIGURES", FIGURES | {"step_accuracy": "something else"})
    with Run(tmp_path, "bench-labels", {}) as run:
        LABELS.run(plan, run)
    assert len(list(tmp_path.rglob("*-freeprm-*.json"))) == 2


@pytest.mark.long
def test_other_processes_find_the_same(tmp_path: Path, costs: LabelCosts) -> None:
    plan = replace(SMALL, methods=("freeprm", "omegaprm", "unprm"))
    with Run(tmp_path / "run", "bench-labels", {}) as run:
        shared = LABELS.run(plan, run, workers=2)
    own = [replace(p, frontier=False) for p in costs.points if p.method in ("freeprm", "omegaprm", "unprm")]
    found = [replace(p, frontier=False) for p in shared.points]
    assert replace(shared, points=found).to_dict()["points"] == replace(costs, points=own).to_dict()["points"]
    with pytest.raises(ValueError, match="workers=0"), Run(tmp_path / "none", "bench-labels", {}) as run:
        LABELS.run(plan, run, workers=0)


def setting(price: int = 30) -> tuple[Setting, list[Trajectory]]:
    world, policy = ArithmeticWorld(), ArithmeticPolicy()
    traces = [trace for _, trace in world.traces(policy, 60, seed=1)]
    return Setting("arithmetic", world, policy, SamplingParams(seed=3), price, {}), traces


@pytest.mark.parametrize(
    ("made", "budget", "replies"),
    [(asked(), 3, 3), (asked(form="step"), 1, 1), (in_turn(), 4, 4), (in_turn(reference=False), 2, 2)],
)
def test_a_prompted_judge_is_asked_in_words_and_paid_by_the_step(
    made: Callable[[Setting, float], Judge], budget: float, replies: int
) -> None:
    here, traces = setting(price=7)
    judge = made(here, budget)
    said = judge.judge(traces)
    assert isinstance(judge, Critiqued) and judge.name == said[0].judge
    assert [j.cost.generated_tokens for j in said] == [7 * replies * len(trace.steps) for trace in traces]
    assert any("[1, " in (text or "") or "boxed" in (text or "") for j in said for text in j.rationales)
    truth = [cut_after_error([int(v or 0) for v in j.values]) for j in TruthJudge(here.world).judge(traces)]
    right = [v == t for j, row in zip(said, truth, strict=True) for v, t in zip(j.values, row, strict=True)]
    assert 0.5 < sum(right) / len(right) < 1, "it errs, and not always"


def test_a_tool_reads_a_text_once_and_says_the_same_of_its_copies() -> None:
    asked_for: list[str] = []

    class Tool:
        name = "tool"

        def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
            asked_for.extend(t.id for t in trajectories)
            return [Judgement(t.id, (1.0,) * len(t.steps), self.name) for t in trajectories]

    _, (first, other, *_rest) = setting()
    tool = ReadOnce(Tool(), {})
    said = tool.judge([first, replace(first, id="copy"), other])
    assert [j.trajectory_id for j in said] == [first.id, "copy", other.id] and len(asked_for) == 2
    assert tool.judge([other]) == said[2:] and len(asked_for) == 2
    assert tool.judge([]) == []


def test_grounded_labels_on_given_traces_and_on_its_own() -> None:
    here, traces = setting()
    judge, trees = (make_labeller(label_rows().known[name], here, 2) for name in ("grounded", "grounded-tree"))
    assert isinstance(trees, OwnTraces) and not isinstance(judge, OwnTraces)
    given = measure(Known(here, traces, ArithmeticPolicy()), method(), judge.judge(traces))
    assert given["step_accuracy"] is not None and given["step_accuracy"] > 0.8
    own = measure_own(Known(here, traces, ArithmeticPolicy()), method(), trees)
    assert own is not None and own["step_accuracy"] is not None and own["step_accuracy"] > 0.8
    problems = [trace.problem for trace in traces[::4]]
    rows = trees.collect(problems, traces[0].separator)
    spent = sum(tree.cost.generated_tokens for tree in trees.grow(problems, traces[0].separator))
    assert own["tokens"] == pytest.approx(spent / len(rows))


@pytest.mark.long
def test_the_command_writes_report_page_and_charts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs, out = tmp_path / "docs", tmp_path / "run"
    docs.mkdir()
    options = ["worlds=code", "methods=omegaprm,freeprm,execution,truth-code", "seeds=1", "traces=4"]
    assert main(["bench", "labels", "--option", *options, f"docs={docs}", "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (
        printed == json.loads((out / "report.json").read_text()) == json.loads((docs / "label_costs.json").read_text())
    )
    assert (out / "label_costs-code.svg").read_bytes() == (docs / "label_costs-code.svg").read_bytes()
    assert "<svg" in (out / "report.html").read_text()
    truth = next(p for p in printed["points"] if p["method"] == "truth-code")
    assert truth["figures"]["first_error"] == {"value": 1.0, "ci95": None} and not truth["frontier"]
    assert main(["bench", "labels", "--option", *options, "--out", str(out)]) == 0, "docs= does not make another run"
    assert "frontier" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--option", "methods=omegaprn"], "no labelling method is called 'omegaprn'"),
        (["--option", "worlds=geometry"], "no world is called"),
        (["--option", "colour=red"], "takes no option 'colour'"),
        (["--data", "x"], "takes no --data"),
        (["--option", "worlds=arithmetic-multilingual", "recover=0.5", "traces=1"], "takes no recover"),
    ],
)
def test_what_the_command_cannot_do_is_said(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "labels", *words, "--out", str(tmp_path / "run")]) == 2
    assert reason in capsys.readouterr().err


def test_the_table_has_four_to_six_budgets_for_whatever_has_a_dial() -> None:
    for row in label_rows().known.values():
        assert len(row.budgets) == 1 if row.dial == "free" else 4 <= len(row.budgets) <= 6, row.name
    assert [m.name for m in chosen(("scan", "er-prm"))] == ["er-prm", "scan"]
    assert {"truth-arithmetic", "truth-code", "truth-logic", "truth-algebra"} <= label_rows().known.keys()


def test_a_critic_errs_as_often_as_it_should_and_some_errors_come_back() -> None:
    world = ArithmeticWorld()
    setting = Setting("arithmetic", world, ArithmeticPolicy(), SamplingParams(seed=3), 30, {})
    traces = [trace for _, trace in world.traces(ArithmeticPolicy(), 400, seed=1)]
    truth = [v for j in TruthJudge(world).judge(traces) for v in j.values]
    votes = [[v for j in setting.critic(0.2, vote).judge(traces) for v in j.values] for vote in range(2)]
    wrong = [[a != b for a, b in zip(vote, truth, strict=True)] for vote in votes]
    n = len(truth)
    assert sum(wrong[0]) / n == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / n))
    both = sum(a and b for a, b in zip(*wrong, strict=True)) / n
    assert both == pytest.approx(0.1 * 0.875**2 + 0.9 * 0.125**2, abs=4 * math.sqrt(0.09 / n)), "independent: 0.04"


@pytest.mark.parametrize("world", ["arithmetic", "arithmetic-multilingual", "logic", "algebra", "code"])
def test_every_world_has_its_truth_by_name(world: str) -> None:
    here = create("world", world)
    traces = [trace for _, trace in here.traces(create("policy", f"scripted-{world}"), 6, seed=2)]
    judge = create("labeller", f"truth-{world}")
    assert judge.name == TruthJudge(here).name == f"truth-{world}(consequent=0)"
    for trace, judgement in zip(traces, judge.judge(traces), strict=True):
        assert judgement.first_below(0.5) == here.first_error(trace)
        assert all(r is not None and r.split(":")[0] in ("right", "wrong", "consequent") for r in judgement.rationales)
    exact = noisy(0.0, 0.0, world=world, price=7).judge(traces)
    assert [j.values for j in exact] == [j.values for j in judge.judge(traces)]
    assert [j.cost.generated_tokens for j in exact] == [7 * len(t.steps) for t in traces]


@pytest.mark.long
def test_the_page_of_the_docs_says_what_the_figures_say() -> None:
    stored = write_tables.label_costs()
    text = (ROOT / "docs" / "label_costs.md").read_text(encoding="utf-8")
    assert write_tables.written(text) == text, "run: python -m scripts.write_tables"
    assert advice(stored) in text
    for file, drawn in LABELS.charts(stored).items():
        told = "run: python -m scripts.write_tables"
        assert (ROOT / "docs" / file).read_text(encoding="utf-8") == drawn + "\n", told
    for one in stored.points:
        marked = frontier(stored.of(one.world))
        assert one.frontier == next(p for p in marked if replace(p, frontier=one.frontier) == one).frontier
