"""A language model as a critic in ProcessBench's manner (arXiv 2412.06559): which paragraph holds the first error?

The steps are numbered paragraphs from 0; the last box of the reply names the earliest wrong one, or -1. Steps before it
are right (1), it is wrong (0), and nobody has said anything about those after it (None).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import Critic, Reply, Request, Settled, say, unreadable
from footfall.types import AFTER_ERROR, Cost, Judgement, Trajectory, Unjudged

QUESTION = """Below are a math problem and a solution to it. Each paragraph of the solution stands in a tag with its index, \
and the indices start from 0.

[Math Problem]

{problem}

[Solution]

{solution}

Go through the paragraphs in order and check each one. When you meet an error, stop and give the index of the paragraph in \
which the earliest error occurs. If there is no error anywhere, give -1. Write the index as the last thing in your reply, \
within \\boxed{{}}."""

_BOX = re.compile(r"\\boxed\{([^{}]*)\}")


def read_index(text: str, steps: int) -> int | Unjudged:
    """The index in the last box without inner braces; a reason if there is none or it names no paragraph."""
    boxes = _BOX.findall(text)
    if not boxes:
        return unreadable("unparsable: no \\boxed{} in the critique")
    if not re.fullmatch(r"\s*-?\d{1,6}\s*", boxes[-1]):
        return unreadable(f"unparsable: the box holds {boxes[-1][:40]!r}, no index")
    index = int(boxes[-1])
    if not -1 <= index < steps:
        return unreadable(f"unparsable: the critique names paragraph {index}, there are {steps} from 0 on")
    return index


def majority(votes: Sequence[int]) -> int:
    """The most common vote; of equally common ones the first seen."""
    return Counter(votes).most_common(1)[0][0]


class FirstErrorCritic(Critic):
    """Any instruct model that is asked for the first wrong paragraph."""

    kind = "critic"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One question a trace, in one batch."""
        return self.judge_whole(trajectories, _request, self._read)

    def _read(self, trajectory: Trajectory, replies: Sequence[Reply]) -> Judgement:
        """The majority of the samples that name an index."""
        n = len(trajectory.steps)
        cost = Cost.total(reply.cost for reply in replies)
        read = [self.unusable(reply) or read_index(reply.text, n) for reply in replies]
        votes = [index for index in read if isinstance(index, int)]
        if not votes:
            first = next(reason for reason in read if isinstance(reason, Unjudged))
            texts = [replies[0].text or None] + [None] * (n - 1)
            return self.judgement(trajectory, [Settled(None, first, text) for text in texts], cost=cost)
        index = majority(votes)
        critique = replies[read.index(index)].text
        # What is said of a trace as a whole stands at the step it names, or at the last one.
        at = index if index >= 0 else n - 1
        steps = [
            Settled(1.0 if index < 0 or k < index else 0.0, None, critique if k == at else None, len(votes))
            if index < 0 or k <= index else Settled(None, AFTER_ERROR)
            for k in range(n)
        ]  # fmt: skip
        named = tuple(sum(vote == k for vote in votes) / len(votes) for k in range(n))
        return self.judgement(trajectory, steps, aspects={"named": named}, cost=cost)


def _request(trajectory: Trajectory) -> Request:
    tagged = [f"<paragraph_{k}>\n{s.written}\n</paragraph_{k}>" for k, s in enumerate(trajectory.steps)]
    return Request(say(QUESTION.format(problem=trajectory.problem.text, solution="\n\n".join(tagged))))


@register("reward", "critic")
def critic(
    policy: Policy,
    n: int = 1,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int = 0,
    max_tokens: int = 8192,
    seed: int = 0,
) -> FirstErrorCritic:
    """Any instruct model asked for the first wrong paragraph, greedily or by majority (ProcessBench's critics).

    One sample is greedy; several are drawn at temperature 1.0 and top_p 0.9, as the paper has it for n = 8.
    """
    drawn = (0.0, 1.0) if n == 1 else (1.0, 0.9)
    heat = drawn[0] if temperature is None else temperature
    params = SamplingParams(heat, drawn[1] if top_p is None else top_p, top_k, max_tokens, seed=seed)
    return FirstErrorCritic(policy, n, params, {"question": QUESTION})
