"""Judges that stop at the first error have judged the whole trace."""

from __future__ import annotations

from footfall.drive.driver import carried
from footfall.types import AFTER_ERROR, Judgement, Reason, Unjudged

AFTER = AFTER_ERROR
FURTHER = Unjudged(Reason.AFTER_ERROR, "not judged any more")
LOST, CUT = Unjudged(Reason.FAILED_CALL, "lost"), Unjudged(Reason.CUT, "cut")


def test_steps_after_the_error_are_worth_what_the_error_is() -> None:
    said = Judgement(
        "t",
        (1.0, 0.2, None, None),
        "critic",
        failures=(None, None, AFTER, FURTHER),
    )
    assert carried(said).values == (1.0, 0.2, 0.2, 0.2) and carried(said).failures == ()


def test_what_was_not_judged_for_another_reason_stays_so() -> None:
    said = Judgement("t", (None, 0.0, None, None), "critic", failures=(LOST, None, AFTER, CUT))
    assert carried(said).values == (None, 0.0, 0.0, None)
    assert carried(said).failures == ("lost", None, None, "cut")


def test_without_an_error_before_them_they_have_no_value() -> None:
    said = Judgement("t", (None, None), "critic", failures=(AFTER, AFTER))
    assert carried(said) == said


def test_a_whole_judgement_is_left_as_it_is() -> None:
    said = Judgement("t", (0.3, 0.9), "prm")
    assert carried(said) is said
