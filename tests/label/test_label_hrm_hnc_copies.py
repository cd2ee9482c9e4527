"""Siblings with the same text are different nodes of a full tree, and each is rolled out for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from footfall.label.hrm_hnc import FullTrees
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Step, Trajectory
from tests.label.scripted_policy import PROBLEM


@dataclass
class Repeating:
    """The first step is always the same; the answer after it is right for every second sample index."""

    asked: list[tuple[int, int]] = field(default_factory=list)
    name: str = "repeating"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.asked.append((len(prefixes), n))
        return [[self._write(prefix, i) for i in range(first, first + n)] for prefix in prefixes]

    def _write(self, prefix: Trajectory, index: int) -> Completion:
        if not prefix.steps:
            return Completion((Step("Same."),), "step", index, cost=Cost(calls=1))
        return Completion((Step(f"The answer is {7 if index < 3 else 8}."),), "end", index, cost=Cost(calls=1))


def test_each_copy_has_samples_of_its_own() -> None:
    policy = Repeating()
    grown = FullTrees(policy, branch=2, depth=2).grow([PROBLEM])
    (tree,) = grown.trees
    assert policy.asked == [(1, 2), (1, 4)], "the two copies are one prefix with four samples"
    assert [tree.nodes[i].value for i in tree.children(-1)] == [1.0, 0.5], "samples 0 and 1, then 2 and 3"
    assert tree.value == 0.75 and grown.cost.calls == len(tree.nodes) == 6


@dataclass
class Silent(Repeating):
    """Writes the answer as a step, and then ends without another: as most language models do."""

    def _write(self, prefix: Trajectory, index: int) -> Completion:
        if prefix.steps:
            return Completion((), "end", index, cost=Cost(calls=1))
        return Completion((Step(f"The answer is {7 + index}."),), "step", index, cost=Cost(calls=1))


def test_a_text_that_ends_with_nothing_more_to_say_is_graded_where_it_ended() -> None:
    (tree,) = FullTrees(Silent(), branch=2, depth=3).grow([PROBLEM]).trees
    assert [(node.terminal, node.value) for node in tree.nodes] == [(True, 1.0), (True, 0.0)]
    assert tree.value == 0.5
