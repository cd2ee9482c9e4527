"""The labelling methods that `footfall bench labels` compares, each with its dial. A new method is one row of `METHODS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from footfall.label.consensus import Consensus
from footfall.label.er_prm import EntropyRegularised
from footfall.registry import create, load, parts
from footfall.studies._labels_critics import asked, critic, grounded, grounded_trees, in_turn, votes
from footfall.studies._labels_setting import Remembered, Setting, scripted
from footfall.studies._labels_trees import OwnTraces, entropy_trees, full_trees, search_trees
from footfall.types import Judge, Judgement, Trajectory
from footfall.worlds.likelihood import WithLogprobs, has_likelihood, with_logprobs

Kind = Literal["measured", "stand-in", "reference", "own traces"]
"""`stand-in`: a critic or tool of assumed quality takes part; `reference`: knows the truth or proves it, where that can
be done; `own traces`: labels what it writes itself, so that it cannot be held against the others."""

ROLLOUTS = (2.0, 4.0, 8.0, 16.0, 32.0)
VOTES = (1.0, 3.0, 5.0, 9.0)
PROMPTS = (1.0, 2.0, 3.0, 4.0)
FREE = (0.0,)
LEAVES = (2.0, 4.0, 8.0, 16.0, 32.0)
ANY = 0.01
"""The search rule of trees, wrong is what never succeeds: below every share of successes but 0."""
IN_WORDS = ("arithmetic", "logic", "algebra")
"""Worlds whose lines are their words; a line of code has its indentation too."""


@dataclass(frozen=True, slots=True)
class Method:
    """A labeller, its dial, and how its labels are read."""

    name: str
    make: Callable[[Setting, float], Judge | OwnTraces]
    dial: str = "rollouts"
    budgets: Sequence[float] = ROLLOUTS
    threshold: float = 0.5
    """The method's own: a step valued below it is called wrong."""
    kind: Kind = "measured"
    value: str | None = None
    """What estimates the value of the prefix: `values`, or the name of an aspect."""
    probability: bool = True
    """Whether labels lie in [0, 1], so that they can be calibrated."""
    logprobs: bool = False
    """Whether traces and rollouts need the log-probabilities of their tokens."""
    worlds: tuple[str, ...] | None = None
    """The only worlds that it knows."""

    def lacks(self, setting: Setting) -> str | None:
        """Why the method cannot be used here."""
        if self.worlds is not None and setting.name not in self.worlds:
            return f"it is for {', '.join(self.worlds)} alone"
        if self.logprobs and not has_likelihood(scripted(setting)):
            return "the log-probabilities of this policy are not known"
        return None


def _rolled(part: str, dial: str = "rollouts", **fixed: Any) -> Callable[[Setting, float], Judge]:
    """A registered labeller that rolls out, with its dial set to a whole number."""

    def make(setting: Setting, budget: float) -> Judge:
        judge: Judge = create(
            "labeller", part, policy=setting.policy, params=setting.params, **{dial: int(budget)}, **fixed
        )
        return judge

    return make


def _monte_carlo(estimate: str) -> Callable[[Setting, float], Judge]:
    def make(setting: Setting, budget: float) -> Judge:
        return Remembered(_rolled("monte-carlo", estimate=estimate)(setting, budget), setting.memory)

    return make


def _narrow(setting: Setting, half_width: float) -> Judge:
    return _rolled("monte-carlo", half_width=half_width)(setting, ROLLOUTS[-1])


def _regularised(setting: Setting, budget: float) -> Judge:
    return EntropyRegularised(_monte_carlo("soft")(setting, budget))


def _relative(setting: Setting, budget: float) -> Judge:
    return _rolled("relative-progress", pass_rollouts=int(budget))(setting, budget)


def _scan(setting: Setting, budget: float) -> Judge:
    return _rolled("scan", responses=4 * int(budget))(setting, budget)


@dataclass(frozen=True)
class _Uncertain:
    """`unprm` on traces and rollouts that have the exact log-probabilities of the scripted policy that wrote them."""

    setting: Setting
    draws: int

    @property
    def inner(self) -> Judge:
        policy = WithLogprobs(self.setting.policy, scripted(self.setting))
        # The paper has 72 draws and asks for 10 right ones.
        setting = self.setting._replace(policy=policy)
        return _rolled("unprm", "draws", enough=max(1, self.draws * 10 // 72))(setting, self.draws)

    @property
    def name(self) -> str:
        return self.inner.name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self.inner.judge([with_logprobs(scripted(self.setting), trace) for trace in trajectories])


def _unprm(setting: Setting, budget: float) -> Judge:
    return _Uncertain(setting, int(budget))


def _free(part: str, **fixed: Any) -> Callable[[Setting, float], Judge]:
    """A registered labeller without a dial, that generates nothing."""

    def make(setting: Setting, budget: float) -> Judge:
        judge: Judge = create("labeller", part, **fixed)
        return judge

    return make


def _agreed(setting: Setting, budget: float) -> Judge:
    return Consensus((_monte_carlo("hard")(setting, budget), critic(setting, 0.1)), "first-error")


METHODS: tuple[Method, ...] = (
    Method("monte-carlo", _monte_carlo("soft"), value="values"),
    Method("monte-carlo-hard", _monte_carlo("hard")),
    Method("monte-carlo-adaptive", _narrow, "half width", (0.3, 0.25, 0.2, 0.17), value="values"),
    Method("omegaprm", _rolled("omegaprm")),
    # With fewer rollouts than 5 it is the same as above.
    Method("omegaprm-lost", _rolled("omegaprm", lost=0.2), budgets=(5.0, 8.0, 16.0, 32.0)),
    Method("er-prm", _regularised, value="values"),
    # As relative progress allows: a step may lose a fifth of the chance of success.
    Method("pav", _rolled("pav"), threshold=-0.2, value="policy", probability=False),
    Method("relative-progress", _relative, value="success_rate"),
    Method("scan", _scan, budgets=ROLLOUTS[:4], value="success_rate"),
    Method(
        "symbolic-mc", _rolled("symbolic-mc"), budgets=(2.0, 5.0, 8.0, 16.0, 32.0), value="values", worlds=("logic",)
    ),
    Method("unprm", _unprm, "draws", (8.0, 16.0, 32.0, 72.0), logprobs=True),
    Method("freeprm", _free("freeprm"), "free", FREE),
    Method("critic-30", votes(0.3), "votes", VOTES, kind="stand-in"),
    Method("critic-20", votes(0.2), "votes", VOTES, kind="stand-in"),
    Method("critic-10", votes(0.1), "votes", VOTES, kind="stand-in"),
    Method("consensus", _agreed, kind="stand-in"),
    Method("prompted", asked(reference=False), "samples", VOTES, kind="stand-in"),
    Method("prompted-step", asked(form="step", reference=False), "samples", VOTES, kind="stand-in"),
    Method("prompted-meta", asked(meta=True, reference=False), "samples", VOTES, kind="stand-in"),
    Method("prompted-reverse", asked(), "samples", VOTES, kind="stand-in"),
    Method("prompted-ensemble", in_turn(reference=False), "prompts", PROMPTS, kind="stand-in"),
    Method("aurora", in_turn(), "prompts", PROMPTS, kind="stand-in"),
    # Its tool reads every rollout: more of them would take longer than all other methods together.
    Method("grounded", grounded, budgets=(1.0, 2.0, 3.0, 4.0), kind="stand-in"),
    Method("grounded-tree", grounded_trees, "rounds", (1.0, 2.0, 4.0, 8.0), kind="own traces"),
    Method(
        "omegaprm-tree", search_trees, "searches", (2.0, 4.0, 8.0, 16.0), threshold=ANY, kind="own traces", value="mc"
    ),
    # The paper's five steps after each would be thousands of traces a problem; its depth is 5, where many traces are open.
    Method("hrm-tree", full_trees, "depth", (5.0, 6.0, 7.0, 8.0), ANY, "own traces", "values"),
    Method("edu-prm-tree", entropy_trees(), "solutions", LEAVES, ANY, "own traces", "values", worlds=IN_WORDS),
    # A slip is worth some tenths of a nat to these writers, the wording of a line one or two.
    Method("edu-prm-tree-0.2", entropy_trees(0.2), "solutions", LEAVES, ANY, "own traces", "values", worlds=IN_WORDS),
    Method(
        "formal", _free("formal"), "free", FREE, kind="reference", worlds=("arithmetic", "logic", "algebra", "code")
    ),
    Method("execution", _free("execution", run="world"), "free", FREE, kind="reference", worlds=("code",)),
)
"""One row a method. Budgets go from cheap to dear."""

NOT_LABELLERS = ("always-right", "always-wrong", "exact-value", "length", "random")
"""Registered beside labellers, but sanity checks and oracles."""
_MADE_OF = ("noisy",)
"""Parts of rows that have another name."""
_UNMEASURED = {"beside": "its values are those of another row, with a second judge as an aspect"}
_REFERENCES = ("formal-", "truth-")


def known_methods() -> dict[str, Method]:
    """All methods by name: the table's, then a free reference for each labeller called `formal-WORLD` or `truth-WORLD`."""
    found = {method.name: method for method in METHODS}
    for name in parts("labeller"):
        prefix = next((p for p in _REFERENCES if name.startswith(p)), None)
        if prefix is not None and name not in found and _needs_nothing(name):
            world = name.removeprefix(prefix)
            found[name] = Method(name, _free(name), "free", FREE, kind="reference", worlds=(world,))
    return found


def _needs_nothing(name: str) -> bool:
    takes = inspect.signature(load("labeller", name)).parameters.values()
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in takes)


def chosen(names: Sequence[str] | None) -> list[Method]:
    """The methods of these names in the table's order; all without any. An unknown name is an error."""
    known = known_methods()
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"no labelling method is called {unknown[0]!r}; there are {', '.join(known)}")
    return [method for name, method in known.items() if names is None or name in names]


def unmeasured() -> dict[str, str]:
    """Registered labellers that no row of the table is made of, with the reason where one is known."""
    used = {*known_methods(), *NOT_LABELLERS, *_MADE_OF}
    return {name: _UNMEASURED.get(name, "no row in the table") for name in parts("labeller") if name not in used}
