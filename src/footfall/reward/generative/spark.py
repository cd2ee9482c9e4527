"""SPARK: step labels without a reference answer, from many verifications of one solution and what they agree on.

    step      v_k = what most verifications say of step k; a tie is incorrect             (the paper's best)
    outcome   y = what most say of the whole, and the steps of the first verification that says so
    critique  a verification is put back to the model, which looks for missed errors, wrong verdicts and weak reasons, and
              writes it anew; the refined one counts                                       (sequential)
    hybrid    the vote on steps, then a critique of a verification that says what was voted

Verifications whose every verdict is the consensus are what a judge is trained on: `footfall label --method agreeing` with
`labels=spark`. The rewards and advantages of the paper's RL are in `footfall.rl.verdicts`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import Critic, Reply, Request, Settled, numbered, say, unreadable
from footfall.reward.generative.thinkprm import boxed
from footfall.types import Cost, Judgement, Trajectory, Unjudged

Rule = Literal["step", "outcome", "critique", "hybrid"]
_INPUT = "[Problem]\n{problem}\n\n[Solution]\n{solution}"
QUESTION = (
    "Verify the solution below step by step. There is no reference answer: work each step out yourself. For every step write "
    "what it does and why it is right or wrong, and end with \\boxed{{correct}} or \\boxed{{incorrect}}, one box a step for "
    "all {n} steps. The last line of your reply is: Final verdict: Yes, if the whole solution is correct, or Final verdict: "
    "No.\n\n" + _INPUT
)
REFINE = (
    "Here is a verification of a solution. Look for errors that it missed, verdicts that are wrong and reasons that are weak; "
    "then write the whole verification anew, mended, in the same form: for every one of the {n} steps a reason and "
    "\\boxed{{correct}} or \\boxed{{incorrect}}, and as the last line Final verdict: Yes or Final verdict: No.\n\n"
    + _INPUT
    + "\n\n[Verification]\n{verification}"
)
_FINAL = re.compile(r"Final verdict:[\s*]*(Yes|No)\b", re.IGNORECASE)


def read_verification(text: str, steps: int) -> tuple[bool, ...] | Unjudged:
    """One verdict a step; a reason if there are more or fewer, or if the final verdict is missing or not theirs."""
    verdicts, final = tuple(boxed(text)), _FINAL.findall(text)
    if len(verdicts) != steps:
        return unreadable(f"unparsable: {len(verdicts)} boxed verdicts for {steps} steps")
    if not final:
        return unreadable("unparsable: no final verdict")
    if (final[-1].lower() == "yes") != all(verdicts):
        return unreadable("the final verdict is not that of the steps")
    return verdicts


def step_consensus(rows: Sequence[Sequence[bool]]) -> tuple[bool, ...]:
    """What most say of each step; a tie is incorrect. (c,c,i), (c,i,i), (c,c,c) are (c,c,i)."""
    return tuple(2 * sum(column) > len(column) for column in zip(*rows, strict=True))


def outcome_consensus(rows: Sequence[Sequence[bool]]) -> bool:
    """Whether most find the whole solution correct; a tie is incorrect."""
    return 2 * sum(map(all, rows)) > len(rows)


class Spark(Critic):
    """All verifications of all traces in one batch, their critiques in one more."""

    def __init__(self, policy: Policy, n: int, params: SamplingParams, rule: Rule = "step") -> None:
        if rule not in get_args(Rule):
            raise ValueError(f"rule is one of {', '.join(get_args(Rule))}, not {rule!r}")
        super().__init__(policy, n, params, {"question": QUESTION, "rule": rule})
        self.kind, self.rule = f"spark-{rule}", rule
        self.replies = 2 if rule in ("critique", "hybrid") else 1

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The consensus of the verifications that can be read, on each step."""
        asked = [t for t in trajectories if t.steps]
        rows = self.ask([_request(QUESTION, t) for t in asked])
        costs = [Cost.total(reply.cost for reply in row) for row in rows]
        if self.replies == 2:
            firsts = [self._best(t, row) for t, row in zip(asked, rows, strict=True)]
            again = [_request(REFINE, t, reply.text) for t, reply in zip(asked, firsts, strict=True)]
            rows = self.ask(again, n=1 if self.rule == "hybrid" else self.n)
            costs = [cost + Cost.total(r.cost for r in row) for cost, row in zip(costs, rows, strict=True)]
        found = iter(zip(rows, costs, strict=True))
        return [self._judgement(t, *next(found)) if t.steps else self.judgement(t, []) for t in trajectories]

    def _read(self, trajectory: Trajectory, replies: Sequence[Reply]) -> list[tuple[bool, ...] | Unjudged]:
        return [self.unusable(reply) or read_verification(reply.text, len(trajectory.steps)) for reply in replies]

    def _best(self, trajectory: Trajectory, replies: Sequence[Reply]) -> Reply:
        """The verification that is put back: the first that can be read, for `hybrid` the first that says what was voted."""
        read = self._read(trajectory, replies)
        rows = [row for row in read if not isinstance(row, Unjudged)]
        if not rows:
            return replies[0]
        wanted = step_consensus(rows) if self.rule == "hybrid" else rows[0]
        return replies[read.index(wanted) if wanted in read else read.index(rows[0])]

    def _judgement(self, trajectory: Trajectory, replies: Sequence[Reply], cost: Cost) -> Judgement:
        n, read = len(trajectory.steps), self._read(trajectory, replies)
        rows = [row for row in read if not isinstance(row, Unjudged)]
        if not rows:
            why = next(reason for reason in read if isinstance(reason, Unjudged))
            steps = [Settled(None, why, replies[0].text if k == n - 1 else None) for k in range(n)]
            return self.judgement(trajectory, steps, cost=cost)
        verdict = step_consensus(rows)
        if self.rule == "outcome":
            whole = outcome_consensus(rows)
            verdict = next(row for row in rows if all(row) == whole)
        text = replies[read.index(verdict)].text if verdict in read else None
        steps = [Settled(float(good), None, text if k == n - 1 else None, len(rows)) for k, good in enumerate(verdict)]
        agreed = tuple(sum(row[k] == verdict[k] for row in rows) / len(rows) for k in range(n))
        return self.judgement(trajectory, steps, float(all(verdict)), {"agreed": agreed}, cost)


def _request(question: str, trajectory: Trajectory, verification: str = "") -> Request:
    shown = {"problem": trajectory.problem.text, "solution": "\n".join(numbered(trajectory))}
    return Request(say(question.format(n=len(trajectory.steps), verification=verification, **shown)))


@register("reward", "spark")
def spark(
    policy: Policy,
    n: int = 16,
    rule: Rule = "step",
    temperature: float = 0.7,
    max_tokens: int = 8192,
    seed: int = 0,
) -> Spark:
    """SPARK: `n` verifications without a reference answer, their vote on each step, on the whole, or a critique of them."""
    return Spark(policy, n, SamplingParams(temperature, max_tokens=max_tokens, seed=seed), rule)
