"""Pairs of next steps after one history, a right and a wrong one, made from the pool in ToolPRMBench's two ways.

offline   golden history (a right solution up to step k), its own step k, and a wrong one that the policy writes there
online    the policy's own history up to its first error, the step of a careful writer, and its own wrong step
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from footfall.lab.recipe import Trial
from footfall.lab.shared.flaws import CAREFUL, right_traces
from footfall.lab.shared.prms import params, pool
from footfall.metrics.cases import Case
from footfall.types import Judgement, Step, Trajectory
from footfall.worlds import ArithmeticWorld

__all__ = ["offline_pairs", "online_pairs"]


def offline_pairs(trial: Trial) -> list[Case]:
    """A right solution of every second problem, cut at each step; of two steps drawn there, the first that is wrong."""
    from footfall.policy.embedded import embedded

    places = [(golden, k) for golden in right_traces(pool(trial))[::2] for k in range(len(golden.steps))]
    histories = [golden.prefix(k) for golden, k in places]
    drawn = embedded().sample(histories, 2, replace(params(trial), until="step"))
    pairs: list[Case] = []
    for (golden, k), history, completions in zip(places, histories, drawn, strict=True):
        wrong = next((c.steps for c in completions if _is_wrong(history, c.steps)), None)
        pairs += _pair("offline", f"{golden.id}@{k}", history, golden.steps[k], wrong[0]) if wrong else []
    return pairs


def online_pairs(trial: Trial) -> list[Case]:
    """The first failed solution of each problem, at its first error."""
    world, pairs = ArithmeticWorld(), list[Case]()
    failed = {trace.problem.id: trace for trace in reversed(pool(trial)) if not trace.correct}
    for trace in failed.values():
        k = world.first_error(trace)
        if k >= 0:
            history = trace.prefix(k)
            ((completion,),) = CAREFUL.sample([history], 1, replace(params(trial), until="step"))
            pairs += _pair("online", f"{trace.id}@{k}", history, completion.steps[0], trace.steps[k])
    return pairs


def _is_wrong(history: Trajectory, steps: Sequence[Step]) -> bool:
    return bool(steps) and ArithmeticWorld().first_error(_text_only(history, steps[0])) == len(history.steps)


def _pair(split: str, group: str, history: Trajectory, right: Step, wrong: Step) -> list[Case]:
    cases = []
    for name, step, value in (("right", right, 1.0), ("wrong", wrong, 0.0)):
        trace = replace(_text_only(history, step), id=f"{group}#{name}")
        cases.append(Case(split, trace, Judgement(trace.id, (None,) * len(trace.steps), "reference", value), group))
    return cases


def _text_only(history: Trajectory, step: Step) -> Trajectory:
    """Ids as sampled are left behind: the two steps of a pair may have different writers."""
    steps = tuple(Step(each.text) for each in (*history.steps, step))
    return Trajectory(history.id, history.problem, steps, separator=history.separator)
