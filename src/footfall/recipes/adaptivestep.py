"""AdaptiveStep: Automatically Dividing Reasoning Step through Model Confidence (Liu et al., arXiv 2502.13943).

End a step behind each token that the writer was unsure of, instead of at each line, and label the steps by rollouts:

    c_i = p(token_i | tokens before it) < τ,  τ = the quantile with 2% of all tokens below it
    label_k = 1[ any of 8 completions of the first k steps is right ]

Fewer steps, put where something was decided, cost fewer rollouts; at equal cost more traces can be labelled. The PRM then
guides greedy decoding token by token (TVD): where the likeliest token has less than a threshold, the best valued of 8 is
taken.

What differs: writer, completer and PRM backbone are the lab's model. The PRMs of both cuts get labels for the same number
of generated tokens, 400 line-cut traces and as many confidence-cut ones as those pay for, and are trained with the same
number of updates. Under τ greedy decoding of so small a writer is
hardly ever guided, so it is guided below the quantile with 5% of all tokens below it. Best-of-8 goes by the
lowest step value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import best_of_n
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import draw_traces
from footfall.policy.torch_policy import AnyCut
from footfall.reward.judge import step_head
from footfall.search.vgs import guided_solution
from footfall.segment import confidence, confidence_threshold
from footfall.segment.tokens import recut
from footfall.types import Cost, Judged, Trajectory

RECIPE = Recipe(
    name="adaptivestep",
    paper="AdaptiveStep: Automatically Dividing Reasoning Step through Model Confidence",
    arxiv="2502.13943",
    year=2025,
    stage="segment",
    world="arithmetic",
    scale="The lab's model (9.5M parameters) as policy, completer and PRM backbone; a seed has 400 training traces cut at "
    "lines and 1,000 held-out problems with 8 solutions each; 200 of them are decoded under guidance, 50 by lines.",
    claims=(
        Claim(
            "Token-level decoding guided by its PRM beats greedy decoding.",
            metric="accuracy of one solution",
            direction="higher", baseline="greedy", method="guided by confidence steps", beside=("guided by lines",),
        ),
        Claim(
            "At equal labelling cost a PRM on confidence steps is better than one on lines.",
            metric="accuracy of best-of-8",
            direction="higher", baseline="lines", method="confidence steps",
            beside=("lines, soft labels", "confidence steps, soft labels", "first solution"),
        ),
        Claim(
            "Steps cut by confidence cost less to label than lines (the paper: under 70%).",
            metric="generated tokens to label a trace",
            direction="lower", baseline="tokens for lines", method="tokens for confidence steps",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-N and guided decoding by PRMs on lines and on confidence steps, labelled for the same tokens."""
    trial = prms.large(trial)
    policy, traces, pool = prms.policy(trial), prms.training_traces(trial), prms.pool(trial)
    logprobs = [p for trace in traces for step in trace.steps for p in step.logprobs or ()]
    cut = confidence(confidence_threshold(logprobs, share=0.02))
    unsure_below = confidence_threshold(logprobs, share=0.05)
    first, n = trial.size(400, 4), trial.size(8, 2)
    lines = _labelled(MonteCarlo(policy, n, params=prms.params(trial)), traces, first)
    unsure = [recut(trace, cut, policy.tokenizer) for trace in traces]
    budget = sum(_tokens(lines))
    steps = _labelled(MonteCarlo(AnyCut(policy), n, params=prms.params(trial)), unsure, first, budget)
    paid = [row for row, spent in zip(steps, accumulate(_tokens(steps)), strict=True) if spent <= budget]
    tops = [trace.prefix(0) for trace in pool[:: prms.POOL][: trial.size(200, 1)]]
    greedy = draw_traces(policy, tops, 1, replace(prms.params(trial), temperature=0.0))
    arms: dict[str, list[float]] = {
        "tokens for lines": _tokens(lines), "tokens for confidence steps": _tokens(steps[:first]),
        "greedy": [float(bool(trace.correct)) for (trace,) in greedy],
        "first solution": [float(bool(trace.correct)) for trace in pool[:: prms.POOL]],
    }  # fmt: skip
    unsure_pool = [recut(trace, cut, policy.tokenizer) for trace in pool]
    costs = [t.cost for t in (*traces, *pool)] + [j.cost for _, j in (*lines, *steps) if j is not None]
    for name, trained, solutions in (
        ("lines", prms.train_alike(trial, "adaptivestep-lines", lines, "bce", threshold=0.0), pool),
        ("lines, soft labels", prms.train_alike(trial, "adaptivestep-soft", lines, "soft-bce"), pool),
        ("confidence steps", prms.train_alike(trial, "adaptivestep", paid, "bce", threshold=0.0), unsure_pool),
        ("confidence steps, soft labels", prms.train_alike(trial, "adaptivestep-soft-steps", paid, "soft-bce"), unsure_pool),
    ):  # fmt: skip
        judge = step_head(trained.folder, device=trial.device)
        said = judge.judge(solutions)
        arms[name] = best_of_n(solutions, said, "min")
        costs += [trained.cost, *(each.cost for each in said)]
        some = tops if name == "confidence steps" else tops[: trial.size(50, 1)]
        guided = [guided_solution(policy, judge.model, top, unsure_below, max_tokens=200) for top in some]
        arms[f"guided by {name}"] = [float(bool(trace.correct)) for trace in guided]
    return Outcome(arms, Cost.total(costs))


def _labelled(labeller: MonteCarlo, traces: Sequence[Trajectory], first: int, budget: float = 0) -> list[Judged]:
    """The first traces, and then more of them until the budget of generated tokens is spent."""
    rows: list[Judged] = []
    while not rows or (sum(_tokens(rows)) < budget and len(rows) < len(traces)):
        part = traces[len(rows) : len(rows) + (max(1, first // 4) if rows else first)]
        rows += map(Judged, part, labeller.judge(part))
    return rows


def _tokens(rows: Sequence[Judged]) -> list[float]:
    return [float(row.judgement.cost.generated_tokens) for row in rows if row.judgement is not None]
