"""VersaPRM: labels by the first bad step that a critic names, and the votes of the card."""

from __future__ import annotations

import pytest

from footfall.label.counting import Rehearsal
from footfall.label.critic import ScriptedCritic
from footfall.label.estimate import planned
from footfall.label.prompted import FIRST_ERROR, prompted
from footfall.registry import systems
from footfall.reward.generative.whole_trace import read_index
from footfall.search.votes import best, majority, weighted
from footfall.train.active import until_first_error
from footfall.types import Judgement, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.test_label_prompted import Critic

FIVE = Trajectory("t", Problem("p", "Which court hears it?", "(B)", "law"), tuple(map(Step, "abcde")))
TRACES = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 12, seed=3)]


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ((1, 1, 0, 0, 0), (1.0, 1.0, 0.0, None, None)),
        ((1,) * 5, (1.0,) * 5),
        ((0, 1, 1, 1, 1), (0.0, None, None, None, None)),
    ],
)
def test_training_stops_after_the_first_bad_step(said: tuple[int, ...], values: tuple[float | None, ...]) -> None:
    assert until_first_error(Judgement("t", tuple(map(float, said)), "critic")).values == values


def test_an_index_that_names_no_step_is_no_label() -> None:
    assert [read_index(f"\\boxed{{{index}}}", 5) for index in (2, -1)] == [2, -1]
    assert isinstance(read_index("\\boxed{5}", 5), str)


@pytest.mark.long
def test_the_votes_of_the_card() -> None:
    answers, scores = ["A", "A", "B", "C"], [0.8, 0.5, 0.9, 0.4]
    winners = majority(answers).winner, best(scores), weighted(answers, scores).winner
    assert [answers[winner] for winner in winners if winner is not None] == ["A", "B", "A"]
    assert weighted(answers, scores).weights == pytest.approx({"A": 1.3, "B": 0.9, "C": 0.4})
    assert weighted(answers, [0.5] * 4).winner == majority(answers).winner
    assert (majority(["B"]).winner, best([0.2]), weighted(["B"], [0.2]).winner) == (0, 0, 0), "one sample, one choice"


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("Step 2 is bad: \\boxed{2}", (1.0, 1.0, 0.0, 0.0, 0.0)),
        ("\\boxed{0}", (0.0,) * 5),
        ("All is well. \\boxed{-1}", (1.0,) * 5),
    ],
)
def test_the_judge_names_the_first_bad_step_and_all_is_bad_from_there_on(reply: str, values: tuple[float, ...]) -> None:
    critic = Critic(lambda q, i: reply)
    (said,) = prompted(critic, form="first-error").judge([FIVE])
    assert said.values == values and said.cost.calls == 1 and not said.failures
    (question,) = critic.asked
    assert "Step 0: a\nStep 1: b" in question and "[Reference answer]\n(B)\n" in question and "math" not in question


def test_without_the_cut_nobody_has_said_anything_of_what_comes_after() -> None:
    (said,) = prompted(Critic(lambda q, i: "\\boxed{2}"), form="first-error", cut=False).judge([FIVE])
    assert said.values == (1.0, 1.0, 0.0, None, None)
    assert said.failures == (None, None, None, "after the first error", "after the first error")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("\\boxed{5}", "unparsable: the critique names paragraph 5, there are 5 from 0 on"),
        ("\\boxed{-2}", "unparsable: the critique names paragraph -2, there are 5 from 0 on"),
        ("\\boxed{none}", "unparsable: the box holds 'none', no index"),
        ("Law is hard.", "unparsable: no \\boxed{} in the critique"),
        (None, "timeout"),
        ("Step 0 …", "cut at 2048 tokens before the verdict"),
    ],
)
def test_babble_and_an_index_of_no_step_leave_the_trace_unlabelled(reply: str | None, reason: str) -> None:
    (said,) = prompted(Critic(lambda q, i: reply), form="first-error").judge([FIVE])
    assert said.values == (None,) * 5 and said.failures == (reason,) * 5


def test_samples_vote_on_where_the_first_bad_step_is() -> None:
    critic = Critic(lambda q, i: ("\\boxed{1}", "\\boxed{3}", "\\boxed{3}", "hm")[i])
    (said,) = prompted(critic, form="first-error", n=4).judge([FIVE])
    assert said.values == (1.0, 1.0, 1.0, 0.0, 0.0) and said.aspects["votes"] == (3.0,) * 5


@pytest.mark.parametrize("meta", [False, True])
def test_the_scripted_critic_answers_this_question_too(meta: bool) -> None:
    critic = ScriptedCritic(TRACES, shared=0, wording=0, sampled=0, babble=0)
    said = prompted(critic, form="first-error", meta=meta).judge(TRACES)
    lists = prompted(critic).judge(TRACES)
    assert [each.values for each in said] == [each.values for each in lists]
    assert any(0.0 in each.values for each in said) and all(None not in each.values for each in said)


def test_its_cost_is_known_before_it_is_asked() -> None:
    rehearsal = Rehearsal()
    judge = prompted(rehearsal.policy(), form="first-error", n=3)
    low, expected, high = planned(rehearsal, judge.judge, [FIVE])
    assert low.calls == expected.calls == high.calls == 3
    assert expected.prompt > 3 * len(FIRST_ERROR) / 4 and expected.cached == pytest.approx(expected.prompt * 2 / 3)


def test_the_system_of_that_name_asks_so_and_an_unknown_form_is_refused() -> None:
    assert systems("labeller")["versaprm"].settings["form"] == "first-error"
    critic = Critic(lambda q, i: "")
    assert prompted(critic, form="first-error").name != prompted(critic).name
    with pytest.raises(ValueError, match="one of trace, step, first-error"):
        prompted(critic, form="sonnet")  # type: ignore[arg-type]
