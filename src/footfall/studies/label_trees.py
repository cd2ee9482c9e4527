"""Methods that write their own traces: trees from problems alone, read as whole traces with a label at each step.

The worlds' truth is about whole traces, so a tree gives one trace a leaf. OmegaPRM values the ends of segments, EDU-PRM the
ends of fragments; a step has the value of the segment or fragment in which it ends. HRM values every step; its merged pairs
are left out, for the truth is about single steps.

`WordWriter` makes of a scripted policy one that writes word by word, as a language model does: greedy texts, and what else
could have come. A token is a word, with the space before it, or the end of a line:

    P(w | line so far) = Σ P(lines that go on with w) / Σ P(lines that begin so), by `footfall.worlds.scripted`
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, runtime_checkable

from footfall.drive.rollouts import drawn
from footfall.drive.trees import leaf_rows
from footfall.label.edu_prm import EntropyTrees
from footfall.label.edu_prm import Grown as Branched
from footfall.label.hrm_hnc import Expansion, FullTrees
from footfall.label.omegaprm import Grown, OmegaPRM
from footfall.policy.protocol import Completion
from footfall.segment.tokens import entropy_of
from footfall.studies.label_setting import Setting, scripted
from footfall.types import Cost, Judged, Problem, Step, Trajectory, failures_of
from footfall.worlds.scripted import next_steps


class Paid(Protocol):
    """A tree, or several, and what they cost."""

    @property
    def cost(self) -> Cost: ...


@runtime_checkable
class OwnTraces(Protocol):
    """Labelled traces from problems alone."""

    @property
    def name(self) -> str: ...

    def grow(self, problems: Sequence[Problem], separator: str) -> Sequence[Paid]:
        """The trees of all problems."""
        ...

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        """The traces of the trees."""
        ...


@dataclass(frozen=True)
class _Searched:
    """OmegaPRM's trees."""

    trees: OmegaPRM

    @property
    def name(self) -> str:
        return self.trees.name

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Grown]:
        return self.trees.grow(problems, separator)

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        grown = self.grow(problems, separator)
        return [by_segments(row) for each in grown for row in leaf_rows(each.tree, self.name)]


@dataclass(frozen=True)
class _Branched:
    """EDU-PRM's trees."""

    trees: EntropyTrees

    @property
    def name(self) -> str:
        return self.trees.name

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Branched]:
        return replace(self.trees, separator=separator).grow(problems)

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        rows = [row for each in self.grow(problems, separator) for row in each.rows(self.name)]
        return [by_lines(row, self.trees.writer.in_lines(row.trajectory)) for row in rows]


@dataclass(frozen=True)
class _Full:
    """HRM's trees."""

    trees: FullTrees

    @property
    def name(self) -> str:
        size = f"branch={self.trees.branch},depth={self.trees.depth}"
        return f"hrm-tree({self.trees.policy.name},{size},{drawn(self.trees.params)})"

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Expansion]:
        return [self.trees.grow(problems, separator)]

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        trees = [tree for each in self.grow(problems, separator) for tree in each.trees]
        rows = [row for tree in trees for row in leaf_rows(tree, self.name)]
        # Siblings may have one text: an answer has one wording.
        return list({(row.trajectory.key, row.judgement and row.judgement.values): row for row in rows}.values())


def by_segments(row: Judged) -> Judged:
    """Each step with the value of its segment, which the next probed prefix ends; the aspect `mc` has the probed ones alone."""
    trajectory, said = row
    assert said is not None
    values, following = [], None
    for value in reversed(said.values):
        following = following if value is None else value
        values.append(following)
    filled = tuple(reversed(values))
    failures = tuple(why if value is None else None for value, why in zip(filled, said.failures, strict=False))
    told = failures_of(failures)
    return Judged(
        trajectory, replace(said, values=filled, aspects={"mc": said.values}, failures=told).check(trajectory)
    )


def by_lines(row: Judged, lines: Trajectory) -> Judged:
    """The same text in lines: nothing branches within a fragment, so a line has the value of the fragment it ends in."""
    trajectory, said = row
    assert said is not None
    ends = list(accumulate(len(step.token_ids or ()) for step in trajectory.steps))
    closed = accumulate(len(step.token_ids or ()) for step in lines.steps)
    values = tuple(said.values[bisect_left(ends, end)] for end in closed)
    return Judged(lines, replace(said, values=values, failures=()).check(lines))


def search_trees(setting: Setting, budget: float) -> OwnTraces:
    """OmegaPRM's trees of the same problems, by so many binary searches a problem."""
    return _Searched(OmegaPRM(setting.policy, searches=int(budget), params=setting.params))


def full_trees(setting: Setting, budget: float) -> OwnTraces:
    """HRM's trees of the same problems, two steps after every step, so deep."""
    return _Full(FullTrees(setting.policy, branch=2, depth=int(budget), params=setting.params))


def entropy_trees(threshold: float = 1.0) -> Callable[[Setting, float], OwnTraces]:
    """EDU-PRM's trees of the same problems, with so many solutions each, that branch above `threshold` nats."""

    def make(setting: Setting, budget: float) -> OwnTraces:
        writer = WordWriter(scripted(setting))
        return _Branched(EntropyTrees(writer, int(budget), threshold, setting.params.max_tokens))

    return make


_END = "\n"
Chance = tuple[float, str]


class WordThoughts(NamedTuple):
    """What the policy thought before each word."""

    entropy: tuple[float, ...]
    second: tuple[int, ...]
    """-1 where there was but one."""
    second_logprob: tuple[float, ...]


@dataclass(frozen=True)
class WordWriter:
    """The scripted policy of a world whose lines are words with one space between."""

    scripted: Any
    _words: list[str] = field(default_factory=list, repr=False, compare=False)
    _ids: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[tuple[str, tuple[int, ...]], list[Chance]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        return str(self.scripted.name)

    @property
    def vocabulary(self) -> str:
        return f"words of {self.name}"

    def finish(self, prefixes: Sequence[Trajectory], max_tokens: int) -> list[Completion]:
        """The likeliest word after each word, to the end of the answer's line."""
        return [self._finish(prefix.problem, _ids_of(prefix), max_tokens) for prefix in prefixes]

    def thoughts(self, trajectories: Sequence[Trajectory]) -> list[WordThoughts]:
        return [self._thoughts(trace.problem, _ids_of(trace)) for trace in trajectories]

    def ends(self, token: int) -> bool:
        """A text ends by itself after its answer: there is no word for it."""
        return token < 0

    def text(self, ids: Sequence[int]) -> str:
        return "".join(self._words[i] for i in ids)

    def in_lines(self, trajectory: Trajectory) -> Trajectory:
        """One step a line; its ids hold the line's end."""
        steps = tuple(Step(self.text(line).removesuffix(_END), token_ids=line) for line in self._lines(trajectory))
        return replace(trajectory, steps=steps, separator=_END)

    def _lines(self, trajectory: Trajectory) -> Iterator[tuple[int, ...]]:
        ids, start = _ids_of(trajectory), 0
        for at, i in enumerate(ids, 1):
            if self._words[i] == _END or at == len(ids):
                yield ids[start:at]
                start = at

    def _finish(self, problem: Problem, begun: tuple[int, ...], max_tokens: int) -> Completion:
        ids, logprobs = list(begun), list[float]()
        while (chances := self.chances(problem, tuple(ids))) and len(logprobs) < max_tokens:
            chance, word = chances[0]
            ids.append(self._id(word))
            logprobs.append(math.log(chance))
        own = tuple(ids[len(begun) :])
        step = Step(self.text(own), token_ids=own, logprobs=tuple(logprobs))
        cost = Cost(generated_tokens=len(own), calls=1)
        return Completion((step,) if own else (), "length" if chances else "end", tokenizer=self.vocabulary, cost=cost)

    def _thoughts(self, problem: Problem, ids: tuple[int, ...]) -> WordThoughts:
        rows = [self.chances(problem, ids[:at]) for at in range(len(ids))]
        seconds = [row[1] if len(row) > 1 else None for row in rows]
        return WordThoughts(
            tuple(entropy_of(chance for chance, _ in row) for row in rows),
            tuple(-1 if second is None else self._id(second[1]) for second in seconds),
            tuple(-math.inf if second is None else math.log(second[0]) for second in seconds),
        )

    def chances(self, problem: Problem, ids: tuple[int, ...]) -> list[Chance]:
        """Every token that may come after these, likeliest first, in alphabetical order where it is a tie."""
        at = problem.id, ids
        if at not in self._known:
            self._known[at] = self._chances(problem, self.text(ids).split(_END))
        return self._known[at]

    def _chances(self, problem: Problem, lines: Sequence[str]) -> list[Chance]:
        prefix = Trajectory(problem.id, problem, tuple(map(Step, lines[:-1])), separator=_END)
        begun = tuple(lines[-1].split())
        found: defaultdict[str, float] = defaultdict(float)
        for words, chance in next_steps(self.scripted, prefix).items():
            if words[: len(begun)] == begun:
                word = (*words, _END)[len(begun)]
                found[word if word == _END or not begun else f" {word}"] += chance
        total = math.fsum(found.values())
        # Sums of equal chances differ in their last digits.
        ranked = sorted(found.items(), key=lambda item: (-round(item[1] / total, 9), item[0]))
        return [(min(1.0, chance / total), word) for word, chance in ranked]

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._words)
            self._words.append(word)
        return self._ids[word]


def _ids_of(trajectory: Trajectory) -> tuple[int, ...]:
    return tuple(i for step in trajectory.steps for i in step.token_ids or ())
