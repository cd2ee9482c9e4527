"""Beam search and lookahead search by a PRM (Snell et al., arXiv 2408.03314).

N partial solutions grow step by step; after each step the PRM's value of the last step ranks them, the best N/M are kept and
copied M times. With lookahead k the value is the one after k greedy steps more.

    with an oracle and D steps, each right with probability p:   beam (1 − (1 − p)^N)^D at N = M,   best-of-N 1 − (1 − p^D)^N

What differs: the policy is scripted, and judges say of each step whether it is right, with none (exact), one in five (fair)
or two in five (bad) of the verdicts flipped, each by itself; a score is the mean of the verdicts, whatever the judge.
Best-of-N chooses among as many samples as the search's tokens buy, problem by problem, rounded up. Both sides pay for what
the policy writes and for what the judge reads (`footfall.lab.shared.searches`). Widths and judges against best-of-N, and
what is claimed of them, were fixed before they were measured. Lookahead has the narrowest beam that takes no fewer tokens on
average; its width was chosen by those.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.lab.shared.searches import AGGREGATION, compared
from footfall.search import BeamSearch
from footfall.types import Cost

RECIPE = Recipe(
    name="beam-search",
    paper="Scaling LLM Test-Time Compute Optimally can be More Effective than Scaling Model Parameters",
    arxiv="2408.03314",
    year=2024,
    stage="search",
    world="arithmetic",
    scale="Scripted policy that gets a step wrong one time in three; N = 4 (M = 2), 8 and 16 (M = 4); step verdicts of which "
    "none (exact), 20% (fair) or 40% (bad) are flipped, folded by their mean; 350 problems a seed. Equal tokens: those that "
    "the policy writes and those that the judge reads, counted on both sides.",
    claims=(
        Claim(
            "Beam search beats best-of-N at equal tokens if the judge is exact and keeps what it has read.",
            metric="accuracy, mean over N = 4, 8, 16; tokens written by the policy and read by the judge, every new step once",
            direction="higher", baseline="best-of-N, exact judge", method="beam search, exact judge",
            beside=(
                "single sample",
                "best-of-N, N = 4, exact judge", "best-of-N, N = 8, exact judge", "best-of-N, N = 16, exact judge",
                "beam search, N = 4, exact judge", "beam search, N = 8, exact judge", "beam search, N = 16, exact judge",
            ),
            stand_in="The paper's judge is a trained PRM; here it is the truth of the steps, so that no error of the "
            "judge is mixed in.",
        ),
        Claim(
            "Beam search beats best-of-N at equal tokens if the judge is exact and re-reads each trace.",
            metric="accuracy, mean over N = 4, 8, 16; tokens written by the policy and read by the judge, the problem and the "
            "whole trace at every judgement",
            direction="higher", baseline="best-of-N, exact judge, re-reading", method="beam search, exact judge, re-reading",
            beside=(
                "best-of-N, N = 4, exact judge, re-reading",
                "best-of-N, N = 8, exact judge, re-reading",
                "best-of-N, N = 16, exact judge, re-reading",
                "beam search, N = 4, exact judge, re-reading",
                "beam search, N = 8, exact judge, re-reading",
                "beam search, N = 16, exact judge, re-reading",
            ),
        ),
        Claim(
            "With a bad judge its lead over best-of-N shrinks.",
            metric="accuracy of beam search minus best-of-N, mean over N = 4, 8, 16; tokens written by the policy and read by "
            "the judge, every new step once",
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
            direction="higher", baseline="beam search, bad judge", method="best-of-N, bad judge",
            beside=(
                "beam search, N = 4, bad judge", "beam search, N = 8, bad judge", "beam search, N = 16, bad judge",
                "best-of-N, N = 4, bad judge", "best-of-N, N = 8, bad judge", "best-of-N, N = 16, bad judge",
            ),
            margin=-0.02,
        ),
        Claim(
            "Lookahead is not worth its tokens: a wider beam that takes no more is better.",
            metric="accuracy, exact judge, N = 8 (M = 4) against N = 5 (M = 2) with lookahead 1; tokens written and read",
            direction="higher", baseline="lookahead, narrower", method="beam search, N = 8, exact judge",
        ),
        Claim(
            "Beam search collapses to few distinct solutions.",
            metric="different first steps among the finished solutions, exact judge, N = 8", direction="lower",
            baseline="openings, best-of-N", method="openings, beam search",
        ),
        Claim(
            "Beam search with a trained PRM beats a weighted vote of as many generated tokens, on GSM8K test.",
            metric="accuracy at equal generated tokens", direction="higher",
            baseline="weighted vote of its tokens", method="search", tier="real",
        ),
        Claim(
            "Beam search with a trained PRM beats a weighted vote of as many generated tokens, on MATH-500.",
            metric="accuracy at equal generated tokens", direction="higher",
            baseline="weighted vote of its tokens", method="search", tier="real",
        ),
    ),
)  # fmt: skip
N = 8


def measure(trial: Trial) -> Outcome:
    """Beam search against best-of-N by judge and width; lookahead, tokens and different first steps beside."""
    given = searches.problems(trial, trial.size(350, 4))
    grid = compared(trial, "beam search", lambda n, m: BeamSearch(n, m, AGGREGATION), given)
    beams = grid.found["exact judge", N]
    judge = searches.priced(searches.flipped(trial, 0.0), {})
    ahead = searches.searched(trial, BeamSearch(5, 2, AGGREGATION, lookahead=1), judge, given)
    arms = {
        **grid.arms,
        "single sample": searches.single(grid.samples),
        "lookahead, narrower": searches.right(ahead),
        "tokens, lookahead": searches.tokens(ahead),
        "openings, beam search": searches.distinct_openings(beams),
        "openings, best-of-N": searches.distinct_openings(grid.samples, N),
    }
    return Outcome(arms, grid.cost + Cost.total(r.cost for r in ahead))
