"""Let's Sample Step by Step: Adaptive-Consistency for Efficient Reasoning and Coding (Aggarwal et al., arXiv 2305.11860).

The majority vote of self-consistency (Wang et al., 2203.11171), a batch at a time; with v₁ votes for the leader and v₂ for
the next answer it stops as soon as

    P(share₁ > share₂ | v₁, v₂) = I_{1/2}(v₂ + 1, v₁ + 1) ≥ 0.95

What differs: scripted arithmetic, and batches of four, where the paper looks after every sample. The policy is right
three times in five, as the paper's models are; the arm "hard" has one that errs one step in three, whose votes are divided. Two
other rules stand beside: `certain` stops when nothing can change the vote any more, `window` when the last four answers are
equal (2401.10480). All arms of a policy see the same samples in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.policy.protocol import Policy
from footfall.search import Method, SelfConsistency
from footfall.search.self_consistency import Stop
from footfall.types import Cost, Problem
from footfall.worlds import ArithmeticPolicy

RECIPE = Recipe(
    name="self-consistency",
    paper="Let's Sample Step by Step: Adaptive-Consistency for Efficient Reasoning and Coding with LLMs",
    arxiv="2305.11860",
    year=2023,
    stage="search",
    world="arithmetic",
    scale="Scripted policy whose samples are right three times in five; at most 40 samples; 100 problems a seed.",
    claims=(
        Claim(
            "Stopping early loses no accuracy against all 40 votes (at most one point).",
            metric="accuracy", direction="higher", baseline="all votes", method="adaptive", margin=-0.01,
            beside=("single sample", "certain", "window", "all votes, hard", "adaptive, hard"),
        ),
        Claim(
            "It needs less than half of the tokens.",
            metric="generated tokens, as a share of all 40 samples' on the same problem", direction="lower",
            baseline="all votes, tokens", method="adaptive, tokens", margin=0.5,
            beside=("certain, tokens", "window, tokens", "adaptive, hard, tokens"),
        ),
        Claim(
            "Stopping early loses no accuracy against all 16 votes (at most one point), on GSM8K test.",
            metric="accuracy", direction="higher", baseline="all votes", method="adaptive", margin=-0.01, tier="real",
        ),
        Claim(
            "Stopping early loses no accuracy against all 16 votes (at most one point), on MATH-500.",
            metric="accuracy", direction="higher", baseline="all votes", method="adaptive", margin=-0.01, tier="real",
        ),
        Claim(
            "It needs less than half of the tokens, on GSM8K test.",
            metric="generated tokens, as a share of all 16 samples' on the same problem", direction="lower",
            baseline="all votes, tokens", method="adaptive, tokens", margin=0.5, tier="real",
        ),
        Claim(
            "It needs less than half of the tokens, on MATH-500.",
            metric="generated tokens, as a share of all 16 samples' on the same problem", direction="lower",
            baseline="all votes, tokens", method="adaptive, tokens", margin=0.5, tier="real",
        ),
    ),
)  # fmt: skip
N = 40
STOPS: tuple[Stop, ...] = ("beta", "certain", "window")


def measure(trial: Trial) -> Outcome:
    """Accuracy and samples of votes that stop early, for an able and a weak writer."""
    given = searches.problems(trial, trial.size(100, 5))
    adaptive, certain, window = (SelfConsistency(N, stop=stop) for stop in STOPS)
    methods = {"adaptive": adaptive, "certain": certain, "window": window}
    arms, spent = _arms(trial, ArithmeticPolicy(), given, methods)
    hard, more = _arms(trial, searches.WRITER, given, {"adaptive": adaptive}, ", hard")
    return Outcome(arms | hard, spent + more)


def _arms(
    trial: Trial, policy: Policy, given: Sequence[Problem], methods: Mapping[str, Method], note: str = ""
) -> tuple[dict[str, list[float]], Cost]:
    """Right answers and tokens of each method and of all votes, and what was spent."""
    votes = searches.drawn(trial, N, given, policy)
    found = {"all votes": votes} | {
        name: searches.searched(trial, m, None, given, policy) for name, m in methods.items()
    }
    arms = {f"single sample{note}": searches.single(votes)}
    for name, results in found.items():
        paid = zip(searches.tokens(results), searches.tokens(votes), strict=True)
        arms |= {
            f"{name}{note}": searches.right(results),
            f"{name}{note}, tokens": [part / whole for part, whole in paid],
        }
    return arms, Cost.total(r.cost for results in found.values() for r in results)
