"""Judges of pairs: RRM and RM-R1, and what makes scores of matches."""

from __future__ import annotations

from itertools import permutations
from math import ceil, log2

import pytest

from footfall.registry import create
from footfall.reward.generative.pairwise import match_reward, read_answer_tag, read_assistant, read_letter
from footfall.reward.generative.tournaments import (
    Match,
    both_orders,
    bracket,
    elo,
    mean_elo,
    round_robin,
    vote,
    win_rates,
)
from footfall.types import Reason, Trajectory
from tests.reward.generative.scripted import BROKEN, CUT, Asked, Scripted, trace


class TestTournaments:
    def test_the_card_s_three_matches_give_its_ratings(self) -> None:
        ratings = elo(3, [Match(0, 1, 1.0), Match(0, 2, 1.0), Match(1, 2, 1.0)])
        assert ratings == pytest.approx([1031.26, 1000.03, 968.70], abs=0.005) and sum(ratings) == pytest.approx(3000)

    def test_five_play_ten_matches_or_four_in_three_rounds(self) -> None:
        assert len(round_robin(5)) == 10
        left, matches, rounds = list(range(5)), 0, 0
        while len(left) > 1:
            pairs, byes = bracket(left, seed=1, round_=rounds)
            left, matches, rounds = [a for a, _ in pairs] + byes, matches + len(pairs), rounds + 1
        assert (matches, rounds) == (4, ceil(log2(5))) == (4, 3)

    def test_the_order_of_matches_moves_elo_but_hardly_its_mean(self) -> None:
        matches = [Match(0, 1, 1.0), Match(0, 2, 1.0), Match(1, 2, 1.0)]
        assert len({tuple(elo(3, order)) for order in permutations(matches)}) > 1
        assert len({tuple(mean_elo(3, order)) for order in permutations(matches)}) == 1

    def test_a_match_that_nobody_could_judge_is_not_played(self) -> None:
        matches = [Match(0, 1, 1.0), Match(1, 2, None)]
        assert elo(3, matches)[2] == 1000 and win_rates(3, matches) == [1.0, 0.0, None]

    def test_a_win_counts_only_if_it_survives_the_exchange(self) -> None:
        assert [both_orders(1, 1), both_orders(1, 0), both_orders(0, 0)] == [1, 0.5, 0]
        assert both_orders(None, 0.0) == 0.0 and both_orders(1.0, None) == 1.0 and both_orders(None, None) is None

    def test_samples_vote_and_those_without_a_winner_have_none(self) -> None:
        assert vote([1.0, None, 0.0, 1.0]) == 1.0 and vote([1.0, 0.0]) == 0.5 and vote([None]) is None


class TestVerdicts:
    def test_rm_r1_s_parser_and_reward_of_the_card(self) -> None:
        text = "I like A more. <answer>[[A]]</answer>"
        assert read_letter(text) == 1
        assert match_reward(read_answer_tag, text, True) == 1 and match_reward(read_answer_tag, text, False) == -1
        both = "<answer>[[A]]</answer> or <answer>[[B]]</answer>"
        assert match_reward(read_answer_tag, both, True) == match_reward(read_answer_tag, both, False) == -1
        early = "<answer>[[A]]</answer>" + " because I say so" * 10
        assert "no verdicts in the last 80" in str(read_letter(early))
        assert "no answer tags in the last 80" in str(read_answer_tag(early))
        assert match_reward(read_answer_tag, early, True) == -1

    def test_rm_r1_is_paid_by_its_answer_tag_and_read_by_its_letter_as_the_authors_code_has_it(self) -> None:
        """Their reward looks for the tag, their evaluation for [[A]] or [[B]] and never both."""
        reasons = "[[A]] is better than [[B]]. <answer>[[A]]</answer>"
        assert match_reward(read_answer_tag, reasons, True) == 1 and "both verdicts" in str(read_letter(reasons))
        bare = "so my choice is [[A]]"
        assert match_reward(read_answer_tag, bare, True) == -1 and read_letter(bare) == 1

    def test_rrm_s_last_box_names_the_winner(self) -> None:
        assert read_assistant("\\boxed{Assistant 2} no, \\boxed{\\text{Assistant 1}}") == 1.0
        assert read_assistant("\\boxed{Assistant 2}") == 0.0 and "unparsable" in str(read_assistant("Assistant 1"))


def answers(*texts: str, question: str = "q") -> list[Trajectory]:
    return [trace("first", text, question=question, id=f"{question}{i}") for i, text in enumerate(texts)]


def by_number(asked: Asked, index: int) -> str:
    """Prefers the higher number, whatever the order: transitive and without noise."""
    one, two = (int(part.split("value ")[1].split()[0]) for part in asked.user.split("#### Assistant ")[1:])
    return f"\\boxed{{Assistant {1 if one > two else 2}}}"


FIVE = answers("value 3", "value 9", "value 1", "value 7", "value 5")


class TestJudge:
    @pytest.mark.parametrize("seed", range(4))
    def test_a_judge_without_noise_has_the_same_champion_in_any_bracket(self, seed: int) -> None:
        judge = create("reward", "rrm-reasoning", policy=Scripted(by_number), how="knockout", swap=False, seed=seed)
        found = judge.judge(FIVE)
        values = [each.value for each in found]
        assert max(range(5), key=lambda i: values[i] or 0) == 1 and values[1] == 1.0
        assert sum(each.cost.calls for each in found) == 4

    @pytest.mark.parametrize("how", ["elo", "win-rate"])
    def test_a_round_robin_ranks_all_and_every_problem_by_itself(self, how: str) -> None:
        policy = Scripted(by_number)
        found = create("reward", "rrm-reasoning", policy=policy, how=how).judge(
            [*FIVE, *answers("value 2", "value 1", question="r")]
        )
        values = [each.value or 0 for each in found]
        assert sorted(range(5), key=lambda i: values[i]) == [2, 0, 4, 3, 1] and values[5] > values[6]
        assert policy.calls == [2 * 10 + 2] and found[0].values == (found[0].value,) * 2
        assert found[0].aspects["steady"] == (1.0, 1.0), "it flips its choice when the two are exchanged"

    def test_a_judge_that_goes_by_the_place_is_a_draw_and_told(self) -> None:
        policy = Scripted(lambda asked, i: "<answer>[[A]]</answer>")
        one, two = create("reward", "rm-r1", policy=policy).judge(answers("value 1", "value 2"))
        assert one.value == two.value == 0.5 and one.aspects["steady"] == (0.0, 0.0)

    def test_replies_without_a_verdict_are_counted_and_no_loss(self) -> None:
        said = ["babble", f"\\boxed{{Assistant 1}}{CUT}", BROKEN]
        judge = create("reward", "rrm-reasoning", policy=Scripted(lambda a, i: said[i]), n=3, swap=False)
        one, two = judge.judge(answers("value 1", "value 2"))
        assert one.values == two.values == (None, None) and one.aspects["unread"] == (3.0, 3.0)
        assert one.failures[0] is not None and one.failures[0].reason is Reason.UNREADABLE

    def test_a_trace_alone_is_not_judged_and_too_many_are_refused(self) -> None:
        judge = create("reward", "rrm-reasoning", policy=Scripted(by_number), entrants=4)
        (alone,) = judge.judge(FIVE[:1])
        assert alone.values == (None, None) and "no other trace" in str(alone.failures[0])
        with pytest.raises(ValueError, match="5 traces of problem 'p-q' in one batch, and entrants is 4"):
            judge.judge(FIVE)

    @pytest.mark.parametrize(("how", "each"), [("elo", 2 * 3 * 2), ("knockout", 2 * 3)])
    def test_what_it_writes_at_most_is_kept(self, how: str, each: float) -> None:
        judge = create("reward", "rrm-reasoning", policy=Scripted(by_number), n=3, how=how, entrants=5, max_tokens=10)
        assert judge.at_most(2) == (each * 10, each, 0)
        found = judge.judge(FIVE)
        assert sum(j.cost.generated_tokens for j in found) <= 5 * each * 10
        if how == "elo":
            assert sum(j.cost.calls for j in found) == 5 * each
