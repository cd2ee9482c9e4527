"""Beam search and lookahead search by a PRM (Snell et al., arXiv 2408.03314).

N partial solutions grow step by step; after each step the PRM's value of the last step ranks them, the best N/M are kept and
copied M times. With lookahead k the value is the one after k greedy steps more.

    with an oracle and D steps, each right with probability p:   beam (1 − (1 − p)^N)^D at N = M,   best-of-N 1 − (1 − p^D)^N

What differs: the policy is scripted and the judges have a known quality: the exact value of each prefix, and the truth of each
step with two verdicts in five flipped, each by itself. Values are folded by `last`, verdicts by `mean`, so that best-of-N too
goes by all verdicts and not by one; with `last` it is shown beside. Best-of-N chooses among as many samples as the search's
tokens buy, problem by problem; judging is free on both sides. Lookahead is given half the width, which makes its tokens about
equal.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.search import Aggregation, BeamSearch
from footfall.types import Cost, Judge
from footfall.worlds import ExactValueJudge

RECIPE = Recipe(
    name="beam-search",
    paper="Scaling LLM Test-Time Compute Optimally can be More Effective than Scaling Model Parameters",
    arxiv="2408.03314",
    year=2024,
    stage="search",
    world="arithmetic",
    scale="Scripted policy that gets a step wrong one time in three; N = 8, M = 4; 60 problems a seed. Exact values, or step "
    "verdicts of which 40% are flipped.",
    claims=(
        Claim(
            "Beam search beats best-of-N at equal tokens if the judge is good.",
            metric="accuracy", direction="higher",
            baseline="best-of-N, exact judge", method="beam search, exact judge", beside=("single sample",),
        ),
        Claim(
            "With a bad judge it loses its lead over best-of-N.",
            metric="accuracy of beam search minus best-of-N", direction="lower",
            baseline="lead, exact judge", method="lead, bad judge",
        ),
        Claim(
            "With a bad judge best-of-N is no worse.",
            metric="accuracy", direction="higher", margin=-0.03,
            baseline="beam search, bad judge", method="best-of-N, bad judge", beside=("best-of-N by the last verdict",),
        ),
        Claim(
            "Lookahead is not worth its tokens: a beam of twice the width is better.",
            metric="accuracy, exact judge", direction="higher",
            baseline="lookahead, half the width", method="beam search, exact judge",
        ),
        Claim(
            "Beam search collapses to few distinct solutions.",
            metric="different first steps among the N finished solutions", direction="lower",
            baseline="openings, best-of-N", method="openings, beam search",
        ),
    ),
)  # fmt: skip
N, M = 8, 4


def measure(trial: Trial) -> Outcome:
    given = searches.problems(trial, trial.size(60, 6))
    samples = searches.drawn(trial, 4 * N, given)
    exact, bad = ExactValueJudge(searches.WRITER), searches.flipped(trial, 0.4)
    judged: dict[str, tuple[Judge, Aggregation]] = {"exact judge": (exact, "last"), "bad judge": (bad, "mean")}
    arms: dict[str, list[float]] = {"single sample": searches.single(samples)}
    cost = Cost.total(r.cost for r in samples)
    for name, (judge, fold) in judged.items():
        beams = searches.searched(trial, BeamSearch(N, M, fold), judge, given)
        arms[f"beam search, {name}"] = searches.right(beams)
        arms[f"best-of-N, {name}"] = searches.best_of_n(samples, judge, searches.tokens(beams), fold)
        arms[f"lead, {name}"] = [
            b - p for b, p in zip(arms[f"beam search, {name}"], arms[f"best-of-N, {name}"], strict=True)
        ]
        if judge is bad:
            arms["best-of-N by the last verdict"] = searches.best_of_n(samples, judge, searches.tokens(beams))
        else:
            arms["openings, beam search"] = searches.distinct_openings(beams)
            arms["tokens, beam search"] = searches.tokens(beams)
        cost += Cost.total(r.cost for r in beams)
    ahead = searches.searched(trial, BeamSearch(N // 2, M // 2, lookahead=1), exact, given)
    arms["lookahead, half the width"] = searches.right(ahead)
    arms["tokens, lookahead"] = searches.tokens(ahead)
    arms["openings, best-of-N"] = searches.distinct_openings(samples, N)
    return Outcome(arms, cost + Cost.total(r.cost for r in ahead))
