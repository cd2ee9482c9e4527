"""What the sides of a comparison are given: the meta set too, other samples, a threshold from elsewhere, no outcome."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from footfall.lab.recipe import Outcome, Trial, find, load_measure
from footfall.lab.shared import prms
from footfall.lab.shared.cases import _halves, first_error_f1
from footfall.lab.shared.flaws import flawed_cases, right_traces
from footfall.lab.shared.strategies import Followed
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judged, Judgement, Problem, SearchResult, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}


def solutions(n: int, world: ArithmeticWorld = ArithmeticWorld(), each: int = 8) -> list[Trajectory]:
    policy = ArithmeticPolicy()
    prefixes = [world.prefix(problem) for problem in world.problems(n, split="test")]
    rows = policy.sample(prefixes, each)
    return [c.after(p, "scripted") for p, row in zip(prefixes, rows, strict=True) for c in row]


def graded(traces: Sequence[Trajectory]) -> list[Trajectory]:
    world = ArithmeticWorld()
    answered = [replace(t, answer=world.answer(t)) for t in traces]
    return [replace(t, correct=t.answer == t.problem.answer) for t in answered]


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(0, True, tmp_path)


def test_with_the_meta_set_an_unweighted_prm_sees_its_outcomes_in_as_many_updates(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = graded(solutions(3, each=4))
    asked: list[dict[str, Any]] = []

    def trained(
        model: object, rows: Sequence[Judged], domains: Sequence[Any], meta: Sequence[Judged], **named: Any
    ) -> Any:
        asked.append({"rows": list(rows), "domains": list(domains), "meta": [m.trajectory.id for m in meta], **named})
        return SimpleNamespace(tokens=0, weights={})

    monkeypatch.setattr("footfall.train.reweight.train_reweighted", trained)
    monkeypatch.setattr(prms, "training_traces", lambda trial: traces)
    monkeypatch.setattr(prms, "arm_pool", lambda trial: traces[:1])
    rows = list(map(Judged, traces[:8], TruthJudge().judge(traces[:8])))
    for with_meta in (False, True):
        prms.reweighted_arm(trial, rows, list("abcdabcd"), "domain", 0.0, with_meta=with_meta)
    without, fair = asked
    assert without["rows"] == rows == fair["rows"][:8] and without["domains"] == fair["domains"][:8]
    added = fair["rows"][8:]
    assert [row.trajectory.id for row in added] == fair["meta"] == without["meta"] == [t.id for t in traces[8:]]
    assert [set(row.judgement.values) for row in added] == [{float(bool(t.correct))} for t in traces[8:]]
    assert set(fair["domains"][8:]) == {"meta set"}
    assert {key: fair[key] for key in ("updates", "batch_size", "seed")} == {
        key: without[key] for key in ("updates", "batch_size", "seed")
    }


def test_the_main_claim_about_weights_is_against_an_arm_that_sees_the_meta_set_too() -> None:
    fair, papers = find("dreamprm-1.5").recipe.claims[:2]
    assert "meta set" in fair.baseline and "meta set" not in papers.baseline
    assert fair.method == papers.method and fair.metric == papers.metric


def test_hard_problems_are_told_by_solutions_that_are_not_checked() -> None:
    hard: Callable[[Sequence[SearchResult]], list[bool]] = load_measure(find("self-prm")).__globals__["_hard"]
    checked: int = load_measure(find("self-prm")).__globals__["K"]

    def result(first: bool, others: bool) -> SearchResult:
        problem = Problem("p", "?", "1")
        rights = [first] * checked + [others] * 12
        traces = [Trajectory(str(i), problem, (Step("x"),), correct=right) for i, right in enumerate(rights)]
        return SearchResult(problem, "drawn", traces[0], tuple(Judged(t, None) for t in traces))

    assert hard([result(True, False), result(False, True)]) == [True, False]


def test_harder_problems_have_more_operations_than_any_that_is_trained_on(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Problem] = []
    monkeypatch.setattr(prms, "_kept", lambda trial, name, kind, make: make())

    def sampled(trial: Trial, problems: Sequence[Problem], n: int) -> list[Trajectory]:
        given.extend(problems)
        return []

    monkeypatch.setattr(prms, "_sampled", sampled)
    for each in (trial, trial._replace(quick=False, large=True)):
        given.clear()
        prms.training_traces(each)
        longest = max(len(problem.meta["ops"]) for problem in given)  # type: ignore[arg-type]
        given.clear()
        prms.harder_pool(each)
        assert len(given) == (4 if each.quick else 500)
        assert min(len(problem.meta["ops"]) for problem in given) > longest  # type: ignore[arg-type]


def test_one_threshold_from_problems_as_in_training_is_kept_for_harder_ones(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that is exact, but half as sure of everything on harder problems, loses there whatever suits them best."""
    plain = graded(solutions(12))
    harder = [replace(t, id=f"harder {t.id}") for t in graded(solutions(8, ArithmeticWorld.at("hard")))]

    def halved(label: str) -> Any:
        def judge(traces: Sequence[Trajectory]) -> list[Judgement]:
            said = TruthJudge().judge(traces)
            scale = 0.4 if label == "monte-carlo" else 1.0
            return [replace(j, values=tuple(scale * (v or 0.0) for v in j.values)) for j in said]

        return SimpleNamespace(judge=judge)

    measure = load_measure(find("processbench"))
    for name, made in {
        "pool": lambda trial: plain,
        "harder_pool": lambda trial: harder,
        "judged_pool": lambda trial, labels: TruthJudge().judge(plain),
        "judge": lambda trial, labels: halved(labels),
        "spent": lambda trial, *labels: Cost(),
    }.items():
        monkeypatch.setitem(measure.__globals__, name, made)
    found: Outcome = measure(trial)
    assert found.arms["Monte Carlo labels"] == found.arms["step truth"] == found.arms["step truth, harder"] == 1.0
    assert found.arms["Monte Carlo labels, harder"] == 0.0


class Arithmetic:
    """Values a step by its equations alone, whatever the problem says."""

    name = "arithmetic"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, tuple(_true(step.text) for step in t.steps), self.name) for t in trajectories]


def _true(text: str) -> float:
    found = re.search(r"(\d+) ([-+*/]) (\d+) = (\d+)", text)
    return float(found is None or OPERATIONS[found[2]](int(found[1]), int(found[3])) == int(found[4]))


@pytest.mark.parametrize(("judge", "least", "most"), [(TruthJudge(), 1.0, 1.0), (Arithmetic(), 0.0, 0.1)])
def test_a_neighbours_solution_is_wrong_for_the_problem_and_right_as_arithmetic(
    judge: Any, least: float, most: float, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = graded(solutions(40))
    measure = load_measure(find("rewardbench"))
    monkeypatch.setitem(measure.__globals__, "pool", lambda trial: given)
    monkeypatch.setitem(measure.__globals__, "judge", lambda trial, labels: judge)
    monkeypatch.setitem(measure.__globals__, "spent", lambda trial, *labels, **named: Cost())
    found: Outcome = measure(trial)
    neighbours, plain = found.values("PRM, min, neighbours"), found.values("PRM, min")
    assert len(neighbours) == len(plain) > 15, "both kinds of pairs are of the same problems"
    assert least <= sum(neighbours) / len(neighbours) <= most
    assert 0.3 < sum(plain) / len(plain) <= 1.0


def test_a_neighbours_solution_differs_from_the_chosen_one_from_one_step_on() -> None:
    chosen = {trace.id: trace for trace in right_traces(graded(solutions(20)))}
    for case in flawed_cases(list(chosen.values()), {"neighbour": "wrong operand"}, 0)[::2]:
        first = case.truth.first_below(0.5)
        own = [step.text for step in chosen[case.group].steps]
        assert first is not None and [step.text for step in case.trajectory.steps[:first]] == own[:first]


def test_the_fusion_never_sees_the_outcome_and_its_rivals_have_the_same_trajectory_rewards(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = graded(solutions(3))
    trained: list[tuple[str, list[Judged]]] = []

    def training(trial: Trial, rows: list[Judged], config: TrainConfig) -> Any:
        trained.append((config.objective, rows))
        return SimpleNamespace(cost=Cost())

    def judging(trial: Trial, result: object) -> Any:
        def said(pool: Sequence[Trajectory]) -> list[Judgement]:
            each = [(t, (0.5,) * len(t.steps)) for t in pool]
            return [Judgement(t.id, values, "j", aspects={"trajectory": values}) for t, values in each]

        return SimpleNamespace(judge=said)

    for name, made in {
        "arm_traces": lambda trial: traces, "arm_pool": lambda trial: traces, "arm_training": training,
        "arm_judge": judging, "spent_on": lambda trial, labels, arms: Cost(),
    }.items():  # fmt: skip
        monkeypatch.setattr(prms, name, made)
    measure = load_measure(find("reasonflux-prm"))
    measure(trial)
    labels = [[row.judgement for row in rows] for _, rows in trained]
    told = [[None if j is None else j.aspects.get("trajectory", (None,))[-1] for j in each] for each in labels]
    followed = [j.value for j in Followed(ArithmeticPolicy(), params=prms.params(trial)).judge(traces)]
    assert [objective for objective, _ in trained] == ["mse", *["step-and-trajectory"] * 3]
    assert told == [[None] * len(traces), followed, followed, followed]
    assert followed != [float(bool(t.correct)) for t in traces]
    monkeypatch.setattr(prms, "arm_traces", lambda trial: [replace(t, correct=not t.correct) for t in traces])
    measure(trial)
    assert [[r.judgement for r in rows] for _, rows in trained[4:]] == labels


def test_halves_of_a_few_problems_both_have_errors_and_right_solutions() -> None:
    """A smoke test's four problems may have all their errors in one half, and no threshold can be chosen without."""
    traces = solutions(60, ArithmeticWorld(min_ops=2, max_ops=2), each=2)
    flawless = {
        t.id: min(v or 0.0 for v in j.values) == 1 for t, j in zip(traces, TruthJudge().judge(traces), strict=True)
    }
    rows = [traces[k : k + 2] for k in range(0, len(traces), 2)]
    right = [row for row in rows if all(flawless[t.id] for t in row)][:2]
    wrong = [row for row in rows if not any(flawless[t.id] for t in row)][:2]
    one_sided = [t for pair in zip(right, wrong, strict=True) for row in pair for t in row]
    both = {(half, kind) for half in ("even", "odd") for kind in (True, False)}
    assert {(half, flawless[name]) for name, half in _halves(one_sided).items()} == both
    assert first_error_f1(one_sided, TruthJudge().judge(one_sided)) == 1.0
    halves = _halves([t for row in (*right, *wrong) for t in row])
    assert all(len({halves[t.id] for t in row}) == 1 for row in (*right, *wrong)), "by problems where that serves"


def test_the_few_rows_of_a_smoke_test_have_two_labels_where_there_are_two() -> None:
    labels = (1.0, 1.0, None, 1.0, 0.5, 0.0)
    rows = [
        Judged(trace, Judgement(trace.id, (label,) * len(trace.steps), "x"))
        for trace, label in zip(solutions(6, each=1), labels, strict=True)
    ]
    assert prms.first_rows(rows, 2) == [rows[0], rows[4]], "the first with another label takes the place of the last"
    assert prms.first_rows(rows, 5) == rows[:5] and prms.first_rows(rows[:4], 2) == rows[:2], "others stay as they are"
