"""The nouns: costs add up, judgements fit their traces, prefixes and trees give back what was put in."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.metrics.cases import LengthJudge
from footfall.types import (
    Cost,
    Judged,
    Judgement,
    Message,
    Part,
    Problem,
    Reason,
    Step,
    Trajectory,
    Tree,
    Unjudged,
    content_key,
)

PROBLEM = Problem("p1", "What is 3 + 4?", "7")
TRACE = Trajectory("t1", PROBLEM, (Step("3 + 4 = 7."), Step("The answer is 7.")), answer="7", correct=True)


def judgement(*values: float | None) -> Judgement:
    return Judgement("t1", values, "a judge")


def test_costs_add_up_field_by_field() -> None:
    a = Cost(prompt_tokens=10, cached_tokens=1, generated_tokens=5, scored_tokens=2, flops=1e9, seconds=0.5, calls=1)
    b = Cost(prompt_tokens=1, generated_tokens=2, flops=2e9, seconds=0.25, calls=1)
    assert a + b == Cost(11, 1, 7, 2, 3e9, 0.75, 2)
    assert Cost.total([a, b, b]) == a + b + b
    assert Cost.total([]) == Cost()
    assert (a + b).to_dict() == {
        "prompt_tokens": 11, "cached_tokens": 1, "generated_tokens": 7, "scored_tokens": 2, "flops": 3e9,
        "seconds": 0.75, "calls": 2,
    }  # fmt: skip


def test_a_chat_prompt_reads_as_plain_text_too() -> None:
    chat = Problem("p", (Message("system", "Be brief."), Message("user", "What is 3 + 4?")))
    assert chat.text == "Be brief.\n\nWhat is 3 + 4?"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_is_not_finite_is_refused_with_trace_and_step(number: float) -> None:
    with pytest.raises(ValueError, match=r"'t1'.*step 2 has the value (nan|-?inf)"):
        judgement(0.5, number)
    with pytest.raises(ValueError, match=r"'t1'.*step 1 has the aspect 'rollouts' (nan|-?inf)"):
        Judgement("t1", (0.5,), "a judge", aspects={"rollouts": (number,)})
    with pytest.raises(ValueError, match=r"'t1'.*as a whole is (nan|-?inf)"):
        Judgement("t1", (0.5,), "a judge", value=number)


def test_columns_of_a_judgement_have_one_entry_a_step() -> None:
    with pytest.raises(ValueError, match=r"'t1'.*aspects\['math'\] has 1 entries for 2 steps"):
        Judgement("t1", (0.5, 0.5), "a judge", aspects={"math": (1.0,)})
    with pytest.raises(ValueError, match=r"'t1'.*rationales has 1 entries for 2 steps"):
        Judgement("t1", (0.5, 0.5), "a judge", rationales=("good",))
    with pytest.raises(ValueError, match=r"'t1'.*failures has 3 entries for 2 steps"):
        Judgement("t1", (0.5, 0.5), "a judge", failures=(None, None, Unjudged(Reason.OTHER, "no")))


@pytest.mark.parametrize(
    "values",
    [np.array([0.5, 1.0], dtype=np.float32), (np.float32(0.5), np.True_), [0.5, np.int64(1)], (Fraction(1, 2), True)],
)
def test_values_of_arrays_are_kept_as_the_floats_that_files_can_hold(values: Any) -> None:
    said = Judgement("t1", values, "a judge")
    assert said == Judgement("t1", (0.5, 1.0), "a judge")
    assert [type(value) for value in said.values] == [float, float]
    whole = replace(said, value=values[0], initial=values[1])
    assert (type(whole.value), type(whole.initial)) == (float, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (0.5, "its values are 0.5, not one number or None a step"),
        (np.float32(0.5), "not one number or None a step"),
        ("0.5", "its values are '0.5'"),
        ((0.5, "0.5"), "step 2 has the value '0.5', which is no number"),
        (np.ones((2, 2)), "step 1 has the value [1.0, 1.0]"),
    ],
)
def test_values_that_are_no_numbers_are_refused_with_their_place(values: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        Judgement("t1", values, "a judge")


def test_a_judgement_of_another_length_than_its_trace_is_refused_by_name() -> None:
    assert judgement(1.0, None).check(TRACE).values == (1.0, None)
    with pytest.raises(ValueError, match=r"'t1' has 2 steps but judge 'a judge' gave 1 values"):
        judgement(1.0).check(TRACE)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((0.9, 0.5, 0.8), -1),  # strictly below: 0.5 is not an error at threshold 0.5
        ((0.9, 0.49, 0.1), 1),
        ((0.1, None), 0),
        ((0.9, None, 0.1), None),  # nobody can say whether step 2 was the first error
        ((None,), None),
        ((), -1),
    ],
)
def test_the_first_error_is_the_first_step_strictly_below_the_threshold(
    values: tuple[float | None, ...], found: int | None
) -> None:
    assert judgement(*values).first_below(0.5) == found


def test_a_prefix_forgets_how_the_trace_ended() -> None:
    trace = replace(TRACE, cost=Cost(calls=1))
    prefix = trace.prefix(1)
    assert (prefix.steps, prefix.answer, prefix.correct, prefix.cost) == (trace.steps[:1], None, None, Cost())
    assert trace.prefix(0).steps == ()
    assert trace.prefix(1).extend(trace.steps[1:]).steps == trace.steps


@pytest.mark.parametrize("n_steps", [-1, 3])
def test_a_prefix_longer_than_the_trace_is_an_error_that_names_it(n_steps: int) -> None:
    with pytest.raises(ValueError, match=rf"'t1' has 2 steps, no prefix of {n_steps}"):
        TRACE.prefix(n_steps)


def test_the_key_of_a_trace_is_its_content_and_not_its_id() -> None:
    assert replace(TRACE, id="another", author="someone", answer=None, correct=None).key == TRACE.key
    other = [
        replace(TRACE, steps=TRACE.steps[:1]),
        replace(TRACE, separator="\n"),
        replace(TRACE, steps=(replace(TRACE.steps[0], agent="checker"), TRACE.steps[1])),
        replace(TRACE, steps=(replace(TRACE.steps[0], images=("plot.png",)), TRACE.steps[1])),
        replace(TRACE, steps=(replace(TRACE.steps[0], author="person"), TRACE.steps[1])),
        replace(TRACE, problem=replace(PROBLEM, images=("plot.png",))),
        replace(TRACE, problem=replace(PROBLEM, images=("other.png",))),
        replace(TRACE, steps=(Step("3 + 4 = 7.The answer is 7."),)),
        replace(TRACE, problem=replace(PROBLEM, prompt="What is 4 + 3?")),
    ]
    assert len({trace.key for trace in [TRACE, *other]}) == len(other) + 1


def test_sampled_ids_do_not_change_the_key() -> None:
    sampled = replace(TRACE, tokenizer="v", steps=(replace(TRACE.steps[0], token_ids=(1, 2)), TRACE.steps[1]))
    assert sampled.key == TRACE.key


def test_token_ids_without_a_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'t1' has token_ids but names no tokenizer"):
        Trajectory("t1", PROBLEM, (Step("7", token_ids=(7,)),))


@given(st.lists(st.text()), st.lists(st.text()))
def test_content_keys_are_equal_only_for_equal_content(a: list[str], b: list[str]) -> None:
    assert (content_key(a) == content_key(b)) == (a == b)


def grown_tree() -> Tree:
    """0 ─ 1 ─ 3 and 0 ─ 2, and 4 on its own."""
    tree = Tree(PROBLEM, separator="\n")
    top = tree.add(-1, Step("a"))
    left, _right = tree.add(top, Step("b")), tree.add(top, Step("c"), visits=3)
    tree.add(left, Step("d"), terminal=True)
    tree.add(-1, Step("e"))
    return tree


def test_a_tree_gives_back_paths_children_and_leaves() -> None:
    tree = grown_tree()
    assert tree.path(3) == [0, 1, 3]
    assert tree.path(-1) == []
    assert tree.children(-1) == [0, 4]
    assert tree.children(0) == [1, 2]
    assert tree.leaves() == [2, 3, 4]


def test_the_trace_of_a_node_holds_the_steps_down_to_it() -> None:
    tree = grown_tree()
    trace = tree.trajectory(3)
    assert [step.text for step in trace.steps] == ["a", "b", "d"]
    assert (trace.separator, trace.problem, trace.answer) == ("\n", PROBLEM, None)
    assert tree.trajectory(-1).steps == ()
    assert len({tree.trajectory(i).id for i in range(5)}) == 5


def test_a_tree_of_sampled_steps_keeps_the_vocabulary_of_their_ids() -> None:
    tree = Tree(PROBLEM, tokenizer="v")
    node = tree.add(-1, Step("7", token_ids=(7,)))
    assert tree.trajectory(node).tokenizer == "v"


def test_updating_a_node_changes_that_node_alone() -> None:
    tree = grown_tree()
    tree.update(1, value=0.5, visits=2)
    assert (tree.nodes[1].value, tree.nodes[1].visits, tree.nodes[1].step.text) == (0.5, 2, "b")
    assert tree.nodes[2].visits == 3


@pytest.mark.parametrize("node", [-2, 5])
def test_a_node_that_is_not_there_is_an_error_that_names_the_tree(node: int) -> None:
    with pytest.raises(ValueError, match=rf"'p1' has no node {node} to put a step under"):
        grown_tree().add(node, Step("x"))
    with pytest.raises(ValueError, match=rf"'p1' has no node {node} to change"):
        grown_tree().update(node, visits=1)


def test_a_step_of_an_agent_is_read_with_its_action_and_what_it_saw() -> None:
    assert Step("2 + 2 = 4").written == "2 + 2 = 4"
    step = Step("I look it up.", action="search(Rome)", observation="Capital of Italy")
    assert step.written == "I look it up.\nsearch(Rome)\nCapital of Italy"
    assert Step("", action="search(Rome)").written == "search(Rome)"
    assert Trajectory("t", Problem("p", "?"), (step,), separator="\n\n").text == step.written + "\n\n"


def test_a_step_knows_who_wrote_what() -> None:
    step = Step("I look it up.", "search(4)", "found 7", token_ids=(1, 2), logprobs=(-0.1, -0.2), observation_ids=(3,))
    said, heard = step.parts
    assert (said.author, said.text, said.token_ids, said.logprobs) == (
        "policy", "I look it up.\nsearch(4)", (1, 2), (-0.1, -0.2),
    )  # fmt: skip
    assert heard == Part("environment", "found 7", (3,))
    assert step.written == "I look it up.\nsearch(4)\nfound 7" and step.solution == "I look it up.\nsearch(4)"
    assert Step("Try again.", author="person").solution == "" and Step("So 7.", author="agent").solution == "So 7."
    assert step.without_ids() == Step("I look it up.", "search(4)", "found 7")


def test_why_a_step_has_no_value_is_one_of_a_closed_set() -> None:
    with pytest.raises(TypeError, match=r"'t1'.*'lost' names no Reason"):
        Judgement("t1", (None,), "a judge", failures=("lost",))  # type: ignore[arg-type]
    why = Unjudged(Reason.CUT, "cut at 8 tokens")
    assert why == "cut at 8 tokens" and why.reason is Reason.CUT and why.stored == "[cut] cut at 8 tokens"
    assert Judgement("t1", (None, 1.0), "a judge", failures=(why, None)).failure(0) is why
    assert pickle.loads(pickle.dumps(why)).reason is Reason.CUT


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_survives_being_stored(reason: Reason) -> None:
    back = Unjudged.read(Unjudged(reason, "so: [it] is").stored)
    assert (back.reason, str(back)) == (reason, "so: [it] is")


def test_a_reason_of_an_old_file_is_read_by_its_words() -> None:
    assert Unjudged.read("not judged after the first error").reason is Reason.AFTER_ERROR
    assert (Unjudged.read("timed out").reason, Unjudged.read("[odd] x")) == (Reason.OTHER, "[odd] x")


def test_a_judgement_may_value_the_empty_prefix_and_every_token() -> None:
    said = Judgement("t1", (0.5, 0.2), "a judge", initial=0.7, token_values=((0.6, 0.5), (0.2,)))
    assert (said.initial, said.token_values[0]) == (0.7, (0.6, 0.5))
    with pytest.raises(ValueError, match="token_values has 1 entries for 2 steps"):
        replace(said, token_values=((0.1,),))
    wrong: list[dict[str, Any]] = [{"initial": math.nan}, {"token_values": ((math.inf,), (0.0,))}]
    for broken in wrong:
        with pytest.raises(ValueError, match="'t1'"):
            replace(said, **broken)


def test_what_is_no_trace_is_told_what_one_is_made_of() -> None:
    problem = Problem("p", "?")
    with pytest.raises(
        TypeError, match=r"its problem is a Problem, as in Problem\('p1', 'What is 3 \+ 4\?'\), not str"
    ):
        Trajectory("t", "?", (Step("a"),))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"its steps are Steps, as in \(Step\('3 \+ 4 = 7.'\),\)"):
        Trajectory("t", problem, ("a", "b"))  # type: ignore[arg-type]
    with pytest.raises(
        AttributeError, match=r"has no 'id'; what takes traces is given \[row.trajectory for row in rows\]"
    ):
        LengthJudge().judge([Judged(Trajectory("t", problem, (Step("a"),)), None)])  # type: ignore[list-item]
