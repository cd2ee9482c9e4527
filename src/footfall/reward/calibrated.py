"""Calibration of any judge: what its values mean for the policy at hand (card: calibration-ias).

A judge fitted to another policy's rollouts says too much or too little of this one. From rows whose values are success rates
p of *this* policy (Monte Carlo labels, say) and what the judge says of the same traces, s, one of three maps is fitted:

    temperature   σ(logit(s) / T),        T > 0 of least cross-entropy against p
    isotonic      the increasing f with the least Σ (f(s) - p)², straight between scores met
    quantile      σ(a_q logit(s) + b_q),  a_q > 0, of least pinball loss max((q-1)(p-f), q(p-f)) for q = .1, .5, .9

All start from the judge itself and keep its order (isotonic makes ties). Quantile regression gives a median, which is the
value, and a low quantile, which is a success probability on the safe side: the aspects `q10`, `q50`, `q90`. The judge's own
value stays as the aspect `raw`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from footfall.damaged import json_of
from footfall.judging import Traits, read_partial, traits
from footfall.registry import create, parts, register
from footfall.types import Judge, Judged, Judgement, Trajectory, content_key

Floats = npt.NDArray[np.float64]
Kind = Literal["temperature", "isotonic", "quantile"]
QUANTILES = (0.1, 0.5, 0.9)
_EDGE = 1e-4
"""A value is taken to lie this far from 0 and 1 at least: beyond, a logit says nothing."""
_ROUNDS = 1500


@dataclass(frozen=True)
class Calibration:
    """A fitted map from a judge's value to calibrated ones, by name; `value` says which is the value. Saved as JSON."""

    kind: Kind
    names: tuple[str, ...]
    numbers: tuple[tuple[float, ...], ...]
    """One row a name: (a, b) of σ(a logit(s) + b), or the knots (s₁, f₁, s₂, f₂, …)."""
    rows: int
    """Pairs that it was fitted on."""
    judge: str
    """Whose values it is for."""

    @property
    def value(self) -> str:
        """The name of the one that is the value: the median, or the only one there is."""
        return "q50" if self.kind == "quantile" else self.names[0]

    def __call__(self, values: Sequence[float]) -> dict[str, list[float]]:
        """The calibrated values, by name."""
        given = np.asarray(values, float)
        apply = _stairs if self.kind == "isotonic" else _bent
        return {name: apply(given, np.array(row)).tolist() for name, row in zip(self.names, self.numbers, strict=True)}

    def save(self, path: str | Path) -> None:
        """Write it as a small JSON file, for `read`."""
        Path(path).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> Calibration:
        """What `save` wrote."""
        try:
            given: dict[str, Any] = json_of(Path(path))
            numbers = tuple(tuple(map(float, row)) for row in given["numbers"])
            found = cls(given["kind"], tuple(given["names"]), numbers, int(given["rows"]), str(given["judge"]))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{path} holds no calibration ({error!r}); write one by Calibration.save") from error
        if (
            found.kind not in _FITS
            or len(found.names) != len(found.numbers)
            or not np.isfinite(np.hstack(numbers)).all()
        ):
            raise ValueError(f"{path} holds no calibration of a known kind ({', '.join(_FITS)})")
        return found


@dataclass(frozen=True)
class Calibrated:
    """A judge whose values went through a calibration. What it cannot judge stays unjudged, with its reason."""

    inner: Judge
    calibration: Calibration

    def __post_init__(self) -> None:
        if self.calibration.judge != self.inner.name:
            raise ValueError(
                f"the calibration was fitted to {self.calibration.judge}, not to {self.inner.name}; fit one to this judge"
            )

    @property
    def name(self) -> str:
        """The map by kind and content, and the judge inside."""
        key = content_key(asdict(self.calibration))[:8]
        return f"calibrated({self.calibration.kind},{key},{self.inner.name})"

    @property
    def traits(self) -> Traits:
        """The judge's own, its threshold as the calibration has it."""
        own = traits(self.inner)
        threshold = None if own.threshold is None else self.calibration([own.threshold])[self.calibration.value][0]
        return replace(own, parts=(self.inner,), threshold=threshold, judge_partial=self.judge_partial)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The inner judge's values, mapped; quantiles are aspects."""
        return [self._mapped(said) for said in self.inner.judge(trajectories)]

    def judge_partial(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Traces whose last step is a fragment, read by the judge inside as such if it can."""
        return [self._mapped(said) for said in read_partial(self.inner, trajectories)]

    def _mapped(self, said: Judgement) -> Judgement:
        columns: dict[str, list[float | None]] = {
            name: [None] * len(said.values) for name in (*self.calibration.names, "raw")
        }
        at = [k for k, value in enumerate(said.values) if value is not None]
        raw = [value for value in said.values if value is not None]
        for name, mapped in {**self.calibration(raw), "raw": raw}.items():
            for k, value in zip(at, mapped, strict=True):
                columns[name][k] = value
        aspects = {name: tuple(column) for name, column in columns.items()}
        name = self.calibration.value
        values = aspects[name] if self.calibration.kind == "quantile" else aspects.pop(name)
        # What stands before the first step and at the tokens is of the same scale as the steps' values.
        initial = None if said.initial is None else self.calibration([said.initial])[name][0]
        tokens = tuple(tuple(self.calibration(row)[name]) for row in said.token_values)
        return replace(
            said,
            values=values,
            judge=self.name,
            aspects={**said.aspects, **aspects},
            initial=initial,
            token_values=tokens,
        )


def fit(judge: Judge, rows: Sequence[Judged], kind: Kind = "quantile") -> Calibrated:
    """Calibrate `judge` on labelled rows: their values are the success rates that its values should mean.

    Steps that either side left unjudged are passed over.
    """
    labelled = [(row.trajectory, row.judgement) for row in rows if row.judgement is not None]
    said = judge.judge([trajectory for trajectory, _ in labelled])
    pairs = [
        (value, target)
        for (_, label), own in zip(labelled, said, strict=True)
        for value, target in zip(own.values, label.values, strict=True)
        if value is not None and target is not None
    ]
    return Calibrated(judge, fit_scores([v for v, _ in pairs], [t for _, t in pairs], kind, judge.name))


def fit_scores(
    values: Sequence[float], targets: Sequence[float], kind: Kind = "quantile", judge: str = "scores"
) -> Calibration:
    """The map from `values` to `targets`, both in [0, 1]."""
    if kind not in _FITS:
        raise ValueError(f"no calibration is called {kind!r}; there are {', '.join(_FITS)}")
    if not values or len(values) != len(targets):
        raise ValueError(f"calibration needs pairs, not {len(values)} values and {len(targets)} targets")
    pairs_2N = np.array([values, targets], float)
    if not ((pairs_2N >= 0) & (pairs_2N <= 1)).all():
        raise ValueError("calibration needs values and targets in [0, 1]; map logits by a sigmoid first")
    found = _FITS[kind](*pairs_2N)
    return Calibration(kind, tuple(found), tuple(found.values()), len(values), judge)


def pinball(targets: npt.ArrayLike, values: npt.ArrayLike, q: float) -> Floats:
    """max((q-1)(p - s), q (p - s)) of each pair: least on average where s is the q-quantile of p."""
    over = np.asarray(targets, float) - np.asarray(values, float)
    return np.asarray(np.maximum((q - 1) * over, q * over))


def _temperature(values: Floats, targets: Floats) -> dict[str, tuple[float, ...]]:
    """Cross-entropy is convex in 1/T: bisect its slope Σ (σ(x/T) - p) x over log T in [-5, 5]."""
    x = _logit(values)
    if not x.any():  # all say 0.5, which no temperature moves
        return {"temperature": (1.0, 0.0)}
    low, high = -5.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        slope = float(((_sigmoid(x * np.exp(-middle)) - targets) * x).sum())
        low, high = (middle, high) if slope > 0 else (low, middle)
    return {"temperature": (float(np.exp(-(low + high) / 2)), 0.0)}


def _isotonic(values: Floats, targets: Floats) -> dict[str, tuple[float, ...]]:
    knots, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    means = np.bincount(inverse, targets) / counts
    stairs = increasing(means.tolist(), counts.tolist())
    return {"isotonic": tuple(float(v) for pair in zip(knots, stairs, strict=True) for v in pair)}


def increasing(means: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Pool adjacent violators: the increasing sequence with the least weighted squared distance."""
    blocks: list[tuple[float, float, int]] = []
    for mean, weight in zip(means, weights, strict=True):
        blocks.append((mean, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (m, w, n), (mean_, weight_, n_) = blocks.pop(-2), blocks.pop()
            blocks.append(((m * w + mean_ * weight_) / (w + weight_), w + weight_, n + n_))
    return [mean for mean, _, n in blocks for _ in range(n)]


def _quantile(values: Floats, targets: Floats) -> dict[str, tuple[float, ...]]:
    return {f"q{round(100 * q)}": _pinball_fit(_logit(values), targets, q) for q in QUANTILES}


def _pinball_fit(x: Floats, targets: Floats, q: float) -> tuple[float, float]:
    """Adam on (log a, b) of σ(a x + b) from (0, 0), x about its mean, with a step that falls to nothing.

    The best point met is taken, the start included: no calibration is worse than none on its own rows.
    """
    centre, width = float(x.mean()), float(x.std()) or 1.0
    z = (x - centre) / width
    at = np.array([np.log(width), centre])
    best, least = at.copy(), np.inf
    first, second = np.zeros(2), np.zeros(2)
    for k in range(_ROUNDS):
        slope = np.exp(at[0])
        found = _sigmoid(slope * z + at[1])
        loss = float(pinball(targets, found, q).mean())
        if loss < least:
            best, least = at.copy(), loss
        pull = np.where(targets > found, -q, np.where(targets < found, 1 - q, 0.0)) * found * (1 - found)
        gradient = np.array([(pull * slope * z).mean(), pull.mean()])
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        unbiased = first / (1 - 0.9 ** (k + 1)), second / (1 - 0.99 ** (k + 1))
        at = at - 0.1 * (1 - k / _ROUNDS) ** 2 * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    a = float(np.exp(best[0]) / width)
    return a, float(best[1] - a * centre)


_FITS: Mapping[str, Any] = {"temperature": _temperature, "isotonic": _isotonic, "quantile": _quantile}


def _logit(values: Floats) -> Floats:
    inside = np.clip(values, _EDGE, 1 - _EDGE)
    return np.asarray(np.log(inside / (1 - inside)))


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -40, 40))))


def _bent(values: Floats, line: Floats) -> Floats:
    return _sigmoid(line[0] * _logit(values) + line[1])


def _stairs(values: Floats, knots: Floats) -> Floats:
    """Between two knots in a straight line, beyond them flat."""
    return np.asarray(np.interp(values, knots[::2], knots[1::2]))


@register("reward", "calibrated")
def calibrated(calibration: str, of: str, path: str | None = None) -> Calibrated:
    """Another judge (of=NAME, its folder as path) with its values calibrated to a policy.

    `calibration` is a file that `Calibration.save` wrote; `of` a registered labeller or reward that needs no more than a path.
    """
    kind = next((kind for kind in ("reward", "labeller") if of in parts(kind)), None)
    if of == "calibrated":
        raise ValueError("of = 'calibrated' names itself; give the judge whose values are calibrated")
    if kind is None:
        raise ValueError(f"of = {of!r} is no registered judge; see `footfall list reward` and `footfall list labeller`")
    inner: Judge = create(kind, of, **({} if path is None else {"path": path}))
    return Calibrated(inner, Calibration.read(calibration))
