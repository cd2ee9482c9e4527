"""Label costs of methods that write their own traces: OmegaPRM's and EDU-PRM's trees, read as traces with a label a step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from footfall.label.edu_prm import EntropyTrees, TokenWriter, by_lines, whole_traces
from footfall.label.omegaprm import by_segments
from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.store import Run
from footfall.studies.label_report import LABELS
from footfall.studies.label_setting import OwnTraces, Setting, label_rows, make_labeller
from footfall.studies.labels import Known, Plan, measure_own
from footfall.types import Judged, Judgement, Problem, Reason, Step, Trajectory, Unjudged, failures_of
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from footfall.worlds.scripted import next_steps, word_logprobs
from footfall.worlds.word_writer import WordWriter

PROBLEM = Problem("p", "?", "1")
IN_WORDS = ("arithmetic", "logic", "algebra")


def setting(world: str, **how: float) -> Setting:
    policy = create("policy", f"scripted-{world}", **how)
    return Setting(world, create("world", world), policy, SamplingParams(seed=3), 30, {})


def own_traces(name: str, here: Setting, budget: float) -> Any:
    return make_labeller(label_rows().known[name], here, budget)


def problems(here: Setting, n: int) -> list[Problem]:
    return list(here.world.problems(n, 1))  # type: ignore[attr-defined]


def row(*values: float | None) -> Judged:
    trace = Trajectory("t", PROBLEM, tuple(Step(str(k)) for k in range(len(values))))
    failures = failures_of(Unjudged(Reason.NOT_ASKED, "not probed") if value is None else None for value in values)
    return Judged(trace, Judgement("t", values, "j", failures=failures))


@pytest.mark.parametrize(
    ("probed", "filled"),
    [
        ((None, 0.5, None, 0.0), (0.5, 0.5, 0.0, 0.0)),
        ((0.25, None, None, 1.0), (0.25, 1.0, 1.0, 1.0)),
        ((0.5, None), (0.5, None)),
    ],
)
def test_a_step_has_the_value_at_the_end_of_its_segment(
    probed: tuple[float | None, ...], filled: tuple[float | None, ...]
) -> None:
    said = by_segments(row(*probed)).judgement
    assert said is not None and said.values == filled and said.aspects["mc"] == probed
    assert [why is None for why in said.failures] == ([value is not None for value in filled] if None in filled else [])


def test_a_line_has_the_value_of_the_fragment_it_ends_in() -> None:
    cuts = (Step("a\nb", token_ids=(1, 2, 3)), Step(" c\n", token_ids=(4, 2)), Step("d\n", token_ids=(5, 2)))
    fragments = Trajectory("t", PROBLEM, cuts, separator="", tokenizer="v")
    steps = (Step("a", token_ids=(1, 2)), Step("b c", token_ids=(3, 4, 2)), Step("d", token_ids=(5, 2)))
    lines = Trajectory("t", PROBLEM, steps, separator="\n", tokenizer="v")
    said = by_lines(Judged(fragments, Judgement("t", (0.75, 0.5, 0.0), "j")), lines).judgement
    assert said is not None and said.values == (0.75, 0.5, 0.0)
    cut = Unjudged(Reason.CUT, "cut")
    said = by_lines(
        Judged(fragments, Judgement("t", (0.75, None, None), "j", failures=(None, cut, cut))), lines
    ).judgement
    assert said is not None and said.failures == (None, cut, cut), "the reason stays"


@pytest.mark.parametrize("world", IN_WORDS)
def test_words_come_one_by_one_as_likely_as_whole_lines_are(world: str) -> None:
    here = setting(world)
    writer = WordWriter(here.policy)
    assert isinstance(writer, TokenWriter)
    for problem in problems(here, 2):
        ((written,),) = writer.sample([Trajectory("t", problem, separator="")], 1, SamplingParams(0.0, max_tokens=500))
        whole = Trajectory("t", problem, written.steps, separator="", tokenizer=writer.vocabulary)
        lines = writer.in_lines(whole)
        assert written.finish == "end" and whole.text == "".join(f"{step.text}\n" for step in lines.steps)
        exact: list[float] = []
        for k, step in enumerate(lines.steps):
            exact += word_logprobs(next_steps(here.policy, lines.prefix(k)), tuple(step.text.split())) or ()
        assert written.steps[0].logprobs == pytest.approx(tuple(exact))
        assert written.cost.generated_tokens == len(exact) == sum(len(s.text.split()) + 1 for s in lines.steps)


def test_a_writer_tells_entropy_and_second_word_and_stops_at_max_tokens() -> None:
    here = setting("arithmetic")
    writer, (problem,) = WordWriter(here.policy), problems(here, 1)
    ((cut,),) = writer.sample([Trajectory("t", problem, separator="")], 1, SamplingParams(0.0, max_tokens=3))
    assert cut.finish == "length" and cut.cost.generated_tokens == 3
    (thought,) = writer.thoughts([Trajectory("t", problem, cut.steps, separator="", tokenizer=writer.vocabulary)])
    first = writer.chances(problem, ())
    assert math.fsum(chance for chance, _ in first) == pytest.approx(1)
    assert thought.entropy[0] == pytest.approx(-sum(chance * math.log(chance) for chance, _ in first))
    assert writer.text(thought.second[:1]) == first[1][1] and thought.second_logprob[0] == math.log(first[1][0])


@pytest.mark.parametrize("world", IN_WORDS)
def test_the_value_of_a_line_is_the_share_of_right_solutions_that_begin_so(world: str) -> None:
    here = setting(world)
    for problem in problems(here, 2):
        rows = whole_traces(0.2)(here, 8).collect([problem], "\n")
        texts = [tuple(step.text for step in trace.steps) for trace, _ in rows]
        right = [bool(trace.correct) for trace, _ in rows]
        assert len(set(texts)) == 8
        for own, (_, said) in zip(texts, rows, strict=True):
            for k in range(1, len(own) + 1):
                below = [r for text, r in zip(texts, right, strict=True) if text[:k] == own[:k]]
                assert said is not None and said.values[k - 1] == pytest.approx(sum(below) / len(below))


def test_solutions_are_charged_for_the_words_that_they_do_not_share() -> None:
    here = setting("arithmetic")
    (problem,) = problems(here, 1)
    (greedy,) = EntropyTrees(WordWriter(here.policy), 4, math.inf).grow([problem])
    (grown,) = EntropyTrees(WordWriter(here.policy), 4).grow([problem])
    size = [sum(len(step.token_ids or ()) for step in trace.steps) for trace in grown.solutions]
    assert greedy.cost.generated_tokens == size[0] and len(grown.solutions) == 4
    in_tree = sum(len(node.step.token_ids or ()) for node in grown.tree.nodes)
    assert grown.cost.generated_tokens == in_tree < sum(size)


def test_what_a_search_tree_calls_right_can_still_succeed_and_mended_errors_mislead_it() -> None:
    world, cut, share = ArithmeticWorld(), label_rows().known["omegaprm-tree"].threshold, {}
    for recover in (0.0, 0.05):
        here = setting("arithmetic", recover=recover)
        hits = []
        for trace, said in own_traces("omegaprm-tree", here, 4).collect(problems(here, 20), "\n"):
            assert said is not None
            hits.append(said.first_below(cut) == world.first_error(trace))
            for k, value in enumerate(said.values, 1):
                assert value is not None and (value < cut or here.policy.value(trace.prefix(k)) > 0)  # type: ignore[attr-defined]
        share[recover] = sum(hits) / len(hits)
    assert share[0.0] > share[0.05] + 0.1


def test_a_full_tree_calls_open_traces_wrong_and_gives_no_trace_twice() -> None:
    here = setting("arithmetic")
    given = problems(here, 6)
    rows = own_traces("hrm-tree", here, 3).collect(given, "\n")
    assert len({(trace.text, said and said.values) for trace, said in rows}) == len(rows)
    opened = [said for trace, said in rows if "The answer is" not in trace.text]
    assert opened and all(said is not None and said.values[-1] == 0 for said in opened)
    (whole,) = own_traces("hrm-tree", here, 8).grow(given, "\n")
    for tree in whole.trees:
        ends = [tree.nodes[leaf] for leaf in tree.leaves()]
        assert all(end.terminal for end in ends) and tree.value == pytest.approx(sum(e.value for e in ends) / len(ends))


@pytest.mark.parametrize("name", ["omegaprm-tree", "hrm-tree", "edu-prm-tree"])
def test_own_traces_are_charged_with_all_trees_of_a_quarter_of_the_problems(name: str) -> None:
    here, method = setting("arithmetic"), label_rows().known[name]
    traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 24, seed=1)]
    trees = make_labeller(method, here, method.budgets[0])
    assert isinstance(trees, OwnTraces)
    found = measure_own(Known(here, traces, ArithmeticPolicy()), method, trees)
    own = [trace.problem for trace in traces[::4]]
    spent = sum(grown.cost.generated_tokens for grown in trees.grow(own, "\n"))
    assert found is not None and found["tokens"] == pytest.approx(spent / len(trees.collect(own, "\n")))
    assert found["coverage"] == found["said"] == 1 and all(found[key] is not None for key in ("brier", "value_mae"))


def test_trees_have_rows_apart_and_a_reason_where_they_do_not_apply(tmp_path: Path) -> None:
    trees = ("omegaprm-tree", "hrm-tree", "edu-prm-tree", "edu-prm-tree-0.2")
    with Run(tmp_path / "run", "bench-labels", {}) as run:
        costs = LABELS.run(Plan(("arithmetic", "code"), ("omegaprm", *trees), seeds=1, traces=4), run)
    assert costs.lacking == {name: {"code": "it is for arithmetic, logic, algebra alone"} for name in trees[2:]}
    own = [point for point in costs.points if point.method in trees]
    assert {p.kind for p in own} == {"own traces"} and not any(p.frontier for p in own)
    assert {(p.world, p.method) for p in own} == {
        *(("code", name) for name in trees[:2]),
        *(("arithmetic", name) for name in trees),
    }
    block = LABELS.blocks["label-costs-own"](costs)
    assert all(f"`{name}`" in block for name in trees) and "2 searches" in block and "32 solutions" in block
