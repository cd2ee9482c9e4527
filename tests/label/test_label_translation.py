"""Multilingual rows: labels are copied, and what is not faithful is dropped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from footfall.metrics.preferences import mean_row
from footfall.train.data import data_key
from footfall.types import Judged, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge
from footfall.worlds.multilingual import LANGUAGES, language_of
from footfall.worlds.multilingual.world import is_faithful, translate_rows
from tests.label.scripted_policy import trace

TRACES = [t for _, t in ArithmeticWorld().traces(ArithmeticPolicy(), 14, 0)]
ROWS = list(map(Judged, TRACES, TruthJudge().judge(TRACES)))


def test_the_identity_reproduces_the_english_rows_bit_for_bit() -> None:
    assert data_key(translate_rows(ROWS, ["en"], lambda t, language: t)) == data_key(ROWS)
    assert data_key(translate_rows(ROWS, ["en"])) == data_key(ROWS)


def test_labels_and_step_counts_do_not_depend_on_the_language_and_each_row_names_it() -> None:
    rows = translate_rows(ROWS, LANGUAGES)
    assert [language_of(row.trajectory.problem) for row in rows] == [*LANGUAGES, *LANGUAGES]
    for new, old in zip(rows, ROWS, strict=True):
        assert new.judgement is not None and old.judgement is not None
        assert new.judgement.values == old.judgement.values and len(new.trajectory.steps) == len(old.trajectory.steps)
        assert new.judgement.trajectory_id == new.trajectory.id


def test_a_comma_for_a_point_passes_and_a_lost_number_or_step_does_not() -> None:
    english = trace("It is 3.5 now.", "The answer is 7.")
    assert is_faithful(english, trace("Es sind nun 3,5.", "Die Antwort ist 7."))
    assert not is_faithful(english, trace("Es sind nun einige.", "Die Antwort ist 7."))
    assert not is_faithful(english, trace("Es sind nun 3,5. Die Antwort ist 7."))

    def forgetful(given: Trajectory, language: str) -> Trajectory:
        return replace(given, steps=(*given.steps[:-1], Step("That is it.")))

    assert translate_rows(ROWS, ["de"], forgetful) == []
    with pytest.raises(ValueError, match="no language"):
        translate_rows(ROWS, [])


def test_the_cards_means_count_each_language_once() -> None:
    seen, unseen = {"en": 0.52, "de": 0.48, "sw": 0.30}, {"bn": 0.25, "te": 0.15}
    for languages, mean in (({**seen, **unseen}, 0.34), (seen, 0.4333), (unseen, 0.2)):
        rows = {language: {"accuracy": np.array([right])} for language, right in languages.items()}
        assert mean_row(rows)["accuracy"] == pytest.approx([mean], abs=5e-5)
