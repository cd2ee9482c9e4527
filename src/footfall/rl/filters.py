"""Which rollouts are trained on: PROF, PRIME's band of accuracies, DAPO's spread, VSPO.

PROF (Beyond Correctness, arXiv 2509.03403). Step scores choose, outcomes train. s̄ is the mean step score of the batch:

    c_i = mean_k 2 (r_ik - s̄) · (2 R_i - 1) - λ 1[S_i < 2 or S_i > 30]
    to remove k of a group:  k₊ = min(k, round((n₊ - n₋ + k) / 2)) right ones with the lowest c, and as many wrong ones with the
    lowest c as are missing to k;  k₊ ≤ 0: all from the wrong ones

`wrong_at_random` draws the wrong ones instead (for judges that are weak off their domain).

The band of PRIME (arXiv 2502.01456): groups whose share of right rollouts lies in [low, high]. The spread of DAPO
(arXiv 2503.14476): groups whose outcomes are not all equal; others have no gradient under GRPO.

VSPO (arXiv 2512.07478): groups without spread are replaced by others of the batch, drawn by a task value 4p(1-p) std / max std;
a group that is used c times has the weight √min(c, 4) / c each time. These formulas are a reading of the abstract, which names
the parts (difficulty, uncertainty, value-smoothing) and no constants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from footfall.judging import idle_settings
from footfall.registry import Declared, Paper, register
from footfall.rl.group_relative import outcomes
from footfall.rl.groups import Chosen, Filter, Floats, Group, Needs, Rollout, deviation
from footfall.types import content_key


def consistency(rewards: Floats, outcome: float, level: float, penalty: float = 0.0) -> float:
    """c_i of PROF."""
    odd = len(rewards) < 2 or len(rewards) > 30
    return float(2 * (rewards.mean() - level) * (2 * outcome - 1) - penalty * odd)


def removed(right: Sequence[float], wrong: Sequence[float], count: int) -> tuple[list[int], list[int]]:
    """Which right and which wrong rollouts PROF removes, by their consistency: those with the lowest, balanced in number."""
    # Python rounds a half to the even neighbour, as the official code does.
    ahead = max(0, min(count, round((len(right) - len(wrong) + count) / 2), len(right)))
    lowest = [np.argsort(np.asarray(values), kind="stable").tolist() for values in (right, wrong)]
    return lowest[0][:ahead], lowest[1][: count - ahead]


def refuse_empty(keep: Filter, size: int) -> None:
    """Refuse a filter that leaves nothing to compare even of a group of this size in which half of the rollouts are right."""
    half = [Rollout(np.ones(2, np.int64), float(i % 2), np.full(2, i % 2, np.float64)) for i in range(size)]
    kept = max((int(np.count_nonzero(chosen.weights)) for chosen in keep([Group(tuple(half))])), default=0)
    if kept < 2:
        raise ValueError(
            f"the filter keeps {kept} of a group's {size} rollouts, and there is nothing to learn from less than 2: write more "
            "(--group 8), or give the filter other settings (--filter NAME,KEY=VALUE)"
        )


def _usable(group: Group, needs: Sequence[str]) -> list[int]:
    return [i for i, each in enumerate(group.rollouts) if each.lacks(needs) is None]


def _of(group: Group, inside: Sequence[int]) -> list[Rollout]:
    return [group.rollouts[i] for i in inside]


def _by_chance(seed: int, groups: Sequence[Group]) -> np.random.Generator:
    """Drawn by the numbers of the batch: the same one is chosen from alike, in a run that was resumed too, and another anew.

    Were it begun alike for all batches, whoever stands in a place would be drawn every time, or never. Names of prompts do not
    count: some trainers make them up.
    """
    told = [
        [(None if each.outcome is None else float(each.outcome), each.lengths.tolist()) for each in group.rollouts]
        for group in groups
    ]
    return np.random.default_rng(int(content_key("filter", seed, told)[:16], 16))


def shares_right(group: Group) -> Floats:
    """Outcomes in [0, 1] of the rollouts that have one; any other is refused."""
    return np.array([each.share for each in _of(group, _usable(group, ("outcome",)))], np.float64)


@register(
    "filter",
    "prof",
    Declared(
        needs=("outcome", "rewards"),
        paper=Paper(
            "Beyond Correctness: Harmonizing Process and Outcome Rewards through RL Training", 2025, "2509.03403"
        ),
    ),
)
def prof(remove: int = 4, penalty: float = 0.0, wrong_at_random: bool = False, seed: int = 0) -> Filter:
    """Drop right rollouts with bad steps and wrong ones with good steps, so that both are left in equal numbers (PROF)."""
    needs: tuple[Needs, ...] = ("outcome", "rewards")
    if remove < 0:
        raise ValueError(f"remove {remove}: 0 or more rollouts are removed from a group")

    def keep(groups: Sequence[Group]) -> list[Chosen]:
        rng = _by_chance(seed, groups)
        inside = [_usable(group, needs) for group in groups]
        scores = [
            each.known("rewards") for group, there in zip(groups, inside, strict=True) for each in _of(group, there)
        ]
        level = float(np.concatenate(scores).mean()) if scores else 0.0
        chosen = []
        for at, (group, there) in enumerate(zip(groups, inside, strict=True)):
            c = {i: consistency(group.rollouts[i].known("rewards"), group.rollouts[i].share, level, penalty)
                 for i in there}  # fmt: skip
            right = [i for i in there if group.rollouts[i].right]
            wrong = [i for i in there if not group.rollouts[i].right]
            by_wrong = rng.random(len(wrong)).tolist() if wrong_at_random else [c[i] for i in wrong]
            out_right, out_wrong = removed([c[i] for i in right], by_wrong, min(remove, len(there)))
            out = {right[i] for i in out_right} | {wrong[i] for i in out_wrong}
            chosen.append(Chosen(at, np.array([float(i in c and i not in out) for i in range(len(group.rollouts))])))
        return chosen

    return Filter(needs, keep, idle_settings((not wrong_at_random, "seed", "wrong_at_random=true")))


def _whole_groups(accept: Sequence[bool], groups: Sequence[Group]) -> list[Chosen]:
    return [Chosen(at, np.ones(len(groups[at].rollouts))) for at, good in enumerate(accept) if good]


@register(
    "filter",
    "band",
    Declared(needs=("outcome",), paper=Paper("Process Reinforcement through Implicit Rewards", 2025, "2502.01456")),
)
def band(low: float = 0.2, high: float = 0.8) -> Filter:
    """Groups whose share of right rollouts is neither too low nor too high (PRIME's online prompt filter)."""
    if not 0 <= low <= high <= 1:
        raise ValueError(f"a band from {low} to {high}: want 0 <= low <= high <= 1, shares of right rollouts")

    def keep(groups: Sequence[Group]) -> list[Chosen]:
        rows = [shares_right(group) for group in groups]
        return _whole_groups([len(row) > 0 and low <= row.mean() <= high for row in rows], groups)

    return Filter(("outcome",), keep)


@register(
    "filter",
    "spread",
    Declared(
        needs=("outcome",),
        paper=Paper("DAPO: An Open-Source LLM Reinforcement Learning System at Scale", 2025, "2503.14476"),
    ),
)
def spread_only() -> Filter:
    """Groups whose outcomes are not all equal (DAPO's dynamic sampling)."""

    def keep(groups: Sequence[Group]) -> list[Chosen]:
        rows = [outcomes(_of(group, _usable(group, ("outcome",)))) for group in groups]
        return _whole_groups([len(row) > 0 and float(np.ptp(row)) > 0 for row in rows], groups)

    return Filter(("outcome",), keep)


def task_values(rows: Sequence[Floats]) -> Floats:
    """4p(1-p) · std / max std of each group's outcomes in [0, 1]; 0 where all are equal."""
    means = np.array([row.mean() if len(row) else 0.0 for row in rows])
    stds = np.array([deviation(row, ddof=0) for row in rows])
    return 4 * means * (1 - means) * stds / stds.max() if len(rows) and stds.max() > 0 else np.zeros(len(rows))


def damped(times: int, most: int = 4) -> float:
    """√min(c, most) / c: the whole influence of a group that is used c times grows less than c, and no further than √most."""
    return float(np.sqrt(min(times, most)) / times)


@register(
    "filter",
    "vspo",
    Declared(
        needs=("outcome",),
        paper=Paper("Enhancing Agentic RL with Progressive Reward Shaping and Value-based Sampling Policy Optimization",
                    2025, "2512.07478"),
    ),
)  # fmt: skip
def vspo(most: int = 4, seed: int = 0) -> Filter:
    """Groups without spread are replaced by groups of the batch that are neither easy nor hopeless, damped (VSPO)."""
    if most < 1:
        raise ValueError(f"most {most}: a group is used at least once")

    def keep(groups: Sequence[Group]) -> list[Chosen]:
        values = task_values([shares_right(group) for group in groups])
        if not values.any():
            return []
        times = (values > 0).astype(int)
        for at in _by_chance(seed, groups).choice(len(groups), len(groups) - times.sum(), p=values / values.sum()):
            times[at] += 1
        return [
            Chosen(at, np.full(len(groups[at].rollouts), damped(int(count), most)))
            for at, count in enumerate(times)
            for _ in range(count)
        ]

    return Filter(("outcome",), keep)
