"""AdaptiveStep's value-guided decoding: a PRM's word counts where the writer is unsure, and only there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from footfall.search.vgs import guided_decoding, guided_token

END = 9
WRITER: dict[tuple[int, ...], list[tuple[int, float]]] = {
    (): [(1, 0.95), (2, 0.05)],
    (1,): [(3, 0.4), (4, 0.35), (5, 0.25)],
    (1, 3): [(END, 1.0)],
    (1, 4): [(END, 1.0)],
    (1, 5): [(END, 1.0)],
}


def next_tokens(prefix: Sequence[int]) -> list[tuple[int, float]]:
    return WRITER[tuple(prefix)]


class Judge:
    """Likes 5 most, then 4; remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, ...]] = []

    def __call__(self, sequences: Sequence[Sequence[int]]) -> list[float]:
        self.seen += map(tuple, sequences)
        return [{5: 0.9, 4: 0.6}.get(ids[-1], 0.1) for ids in sequences]


def decode(threshold: float, m: int, max_tokens: int = 8) -> tuple[tuple[int, ...], Judge]:
    judge = Judge()
    return guided_decoding((), next_tokens, judge, threshold, m, ends=(END,), max_tokens=max_tokens), judge


def test_where_the_writer_is_unsure_the_best_valued_of_its_tokens_is_written() -> None:
    written, judge = decode(threshold=0.88, m=8)
    assert written == (1, 5, END)
    assert judge.seen == [(1, 3), (1, 4), (1, 5)], (
        "the prefix that is scored holds the candidate; sure tokens cost nothing"
    )


def test_only_the_m_likeliest_are_asked_about() -> None:
    written, judge = decode(threshold=0.88, m=2)
    assert written == (1, 4, END) and judge.seen == [(1, 3), (1, 4)]


@pytest.mark.parametrize(("threshold", "m"), [(0.0, 8), (0.88, 1), (1.0, 1)])
def test_a_threshold_of_0_or_a_single_candidate_is_greedy_decoding(threshold: float, m: int) -> None:
    written, judge = decode(threshold, m)
    assert written == (1, 3, END) and not judge.seen


def test_a_probability_at_the_threshold_is_sure_enough_as_for_the_segmenter() -> None:
    assert decode(threshold=0.4, m=8)[0] == (1, 3, END)
    assert decode(threshold=0.41, m=8)[0] == (1, 5, END)


def test_of_equally_valued_tokens_the_likelier_one_is_taken() -> None:
    assert guided_token((), [(1, 0.3), (2, 0.2)], lambda rows: [0.5] * len(rows), threshold=0.9) == 1


def test_decoding_stops_at_its_limit_and_refuses_to_choose_from_nothing() -> None:
    assert decode(threshold=0.88, m=8, max_tokens=2)[0] == (1, 5)
    with pytest.raises(ValueError, match="at least one token"):
        decode(threshold=0.88, m=0)
