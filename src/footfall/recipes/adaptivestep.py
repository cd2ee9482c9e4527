"""AdaptiveStep: Automatically Dividing Reasoning Step through Model Confidence (Liu et al., arXiv 2502.13943).

End a step behind each token that the writer was unsure of, instead of at each line, and label the steps by rollouts:

    c_i = p(token_i | tokens before it) < τ,  τ = the quantile with 2% of all tokens below it
    label_k = 1[ any of 8 completions of the first k steps is right ]

Fewer steps, put where something was decided, cost fewer rollouts; at equal cost more traces can be labelled.

What differs: writer, completer and PRM backbone are the embedded model. The PRMs of both cuts get labels for the same number of
generated tokens and are compared by best-of-8 with the lowest step value. Training is on a hundred line-cut traces and as
many confidence-cut ones as the same tokens pay for. Value-guided decoding is not part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.embedded import embedded
from footfall.policy.torch_policy import AnyCut
from footfall.reward.judge import step_head
from footfall.search import aggregate, best
from footfall.segment import confidence, confidence_threshold
from footfall.segment.tokens import recut
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judged, Trajectory

RECIPE = Recipe(
    name="adaptivestep",
    paper="AdaptiveStep: Automatically Dividing Reasoning Step through Model Confidence",
    arxiv="2502.13943",
    year=2025,
    stage="segment",
    world="arithmetic",
    scale="Embedded Llama of 1.1M parameters as policy, completer and PRM backbone; a seed has 100 training traces cut at "
    "lines and 100 held-out problems with 8 solutions each.",
    claims=(
        Claim(
            "At equal labelling cost a PRM on confidence steps is better than one on lines.",
            metric="accuracy of best-of-8",
            direction="higher", baseline="lines", method="confidence steps", beside=("first solution", "any solution"),
            caveat="More traces for the same tokens gave the PRM on confidence steps 2.25 times the updates.",
            stand_in="The paper's first figure is token-level value-guided decoding; here its PRM chooses among "
            "whole solutions.",
        ),
        Claim(
            "Steps cut by confidence cost less to label than lines (the paper: under 70%).",
            metric="generated tokens to label a trace",
            direction="lower", baseline="tokens for lines", method="tokens for confidence steps",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-N by PRMs on lines and on confidence steps, labelled for the same tokens."""
    policy, traces, pool = embedded(), prms.training_traces(trial), prms.pool(trial)
    logprobs = (p for trace in traces for step in trace.steps for p in step.logprobs or ())
    cut = confidence(confidence_threshold(logprobs, share=0.02))
    first, n = trial.size(100, 4), trial.size(8, 2)
    lines = _labelled(MonteCarlo(policy, n, "hard", params=prms.params(trial)), traces, first)
    unsure = [recut(trace, cut, policy.tokenizer) for trace in traces]
    budget = sum(_tokens(lines))
    steps = _labelled(MonteCarlo(AnyCut(policy), n, "hard", params=prms.params(trial)), unsure, first, budget)
    of_lines, train_lines = _chosen(trial, "lines", lines, pool)
    of_steps, train_steps = _chosen(trial, "confidence", steps, [recut(t, cut, policy.tokenizer) for t in pool])
    by_problem = [pool[at : at + prms.POOL] for at in range(0, len(pool), prms.POOL)]
    arms = {
        "tokens for lines": _tokens(lines), "tokens for confidence steps": _tokens(steps[:first]),
        "lines": of_lines, "confidence steps": of_steps,
        "first solution": [float(bool(row[0].correct)) for row in by_problem],
        "any solution": [float(any(t.correct for t in row)) for row in by_problem],
    }  # fmt: skip
    labels = [row.judgement.cost for row in (*lines, *steps) if row.judgement is not None]
    return Outcome(arms, Cost.total([*(t.cost for t in (*traces, *pool)), *labels, train_lines, train_steps]))


def _labelled(labeller: MonteCarlo, traces: Sequence[Trajectory], first: int, budget: float = 0) -> list[Judged]:
    """The first traces, and then more of them until the budget of generated tokens is spent."""
    rows: list[Judged] = []
    while not rows or (sum(_tokens(rows)) < budget and len(rows) < len(traces)):
        part = traces[len(rows) : len(rows) + (max(1, first // 4) if rows else first)]
        rows += map(Judged, part, labeller.judge(part))
    return rows


def _tokens(rows: Sequence[Judged]) -> list[float]:
    return [float(row.judgement.cost.generated_tokens) for row in rows if row.judgement is not None]


def _chosen(trial: Trial, name: str, rows: list[Judged], pool: Sequence[Trajectory]) -> tuple[list[float], Cost]:
    """Whether the solution that a PRM on these rows likes best is right, problem by problem."""
    config = TrainConfig(lr=3e-4, epochs=trial.size(2, 1), eval_share=0.0, seed=trial.seed, device="cpu")
    trained = prms.train(trial, f"adaptivestep-{name}", rows, config)
    said = step_head(trained.folder, device="cpu").judge(pool)
    scores = [aggregate(each.values, "min") for each in said]
    found = [(at, best(scores[at : at + prms.POOL])) for at in range(0, len(pool), prms.POOL)]
    right = [float(k is not None and bool(pool[at + k].correct)) for at, k in found]
    return right, trained.cost + Cost.total(each.cost for each in said)
