"""Which policies can go on in the middle of a step, also behind a store; what they then write is paid for once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from footfall.drive.rollout_store import RolloutStore, StoredPolicy, prefix_address
from footfall.policy.protocol import Completion, SamplingParams
from footfall.policy.resuming import InWords, can_resume, resuming, unfinished
from footfall.types import Cost, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

SHORT = SamplingParams(max_tokens=2, until="step", seed=3)
LONG = SamplingParams(max_tokens=64, until="step", seed=3)
PREFIX = Trajectory("p", Problem("p", "What is 2 + 2?", "4"), (Step("two and"),))


@dataclass
class Plain:
    """Writes one step, the same for every prefix; remembers what it was asked for."""

    asked: list[tuple[str, str, int]] = field(default_factory=list)
    name: str = "plain"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._written("sample", p, i, "next") for i in range(first, first + n)] for p in prefixes]

    def _written(self, how: str, prefix: Trajectory, index: int, text: str) -> Completion:
        self.asked.append((how, prefix.text, index))
        return Completion((Step(f"{text} {index}"),), "step", index, cost=Cost(generated_tokens=3, calls=1))


class Going(Plain):
    """The same, which can go on in the middle of a step."""

    def resume(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [
            [self._written("resume", p, i, p.steps[-1].text + " more") for i in range(first, first + n)]
            for p in prefixes
        ]


def test_a_store_can_resume_if_its_policy_can(tmp_path: Path) -> None:
    assert can_resume(Going()) and not can_resume(Plain())
    assert can_resume(StoredPolicy(Going(), tmp_path / "a"))
    assert not can_resume(StoredPolicy(Plain(), tmp_path / "b"))
    with pytest.raises(ValueError, match="plain cannot go on in the middle of a step"):
        resuming(StoredPolicy(Plain(), tmp_path / "b")).sample([unfinished(PREFIX)], 1, LONG)


def test_a_scripted_policy_behind_a_store_stops_after_words(tmp_path: Path) -> None:
    assert isinstance(resuming(StoredPolicy(ArithmeticPolicy(), tmp_path)).policy, InWords)
    assert isinstance(resuming(StoredPolicy(Going(), tmp_path)).policy, StoredPolicy)


def test_resumed_completions_are_stored_and_never_asked_for_twice(tmp_path: Path) -> None:
    inner = Going()
    first = resuming(StoredPolicy(inner, tmp_path)).sample([unfinished(PREFIX)], 2, LONG)
    assert [c.steps[0].text for c in first[0]] == ["two and more 0", "two and more 1"]
    again = StoredPolicy(inner, RolloutStore(tmp_path))
    second = resuming(again).sample([unfinished(PREFIX)], 3, LONG)
    assert [c.steps for c in second[0][:2]] == [c.steps for c in first[0]]
    assert inner.asked == [("resume", PREFIX.text, i) for i in range(3)], "only the third was new"
    assert (again.counts.hits, again.counts.misses) == (2, 1)
    assert [c.cost.generated_tokens for c in second[0]] == [0, 0, 3]


def test_a_prefix_and_the_same_prefix_unfinished_do_not_share_completions(tmp_path: Path) -> None:
    inner = Going()
    policy = resuming(StoredPolicy(inner, tmp_path))
    whole, begun = policy.sample([PREFIX, unfinished(PREFIX)], 1, LONG)
    assert (whole[0].steps[0].text, begun[0].steps[0].text) == ("next 0", "two and more 0")
    assert policy.sample([unfinished(PREFIX), PREFIX], 1, LONG)[1][0].steps == whole[0].steps
    assert len(inner.asked) == 2
    assert prefix_address(PREFIX) != prefix_address(PREFIX, unfinished=True)


def test_early_rejection_on_a_scripted_policy_pays_for_no_step_twice(tmp_path: Path) -> None:
    ((problem, _),) = ArithmeticWorld().traces(ArithmeticPolicy(), 1, seed=5)
    top = Trajectory("t", problem)

    def run() -> tuple[list[Completion], StoredPolicy]:
        stored = StoredPolicy(ArithmeticPolicy(), tmp_path)
        policy = resuming(stored)
        [[cut]] = policy.sample([top], 1, SHORT)
        return policy.sample([unfinished(top.extend(cut.steps))], 2, LONG)[0], stored

    (bare, first), (again, second) = run(), run()
    assert [c.steps for c in bare] == [c.steps for c in again]
    assert first.counts.misses > 0 and second.counts.misses == 0
