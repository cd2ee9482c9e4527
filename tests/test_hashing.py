"""A cache finds a prefix by the keys of its beginnings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from footfall.hashing import prefix_hashes

IDS = st.lists(st.integers(0, 3), max_size=20).map(tuple)


@given(IDS, IDS, IDS)
def test_what_begins_alike_has_equal_keys_up_to_where_it_parts(
    common: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    ends = range(1, len(common) + 1)
    assert prefix_hashes(common + one, ends) == prefix_hashes(common + other, ends)


@given(IDS, IDS)
def test_unequal_sequences_have_unequal_keys(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    keys = [prefix_hashes(ids, range(1, len(ids) + 1)) for ids in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


def test_there_is_a_key_for_each_end() -> None:
    assert prefix_hashes((1, 2, 3), ()) == []
    first, second, all_of_it = prefix_hashes((1, 2, 3), (1, 2, 3))
    assert prefix_hashes((1, 2), (1, 2)) == [first, second]
    assert prefix_hashes((1, 2, 4), (1, 2, 3))[-1] != all_of_it
