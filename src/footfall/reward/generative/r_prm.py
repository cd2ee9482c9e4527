"""R-PRM (arXiv 2503.21295): five written analyses of a step, then p(Yes) to a fixed question; K critiques are averaged.

The prompt that the published model was trained with is 350 words long and its repository (NJUNLP/R-PRM) has no licence, so it
is not shipped: `prompt` names a copy of src/prompts/GenPRM/GenPRM-evaluate-new-for-train3.txt, with a `{}` each for question,
previous steps and now step. (The repository's `-qwen` copy of it writes the chat tokens out, with `\\n` as two characters,
and was evaluated so; here the chat template does that.) Without a file the same five analyses are asked for in words of our
own, for models that are trained here or not at all.

Scored as there: the critique is cut right after the question, which is appended where it is missing, and the value is
softmax over ` Yes` and ` No`. A critique cut at max_tokens has no opinion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import (
    Chain,
    Critic,
    Critique,
    Reply,
    Request,
    Verdict,
    labelled,
    numbered,
    per_trace,
    say,
    settle,
    unreadable,
)
from footfall.types import Judged, Judgement, Trajectory, Unjudged

PROMPT_SOURCE = "src/prompts/GenPRM/GenPRM-evaluate-new-for-train3.txt of NJUNLP/R-PRM"
SYSTEM = "You are a helpful assistant."
FIRST = "Since the Now Step is the first step, there are no Previous Steps."
DECISION = "Is the step correct (Yes/No)?"
MISSING = "\nBased on your analysis. "
PROMPT = """You are a teacher of mathematics. Analyse one step of a student's solution, the Now Step, in this order:
1. Previous steps: what each of them does, one by one.
2. Purpose: what the Now Step is for.
3. Source: where the facts and numbers that it uses come from.
4. Consistency: whether it fits the question and the previous steps.
5. Calculation: do it again in another way, for example by the inverse operation.
Then conclude. The last line of your reply is: "Verification: Is the step correct (Yes/No)?" and your answer, Yes or No.

Question: {}

Previous Steps: {}

Now Step: {}"""
_ANSWER = re.compile(re.escape(DECISION) + r"[\s*]*(Yes|No)\b")


def read_prompt(path: str | Path | None) -> tuple[str, str, str, str]:
    """The four parts of the prompt around question, previous steps and now step; without a file, of our own."""
    text = PROMPT if path is None else Path(path).read_text(encoding="utf-8").removesuffix("\n")
    parts = text.split("{}")
    if len(parts) != 4 or "<|im_start|>" in text:
        raise ValueError(
            f"{path}: R-PRM's prompt holds {{}} three times (question, previous steps, now step) and no chat tokens; "
            f"take {PROMPT_SOURCE}"
        )
    return parts[0], parts[1], parts[2], parts[3]


def read_answer(text: str) -> bool | Unjudged:
    """The verdict of a whole critique: stated once, in answer to the question, with no more than a full stop after it."""
    found = list(_ANSWER.finditer(text))
    if len(found) != 1:
        return unreadable(f"unparsable: {len(found)} answers to the question that ends a critique")
    if text[found[0].end() :].strip(" \n.*"):
        return unreadable("unparsable: the critique goes on after its verdict")
    return found[0][1] == "Yes"


class RPRM(Critic):
    """One question a step, all steps of all traces in one batch."""

    kind = "r-prm"
    per_step = True
    chooses = True

    def __init__(self, policy: Policy, prompt: str | Path | None, n: int, params: SamplingParams) -> None:
        self.prompt = read_prompt(prompt)
        super().__init__(policy, n, params, {"prompt": "{}".join(self.prompt)})

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The mean p(Yes) of `n` critiques of each step."""
        requests = [self._request(t, k) for t in trajectories for k in range(len(t.steps))]
        asked = zip(requests, self.ask(requests), strict=True)
        critiques = [[self._to_decision(request, reply) for reply in row] for request, row in asked]
        rows = per_trace(trajectories, list(map(settle, self.decide(critiques, (" Yes", " No")))))
        return [self.judgement(t, row) for t, row in zip(trajectories, rows, strict=True)]

    def chains(self, trajectories: Sequence[Trajectory]) -> list[list[Chain]]:
        """`n` critiques of each step, in one batch, as data: written to their end, verdict included."""
        asked = [replace(self._request(t, k), stops=()) for t in trajectories for k in range(len(t.steps))]
        replies = iter(zip(asked, self.ask(asked), strict=True))
        return [
            [
                self._chain(k, request, reply)
                for k in range(len(t.steps))
                for request, row in [next(replies)]
                for reply in row
            ]
            for t in trajectories
        ]

    def _chain(self, k: int, request: Request, reply: Reply) -> Chain:
        read = self.unusable(reply) or read_answer(reply.text)
        text, asked, _ = reply.text.partition(DECISION)
        text += asked
        if isinstance(read, Unjudged):
            return Chain(request, text, k, k + 1, (), read, reply.cost)
        return Chain(request, text, k, k + 1, (read,), None, reply.cost)

    def _request(self, trajectory: Trajectory, k: int) -> Request:
        return _asked(self.prompt, trajectory, k)

    def _to_decision(self, request: Request, reply: Reply) -> Critique:
        """The critique up to and including the question; one that ended without it is asked."""
        text = reply.text + ("" if reply.stop else MISSING) + DECISION
        return self.critique(reply, request.going_on(text), text)


def _asked(prompt: Sequence[str], trajectory: Trajectory, k: int) -> Request:
    steps = numbered(trajectory)
    filled = (trajectory.problem.text, "\n".join(steps[:k]) or FIRST, steps[k])
    text = prompt[0] + "".join(value + part for value, part in zip(filled, prompt[1:], strict=True))
    return Request(say(text, SYSTEM), stops=(DECISION,))


def verdicts(prompt: Sequence[str], row: Judged) -> list[Verdict]:
    """The decision about each labelled step, after the analyses that the labels bring, if they do."""
    return [
        Verdict(_asked(prompt, row.trajectory, k).going_on(_closed(text)), " Yes", " No", value, k)
        for k, value, text in labelled(row)
    ]


def _closed(text: str) -> str:
    """A critique up to and including the question; those that this judge wrote end in it already."""
    return text if text.endswith(DECISION) else text + MISSING + DECISION


@register("reward", "r-prm")
def r_prm(
    policy: Policy,
    prompt: str | Path | None = None,
    n: int = 10,
    temperature: float = 0.95,
    top_p: float = 0.95,
    max_tokens: int = 4096,
    seed: int = 0,
) -> RPRM:
    """R-PRM: five written analyses of a step, then p(Yes), averaged over `n` critiques; `prompt` is a text file.

    The published model wants its own prompt; without a file the question is in words of ours.
    """
    return RPRM(policy, prompt, n, SamplingParams(temperature, top_p, max_tokens=max_tokens, seed=seed))
