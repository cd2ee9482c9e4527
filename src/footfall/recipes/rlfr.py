"""RLFR: Extending Reinforcement Learning for LLMs with Flow Environment (arXiv 2510.10201).

A flow model of the hidden states of right solutions says how far each token deviates; the largest deviations cost:

    A_t = standardised R − c Σ_{s≥t} s̃_s,     s̃: deviations brought to [0, 1] in a completion, the largest above 0.6

What differs: The policy is a table over kinds of operations (`footfall.lab.shared.tables`), the optimizer Adam at one learning
rate for all ways. Hidden states are sums of fixed random vectors of kind, error and step (`footfall.lab.shared.readers`). The
flow is the library's, taught on the training problems' right solutions. c = 0.05 and at most three tokens pay, so that a
completion can pay what the published c = 0.01 and 15 tokens allow, 0.15: a trace has ten tokens and not a thousand.
"""

from __future__ import annotations

from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.readers import FlowReader
from footfall.lab.shared.tables import outcome_of, train_all, way

RECIPE = Recipe(
    name="rlfr",
    paper="RLFR: Extending Reinforcement Learning for LLMs with Flow Environment",
    arxiv="2510.10201", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems; hidden states are random vectors of 16 numbers.",
    claims=(
        Claim("Flow rewards beside the outcome end at a higher accuracy than the outcome alone.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="RLFR",
            beside=("RLFR, as published",),
            stand_in="The paper trains language models and reads their hidden states; here the policy is a table, so that "
            "accuracy is exact, and a token's hidden state is a random vector.",
        ),
        Claim("They learn faster than the outcome alone.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="GRPO, along", method="RLFR, along",
            beside=("RLFR, as published, along",),
            stand_in="The paper trains language models and reads their hidden states; here the policy is a table, so that "
            "accuracy is exact, and a token's hidden state is a random vector.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    flows = {"RLFR": way("rlfr", coef=0.05, top=3), "RLFR, as published": way("rlfr")}
    ways = {name: replace(each, reader=FlowReader) for name, each in flows.items()}
    return outcome_of(train_all(trial, {"GRPO": way("grpo"), **ways}))
