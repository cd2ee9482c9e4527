"""Judges of steps whose verdict is read from words: StepWiser's chunks and SPARK's verifications without a reference."""

from __future__ import annotations

import pytest

from footfall.label.relative_progress import effective_progress, progress_ratios, relative_progress
from footfall.registry import create
from footfall.reward.generative.spark import outcome_consensus, read_verification, step_consensus
from footfall.reward.generative.stepwiser import chunk_reward, read_chunks, segmented
from footfall.types import Judgement
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.reward.generative.scripted import BROKEN, CUT, THREE, Asked, Scripted, trace

RIGHT, WRONG = "\\boxed{correct}", "\\boxed{incorrect}"


class TestStepWiser:
    def test_the_card_s_values_give_its_labels(self) -> None:
        q = [0.75, 0.75, 0.25, 0.0]
        effective = effective_progress(0.5, q, alpha=0.8, best_of=4)
        assert effective == pytest.approx([0.79688, 0.75, 0.0, -0.54688], abs=1e-5)
        gains = [e - v for e, v in zip(effective_progress(0.5, q, alpha=1.0, best_of=4), q, strict=True)]
        assert gains == pytest.approx([0.05859, 0.0, -0.3125, -0.68359], abs=1e-5), (
            "A, of the policy that takes the best of 4"
        )
        assert progress_ratios(0.5, q) == pytest.approx([1.5, 1.0, 0.333, 0.0], abs=5e-4)
        assert [value > 1e-9 for value in effective] == [True, True, False, False]
        assert [value > 0 for value in q] == [True, True, True, False], "Abs-Q"
        assert [ratio > 0.8 for ratio in progress_ratios(0.5, q)] == [True, True, False, False]

    def test_the_labeller_goes_by_effective_progress(self) -> None:
        world, policy = ArithmeticWorld(), ArithmeticPolicy()
        traces = [t for _, t in world.traces(policy, 6, seed=2)]
        found = relative_progress(policy, 16, 16, compare="effective").judge(traces)
        for said in found:
            rates = [rate or 0.0 for rate in said.aspects["success_rate"]]
            if said.values and said.values[0] is not None:
                expected = effective_progress(said.aspects["pass_rate"][0] or 0.0, rates)
                assert said.values == tuple(float(value > 1e-9) for value in expected)
        assert "effective(alpha=0.8,n=4)>0" in found[0].judge

    def test_a_step_is_worth_the_share_that_calls_it_positive(self) -> None:
        said = ["so \\boxed{Positive}", "\\boxed{Negative} no: \\boxed{positive}", "\\boxed{Negative}", "hm", BROKEN]
        found = create("reward", "stepwiser", policy=Scripted(lambda a, i: said[i]), n=5).judge([THREE])[0]
        assert found.values == pytest.approx((2 / 3,) * 3) and found.aspects["samples"] == (3.0,) * 3
        assert found.rationales[0] == said[0]

    def test_without_a_verdict_there_is_no_value(self) -> None:
        found = create("reward", "stepwiser", policy=Scripted(lambda a, i: f"\\boxed{{Positive}}{CUT}")).judge([THREE])
        assert found[0].values == (None,) * 3 and "cut at 3096 tokens" in str(found[0].failures[0])

    def test_each_chunk_is_shown_with_what_came_before_it(self) -> None:
        policy = Scripted(lambda a, i: "\\boxed{Positive}")
        create("reward", "stepwiser", policy=policy).judge([THREE])
        assert "[Solution so far]\n(nothing yet)" in policy.sampled[0].user
        assert "Step 1: 3 * 4 = 12.\n\n[Chunk]\n2 + 12 = 15." in policy.sampled[1].user

    def test_rl_pays_for_the_label_alone_so_that_a_constant_judge_earns_half_on_balanced_data(self) -> None:
        paid = [chunk_reward("\\boxed{Positive}", label) for label in (True, False)]
        assert paid == [1.0, 0.0] and chunk_reward("hm", True) == 0

    def test_chunks_must_be_the_text_byte_for_byte(self) -> None:
        text = "We add.\n\nIt is 5.\nCheck: 5."
        tagged = "<chunk>We add.\n\n</chunk><chunk>It is 5.\nCheck: 5.</chunk>"
        assert read_chunks(tagged, text) == ["We add.\n\n", "It is 5.\nCheck: 5."]
        assert read_chunks(tagged.replace("5.<", "5<"), text) is None and read_chunks(text, text) is None

    def test_the_first_reply_that_changes_nothing_cuts_the_trace_anew(self) -> None:
        given = trace("a", "b", "c")
        said = ["<chunk>a\n\nb</chunk>", "<chunk>a\n\n</chunk><chunk>b\n\nc</chunk>"]
        (found,) = segmented(Scripted(lambda a, i: said[i]), [given], n=2)
        assert found is not None and [step.text for step in found.steps] == ["a\n\n", "b\n\nc"]
        assert found.text == given.text.removesuffix("\n\n")
        assert segmented(Scripted(lambda a, i: "no"), [given], n=2) == [None]


class TestSpark:
    def test_the_card_s_rows_vote_and_ties_are_incorrect(self) -> None:
        rows = [(True, True, False), (True, False, False), (True, True, True)]
        assert step_consensus(rows) == (True, True, False) and not outcome_consensus(rows)
        assert step_consensus(rows[:2]) == (True, False, False)

    def test_a_verification_has_a_verdict_a_step_and_a_final_one_that_is_theirs(self) -> None:
        assert read_verification(f"{RIGHT}{WRONG} Final verdict: **No**", 2) == (True, False)
        for text in (f"{RIGHT} Final verdict: Yes", f"{RIGHT}{RIGHT}", f"{RIGHT}{RIGHT} Final verdict: No"):
            assert isinstance(read_verification(text, 2), str)

    def judged(self, *texts: str, rule: str = "step") -> tuple[Judgement, Scripted]:
        def write(asked: Asked, index: int) -> str:
            return texts[-1] if "[Verification]" in asked.user else texts[index]

        policy = Scripted(write)
        n = len(texts) - (rule in ("critique", "hybrid"))
        return create("reward", "spark", policy=policy, n=n, rule=rule).judge([THREE])[0], policy

    SAID = (f"1 {RIGHT}{RIGHT}{WRONG} Final verdict: No", f"2 {RIGHT}{WRONG}{WRONG} Final verdict: No",
            f"3 {RIGHT}{RIGHT}{RIGHT} Final verdict: Yes", "babble")  # fmt: skip

    def test_steps_are_voted_on_and_unreadable_verifications_have_no_vote(self) -> None:
        found, _ = self.judged(*self.SAID)
        assert found.values == (1.0, 1.0, 0.0) and found.aspects["samples"] == (3.0,) * 3 and found.value == 0.0
        assert found.aspects["agreed"] == pytest.approx((1.0, 2 / 3, 2 / 3))
        assert found.rationales[2] == self.SAID[0], "a verification that says what was voted: data to train on"

    def test_by_outcome_the_first_verification_with_the_voted_verdict_counts(self) -> None:
        found, _ = self.judged(self.SAID[2], self.SAID[1], self.SAID[0], rule="outcome")
        assert found.values == (1.0, 0.0, 0.0)

    def test_a_critique_of_a_verification_counts_in_its_place(self) -> None:
        better = f"better {RIGHT}{WRONG}{WRONG} Final verdict: No"
        found, policy = self.judged(self.SAID[2], better, rule="critique")
        assert found.values == (1.0, 0.0, 0.0) and self.SAID[2] in policy.sampled[1].user and found.cost.calls == 2
        found, policy = self.judged(*self.SAID[:3], better, rule="hybrid")
        assert self.SAID[0] in policy.sampled[-1].user and found.values == (1.0, 0.0, 0.0) and found.cost.calls == 4

    def test_where_nothing_can_be_read_there_is_a_reason(self) -> None:
        found, _ = self.judged("babble", f"{RIGHT}")
        assert found.values == (None,) * 3 and "0 boxed verdicts for 3 steps" in str(found.failures[0])


@pytest.mark.parametrize(
    ("name", "settings", "tokens", "calls"),
    [("stepwiser", {"n": 2}, 60, 6), ("spark", {"n": 4}, 40, 4), ("spark", {"n": 2, "rule": "critique"}, 40, 4)],
)
def test_what_they_write_at_most_is_what_they_say(
    name: str, settings: dict[str, int | str], tokens: int, calls: int
) -> None:
    judge = create("reward", name, policy=Scripted(lambda a, i: "hm"), max_tokens=10, **settings)
    cost = judge.judge([THREE])[0].cost
    assert judge.at_most(3) == (tokens, calls, 0) and (cost.generated_tokens, cost.calls) == (tokens, calls)
