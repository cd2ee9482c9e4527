"""DG-PRM: criteria in a tree of two levels, those that matter chosen for every step, and pairs by Pareto dominance.

    tree       a criterion within cosine distance ξ of a stored one is merged with it (support counted), else added; children
               lie under the nearest parent
    selection  from the problem and the steps BEFORE, so that candidates for one step get the same list: a model names the
               parents that matter and says why; children within distance ζ of that analysis are taken, else the parent; the
               criteria of the last μ steps stay in scope, `most` in all
    scoring    the judge rates the step from 0 to 10 on each; value = mean / 10, each rating an aspect of that name
    pairs      a dominates b iff r_a ≥ r_b in every criterion and > in one; positives come from the front of those that nobody
               dominates, negatives are what such a one dominates, and candidates that cannot be compared make no pair

Distances are between hashed bags of words, which need no model and lie further apart than the vectors of an encoder, so that ζ
is 0.8 here; another `embed` may be given. Names of parents come with the criteria: nothing is clustered here. Criteria are
mined from pairs of outputs by `mine`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import (
    Asker,
    Critic,
    Opinion,
    Request,
    numbered,
    per_trace,
    say,
    settle,
    unreadable,
)
from footfall.reward.generative.whole_trace import json_objects
from footfall.types import Judgement, Trajectory, Unjudged

Vector = Sequence[float]
Embed = Callable[[str], Vector]
_WORD = re.compile(r"[^\W_]+")
_SIZE = 512


def hashed_words(text: str) -> list[float]:
    """A bag of words in 512 places, of length 1."""
    counts = [0.0] * _SIZE
    for word in _WORD.findall(text.lower()):
        counts[int.from_bytes(hashlib.blake2s(word.encode(), digest_size=4).digest(), "big") % _SIZE] += 1
    length = math.sqrt(sum(count * count for count in counts))
    return [count / length for count in counts] if length else counts


def distance(a: Vector, b: Vector) -> float:
    """1 − cos of two vectors; 1 if one is empty."""
    length = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return 1 - sum(x * y for x, y in zip(a, b, strict=True)) / length if length else 1.0


@dataclass(frozen=True)
class Criterion:
    """What a step may be judged by; a parent is coarse and has none above it."""

    name: str
    description: str
    parent: str | None = None

    @property
    def text(self) -> str:
        return f"{self.name}: {self.description}"


@dataclass
class RewardTree:
    """Criteria by name, with how often each was found."""

    merge: float = 0.15
    """ξ."""
    embed: Embed = hashed_words
    nodes: dict[str, Criterion] = field(default_factory=dict)
    support: dict[str, int] = field(default_factory=dict)
    vectors: dict[str, Vector] = field(default_factory=dict)

    def insert(self, criterion: Criterion) -> str:
        """The name under which it is stored: its own, or that of the one it was merged with."""
        if criterion.name in self.nodes:
            self.support[criterion.name] += 1
            return criterion.name
        vector = self.embed(criterion.text)
        level = [name for name, node in self.nodes.items() if (node.parent is None) == (criterion.parent is None)]
        near = min(level, key=lambda name: distance(vector, self.vectors[name]), default=None)
        if near is not None and distance(vector, self.vectors[near]) <= self.merge:
            self.support[near] += 1
            return near
        self.nodes[criterion.name], self.support[criterion.name] = criterion, 1
        self.vectors[criterion.name] = vector
        return criterion.name

    @property
    def parents(self) -> list[Criterion]:
        return [node for node in self.nodes.values() if node.parent is None]

    def selected(self, parent: str, analysis: str, near: float = 0.8) -> list[str]:
        """The children of a parent within ζ of the analysis, nearest first; the parent itself where there is none."""
        vector = self.embed(analysis)
        own = [name for name, node in self.nodes.items() if node.parent == parent]
        close = sorted((distance(vector, self.vectors[name]), name) for name in own)
        return [name for far, name in close if far < near] or [parent]


GENERAL = (
    Criterion("correctness", "what the step states is true and computed without error"),
    Criterion("arithmetic", "every calculation in the step gives the result that is written", "correctness"),
    Criterion("facts", "every fact, formula or theorem in the step is true and applies here", "correctness"),
    Criterion("soundness", "the step follows from the problem and from the steps before it"),
    Criterion("consistency", "the step contradicts nothing that was given or derived before", "soundness"),
    Criterion("justification", "the step gives the reason for what it claims and skips nothing needed", "soundness"),
    Criterion("progress", "the step brings the solution nearer to what is asked"),
    Criterion("relevance", "the step is about what the problem asks for", "progress"),
    Criterion("economy", "the step repeats nothing and adds nothing needless", "progress"),
)
"""Where no criteria are named."""


def dominates(a: Vector, b: Vector) -> bool:
    """At least as good in every criterion, and better in one."""
    return all(x >= y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))


def front(scores: Sequence[Vector]) -> list[int]:
    """The candidates that nobody dominates."""
    return [i for i, own in enumerate(scores) if not any(dominates(other, own) for other in scores)]


def pareto_pairs(scores: Sequence[Vector]) -> list[tuple[int, int]]:
    """Pairs for step-wise DPO: a candidate of the front and one that it dominates."""
    return [(i, j) for i in front(scores) for j, other in enumerate(scores) if dominates(scores[i], other)]


SELECT = """A solution is judged step by step. Here are a problem, the steps so far and coarse criteria. Which of the criteria \
matter for the NEXT step, whatever it will be, and what should be looked at closely? Reply with one JSON object: {{"criteria": \
[names], "analysis": "…"}}

[Criteria]
{criteria}

[Problem]
{problem}

[Steps so far]
{steps}"""
SCORE = """Rate one step of a solution by each of the criteria, from 0 (violates it) to 10 (satisfies it fully). Give the \
reasons first, then one JSON object: {{"scores": [one number a criterion, in their order]}}

[Criteria]
{criteria}

[Problem]
{problem}

[Steps before it]
{steps}

[Step]
{step}"""
MINE = """Two outputs for one task; the first is better. Explain what makes the difference, and state general criteria for \
judging steps, which name nothing of this task. Reply with one JSON object: {{"criteria": [{{"name": "…", "description": \
"…", "parent": "name of a coarser criterion"}}, …]}}

[Task]
{problem}

[Better output]
{better}

[Worse output]
{worse}"""
_NOTHING = "(none)"


def read_ratings(text: str, criteria: int) -> list[float] | Unjudged:
    """The last list of scores, one a criterion, from 0 to 10."""
    found = [table["scores"] for table in json_objects(text) if "scores" in table]
    row = found[-1] if found else None
    if not isinstance(row, list) or len(row) != criteria:
        return unreadable(f"unparsable: no list of {criteria} scores")
    if any(isinstance(x, bool) or not isinstance(x, int | float) or not 0 <= x <= 10 for x in row):
        return unreadable("unparsable: a score is no number between 0 and 10")
    return [float(x) for x in row]


def mine(
    policy: Policy, pairs: Sequence[tuple[Trajectory, Trajectory]], params: SamplingParams, tree: RewardTree
) -> int:
    """Put the criteria that a model finds in pairs of a better and a worse output into the tree; how many were new."""
    before = len(tree.nodes)
    shown = [{"problem": a.problem.text, "better": a.text.strip(), "worse": b.text.strip()} for a, b in pairs]
    for (reply,) in Asker(policy).ask([Request(say(MINE.format(**each))) for each in shown], 1, params):
        rows = [row for table in json_objects(reply.text) for row in _list(table.get("criteria"))]
        for row in rows if not reply.cut else ():
            if isinstance(row, dict) and all(
                isinstance(row.get(key), str) for key in ("name", "description", "parent")
            ):
                named = tree.insert(Criterion(row["parent"], row["parent"]))
                # There are two levels: what is said to lie under a fine criterion lies beside it.
                parent = tree.nodes[named].parent or named
                tree.insert(Criterion(row["name"], row["description"], parent))
    return len(tree.nodes) - before


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def read_tree(file: str | Path | None, merge: float = 0.15) -> RewardTree:
    """A tree of the criteria in a JSON file, a list of name, description and parent; without a file, general ones."""
    tree = RewardTree(merge)
    rows: Sequence[Criterion] = GENERAL
    if file is not None:
        given = json.loads(Path(file).read_text(encoding="utf-8"))
        try:
            rows = [Criterion(row["name"], row["description"], row.get("parent")) for row in given]
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{file}: criteria are a list of objects with name, description and parent ({error!r})"
            ) from error
    for each in rows:
        tree.insert(each)
    if not tree.parents:
        raise ValueError(f"{file}: no criterion is coarse: leave out the parent of some")
    known = {node.name for node in tree.parents}
    if lost := next(
        (node for node in tree.nodes.values() if node.parent is not None and node.parent not in known), None
    ):
        raise ValueError(f"{file}: {lost.name!r} lies under {lost.parent!r}, which is no coarse criterion of the file")
    return tree


class DGPRM(Critic):
    """Two batches for all steps of all traces: what matters, then the ratings."""

    kind = "dg-prm"
    per_step = True
    replies = 2

    def __init__(
        self, policy: Policy, n: int, params: SamplingParams, tree: RewardTree, near: float, window: int, most: int
    ) -> None:
        listed = {"criteria": json.dumps([node.text for node in tree.nodes.values()])}
        super().__init__(policy, n, params, {**listed, "near": str(near), "window": str(window), "most": str(most)})
        self.tree, self.near, self.window, self.most = tree, near, window, most

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The mean rating of each step, out of 1, and every rating as an aspect."""
        places = [(t, k) for t in trajectories for k in range(len(t.steps))]
        picked = self.ask([self._select(t, k) for t, k in places], n=1) if places else []
        chosen = [self._chosen(reply.text) if self.unusable(reply) is None else [] for (reply,) in picked]
        lists = [self._scope(chosen, i, k) for i, (_, k) in enumerate(places)]
        replies = self.ask([self._score(t, k, names) for (t, k), names in zip(places, lists, strict=True)])
        settled, ratings = [], []
        for (first,), names, row in zip(picked, lists, replies, strict=True):
            read = [self.unusable(reply) or read_ratings(reply.text, len(names)) for reply in row]
            known = [each for each in read if not isinstance(each, Unjudged)]
            opinions = [
                Opinion(None, each, reply.text, reply.cost) if isinstance(each, Unjudged)
                else Opinion(sum(each) / len(each) / 10, None, reply.text, reply.cost)
                for each, reply in zip(read, row, strict=True)
            ]  # fmt: skip
            settled.append(settle([*opinions, Opinion(cost=first.cost)]))
            ratings.append({name: sum(each[i] for each in known) / len(known) for i, name in enumerate(names) if known})
        found, at = [], 0
        for trace, steps in zip(trajectories, per_trace(trajectories, settled), strict=True):
            found.append(self.judgement(trace, steps, aspects=_columns(ratings[at : at + len(steps)])))
            at += len(steps)
        return found

    def _chosen(self, text: str) -> list[str]:
        """Criteria that the analysis asks for; names that are no parents are passed over."""
        found = [table for table in json_objects(text) if "criteria" in table]
        known = {node.name for node in self.tree.parents}
        wanted = _list(found[-1]["criteria"]) if found else []
        named = [name for name in wanted if isinstance(name, str) and name in known]
        analysis = str(found[-1].get("analysis", "")) if found else ""
        return [name for parent in named for name in self.tree.selected(parent, analysis, self.near)]

    def _scope(self, chosen: Sequence[Sequence[str]], i: int, k: int) -> list[str]:
        """The step's own criteria, then those of the last steps; all parents where nothing was chosen."""
        recent = [name for back in range(min(k, self.window) + 1) for name in chosen[i - back]]
        return list(dict.fromkeys(recent))[: self.most] or [node.name for node in self.tree.parents][: self.most]

    def _select(self, trace: Trajectory, k: int) -> Request:
        shown = {"criteria": "\n".join(node.text for node in self.tree.parents), "problem": trace.problem.text}
        return Request(say(SELECT.format(steps="\n".join(numbered(trace)[:k]) or _NOTHING, **shown)))

    def _score(self, trace: Trajectory, k: int, names: Sequence[str]) -> Request:
        listed = "\n".join(f"{i}. {self.tree.nodes[name].text}" for i, name in enumerate(names, 1))
        shown = {"criteria": listed, "problem": trace.problem.text, "step": trace.steps[k].written}
        return Request(say(SCORE.format(steps="\n".join(numbered(trace)[:k]) or _NOTHING, **shown)))


def _columns(ratings: Sequence[Mapping[str, float]]) -> dict[str, tuple[float | None, ...]]:
    names = dict.fromkeys(name for row in ratings for name in row)
    return {name: tuple(row.get(name) for row in ratings) for name in names}


@register("reward", "dg-prm")
def dg_prm(
    policy: Policy,
    criteria: str | Path | None = None,
    n: int = 1,
    merge: float = 0.15,
    near: float = 0.8,
    window: int = 2,
    most: int = 5,
    temperature: float = 0.0,
    max_tokens: int = 2048,
    seed: int = 0,
) -> DGPRM:
    """DG-PRM: for each step the criteria of a tree that matter, then a rating from 0 to 10 by each; the mean is the value."""
    params = SamplingParams(temperature, max_tokens=max_tokens, seed=seed)
    return DGPRM(policy, n, params, read_tree(criteria, merge), near, window, most)
