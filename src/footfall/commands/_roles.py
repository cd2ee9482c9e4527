"""Further policies and judges of a search, by role: `--helper NAME=POLICY` and `--judge-role NAME=JUDGE`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from footfall.commands._judges import make_judge
from footfall.commands._options import PolicyOptions, policy_in_words
from footfall.commands._output import note
from footfall.commands._parts import settings
from footfall.policy.protocol import Policy
from footfall.search.state import Method
from footfall.types import Judge

__all__ = ["Wanted", "by_role", "check_roles", "helpers_of", "judges_of", "with_helper", "wanted"]

_POLICY_FIELDS = ("critic", "helper")
_JUDGE_FIELDS = ("reward",)
"""Fields of a method that hold the name of a role."""
_OWN_POLICIES = ("policy", "resuming")
_OWN_JUDGES = ("judge",)
"""Roles that every search fills by itself."""
_OWN_ACTIONS = ("step", "rest")
"""Of tree search by actions: what the policy does without help."""


class Wanted(NamedTuple):
    """The roles that a method asks somebody else to fill, of policies and of judges."""

    helpers: frozenset[str]
    judges: frozenset[str]


def wanted(method: Method) -> Wanted:
    """Found in the method's settings; a method made of others wants what they want."""
    policies = [getattr(method, name) for name in _POLICY_FIELDS if hasattr(method, name)]
    policies += [action for action in getattr(method, "actions", ()) if action not in _OWN_ACTIONS]
    judges = [getattr(method, name) for name in _JUDGE_FIELDS if hasattr(method, name)]
    bins = getattr(method, "bins", None)
    inner = [wanted(part) for part in bins if part is not None] if isinstance(bins, list) else []
    return Wanted(
        frozenset(policies).difference(_OWN_POLICIES).union(*(part.helpers for part in inner)),
        frozenset(judges).difference(_OWN_JUDGES).union(*(part.judges for part in inner)),
    )


def check_roles(method: Method, helpers: Iterable[str], judges: Iterable[str], used: Iterable[str] = ()) -> None:
    """An error for a role that nobody fills; a note for somebody whom the method does not ask. `used`: by judges."""
    want, helpers, judges = wanted(method), set(helpers), set(judges)
    for role in sorted(want.helpers - helpers):
        raise ValueError(
            f"{method.name} asks a policy in the role {role!r}: pass --helper {role}=POLICY, for example "
            f"--helper {role}=http,url=http://localhost:8001/v1,mode=chat"
        )
    for role in sorted(want.judges - judges):
        raise ValueError(
            f"{method.name} asks a judge in the role {role!r}: pass --judge-role {role}=JUDGE, a folder or a name"
        )
    idle = sorted(helpers - want.helpers - set(used)) + sorted(judges - want.judges)
    for role in idle:
        note(f"{method.name} asks nobody in the role {role!r}; which roles it asks is one of its settings (--set)")


def by_role(pairs: Sequence[str], flag: str) -> dict[str, str]:
    """`NAME=WORDS` pairs by name, each once."""
    own = _OWN_POLICIES if flag == "--helper" else _OWN_JUDGES
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, words = pair.partition("=")
        if not equals or not name or not words:
            raise ValueError(f"{flag} takes NAME=WHO, not {pair!r}")
        if name in own or name in found:
            why = "is the search's own" if name in own else "is named twice"
            raise ValueError(f"{flag} {pair}: the role {name!r} {why}")
        found[name] = words
    return found


def helpers_of(pairs: Sequence[str], opening: Callable[[PolicyOptions], Policy]) -> dict[str, Policy]:
    """The policies of `--helper NAME=POLICY`, opened."""
    options = {name: policy_in_words(words) for name, words in by_role(pairs, "--helper").items()}
    return {name: opening(each) for name, each in options.items()}


def judges_of(
    pairs: Sequence[str], offered: Mapping[str, Any], helpers: Mapping[str, Policy]
) -> tuple[dict[str, Judge], set[str]]:
    """The judges of `--judge-role NAME=JUDGE,SETTING=VALUE,…`, and which helpers they ask."""
    judges: dict[str, Judge] = {}
    used: set[str] = set()
    for role, words in by_role(pairs, "--judge-role").items():
        name, *own = re.split(r",(?=[\w-]+=)", words)
        asked, helper = with_helper(settings(own), helpers)
        used |= helper
        judges[role] = make_judge(name, asked, offered)
    return judges, used


def with_helper(asked: Mapping[str, Any], helpers: Mapping[str, Policy]) -> tuple[dict[str, Any], set[str]]:
    """Settings of a judge in which `policy=NAME` is the helper of that name; and that name."""
    name = asked.get("policy")
    if name is None:
        return dict(asked), set()
    if name not in helpers:
        raise ValueError(
            f"policy={name} of a judge is the name of a helper, and there is none such: pass --helper {name}=POLICY"
        )
    return {**asked, "policy": helpers[name]}, {name}
