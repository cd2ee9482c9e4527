"""Refined best-of-N: half of the solutions are fresh, half go on from a critic's corrected step (card: refined-bon).

1. N/2 solutions are sampled and judged; e is the first step valued below `threshold`.
2. Of each with such a step the critic is asked, in words, for a corrected step e; the policy goes on after steps 1 … e−1 and
   the correction. For a solution without a located error, or whose correction cannot be read, a fresh one is sampled: the pool
   always has N.
3. The new ones are judged, and the highest of all N wins. A solution's score is the mean of its step values, with 0 for all
   steps after the first error, and a neutral 0.5 if it could not be judged.

The critic is the helper "critic": a policy that is given a question and replies with text (a chat model, a generative PRM).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import Declared, register, search_row
from footfall.search.state import Course, Requests, Roles, SearchState, described
from footfall.search.votes import Rule, check_rule
from footfall.types import Judgement, Problem, Step, Trajectory

NEUTRAL = 0.5
"""The score of a solution whose critique could not be read."""
MARK = "Corrected step:"
PROMPT = """A step of a solution is wrong. Write it anew, so that the solution can go on rightly from there. It may take \
another route, but must not do more than one step. End your reply with one line: "{mark}" and the new step.

[Question]
{question}

[Steps before it, which are right]
{before}

[Wrong step]
{step}

[What was said of it]
{critique}"""
"""`{question}`, `{before}`, `{step}` and `{critique}` are filled in."""
_NOTHING = "(nothing)"
_ASKED = re.compile(
    r"\[Question\]\n(?P<question>.*?)\n\n\[Steps before it, which are right\]\n(?P<before>.*?)\n\n\[Wrong step\]\n",
    re.DOTALL,
)


def critique_score(values: Sequence[float | None], threshold: float = 0.5) -> float:
    """The mean of the step values with 0 after the first one below `threshold`: (.9, .8, .3, .7) is .5 in all.

    What a judge says after that one, or that it says nothing there, does not count.
    """
    counted: list[float] = []
    for value in values:
        if value is None:
            return NEUTRAL
        counted.append(value)
        if value < threshold:
            break
    return sum(counted) / len(values) if values else NEUTRAL


def question(trace: Trajectory, error: int, critique: str | None) -> Trajectory:
    """What the critic is asked: the problem, the steps before the wrong one, that step, and what the judge wrote of it."""
    before = "\n".join(step.written for step in trace.steps[:error])
    prompt = PROMPT.format(
        mark=MARK, question=trace.problem.text, before=before or _NOTHING, step=trace.steps[error].written,
        critique=critique or _NOTHING,
    )  # fmt: skip
    asked = Problem(f"{trace.problem.id}/refine", prompt, domain=trace.problem.domain, images=trace.problem.images)
    return Trajectory(asked.id, asked, separator=trace.separator)


def correction_of(reply: Completion, separator: str) -> str | None:
    """The corrected step in a critic's reply: what stands after the last mark, as one step; `None` if there is none.

    The space after the mark is not the step's; more of them may be, for they indent code. In a reply that was cut the step
    is whole only where something stands behind it.
    """
    text = separator.join(step.written for step in reply.steps)
    _, found, rest = text.rpartition(MARK)
    before, ended, _ = rest.removeprefix(" ").lstrip("\n").partition(separator or "\n\n")
    step = before.rstrip()
    whole = reply.finish != "error" and (reply.finish != "length" or ended)
    return step if found and step and whole else None


@register("searcher", "refined-bon", Declared(study=(search_row(9),), smoke={"n": 4}))
@dataclass(frozen=True)
class RefinedBestOf:
    """Refined best-of-N: N/2 samples, and N/2 that go on from a critic's correction of the first wrong step."""

    judged: ClassVar[bool] = True
    n: int = 8
    threshold: float = 0.5
    rule: Rule = "best"
    critic: str = "critic"
    """Who corrects, by role."""
    reply_tokens: int = 512
    """The most that a critic may write."""

    def __post_init__(self) -> None:
        check_rule(self.rule, "mean")
        if self.n < 2 or self.n % 2:
            raise ValueError(f"refined best-of-N needs an even n, not {self.n}")
        if not 0 < self.threshold <= 1 or self.reply_tokens < 1:
            raise ValueError(f"refined best-of-N needs a threshold in (0, 1] and reply_tokens >= 1, not {self.name}")

    @property
    def name(self) -> str:
        return described("refined-bon", self)

    @property
    def roles(self) -> Roles:
        return Roles(helpers=frozenset({self.critic}))

    def search(self, state: SearchState) -> Course:
        """Sample, correct, go on, choose. Each solution is corrected once at most."""
        pool: list[int] = []
        with suppress(BudgetSpent):
            [drawn] = yield from state.expand([ROOT], self.n // 2, "end", score=True)
            pool += drawn
            starts = yield from self._starts(state, drawn)
            open_ = [node for node in starts if node == ROOT or not state.ended(node)]
            stated = [node for node in starts if node not in open_]
            pool += stated
            if stated:
                yield from state.score(stated)
            pool += [node for row in (yield from state.expand(open_, 1, "end", score=True)) for node in row]
        scores = [critique_score(state.values(node), self.threshold) for node in pool]
        return state.choose(pool, self.rule, "mean", scores=scores)

    def _starts(self, state: SearchState, drawn: Sequence[int]) -> Requests[list[int]]:
        """Where each of the other N/2 solutions begins: after a correction, or at the top."""
        located = [(node, error) for node in drawn if (error := self._error(state, node)) is not None]
        asked = [question(state.prefix(node), error, _said(state.judgement(node), error)) for node, error in located]
        replies: list[list[Completion]] = []
        if asked:
            replies = yield from state.ask(asked, policy=self.critic, max_tokens=self.reply_tokens)
        starts = [self._corrected(state, *at, row) for at, row in zip(located, replies, strict=True)]
        return [ROOT if node is None else node for node in starts] + [ROOT] * (self.n // 2 - len(located))

    def _error(self, state: SearchState, node: int) -> int | None:
        said = state.judgement(node)
        found = None if said is None else said.first_below(self.threshold)
        return None if found is None or found < 0 else found

    def _corrected(self, state: SearchState, node: int, error: int, replies: Sequence[Completion]) -> int | None:
        """The node of the corrected step, beside the wrong one; `None` if the critic's reply holds none."""
        wrong = state.tree.path(node)[error]
        text = correction_of(replies[0], state.tree.separator) if replies else None
        if text is None:
            state.note("unread", (wrong,), "the critic's reply holds no corrected step")
            return None
        parent = state.tree.nodes[wrong].parent
        meta = {"role": "correction", "parent": node}
        new = state.add(parent, [Step(text)], author=self.critic, cost=replace(replies[0].cost, seconds=0.0), meta=meta)
        state.note("corrected", (wrong, new), f"step {error + 1} of {node}")
        return new


def _said(judgement: Judgement | None, error: int) -> str | None:
    """What the judge wrote of the wrong step."""
    return judgement.rationales[error] if judgement is not None and judgement.rationales else None


@dataclass(frozen=True)
class Reviser:
    """A critic with a scripted policy's skill, for tests and studies.

    It reads the question that it is asked and writes the step anew as `writer` would: its errors are the writer's.
    """

    writer: Policy
    problems: Sequence[Problem]
    """The problems that it can be asked about."""
    separator: str = "\n"

    @property
    def name(self) -> str:
        return f"reviser({self.writer.name})"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """The scripted writer's step in the place that the question is about, as a critic would reply."""
        known = {problem.text: problem for problem in self.problems}
        tops = [self._place(prefix.problem.text, known) for prefix in prefixes]
        rows = self.writer.sample(tops, n, replace(params, until="step"), first)
        return [[_reply(completion) for completion in row] for row in rows]

    def _place(self, asked: str, known: dict[str, Problem]) -> Trajectory:
        """The trace as it stands before the wrong step."""
        found = _ASKED.search(asked)
        if found is None or found["question"] not in known:
            raise ValueError(f"the reviser was asked about a problem that it does not know: {asked[:80]!r}")
        lines = [] if found["before"] == _NOTHING else found["before"].split("\n")
        problem = known[found["question"]]
        return Trajectory(problem.id, problem, tuple(map(Step, lines)), separator=self.separator)


def _reply(completion: Completion) -> Completion:
    return replace(completion, steps=tuple(Step(f"{MARK} {step.text}") for step in completion.steps), finish="end")
