"""DVTS: Diverse Verifier Tree Search (Beeching, Tunstall and Rush, "Scaling test-time compute with open models", 2024).

The budget N is split into N/M subtrees that never compete; each goes on with the best of M sampled steps by the PRM:

    with an oracle and D steps, each right with probability p:  S = (1 − (1 − p)^M)^D a subtree,  1 − (1 − S)^(N/M) one of them

What differs: the policy is scripted, and judges say of each step whether it is right, with none (exact), one in five (fair)
or two in five (bad) of the verdicts flipped, each by itself; a score is the mean of the verdicts, whatever the judge.
Best-of-N chooses among as many samples as the search's tokens buy, problem by problem, rounded up. Both sides pay for what
the policy writes and for what the judge reads (`footfall.lab.shared.searches`). Widths and judges against best-of-N, and
what is claimed of them, were fixed before they were measured. Against beam search N is the same; tokens come out about equal.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.lab.shared.searches import AGGREGATION, compared
from footfall.search import DVTS, BeamSearch
from footfall.types import Cost

RECIPE = Recipe(
    name="dvts",
    paper="Scaling test-time compute with open models",
    arxiv=None,
    year=2024,
    stage="search",
    world="arithmetic",
    scale="Scripted policy that gets a step wrong one time in three; N = 4 (M = 2), 8 and 16 (M = 4); step verdicts of which "
    "none (exact), 20% (fair) or 40% (bad) are flipped, folded by their mean; 60 problems a seed. Equal tokens: those that the "
    "policy writes and those that the judge reads, counted on both sides.",
    claims=(
        Claim(
            "At larger N, DVTS is ahead of beam search with a judge that is neither perfect nor bad.",
            metric="accuracy, N = 16, weighted vote, 20% of the verdicts flipped", direction="higher",
            baseline="beam search, vote", method="DVTS, vote",
            stand_in="The paper's judge is a trained PRM; here it is the truth of the steps, of which one in five is "
            "flipped.",
        ),
        Claim(
            "DVTS beats best-of-N at equal tokens if the judge is exact and keeps what it has read.",
            metric="accuracy, mean over N = 4, 8, 16; tokens written by the policy and read by the judge, every new step once",
            direction="higher", baseline="best-of-N, exact judge", method="DVTS, exact judge",
            beside=(
                "single sample",
                "best-of-N, N = 4, exact judge", "best-of-N, N = 8, exact judge", "best-of-N, N = 16, exact judge",
                "DVTS, N = 4, exact judge", "DVTS, N = 8, exact judge", "DVTS, N = 16, exact judge",
            ),
        ),
        Claim(
            "DVTS beats best-of-N at equal tokens if the judge is exact and re-reads each trace.",
            metric="accuracy, mean over N = 4, 8, 16; tokens written by the policy and read by the judge, the problem and the "
            "whole trace at every judgement",
            direction="higher", baseline="best-of-N, exact judge, re-reading", method="DVTS, exact judge, re-reading",
            beside=(
                "best-of-N, N = 4, exact judge, re-reading",
                "best-of-N, N = 8, exact judge, re-reading",
                "best-of-N, N = 16, exact judge, re-reading",
                "DVTS, N = 4, exact judge, re-reading",
                "DVTS, N = 8, exact judge, re-reading",
                "DVTS, N = 16, exact judge, re-reading",
            ),
        ),
        Claim(
            "With a bad judge its lead over best-of-N shrinks.",
            metric="accuracy of DVTS minus best-of-N, mean over N = 4, 8, 16; tokens written by the policy and read by the "
            "judge, every new step once",
            direction="lower", baseline="lead, exact judge", method="lead, bad judge",
            beside=(
                "lead, fair judge",
                "lead, N = 4, exact judge", "lead, N = 8, exact judge", "lead, N = 16, exact judge",
                "lead, N = 4, fair judge", "lead, N = 8, fair judge", "lead, N = 16, fair judge",
                "lead, N = 4, bad judge", "lead, N = 8, bad judge", "lead, N = 16, bad judge",
                "lead, exact judge, re-reading", "lead, fair judge, re-reading", "lead, bad judge, re-reading",
            ),
        ),
        Claim(
            "With a bad judge its lead over best-of-N is gone: it is 0 or less.",
            metric="accuracy, mean over N = 4, 8, 16; tokens written by the policy and read by the judge, every new step once",
            direction="higher", baseline="DVTS, bad judge", method="best-of-N, bad judge",
            beside=(
                "DVTS, N = 4, bad judge", "DVTS, N = 8, bad judge", "DVTS, N = 16, bad judge",
                "best-of-N, N = 4, bad judge", "best-of-N, N = 8, bad judge", "best-of-N, N = 16, bad judge",
            ),
            margin=-0.02,
        ),
        Claim(
            "Its solutions are more diverse than those of beam search.",
            metric="different first steps among the finished solutions, N = 16", direction="higher",
            baseline="openings, beam search", method="openings, DVTS",
        ),
        Claim(
            "DVTS with a trained PRM beats a weighted vote of as many generated tokens, on GSM8K test.",
            metric="accuracy at equal generated tokens", direction="higher",
            baseline="weighted vote of its tokens", method="search", tier="real",
        ),
        Claim(
            "DVTS with a trained PRM beats a weighted vote of as many generated tokens, on MATH-500.",
            metric="accuracy at equal generated tokens", direction="higher",
            baseline="weighted vote of its tokens", method="search", tier="real",
        ),
    ),
)  # fmt: skip
N, M = 16, 4


def measure(trial: Trial) -> Outcome:
    """DVTS against best-of-N and beam search by judge and width, with tokens and different first steps."""
    given = searches.problems(trial, trial.size(60, 4))
    grid = compared(trial, "DVTS", lambda n, m: DVTS(n, m, AGGREGATION), given)
    trees = grid.found["fair judge", N]
    judge = searches.priced(searches.flipped(trial, 0.2), {})
    beams = searches.searched(trial, BeamSearch(N, M, AGGREGATION), judge, given)
    arms = {**grid.arms, "single sample": searches.single(grid.samples)}
    for name, found in {"DVTS": trees, "beam search": beams}.items():
        arms[f"{name}, vote"] = searches.right(found, "weighted")
        arms[f"openings, {name}"] = searches.distinct_openings(found)
        arms[f"tokens, {name}"] = searches.tokens(found)
    return Outcome(arms, grid.cost + Cost.total(r.cost for r in beams))
