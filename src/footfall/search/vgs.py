"""Value-guided search: beam search over blocks of tokens, then a vote weighted by value (card: vgs).

There are no steps: a beam grows by blocks of `block` tokens, and V at a block's last token says how good it is. B = n / width
beams live; each round every open beam gets `width` continuations, and the best of all of them, however many come from one
parent, fill the open slots. Finished beams keep their slots and are not compared again. With one block a solution, this is
best-of-n.

A policy that writes tokens must be able to go on in the middle of a line (`footfall.policy.torch_policy.AnyCut`, with the empty
separator). One that writes whole steps, as the scripted ones, fills a block with as many as fit.

Beside it, on single tokens: value-guided decoding (AdaptiveStep's TVD, arXiv 2502.13943): a PRM chooses tokens where the
writer is unsure.

    greedy token a = argmax_v p(v | prefix);   if p(a) < τ: of the M likeliest tokens the one with the largest
    PRM value of prefix + token;   else a

τ = 0 and M = 1 are both greedy decoding. `next_tokens` and `score` are plain functions of token ids, so that any model can
be put in their place (`guided_solution` takes a policy and a PRM of this process); τ is that of the segmenter
(`footfall.segment.confidence_threshold`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from footfall.answers import grade
from footfall.drive.requests import ROOT, BudgetSpent
from footfall.registry import Declared, register, search_row
from footfall.search.beam import best_indices
from footfall.search.state import Choice, Course, Requests, SearchState, described
from footfall.search.votes import Rule, check_rule
from footfall.types import Step, Trajectory

if TYPE_CHECKING:
    from footfall.policy.torch_policy import TorchPolicy
    from footfall.reward.prm import PRM


def survivors(scores: Sequence[Sequence[float | None]], slots: int) -> list[int]:
    """The places of the best candidates, counted over the beams' candidates in a row: [[.2, .7], [.8, .75]], 2 is [2, 3]."""
    return best_indices([score for row in scores for score in row], slots)


@dataclass(slots=True)
class _Beams:
    """One of the independent searches: its open beams and those that are finished."""

    open: list[int]
    finished: list[int] = field(default_factory=list)


@register(
    "searcher",
    "vgs",
    Declared(
        study=(search_row(15, width=2, block=24, length=240),), blocks=True, smoke={"n": 4, "block": 4, "length": 32}
    ),
)
@dataclass(frozen=True)
class ValueGuided:
    """Value-guided search: beams of token blocks kept by the value of their last token, then a weighted vote.

    `searches` of them run independently and pool their beams; the cost is that of n x searches samples. The largest
    length of a solution is `length` tokens, a multiple of `block`.
    """

    judged: ClassVar[bool] = True
    n: int = 16
    width: int = 2
    block: int = 4096
    length: int = 16384
    searches: int = 1
    rule: Rule = "weighted"

    def __post_init__(self) -> None:
        check_rule(self.rule, "last")
        if self.width < 1 or self.n < 1 or self.n % self.width:
            raise ValueError(f"vgs needs n to be a multiple of width, not {self.n} and {self.width}")
        if self.block < 1 or self.length < 1 or self.length % self.block:
            raise ValueError(f"vgs needs length to be a multiple of block, not {self.length} and {self.block}")
        if self.searches < 1:
            raise ValueError(f"vgs needs at least one search, not {self.searches}")

    @property
    def name(self) -> str:
        return described("vgs", self)

    def search(self, state: SearchState) -> Course:
        """Block by block until all beams are finished, the length is reached or the budget is spent."""
        found = [_Beams([ROOT] * (self.n // self.width)) for _ in range(self.searches)]
        rounds = self.length // self.block
        try:
            for i in range(rounds):
                if not any(beams.open for beams in found):
                    break
                yield from self._round(state, found, last=i == rounds - 1)
        except BudgetSpent:
            pass
        return self._choice(state, found)

    def _round(self, state: SearchState, found: Sequence[_Beams], last: bool) -> Requests[None]:
        """One more block for all open beams of all searches, in one batch."""
        parents = [node for beams in found for node in beams.open]
        rows = iter((yield from state.expand(parents, self.width, "end", score=True, max_tokens=self.block)))
        for beams in found:
            self._select(state, beams, [next(rows) for _ in beams.open], last)

    def _select(self, state: SearchState, beams: _Beams, rows: Sequence[Sequence[int]], last: bool) -> None:
        """Fill the open slots with the best candidates. A beam for which nothing was written is finished as it stands."""
        ended = [node for node, row in zip(beams.open, rows, strict=True) if not row and node != ROOT]
        slots = len(beams.open) - len(ended)
        grown = [node for row in rows for node in row]
        scores = [state.aggregate(node, "last") for node in grown]
        kept = [grown[i] for i in survivors([scores], slots)]
        beams.finished += ended + [node for node in kept if last or state.finish(node) == "end"]
        beams.open = [node for node in kept if not last and state.finish(node) != "end"]
        for node in beams.open:
            state.tree.update(node, terminal=False)  # a block that is full is not the end
        state.keep(
            kept, f"the {len(kept)} best of {len(grown)} blocks", [state.aggregate(node, "last") for node in kept]
        )
        rest = [i for i, node in enumerate(grown) if node not in kept]
        state.prune([grown[i] for i in rest], f"not among the {slots} best blocks", [scores[i] for i in rest])

    def _choice(self, state: SearchState, found: Sequence[_Beams]) -> Choice:
        """The rule's choice among all beams; one that was cut has no answer and no vote."""
        pool = [node for beams in found for node in (*beams.finished, *beams.open) if node != ROOT]
        return state.choose(pool, self.rule, "last")


NextTokens: TypeAlias = Callable[[Sequence[int]], Sequence[tuple[int, float]]]
"""The likeliest tokens after these ids with their probabilities, likeliest first; at least one, M if there are as many."""
Score: TypeAlias = Callable[[Sequence[Sequence[int]]], Sequence[float]]
"""The PRM's value of each sequence of ids at its last token."""


def guided_token(
    prefix: Sequence[int], likeliest: Sequence[tuple[int, float]], score: Score, threshold: float, m: int = 8
) -> int:
    """The next token: the likeliest where it is likely enough, else the best valued of `m`; of equal ones the likelier."""
    greedy, probability = likeliest[0]
    if probability >= threshold or m == 1:
        return greedy
    tokens = [token for token, _ in likeliest[:m]]
    values = score([(*prefix, token) for token in tokens])
    return max(zip(values, tokens, strict=True), key=lambda pair: pair[0])[1]


def guided_decoding(
    prompt: Sequence[int],
    next_tokens: NextTokens,
    score: Score,
    threshold: float,
    m: int = 8,
    ends: Container[int] = (),
    max_tokens: int = 1024,
) -> tuple[int, ...]:
    """The ids that follow a prompt, up to a token that ends the text (it is included) or `max_tokens` of them."""
    if m < 1:
        raise ValueError(f"at least one token is needed to choose from, not {m}")
    written: list[int] = []
    while len(written) < max_tokens:
        prefix = (*prompt, *written)
        written.append(guided_token(prefix, next_tokens(prefix), score, threshold, m))
        if written[-1] in ends:
            break
    return tuple(written)


def guided_solution(
    policy: TorchPolicy, prm: PRM, prefix: Trajectory, threshold: float, m: int = 8, max_tokens: int = 1024
) -> Trajectory:
    """The prefix with what the policy writes greedily, guided by the PRM, as one step; graded. Both have one vocabulary."""
    from footfall.render import Reading, decoded, encode

    def likeliest(ids: Sequence[int]) -> list[tuple[int, float]]:
        top = policy.engine.logits([tuple(ids)], [len(ids) - 1])[0, -1].float().softmax(dim=-1).topk(m)
        return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))

    def score(candidates: Sequence[Sequence[int]]) -> list[float]:
        return [value for (value,) in prm.score([Reading(tuple(ids), (len(ids) - 1,)) for ids in candidates])]

    prompt = encode(policy.tokenizer, prefix, policy.template).ids
    ids = guided_decoding(prompt, likeliest, score, threshold, m, policy.engine.eos, max_tokens)
    written = tuple(token for token in ids if token not in policy.engine.eos)
    text = decoded(policy.tokenizer, written)
    return grade(replace(prefix, steps=(*prefix.steps, Step(text, token_ids=written)), tokenizer=policy.vocabulary))
