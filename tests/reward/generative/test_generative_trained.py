"""The trained generative PRMs on scripted replies: what they are asked, word for word, and how replies become values."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

import pytest

from footfall.policy.protocol import Completion, SamplingParams
from footfall.registry import create
from footfall.reward.generative.thinkprm import read_verdicts
from footfall.types import Judgement, Message, Step, Trajectory
from tests.reward.generative.scripted import BROKEN, CUT, THREE, Asked, Scripted, trace

PAIR = (log(0.7), log(0.2))
"""p(Yes) = 0.777778."""


class TestGenPRM:
    """Without code unless an executor is given."""

    @staticmethod
    def write(asked: Asked, index: int) -> str:
        if asked.opening.endswith("$\\boxed"):
            return "{Yes}$\n</output>\nmore"
        return "it is plain.</analyze>\n<verify>\nprint(1)"

    def test_each_step_is_a_turn_and_its_critique_stays_in_the_dialogue(self) -> None:
        policy = Scripted(self.write, lambda asked: PAIR)
        found = create("reward", "genprm", policy=policy).judge([THREE])[0]
        assert found.values == pytest.approx((0.777778,) * 3, abs=1e-6)
        first, _, second = policy.sampled[:3]
        assert first.messages == (
            Message("system", "You are a math teacher. Your task is to review and critique the paragraphs in solution "
                              "step by step."),
            Message("user", "Question: What is 2 + 3 * 4?\n\n3 * 4 = 12."),
        )  # fmt: skip
        assert first.opening == "<analyze>\nLet's analyze the Paragraph 1 step by step: "
        critique = (
            "<analyze>\nLet's analyze the Paragraph 1 step by step: it is plain.</analyze>\n"
            "<output>\n**Judgement**: $\\boxed{Yes}$\n</output>\n"
        )
        assert second.messages[2:] == (Message("assistant", critique), Message("user", "2 + 12 = 15."))
        assert found.rationales[0] == critique
        read, options = policy.chosen[0]
        assert read.opening.endswith("**Judgement**: $\\boxed{") and options == ("Yes", "No")

    def test_the_name_says_that_code_was_left_out(self) -> None:
        policy = Scripted(self.write)
        assert create("reward", "genprm", policy=policy).name.startswith("genprm-without-code:")
        assert create("reward", "genprm", policy=policy, execute=lambda code: "").name.startswith("genprm:")

    def test_code_is_run_by_the_executor_alone_and_its_output_shown(self) -> None:
        ran: list[str] = []

        def execute(code: str) -> str:
            ran.append(code)
            return "12\n"

        def write(asked: Asked, index: int) -> str:
            if asked.opening.endswith("```python\n"):
                return "print(3 * 4)\n```\n[Code Output]\n\n```\n999\n```"
            if asked.opening.endswith("[Code Output]\n\n```\n12\n```\n"):
                return "It agrees.</verify>\n<output>\n**Judgement**: $\\boxed{No}$\n</output>\n"
            return "hm.</analyze>\n"

        policy = Scripted(write, lambda asked: (log(0.1), log(0.9)))
        found = create("reward", "genprm", policy=policy, execute=execute).judge([trace("3 * 4 = 12.")])[0]
        assert ran == ["print(3 * 4)"] and found.values == pytest.approx((0.1,))
        assert found.rationales[0] is not None and "999" not in found.rationales[0]

    def test_after_three_rounds_the_verdict_comes_from_the_analysis_alone(self) -> None:
        ran: list[str] = []

        def execute(code: str) -> str:
            ran.append(code)
            return "x"

        def write(asked: Asked, index: int) -> str:
            if asked.opening.endswith("$\\boxed"):
                assert "python" not in asked.opening
                return "{Yes}$"
            return "print(1)\n```\n" if "<verify>" in asked.opening else "hm.</analyze>\n"

        judge = create("reward", "genprm", policy=Scripted(write, lambda asked: PAIR), execute=execute)
        assert judge.judge([trace("a")])[0].values == pytest.approx((0.777778,), abs=1e-6)
        assert len(ran) == 3

    def test_an_analysis_that_was_cut_is_closed_and_asked_for_its_verdict(self) -> None:
        def write(asked: Asked, index: int) -> str:
            return (
                "{No}$"
                if asked.opening.endswith("on and on</analyze>\n<output>\n**Judgement**: $\\boxed")
                else f"on and on{CUT}"
            )

        found = create("reward", "genprm", policy=Scripted(write, lambda asked: (log(0.2), log(0.6)))).judge(
            [trace("a")]
        )
        assert found[0].values == pytest.approx((0.25,))

    def test_a_critique_without_a_verdict_is_no_half_and_ends_the_dialogue(self) -> None:
        def write(asked: Asked, index: int) -> str:
            known = "Paragraph 1" in asked.opening
            return ("{Yes}$" if known else "{perhaps}$") if asked.opening.endswith("boxed") else "x</analyze>\n"

        policy = Scripted(write, lambda asked: PAIR)
        found = create("reward", "genprm", policy=policy).judge([THREE])[0]
        assert found.values[0] == pytest.approx(0.777778, abs=1e-6) and found.values[1:] == (None, None)
        assert found.failures[0] is None
        assert "without Yes or No" in str(found.failures[1]) and "step 2 has no critique" in str(found.failures[2])

    def test_several_critiques_are_averaged_and_all_traces_share_a_batch(self) -> None:
        def choose(asked: Asked) -> tuple[float, float]:
            p = {"a": 0.9, "b": 0.8, "c": 0.2}[asked.opening.split("step: ")[1][0]]
            return log(p), log(1 - p)

        def write(asked: Asked, index: int) -> str:
            return "{Yes}$" if asked.opening.endswith("boxed") else "abc"[index] + "</analyze>\n"

        policy = Scripted(write, choose)
        found = create("reward", "genprm", policy=policy, n=3).judge([trace("a"), trace("b", id="u")])
        assert [j.values for j in found] == [pytest.approx((0.633333,), abs=1e-6)] * 2
        assert found[0].aspects["samples"] == (3.0,) and policy.calls == [2, 6]

    def test_a_server_that_fails_or_gives_no_logprobs_is_told(self) -> None:
        broken = create("reward", "genprm", policy=Scripted(lambda a, i: BROKEN)).judge([THREE])[0]
        assert broken.values == (None, None, None) and "HTTP 500" in str(broken.failures[0])
        mute = create("reward", "genprm", policy=Scripted(self.write)).judge([THREE])[0]
        assert mute.values == (None, None, None) and "no log-probabilities" in str(mute.failures[0])


def test_a_policy_that_cannot_say_how_likely_a_text_is_gives_reasons() -> None:
    class Mute:
        name = "mute"

        def sample(
            self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
        ) -> list[list[Completion]]:
            return [[Completion((Step("fine"),), "end", i) for i in range(first, first + n)] for _ in prefixes]

    found = create("reward", "thinkprm", policy=Mute()).judge([THREE])[0]
    assert found.values == (None, None, None) and "no log-probabilities" in str(found.failures[0])


class TestThinkPRM:
    def judged(self, policy: Scripted, **options: Any) -> Judgement:
        found: Judgement = create("reward", "thinkprm", policy=policy, **options).judge([THREE])[0]
        return found

    def test_each_prefix_is_a_question_and_the_value_p_yes(self) -> None:
        def choose(asked: Asked) -> tuple[float, float]:
            return (log(0.6), log(0.3)) if "15" not in asked.user else (log(0.1), log(0.9))

        policy = Scripted(lambda a, i: " Step 1: fine \\boxed{correct}\n</think>\nIs the solution correct? Yes", choose)
        found = self.judged(policy)
        assert found.values == pytest.approx((0.666667, 0.1, 0.1), abs=1e-6) and found.value == pytest.approx(0.1)
        asked = policy.sampled[1]
        assert asked.opening == "\nLet's verify step by step:" and policy.calls == [3]
        assert asked.user == (
            "You are given a math problem and a proposed step-by-step solution:\n\n[Math Problem]\n\nWhat is 2 + 3 * 4?\n\n"
            "[Solution]\n\nStep 1: 3 * 4 = 12.\nStep 2: 2 + 12 = 15.\n\nReview and critique each step in the proposed "
            "solution to determine whether each step is correct. If the solution is incomplete, only verify the provided "
            "steps."
        )
        read, options = policy.chosen[1]
        assert options == (" yes", " no")
        assert read.opening == (
            "\nLet's verify step by step: Step 1: fine \\boxed{correct}\n\nIs the solution correct?"
        )

    def test_a_chain_stops_before_a_step_that_is_not_there(self) -> None:
        policy = Scripted(lambda a, i: "Step 1: ok. Step 2: ok. Step 3: ok. Step 4: oh", lambda a: PAIR)
        self.judged(policy)
        ends = [read.opening.split("step by step:")[1] for read, _ in policy.chosen]
        assert ends == [f"{text}\nIs the solution correct?" for text in ("Step 1: ok. ", "Step 1: ok. Step 2: ok. ",
                        "Step 1: ok. Step 2: ok. Step 3: ok. ")]  # fmt: skip

    def test_a_label_that_the_step_brings_is_not_doubled(self) -> None:
        policy = Scripted(lambda a, i: "x", lambda a: PAIR)
        create("reward", "thinkprm", policy=policy).judge([trace("Step 1: a", "## Step 2: b")])
        assert "[Solution]\n\nStep 1: a\nStep 2: b\n\n" in policy.sampled[1].user

    def test_chains_are_averaged_and_those_that_fail_are_left_out(self) -> None:
        said = {"a": 0.98, "b": 0.02, "c": 0.91, "d": 0.88}

        def choose(asked: Asked) -> tuple[float, float]:
            p = said[asked.opening.split("step by step:")[1][0]]
            return log(p), log(1 - p)

        found = self.judged(Scripted(lambda a, i: "abcd"[i], choose), n=4)
        assert found.values == pytest.approx((0.6975,) * 3, abs=1e-6)
        found = self.judged(Scripted(lambda a, i: ["a", f"b{CUT}", BROKEN, "d"][i], choose), n=4)
        assert found.values == pytest.approx((0.93,) * 3) and found.aspects["samples"] == (2.0,) * 3

    def test_further_rounds_make_the_chain_look_again_before_it_decides(self) -> None:
        def write(asked: Asked, index: int) -> str:
            return "A</think>" if asked.opening.endswith("by step:") else "B</think>"

        policy = Scripted(write, lambda a: PAIR)
        found = create("reward", "thinkprm", policy=policy, rounds=3).judge([trace("a")])[0]
        chain = "ALet me double checkBLet's verify againB"
        assert policy.chosen[0][0].opening == f"\nLet's verify step by step:{chain}\nIs the solution correct?"
        assert found.rationales == (chain,) and found.cost.generated_tokens == 30
        with pytest.raises(ValueError, match="goes with n=1"):
            create("reward", "thinkprm", policy=policy, rounds=2, n=2)

    def test_a_round_that_fails_is_a_reason(self) -> None:
        policy = Scripted(lambda a, i: "A</think>" if a.opening.endswith("by step:") else BROKEN, lambda a: PAIR)
        found = create("reward", "thinkprm", policy=policy, rounds=2).judge([trace("a")])[0]
        assert found.values == (None,) and "HTTP 500" in str(found.failures[0])

    def test_a_chain_that_was_cut_is_no_opinion(self) -> None:
        found = self.judged(Scripted(lambda a, i: f"on and on{CUT}", lambda a: PAIR))
        assert found.values == (None,) * 3 and found.value is None and "cut at 8172 tokens" in str(found.failures[0])

    def test_verdicts_come_from_one_chain_on_the_whole(self) -> None:
        text = "Step 1: \\boxed{correct} Step 2: \\boxed{incorrect}\n</think>"
        policy = Scripted(lambda a, i: text, lambda a: (log(0.1), log(0.9)))
        found = self.judged(policy, steps="verdicts")
        assert found.values == (1.0, 0.0, None) and found.value == pytest.approx(0.1) and policy.calls == [1]
        assert found.failures == (None, None, "after the first error")

    def test_verdicts_end_at_the_first_error_and_are_never_more_than_the_steps(self) -> None:
        right, wrong = "\\boxed{correct}", "\\boxed{incorrect}"
        assert read_verdicts(right + wrong + right, 3) == [True, False]
        assert read_verdicts(r"\boxed{ \text{Correct} } \boxed{\textbf{incorrect}}", 3) == [True, False]
        assert "4 boxed verdicts for 3" in str(read_verdicts(right * 4, 3))
        assert "no step" in str(read_verdicts("fine", 3))


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    """A short one in the place of the long one, of the same form."""
    path = tmp_path / "prompt.txt"
    path.write_text("Check.\n\nQuestion: {}\nPrevious Steps: {}\nNow Step: {}\nReply: \n")
    return path


class TestRPRM:
    def test_the_prompt_shows_question_previous_steps_and_now_step(self, prompt: Path) -> None:
        policy = Scripted(lambda a, i: "Fine. Verification: Is the step correct (Yes/No)? Yes", lambda a: PAIR)
        found = create("reward", "r-prm", policy=policy, prompt=prompt, n=1).judge([THREE])[0]
        assert found.values == pytest.approx((0.777778,) * 3, abs=1e-6) and policy.calls == [3]
        assert policy.sampled[0].messages == (
            Message("system", "You are a helpful assistant."),
            Message("user", "Check.\n\nQuestion: What is 2 + 3 * 4?\nPrevious Steps: Since the Now Step is the first step, "
                            "there are no Previous Steps.\nNow Step: Step 1: 3 * 4 = 12.\nReply: "),
        )  # fmt: skip
        assert (
            "Previous Steps: Step 1: 3 * 4 = 12.\nStep 2: 2 + 12 = 15.\nNow Step: Step 3: The answer is 15.\n"
            in policy.sampled[2].user
        )
        read, options = policy.chosen[0]
        assert read.opening == "Fine. Verification: Is the step correct (Yes/No)?" and options == (" Yes", " No")

    def test_ten_critiques_are_averaged(self, prompt: Path) -> None:
        def choose(asked: Asked) -> tuple[float, float]:
            p = (0.9, 0.7, 0.2)[int(asked.opening[0]) % 3]
            return log(p), log(1 - p)

        policy = Scripted(lambda a, i: f"{i} Is the step correct (Yes/No)?", choose)
        three = create("reward", "r-prm", policy=policy, prompt=prompt, n=3).judge([trace("a")])[0]
        assert three.values == pytest.approx((0.6,)) and three.first_below(0.5) == -1
        ten = create("reward", "r-prm", policy=policy, prompt=prompt).judge([trace("a")])[0]
        assert ten.aspects["samples"] == (10.0,)

    def test_a_critique_that_ended_without_the_question_is_asked_it(self, prompt: Path) -> None:
        policy = Scripted(lambda a, i: "It is right.", lambda a: PAIR)
        create("reward", "r-prm", policy=policy, prompt=prompt, n=1).judge([trace("a")])
        assert policy.chosen[0][0].opening == "It is right.\nBased on your analysis. Is the step correct (Yes/No)?"

    def test_a_critique_that_was_cut_is_no_opinion(self, prompt: Path) -> None:
        policy = Scripted(lambda a, i: f"It is{CUT}", lambda a: PAIR)
        found = create("reward", "r-prm", policy=policy, prompt=prompt, n=1).judge([trace("a")])[0]
        assert found.values == (None,) and "cut at 4096 tokens" in str(found.failures[0])

    def test_braces_in_the_trace_are_left_alone(self, prompt: Path) -> None:
        policy = Scripted(lambda a, i: "x", lambda a: PAIR)
        create("reward", "r-prm", policy=policy, prompt=prompt, n=1).judge([trace("\\frac{}{2} {0}", question="{}?")])
        assert "Question: {}?\n" in policy.sampled[0].user and "Step 1: \\frac{}{2} {0}\n" in policy.sampled[0].user

    @pytest.mark.parametrize("text", ["Question: {}", "<|im_start|>user\n{} {} {}"])
    def test_another_file_is_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "other.txt"
        path.write_text(text)
        with pytest.raises(ValueError, match="three times"):
            create("reward", "r-prm", policy=Scripted(lambda a, i: ""), prompt=path)


@pytest.mark.parametrize(
    ("name", "settings", "tokens", "calls"),
    [
        ("critic", {"n": 8}, 8 * 10, 8),
        ("prmbench-critic", {}, 10, 1),
        ("thinkprm", {"n": 2}, 3 * 2 * 10, 3 * 2 * 2),
        ("thinkprm", {"n": 2, "steps": "verdicts"}, 2 * 10, 2 * 2),
        ("thinkprm", {"rounds": 3}, 3 * 3 * 10, 3 * (3 + 1)),
        ("r-prm", {"n": 2}, 3 * 2 * 10, 3 * 2 * 2),
        ("genprm", {"n": 2}, 3 * 2 * (10 + 20), 3 * 2 * (2 + 1)),
        ("genprm", {"n": 2, "execute": lambda code: "1"}, 3 * 2 * (4 * 10 + 20), 3 * 2 * (5 + 1)),
    ],
)
def test_what_a_judge_writes_at_most_is_what_it_says(
    name: str, settings: dict[str, Any], tokens: int, calls: int, tmp_path: Path
) -> None:
    """Of three steps; a search's budget counts on it. The script writes ten tokens a reply, as many as it may."""
    if name == "r-prm":
        (tmp_path / "prompt.txt").write_text("{} {} {}")
        settings = {**settings, "prompt": tmp_path / "prompt.txt"}

    def write(asked: Asked, index: int) -> str:
        if asked.opening.endswith("$\\boxed"):
            return "{Yes}$"
        return "print(1)\n```\n" if "<verify>" in asked.opening else "hm.</analyze>\n"

    judge = create("reward", name, policy=Scripted(write, lambda asked: PAIR), max_tokens=10, **settings)
    cost = judge.judge([THREE])[0].cost
    assert judge.at_most(3) == (tokens, calls, 0), "nobody counts what a choice reads where there is no tokenizer"
    assert cost.generated_tokens <= tokens and cost.calls <= calls
    if name != "genprm":  # whose verdicts are shorter here than they may be, and which has no time for code
        assert (cost.generated_tokens, cost.calls) == (tokens, calls)
    whole = name in ("critic", "prmbench-critic") or settings.get("steps") == "verdicts"
    assert (judge.at_most(None) is not None) == whole
