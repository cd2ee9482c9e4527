"""DVTS: Diverse Verifier Tree Search (Beeching, Tunstall and Rush, "Scaling test-time compute with open models", 2024).

The budget N is split into N/M subtrees that never compete; each goes on with the best of M sampled steps by the PRM:

    with an oracle and D steps, each right with probability p:  S = (1 − (1 − p)^M)^D a subtree,  1 − (1 − S)^(N/M) one of them

What differs: the policy is scripted and the judges have a known quality: the exact value of each prefix, and the truth of each
step with one verdict in five (fair) or two in five (bad) flipped, each by itself. Values are folded by `last`, verdicts by
`mean`, so that best-of-N too goes by all verdicts and not by one. Best-of-N chooses among as many samples as the search's
tokens buy, problem by problem; judging is free on both sides.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.search import DVTS, Aggregation, BeamSearch, Method
from footfall.types import Cost, Judge
from footfall.worlds import ExactValueJudge

RECIPE = Recipe(
    name="dvts",
    paper="Scaling test-time compute with open models",
    arxiv=None,
    year=2024,
    stage="search",
    world="arithmetic",
    scale="Scripted policy that gets a step wrong one time in three; N = 8 with M = 4 against best-of-N, N = 16 against beam "
    "search; 40 problems a seed. Exact values, or step verdicts of which 20% (fair) or 40% (bad) are flipped.",
    claims=(
        Claim(
            "DVTS beats best-of-N at equal tokens if the judge is good.",
            metric="accuracy, N = 8", direction="higher",
            baseline="best-of-N, exact judge", method="DVTS, exact judge", beside=("single sample",),
        ),
        Claim(
            "With a bad judge it loses its lead over best-of-N.",
            metric="accuracy of DVTS minus best-of-N, N = 8", direction="lower",
            baseline="lead, exact judge", method="lead, bad judge",
        ),
        Claim(
            "With a bad judge best-of-N is no worse.",
            metric="accuracy, N = 8", direction="higher", margin=-0.03,
            baseline="DVTS, bad judge", method="best-of-N, bad judge",
        ),
        Claim(
            "At larger N, DVTS is ahead of beam search with a judge that is neither perfect nor bad.",
            metric="accuracy, N = 16, weighted vote", direction="higher",
            baseline="beam search, fair judge", method="DVTS, fair judge",
        ),
        Claim(
            "Its solutions are more diverse than those of beam search.",
            metric="different first steps among the finished solutions, N = 16", direction="higher",
            baseline="openings, beam search", method="openings, DVTS",
        ),
    ),
)  # fmt: skip
N, M = 8, 4


def measure(trial: Trial) -> Outcome:
    given = searches.problems(trial, trial.size(40, 5))
    samples = searches.drawn(trial, 4 * N, given)
    arms: dict[str, list[float]] = {"single sample": searches.single(samples)}
    cost = Cost.total(r.cost for r in samples)
    exact, bad = ExactValueJudge(searches.WRITER), searches.flipped(trial, 0.4)
    judged: dict[str, tuple[Judge, Aggregation]] = {"exact judge": (exact, "last"), "bad judge": (bad, "mean")}
    for name, (judge, fold) in judged.items():
        trees = searches.searched(trial, DVTS(N, M, fold), judge, given)
        arms[f"DVTS, {name}"] = searches.right(trees)
        arms[f"best-of-N, {name}"] = searches.best_of_n(samples, judge, searches.tokens(trees), fold)
        arms[f"lead, {name}"] = [d - p for d, p in zip(arms[f"DVTS, {name}"], arms[f"best-of-N, {name}"], strict=True)]
        cost += Cost.total(r.cost for r in trees)
    wide: dict[str, Method] = {
        "DVTS": DVTS(2 * N, M, "mean", "weighted"), "beam search": BeamSearch(2 * N, M, "mean", "weighted")
    }  # fmt: skip
    for name, method in wide.items():
        found = searches.searched(trial, method, searches.flipped(trial, 0.2), given)
        arms[f"{name}, fair judge"] = searches.right(found)
        arms[f"openings, {name}"] = searches.distinct_openings(found)
        arms[f"tokens, {name}"] = searches.tokens(found)
        cost += Cost.total(r.cost for r in found)
    return Outcome(arms, cost)
