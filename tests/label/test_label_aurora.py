"""AURORA: a critic whose errors are known answers the real prompts; views with and without the reference."""

from __future__ import annotations

import pytest

from footfall.label.critic import ScriptedCritic
from footfall.label.prompted import NO_REFERENCE, both_views, cut_after_error, prompted, reference_view
from footfall.types import Judged, Judgement, Message, Problem, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge
from tests.label.scripted_policy import FOUR_STEPS

TRACES = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 40, 3)]
TRUTH = [cut_after_error([int(v or 0) for v in said.values]) for said in TruthJudge().judge(TRACES)]


def right(said: list[Judgement]) -> float:
    pairs = [(v, t) for each, truth in zip(said, TRUTH, strict=True) for v, t in zip(each.values, truth, strict=True)]
    return sum(v == t for v, t in pairs) / len(pairs)


def test_a_critic_without_weaknesses_says_the_truth_under_every_prompt() -> None:
    critic = ScriptedCritic(TRACES, shared=0, wording=0, sampled=0, babble=0)
    for reference in (True, False):
        said = prompted(critic, prompts="all", reference=reference).judge(TRACES)
        assert [list(each.values) for each in said] == TRUTH
        assert all(each.aspects["votes"] == (4.0,) * len(each.values) for each in said)


def test_what_the_model_does_not_know_no_ensemble_mends() -> None:
    critic = ScriptedCritic(TRACES, shared=0.3, wording=0, sampled=0, babble=0)
    one, four = (prompted(critic, prompts=p, reference=False).judge(TRACES) for p in ("reason", "all"))
    assert [each.values for each in one] == [each.values for each in four] and right(one) < 1


def test_what_a_wording_leads_into_other_wordings_mend_but_more_samples_do_not() -> None:
    critic = ScriptedCritic(TRACES, shared=0, wording=0.08, sampled=0, babble=0)
    one = prompted(critic, reference=False).judge(TRACES)
    samples = prompted(critic, n=5, reference=False).judge(TRACES)
    prompts = prompted(critic, prompts="reason,list,example", reference=False).judge(TRACES)
    assert [each.values for each in one] == [each.values for each in samples]
    assert right(prompts) > right(one)


def test_with_the_reference_in_view_the_critic_looks_again_at_what_does_not_go_with_it() -> None:
    critic = ScriptedCritic(TRACES, shared=0, wording=0.15, sampled=0.05, babble=0)
    assert right(prompted(critic).judge(TRACES)) > right(prompted(critic, reference=False).judge(TRACES))


def test_a_babbling_critic_and_one_asked_about_a_stranger_leave_steps_unlabelled() -> None:
    (said,) = prompted(ScriptedCritic(TRACES, babble=1)).judge(TRACES[:1])
    assert set(said.values) == {None} and "no list of 0 and 1" in str(said.failures[0])
    (said,) = prompted(ScriptedCritic(TRACES)).judge([FOUR_STEPS])
    assert set(said.values) == {None} and "does not know" in str(said.failures[0])
    with pytest.raises(ValueError, match="wording is a probability"):
        ScriptedCritic(TRACES, wording=2)


def test_the_same_steps_with_and_without_a_reference_are_two_rows_with_the_same_labels() -> None:
    row = Judged(FOUR_STEPS, Judgement("t1", (1.0, 1.0, 0.0, 0.0), "j"))
    with_it, without = both_views([row])
    assert with_it.judgement is not None and without.judgement is not None
    assert with_it.judgement.values == without.judgement.values == (1.0, 1.0, 0.0, 0.0)
    assert with_it.trajectory.steps == without.trajectory.steps
    assert with_it.judgement.trajectory_id == with_it.trajectory.id != without.trajectory.id
    assert with_it.trajectory.problem.text == "What is 3 + 4?\n\nReference answer: 7"
    assert without.trajectory.problem.text == f"What is 3 + 4?\n\nReference answer: {NO_REFERENCE}"


def test_a_problem_without_a_reference_is_scored_with_the_sentence_of_the_training() -> None:
    unknown = Problem("p", (Message("system", "Be brief."), Message("user", "What is 3 + 4?")))
    (row,) = both_views([Judged(Trajectory("t", unknown), None)])[1:]
    assert reference_view(unknown) == row.trajectory.problem, "nothing to show is the same as not shown"
    assert reference_view(unknown).prompt[0] == Message("system", "Be brief.")
    assert unknown.text in reference_view(unknown).text and NO_REFERENCE in reference_view(unknown).text
