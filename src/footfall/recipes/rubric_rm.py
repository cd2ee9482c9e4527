"""Curing Miracle Steps in LLM Mathematical Reasoning with Rubric Rewards.

A solution is graded by checkpoints of its problem, of which the answer is one of small worth, and RL pays the grade:

    R = (points earned) / 10          instead of          R = 1 if the answer is right

What differs: The policy is a table over kinds of operations (`footfall.lab.shared.tables`). In training an answer that is given
before all is done, with no error standing, is right, as one that a model remembers is: a miracle step. The rubric has a
checkpoint for every operation, 8 points in all, and 2 for the answer; points are read off the states, without error. Held-out
problems count as solved only if the answer is derived (verified pass@1). How well a model writes rubrics or grades by them is
not measured.
"""

from __future__ import annotations

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import Learned, outcome_of, train_all, way
from footfall.rl.exact import STOP, Chain, Trace, expected
from footfall.rl.groups import Floats, Rollout

RECIPE = Recipe(
    name="rubric-rm",
    paper='Curing "Miracle Steps" in LLM Mathematical Reasoning with Rubric Rewards',
    arxiv=None, year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Trained on rubric grades, a policy solves more problems by a derivation than trained on answers.",
            metric="verified pass@1 after the last update", direction="higher",
            baseline="answers", method="rubric", beside=("before",),
            stand_in="The paper's figure is verified pass@1024 of language models on AIME; here the policy is a table, an "
            "early answer stands for a remembered one, and accuracy is exact.",
        ),
        Claim("Its answers come out of nowhere less often.",
            metric="share of traces that answer before all is done, with no error standing", direction="lower",
            baseline="miracles, answers", method="miracles, rubric",
            stand_in="The policy is a table, and an early answer stands for a remembered one.",
        ),
    ),
)  # fmt: skip
ANSWER = 0.2
"""Share of the points that the answer is worth."""


def _progress(trace: Trace) -> tuple[int, bool, bool]:
    """Operations done when the trace ends, whether an error stands then, and whether it gives an answer."""
    last = int(trace.states[-1])
    return last // 2, bool(last % 2), int(trace.actions[-1]) == STOP


def answer_reward(trace: Trace, made: Rollout, chain: Chain) -> float:
    """1 for an answer while no error stands, derived or not."""
    _, error, answers = _progress(trace)
    return float(answers and not error)


def rubric_reward(trace: Trace, made: Rollout, chain: Chain) -> float:
    """0.8 of the operations done while no error stands, and 0.2 for the answer."""
    done, error, answers = _progress(trace)
    return 0.0 if error else (1 - ANSWER) * done / chain.depth + ANSWER * answers


def miracles(chain: Chain) -> Floats:
    """(S, A) gain whose sum over a trace is 1 if it answers before all is done, with no error standing."""
    gain = np.zeros((chain.states, 4))
    gain[: 2 * chain.depth : 2, STOP] = 1
    return gain


def _share(run: Learned) -> float:
    logits = np.stack([run.policy.logits(kinds) for kinds in run.problems[1]])
    return float(np.mean(expected(run.chain, logits, miracles(run.chain))))


def measure(trial: Trial) -> Outcome:
    """Verified accuracy and miracles under each reward, on the same policies and problems."""
    ways = {"answers": way("grpo", worth=answer_reward), "rubric": way("grpo", worth=rubric_reward)}
    trained = train_all(trial, ways)
    shares = {f"miracles, {name}": [_share(run) for run in runs] for name, runs in trained.items()}
    return outcome_of(trained, **shares)
