"""Critiques as training data: ThinkPRM's filter, R-PRM's parser, pairs and split, GenPRM's consensus, and what each keeps."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from footfall.formats import write
from footfall.label.agreeing import agreeing, known_labels
from footfall.registry import create
from footfall.reward.generative.chains import Preference, agrees, balanced, continuations, gold_of, preferences
from footfall.reward.generative.critic import Request, say
from footfall.reward.generative.dg_prm import pareto_pairs
from footfall.reward.generative.drm import extremes
from footfall.reward.generative.genprm import verdicts as genprm_verdicts
from footfall.reward.generative.r_prm import read_answer
from footfall.reward.generative.r_prm import verdicts as r_prm_verdicts
from footfall.reward.generative.thinkprm import boxed, cleaned, in_boxes, known_verdicts
from footfall.reward.generative.thinkprm import verdicts as thinkprm_verdicts
from footfall.types import Judged, Judgement, Reason, Trajectory
from tests.reward.generative.scripted import BROKEN, CUT, THREE, Asked, Scripted, trace

GOLD = (True, True, False, False)
RIGHT, WRONG = "\\boxed{correct}", "\\boxed{incorrect}"
ASKED = "Is the step correct (Yes/No)?"


class TestThinkPRMsFilter:
    def test_the_card_s_verdicts_are_accepted_and_rejected(self) -> None:
        assert agrees((True, True, False), GOLD) and agrees(GOLD, GOLD)
        for other in ((True, False), (True, True), (True, False, False), (True, True, False, True), ()):
            assert not agrees(other, GOLD), other

    def test_what_it_keeps_is_a_subset_of_what_the_last_verdict_alone_would(self) -> None:
        rows = [row for n in range(1, 5) for row in product((True, False), repeat=n)]
        golds = [gold_of([float(x) for x in row]) for row in rows]
        for gold, said in product(golds, rows):
            assert not agrees(said, gold) or agrees(said, gold, "outcome")

    def test_after_a_wrong_label_all_are_wrong_and_an_unlabelled_step_before_it_ends_the_row(self) -> None:
        assert gold_of([1.0, 0.25, None, 1.0]) == (True, False, False, False)
        assert gold_of([1.0, None, 0.0]) == (True,)

    def test_boxes_in_any_form_are_verdicts_and_what_follows_the_last_is_not_learned(self) -> None:
        text = "Step 1: \\boxed{\\text{Correct}} Step 2: \\boxed{ incorrect } I stop here."
        assert boxed(text) == [True, False]
        assert cleaned(text) == f"Step 1: {RIGHT} Step 2: {WRONG}"

    def test_balancing_leaves_as_many_of_each_side_and_the_order(self) -> None:
        kept = balanced(range(20), lambda i: i < 14, seed=1)
        assert len(kept) == 12 and sum(i < 14 for i in kept) == 6 and kept == sorted(kept)
        assert kept == balanced(range(20), lambda i: i < 14, seed=1) != balanced(range(20), lambda i: i < 14, seed=2)
        assert sum(kept_good := [i < 14 for i in kept]) / len(kept_good) == 0.5, (
            "a constant judge is right half the time"
        )


class TestRPRMsData:
    @pytest.mark.parametrize(("end", "verdict"), [("Yes", True), ("No.", False), ("**Yes**\n", True)])
    def test_one_answer_at_the_end_is_the_verdict(self, end: str, verdict: bool) -> None:
        assert read_answer(f"Fine. Verification: {ASKED} {end}") is verdict

    @pytest.mark.parametrize(
        "text",
        [f"{ASKED} Yes\n{ASKED} No", f"{ASKED} Yes, for 3 * 4 is 12", f"{ASKED}", "It is right.", f"{ASKED} Yes. But"],
    )
    def test_two_answers_none_or_more_text_are_no_verdict(self, text: str) -> None:
        assert "unparsable" in str(read_answer(text))

    def test_pairs_are_a_critique_that_agrees_and_one_that_contradicts_one_to_one_by_label(self) -> None:
        def write(asked: Asked, index: int) -> str:
            now = asked.user.rpartition("Now Step: ")[2]
            if now == "Step 3: c":
                return f"always {ASKED} Yes"
            return ["hm", f"right {ASKED} Yes", f"wrong {ASKED} No", f"{ASKED} Yes {ASKED} No"][index]

        judge = create("reward", "r-prm", policy=Scripted(write), n=4)
        (chains,) = judge.chains([trace("a", "b", "c")])
        assert [chain.verdicts for chain in chains[:4]] == [(), (True,), (False,), ()]
        assert sum(chain.reason is not None for chain in chains) == 4, "those without a verdict are counted"
        pairs = preferences([("q", (1.0, 0.0, 0.0), chains)], (" Yes", " No"))
        assert [(pair.chosen, pair.rejected, pair.good) for pair in pairs] == [
            (f"right {ASKED} Yes", f"wrong {ASKED} No", True),
            (f"wrong {ASKED} No", f"right {ASKED} Yes", False),
        ]
        assert preferences([("q", (1.0, 1.0, 1.0), chains)], (" Yes", " No")) == [], "there is no pair with a chosen No"

    def test_the_question_is_asked_in_our_own_words_where_no_file_is_named(self) -> None:
        policy = Scripted(lambda a, i: f"ok {ASKED}", lambda a: (0.0, -5.0))
        create("reward", "r-prm", policy=policy, n=1).judge([THREE])
        assert (
            "Now Step: Step 2: 2 + 12 = 15." in policy.sampled[1].user and "inverse operation" in policy.sampled[1].user
        )

    def test_its_own_critiques_are_trained_on_without_a_second_question(self) -> None:
        said = Judgement("t", (1.0,), "r-prm", rationales=(f"Fine. {ASKED}",))
        (verdict,) = r_prm_verdicts(("", " ", " ", ""), Judged(trace("a"), said))
        assert verdict.request.opening == f"Fine. {ASKED}"


def test_a_whole_turn_of_genprm_is_trained_on_as_it_was_written() -> None:
    turn = (
        "<analyze>\nLet's analyze the Paragraph 1 step by step: hm.</analyze>\n<verify>\nprint(1)</verify>\n"
        "<output>\n**Judgement**: $\\boxed{Yes}$\n</output>\n"
    )
    (verdict,) = genprm_verdicts(Judged(trace("a"), Judgement("t", (1.0,), "genprm", rationales=(turn,))))
    assert verdict.request.opening == turn.partition("Yes}")[0] and verdict.request.opening.startswith(verdict.opening)


class Labelled:
    name = "labels"

    def judge(self, trajectories: list[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (1.0, 0.0, 0.0), self.name) for t in trajectories]


class TestAgreeing:
    """The labeller that keeps them; THREE is right, wrong, wrong."""

    def judged(self, *texts: str, critic: str = "thinkprm", tmp_path: Path) -> Judgement:
        file = tmp_path / "labels.jsonl"
        write(file, [Judged(THREE, Judgement(THREE.id, (1.0, 0.0, 0.0), "people"))], "jsonl")
        policy = Scripted(lambda a, i: texts[i % len(texts)])
        (found,) = agreeing(policy, critic, str(file), n=len(texts)).judge([THREE])
        assert found.aspects["label"] == (1.0, 0.0, 0.0)
        return found

    def test_the_first_chain_that_agrees_stands_at_the_last_step(self, tmp_path: Path) -> None:
        wrong, right = f"1 {RIGHT} 2 {RIGHT} 3 {WRONG}", f"1 {RIGHT} 2 {WRONG} and no more"
        found = self.judged(wrong, right, BROKEN, tmp_path=tmp_path)
        assert found.values == (None, None, 0.0) and found.rationales == (None, None, f"1 {RIGHT} 2 {WRONG}")
        assert found.cost.calls == 3

    def test_where_none_agrees_the_reason_counts_what_they_said(self, tmp_path: Path) -> None:
        found = self.judged(f"{RIGHT}", "babble", f"{RIGHT} {WRONG}{CUT}", tmp_path=tmp_path)
        assert found.values == (None,) * 3 and found.failures[2] is not None
        assert found.failures[2] == "of 3 critiques none agrees: 1 differs from the labels, 2 states no verdict"
        assert found.failures[2].reason is Reason.UNDECIDED

    @pytest.mark.parametrize(
        ("labels", "known"),
        [
            ((1.0, 1.0, 1.0), "all 3 steps are correct"),
            (
                (1.0, 0.0, 0.0),
                "the steps before step 2 are correct, with \\boxed{correct} for each, and step 2 is incorrect",
            ),
            ((0.2, None, None), "checked that step 1 is incorrect"),
        ],
    )
    def test_a_teacher_that_is_told_the_labels_writes_chains_that_are_learned_without_them(
        self, labels: tuple[float | None, ...], known: str, tmp_path: Path
    ) -> None:
        file = tmp_path / "labels.jsonl"
        write(file, [Judged(THREE, Judgement(THREE.id, labels, "people"))], "jsonl")
        verdicts = gold_of(labels)[: 3 if False not in gold_of(labels) else gold_of(labels).index(False) + 1]
        text = " ".join(RIGHT if right else WRONG for right in verdicts)
        policy = Scripted(lambda a, i: text)
        labeller = agreeing(policy, "thinkprm", str(file), n=1, told=True)
        (found,) = labeller.judge([THREE])
        assert known in policy.sampled[0].user and "told" in labeller.name
        assert found.rationales[2] == text
        (learned,) = thinkprm_verdicts(Judged(THREE, found))
        assert "checked" not in str(learned.request), "the student is asked what every judge is asked"

    @pytest.mark.parametrize(
        ("text", "verdicts"),
        [
            (
                "1. a\n**This step is correct.**\n2. This is also correct.\nStep 3 is incorrect, so \\boxed{incorrect}",
                "++-",
            ),
            ("1. This step is correct: \\boxed{correct} 2. \\boxed{correct}", "++"),
            ("It is not what this step is about; this step is not correct. \\boxed{incorrect}", "-"),
            ("No verdict.", ""),
        ],
    )
    def test_verdicts_in_words_are_heard_where_there_are_more_of_them_than_boxes(
        self, text: str, verdicts: str
    ) -> None:
        read = in_boxes(text)
        assert boxed(read) == [verdict == "+" for verdict in verdicts]
        assert in_boxes(read) == read

    def test_a_chain_in_words_is_kept_and_learned_in_boxes(self, tmp_path: Path) -> None:
        found = self.judged("1: This step is correct. 2: This step is incorrect. So all is lost.", tmp_path=tmp_path)
        assert found.rationales[2] == "1: This step is \\boxed{correct}. 2: This step is \\boxed{incorrect}"

    def test_where_labels_end_before_an_error_nothing_is_told(self, tmp_path: Path) -> None:
        assert known_verdicts((1.0, None, 1.0)) == ""

    def test_a_critic_that_cannot_be_told_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"r-prm.* cannot be told what the labels say; critic=thinkprm can"):
            agreeing(Scripted(lambda a, i: ""), "r-prm", "thinkprm", told=True)

    def test_of_r_prm_each_step_is_kept_by_itself(self, tmp_path: Path) -> None:
        found = self.judged(f"fine {ASKED} Yes", critic="r-prm", tmp_path=tmp_path)
        assert found.values == (1.0, None, None) and found.rationales == (f"fine {ASKED}", None, None)

    def test_labels_of_a_file_are_found_by_content_and_others_have_none(self, tmp_path: Path) -> None:
        file = tmp_path / "labels.jsonl"
        write(file, [Judged(THREE, Judgement(THREE.id, (1.0, 0.0, 0.0), "people"))], "jsonl")
        mine, other = known_labels(file).judge([THREE, trace("x")])
        assert mine.values == (1.0, 0.0, 0.0) and other.values == (None,)
        write(file, [Judged(THREE, None)], "jsonl")
        with pytest.raises(ValueError, match="none of its traces has labels"):
            known_labels(file)


def test_problems_of_held_out_pairs_are_in_no_training_pair() -> None:
    from footfall.train.dpo import split_pairs

    pairs = [Preference(f"q{i % 7}", Request(()), "a", "b", i % 2 == 0) for i in range(40)]
    train, held = split_pairs(pairs, 0.3, seed=3)
    assert len(train) + len(held) == 40 and held
    assert not {pair.problem for pair in train} & {pair.problem for pair in held}


def test_a_question_in_the_same_words_is_on_one_side_whatever_the_ids_of_its_problems() -> None:
    """Two sets of data had a problem under two ids: it was trained on, and held out."""
    from footfall.train.dpo import split_pairs

    asked = [Request(say(f"What is {i} + 1?")) for i in range(8)]
    pairs = [Preference(f"{name}-{i}", asked[i], "a", "b", True) for i in range(8) for name in ("one", "other")]
    for seed in range(5):
        train, held = split_pairs(pairs, 0.4, seed)
        assert held and not {pair.request for pair in train} & {pair.request for pair in held}


def test_pairs_of_a_policy_are_continuations_that_a_judge_puts_above_others() -> None:
    """DRM's extremes of whole samples, and the front of DG-PRM's card over what it dominates, of one step."""
    bare, begun = replace(THREE, steps=()), THREE.prefix(1)
    (whole,) = continuations(bare, ["x", "y", "z"], [extremes([0.2, None, 0.9]) or (0, 0)])
    assert (whole.chosen, whole.rejected, whole.request.opening) == ("z", "x", "")
    steps = continuations(begun, list("abcd"), pareto_pairs([(8, 6, 7), (7, 6, 5), (5, 9, 4), (5, 6, 4)]))
    assert [(pair.chosen, pair.rejected) for pair in steps] == [("a", "b"), ("a", "d"), ("c", "d")]
    assert steps[0].request.opening == begun.text + begun.separator
