"""Calibration: the worked numbers of the card, and a judge that is right again after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.registry import create
from footfall.reward.calibrated import Calibrated, Calibration, Kind, fit, fit_scores, increasing, pinball
from footfall.types import Judged, Judgement, Problem, Reason, Step, Trajectory, Unjudged, failures_of
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge

KINDS: tuple[Kind, ...] = ("temperature", "isotonic", "quantile")


def test_card_check_3_pinball_by_hand() -> None:
    of = [float(pinball(0.25, s, q)) for s, q in ((0.6, 0.1), (0.6, 0.5), (0.6, 0.9))]
    assert of == pytest.approx([0.315, 0.175, 0.035]) and np.mean(of) == pytest.approx(0.175)
    near = [float(pinball(0.25, s, q)) for s, q in ((0.1, 0.1), (0.3, 0.5), (0.5, 0.9))]
    assert near == pytest.approx([0.015, 0.025, 0.025]) and np.mean(near) == pytest.approx(0.021667, abs=1e-6)


def test_card_check_3_on_constant_scores_each_output_is_the_empirical_quantile() -> None:
    targets = np.random.default_rng(0).uniform(size=999)
    found = fit_scores([0.7] * 999, targets.tolist(), "quantile")([0.7])
    for name, q in (("q10", 0.1), ("q50", 0.5), ("q90", 0.9)):
        assert found[name][0] == pytest.approx(np.quantile(targets, q), abs=0.005)


@pytest.mark.parametrize(("kind", "name"), [("temperature", "temperature"), ("quantile", "q50")])
def test_a_known_distortion_is_undone(kind: Kind, name: str) -> None:
    truth = np.random.default_rng(1).uniform(0.06, 0.94, 500)
    logits = np.log(truth / (1 - truth))
    said = 1 / (1 + np.exp(-(2 * logits + (0 if kind == "temperature" else 1))))
    mapped = fit_scores(said.tolist(), truth.tolist(), kind)(said.tolist())[name]
    assert np.abs(np.array(mapped) - truth).max() < 0.02


def test_pool_adjacent_violators_by_hand() -> None:
    assert increasing([1, 3, 2, 4], [1, 1, 1, 1]) == [1, 2.5, 2.5, 4]
    assert increasing([3, 1], [1, 3]) == [1.5, 1.5]
    assert increasing([5, 4, 3], [1, 1, 1]) == [4, 4, 4]


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0, 0.25, 0.5, 1.0])), min_size=1, max_size=30))
def test_isotonic_never_raises_the_squared_error_and_never_turns_the_order(pairs: list[tuple[float, float]]) -> None:
    values, targets = [v for v, _ in pairs], [t for _, t in pairs]
    mapped = np.array(fit_scores(values, targets, "isotonic")(values)["isotonic"])
    order = np.argsort(values, kind="stable")
    assert (np.diff(mapped[order]) >= -1e-9).all()
    assert ((mapped - targets) ** 2).sum() <= ((np.array(values) - targets) ** 2).sum() + 1e-6


@dataclass
class Says:
    """Gives the numbers that the steps are."""

    name: str = "says"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(t) for t in trajectories]

    def _judge(self, t: Trajectory) -> Judgement:
        values = tuple(None if s.text == "?" else float(s.text) for s in t.steps)
        failures = failures_of(Unjudged(Reason.UNREADABLE, "no number") if v is None else None for v in values)
        return Judgement(t.id, values, self.name, failures=failures)


def rows(*pairs: tuple[str, float | None]) -> list[Judged]:
    trace = Trajectory("t", Problem("p", "?"), tuple(Step(text) for text, _ in pairs))
    return [Judged(trace, Judgement("t", tuple(value for _, value in pairs), "labels"))]


def test_what_the_judge_cannot_judge_stays_so_and_its_own_value_is_kept_beside() -> None:
    judge = fit(Says(), rows(("0.9", 0.5), ("?", 0.5), ("0.9", 0.5), ("0.2", None)), "quantile")
    assert judge.calibration.rows == 2, "only steps that both have valued"
    [said] = judge.judge([rows(("0.9", None), ("?", None))[0].trajectory])
    assert said.values[0] == pytest.approx(0.5, abs=0.01) and said.values[1] is None
    assert said.failures == (None, "no number") and said.aspects["raw"] == (0.9, None)
    assert said.values == said.aspects["q50"] and said.aspects["q10"][1] is None


@dataclass
class Begins(Says):
    """Has a value before the first step too, and one at each of two tokens of a step."""

    def _judge(self, t: Trajectory) -> Judgement:
        said = super()._judge(t)
        return replace(said, initial=0.9, token_values=tuple((0.2, value or 0.0) for value in said.values))


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_before_the_first_step_and_at_the_tokens_are_of_the_same_scale(kind: Kind) -> None:
    judge = fit(Begins(), rows(*[("0.9", 0.4), ("0.2", 0.1)] * 4), kind)
    [said] = judge.judge([rows(("0.9", None), ("0.2", None))[0].trajectory])
    first, second = said.values
    assert first != 0.9 and said.initial == first
    assert said.token_values == ((second, first), (second, second))


def test_a_judge_that_always_says_a_half_tells_nothing_of_a_temperature() -> None:
    found = fit_scores([0.5] * 4, [0.0, 1.0, 0.2, 0.4], "temperature")
    assert found([0.6, 0.1])["temperature"] == pytest.approx([0.6, 0.1])


@pytest.mark.parametrize("kind", ["isotonic", "quantile"])
def test_a_judge_of_a_stronger_policy_is_calibrated_to_a_weaker_one(kind: Kind) -> None:
    """It over-estimates (which a temperature alone cannot mend); on new problems the calibrated one does so less."""
    weak, world = ArithmeticPolicy(), ArithmeticWorld()
    calm = (0.01, 0.01, 0.05, 0.04)
    strong = ExactValueJudge(ArithmeticPolicy(slip=calm, misread=calm, misread_tricky=calm))  # type: ignore[arg-type]
    traces = [trace for _, trace in world.traces(weak, 120, 0)]
    exact = ExactValueJudge(weak).judge(traces)
    half = [Judged(t, j) for t, j in zip(traces, exact, strict=True)][:60]
    judge = fit(strong, half, kind)

    def squared(said: list[Judgement]) -> float:
        pairs = [(s, e) for a, b in zip(said, exact[60:], strict=True) for s, e in zip(a.values, b.values, strict=True)]
        return float(np.mean([(float(s or 0) - float(e or 0)) ** 2 for s, e in pairs]))

    assert squared(judge.judge(traces[60:])) < 0.8 * squared(strong.judge(traces[60:]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_calibration_is_saved_and_read_back_and_says_the_same(kind: Kind, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    made = fit_scores(rng.uniform(size=50).tolist(), rng.uniform(size=50).tolist(), kind, "exact-value")
    made.save(tmp_path / "c.json")
    assert Calibration.read(tmp_path / "c.json") == made


def test_by_name_with_the_judge_inside_by_name(tmp_path: Path) -> None:
    inner = ExactValueJudge()
    fit_scores([0.2, 0.8], [0.1, 0.3], "isotonic", inner.name).save(tmp_path / "c.json")
    judge = create("reward", "calibrated", calibration=str(tmp_path / "c.json"), of="exact-value")
    assert isinstance(judge, Calibrated) and judge.name.startswith("calibrated(isotonic,")
    with pytest.raises(ValueError, match="no registered judge"):
        create("reward", "calibrated", calibration=str(tmp_path / "c.json"), of="nobody")


def test_wrong_input_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs pairs"):
        fit_scores([], [])
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        fit_scores([2.0], [0.5])
    with pytest.raises(ValueError, match="no calibration is called 'platt'"):
        fit_scores([0.5], [0.5], "platt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fitted to other, not to says"):
        Calibrated(Says(), fit_scores([0.5], [0.5], judge="other"))
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(ValueError, match="holds no calibration"):
        Calibration.read(tmp_path / "c.json")
