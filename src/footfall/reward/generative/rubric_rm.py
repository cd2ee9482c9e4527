"""Rubric reward model: a whole solution graded against a rubric of its problem, so that a right answer alone earns little.

Two questions. The rubric is written once a problem, from the problem and its reference answer, as checkpoints with points that
add up to 10, one of them for the final answer; a problem may bring its own as `meta["rubric"]`. The grader then gives points
for every checkpoint, a critique, and the steps that come out of nowhere:

    score = Σ points earned (each between 0 and what the checkpoint is worth),   value = score / 10

A step named as a miracle has the value 0 and the others that of the whole; the aspect `miracle` says which. A reply without
a readable grade is no opinion. (The paper pays an unreadable grade 0 in RL: `grade_reward` does.)

    verified pass@k   1 − C(n−c, k) / C(n, k), c the samples that are right and soundly derived
    miracle rate      share of the samples with a right answer that have a miracle step
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from footfall.judging import Bound
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import Critic, Reply, Request, Settled, numbered, say, unreadable
from footfall.reward.generative.whole_trace import json_objects
from footfall.types import Cost, Judgement, Problem, Reason, Trajectory, Unjudged, content_key

FULL = 10.0
FLAWS = ("miracle step", "over-generalisation", "outcome-irrelevant mistake", "ignored precondition",
         "unverified assumption", "numerical coincidence")  # fmt: skip
"""How a right answer can come from wrong reasoning."""
RUBRIC = """Write a rubric for grading solutions of the problem below: three to eight checkpoints of the logical skeleton, \
the key computations and the validity of the inferences, with points that add up to 10. It must not ask for one method: \
another sound way has to earn the same. One checkpoint, worth 2 points at most, is the final answer. Reply with one JSON \
object: {{"rubric": [{{"criterion": "…", "points": 3}}, …]}}

[Problem]
{problem}

[Reference answer]
{answer}"""
GRADE = """Grade a solution by the rubric. For every checkpoint give the points that are earned by what is written, not by \
what is only true. Name the steps that come out of nowhere: a result that no earlier step leads to, an answer without \
derivation. Reply with a critique and then one JSON object: {{"points": [one number a checkpoint], "miracle": [numbers of \
such steps]}}

[Problem]
{problem}

[Rubric]
{rubric}

[Solution]
{solution}"""


class Checkpoint(NamedTuple):
    """What a solution has to do, and what that is worth."""

    criterion: str
    points: float


class Grade(NamedTuple):
    """The score out of 10, and the steps, from 0 on, that come out of nowhere."""

    score: float
    miracles: frozenset[int]


def read_rubric(given: Mapping[str, object]) -> tuple[Checkpoint, ...] | Unjudged:
    """Checkpoints whose points are above 0 and add up to 10."""
    rows = given.get("rubric")
    if not isinstance(rows, list) or not rows:
        return unreadable("unparsable: no list called rubric")
    found = []
    for row in rows:
        points = row.get("points") if isinstance(row, dict) else None
        if not isinstance(points, int | float) or isinstance(points, bool) or not 0 < points <= FULL:
            return unreadable("unparsable: a checkpoint's points are not between 0 and 10")
        found.append(Checkpoint(str(row.get("criterion", "")), float(points)))
    if abs(sum(each.points for each in found) - FULL) > 1e-6:
        return unreadable(f"unparsable: the points add up to {sum(each.points for each in found):g}, not to 10")
    return tuple(found)


def read_grade(text: str, rubric: Sequence[Checkpoint], steps: int) -> Grade | Unjudged:
    """The last object with points: each is clipped to what its checkpoint is worth."""
    found = [table for table in json_objects(text) if "points" in table]
    points = found[-1]["points"] if found else None
    if not isinstance(points, list) or len(points) != len(rubric):
        return unreadable(f"unparsable: no list of {len(rubric)} points")
    if any(isinstance(x, bool) or not isinstance(x, int | float) or x != x for x in points):
        return unreadable("unparsable: a checkpoint's points are no number")
    named = found[-1].get("miracle", [])
    numbers = [k for k in named if isinstance(k, int) and not isinstance(k, bool)] if isinstance(named, list) else []
    miracles = [k for k in numbers if 1 <= k <= steps]
    earned = [float(min(max(x, 0), each.points)) for x, each in zip(points, rubric, strict=True)]
    return Grade(sum(earned), frozenset(k - 1 for k in miracles))


def grade_reward(predicted: float | None, target: float) -> float:
    """What RL of the grader pays: 1 − |s − s*| / 10; 0 for a grade that cannot be read."""
    return 0.0 if predicted is None else 1 - abs(min(max(predicted, 0.0), FULL) - target) / FULL


def miracle_rate(right: Sequence[bool], miracle: Sequence[bool]) -> float | None:
    """The share of samples with a right answer that have a miracle step; `None` if no answer is right."""
    flagged = [flag for good, flag in zip(right, miracle, strict=True) if good]
    return sum(flagged) / len(flagged) if flagged else None


class RubricRM(Critic):
    """The rubrics of all problems in one batch, all grades in one more."""

    kind = "rubric-rm"

    def __init__(self, policy: Policy, n: int, params: SamplingParams) -> None:
        super().__init__(policy, n, params, {"rubric": RUBRIC, "grade": GRADE})
        self._known: dict[str, tuple[Checkpoint, ...] | Unjudged] = {}

    def at_most(self, steps: int | None) -> Bound:
        """A rubric, and `n` grades."""
        return Bound((1 + self.n) * self.params.max_tokens, 1 + self.n)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The mean grade of each trace, out of 1."""
        written, paid = self._write([t.problem for t in trajectories if t.steps])
        rubrics = [written[_graded(t.problem)] if t.steps else _NOTHING for t in trajectories]
        graded = [(t, r) for t, r in zip(trajectories, rubrics, strict=True) if not isinstance(r, Unjudged)]
        replies = iter(self.ask([grade_request(t, rubric) for t, rubric in graded]) if graded else [])
        found = []
        for trace, rubric in zip(trajectories, rubrics, strict=True):
            cost = paid.pop(_graded(trace.problem), Cost()) if trace.steps else Cost()
            found.append(self._judgement(trace, rubric, next(replies), cost) if not isinstance(rubric, Unjudged)
                         else self._silent(trace, rubric, cost))  # fmt: skip
        return found

    def _write(
        self, problems: Sequence[Problem]
    ) -> tuple[dict[str, tuple[Checkpoint, ...] | Unjudged], dict[str, Cost]]:
        """The rubric of each problem, and what those that it did not have yet cost; a problem's own comes first.

        One that could not be asked for is asked for again the next time.
        """
        wanted = {_graded(p): p for p in problems if _graded(p) not in self._known}
        for key, problem in list(wanted.items()):
            if "rubric" in problem.meta:
                self._known[key] = read_rubric(problem.meta)
                del wanted[key]
        asked = [Request(say(RUBRIC.format(problem=p.text, answer=p.answer or "(unknown)"))) for p in wanted.values()]
        replies = self.ask(asked, n=1) if asked else []
        said = {
            key: self.unusable(reply) or _last_rubric(reply.text) for key, (reply,) in zip(wanted, replies, strict=True)
        }
        self._known |= {key: said[key] for key, (reply,) in zip(wanted, replies, strict=True) if reply.failure is None}
        return self._known | said, {key: reply.cost for key, (reply,) in zip(wanted, replies, strict=True)}

    def _judgement(
        self, trace: Trajectory, rubric: Sequence[Checkpoint], replies: Sequence[Reply], cost: Cost
    ) -> Judgement:
        n = len(trace.steps)
        read = [self.unusable(reply) or read_grade(reply.text, rubric, n) for reply in replies]
        grades = [grade for grade in read if not isinstance(grade, Unjudged)]
        cost += Cost.total(reply.cost for reply in replies)
        if not grades:
            return self._silent(trace, next(r for r in read if isinstance(r, Unjudged)), cost, replies[0].text)
        value = sum(grade.score for grade in grades) / len(grades) / FULL
        flagged = tuple(float(2 * sum(k in grade.miracles for grade in grades) > len(grades)) for k in range(n))
        text = replies[next(i for i, grade in enumerate(read) if not isinstance(grade, Unjudged))].text
        steps = [
            Settled(0.0 if flagged[k] else value, None, text if k == n - 1 else None, len(grades)) for k in range(n)
        ]
        return self.judgement(trace, steps, value, {"miracle": flagged}, cost)

    def _silent(self, trace: Trajectory, why: Unjudged, cost: Cost, text: str | None = None) -> Judgement:
        n = len(trace.steps)
        return self.judgement(trace, [Settled(None, why, text if k == n - 1 else None) for k in range(n)], cost=cost)


_NOTHING = Unjudged(Reason.NOT_ASKED, "there is no step to grade")


def _graded(problem: Problem) -> str:
    """What a rubric depends on: problems of one text may have other answers, and bring other rubrics."""
    return content_key(
        problem.text, problem.answer, json.dumps(problem.meta.get("rubric"), sort_keys=True, default=str)
    )


def _last_rubric(text: str) -> tuple[Checkpoint, ...] | Unjudged:
    found = [table for table in json_objects(text) if "rubric" in table]
    return read_rubric(found[-1]) if found else unreadable("unparsable: no JSON object with a rubric")


def grade_request(trace: Trajectory, rubric: Sequence[Checkpoint]) -> Request:
    """What the grader is asked."""
    listed = json.dumps([each._asdict() for each in rubric], ensure_ascii=False)
    shown = {"problem": trace.problem.text, "rubric": listed, "solution": "\n".join(numbered(trace))}
    return Request(say(GRADE.format(**shown)))


@register("reward", "rubric-rm")
def rubric_rm(policy: Policy, n: int = 1, temperature: float = 0.0, max_tokens: int = 4096, seed: int = 0) -> RubricRM:
    """Rubric reward model: a rubric a problem, then the points that a solution earns by it; miracle steps have the value 0."""
    return RubricRM(policy, n, SamplingParams(temperature, max_tokens=max_tokens, seed=seed))
