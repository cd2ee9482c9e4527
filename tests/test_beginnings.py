"""A cache finds a prefix by the keys of its beginnings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from footfall.beginnings import beginning_keys

IDS = st.lists(st.integers(0, 3), max_size=20).map(tuple)


@given(IDS, IDS, IDS)
def test_what_begins_alike_has_equal_keys_up_to_where_it_parts(
    common: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    ends = range(1, len(common) + 1)
    assert beginning_keys(common + one, ends) == beginning_keys(common + other, ends)


@given(IDS, IDS)
def test_unequal_sequences_have_unequal_keys(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    keys = [beginning_keys(ids, range(1, len(ids) + 1)) for ids in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


def test_there_is_a_key_for_each_end() -> None:
    assert beginning_keys((1, 2, 3), ()) == []
    first, second, all_of_it = beginning_keys((1, 2, 3), (1, 2, 3))
    assert beginning_keys((1, 2), (1, 2)) == [first, second]
    assert beginning_keys((1, 2, 4), (1, 2, 3))[-1] != all_of_it
