"""StepWiser (arXiv 2508.19229): a judge that reasons about one chunk of a solution and calls it Positive or Negative.

A step's value is the share of `n` judgements that call it Positive; at 0.5 or above the majority does. Labels to train such a
judge on are `relative-progress` with `compare=effective`; as many of either label are kept, so that a constant judge earns ½ of
the reward of RL, which is 1 for a verdict that is the label and 0 otherwise.

Chunks are cut by a language model: it is asked to put tags around them and to change nothing else, and a reply counts only if
the chunks put together are the text, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import (
    Asker,
    Chain,
    Critic,
    Opinion,
    Reply,
    Request,
    numbered,
    per_trace,
    say,
    settle,
    unreadable,
)
from footfall.types import Judgement, Step, Trajectory, Unjudged

QUESTION = """Below are a problem, the solution so far, and the next chunk of it. Judge the chunk alone: whether it is \
correct, follows from what came before and brings the solution forward. Reason about it first: what it is for, where its \
facts come from, whether each calculation is right. The last line of your reply is \\boxed{{Positive}} if the chunk is \
right and \\boxed{{Negative}} if it is not.

[Problem]
{problem}

[Solution so far]
{history}

[Chunk]
{chunk}"""
SEGMENT = """Divide the text below into chunks by putting <chunk> before and </chunk> after each of them. A chunk has one \
clear purpose and an unbroken flow of thought; where the phase changes, as from solving to checking or to a side note, a \
new one begins. Every character of the text belongs to a chunk. Change nothing: no word, no space, no line break. Reply \
with the tagged text and nothing else.

{text}"""
_NOTHING = "(nothing yet)"
_BOX = re.compile(r"\\boxed\{\s*(?:\\text\{\s*)?(Positive|Negative)\s*\}?\s*\}", re.IGNORECASE)


def read_chunk_verdict(text: str) -> bool | Unjudged:
    """Whether the last box says Positive."""
    found = _BOX.findall(text)
    return (
        found[-1].lower() == "positive"
        if found
        else unreadable("unparsable: no \\boxed{Positive} or \\boxed{Negative}")
    )


def chunk_reward(text: str, label: bool) -> float:
    """What RL pays for a judgement: 1 if its verdict is the label, else 0, also where it states none."""
    said = read_chunk_verdict(text)
    return float(not isinstance(said, Unjudged) and said == label)


def read_chunks(tagged: str, text: str) -> list[str] | None:
    """The chunks of a tagged text; `None` unless they are the text itself, byte for byte, when put together."""
    tagged_parts = (part.partition("<chunk>") for part in tagged.split("</chunk>")[:-1])
    chunks = [chunk for _, tag, chunk in tagged_parts if tag]
    return chunks if chunks and "".join(chunks) == text and all(chunk.strip() for chunk in chunks) else None


def segmented(
    policy: Policy, traces: Sequence[Trajectory], n: int = 8, params: SamplingParams = SamplingParams(max_tokens=8192)
) -> list[Trajectory | None]:
    """Each trace with chunks for steps, as the first of `n` replies that changes nothing has them; `None` where none does."""
    texts = [trace.text.removesuffix(trace.separator) for trace in traces]
    replies = Asker(policy).ask([Request(say(SEGMENT.format(text=text))) for text in texts], n, params)
    found: list[Trajectory | None] = []
    for trace, text, row in zip(traces, texts, replies, strict=True):
        chunks = next((c for reply in row if (c := read_chunks(reply.text, text)) is not None), None)
        steps = None if chunks is None else tuple(map(Step, chunks))
        found.append(None if steps is None else replace(trace, steps=steps, separator="", tokenizer=None))
    return found


class StepWiser(Critic):
    """One question a chunk, all chunks of all traces in one batch."""

    kind = "stepwiser"
    per_step = True

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The share of Positive among `n` judgements of each step that state a verdict."""
        settled = [settle([_opinion(chain) for chain in row]) for row in self._asked(trajectories)]
        rows = per_trace(trajectories, settled)
        return [self.judgement(t, row) for t, row in zip(trajectories, rows, strict=True)]

    def chains(self, trajectories: Sequence[Trajectory]) -> list[list[Chain]]:
        """What was written of each step, as data."""
        rows = iter(self._asked(trajectories))
        return [[chain for _ in t.steps for chain in next(rows)] for t in trajectories]

    def _asked(self, trajectories: Sequence[Trajectory]) -> list[list[Chain]]:
        places = [(t, k) for t in trajectories for k in range(len(t.steps))]
        requests = [chunk_request(t, k) for t, k in places]
        return [
            [self._chain(k, request, reply) for reply in row]
            for (_, k), request, row in zip(places, requests, self.ask(requests), strict=True)
        ]

    def _chain(self, k: int, request: Request, reply: Reply) -> Chain:
        read = self.unusable(reply) or read_chunk_verdict(reply.text)
        if isinstance(read, Unjudged):
            return Chain(request, reply.text, k, k + 1, (), read, reply.cost)
        return Chain(request, reply.text, k, k + 1, (read,), None, reply.cost)


def _opinion(chain: Chain) -> Opinion:
    value = float(chain.verdicts[0]) if chain.verdicts else None
    return Opinion(value, chain.reason, chain.text, chain.cost)


def chunk_request(trajectory: Trajectory, k: int) -> Request:
    """What the judge is asked about step k, from 0 on."""
    history = "\n".join(numbered(trajectory)[:k]) or _NOTHING
    shown = {"problem": trajectory.problem.text, "history": history, "chunk": trajectory.steps[k].written}
    return Request(say(QUESTION.format(**shown)))


@register("reward", "stepwiser")
def stepwiser(policy: Policy, n: int = 1, temperature: float = 1.0, max_tokens: int = 3096, seed: int = 0) -> StepWiser:
    """StepWiser: reasons about each step (or chunk) and calls it Positive or Negative; the share of `n` that say Positive."""
    params = SamplingParams(temperature, max_tokens=max_tokens, seed=seed)
    return StepWiser(policy, n, params, {"question": QUESTION})
