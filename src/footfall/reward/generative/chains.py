"""Which written critiques are worth training on: filters against step labels, balance, and pairs. Pure functions.

    process filter   every verdict is the label, one by one, up to the first wrong step or for all steps    (ThinkPRM)
    outcome filter   all verdicts are right iff all labels are                                              (its ablation)
    pairs            chosen: a critique whose verdict is the label; rejected: one that contradicts it       (R-PRM)
    balance          the more frequent of two labels is thinned out to as many as there are of the other

With strict comparison the process filter keeps a subset of what the outcome filter keeps. (ThinkPRM's released code compares
up to the first wrong step only, and so passes a chain that calls a later step right again.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from footfall.reward.generative.critic import Chain, Request, say
from footfall.types import Trajectory, content_key

T = TypeVar("T")
Keep = Literal["process", "outcome"]


def gold_of(labels: Sequence[float | None], threshold: float = 0.5) -> tuple[bool, ...]:
    """Labels as verdicts: after the first wrong step all are wrong, and an unlabelled step before it ends the row."""
    gold: list[bool] = []
    for label in labels:
        if False in gold:
            gold.append(False)
        elif label is None:
            break
        else:
            gold.append(label >= threshold)
    return tuple(gold)


def agrees(verdicts: Sequence[bool], gold: Sequence[bool], keep: Keep = "process") -> bool:
    """Whether the verdicts are the labels: of all steps, or of those up to the first wrong one, which is then the last."""
    if not verdicts or not gold:
        return False
    if keep == "outcome":
        return all(verdicts) == all(gold)
    upto = list(gold).index(False) + 1 if False in gold else len(gold)
    return len(verdicts) in (upto, len(gold)) and tuple(verdicts) == tuple(gold[: len(verdicts)])


def kept(chains: Sequence[Chain], labels: Sequence[float | None], keep: Keep = "process") -> list[Chain]:
    """The chains that agree with the labels of the steps that they are about, all of which must have one."""
    gold = gold_of(labels)
    return [
        chain for chain in chains
        if chain.reason is None and chain.end <= len(gold) and agrees(chain.verdicts, gold[chain.begin : chain.end], keep)
    ]  # fmt: skip


def balanced(items: Sequence[T], good: Callable[[T], bool], seed: int = 0) -> list[T]:
    """As many good as bad items: of the more frequent side a sample, drawn by its place; the order stays."""
    sides = {side: [i for i, item in enumerate(items) if good(item) == side] for side in (True, False)}
    few = min(map(len, sides.values()))
    chosen = {i for side in sides.values() for i in sorted(side, key=lambda i: content_key("balance", seed, i))[:few]}
    return [item for i, item in enumerate(items) if i in chosen]


class Preference(NamedTuple):
    """Two critiques of one step or solution; the chosen one says what the label says."""

    problem: str
    request: Request
    chosen: str
    rejected: str
    good: bool
    """The label, which is the chosen one's verdict."""


def preferences(
    rows: Sequence[tuple[str, Sequence[float | None], Sequence[Chain]]], words: tuple[str, str], seed: int = 0
) -> list[Preference]:
    """Pairs for DPO: of each question the first critique that agrees and the first that contradicts, balanced by label.

    A row is a problem, its labels and the chains about its solution; `words` are the verdicts that end a critique, good and
    bad. Critiques without a verdict are in no pair.
    """
    found = []
    for problem, labels, chains in rows:
        gold = gold_of(labels)
        for begin, end in dict.fromkeys((chain.begin, chain.end) for chain in chains if chain.end <= len(gold)):
            own = [c for c in chains if (c.begin, c.end) == (begin, end) and c.reason is None and c.verdicts]
            good = all(gold[begin:end])
            right = next((c for c in own if agrees(c.verdicts, gold[begin:end])), None)
            wrong = next((c for c in own if all(c.verdicts) != good), None)
            if right is not None and wrong is not None:
                said = [chain.text + words[not all(chain.verdicts)] for chain in (right, wrong)]
                found.append(Preference(problem, right.request, said[0], said[1], good))
    return balanced(found, lambda pair: pair.good, seed)


def continuations(prefix: Trajectory, texts: Sequence[str], pairs: Iterable[tuple[int, int]]) -> list[Preference]:
    """Pairs for DPO of a policy: continuations of one prefix of which a judge puts the first above the second.

    Whole samples of a bare problem by DRM's `extremes`, candidates for one step by DG-PRM's `pareto_pairs`.
    """
    opening = prefix.text + prefix.separator if prefix.steps else ""
    asked = Request(say(prefix.problem.text), opening)
    return [Preference(prefix.problem.id, asked, texts[better], texts[worse], True) for better, worse in pairs]
