"""Formal checks on steps of models that people judged: what they call wrong must not be right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from footfall.benchmarks.processbench import processbench
from footfall.label.formal import Formal

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "processbench"


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason="the data is not here")
def test_no_step_before_the_first_error_is_refuted_and_two_in_five_are_verified() -> None:
    cases = processbench(DATA / "gsm8k.json.gz").cases
    found: Counter[tuple[float | None, float | None]] = Counter()
    for case, said in zip(cases, Formal().judge([case.trajectory for case in cases]), strict=True):
        found.update(zip(case.truth.values, said.values, strict=True))
    before = {said: count for (truth, said), count in found.items() if truth == 1.0}
    assert before == {1.0: 537, None: 824}
    first = {said: count for (truth, said), count in found.items() if truth == 0.0}
    # Of first errors many are true equations that were the wrong ones to write.
    assert first == {0.0: 11, 1.0: 87, None: 109}
