"""The rollout store: any order of requests gives what the bare policy gives, and nothing is asked for twice."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.drive.rollout_store import RolloutStore, StoredPolicy, prefix_address
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import Completion, Policy, SamplingParams, can_choose
from footfall.types import Cost, Message, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import FOUR_STEPS, PROBLEM, Scripted, trace

WORLD = ArithmeticWorld()
PREFIXES = [t.prefix(k) for _, t in WORLD.traces(ArithmeticPolicy(), 4, seed=3) for k in range(min(3, len(t.steps)))]
PARAMS = [SamplingParams(seed=1), SamplingParams(seed=2), SamplingParams(seed=1, until="step")]


@dataclass
class Watched:
    """A policy that remembers every sample it was asked for."""

    inner: Policy = field(default_factory=ArithmeticPolicy)
    asked: list[tuple[str, SamplingParams, int]] = field(default_factory=list)
    calls: int = 0

    @property
    def name(self) -> str:
        return self.inner.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.calls += 1
        self.asked += [(p.key, params, i) for p in prefixes for i in range(first, first + n)]
        return self.inner.sample(prefixes, n, params, first=first)


def written(rows: list[list[Completion]]) -> list[list[Completion]]:
    return [[replace(c, cost=Cost()) for c in row] for row in rows]


request = st.tuples(
    st.lists(st.integers(0, len(PREFIXES) - 1), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from(PARAMS),
    st.integers(0, 4),
    st.booleans(),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(request, min_size=1, max_size=6))
def test_any_requests_in_any_order_give_what_the_policy_gives_and_ask_it_once(
    requests: list[tuple[list[int], int, SamplingParams, int, bool]],
) -> None:
    bare, watched = ArithmeticPolicy(), Watched()
    with TemporaryDirectory() as folder:
        stored = StoredPolicy(watched, folder, chunk=3)
        for which, n, params, first, restart in requests:
            if restart:
                stored = StoredPolicy(watched, folder, chunk=3)
            prefixes = [PREFIXES[i] for i in which]
            got = stored.sample(prefixes, n, params, first=first)
            assert written(got) == written(bare.sample(prefixes, n, params, first=first))
    assert len(watched.asked) == len(set(watched.asked))


def test_a_hit_costs_nothing_that_was_generated(tmp_path: Path) -> None:
    cost = Cost(prompt_tokens=7, cached_tokens=3, generated_tokens=4, flops=9.0, calls=1)

    class Costly(Scripted):
        def _complete(self, prefix: Trajectory, index: int) -> Completion:
            return replace(super()._complete(prefix, index), cost=cost)

    stored = StoredPolicy(Costly(lambda k, i: "right"), tmp_path)
    assert stored.sample([FOUR_STEPS.prefix(1)], 2)[0][0].cost == cost
    assert stored.sample([FOUR_STEPS.prefix(1)], 2)[0][0].cost == Cost(cached_tokens=10)
    assert (stored.counts.hits, stored.counts.misses, stored.counts.saved) == (2, 2, cost + cost)
    always = StoredPolicy(Costly(lambda k, i: "right"), tmp_path, charge="always")
    assert always.sample([FOUR_STEPS.prefix(1)], 2)[0][0].cost == cost and always.counts.misses == 0


def test_a_prefix_asked_for_twice_at_once_is_sampled_and_charged_once(tmp_path: Path) -> None:
    stored = StoredPolicy(Watched(), tmp_path)
    a, b = stored.sample([PREFIXES[1], PREFIXES[1]], 3)
    assert written([a]) == written([b])
    assert all(c.cost.generated_tokens for c in a) and not any(c.cost.generated_tokens for c in b)
    assert (stored.counts.hits, stored.counts.misses) == (3, 3)


def test_only_the_missing_samples_are_asked_for(tmp_path: Path) -> None:
    watched = Watched()
    stored = StoredPolicy(watched, tmp_path)
    stored.sample([PREFIXES[0]], 2, first=2)
    stored.sample([PREFIXES[0]], 6)
    assert [index for _, _, index in watched.asked] == [2, 3, 0, 1, 4, 5]


def test_prefixes_that_lack_the_same_samples_are_one_call(tmp_path: Path) -> None:
    watched = Watched()
    StoredPolicy(watched, tmp_path).sample(PREFIXES, 4)
    assert watched.calls == 1


def test_a_failed_call_is_not_kept_and_tried_again(tmp_path: Path) -> None:
    policy = Scripted(lambda k, i: "error: timeout" if i == 1 and len(policy.asked) < 4 else "right")
    stored = StoredPolicy(policy, tmp_path)
    prefix = FOUR_STEPS.prefix(1)
    assert [c.finish for c in stored.sample([prefix], 3)[0]] == ["end", "error", "end"]
    assert [c.finish for c in stored.sample([prefix], 3)[0]] == ["end", "end", "end"]
    assert [index for _, index in policy.asked] == [0, 1, 2, 1]


def test_labels_through_the_store_are_the_same_and_the_second_time_free(tmp_path: Path) -> None:
    traces = [t for _, t in WORLD.traces(ArithmeticPolicy(), 5, seed=9)]
    bare = [j.values for j in MonteCarlo(ArithmeticPolicy(), 4).judge(traces)]
    for spends in (True, False):
        said = MonteCarlo(StoredPolicy(ArithmeticPolicy(), tmp_path), 4).judge(traces)
        assert [j.values for j in said] == bare
        assert bool(sum(j.cost.generated_tokens for j in said)) is spends
    more = StoredPolicy(Watched(), tmp_path)
    MonteCarlo(more, 6).judge(traces)
    assert more.counts.hits == 2 * more.counts.misses, "of 6 rollouts a prefix 4 were there"


def test_what_a_policy_may_read_is_part_of_the_address() -> None:
    one = trace("First.")
    assert prefix_address(one) == prefix_address(replace(one, id="other", meta={"run": 2}))
    assert prefix_address(one) == prefix_address(replace(one, problem=replace(PROBLEM, answer="8")))
    steps = (Step("First.", token_ids=(1, 2)),)
    others = [
        replace(one, problem=replace(PROBLEM, meta={"start": 4})),
        replace(one, problem=replace(PROBLEM, prompt=(Message("user", "What is 3 + 4?"),))),
        replace(one, problem=replace(PROBLEM, prompt=(Message("system", "What is 3 + 4?"),))),
        replace(one, problem=replace(PROBLEM, images=("a.png",))),
        replace(one, separator="\n"),
        replace(one, steps=steps, tokenizer="v"),
        replace(one, steps=(Step("First.", token_ids=(3,)),), tokenizer="v"),
        replace(one, steps=steps, tokenizer="w"),
    ]
    addresses = [prefix_address(t) for t in (one, *others)]
    assert len(set(addresses)) == len(addresses)


def test_ids_logprobs_and_the_end_of_a_completion_survive_the_disk(tmp_path: Path) -> None:
    step = Step("A step.", "act", "saw", "me", ("i.png",), (5, 6), (-0.25, -1.5))
    kept = [
        ("a" * 32, Completion((step,), "length", 4, "vocabulary", cost=Cost(1, 2, 3, flops=0.5, seconds=0.25))),
        ("b" * 32, Completion((), "end", 0)),
    ]
    RolloutStore(tmp_path).put("book", kept)
    again = RolloutStore(tmp_path)
    assert again.get("book", "a" * 32, range(9)) == {4: kept[0][1]}
    assert again.get("book", "b" * 32, range(9)) == {0: kept[1][1]}


def test_a_reader_sees_what_another_process_wrote_meanwhile(tmp_path: Path) -> None:
    early, late = Watched(), Watched()
    reader = StoredPolicy(early, tmp_path)
    reader.sample([PREFIXES[0]], 1)
    StoredPolicy(late, tmp_path).sample(PREFIXES, 2)
    reader.sample(PREFIXES, 2)
    assert len(early.asked) == 1 and len(late.asked) == 2 * len(PREFIXES) - 1


def test_a_store_larger_than_memory_reads_shards_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("footfall.drive.rollout_store._SHARDS_IN_MEMORY", 1)
    watched = Watched()
    stored = StoredPolicy(watched, tmp_path, chunk=1)
    first = stored.sample(PREFIXES, 1)
    assert written(stored.sample(PREFIXES, 1)) == written(first) and len(watched.asked) == len(PREFIXES)


def _sample_until_killed(folder: str) -> None:
    count = 0

    class Dying(Watched):
        def sample(self, *given: object, **named: object) -> list[list[Completion]]:
            nonlocal count
            count += 1
            if count == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().sample(*given, **named)  # type: ignore[arg-type]

    StoredPolicy(Dying(), folder, chunk=2).sample(PREFIXES, 1)


def test_what_was_sampled_before_a_kill_is_not_sampled_again(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_sample_until_killed, args=(str(tmp_path),))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    watched = Watched()
    StoredPolicy(watched, tmp_path).sample(PREFIXES, 1)
    assert len(watched.asked) == len(PREFIXES) - 6, "three chunks of two were finished"


def test_a_damaged_shard_is_named_set_aside_and_sampled_again(tmp_path: Path) -> None:
    StoredPolicy(ArithmeticPolicy(), tmp_path).sample([PREFIXES[0]], 1)
    (shard,) = tmp_path.glob("*/*.parquet")
    shard.write_bytes(b"PAR1 not really")
    with pytest.warns(UserWarning, match=rf"{shard.name}.*made again"):
        StoredPolicy(ArithmeticPolicy(), tmp_path).sample([PREFIXES[0]], 1)


@pytest.mark.parametrize("gone", [False, True], ids=["damaged", "set aside by another process"])
def test_a_shard_that_was_damaged_after_it_was_found_is_sampled_again(
    tmp_path: Path, gone: bool, recwarn: pytest.WarningsRecorder
) -> None:
    first = written(StoredPolicy(ArithmeticPolicy(), tmp_path, chunk=2).sample(PREFIXES[:4], 2))
    watched = Watched()
    stored = StoredPolicy(watched, tmp_path)
    stored.sample([PREFIXES[3]], 2)
    lost = min(tmp_path.glob("*/*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    kept = bytearray(lost.read_bytes())
    kept[len(kept) // 2] ^= 1
    if gone:
        lost.unlink()
    else:
        lost.write_bytes(kept)
    assert written(stored.sample(PREFIXES[:4], 2)) == first
    assert written(StoredPolicy(watched, tmp_path).sample(PREFIXES[:4], 2)) == first
    assert [index for _, _, index in watched.asked] == [0, 1], "two of eight, and they are kept"
    assert [lost.name in str(each.message) for each in recwarn] == ([] if gone else [True])


def test_a_stored_policy_can_choose_if_the_inner_one_can(tmp_path: Path) -> None:
    class Choosing(Scripted):
        def choices(self, prefixes: Sequence[Trajectory], options: Sequence[str]) -> list[tuple[float | None, ...]]:
            return [(-1.0, -2.0) for _ in prefixes]

    chooser = StoredPolicy(Choosing(lambda k, i: "right"), tmp_path)
    chooser.forget()
    assert can_choose(chooser)
    assert chooser.choices([FOUR_STEPS], ["a", "b"]) == [(-1.0, -2.0)]
    assert not can_choose(StoredPolicy(ArithmeticPolicy(), tmp_path))


def test_problems_with_one_text_and_different_ids_are_kept_apart(tmp_path: Path) -> None:
    a, b = (Trajectory("t", Problem(name, "What is 3 + 4?", "7")) for name in ("a", "b"))
    assert prefix_address(a) != prefix_address(b), "the seed of a sample depends on the problem's id"


def test_what_a_killed_process_was_writing_is_swept_and_a_living_ones_is_not(tmp_path: Path) -> None:
    policy = StoredPolicy(ArithmeticPolicy(), tmp_path)
    book = tmp_path / RolloutStore.book(policy.name, PARAMS[0])
    book.mkdir()
    stray, living, other = (
        book / f".{name}.tmp" for name in ("a.parquet.0123456789ab", "b.parquet.0123456789ab", "mine")
    )
    for path in (stray, living, other):
        path.write_bytes(b"half")
    with living.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        policy.sample(PREFIXES[:1], 1, PARAMS[0])
    assert not stray.exists() and living.exists() and other.exists()
