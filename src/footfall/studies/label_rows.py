"""The labelling methods that `footfall bench labels` compares, each with its dial, by the labeller that they belong to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from footfall import study_rows
from footfall.label.consensus import Consensus
from footfall.label.er_prm import EntropyRegularised
from footfall.registry import create, load, parts
from footfall.studies.label_setting import (
    Remembered,
    Setting,
    asked,
    critic,
    grounded,
    grounded_trees,
    in_turn,
    scripted,
    votes,
)
from footfall.studies.label_trees import OwnTraces, entropy_trees, full_trees, search_trees
from footfall.study_rows import FREE, ROLLOUTS, VOTES, StudyRow
from footfall.study_rows import label_row as row
from footfall.types import Judge, Judgement, Trajectory
from footfall.worlds.scripted import WithLogprobs, has_likelihood, with_logprobs

PROMPTS = (1.0, 2.0, 3.0, 4.0)
ANY = 0.01
"""The search rule of trees, wrong is what never succeeds: below every share of successes but 0."""
IN_WORDS = ("arithmetic", "logic", "algebra")
"""Worlds whose lines are their words; a line of code has its indentation too."""


def _rolled(part: str, setting: Setting, **settings: object) -> Judge:
    """A registered labeller that rolls out."""
    judge: Judge = create("labeller", part, policy=setting.policy, params=setting.params, **settings)
    return judge


def _monte_carlo(estimate: str) -> Callable[[Setting, float], Judge]:
    """Remembered, since other methods are made of it."""

    def make(setting: Setting, budget: float) -> Judge:
        return Remembered(_rolled("monte-carlo", setting, rollouts=int(budget), estimate=estimate), setting.memory)

    return make


def _regularised(setting: Setting, budget: float) -> Judge:
    return EntropyRegularised(_monte_carlo("soft")(setting, budget))


def _agreed(setting: Setting, budget: float) -> Judge:
    return Consensus((_monte_carlo("hard")(setting, budget), critic(setting, 0.1)), "first-error")


@dataclass(frozen=True)
class _Uncertain:
    """`unprm` on traces and rollouts that have the exact log-probabilities of the scripted policy that wrote them."""

    setting: Setting
    draws: int

    @property
    def inner(self) -> Judge:
        policy = WithLogprobs(self.setting.policy, scripted(self.setting))
        # The paper has 72 draws and asks for 10 right ones.
        enough = max(1, self.draws * 10 // 72)
        return _rolled("unprm", self.setting._replace(policy=policy), draws=self.draws, enough=enough)

    @property
    def name(self) -> str:
        return self.inner.name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self.inner.judge([with_logprobs(scripted(self.setting), trace) for trace in trajectories])


def _prompted(name: str, **how: object) -> StudyRow:
    return row(name, "prompted", "samples", VOTES, make=asked(**how), kind="stand-in")


def _critic(percent: int) -> StudyRow:
    return row(f"critic-{percent}", "noisy", "votes", VOTES, make=votes(percent / 100), kind="stand-in")


def _edu_prm(name: str, threshold: float) -> StudyRow:
    return row(
        name, "", "solutions", make=entropy_trees(threshold), threshold=ANY, kind="own traces", value="values",
        worlds=IN_WORDS,
    )  # fmt: skip


ROWS: dict[str, tuple[StudyRow, ...]] = {
    "monte-carlo": (
        row("monte-carlo", make=_monte_carlo("soft"), value="values"),
        row("monte-carlo-hard", "monte-carlo", make=_monte_carlo("hard")),
        row(
            "monte-carlo-adaptive", "monte-carlo", "half width", (0.3, 0.25, 0.2, 0.17), value="values",
            settings=lambda width: {"rollouts": int(ROLLOUTS[-1]), "half_width": width},
        ),
    ),
    "omegaprm": (
        row("omegaprm"),
        # With fewer rollouts than 5 it is the same as above.
        row("omegaprm-lost", "omegaprm", budgets=(5.0, 8.0, 16.0, 32.0), fixed={"lost": 0.2}),
    ),
    "er-prm": (row("er-prm", make=_regularised, value="values"),),
    # As relative progress allows: a step may lose a fifth of the chance of success.
    "pav": (row("pav", threshold=-0.2, value="policy", probability=False),),
    "relative-progress": (
        row(
            "relative-progress", value="success_rate",
            settings=lambda n: {"rollouts": int(n), "pass_rollouts": int(n)},
        ),
    ),
    "scan": (
        row(
            "scan", budgets=ROLLOUTS[:4], value="success_rate",
            settings=lambda n: {"rollouts": int(n), "responses": 4 * int(n)},
        ),
    ),
    "symbolic-mc": (row("symbolic-mc", budgets=(2.0, 5.0, 8.0, 16.0, 32.0), value="values", worlds=("logic",)),),
    "unprm": (
        row(
            "unprm", "", "draws", (8.0, 16.0, 32.0, 72.0), logprobs=True,
            make=lambda setting, budget: _Uncertain(setting, int(budget)),
        ),
    ),
    "freeprm": (StudyRow("freeprm"),),
    "noisy": (_critic(30), _critic(20), _critic(10)),
    "consensus": (row("consensus", make=_agreed, kind="stand-in"),),
    "prompted": (
        _prompted("prompted", reference=False),
        _prompted("prompted-step", form="step", reference=False),
        _prompted("prompted-meta", meta=True, reference=False),
        _prompted("prompted-reverse"),
        row("prompted-ensemble", "prompted", "prompts", PROMPTS, make=in_turn(reference=False), kind="stand-in"),
        row("aurora", "prompted", "prompts", PROMPTS, make=in_turn(), kind="stand-in"),
    ),
    "grounded": (
        # Its tool reads every rollout: more of them would take longer than all other methods together.
        row("grounded", budgets=(1.0, 2.0, 3.0, 4.0), make=grounded, kind="stand-in"),
        row("grounded-tree", "grounded", "rounds", (1.0, 2.0, 4.0, 8.0), make=grounded_trees, kind="own traces"),
    ),
    "omegaprm-tree": (
        row(
            "omegaprm-tree", "omegaprm", "searches", (2.0, 4.0, 8.0, 16.0), make=search_trees, threshold=ANY,
            kind="own traces", value="mc",
        ),
    ),
    "hrm-hnc": (
        # The paper's five steps after each would be thousands of traces a problem; its depth is 5, where many are open.
        row(
            "hrm-tree", "", "depth", (5.0, 6.0, 7.0, 8.0), make=full_trees, threshold=ANY, kind="own traces",
            value="values",
        ),
    ),
    # A slip is worth some tenths of a nat to these writers, the wording of a line one or two.
    "edu-prm": (_edu_prm("edu-prm-tree", 1.0), _edu_prm("edu-prm-tree-0.2", 0.2)),
    "formal": (StudyRow("formal", kind="reference", worlds=("arithmetic", "logic", "algebra", "code")),),
    "execution": (StudyRow("execution", fixed={"run": "world"}, kind="reference", worlds=("code",)),),
}  # fmt: skip
"""By labeller, in the order of the tables. Budgets go from cheap to dear."""

NOT_LABELLERS = ("always-right", "always-wrong", "exact-value", "length", "random")
"""Registered beside labellers, but sanity checks and oracles."""
_UNMEASURED = {"beside": "its values are those of another row, with a second judge as an aspect"}
_REFERENCES = ("formal-", "truth-")


def known_rows() -> dict[str, StudyRow]:
    """All rows by name: the table's, then a free reference for each labeller called `formal-WORLD` or `truth-WORLD`."""
    found = {one.name: one for rows in ROWS.values() for one in rows}
    for name in parts("labeller"):
        prefix = next((p for p in _REFERENCES if name.startswith(p)), None)
        if prefix is not None and name not in found and _needs_nothing(name):
            found[name] = StudyRow(name, kind="reference", worlds=(name.removeprefix(prefix),))
    return found


def _needs_nothing(name: str) -> bool:
    takes = inspect.signature(load("labeller", name)).parameters.values()
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in takes)


def chosen(names: Sequence[str] | None) -> list[StudyRow]:
    """The rows of these names in the table's order; all without any. An unknown name is an error."""
    return study_rows.chosen(list(known_rows().values()), names, "labelling")


def unmeasured() -> dict[str, str]:
    """Registered labellers that no row of the table is made of, with the reason where one is known."""
    used = {*(one.method for one in known_rows().values()), *NOT_LABELLERS}
    return {name: _UNMEASURED.get(name, "no row in the table") for name in parts("labeller") if name not in used}


def make_labeller(one: StudyRow, setting: Setting, budget: float) -> Judge | OwnTraces:
    """The labeller of a row in a setting; what is free needs nobody who rolls out."""
    made: Judge | OwnTraces
    if one.make is not None:
        made = one.make(setting, budget)
    elif one.dial == FREE:
        made = create("labeller", one.method, **one.at(budget))
    else:
        made = _rolled(one.method, setting, **one.at(budget))
    return made


def lacks(one: StudyRow, setting: Setting) -> str | None:
    """Why the method cannot be used here."""
    if one.worlds is not None and setting.name not in one.worlds:
        return f"it is for {', '.join(one.worlds)} alone"
    if one.logprobs and not has_likelihood(scripted(setting)):
        return "the log-probabilities of this policy are not known"
    return None
