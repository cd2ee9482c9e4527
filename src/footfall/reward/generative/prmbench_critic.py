"""A language model as a judge in PRMBench's manner (arXiv 2501.03124): validity and redundancy of each step in [-1, 1].

The reply is JSON with two lists, one number a step each. A list of the wrong length, or no JSON, is no opinion. A step
valued below 0 is wrong; one whose redundancy is above 0 is redundant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import Critic, Opinion, Reply, Request, numbered, say, settle, unreadable
from footfall.types import Judgement, Trajectory, Unjudged

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
    found = [table for table in _objects(text) if all(key in table for key in KEYS)]
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


def _objects(text: str) -> Iterator[Mapping[str, object]]:
    """All JSON objects in a text, from left to right."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
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
        return self.judge_whole(trajectories, _request, self._read)

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


def _request(trajectory: Trajectory) -> Request:
    steps = "\n".join(numbered(trajectory))
    return Request(say(f"Problem: {trajectory.problem.text}\n\nSolution:\n{steps}", SYSTEM))


@register("reward", "prmbench-critic")
def prmbench_critic(
    policy: Policy, n: int = 1, temperature: float = 0.0, max_tokens: int = 2048, seed: int = 0
) -> PRMBenchCritic:
    """Any instruct model asked for validity and redundancy of each step as JSON (PRMBench's critics)."""
    params = SamplingParams(temperature, max_tokens=max_tokens, seed=seed)
    return PRMBenchCritic(policy, n, params, {"system": SYSTEM})
