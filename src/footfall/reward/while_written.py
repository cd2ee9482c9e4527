"""A head on the frozen policy, read while the policy writes (card: uhead): judging a step costs no pass over its tokens.

The engine tells what the decoder looked at and what it held likely at every token (`footfall.policy.tapping`); the head reads
that as it would read a second pass. A trace that this policy did not write here, or wrote with other weights than those of
the head's decoder, or whose prompt is rendered in another way, is read by a second pass as before.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
"""Of what was seen; when there is more, that is dropped which nobody read or went on from for the longest time."""


@dataclass(eq=False)
class _Stretch:
    """What one call saw at tokens that no call before had seen, a row a token; it is kept or dropped as a whole."""

    keys: list[bytes]
    rows_TF: Tensor


class Seen:
    """What the decoder saw at each token, by the exact ids up to it; nothing is kept while `same` says that it is another.

    A trace that is judged again, or gone on from, keeps all that it is made of; those that a search gave up are dropped first.
    """

    def __init__(
        self, window: int, top: int, most_bytes: int = MOST_BYTES, same: Callable[[], bool] = lambda: True
    ) -> None:
        self.window, self.top, self.most_bytes, self.same = window, top, most_bytes, same
        self._rows: dict[bytes, tuple[_Stretch, int]] = {}
        self._stretches: OrderedDict[_Stretch, None] = OrderedDict()
        """Those used last stand last."""
        self.bytes = 0

    def forget(self) -> None:
        """Drop all."""
        self._rows.clear()
        self._stretches.clear()
        self.bytes = 0

    def keep(self, ids: Sequence[int], first: int, seen_TF: Tensor) -> None:
        """What was seen at `ids[first:]`, a row a token."""
        if not self.same():
            return
        keys = _names(ids)[: first + len(seen_TF)]
        new = [at for at in range(first, len(keys)) if keys[at] not in self._rows]
        if new:
            stretch = _Stretch([keys[at] for at in new], seen_TF[[at - first for at in new]])
            self._rows.update({key: (stretch, row) for row, key in enumerate(stretch.keys)})
            self._stretches[stretch] = None
            self.bytes += stretch.rows_TF.nbytes
        own = self._use([self._rows[key] for key in keys if key in self._rows])
        while self.bytes > self.most_bytes and (oldest := next(iter(self._stretches))) not in own:
            self._drop(oldest)

    def of(self, ids: Sequence[int], first: int) -> Tensor | None:
        """(T, F) of all ids, 0 before `first`; None if a token from there on was not seen."""
        keys = _names(ids)[first:]
        found = [self._rows[key] for key in keys if key in self._rows]
        if not keys or len(found) < len(keys):
            return None
        self._use(found)
        rows_TF = torch.stack([stretch.rows_TF[row] for stretch, row in found])
        return torch.cat([torch.zeros(first, rows_TF.shape[1]), rows_TF])

    def _use(self, rows: Sequence[tuple[_Stretch, int]]) -> dict[_Stretch, None]:
        """The stretches of a sequence now count as used last, its beginning after all: without that the rest is of no use."""
        found = dict.fromkeys(stretch for stretch, _ in rows)
        for stretch in reversed(found):
            self._stretches.move_to_end(stretch)
        return found

    def _drop(self, stretch: _Stretch) -> None:
        del self._stretches[stretch]
        self.bytes -= stretch.rows_TF.nbytes
        for key in stretch.keys:
            del self._rows[key]


def _names(ids: Sequence[int]) -> list[bytes]:
    """A name for every beginning of `ids`, by its content."""
    digest, found = hashlib.blake2b(digest_size=16), []
    for token in ids:
        digest.update(token.to_bytes(8, "little"))
        found.append(digest.copy().digest())
    return found


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
