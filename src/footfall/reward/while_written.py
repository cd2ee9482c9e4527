"""A head on the frozen policy, read while the policy writes (card: uhead): judging a step costs no pass over its tokens.

The engine tells what the decoder looked at and what it held likely at every token (`footfall.policy.tapping`); the head reads
that as it would read a second pass. A trace that this policy did not write here, or wrote with other weights than those of
the head's decoder, or whose prompt is rendered in another way, is read by a second pass as before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from footfall.hashing import weights_fingerprint
from footfall.policy.protocol import Policy
from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import Declared, register
from footfall.render import Reading
from footfall.reward.judge import PRMJudge, Runner
from footfall.reward.prm import PRM
from footfall.reward.tapped import Uncertainty
from footfall.types import Cost, Judge

MOST_BYTES = 1 << 30
"""Of what was seen; when there is more, all of it is dropped."""


class Seen:
    """What the decoder saw at each token, by the exact ids up to it; nothing is kept while `same` says that it is another."""

    def __init__(
        self, window: int, top: int, most_bytes: int = MOST_BYTES, same: Callable[[], bool] = lambda: True
    ) -> None:
        self.window, self.top, self.most_bytes, self.same = window, top, most_bytes, same
        self._nodes: dict[tuple[int, int], int] = {}
        self._seen: dict[int, Tensor] = {}
        self._bytes = 0

    def forget(self) -> None:
        """Drop all."""
        self._nodes.clear()
        self._seen.clear()
        self._bytes = 0

    def keep(self, ids: Sequence[int], first: int, seen_TF: Tensor) -> None:
        """What was seen at `ids[first:]`, a row a token."""
        if not self.same():
            return
        self._bytes += seen_TF.nbytes
        if self._bytes > self.most_bytes:
            self.forget()
            self._bytes = seen_TF.nbytes
        node = 0
        for at, token in enumerate(ids):
            node = self._nodes.setdefault((node, token), len(self._nodes) + 1)
            if first <= at < first + len(seen_TF):
                self._seen[node] = seen_TF[at - first]

    def of(self, ids: Sequence[int], first: int) -> Tensor | None:
        """(T, F) of all ids, 0 before `first`; None if a token from there on was not seen."""
        node, rows = 0, []
        for at, token in enumerate(ids):
            node = self._nodes.get((node, token), -1)
            if node < 0 or (at >= first and node not in self._seen):
                return None
            if at >= first:
                rows.append(self._seen[node])
        if not rows:
            return None
        return torch.cat([torch.zeros(first, len(rows[0])), torch.stack(rows)])


class SeenRunner(Runner):
    """Runs the head alone over what was seen, and the whole model over what was not."""

    def __init__(self, model: PRM, head: Uncertainty, seen: Seen, token_budget: int | None = None) -> None:
        super().__init__(model, token_budget)
        self.own, self.seen = head, seen
        self.read_again = 0
        """Traces that needed a second pass."""

    def run(self, readings: Sequence[Reading]) -> tuple[list[Tensor], list[Cost]]:
        """Logits (S, K) and cost of each sequence; what was seen costs no token."""
        found: list[tuple[Tensor, Cost] | None] = [self._of(reading) for reading in readings]
        missing = [reading for reading, known in zip(readings, found, strict=True) if known is None]
        self.read_again += len(missing)
        again = iter(zip(*super().run(missing), strict=True) if missing else ())
        whole = [known if known is not None else next(again) for known in found]
        return [logits for logits, _ in whole], [cost for _, cost in whole]

    @torch.inference_mode()
    def _of(self, reading: Reading) -> tuple[Tensor, Cost] | None:
        begun = time.perf_counter()
        upto = 1 + max(reading.positions, default=-1)
        states_TF = self.seen.of(reading.ids[:upto], reading.prompt_length)
        if states_TF is None:
            return None
        place = self.model.device
        positions, prompts = torch.tensor([reading.positions]), torch.tensor([reading.prompt_length])
        logits_1SK = self.own.at(states_TF[None].to(place), positions.to(place), prompts.to(place))
        return logits_1SK[0].cpu(), Cost(seconds=time.perf_counter() - begun, calls=1)


def while_written(judge: PRMJudge, policy: TorchPolicy) -> PRMJudge:
    """The same judge, which reads what `policy` writes while it is written; the policy's engine is told to say what it sees.

    Both must have one decoder. From then on the engine takes one step a pass, on CUDA too.
    """
    model, head = judge.model, judge.model.head
    if not isinstance(head, Uncertainty):
        raise ValueError(f"the head {model.prm_config.head['name']} is not read while a policy writes: uncertainty is")
    same = _sameness(model, policy)
    if not same():
        raise ValueError(
            "the head was trained on another decoder than the policy's: give the policy that it was trained on"
        )
    seen = Seen(head.window, head.top, same=same)
    policy.engine.tap = seen
    found = PRMJudge(model, too_long=judge.too_long)
    found.runner = SeenRunner(model, head, seen, judge.runner.token_budget)
    return found


def _sameness(model: PRM, policy: TorchPolicy) -> Callable[[], bool]:
    """Whether the policy writes with the decoder of the head, as of its engine's last look at the weights; compared again when
    they have changed."""
    ours, engine = weights_fingerprint(model.backbone), policy.engine
    known: dict[int, bool] = {}

    def same() -> bool:
        changes = engine.weights.changes
        if changes not in known:
            known.clear()
            known[changes] = weights_fingerprint(engine.model.base_model) == ours
        return known[changes]

    return same


@register(
    "reward",
    "uhead",
    Declared(judges=("head",), missing="--set head=FOLDER, what `footfall train --head uncertainty` wrote"),
)
def uhead(head: Judge, policy: Policy) -> PRMJudge:
    """A trained uncertainty head, read while its own policy writes: no second pass over what was written."""
    if not isinstance(head, PRMJudge):
        raise ValueError(f"{head.name} is no PRM with a head: `footfall train --head uncertainty` makes one")
    if not isinstance(policy, TorchPolicy):
        raise ValueError(
            f"the judge uhead reads what a model of this process looks at, and {policy.name} does not say: name the head's "
            "folder itself as the judge, which takes a second pass"
        )
    return while_written(head, policy)
