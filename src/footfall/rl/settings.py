"""How a policy is trained, in one typed place; without torch, so that a command line can ask for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

MOST_SHOWN = 24
"""Updates, and rollouts of each, that a page has room for."""


@dataclass(frozen=True)
class RlSettings:
    """How the policy is trained."""

    updates: int = 100
    """Optimizer steps."""
    prompts: int = 8
    """Problems that are written for at once."""
    group: int = 8
    """Completions of each."""
    iterations: int = 1
    """Updates on one batch of completions."""
    accumulation: int = 1
    """Forward and backward passes an update; more need less memory."""
    lr: float = 1e-6
    """Learning rate, constant."""
    online_lr: float = 1e-6
    """That of a reward model that learns beside the policy (credits prime and oprl)."""
    forced: str = "The answer is"
    """What is put behind completions that are cut, so that they answer at once (credit rlcm)."""
    beta: float = 0.0
    """Weight of the KL to the policy as it was at first."""
    loss: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = "dapo"
    """How TRL sums the losses of tokens."""
    lora_rank: int | None = None
    """Train low-rank adapters of this rank (needs footfall[lora]). None: train all weights."""
    checkpoint_every: int = 10
    """Updates between two checkpoints; at each one the policy is measured and watched for reward hacking."""
    measured: int = 128
    """Held-out problems that a checkpoint is measured on, one sample each."""
    stop_hacked: bool = False
    """End the run when the rule says that the reward is being hacked."""
    traces_at: tuple[int, ...] = ()
    """Updates of which the page shows rollouts, every token coloured by its advantage: --traces-at 1 10 50. Empty: those of
    checkpoints, of which it shows three."""
    traces_shown: int = 3
    """Rollouts that are shown of each: right ones, wrong ones and those that left their groups in turn."""

    def check(self) -> None:
        """Refuse sizes that do not fit together."""
        size = self.prompts * self.group
        least = min(
            self.updates, self.prompts, self.iterations, self.accumulation, self.checkpoint_every, self.measured
        )
        if least < 1 or self.group < 2:
            raise ValueError(
                "updates, prompts, iterations, accumulation and the like are at least 1, and a group has 2"
            )
        if not self.forced.strip():
            raise ValueError("--forced is empty: say the words that an answer stands behind, such as 'The answer is'")
        if len(self.traces_at) > MOST_SHOWN or not 1 <= self.traces_shown <= MOST_SHOWN:
            raise ValueError(
                f"--traces-at {len(self.traces_at)} updates, --traces-shown {self.traces_shown}: a page has room for "
                f"{MOST_SHOWN} updates and {MOST_SHOWN} rollouts of each; at least 1 is shown"
            )
        if outside := [update for update in self.traces_at if not 1 <= update <= self.updates]:
            raise ValueError(f"--traces-at {outside[0]}: the run has the updates 1 to {self.updates}")
        if size % self.accumulation or self.updates % self.iterations:
            raise ValueError(
                f"{size} completions are cut into --accumulation {self.accumulation} equal parts, and --updates "
                f"{self.updates} into batches of --iterations {self.iterations}: choose divisors"
            )

    def check_beside(self, needs: Collection[str]) -> None:
        """Refuse settings of what learns beside the policy, where a credit with these needs has nothing that does."""
        plain = RlSettings()
        for name, need, what in (
            ("online_lr", "online", "reward model"),
            ("forced", "confidence", "probe of confidences"),
        ):
            if (value := getattr(self, name)) != getattr(plain, name) and need not in needs:
                raise ValueError(
                    f"--{name.replace('_', '-')} {value}: with this credit no {what} learns beside the policy; leave it out"
                )

    @property
    def rollouts(self) -> int:
        """Completions of the whole run."""
        return self.updates // self.iterations * self.prompts * self.group


class QuickArm(NamedTuple):
    """What one arm of `footfall rl --quick` is trained with."""

    credit: str
    judge: str | None = None
    settings: tuple[str, ...] = ()


QUICK_PROBLEMS, QUICK_HELD_OUT = "world:arithmetic:2048", "world:arithmetic:300:test"
QUICK_ARMS = {
    "outcome": QuickArm("grpo"),
    "process": QuickArm("capo", "truth-arithmetic", ("consequent=1.0",)),
}
