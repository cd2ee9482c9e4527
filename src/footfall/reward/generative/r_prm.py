"""R-PRM (arXiv 2503.21295): five written analyses of a step, then p(Yes) to a fixed question; K critiques are averaged.

The prompt that the model was trained with is 350 words long and its repository (NJUNLP/R-PRM) has no licence, so it is not
shipped: `prompt` names a copy of src/prompts/GenPRM/GenPRM-evaluate-new-for-train3.txt, with a `{}` each for question,
previous steps and now step. (The repository's `-qwen` copy of it writes the chat tokens out, with `\\n` as two characters,
and was evaluated so; here the chat template does that.)

Scored as there: the critique is cut right after the question, which is appended where it is missing, and the value is
softmax over ` Yes` and ` No`. A critique cut at max_tokens has no opinion.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import (
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
)
from footfall.types import Judged, Judgement, Trajectory

PROMPT_SOURCE = "src/prompts/GenPRM/GenPRM-evaluate-new-for-train3.txt of NJUNLP/R-PRM"
SYSTEM = "You are a helpful assistant."
FIRST = "Since the Now Step is the first step, there are no Previous Steps."
DECISION = "Is the step correct (Yes/No)?"
MISSING = "\nBased on your analysis. "


def read_prompt(path: str | Path) -> tuple[str, str, str, str]:
    """The four parts of the prompt around question, previous steps and now step."""
    text = Path(path).read_text(encoding="utf-8").removesuffix("\n")
    parts = text.split("{}")
    if len(parts) != 4 or "<|im_start|>" in text:
        raise ValueError(
            f"{path}: R-PRM's prompt holds {{}} three times (question, previous steps, now step) and no chat tokens; "
            f"take {PROMPT_SOURCE}"
        )
    return parts[0], parts[1], parts[2], parts[3]


class RPRM(Critic):
    """One question a step, all steps of all traces in one batch."""

    kind = "r-prm"
    per_step = True
    chooses = True

    def __init__(self, policy: Policy, prompt: str | Path, n: int, params: SamplingParams) -> None:
        self.prompt = read_prompt(prompt)
        super().__init__(policy, n, params, {"prompt": "{}".join(self.prompt)})

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The mean p(Yes) of `n` critiques of each step."""
        requests = [self._request(t, k) for t in trajectories for k in range(len(t.steps))]
        asked = zip(requests, self.ask(requests), strict=True)
        critiques = [[self._to_decision(request, reply) for reply in row] for request, row in asked]
        rows = per_trace(trajectories, list(map(settle, self.decide(critiques, (" Yes", " No")))))
        return [self.judgement(t, row) for t, row in zip(trajectories, rows, strict=True)]

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
        Verdict(_asked(prompt, row.trajectory, k).going_on(text + MISSING + DECISION), " Yes", " No", value, k)
        for k, value, text in labelled(row)
    ]


@register("reward", "r-prm")
def r_prm(
    policy: Policy,
    prompt: str | Path,
    n: int = 10,
    temperature: float = 0.95,
    top_p: float = 0.95,
    max_tokens: int = 4096,
    seed: int = 0,
) -> RPRM:
    """R-PRM: five written analyses of a step, then p(Yes), averaged over `n` critiques; `prompt` is its text file."""
    return RPRM(policy, prompt, n, SamplingParams(temperature, top_p, max_tokens=max_tokens, seed=seed))
