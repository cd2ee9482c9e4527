"""The probe of RLCM (arXiv 2604.23333): how sure a policy's hidden states are that its answer will be right.

Completions are cut at a quarter, a half and three quarters of their tokens, each at the end of the last step that is written by
then. Behind a cut the policy is made to answer at once, several times:

    Y = share of the forced answers that are right          c = σ(MLP(mean of the last 4 hidden states before the cut))

The MLP (D → D/4 → ReLU → dropout → 1) learns Y by cross-entropy on every batch, 16 passes over it, and then says c of the same
states; no gradient reaches the policy. Forced answers are not trained on and pay nothing. c is said at every step's end, so the
probe is a PRM that costs a forward pass; `save_prm` makes it one that stands alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from footfall.answers import equal, extract
from footfall.policy.decoding import Request
from footfall.policy.protocol import SamplingParams
from footfall.render import Template
from footfall.reward.confidence_probe import STATES, probe_net
from footfall.reward.prm import PRM
from footfall.rl.groups import Floats
from footfall.rl.online import Sequences, load_learned, save_learned
from footfall.types import Problem, content_key

PASSES, BATCH = 16, 16
"""How the probe learns from a batch of completions."""
_ROWS = 16
"""Completions in one pass."""


@dataclass(frozen=True)
class Forcing:
    """How answers are forced."""

    words: str = "The answer is"
    """What is put behind a cut. An answer is read from the line that begins with it."""
    answers: int = 4
    """At each cut."""
    tokens: int = 32
    """Of an answer, at most."""
    temperature: float = 0.8
    cuts: tuple[float, ...] = (0.25, 0.5, 0.75)
    """Shares of a completion's tokens."""


def cuts_of(lengths: npt.NDArray[np.int64], shares: Sequence[float]) -> list[int]:
    """The steps behind which a completion is cut: the last that ends within each share, once. Never the last of all."""
    ends = np.cumsum(lengths)
    last = np.searchsorted(ends, np.asarray(shares) * ends[-1] + 1e-9, side="right") - 1
    return sorted({int(k) for k in last if 0 <= k < len(lengths) - 1})


def forced_right(
    engine: Any,
    tokenizer: Any,
    begun: Sequence[Sequence[int]],
    problems: Sequence[Problem],
    forcing: Forcing,
    seed: int,
) -> list[float | None]:
    """Y of each prefix: the ids of a prompt and of a completion as far as it is kept. `None` without a reference answer."""
    words = tuple(tokenizer.encode(forcing.words, add_special_tokens=False))
    known = [i for i, problem in enumerate(problems) if problem.answer is not None]
    requests = [
        Request((*begun[i], *words), _seed(seed, begun[i], n), forcing.tokens, len(begun[i]) + len(words))
        for i in known
        for n in range(forcing.answers)
    ]
    written = engine.generate(requests, SamplingParams(forcing.temperature, max_tokens=forcing.tokens)) if known else []
    found: list[float | None] = [None] * len(begun)
    for at, i in enumerate(known):
        own = written[at * forcing.answers : (at + 1) * forcing.answers]
        texts = [forcing.words + tokenizer.decode(each.tokens) for each in own]
        found[i] = sum(_right(text, problems[i]) for text in texts) / forcing.answers
    return found


def forced_shares(
    engine: Any, tokenizer: Any, problems: Sequence[Problem], prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]], lengths: Sequence[npt.NDArray[np.int64]], forcing: Forcing, seed: int,
) -> list[Floats]:  # fmt: skip
    """For each completion (S,) Y behind its steps; NaN where it is not cut, or the problem has no reference answer."""
    cuts = [(i, k) for i, own in enumerate(lengths) for k in cuts_of(own, forcing.cuts)]
    ends = [np.cumsum(own) for own in lengths]
    begun = [[*prompts[i], *completions[i][: ends[i][k]]] for i, k in cuts]
    shares = [np.full(len(own), np.nan) for own in lengths]
    right = forced_right(engine, tokenizer, begun, [problems[i] for i, _ in cuts], forcing, seed)
    for (i, k), share in zip(cuts, right, strict=True):
        shares[i][k] = np.nan if share is None else share
    return shares


def _seed(seed: int, ids: Sequence[int], index: int) -> int:
    return int(content_key("forced", seed, list(ids), index)[:16], 16) >> 1


def _right(text: str, problem: Problem) -> bool:
    """By its first line: what else a policy writes on is no answer to this problem."""
    answer = extract(text.strip().split("\n")[0], problem.domain)
    return answer is not None and equal(answer, str(problem.answer), problem.domain)


@torch.no_grad()
def states_at(model: Any, batch: Sequences, lengths: Sequence[npt.NDArray[np.int64]]) -> list[Tensor]:
    """For each completion (S, D): the mean of the last layer's hidden states at the last tokens of each step, in float32."""
    found = []
    for at in range(0, len(batch.ids_BL), _ROWS):
        part = batch.rows(slice(at, at + _ROWS))
        positions_BL = (part.mask_BL.cumsum(dim=-1) - 1).clamp(min=0)
        states_BLD = model(
            input_ids=part.ids_BL, attention_mask=part.mask_BL, position_ids=positions_BL, use_cache=False,
            output_hidden_states=True, logits_to_keep=1,
        ).hidden_states[-1].float()  # fmt: skip
        first = part.ids_BL.shape[1] - part.kept
        begun = part.mask_BL.long().argmax(dim=-1).tolist()  # a short prompt's padding has states too, and is not read
        for row, begin, own in zip(states_BLD, begun, lengths[at : at + _ROWS], strict=True):
            ends = (first + np.cumsum(own)).tolist()
            found.append(torch.stack([row[max(begin, end - STATES) : end].mean(dim=0) for end in ends]))
    return found


class ConfidenceProbe:
    """The MLP with its optimizer, beside a policy of this width."""

    def __init__(self, width: int, device: Any = "cpu", lr: float = 1e-3, dropout: float = 0.1, seed: int = 0) -> None:
        self.net = probe_net(width, dropout=dropout, seed=seed).to(device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=lr, weight_decay=0.01)

    @torch.no_grad()
    def says(self, states_ND: Tensor) -> Floats:
        """(N,) c."""
        self.net.train(False)
        found: Floats = self.net(states_ND)[:, 0].sigmoid().double().cpu().numpy()
        return found

    def learn(self, states_ND: Tensor, shares_N: Sequence[float], seed: int) -> float | None:
        """Passes over a batch; the mean loss of the last, or `None` where nothing was forced."""
        count = len(shares_N)
        if not count:
            return None
        wanted_N = torch.tensor(shares_N, dtype=torch.float32, device=states_ND.device)
        drawn = torch.Generator().manual_seed(seed % 2**63)
        self.net.train()
        total = 0.0
        with torch.random.fork_rng(devices=[states_ND.device] if states_ND.is_cuda else []):
            torch.manual_seed(seed % 2**63)
            for _ in range(PASSES):
                total = 0.0
                order_N = torch.randperm(count, generator=drawn).to(states_ND.device)
                for at in range(0, count, BATCH):
                    rows = order_N[at : at + BATCH]
                    loss = nn.functional.binary_cross_entropy_with_logits(
                        self.net(states_ND[rows])[:, 0], wanted_N[rows]
                    )
                    if not torch.isfinite(loss):
                        raise ValueError(f"the loss of the confidence probe is {loss.item()}")
                    self.optimizer.zero_grad(set_to_none=True)
                    torch.autograd.backward([loss])
                    self.optimizer.step()
                    total += float(loss.detach()) * len(rows) / count
        return total

    def save(self, folder: Path) -> None:
        """Weights and optimizer, beside a checkpoint of the policy."""
        save_learned(folder, "probe", self.net, self.optimizer)

    def load(self, folder: Path) -> None:
        """Go on from there."""
        load_learned(folder, "probe", self.net, self.optimizer)

    def save_prm(self, folder: Path, policy: Any, tokenizer: Any, template: Template, separator: str) -> None:
        """A model folder that any command takes as a judge: the policy as it is now, adapters merged, with the probe as head.

        It says of a step what the probe says beside the policy, but of the last, behind which there is no end token here.
        """
        whole = copy.deepcopy(policy).merge_and_unload() if hasattr(policy, "merge_and_unload") else policy
        trained = [weight for weight in whole.parameters() if weight.requires_grad]
        prm = PRM.from_backbone(whole, tokenizer, head={"name": "confidence-probe"}, template=template)
        prm.head.load_state_dict({f"net.{name}": weight for name, weight in self.net.state_dict().items()})
        prm.prm_config = replace(prm.prm_config, training={"objective": "rlcm", "separators": [separator]})
        prm.save(folder)
        for weight in trained:  # which a PRM with a head of this kind froze
            weight.requires_grad_(True)
