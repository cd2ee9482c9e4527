"""Models beside the policy that a credit reads: frozen ones, and reward models that learn with it.

What is there follows from what the credit needs of a rollout:

    old, reference   log-probabilities under the policy that sampled, and under a copy of it as it was at first
    online           those under a language model that learns from outcomes (PRIME, OPRL: `footfall.rl.online`)
    flow             how far tokens deviate from right completions (RLFR: `footfall.rl.flow`)
    confidence       how sure hidden states are of a right answer (RLCM: `footfall.rl.confidence`)

A batch is scored first and learnt from after that, but by the probe of confidences, whose paper does it the other way round. Of
several processes each takes the same step, on the batch of all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from footfall.metrics.steps import calibration_error
from footfall.rl.confidence import ConfidenceProbe, states_at
from footfall.rl.flow import FlowReward, neighbours
from footfall.rl.groups import Floats, Needs, Rollout
from footfall.rl.online import OnlineReward, Sequences, scored

SOLVED = "solved"
"""The aspect that holds the share of right forced answers, NaN behind steps at which none was forced."""


class Beside:
    """The models, made of the policy as it is before training."""

    def __init__(
        self, needs: Iterable[str], policy: PreTrainedModel, *, online_lr: float = 1e-6, temperature: float = 1.0,
        seed: int = 0, keep_reference: bool = False,
    ) -> None:  # fmt: skip
        """`keep_reference` holds a copy of the weights as they are now, also where the credit needs none."""
        self.needs, self.temperature = frozenset(needs), temperature
        width, device = int(policy.config.hidden_size), policy.device
        kept = keep_reference or "reference" in self.needs
        self.reference = copy.deepcopy(policy).train(False).requires_grad_(False) if kept else None
        self.online = (
            OnlineReward(copy.deepcopy(policy).requires_grad_(True), online_lr, 0.05, "old" in self.needs, temperature)
            if "online" in self.needs
            else None
        )
        self.flow = FlowReward(width, device, seed=seed) if "flow" in self.needs else None
        self.probe = ConfidenceProbe(width, device, seed=seed) if "confidence" in self.needs else None

    @property
    def learning(self) -> list[OnlineReward | FlowReward | ConfidenceProbe]:
        """Those that learn."""
        return [each for each in (self.online, self.flow, self.probe) if each is not None]

    def scores(
        self, policy: Any, batch: Sequences, rollouts: Sequence[Rollout], old: Tensor | None, seed: int, training: bool
    ) -> tuple[list[dict[str, Floats]], dict[str, float]]:
        """What each rollout is to know, by the names of its fields; and figures of what learnt, if this is training.

        `old` are the log-probabilities that the policy sampled with, where they are known.
        """
        by_token: dict[str, Tensor] = {}
        found: list[dict[str, Floats]] = [{} for _ in rollouts]
        figures: dict[str, float] = {}
        if "old" in self.needs:
            by_token["old"] = scored(policy, batch, self.temperature) if old is None else old
        if self.reference is not None and "reference" in self.needs:
            by_token["reference"] = scored(self.reference, batch, self.temperature)
        if self.online is not None:
            by_token["online"] = self.online.scores(batch)
        if self.flow is not None:
            states, own = neighbours(policy, batch), _own(batch, rollouts)
            by_token["flow"] = self.flow.scores(states, own, seed)
            right = [each.right for each in rollouts]
            if training and (loss := self.flow.learn(states, own, right, seed + 1)) is not None:
                figures["flow_loss"] = loss
        if self.probe is not None:
            sure, said = self._confidence(self.probe, policy, batch, rollouts, seed, training)
            found, figures = [{"confidence": row} for row in sure], figures | said
        for i, each in enumerate(rollouts):
            found[i] |= {name: values[i, : each.tokens].double().cpu().numpy() for name, values in by_token.items()}
        return found, figures

    def _confidence(
        self,
        probe: ConfidenceProbe,
        policy: Any,
        batch: Sequences,
        rollouts: Sequence[Rollout],
        seed: int,
        training: bool,
    ) -> tuple[list[Floats], dict[str, float]]:
        """c at the end of every step, after the probe has learnt from the forced answers of the batch."""
        states = states_at(policy, batch, [each.lengths for each in rollouts])
        pooled_ND = torch.cat(states)
        shares_N = np.concatenate([each.aspects.get(SOLVED, np.full(each.steps, np.nan)) for each in rollouts])
        at = np.flatnonzero(np.isfinite(shares_N))
        figures: dict[str, float] = {}
        if training and len(at):
            forced_ND, shares = pooled_ND[torch.from_numpy(at).to(pooled_ND.device)], shares_N[at]
            figures["calibration"] = float(calibration_error(probe.says(forced_ND), shares))
            if (loss := probe.learn(forced_ND, shares.tolist(), seed + 2)) is not None:
                figures["probe_loss"] = loss
        sure = probe.says(pooled_ND)
        return np.split(sure, np.cumsum([each.steps for each in rollouts])[:-1]), figures

    def learn(self, batch: Sequences, rollouts: Sequence[Rollout], tasks: Sequence[str]) -> Mapping[str, float]:
        """A reward model that is a language model takes a step on the outcomes of a batch that has its scores."""
        if self.online is None:
            return {}
        against: Needs = "old" if self.online.pairs else "reference"
        online_BT = _padded(batch, [each.known("online") for each in rollouts])
        against_BT = _padded(batch, [each.known(against) for each in rollouts])
        loss = self.online.update(
            batch, online_BT, against_BT, _own(batch, rollouts), [each.lengths.tolist() for each in rollouts],
            [each.outcome for each in rollouts], tasks,
        )  # fmt: skip
        return {"online_loss": loss}

    def save(self, folder: Path) -> None:
        """Those that learn, beside a checkpoint of the policy."""
        for each in self.learning:
            each.save(folder)

    def load(self, folder: Path) -> None:
        """Go on from there."""
        for each in self.learning:
            each.load(folder)


def _own(batch: Sequences, rollouts: Sequence[Rollout]) -> Tensor:
    """(B, T) 1 at tokens of the completions that the policy wrote."""
    return _padded(batch, [each.mask.astype(np.float64) for each in rollouts])


def _padded(batch: Sequences, rows: Sequence[Floats]) -> Tensor:
    found = torch.zeros(len(rows), batch.kept, device=batch.ids_BL.device)
    for i, row in enumerate(rows):
        found[i, : len(row)] = torch.from_numpy(row).to(found)
    return found
