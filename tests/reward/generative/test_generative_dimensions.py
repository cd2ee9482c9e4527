"""Judges with more than one measure: rubrics of a problem, DRM's three dimensions, DG-PRM's criteria and Pareto pairs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.reward.generative.dg_prm import (
    Criterion,
    RewardTree,
    dominates,
    front,
    hashed_words,
    mine,
    pareto_pairs,
    read_ratings,
)
from footfall.reward.generative.drm import Dimensions, confidence, drm_scores, extremes, normalised
from footfall.reward.generative.rubric_rm import Checkpoint, grade_reward, miracle_rate, read_grade, read_rubric
from footfall.types import Json, Problem, Reason, Trajectory
from tests.reward.generative.scripted import BROKEN, CUT, THREE, Asked, Scripted, trace

RUBRIC: dict[str, Json] = {"rubric": [{"criterion": "product first", "points": 5}, {"criterion": "sum", "points": 3},
                     {"criterion": "final answer", "points": 2}]}  # fmt: skip
CHECKPOINTS = (Checkpoint("product first", 5.0), Checkpoint("sum", 3.0), Checkpoint("final answer", 2.0))


def graded(grade: str) -> Callable[[Asked, int], str]:
    """Writes the rubric, and this of every solution."""
    return lambda asked, index: grade if "[Solution]" in asked.user else f"Hm. {json.dumps(RUBRIC)}"


class TestRubrics:
    def test_the_card_s_scores_and_rewards(self) -> None:
        for points, reward in (([5, 3, 2], 1.0), ([4, 2, 0], 0.6), ([0, 0, 2], 0.2)):
            judge = create("reward", "rubric-rm", policy=Scripted(graded(f'{{"points": {points}}}')))
            assert judge.judge([THREE])[0].value == pytest.approx(reward)
        assert grade_reward(7, 9) == pytest.approx(0.8) and grade_reward(None, 9) == 0 and grade_reward(12, 9) == 0.9

    def test_an_answer_alone_earns_at_most_the_points_of_its_checkpoint(self) -> None:
        grade = read_grade('{"points": [0, -3, 99], "miracle": [3, 9, "x"]}', CHECKPOINTS, 3)
        assert not isinstance(grade, str) and grade.score == 2.0 and grade.miracles == {2}

    def test_a_flag_is_no_number_of_a_step(self) -> None:
        flags = read_grade('{"points": [5, 3, 2], "miracle": [false, false, true]}', CHECKPOINTS, 3)
        assert not isinstance(flags, str) and flags.miracles == frozenset()

    @pytest.mark.parametrize(
        "text", ["8 of 10", '{"points": [1, 2]}', '{"points": [1, 2, true]}', '{"points": [1, 2, NaN]}']
    )
    def test_a_grade_that_cannot_be_read_is_no_opinion(self, text: str) -> None:
        assert "unparsable" in str(read_grade(text, CHECKPOINTS, 3))

    @pytest.mark.parametrize(
        "rubric", [{}, {"rubric": []}, {"rubric": [{"points": 9}]}, {"rubric": [{"points": "10"}]}]
    )
    def test_a_rubric_whose_points_are_not_ten_is_none(self, rubric: dict[str, object]) -> None:
        assert "unparsable" in str(read_rubric(rubric))

    def test_a_rubric_is_written_once_a_problem_with_the_reference_in_view_and_miracles_are_flagged(self) -> None:
        solved = replace(THREE, problem=Problem("p", "2 + 3 * 4?", "14"))
        policy = Scripted(graded('Fine. {"points": [4, 2, 2], "miracle": [3]}'))
        judge = create("reward", "rubric-rm", policy=policy)
        one, two = judge.judge([solved, replace(solved, id="u")])
        assert one.values == pytest.approx((0.8, 0.8, 0.0)) and one.aspects["miracle"] == (0.0, 0.0, 1.0)
        assert policy.calls == [1, 2] and "[Reference answer]\n14" in policy.sampled[0].user
        assert (one.cost.calls, two.cost.calls) == (2, 1) and judge.at_most(3) == (2 * 4096, 2, 0)
        judge.judge([solved])
        assert policy.calls == [1, 2, 1]

    def test_a_problem_may_bring_its_own_and_without_a_grade_there_is_a_reason(self) -> None:
        policy = Scripted(lambda a, i: f"x{CUT}")
        own = replace(THREE, problem=Problem("p", "?", meta=RUBRIC))
        found = create("reward", "rubric-rm", policy=policy).judge([own, THREE])
        assert [each.values for each in found] == [(None,) * 3] * 2 and "cut at 4096" in str(found[0].failures[0])
        assert policy.calls == [1, 1], "one rubric is asked for, and one grade"

    def test_a_rubric_that_could_not_be_asked_for_is_asked_for_again(self) -> None:
        replies = iter([BROKEN, f"Hm. {json.dumps(RUBRIC)}", '{"points": [5, 3, 0]}'])
        judge = create("reward", "rubric-rm", policy=Scripted(lambda a, i: next(replies)))
        why = judge.judge([THREE])[0].failure(0)
        assert why is not None and why.reason is Reason.FAILED_CALL
        assert judge.judge([THREE])[0].value == pytest.approx(0.8)

    def test_problems_of_one_text_have_rubrics_of_their_own_if_they_bring_them_or_have_another_answer(self) -> None:
        flat: dict[str, Json] = {"rubric": [{"criterion": "answer", "points": 10}]}
        own = [
            replace(THREE, id=str(k), problem=Problem(str(k), "?", meta=meta)) for k, meta in enumerate((RUBRIC, flat))
        ]
        policy = Scripted(lambda a, i: '{"points": [7]}' if '"points": 10.0' in a.user else '{"points": [5, 0, 0]}')
        assert [said.value for said in create("reward", "rubric-rm", policy=policy).judge(own)] == [0.5, 0.7]
        policy = Scripted(graded('{"points": [5, 3, 2]}'))
        asked = [replace(THREE, id=answer, problem=Problem(answer, "?", answer)) for answer in ("14", "20")]
        create("reward", "rubric-rm", policy=policy).judge(asked)
        assert policy.calls == [2, 2]

    def test_the_miracle_rate_is_of_right_answers(self) -> None:
        assert miracle_rate([True, True, False], [True, False, True]) == 0.5 and miracle_rate([False], [True]) is None


class TestDRM:
    ROWS = (Dimensions(-0.45, 0.8, 2), Dimensions(-0.9, 0.6, 1), Dimensions(-0.3, 0.7, 4))

    def test_the_card_s_confidence_and_fusion(self) -> None:
        assert confidence([-0.1, -0.3, -0.2, -0.4], [-0.05, -0.15]) == pytest.approx(-0.45)
        scores = drm_scores(self.ROWS)
        assert scores == pytest.approx([0.6944, 0.0, 0.8333], abs=1e-4) and extremes(scores) == (2, 1)

    @pytest.mark.parametrize("how", ["min-max", "z-score"])
    def test_a_rescaled_dimension_or_a_doubled_group_changes_nothing(self, how: Any) -> None:
        scores = drm_scores(self.ROWS, how=how)
        rescaled = [row._replace(coherence=7 * row.coherence - 3) for row in self.ROWS]
        assert drm_scores(rescaled, how=how) == pytest.approx(scores, abs=1e-5)
        assert drm_scores(self.ROWS * 2, how=how) == pytest.approx(scores * 2, abs=1e-9)
        assert normalised([2.0, 2.0], how) == [0.0, 0.0] and extremes([0.0, 0.0]) is None
        assert normalised([0.1 + 0.2, 0.3], how) == pytest.approx([0.0, 0.0], abs=1e-9), (
            "one more digit is no difference"
        )

    @staticmethod
    def sampled(name: str, *logprobs: float) -> Trajectory:
        made = trace("so", f"{name} it is", id=name)
        steps = [replace(s, token_ids=(1,), logprobs=(x,)) for s, x in zip(made.steps, logprobs, strict=True)]
        return replace(made, steps=tuple(steps), tokenizer="t")

    def test_dimensions_are_aspects_and_samples_of_a_problem_are_compared(self) -> None:
        def choose(asked: Asked) -> tuple[float, float]:
            p = 0.9 if "fluent" in asked.user else 0.6
            return log(p), log(1 - p)

        policy = Scripted(lambda a, i: "", choose)
        sure, unsure = create("reward", "drm", policy=policy).judge(
            [self.sampled("5", -0.1, -0.1), self.sampled("6", -0.5, -2)]
        )
        assert sure.values == pytest.approx((1 / 3,) * 2) and unsure.values == (0.0, 0.0)
        assert sure.aspects["confidence"][0] == pytest.approx(-0.2)
        assert sure.aspects["relevance"][0] == pytest.approx(0.6) and sure.aspects["coherence"][0] == pytest.approx(0.9)
        assert not policy.sampled and sure.cost.calls == 3, "it writes nothing; there are no documents"

    def test_what_is_missing_is_a_reason(self) -> None:
        judge = create("reward", "drm", policy=Scripted(lambda a, i: "", lambda a: (log(0.5), log(0.5))))
        short, plain, alone = judge.judge([trace("5"), THREE, self.sampled("5", -1.0, -1.0)])
        assert "no reasoning" in str(short.failures[0]) and "no log-probabilities of its tokens" in str(
            plain.failures[0]
        )
        assert "no other trace" in str(alone.failures[0])
        silent = self.sampled("5", -1.0, -1.0)
        silent = replace(silent, steps=(replace(silent.steps[0], token_ids=(), logprobs=()), silent.steps[1]))
        assert "no reasoning" in str(judge.judge([silent])[0].failures[0]), "a first step without a token"
        mute = create("reward", "drm", policy=Scripted(lambda a, i: ""))
        assert "Yes and No have none" in str(mute.judge([self.sampled("5", -1.0, -1.0)])[0].failures[0])
        with pytest.raises(ValueError, match="not all 0"):
            create("reward", "drm", policy=Scripted(lambda a, i: ""), weights=(0.0, 0.0, 0.0))


class TestDGPRM:
    SCORES = ((8, 6, 7), (7, 6, 5), (5, 9, 4), (5, 6, 4))

    def test_the_card_s_front_and_pairs(self) -> None:
        assert front(self.SCORES) == [0, 2] and pareto_pairs(self.SCORES) == [(0, 1), (0, 3), (2, 3)]
        every = [(i, j) for i, j in product(range(4), repeat=2) if dominates(self.SCORES[i], self.SCORES[j])]
        assert every == [(0, 1), (0, 3), (1, 3), (2, 3)]

    def test_dominance_is_irreflexive_asymmetric_and_transitive_and_another_criterion_only_breaks_it(self) -> None:
        vectors: Sequence[tuple[int, ...]] = list(product((0, 1, 2), repeat=2))
        for a, b, c in product(vectors, repeat=3):
            assert not dominates(a, a) and not (dominates(a, b) and dominates(b, a))
            assert not (dominates(a, b) and dominates(b, c)) or dominates(a, c)
            if a != b and not dominates(a, b) and not dominates(b, a):
                assert not any(dominates((*a, x), (*b, y)) for x, y in product((0, 1), repeat=2))

    def test_the_same_criterion_twice_leaves_the_tree_as_it_is(self) -> None:
        tree = RewardTree()
        tree.insert(Criterion("logic", "the step follows"))
        assert tree.insert(Criterion("units", "units of all quantities are kept", "logic")) == "units"
        assert tree.insert(Criterion("Units!", "units of all the quantities are kept", "logic")) == "units"
        assert len(tree.nodes) == 2 and tree.support["units"] == 2
        assert tree.selected("logic", "are the units of all quantities kept?") == ["units"]
        assert tree.selected("logic", "zzz") == ["logic"] and hashed_words("") == [0.0] * 512

    def test_a_step_is_rated_by_what_matters_there_and_what_mattered_before(self) -> None:
        def write(asked: Asked, index: int) -> str:
            if "[Step]" in asked.user:
                listed = asked.user.partition("[Criteria]\n")[2].partition("\n\n")[0]
                return json.dumps({"scores": [8] * len(listed.splitlines())})
            first = "[Steps so far]\n(none)" in asked.user
            return json.dumps({"criteria": ["correctness" if first else "progress", "no such"], "analysis": "zzz"})

        policy = Scripted(write)
        judge = create("reward", "dg-prm", policy=policy)
        found = judge.judge([trace("a", "b")])[0]
        asked = [each.user.partition("[Criteria]\n")[2].partition("\n\n")[0] for each in policy.sampled[2:]]
        assert [line.partition(":")[0] for line in asked[1].splitlines()] == ["1. progress", "2. correctness"]
        assert found.values == pytest.approx((0.8, 0.8)) and found.aspects["progress"] == (None, 8.0)
        assert judge.at_most(2) == (2 * 2 * 2048, 4, 0) and found.cost.calls == 4

    def test_criteria_that_are_named_by_anything_but_a_name_are_passed_over(self) -> None:
        def write(asked: Asked, index: int) -> str:
            if "[Step]" in asked.user:
                return '{"scores": [7]}' if "2. " not in asked.user else '{"scores": [1, 1, 1]}'
            return '{"criteria": [{"name": "correctness"}, ["soundness"], 3, null, "progress"], "analysis": "zzz"}'

        found = create("reward", "dg-prm", policy=Scripted(write)).judge([trace("a")])[0]
        assert found.values == (0.7,) and list(found.aspects) == ["samples", "progress"]

    def test_a_name_that_is_taken_replaces_no_other_criterion(self) -> None:
        tree = RewardTree()
        tree.insert(Criterion("logic", "the step follows"))
        tree.insert(Criterion("units", "units of all quantities are kept", "logic"))
        assert tree.insert(Criterion("logic", "every inference is allowed by a rule", "logic")) == "logic"
        assert [node.name for node in tree.parents] == ["logic"] and tree.support["logic"] == 2

    def test_what_is_mined_under_a_fine_criterion_lies_beside_it(self) -> None:
        tree = RewardTree()
        tree.insert(Criterion("logic", "the step follows"))
        tree.insert(Criterion("units", "units of all quantities are kept", "logic"))
        said = {"criteria": [{"name": "signs", "description": "no sign is lost", "parent": "units"}]}
        mine(Scripted(lambda a, i: json.dumps(said)), [(THREE, trace("no"))], SamplingParams(), tree)
        assert tree.nodes["signs"].parent == "logic" and tree.selected("logic", "is a sign lost, or no?") == ["signs"]

    def test_candidates_for_one_step_get_the_same_criteria(self) -> None:
        policy = Scripted(lambda a, i: '{"criteria": ["soundness"], "analysis": ""}')
        create("reward", "dg-prm", policy=policy).judge([trace("a", "b"), trace("a", "c")])
        assert policy.sampled[1].user == policy.sampled[3].user, "what is asked does not show the candidate"

    def test_ratings_that_cannot_be_read_are_no_zero(self) -> None:
        for text in ("8", '{"scores": [8, 11, 3]}', '{"scores": [8]}'):
            assert "unparsable" in str(read_ratings(text, 3))
        found = create("reward", "dg-prm", policy=Scripted(lambda a, i: BROKEN)).judge([THREE])[0]
        assert found.values == (None,) * 3 and "HTTP 500" in str(found.failures[0])

    def test_criteria_are_mined_from_pairs_and_come_from_files(self, tmp_path: Path) -> None:
        said = {"criteria": [{"name": "units", "description": "units are kept", "parent": "physics"}, {"name": "x"}]}
        tree = RewardTree()
        policy = Scripted(lambda a, i: json.dumps(said))
        assert mine(policy, [(THREE, trace("no"))] * 2, SamplingParams(), tree) == 2
        assert tree.nodes["units"].parent == "physics" and tree.support["units"] == 2
        (tmp_path / "criteria.json").write_text('[{"name": "a"}]')
        with pytest.raises(ValueError, match="criteria are a list of objects with name, description and parent"):
            create("reward", "dg-prm", policy=policy, criteria=tmp_path / "criteria.json")
        (tmp_path / "criteria.json").write_text(
            '[{"name": "a", "description": "b"}, {"name": "c", "description": "d e f", "parent": "g"}]'
        )
        with pytest.raises(ValueError, match="'c' lies under 'g', which is no coarse criterion of the file"):
            create("reward", "dg-prm", policy=policy, criteria=tmp_path / "criteria.json")
