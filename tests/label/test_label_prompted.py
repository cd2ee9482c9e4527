"""Prompted judges: AURORA's votes, what counts as a reply, and every question a scripted critic can be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.label.prompted import (
    NO_REFERENCE,
    PROMPTS,
    Form,
    PromptedJudge,
    cut_after_error,
    prompted,
    read_verdict,
    read_verdicts,
    vote,
)
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Reason, Step, Trajectory
from tests.label.scripted_policy import trace

THREE = trace("3 + 4 = 7.", "7 + 0 = 8.", "The answer is 8.")


@dataclass
class Critic:
    """Answers a question as `reply(question, sample index)` says; None is a failed call, a trailing … a cut reply."""

    reply: Callable[[str, int], str | None]
    asked: list[str] = field(default_factory=list)
    calls: int = 0
    name: str = "critic"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.calls += 1
        return [[self._answer(prefix.problem.text, i) for i in range(first, first + n)] for prefix in prefixes]

    def _answer(self, question: str, index: int) -> Completion:
        self.asked.append(question)
        text, cost = self.reply(question, index), Cost(generated_tokens=5, calls=1)
        if text is None:
            return Completion((), "error", index, error="timeout", cost=cost)
        return Completion((Step(text),), "length" if text.endswith("…") else "end", index, cost=cost)


def test_votes_are_those_of_the_card() -> None:
    votes = [(1, 0, 0), (1, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert vote(votes) == [1, 0, 0] and vote(votes, tie="unlabelled") == [1, None, 0]
    assert vote([*votes, (1, 1, 0)]) == [1, 1, 0]
    assert cut_after_error([1, 0, 1]) == [1, 0, 0] and cut_after_error([1, 1]) == [1, 1]
    assert cut_after_error([1, None, 0, 1]) == [1, None, 0, 0]


def test_a_list_of_the_wrong_length_is_discarded_and_not_padded() -> None:
    assert read_verdicts("[1, 0]", 3) == "unparsable: 2 verdicts for 3 steps"
    assert read_verdicts("Step 1 [1] … so [1,0,\n1]", 3) == (1, 0, 1), "the last list counts"
    for babble in ("", "1 0 1", "[1, 2, 1]", "[]]", "[1 0 1]", "[01, 1]", "[10, 1, 1]"):
        assert isinstance(read_verdicts(babble, 3), str), babble


@given(st.lists(st.integers(0, 1), min_size=1, max_size=9), st.text(alphabet="abc 0[]\n", max_size=20))
def test_any_list_is_read_back_behind_any_text(verdicts: list[int], before: str) -> None:
    assert read_verdicts(f"{before}\n{verdicts}", len(verdicts)) == tuple(verdicts)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("so \\boxed{Yes}", 1), ("\\boxed{no}", 0), ("No.", 0), ("\\boxed{\\text{Yes}}", 1), ("**Yes**", 1)],
)
def test_verdicts_on_a_step(text: str, verdict: int) -> None:
    assert read_verdict(text) == verdict


@pytest.mark.parametrize("text", ["", "No doubt this is right", "\\boxed{maybe}", "I would say yes or no"])
def test_a_reply_that_says_neither_is_no_verdict(text: str) -> None:
    assert isinstance(read_verdict(text), str)


def test_a_trace_is_asked_about_once_with_the_reference_in_view() -> None:
    critic = Critic(lambda q, i: "The second is wrong. [1, 0, 1]")
    (said,) = prompted(critic).judge([THREE])
    assert said.values == (1.0, 0.0, 0.0), "what is built on a wrong step is wrong"
    (question,) = critic.asked
    assert "[Reference answer]\n7\n" in question and "Step 2: 7 + 0 = 8." in question and "the 3 steps" in question
    assert said.rationales == (None, None, "The second is wrong. [1, 0, 1]")
    assert said.cost.calls == 1 and said.aspects["votes"] == (1.0, 1.0, 1.0)
    (uncut,) = prompted(critic, cut=False, reference=False).judge([THREE])
    assert uncut.values == (1.0, 0.0, 1.0) and f"[Reference answer]\n{NO_REFERENCE}\n" in critic.asked[-1]


def test_an_ensemble_of_prompts_votes_and_unreadable_replies_have_no_vote() -> None:
    replies = iter(["[1, 0, 0]", "[1, 1, 0]", "what?", "[1, 0]"])
    critic = Critic(lambda q, i: next(replies))
    (said,) = prompted(critic, prompts="all", tie="unlabelled", cut=False).judge([THREE])
    assert said.values == (1.0, None, 0.0) and said.failures == (None, "the votes are tied", None)
    assert len(set(critic.asked)) == len(PROMPTS) and critic.calls == 1, "four questions in one batch"
    assert said.aspects["votes"] == (2.0, 2.0, 2.0)


def test_self_consistency_is_the_majority_of_samples() -> None:
    critic = Critic(lambda q, i: ("[1, 1, 1]", "[1, 0, 0]", "[1, 0, 0]")[i])
    (said,) = prompted(critic, n=3).judge([THREE])
    assert said.values == (1.0, 0.0, 0.0) and said.cost.calls == 3
    with pytest.raises(ValueError, match="temperature 0"):
        prompted(critic, n=3, temperature=0.0)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (None, "timeout"),
        ("I think that…", "cut at 2048 tokens before the verdict"),
        ("blah", "unparsable: no list of 0 and 1 in the reply"),
    ],
)
def test_a_judge_that_fails_or_babbles_leaves_steps_unlabelled(reply: str | None, reason: str) -> None:
    (said,) = prompted(Critic(lambda q, i: reply)).judge([THREE])
    assert said.values == (None,) * 3 and said.failures == (reason,) * 3


def test_steps_can_be_asked_about_one_by_one() -> None:
    critic = Critic(
        lambda q, i: "It is wrong: \\boxed{No}" if "Is step 2" in q else None if "Is step 3" in q else "Yes"
    )
    (said,) = prompted(critic, form="step", cut=False).judge([THREE])
    assert said.values == (1.0, 0.0, None) and said.failures == (None, None, "timeout")
    assert critic.calls == 1 and "Step 3" not in critic.asked[1], "later steps are not shown"
    assert said.rationales[1] == "It is wrong: \\boxed{No}"
    (cut,) = prompted(critic, form="step").judge([THREE])
    assert cut.values == (1.0, 0.0, 0.0)


def test_a_meta_critique_takes_back_unsound_critiques() -> None:
    def reply(question: str, index: int) -> str:
        if "[Critique]" in question:
            return "\\boxed{No}" if "[1, 1, 1]" in question else "\\boxed{Yes}"
        return ("[1, 1, 1]", "[1, 0, 0]")[index]

    critic = Critic(reply)
    (said,) = prompted(critic, n=2, meta=True).judge([THREE])
    assert said.values == (1.0, 0.0, 0.0) and said.aspects["votes"][0] == 1
    assert said.cost.calls == 4 and critic.calls == 2
    unsound = Critic(lambda q, i: "\\boxed{No}" if "[Critique]" in q else "[1, 1, 1]")
    (none,) = prompted(unsound, meta=True).judge([THREE])
    assert none.values == (None,) * 3 and none.failures[0] == "the model finds its own critique unsound"
    babbling = Critic(lambda q, i: "hm" if "[Critique]" in q else "[1, 1, 1]")
    (none,) = prompted(babbling, meta=True).judge([THREE])
    assert str(none.failures[0]).startswith("meta-critique: unparsable")
    thinking = Critic(lambda q, i: "Shall I say \\boxed{Yes} or …" if "[Critique]" in q else "[1, 1, 1]")
    (none,) = prompted(thinking, meta=True).judge([THREE])
    assert none.values == (None,) * 3 and none.failures[0] is not None and none.failures[0].reason is Reason.CUT


@pytest.mark.parametrize("form", ["trace", "step", "first-error"])
def test_what_a_step_did_and_what_came_back_is_in_view(form: Form) -> None:
    used = Step("I ask.", action="calc(2 + 2)", observation="5")
    critic = Critic(lambda q, i: "[1]")
    prompted(critic, form=form).judge([Trajectory("t", THREE.problem, (used,))])
    assert "Step 0: " * (form == "first-error") + "I ask.\ncalc(2 + 2)\n5" in critic.asked[0]


def test_traces_keep_their_order_and_an_empty_one_asks_nothing() -> None:
    critic = Critic(lambda q, i: "[1]" if "the 1 steps" in q else "[0, 0, 0]")
    for form, count in (("trace", 2), ("step", 4)):
        critic.asked.clear()
        judge = PromptedJudge(critic, form=form)  # type: ignore[arg-type]
        said = judge.judge([THREE, trace(), trace("The answer is 7.")])
        assert [len(j.values) for j in said] == [3, 0, 1] and len(critic.asked) == count
    assert prompted(critic).judge([]) == []


def test_braces_in_a_trace_do_no_harm() -> None:
    critic = Critic(lambda q, i: "[1]")
    (said,) = prompted(critic).judge([trace("So \\boxed{7} and {n}.")])
    assert said.values == (1.0,) and "\\boxed{7} and {n}." in critic.asked[0]


def test_settings_are_part_of_the_name_and_unknown_prompts_are_refused() -> None:
    critic = Critic(lambda q, i: "[1]")
    judges = [
        prompted(critic), prompted(critic, prompts="list"), prompted(critic, form="step"), prompted(critic, n=2),
        prompted(critic, reference=False), prompted(critic, meta=True), prompted(critic, seed=1),
        prompted(critic, cut=False), prompted(critic, tie="unlabelled"), prompted(critic, max_tokens=9),
    ]  # fmt: skip
    assert len({judge.name for judge in judges}) == len(judges)
    with pytest.raises(ValueError, match=r"'sonnet'.*reason, list"):
        prompted(critic, prompts="sonnet")
