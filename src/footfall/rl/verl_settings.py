"""What `algorithm.footfall` of verl's config says: credit, filter, judge, what a completion is worth. It needs no verl.

What does nothing beside the rest is refused, as commands refuse it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from footfall.judging import refuse_idle
from footfall.registry import create, parts
from footfall.rl.groups import Credit, Filter
from footfall.rl.rewards import Reward


@dataclass(frozen=True)
class Settings:
    """What may be said; what is left out has its default."""

    credit: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the credit that `algorithm.adv_estimator` names."""
    filter: Mapping[str, Any] = field(default_factory=dict)
    """`name` of a filter, and its settings."""
    judge: Mapping[str, Any] = field(default_factory=dict)
    """`name` of `footfall list reward` or `footfall list labeller`, and its settings. None: outcomes alone."""
    outcome: str = "answer"
    aggregate: str = Reward.aggregate
    after_error: float | None = Reward.after_error
    """As in `footfall.rl.rewards:Reward`."""
    separator: str = "\n\n"
    """What stands between steps."""
    agent_loop: str = "single_turn_agent"
    """verl's agent loop that writes."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """From what the config says; a key that nothing reads is an error."""
        known = [each.name for each in fields(cls)]
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
                raise ValueError(f"algorithm.footfall has no {key!r}; {hint}")
        for key in ("filter", "judge"):
            if (said := given.get(key)) and not (isinstance(said, Mapping) and said.get("name")):
                raise ValueError(
                    f"algorithm.footfall.{key} is {said!r}, without a name: set algorithm.footfall.{key}.name"
                )
        # YAML's `judge:` without more is None; only after_error has a None of its own.
        return cls(**{key: value for key, value in given.items() if value is not None or key == "after_error"})

    def credit_of(self, name: str) -> Credit:
        """The credit of this name as it is set."""
        made: Credit = create("credit", name, **self.credit)
        refuse_idle(made, self.credit, f"the credit {name!r}", "algorithm.footfall.credit.{}".format)
        return made

    @property
    def keep(self) -> Filter | None:
        """The filter, if one is named."""
        found: Filter | None = _made("filter", "filter", self.filter) if self.filter else None
        return found

    def reward(self, name: str) -> Reward:
        """What completions are judged by and paid for, with the credit of this name."""
        kind = "reward" if self.judge.get("name") in parts("reward") else "labeller"
        reward = Reward(
            self.credit_of(name), _made(kind, "judge", self.judge) if self.judge else None, self.keep, self.outcome,
            self.aggregate, self.after_error,
        )  # fmt: skip
        said = [each.name for each in fields(Settings) if getattr(self, each.name) != getattr(Settings(), each.name)]
        refuse_idle(reward, said, f"the credit {name!r}", "algorithm.footfall.{}".format)
        return reward


def _made(kind: str, key: str, given: Mapping[str, Any]) -> Any:
    name = given["name"]
    made = create(kind, name, **{option: value for option, value in given.items() if option != "name"})
    refuse_idle(made, given, f"the {key} {name!r}", f"algorithm.footfall.{key}.{{}}".format)
    return made
