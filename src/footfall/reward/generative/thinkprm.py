"""ThinkPRM (arXiv 2504.16828): a long chain of thought that verifies a solution so far, then p(yes) to one question.

One number a prefix: the value of step k is that of the solution up to step k. The words of the question are the format
the models were trained with (mukhal/ThinkPRM, utils/helper.py and prm/thinkprm_api.py). As in that code the chain's stop
string is left out and the decision question follows after a newline. That code scores the text `? ` + `yes`; tokenised as
one text this is ` yes` after `?` in byte-level vocabularies, which is read here (not compared with their server). A chain
cut at max_tokens has no opinion here; that code asks it all the same, and gives a failed call the score 0.269.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.chains import gold_of
from footfall.reward.generative.critic import (
    Chain,
    Critic,
    Opinion,
    Reply,
    Request,
    Verdict,
    labelled,
    per_trace,
    say,
    settle,
    unreadable,
)
from footfall.types import AFTER_ERROR, Judged, Judgement, Trajectory, Unjudged

QUESTION = """You are given a math problem and a proposed step-by-step solution:

[Math Problem]

{problem}

[Solution]

{solution}

Review and critique each step in the proposed solution to determine whether each step is correct. \
If the solution is incomplete, only verify the provided steps."""
OPENING = "\nLet's verify step by step:"
DECISION = "Is the solution correct?"
AGAIN = ("Let me double check", "Let's verify again", "Did I miss something?")
"""Put after a chain to make it longer, one before each further round."""

_LABEL = re.compile(r"^\s*(##\s*)?Step \d+:")
_VERDICT = re.compile(r"\\boxed\{\s*(?:\\text(?:bf)?\{)?\s*(correct|incorrect)\s*\}?\s*\}", re.IGNORECASE)
_WORDS = re.compile(
    r"\b(?:this(?: step)?|step \d+) is (?:also |indeed |therefore )?(correct|incorrect)\b", re.IGNORECASE
)
TEACHER = """

Write a critique of each step and end it with \\boxed{correct} or \\boxed{incorrect}, one box a step and no other box. Stop \
after the first step that is wrong. Do not solve the problem or go on with a solution that is not finished."""
"""Behind the question where chains are made to be trained on: a model that was not trained so has to be told."""
RIGHT = """

It has been checked that all {n} steps are correct. Write the critique as if you had found this out by yourself, \
with \\boxed{{correct}} for each."""
WRONG = """

It has been checked that {before}step {k} is incorrect. Write the critique as if you had found this out by yourself, \
say what is wrong in step {k}, and end there with \\boxed{{incorrect}}."""
BEFORE = "the steps before step {k} are correct, with \\boxed{{correct}} for each, and "
"""Behind that where the teacher is told what the labels say."""


def read_verdicts(text: str, steps: int) -> list[bool] | Unjudged:
    """The boxed verdicts in order, up to the first error; a reason if they cannot be those of the steps."""
    found = boxed(text)
    if not found:
        return unreadable("unparsable: no step has a boxed verdict")
    if len(found) > steps:
        return unreadable(f"unparsable: {len(found)} boxed verdicts for {steps} steps")
    return found[: found.index(False) + 1] if False in found else found


def boxed(text: str) -> list[bool]:
    """All boxed verdicts, in order."""
    return [verdict.lower() == "correct" for verdict in _VERDICT.findall(text)]


def known_verdicts(labels: Sequence[float | None]) -> str:
    """What a teacher is told of the labels; nothing where they end before the first wrong step."""
    gold = gold_of(labels)
    if False not in gold:
        return RIGHT.format(n=len(gold)) if len(gold) == len(labels) else ""
    k = gold.index(False) + 1
    return WRONG.format(k=k, before=BEFORE.format(k=k) if k > 1 else "")


def in_boxes(text: str) -> str:
    """A chain that states more verdicts in words ("This step is correct.") than in boxes, with these in boxes and no others."""
    if len(_WORDS.findall(text)) <= len(boxed(text)):
        return text
    plain = _VERDICT.sub(lambda box: box[1], text)
    return _WORDS.sub(lambda said: f"{said[0][: -len(said[1])]}\\boxed{{{said[1].lower()}}}", plain)


def cleaned(text: str) -> str:
    """A chain as it is learned: boxes in one form, and nothing after the last verdict."""
    plain = _VERDICT.sub(lambda box: f"\\boxed{{{box[1].lower()}}}", text)
    ends = [box.end() for box in _VERDICT.finditer(plain)]
    return plain[: ends[-1]] if ends else plain


class ThinkPRM(Critic):
    """`steps`: what a step's value is; `"prefixes"`: p(yes) of the solution up to it, `"verdicts"`: its boxed verdict."""

    kind = "thinkprm"
    chooses = True

    def __init__(
        self,
        policy: Policy,
        n: int,
        params: SamplingParams,
        steps: Literal["prefixes", "verdicts"] = "prefixes",
        rounds: int = 1,
    ) -> None:
        if steps not in ("prefixes", "verdicts"):
            raise ValueError(f'steps is "prefixes" or "verdicts", not {steps!r}')
        if not 1 <= rounds <= 1 + len(AGAIN) or (rounds > 1 and (n > 1 or steps == "verdicts")):
            raise ValueError(
                f'rounds={rounds} is between 1 and {1 + len(AGAIN)}, and above 1 goes with n=1 and "prefixes"'
            )
        super().__init__(policy, n, params, {"steps": steps, "rounds": str(rounds)})
        self.steps, self.rounds = steps, rounds
        self.per_step, self.replies = steps == "prefixes", rounds

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """All prefixes (or all whole solutions) of all traces in one batch."""
        if self.steps == "verdicts":
            return self._judge_verdicts(trajectories)
        requests = [_request(t, k) for t in trajectories for k in range(1, len(t.steps) + 1)]
        replies = self._again(requests, self.ask(requests))
        rows = per_trace(trajectories, list(map(settle, self._decided(requests, replies))))
        return [
            self.judgement(t, row, value=row[-1].value if row else None)
            for t, row in zip(trajectories, rows, strict=True)
        ]

    def chains(self, trajectories: Sequence[Trajectory], more: str = TEACHER) -> list[list[Chain]]:
        """`n` verifications of each whole solution, in one batch, as data: every box is read, also behind a first error.

        `more` stands behind the question; a model that was trained to verify needs none. A small one often says in words what
        it was asked to put into boxes, and is heard.
        """
        return self._chains(trajectories, [more] * len(trajectories))

    def told(self, trajectories: Sequence[Trajectory], labels: Sequence[Sequence[float | None]]) -> list[list[Chain]]:
        """The same by a teacher that is told what the labels say. Chains are learned without it."""
        return self._chains(trajectories, [TEACHER + known_verdicts(each) for each in labels])

    def _chains(self, trajectories: Sequence[Trajectory], more: Sequence[str]) -> list[list[Chain]]:
        asked = [_request(t, len(t.steps), text) for t, text in zip(trajectories, more, strict=True) if t.steps]
        replies = iter(self.ask(asked))
        return [[self._chain(t, reply) for reply in next(replies)] if t.steps else [] for t in trajectories]

    def _chain(self, trajectory: Trajectory, reply: Reply) -> Chain:
        text = in_boxes(reply.text)
        found = tuple(boxed(text))
        reason = self.unusable(reply) or (None if found else unreadable("unparsable: no step has a boxed verdict"))
        learned = _request(trajectory, len(trajectory.steps))
        return Chain(learned, cleaned(text), 0, len(trajectory.steps), found, reason, reply.cost)

    def _again(self, requests: Sequence[Request], replies: list[list[Reply]]) -> list[list[Reply]]:
        """Each chain gone on with, round by round; one that failed stays as it is."""
        for trigger in AGAIN[: self.rounds - 1]:
            whole = [i for i, (reply, *_) in enumerate(replies) if self.unusable(reply) is None]
            longer = [requests[i].opening + replies[i][0].text + trigger for i in whole]
            asked = [requests[i].going_on(text, *requests[i].stops) for i, text in zip(whole, longer, strict=True)]
            for i, (more,) in zip(whole, self.ask(asked), strict=True):
                before = replies[i][0]
                text, cost = before.text + trigger + more.text, before.cost + more.cost
                replies[i] = [replace(more, text=text, cost=cost)]
        return replies

    def _decided(self, requests: Sequence[Request], replies: Sequence[Sequence[Reply]]) -> list[list[Opinion]]:
        """p(yes) after every chain that came to its end."""
        chains = [
            [
                self.critique(each, asked.going_on(f"{asked.opening}{each.text}\n{DECISION}"), each.text.strip())
                for each in row
            ]
            for asked, row in zip(requests, replies, strict=True)
        ]
        return self.decide(chains, (" yes", " no"))

    def _judge_verdicts(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        asked = [t for t in trajectories if t.steps]
        requests = [_request(t, len(t.steps)) for t in asked]
        replies = self.ask(requests)
        found = iter(zip(replies, self._decided(requests, replies), strict=True))
        return [self._read(t, *next(found)) if t.steps else self.judgement(t, []) for t in trajectories]

    def _read(self, trajectory: Trajectory, replies: Sequence[Reply], decided: Sequence[Opinion]) -> Judgement:
        """The mean verdict of each step over the chains that reach it, and p(yes) as the value of the whole."""
        n = len(trajectory.steps)
        rows = [_verdicts(reply, n, self.unusable(reply)) for reply in replies]
        steps = [settle([row[k] for row in rows]) for k in range(n)]
        whole = settle(decided)
        return self.judgement(trajectory, steps, value=whole.value, cost=whole.cost)


def _verdicts(reply: Reply, steps: int, reason: Unjudged | None) -> list[Opinion]:
    """One chain's opinion of each step; its text stands at the first."""
    read = reason or read_verdicts(reply.text, steps)
    if isinstance(read, Unjudged):
        return [Opinion(None, read, reply.text if k == 0 else "") for k in range(steps)]
    after = AFTER_ERROR if not read[-1] else unreadable("the critique has no verdict for it")
    return [
        Opinion(float(read[k]), None, reply.text.strip() if k == 0 else "") if k < len(read) else Opinion(None, after)
        for k in range(steps)
    ]


def _request(trajectory: Trajectory, k: int, more: str = "") -> Request:
    lines = [f"Step {i}: {_LABEL.sub('', step.written).strip()}" for i, step in enumerate(trajectory.steps[:k], 1)]
    question = QUESTION.format(problem=trajectory.problem.text, solution="\n".join(lines))
    # A step that is not there yet is not to be verified.
    return Request(say(question + more), OPENING, ("</think>", DECISION, f"Step {k + 1}:"))


def verdicts(row: Judged) -> list[Verdict]:
    """The decision about each prefix that ends in a labelled step, after the chain that the labels bring, if they do.

    A prefix is as good as the worst step in it: one with an error stays wrong, whatever the label of its last step.
    """
    found, lowest = [], 1.0
    for k, value, chain in labelled(row):
        lowest = min(lowest, value)
        request = _request(row.trajectory, k + 1)
        asked = request.going_on(f"{request.opening}{chain}\n{DECISION}")
        found.append(Verdict(asked, " yes", " no", lowest, k, request.opening))
    return found


@register("reward", "thinkprm")
def thinkprm(
    policy: Policy,
    n: int = 1,
    steps: Literal["prefixes", "verdicts"] = "prefixes",
    rounds: int = 1,
    temperature: float = 0.7,
    max_tokens: int = 8172,
    seed: int = 0,
) -> ThinkPRM:
    """ThinkPRM: verifies the solution so far in a long chain of thought, then p(yes); `n` chains are averaged.

    `rounds` above 1 makes one chain look again instead of sampling several.
    """
    return ThinkPRM(policy, n, SamplingParams(temperature, max_tokens=max_tokens, seed=seed), steps, rounds)
