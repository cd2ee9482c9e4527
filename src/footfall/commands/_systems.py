"""Published systems by their own names, where a judge is asked for: the labeller that stands for one, or where it is.

A system that labels given traces is that labeller with the system's settings; what the user sets goes before them. One whose
labels are those of other judges is built over them (`BUILT`): `--set prm=FOLDER` or `--set judge=NAME` names them, and what
else is set is the judge's. One that does something else (grows trees, trains) is no judge, and the answer says what it is and
how it is run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from footfall.commands._parts import call_factory, served_tokenizer
from footfall.drive.stored_policy import StoredPolicy
from footfall.hashing import vocabulary_fingerprint
from footfall.lab.recipe import catalogue
from footfall.label.counting import CountingPolicy
from footfall.policy.protocol import Policy, SamplingParams
from footfall.render import Tokenizer
from footfall.types import Judge

__all__ = ["BUILT", "SYSTEMS", "System", "build_system", "not_a_judge"]


class System(NamedTuple):
    """A registered labeller, and the settings with which it is the system."""

    labeller: str
    settings: Mapping[str, Any] = {}


SYSTEMS = {
    "math-shepherd": System("monte-carlo", {"rollouts": 8, "estimate": "hard"}),
    "consensus-filter": System("consensus", {"judges": "monte-carlo,critic", "rule": "first-error"}),
    "aurora": System("prompted", {"prompts": "all", "reference": True, "cut": True}),
    "versaprm": System("prompted", {"form": "first-error", "reference": True, "cut": True}),
    "birm": System("beside", {"judges": "monte-carlo,critic", "aspect": "reward"}),
    "grounded-prm": System("grounded"),
    "fover": System("formal"),
    "prlcoder": System("execution"),
    "multilingual-prm": System("monte-carlo", {"rollouts": 8, "estimate": "hard"}),
}


def _ssrm(prm: Judge, confidence: float = 0.8) -> Judge:
    from footfall.train.self_training import Sure

    return Sure(prm, confidence)


def _actprm(prm: Judge, judge: Judge, confidence: float = 0.95, spread: float = 0.005) -> Judge:
    from footfall.train.active import Doubted

    return Doubted(prm, judge, confidence, spread)


def _prm800k(judge: Judge, threshold: float = 0.5) -> Judge:
    from footfall.train.active import FirstError

    return FirstError(judge, threshold)


def _adaptivestep(
    policy: Policy,
    rollouts: int = 8,
    estimate: Literal["soft", "hard"] = "hard",
    share: float = 0.02,
    until: Literal["all", "first-error"] = "all",
    params: SamplingParams = SamplingParams(),
) -> Judge:
    from footfall.label.adaptive_step import AdaptiveStep
    from footfall.label.monte_carlo import MonteCarlo
    from footfall.policy.http import HttpPolicy

    writer = getattr(policy, "inner", policy)
    if isinstance(writer, HttpPolicy):
        completer, tokenizer = policy, served_tokenizer("adaptivestep", writer)
    elif isinstance(writer, CountingPolicy) and hasattr(writer, "tokenizer"):
        completer, tokenizer = policy, writer.tokenizer
    else:
        completer, tokenizer = _from_ids(policy, writer)
    rates = MonteCarlo(completer, rollouts, estimate, until, params=params)
    return AdaptiveStep(rates, tokenizer, vocabulary_fingerprint(tokenizer), share)


def _from_ids(policy: Policy, writer: Policy) -> tuple[Policy, Tokenizer]:
    """The policy, a model in this process, as one that goes on in the middle of a line."""
    from footfall.policy.torch_policy import AnyCut, TorchPolicy

    if not isinstance(writer, TorchPolicy):
        raise ValueError(
            "adaptivestep goes on in the middle of a line, from token ids: it needs a model in this process as --policy "
            "(embedded, a folder or a hub id) or a server with --tokenizer, the one that wrote the traces"
        )
    completer = AnyCut(writer)
    return (policy.around(completer, ":any-cut") if isinstance(policy, StoredPolicy) else completer), writer.tokenizer


BUILT: dict[str, Callable[..., Judge]] = {
    "actprm": _actprm, "adaptivestep": _adaptivestep, "prm800k": _prm800k, "ssrm": _ssrm,
}  # fmt: skip
"""Systems that are more than a labeller with settings. A parameter `prm` or `judge` is a judge, by name or folder."""
_JUDGES = ("prm", "judge")
_MISSING = {
    "prm800k": "--set judge=NAME or FOLDER, whose labels it keeps up to the first error, in the place of people's (data that "
    "people labelled is read by --format prm800k, and `footfall train` takes it as it is)",
    "actprm": "--set prm=FOLDER, a PRM of several heads (docs/training.md) that says which traces it is unsure of, and --set "
    "judge=NAME, who labels those, as in --set judge=critic with --policy",
    "ssrm": "--set prm=FOLDER, the PRM whose labels are taken where it is sure (--set confidence=0.8)",
}
"""What to say where a judge is not named."""


def build_system(
    name: str, asked: Mapping[str, Any], offered: Mapping[str, Any], make: Callable[..., Judge], opening: Any
) -> Judge:
    """The system over the judges that are named; what it does not take itself is for `judge`, who may ask a policy."""
    takes = inspect.signature(BUILT[name]).parameters
    roles = [role for role in _JUDGES if role in takes]
    if any(not isinstance(asked.get(role), str) for role in roles):
        raise ValueError(f"{name} needs {_MISSING[name]}")
    own = {key: value for key, value in asked.items() if key in takes or not roles}
    rest = {key: value for key, value in asked.items() if key not in own}
    for role in roles:
        own[role] = make(own[role], rest if role == roles[-1] else {}, offered, opening)
    made: Judge = call_factory(BUILT[name], "method", name, own, offered, opening)
    return made


_ELSEWHERE = {
    "edu-prm": "it writes traces of its own, trees that branch where the writer is unsure: `footfall label --method edu-prm "
    "--trees N`, footfall.label.edu_prm",
    "hrm-hnc": "it grows trees of its own and merges their nodes: `footfall label --method hrm-hnc --trees N`, "
    "footfall.label.hrm_hnc",
    "hgs-prm": "its labels are of programs that it changes itself: footfall.label.execution; its search is `footfall search "
    "--method hgs-prm`",
}


def not_a_judge(name: str) -> str | None:
    """What a system of that name is and how it is run, if there is one and it judges no given traces."""
    entry = next((entry for entry in catalogue() if entry.recipe.name == name), None)
    if entry is None:
        return None
    where = _ELSEWHERE.get(name, f"it is of the stage {entry.recipe.stage}")
    return f"{name!r} is a published system that labels no given traces: {where}; `footfall lab run {name}` measures it"
