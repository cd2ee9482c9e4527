"""Language models as critics of a whole trace, asked as ProcessBench and as PRMBench do it.

ProcessBench's manner (arXiv 2412.06559): which paragraph holds the first error?
The steps are numbered paragraphs from 0; the last box of the reply names the earliest wrong one, or -1. Steps before it
are right (1), it is wrong (0), and nobody has said anything about those after it (None).

PRMBench's manner (arXiv 2501.03124): validity and redundancy of each step in [-1, 1].
The reply is JSON with two lists, one number a step each. A list of the wrong length, or no JSON, is no opinion. A step
valued below 0 is wrong; one whose redundancy is above 0 is redundant.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import (
    Critic,
    Opinion,
    Reply,
    Request,
    Settled,
    numbered,
    say,
    settle,
    unreadable,
)
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

_BOX = re.compile(r"\\boxed\{\s*(?:\\text\{)?([^}]*)\}")


def read_index(text: str, steps: int) -> int | Unjudged:
    """The index in the last box, plain or as \\text; a reason if there is none or it names no paragraph.

    A reply that is a number and nothing else is that index: small models leave the box out and mean no other thing.
    """
    boxes = _BOX.findall(text) or re.findall(r"\A\s*(-?\d{1,6})[.\s]*\Z", text)
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
        return self.judge_whole(trajectories, _paragraphs, self._read)

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


def _paragraphs(trajectory: Trajectory) -> Request:
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


KEYS = ("validity", "redundancy")
SYSTEM = """You grade the steps of solutions to math problems. Give every step two scores between -1 and 1.
validity: 1 if the step is surely right, -1 if it is surely wrong; an error in logic, calculation or use of the given facts \
makes a step wrong.
redundancy: 1 if the step surely adds nothing that the solution needs, -1 if the solution surely needs it.
Reply with one JSON object and nothing else. It holds two lists, "validity" and "redundancy", each with one score a step, in \
the order of the steps.

Example of a reply to a solution of three steps whose second step repeats the first and whose third step is wrong:
{"validity": [0.9, 0.8, -0.7], "redundancy": [-0.9, 0.8, -0.6]}"""


def read_scores(text: str, steps: int) -> dict[str, list[float]] | Unjudged:
    """Both lists from the last JSON object that has them; a reason if they are not what was asked for."""
    found = [table for table in json_objects(text) if all(key in table for key in KEYS)]
    if not found:
        return unreadable("unparsable: no JSON object with validity and redundancy")
    scores: dict[str, list[float]] = {}
    for key in KEYS:
        column = found[-1][key]
        if not isinstance(column, list) or len(column) != steps:
            size = f"{len(column)} scores" if isinstance(column, list) else f"a {type(column).__name__}"
            return unreadable(f"unparsable: {key} has {size} for {steps} steps")
        numbers = [float(x) for x in column if isinstance(x, int | float) and not isinstance(x, bool) and -1 <= x <= 1]
        if len(numbers) != steps:
            return unreadable(f"unparsable: {key} holds something that is no number between -1 and 1")
        scores[key] = numbers
    return scores


_FALSE_STARTS = 100


def json_objects(text: str) -> Iterator[Mapping[str, object]]:
    """All JSON objects in a text, from left to right; after `_FALSE_STARTS` braces that open none the rest is not read."""
    decoder = json.JSONDecoder()
    at, false_starts = text.find("{"), 0
    while at >= 0 and false_starts < _FALSE_STARTS:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
            false_starts += 1
        else:
            if isinstance(value, dict):
                yield value
        at = text.find("{", end)


class PRMBenchCritic(Critic):
    """Any instruct model that is asked for two scores a step."""

    kind = "prmbench-critic"
    threshold = 0.0

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One question a trace, in one batch."""
        return self.judge_whole(trajectories, _steps, self._read)

    def _read(self, trajectory: Trajectory, replies: Sequence[Reply]) -> Judgement:
        """The mean of the samples that can be read."""
        n = len(trajectory.steps)
        columns: dict[str, list[list[Opinion]]] = {key: [[] for _ in range(n)] for key in KEYS}
        for reply in replies:
            read = self.unusable(reply) or read_scores(reply.text, n)
            for key in KEYS:
                for k in range(n):
                    first = k == 0 and key == KEYS[0]
                    columns[key][k].append(
                        Opinion(
                            None if isinstance(read, Unjudged) else read[key][k],
                            read if isinstance(read, Unjudged) else None,
                            reply.text if first else "",
                            *([reply.cost] if first else []),
                        )
                    )
        validity, redundancy = ([settle(opinions) for opinions in columns[key]] for key in KEYS)
        scores = tuple(step.value for step in redundancy)
        labels = tuple(None if score is None else float(score > 0) for score in scores)
        return self.judgement(trajectory, validity, aspects={"redundancy": scores, "redundant": labels})


def _steps(trajectory: Trajectory) -> Request:
    steps = "\n".join(numbered(trajectory))
    return Request(say(f"Problem: {trajectory.problem.text}\n\nSolution:\n{steps}", SYSTEM))


@register("reward", "prmbench-critic")
def prmbench_critic(
    policy: Policy, n: int = 1, temperature: float = 0.0, max_tokens: int = 2048, seed: int = 0
) -> PRMBenchCritic:
    """Any instruct model asked for validity and redundancy of each step as JSON (PRMBench's critics)."""
    params = SamplingParams(temperature, max_tokens=max_tokens, seed=seed)
    return PRMBenchCritic(policy, n, params, {"system": SYSTEM})
