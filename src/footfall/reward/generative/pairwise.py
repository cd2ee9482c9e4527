"""Judges that compare two solutions in words (RRM, arXiv 2505.14674; RM-R1, arXiv 2505.02387), as scores of single traces.

Traces of one problem that are judged together meet each other; `how` says what becomes of their matches:

    elo        mean Elo rating R over shuffled orders of a round-robin, as the score expected against 1000
    win-rate   the mean score of a round-robin
    knockout   rounds survived / rounds, 1 for the champion: n − 1 matches in place of n (n − 1) / 2

Every match is asked `n` times (voting@n) and, with `swap`, in both orders: a win that does not survive the exchange is a draw.
The score is one of a whole trace; it stands at each of its steps, so that all aggregates but prod and sum give it back, and for
a search that grows traces it is that of the prefix. RRM weighs two answers freely; RM-R1 first says what kind of request it
is: for a chat it writes weighted rubrics, for a problem it writes its own solution, and compares with that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from footfall.judging import Bound, Traits
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import Critic, Reply, Request, Settled, say, unreadable
from footfall.reward.generative.tournaments import (
    Match,
    both_orders,
    bracket,
    expected,
    mean_elo,
    round_robin,
    vote,
    win_rates,
)
from footfall.types import Cost, Judgement, Reason, Trajectory, Unjudged

How = Literal["elo", "win-rate", "knockout"]
_TAIL = 80
"""Characters at the end of a reply in which RM-R1's verdict has to stand."""

RRM_QUESTION = """Below are a query and two responses to it. Decide which response is better. Weigh how far each follows the \
instructions, helps, is accurate and harmless, and goes into detail. Do not be moved by the order of the responses, by their \
length or by the names of the assistants. There is no tie. Think about it first; the last line of your reply is \
\\boxed{{Assistant 1}} or \\boxed{{Assistant 2}}.

#### Query
{query}

#### Assistant 1
{first}

#### Assistant 2
{second}"""

RM_R1_QUESTION = """You compare two answers, A and B, to a request. First classify the request: <type>Reasoning</type> \
if it asks for mathematics, code or another result that can be derived, <type>Chat</type> otherwise.

If it is Reasoning: solve it yourself in <solution>…</solution>; then compare both answers with your solution in \
<eval>…</eval>, above all whether they are correct, then whether their steps are.
If it is Chat: write the criteria that matter for this request, with weights that add up to 100 and a reason for them, in \
<rubric>…</rubric>; then judge both answers by them in <eval>…</eval>.

The order of the answers means nothing. End your reply with <answer>[[A]]</answer> or <answer>[[B]]</answer>.

[Request]
{query}

[Answer A]
{first}

[Answer B]
{second}"""

_BOX = re.compile(r"\\boxed\{\s*(?:\\text\{\s*)?Assistant\s*([12])\s*\}?\s*\}")


def read_assistant(text: str) -> float | Unjudged:
    """1 if the last box names the first response, 0 for the second."""
    found = _BOX.findall(text)
    return (
        float(found[-1] == "1") if found else unreadable("unparsable: no \\boxed{Assistant 1} or \\boxed{Assistant 2}")
    )


def read_letter(text: str) -> float | Unjudged:
    """1 for [[A]], 0 for [[B]], in the last 80 characters; both or none is no verdict."""
    return _letter(text, "[[{}]]", "verdicts")


def read_answer_tag(text: str) -> float | Unjudged:
    """The same of `<answer>[[A]]</answer>`, which RM-R1 is paid by: a letter that stands in its reasons is none."""
    return _letter(text, "<answer>[[{}]]</answer>", "answer tags")


def _letter(text: str, mark: str, called: str) -> float | Unjudged:
    tail = text.strip()[-_TAIL:]
    found = {letter for letter in "AB" if mark.format(letter) in tail}
    if len(found) != 1:
        return unreadable(f"unparsable: {'both' if found else 'no'} {called} in the last {_TAIL} characters")
    return float(found == {"A"})


def match_reward(read: Callable[[str], float | Unjudged], text: str, first_is_better: bool) -> float:
    """What RL pays for a comparison: +1 if it names the better one, −1 if not, or if it cannot be read."""
    said = read(text)
    return 1.0 if not isinstance(said, Unjudged) and said == float(first_is_better) else -1.0


class Pairwise(Critic):
    """Matches between the traces of a problem. `question` has places for query, first and second."""

    def __init__(
        self,
        policy: Policy,
        n: int,
        params: SamplingParams,
        question: str,
        read: Callable[[str], float | Unjudged],
        how: How = "elo",
        swap: bool = True,
        entrants: int = 16,
    ) -> None:
        if how not in ("elo", "win-rate", "knockout"):
            raise ValueError(f"how is elo, win-rate or knockout, not {how!r}")
        if entrants < 2:
            raise ValueError(f"entrants={entrants}: a comparison takes two traces of a problem")
        super().__init__(policy, n, params, {"question": question, "how": how, "swap": str(swap)})
        self.question, self.read, self.how, self.swap, self.entrants = question, read, how, swap, entrants

    @property
    def traits(self) -> Traits:
        """As of any critic, and the traces of a problem meet."""
        return replace(super().traits, compares=True)

    def at_most(self, steps: int | None) -> Bound:
        """A trace's share of the matches among `entrants`: (entrants − 1) / 2, in a knockout less than one."""
        replies = self.n * (2 if self.swap else 1) * (1 if self.how == "knockout" else (self.entrants - 1) / 2)
        return Bound(replies * self.params.max_tokens, replies)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The matches of all problems in one batch, or one a round; a trace alone in its problem is not judged."""
        groups: dict[str, list[int]] = {}
        for i, trace in enumerate(trajectories):
            if trace.steps:
                groups.setdefault(trace.problem.text, []).append(i)
        if crowded := next((group for group in groups.values() if len(group) > self.entrants), None):
            raise ValueError(
                f"{len(crowded)} traces of problem {trajectories[crowded[0]].problem.id!r} in one batch, and entrants is "
                f"{self.entrants}: raise it (--set entrants={len(crowded)}), or judge fewer at a time"
            )
        settled: dict[int, tuple[Settled, Mapping[str, float | None]]] = {}
        book = _Book(self, trajectories)
        if self.how == "knockout":
            settled |= self._knockout(groups, book)
        else:
            book.play([(group[a], group[b]) for group in groups.values() for a, b in round_robin(len(group))])
            for group in groups.values():
                settled |= self._round_robin(group, book)
        return [self._judgement(trace, *settled.get(i, (_ALONE, {}))) for i, trace in enumerate(trajectories)]

    def _round_robin(self, group: Sequence[int], book: _Book) -> dict[int, tuple[Settled, dict[str, float | None]]]:
        place = {i: k for k, i in enumerate(group)}
        matches = [Match(place[m.first], place[m.second], m.score) for m in book.matches if m.first in place]
        rates, ratings = win_rates(len(group), matches), mean_elo(len(group), matches)
        found = {}
        for k, i in enumerate(group):
            rate, facts = rates[k], {"win_rate": rates[k], "rating": ratings[k], **book.facts(i)}
            value = None if rate is None else rate if self.how == "win-rate" else expected(ratings[k], 1000.0)
            found[i] = book.settled(i, value, len(group) > 1), facts
        return found

    def _knockout(
        self, groups: Mapping[str, Sequence[int]], book: _Book
    ) -> dict[int, tuple[Settled, dict[str, float | None]]]:
        still = {name: list(group) for name, group in groups.items()}
        survived = {i: 0 for group in groups.values() for i in group}
        rounds = 0
        while any(len(group) > 1 for group in still.values()):
            drawn = {name: bracket(group, self.params.seed, rounds) for name, group in still.items()}
            winners = iter(book.play([pair for pairs, _ in drawn.values() for pair in pairs]))
            for name, (pairs, byes) in drawn.items():
                if pairs:
                    still[name] = sorted([next(winners) for _ in pairs] + byes)
                    for i in still[name]:
                        survived[i] += 1
            rounds += 1
        found = {}
        for group in groups.values():
            most = max(survived[i] for i in group) or 1
            for i in group:
                value = survived[i] / most if book.judged(i) else None
                found[i] = book.settled(i, value, len(group) > 1), {"rounds": float(survived[i]), **book.facts(i)}
        return found

    def _judgement(self, trace: Trajectory, settled: Settled, facts: Mapping[str, float | None]) -> Judgement:
        n = len(trace.steps)
        steps = [Settled(settled.value, settled.failure, None, settled.samples) for _ in range(n)]
        if steps:
            steps[-1] = Settled(settled.value, settled.failure, settled.rationale, settled.samples, settled.cost)
        aspects = {name: (value,) * n for name, value in facts.items()}
        return self.judgement(trace, steps, settled.value, aspects)


_ALONE = Settled(None, Unjudged(Reason.NO_REFERENCE, "no other trace of its problem to compare with"))


class _Book:
    """The matches of a batch, with what was written in them."""

    def __init__(self, judge: Pairwise, traces: Sequence[Trajectory]) -> None:
        self.owner, self.traces = judge, traces
        self.matches: list[Match] = []
        self.texts: dict[int, str] = {}
        self.costs: dict[int, Cost] = {}
        self.reasons: dict[int, Unjudged] = {}
        self.unread: dict[int, int] = {}
        self.steady: dict[int, list[float]] = {}

    def play(self, pairs: Sequence[tuple[int, int]]) -> list[int]:
        """Who wins each match; of a draw, or where nobody could say, who was drawn first."""
        orders = [(a, b, swapped) for a, b in pairs for swapped in ((False, True) if self.owner.swap else (False,))]
        requests = [self._request(b, a) if swapped else self._request(a, b) for a, b, swapped in orders]
        replies = iter(self.owner.ask(requests) if requests else [])
        winners = []
        for a, b in pairs:
            said = vote(self._scores(a, b, next(replies)))
            if self.owner.swap:
                swapped = vote([None if s is None else 1 - s for s in self._scores(a, b, next(replies))])
                if said is not None and swapped is not None:
                    for i in (a, b):
                        self.steady.setdefault(i, []).append(float(said == swapped))
                said = both_orders(said, swapped)
            self.matches.append(Match(a, b, said))
            winners.append(b if said is not None and said < 0.5 else a)
        return winners

    def _request(self, first: int, second: int) -> Request:
        one, two = self.traces[first], self.traces[second]
        shown = {"query": one.problem.text, "first": one.text.strip(), "second": two.text.strip()}
        return Request(say(self.owner.question.format(**shown)))

    def _scores(self, a: int, b: int, replies: Sequence[Reply]) -> list[float | None]:
        """What each reply says of the one it was shown first, with the books kept."""
        scores: list[float | None] = []
        for reply in replies:
            read = self.owner.unusable(reply) or self.owner.read(reply.text)
            silent = isinstance(read, Unjudged)
            scores.append(None if isinstance(read, Unjudged) else read)
            self.costs[a] = self.costs.get(a, Cost()) + reply.cost
            for i in (a, b):
                self.unread[i] = self.unread.get(i, 0) + silent
                if isinstance(read, Unjudged):
                    self.reasons.setdefault(i, read)
                else:
                    self.texts.setdefault(i, reply.text)
        return scores

    def judged(self, i: int) -> bool:
        return any(i in (m.first, m.second) and m.score is not None for m in self.matches)

    def facts(self, i: int) -> dict[str, float | None]:
        """Replies without a verdict, and how often the two orders of a match agreed."""
        steady = self.steady.get(i)
        return {"unread": float(self.unread.get(i, 0)), "steady": sum(steady) / len(steady) if steady else None}

    def settled(self, i: int, value: float | None, met: bool) -> Settled:
        played = sum(i in (m.first, m.second) and m.score is not None for m in self.matches)
        reason = None if value is not None else self.reasons.get(i, _ALONE.failure) if met else _ALONE.failure
        return Settled(value, reason, self.texts.get(i), played, self.costs.get(i, Cost()))


@register("reward", "rrm-reasoning")
def rrm_reasoning(
    policy: Policy,
    n: int = 1,
    how: How = "elo",
    swap: bool = True,
    entrants: int = 16,
    temperature: float = 0.6,
    max_tokens: int = 8192,
    seed: int = 0,
) -> Pairwise:
    """RRM: traces of a problem are compared two by two in long thought; Elo, win rates or a knockout make scores of it."""
    params = SamplingParams(temperature, max_tokens=max_tokens, seed=seed)
    made = Pairwise(policy, n, params, RRM_QUESTION, read_assistant, how, swap, entrants)
    made.kind = "rrm-reasoning"
    return made


@register("reward", "rm-r1")
def rm_r1(
    policy: Policy,
    n: int = 1,
    how: How = "elo",
    swap: bool = True,
    entrants: int = 16,
    temperature: float = 0.0,
    max_tokens: int = 8192,
    seed: int = 0,
) -> Pairwise:
    """RM-R1: rubrics of its own for chat, a solution of its own for problems, then which of two answers is better."""
    params = SamplingParams(temperature, max_tokens=max_tokens, seed=seed)
    made = Pairwise(policy, n, params, RM_R1_QUESTION, read_letter, how, swap, entrants)
    made.kind = "rm-r1"
    return made
