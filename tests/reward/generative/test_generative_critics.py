"""The prompted critics: the first wrong paragraph (ProcessBench), and two scores a step (PRMBench)."""

from __future__ import annotations

from math import log

import pytest

from footfall.registry import create
from footfall.reward.generative.critic import Opinion, settle, share_of_yes
from footfall.reward.generative.whole_trace import majority, read_index, read_scores
from footfall.types import Judge, Judgement, Reason, Unjudged
from tests.reward.generative.scripted import BROKEN, CUT, THREE, Scripted, trace


def judged(judge: Judge) -> Judgement:
    return judge.judge([THREE])[0]


class TestSharedParts:
    def test_the_share_of_yes_of_the_cards(self) -> None:
        assert share_of_yes(log(0.7), log(0.2)) == pytest.approx(0.777778, abs=1e-6)
        assert share_of_yes(log(0.6), log(0.3)) == pytest.approx(0.666667, abs=1e-6)
        assert share_of_yes(log(0.6), log(0.3), temperature=2) == pytest.approx(0.585786, abs=1e-6)
        assert share_of_yes(-2000.0, 0.0) == 0.0 and share_of_yes(0.0, -2000.0) == 1.0

    @pytest.mark.parametrize(
        ("values", "mean"),
        [((0.9, 0.8, 0.2), 0.633333), ((0.9, 0.7, 0.2), 0.6), ((0.98, 0.02, 0.91, 0.88), 0.6975)],
    )
    def test_samples_are_averaged_as_on_the_cards(self, values: tuple[float, ...], mean: float) -> None:
        assert settle([Opinion(v) for v in values]).value == pytest.approx(mean, abs=1e-6)

    def test_a_sample_without_an_opinion_is_no_zero(self) -> None:
        cut, babble = Unjudged(Reason.CUT, "cut"), Unjudged(Reason.UNREADABLE, "babble")
        found = settle([Opinion(None, cut), Opinion(0.8), Opinion(0.6)])
        assert found.value == pytest.approx(0.7)
        assert (found.failure, found.samples) == (None, 2)
        assert settle([Opinion(None, cut), Opinion(None, babble)]).failure == "cut"


class TestFirstError:
    @pytest.mark.parametrize(
        ("text", "index"),
        [
            ("so \\boxed{1}", 1), ("\\boxed{ -1 }", -1), ("\\boxed{0} no, rather \\boxed{2}", 2),
            ("the fraction \\boxed{\\frac{1}{2}} and then \\boxed{0}", 0), ("it says \\boxed{2}, so \\boxed{\\text{-1}}", -1),
        ],
    )  # fmt: skip
    def test_the_last_box_counts(self, text: str, index: int) -> None:
        assert read_index(text, steps=3) == index

    @pytest.mark.parametrize(("text", "index"), [(" -1\n", -1), ("2.", 2), ("0", 0)])
    def test_a_number_and_nothing_else_needs_no_box(self, text: str, index: int) -> None:
        assert read_index(text, steps=3) == index

    @pytest.mark.parametrize(
        "text",
        [
            "paragraph 1",
            "1\n2",
            "3",
            "\\boxed{2} is \\boxed{\\frac{4}{2}}",
            "\\boxed{one}",
            "\\boxed{3}",
            "\\boxed{-2}",
            "\\boxed{}",
            "\\boxed{1.0}",
        ],
    )
    def test_anything_else_is_a_reason(self, text: str) -> None:
        assert str(read_index(text, steps=3)).startswith("unparsable")

    def test_ties_go_to_the_vote_seen_first(self) -> None:
        assert majority([2, -1, -1, 2, 0]) == 2

    def test_before_the_error_is_right_and_after_it_nobody_knows(self) -> None:
        policy = Scripted(lambda asked, i: "Paragraph 1 adds wrongly. \\boxed{1}")
        found = judged(create("reward", "critic", policy=policy))
        assert found.values == (1.0, 0.0, None)
        assert found.failures == (None, None, "after the first error")
        assert found.rationales == (None, "Paragraph 1 adds wrongly. \\boxed{1}", None)
        assert found.cost.generated_tokens == 10 and found.first_below(0.5) == 1

    def test_no_error_makes_all_steps_right(self) -> None:
        found = judged(create("reward", "critic", policy=Scripted(lambda asked, i: "Fine. \\boxed{-1}")))
        assert found.values == (1.0, 1.0, 1.0) and found.failures == ()

    @pytest.mark.parametrize(
        ("text", "reason"),
        [("I like it.", "unparsable"), (f"\\boxed{{1}} wait{CUT}", "cut at 8192 tokens"), (BROKEN, "HTTP 500")],
    )
    def test_a_critic_that_says_nothing_gives_no_values_and_the_reason(self, text: str, reason: str) -> None:
        found = judged(create("reward", "critic", policy=Scripted(lambda asked, i: text)))
        assert found.values == (None, None, None)
        assert all(failure is not None and reason in failure for failure in found.failures)

    def test_of_several_samples_the_unreadable_ones_are_dropped_and_the_majority_wins(self) -> None:
        said = ["eh", "\\boxed{0}", "\\boxed{1}", BROKEN, "\\boxed{1}", "eh", f"\\boxed{{0}}{CUT}", "\\boxed{-1}"]
        policy = Scripted(lambda asked, i: said[i])
        found = judged(create("reward", "critic", policy=policy, n=8))
        assert found.values == (1.0, 0.0, None) and found.aspects["named"] == (0.25, 0.5, 0.0)
        assert (policy.params[0].temperature, policy.params[0].top_p) == (1.0, 0.9)
        assert found.cost.generated_tokens == 70 and found.cost.calls == 8

    def test_the_question_numbers_paragraphs_from_zero_and_one_sample_is_greedy(self) -> None:
        policy = Scripted(lambda asked, i: "\\boxed{-1}")
        judged(create("reward", "critic", policy=policy))
        user = policy.sampled[0].user
        assert "<paragraph_0>\n3 * 4 = 12.\n</paragraph_0>\n\n<paragraph_1>" in user and "What is 2 + 3 * 4?" in user
        assert policy.params[0].temperature == 0 and policy.params[0].max_tokens == 8192

    def test_traces_are_asked_in_one_batch_and_one_without_steps_not_at_all(self) -> None:
        policy = Scripted(lambda asked, i: "\\boxed{0}" if "1 + 1" in asked.user else "\\boxed{-1}")
        traces = [THREE, trace(id="empty"), trace("It is 3.", question="1 + 1?", id="u")]
        found = create("reward", "critic", policy=policy).judge(traces)
        assert [j.values for j in found] == [(1.0, 1.0, 1.0), (), (0.0,)] and policy.calls == [2]

    def test_the_name_tells_settings_and_writer(self) -> None:
        policy = Scripted(lambda asked, i: "")
        names = {create("reward", "critic", policy=policy, **more).name for more in ({}, {"n": 8}, {"max_tokens": 9})}
        assert len(names) == 3 and all("critic" in name and "scripted" in name for name in names)


class TestPRMBench:
    def test_two_lists_of_scores_become_values_and_aspects(self) -> None:
        text = 'Here: {"validity": [0.9, -0.8, 0], "redundancy": [-0.5, 0.1, 0]} as asked.'
        judge = create("reward", "prmbench-critic", policy=Scripted(lambda asked, i: text))
        found = judged(judge)
        assert found.values == (0.9, -0.8, 0.0)
        assert found.aspects["redundancy"] == (-0.5, 0.1, 0.0) and found.aspects["redundant"] == (0.0, 1.0, 0.0)
        assert judge.threshold == 0.0 and found.first_below(judge.threshold) == 1

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("all good", "no JSON object"),
            ('{"validity": [1, 1, 1]}', "no JSON object"),
            ('{"validity": [1, 1], "redundancy": [1, 1, 1]}', "validity has 2 scores for 3 steps"),
            ('{"validity": 1, "redundancy": [1, 1, 1]}', "validity has a int"),
            ('{"validity": [1, 1, 7], "redundancy": [1, 1, 1]}', "between -1 and 1"),
            ('{"validity": [1, 1, true], "redundancy": [1, 1, 1]}', "between -1 and 1"),
            ('{"validity": [1, 1, NaN], "redundancy": [1, 1, 1]}', "between -1 and 1"),
            ('{"validity": [1, 1, 1], "redundancy": [1, 1', "no JSON object"),
        ],
    )
    def test_a_reply_that_is_not_what_was_asked_for_is_no_opinion(self, text: str, reason: str) -> None:
        assert reason in str(read_scores(text, 3))
        found = judged(create("reward", "prmbench-critic", policy=Scripted(lambda asked, i: text)))
        assert found.values == (None, None, None) == found.aspects["redundant"]
        assert all(failure is not None and reason in failure for failure in found.failures)

    def test_the_last_object_counts(self) -> None:
        text = '{"validity": [0], "redundancy": [0]} no: ```json\n{"validity": [1], "redundancy": [-1]}\n```'
        assert read_scores(text, 1) == {"validity": [1.0], "redundancy": [-1.0]}
