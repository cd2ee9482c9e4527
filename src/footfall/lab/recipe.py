"""What a recipe is: a header that states its claims, and a function that measures both sides of them on one seed.

    RECIPE = Recipe(name="best-of-n", …, claims=(Claim("…", baseline="majority vote", method="weighted vote", …),))

    def measure(trial: Trial) -> Outcome:
        return Outcome({"majority vote": […], "weighted vote": […]}, cost)

A measurement yields named arms; a claim compares two of them, so one costly experiment can answer several claims. Each file
of `footfall/recipes` is one recipe. Headers are read from the source, so listing recipes loads no torch.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from footfall.part_files import run_file
from footfall.types import Cost

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
Arm: TypeAlias = "float | Sequence[float]"
"""One figure a problem, or a single figure for a metric that is no mean over problems (F1, AUC)."""
_SLUG = re.compile(r"[a-z0-9]+([-.][a-z0-9]+)*")
_SMALLEST = (
    (r"F1\b|PRMScore", 0.03),
    (r"^correlation", 0.1),
    (r"^Brier", 0.01),
    (
        r"^(?!generated tokens|tokens).*(AUC|accuracy|share|rate\b|rank@1|pass@\d|precision|recall|error|similarity|score)",
        0.02,
    ),
)
"""The smallest effect that would matter, by the words of a metric; any other metric is an amount."""
AMOUNT = 0.1
"""Of amounts (tokens, rollouts, different solutions): a tenth of the baseline's."""
OTHER_DATA = "other data"


class Trial(NamedTuple):
    """One run of an experiment: all randomness comes from `seed`, each seed draws its own problems."""

    seed: int
    quick: bool
    """A smoke test of a few seconds; its figures mean nothing."""
    folder: Path
    """For what must outlive a kill (a training run); removed when the outcome is stored."""
    shared: Path | None = None
    """For what other recipes use too (`footfall.lab.shared`); stays. None: nothing is shared."""
    device: str = "cpu"
    """Where models are run and trained."""
    large: bool = False
    """Whether shared models and data are those of the lab's larger model (`footfall.lab.shared.prms.large`)."""

    def size(self, full: int, quick: int) -> int:
        """How many: of a full run, or of a smoke test."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper as a comparison of two arms. The effect is method − baseline."""

    claim: str
    metric: str
    direction: Literal["higher", "lower"]
    """Which way is better."""
    baseline: str
    method: str
    margin: float = 0.0
    """By how much the method must win, in units of the metric; negative: by how much it may lose ("no worse")."""
    beside: tuple[str, ...] = ()
    """Further arms of this metric whose means are reported with the result."""
    smallest_effect: float | None = None
    """The smallest effect that would matter, in units of the metric. None: what a "no worse" claim may lose, or by metric."""
    stand_in: str | None = None
    """What the paper measured instead, and why this stands for it. None: it is the paper's own comparison, at lab scale."""
    threshold: str | None = None
    """For an F1: "other data" if the cut was tuned on other data than the figure is of, or which cut it is and why."""
    caveat: str | None = None
    """What is unfair or missing in the comparison and not mended yet; the row says so."""
    tier: Literal["lab", "real"] = "lab"
    """"real": measured elsewhere with real models; `measure` has no such arms, `recipes/real.json` keeps the figures."""

    def __post_init__(self) -> None:
        if re.search(r"\bF1\b", self.metric) and self.threshold is None:
            raise ValueError(f'an F1 has a threshold: state where it comes from, threshold="{OTHER_DATA}" at best')
        if self.smallest_effect is not None and not self.smallest_effect > 0:
            raise ValueError(f"smallest_effect={self.smallest_effect}: an effect that would matter is more than 0")
        if self.direction not in ("higher", "lower"):
            raise ValueError(f'direction is "higher" or "lower", not {self.direction!r}')
        if self.baseline == self.method:
            raise ValueError(f"baseline and method are the same arm, {self.method!r}")

    @property
    def is_rate(self) -> bool:
        """Whether the figures lie between 0 and 1, so that an arm may have no room left; a difference of rates does not."""
        return self._by_metric is not None and not re.search(r"\bminus\b|less that of|^correlation", self.metric)

    @property
    def _by_metric(self) -> float | None:
        return next((smallest for words, smallest in _SMALLEST if re.search(words, self.metric)), None)

    @property
    def stated_effect(self) -> float | None:
        """The smallest effect that would matter, where it does not depend on the baseline."""
        return self.smallest_effect or max(0.0, -self.margin) or self._by_metric

    def matters(self, baseline: float) -> float:
        """The smallest effect that would matter; `baseline` is the mean of that arm, of which amounts take a tenth."""
        return self.stated_effect or float(f"{AMOUNT * abs(baseline):.2g}")


@dataclass(frozen=True)
class Recipe:
    """The header of a recipe file: which paper, which stage of the loop, what is claimed, at what scale."""

    name: str
    """The slug of the method's card; the file is called the same with `_` for `-` and `.`."""
    paper: str
    arxiv: str | None
    year: int
    stage: str
    world: str
    scale: str
    """What the lab scale is, in one sentence."""
    claims: tuple[Claim, ...]
    """The paper's main claim first."""

    def __post_init__(self) -> None:
        if not _SLUG.fullmatch(self.name):
            raise ValueError(f"name {self.name!r} is no slug: small letters, digits and - are wanted")
        if not self.claims:
            raise ValueError(f"{self.name} claims nothing: give at least one Claim")
        for text in ("paper", "stage", "world", "scale"):
            if not getattr(self, text):
                raise ValueError(f"{self.name}: {text} is empty")

    @property
    def module(self) -> str:
        """The name of its file."""
        return re.sub("[-.]", "_", self.name)


@dataclass(frozen=True)
class Outcome:
    """What one seed gave: the figures of each arm, problem by problem in the same order, and what all of it cost."""

    arms: Mapping[str, Arm]
    cost: Cost = field(default_factory=Cost)
    problems: tuple[str, ...] = ()
    """Ids of the problems, if other seeds have the same ones (a fixed benchmark); the interval needs to know."""

    def __post_init__(self) -> None:
        for name in self.arms:
            values = self.values(name)
            if not values or not all(math.isfinite(value) for value in values):
                raise ValueError(f"arm {name!r} has no figures or one that is not finite")
            if self.problems and len(values) != len(self.problems):
                raise ValueError(f"arm {name!r} has {len(values)} figures for {len(self.problems)} problems")

    def values(self, arm: str) -> list[float]:
        """The figures of an arm; a single figure is a list of one."""
        if arm not in self.arms:
            raise ValueError(f"the measurement has no arm {arm!r}; it has {', '.join(map(repr, self.arms))}")
        figures = self.arms[arm]
        return [float(figures)] if isinstance(figures, int | float) else [float(value) for value in figures]

    def differences(self, claim: Claim) -> list[float]:
        """method − baseline, problem by problem."""
        method, baseline = self.values(claim.method), self.values(claim.baseline)
        if len(method) != len(baseline):
            raise ValueError(
                f"{claim.method!r} has {len(method)} figures and {claim.baseline!r} {len(baseline)}; "
                "both arms must be measured on the same problems"
            )
        return [m - b for m, b in zip(method, baseline, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """As the run's folder keeps it."""
        arms = {name: self.values(name) for name in self.arms}
        return {"arms": arms, "cost": self.cost.to_dict(), "problems": list(self.problems)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Outcome:
        """What `to_dict` gave."""
        cost = Cost(**given["cost"])
        return cls({name: tuple(values) for name, values in given["arms"].items()}, cost, tuple(given["problems"]))


class Entry(NamedTuple):
    """A recipe and the file it stands in."""

    recipe: Recipe
    path: Path


def catalogue(folder: Path = RECIPES) -> list[Entry]:
    """All recipes by name."""
    files = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]
    return sorted((Entry(_read_header(path), path) for path in files), key=lambda entry: entry.recipe.name)


def find(name: str, folder: Path = RECIPES) -> Entry:
    """The recipe of this name; an unknown one is answered with the nearest."""
    entries = {entry.recipe.name: entry for entry in catalogue(folder)}
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(entries) or 'none'}"
        raise KeyError(f"no recipe is called {name!r}; {hint}")
    return entries[name]


def load_measure(entry: Entry) -> Callable[[Trial], Outcome]:
    """The recipe's function, imported now with everything it is made of."""
    module = run_file(f"footfall.recipes.{entry.path.stem}", entry.path)
    measure: Callable[[Trial], Outcome] | None = getattr(module, "measure", None)
    if measure is None:
        raise ValueError(f"{entry.path} has no function `measure(trial: Trial) -> Outcome`")
    return measure


_MAKERS: dict[str, Callable[..., Any]] = {"Recipe": Recipe, "Claim": Claim}


def _read_header(path: Path) -> Recipe:
    """The file's `RECIPE`, made from literals alone."""
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RECIPE":
            try:
                recipe = _made(node.value)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}, line {node.lineno}: {error}") from error
            return _checked(recipe, path)
    raise ValueError(f"{path} has no `RECIPE = Recipe(…)`; each file of {path.parent.name}/ states one")


def _checked(recipe: object, path: Path) -> Recipe:
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{path}: RECIPE must be a Recipe(…), not {type(recipe).__name__}")
    if recipe.module != path.stem:
        raise ValueError(f"{path}: the recipe {recipe.name!r} belongs into a file called {recipe.module}.py")
    return recipe


def _made(node: ast.expr) -> Any:
    """A literal, or a Recipe or Claim made of literals."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _MAKERS:
        given = {keyword.arg: _made(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        return _MAKERS[ast.unparse(node.func)](*map(_made, node.args), **given)
    if isinstance(node, ast.Tuple):
        return tuple(map(_made, node.elts))
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(
            f"line {node.lineno}: `{ast.unparse(node)}` is no literal; a header is read, not run"
        ) from None
