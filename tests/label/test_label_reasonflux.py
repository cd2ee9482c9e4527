"""ReasonFlux-PRM: fusion, coherence and scores on the card's worked numbers; thinking is labelled, its response is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from footfall.label.reasonflux import (
    LOWEST,
    NOT_THOUGHT,
    Fused,
    TemplateGuided,
    coherence,
    fused,
    mixed_reward,
    sample_score,
    similarity,
    thinking_steps,
)
from footfall.policy.protocol import Completion, Finish, SamplingParams
from footfall.types import Judgement, Problem, Step, Trajectory


def trace(*steps: str, name: str = "t") -> Trajectory:
    return Trajectory(name, Problem(f"p-{name}", "What is 1 + 2?", "3"), tuple(map(Step, steps)))


class Says:
    """A judge with one value for all steps, and one for the trajectory."""

    def __init__(self, step: float | None, final: float | None = None) -> None:
        self.step, self.final, self.name = step, final, "says"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (self.step,) * len(t.steps), self.name, self.final) for t in trajectories]


def test_the_card_s_fusion_favours_the_larger_signals() -> None:
    weights = [math.exp(r) for r in (0.8, 0.6, -0.5)]
    assert [w / sum(weights) for w in weights] == pytest.approx([0.4782, 0.3915, 0.1303], abs=5e-5)
    assert fused((0.8, 0.6, -0.5)) == pytest.approx(0.552285, abs=1e-6)
    assert fused((0.8, None, -0.5)) == pytest.approx(fused((0.8, -0.5)) or 0.0), "the others share its weight"
    assert fused((None, None)) is None


def test_the_card_s_coherence_scores_and_mix() -> None:
    assert coherence(0.9, (0.2, 0.1), 0.1) == pytest.approx(-0.001247, abs=1e-6)
    assert coherence(0.9, (0.2, 0.1), 1.0) == pytest.approx(-0.665732, abs=1e-6)
    assert coherence(0.0, (1.0,), 0.01) == LOWEST and coherence(0.3, (), 0.1) == 0.0
    assert sample_score((0.7, 0.5, 0.6), 0.5) == pytest.approx(1.1)
    assert sample_score((), 0.5) is None and sample_score((0.7,), None) is None
    assert mixed_reward(1.0, 0.6) == pytest.approx(0.68)


def test_similar_texts_share_words_and_numbers() -> None:
    assert similarity("So 1 + 2 = 3", "so 3 = 1 + 2!") == pytest.approx(1.0)
    assert similarity("apples", "pears") == 0.0 == similarity("", "pears")


def test_thinking_ends_at_its_tag_or_before_the_last_step() -> None:
    assert thinking_steps(trace("<think>a", "b</think>", "c", "d")) == 2
    assert thinking_steps(trace("a", "b", "c")) == 2 and thinking_steps(trace()) == 0


def test_thinking_steps_are_labelled_and_the_trajectory_at_its_end() -> None:
    one = trace("1 + 2 = 3", "The moon is far", "So 1 + 2 = 3", name="a")
    said, _ = Fused(Says(0.6), Says(None, 0.75)).judge([one, trace("Pears", "Plums", name="b")])
    assert said.value == 0.75 and said.aspects["trajectory"] == (None, None, 0.75)
    assert said.values[2] is None and said.failures[2] is NOT_THOUGHT
    assert said.values[0] is not None and said.values[1] is not None and said.values[0] > said.values[1]
    assert said.aspects["align"][0] is not None and said.aspects["align"][1] == 0.0
    lacking, _ = Fused(Says(None), Says(None, None)).judge([one, trace("Pears", "Plums", name="b")])
    assert lacking.values[0] is not None, "without a judge's word the other signals are fused"


class Follows:
    """A policy that states a strategy, and answers rightly every other time where it is given one."""

    name = "follows"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.asked += [prefix.problem.text for prefix in prefixes]
        samples = range(first, first + n)
        return [[Completion((Step(self._said(p.problem.text, k)),), "end", k) for k in samples] for p in prefixes]

    def _said(self, asked: str, k: int) -> str:
        return f"The answer is {3 if k % 2 else 4}." if "Follow this strategy" in asked else "1. Add both numbers."


def test_a_trajectory_is_worth_how_often_its_template_leads_to_the_answer() -> None:
    policy = Follows()
    (said,) = TemplateGuided(policy, 4).judge([trace("1 + 2 = 3", "The answer is 3.")])
    assert said.value == 0.5
    assert policy.asked[-1].endswith("Follow this strategy:\n1. Add both numbers.")
    assert "[Solution]\n1 + 2 = 3" in policy.asked[0]


class Breaks(Follows):
    """The same, but some of its replies fail or are cut."""

    def __init__(self, template: Finish, answers: Sequence[Finish]) -> None:
        super().__init__()
        self.template, self.answers = template, answers

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        rows = super().sample(prefixes, n, params, first)
        return [
            [replace(c, finish=self.answers[c.index] if "Follow" in p.problem.text else self.template) for c in row]
            for p, row in zip(prefixes, rows, strict=True)
        ]


@pytest.mark.parametrize(
    ("template", "answers", "value"),
    [
        (
            "end",
            ("end", "length", "end", "error"),
            0.0,
        ),  # the answers with odd numbers are right, but those were broken
        ("end", ("length", "end", "error", "end"), 2 / 3),
        ("end", ("length",) * 4, None),
        ("end", ("error",) * 4, None),
        ("error", ("end",) * 4, None),
        ("length", ("end",) * 4, None),
    ],
)
def test_what_was_cut_is_not_right_and_without_a_template_nobody_can_say(
    template: Finish, answers: tuple[Finish, ...], value: float | None
) -> None:
    (said,) = TemplateGuided(Breaks(template, answers), 4).judge([trace("1 + 2 = 3", "The answer is 3.")])
    assert said.value == (None if value is None else pytest.approx(value))


def test_coherence_is_no_signal_where_there_is_no_other_problem_to_hold_a_step_against() -> None:
    one = trace("1 + 2 = 3", "So 1 + 2 = 3", name="a")
    (alone,) = Fused(Says(0.6), Says(None, 0.75)).judge([one])
    assert alone.aspects["coherence"] == (None, None)
    assert alone.values[0] == pytest.approx(fused((alone.aspects["align"][0], 0.6)))
