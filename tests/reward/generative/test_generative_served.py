"""What holds for every generative judge: a chat server writes for it, it says what it writes at most, its chains are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from footfall.judging import traits
from footfall.registry import create
from footfall.types import Cost, Trajectory
from tests.policy.test_policy_http import Loopback
from tests.reward.generative.scripted import trace

RIGHT = "Fine: \\boxed{correct}. "
SAID: dict[str, str] = {
    "thinkprm": f"{RIGHT}</think>\n",
    "genprm": "{Yes}$</analyze>\n</output>\n",
    "r-prm": "It adds up.\nVerification: Is the step correct (Yes/No)? Yes",
    "stepwiser": "It follows. \\boxed{Positive}",
    "spark": f"{RIGHT}{RIGHT}Final verdict: Yes",
    "rm-r1": "<solution>5</solution><answer>[[A]]</answer>",
    "rrm-reasoning": "The first is right: \\boxed{Assistant 1}",
    "rubric-rm": 'So: {"rubric": [{"criterion": "sum", "points": 8}, {"criterion": "answer", "points": 2}], "points": [8, 1]}',
    "drm": "",
    "dg-prm": '{"criteria": ["correctness"], "analysis": "", "scores": [8]}',
}
"""What the server answers to each of them, whatever it is asked."""
WORDS = ("Yes", " Yes", "yes", " yes", "No", " No", "no", " no")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    loopback = Loopback(tmp_path_factory.mktemp("loopback") / "log.jsonl")
    yield loopback
    loopback.stop()


def sampled(name: str, logprob: float) -> Trajectory:
    made = trace("2 + 3 = 5.", "The answer is 5.", id=name)
    steps = tuple(replace(step, token_ids=(1,), logprobs=(logprob,)) for step in made.steps)
    return replace(made, steps=steps, tokenizer="t")


def asked(process: Loopback, name: str, text: str, sure: bool = True) -> tuple[Any, list[Trajectory]]:
    """The judge on a chat server that answers with this text and, if it is sure, lists Yes and No with their chances."""
    chances = {word: -0.1 if word.strip().lower() == "yes" else -2.0 for word in WORDS}
    process.behave(text=text or " ", torn=chances if sure else {})
    judge = create("reward", name, policy=process.policy(mode="chat"))
    return judge, [sampled("a", -0.1), sampled("b", -0.5)]


@pytest.mark.parametrize("name", SAID)
def test_a_server_writes_within_the_bound_and_the_chain_is_kept(name: str, process: Loopback) -> None:
    judge, traces = asked(process, name, SAID[name])
    bound = traits(judge).at_most
    most = None if bound is None else bound(2)
    assert most is not None
    found = judge.judge(traces)
    total = Cost.total(said.cost for said in found)  # a match of two is paid by one of them
    assert 0 < total.calls <= 2 * most.calls and total.generated_tokens <= 2 * most.tokens
    assert all(value is not None and 0 <= value <= 1 for said in found for value in said.values), found[0].failures
    chains = [text for said in found for text in said.rationales if text]
    if name == "drm":
        assert most.tokens == total.generated_tokens == 0 and not chains, (
            "it asks how likely Yes is, and writes nothing"
        )
    else:
        core = SAID[name].partition("</")[0].partition("\nVerification")[0].strip()
        assert len(chains) >= 2 and all(core in text for text in chains)
    assert all("messages" in entry["request"] for entry in process.entries("took")), "the chat route alone"


@pytest.mark.parametrize("name", SAID)
def test_a_chain_that_never_states_a_verdict_is_counted_and_never_a_zero(name: str, process: Loopback) -> None:
    """Judges that ask for the verdict themselves get none either: the server lists no chances."""
    judge, traces = asked(process, name, "Who could tell?", sure=False)
    for said in judge.judge(traces):
        assert set(said.values) == {None} and len(said.failures) == 2 and all(said.failures), "a reason at every step"
        assert set(said.aspects["samples"]) == {0.0}
