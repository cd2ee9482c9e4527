"""BiRM: Better Process Supervision with Bi-directional Rewarding Signals (Chen et al., arXiv 2503.04618).

What lies behind and what lies ahead, as in A*: a reward R of each step and a value V of success rank prefixes,

    score(s_1..s_t) = V_t + beta · mean(R_1..R_t)

What differs: nothing is trained (the objective `value-and-reward` trains both heads). R is the truth of each step, V
whether the exact value is at least one half, each with one verdict in four flipped, independently: two heads of equal
quality. The paper's PRM is R alone (its mean), its ORM is V alone. The policy is scripted and recovers from an error three
times in ten, so that a wrong step is not the end. beta is 1 for best-of-N (middle of the paper's range) and 3 for beam
search (its value for MATH), not tuned. Best-of-N chooses among the same samples, beam searches have the same width.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.policy.protocol import SamplingParams
from footfall.search import BiRM, Searcher, choose
from footfall.search.birm import both_ways
from footfall.simulate import Noisy
from footfall.types import Cost, SearchResult, Trajectory
from footfall.worlds import ArithmeticPolicy, ExactValueJudge, OpRates, TruthJudge

RECIPE = Recipe(
    name="birm",
    paper="Better Process Supervision with Bi-directional Rewarding Signals",
    arxiv="2503.04618",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="Scripted policy; judges that are wrong about one step in four; best of 8, beam search with 8 candidates and 2 "
    "beams; 400 problems a seed.",
    claims=(
        Claim(
            "In best-of-N, both signals beat the PRM alone.",
            metric="accuracy, best of 8", direction="higher",
            baseline="PRM alone, best of 8", method="BiRM, best of 8", beside=("single sample",),
            stand_in="The paper trains a PRM and a value head; here both signals are the truth read through noise of "
            "a known rate.",
        ),
        Claim(
            "In best-of-N, both signals beat the ORM alone.",
            metric="accuracy, best of 8", direction="higher",
            baseline="ORM alone, best of 8", method="BiRM, best of 8",
        ),
        Claim(
            "In beam search, both signals beat the PRM alone.",
            metric="accuracy, beam search", direction="higher",
            baseline="PRM alone, beam search", method="BiRM, beam search",
        ),
        Claim(
            "In beam search, both signals beat the ORM alone.",
            metric="accuracy, beam search", direction="higher",
            baseline="ORM alone, beam search", method="BiRM, beam search",
        ),
    ),
)  # fmt: skip
POLICY = ArithmeticPolicy(OpRates(0.3, 0.3, 0.45, 0.45), recover=0.3)
ALONE = 1e6
"""A beta beside which the value does not count."""
BETAS = {"BiRM": (1.0, 3.0), "PRM alone": (ALONE, ALONE), "ORM alone": (0.0, 0.0)}


def measure(trial: Trial) -> Outcome:
    """Best-of-8 and beam search by V + β·R, for each β."""
    given = searches.problems(trial, trial.size(400, 3))
    samples = searches.drawn(trial, trial.size(8, 4), given, POLICY)
    ahead = Noisy(ExactValueJudge(POLICY), 0.25, 0.25, seed=2 * trial.seed)
    behind = Noisy(TruthJudge(), 0.25, 0.25, seed=2 * trial.seed + 1)
    arms = {"single sample": searches.single(samples)}
    cost = Cost.total(r.cost for r in samples)
    read = [(r, ahead.judge(_traces(r)), behind.judge(_traces(r))) for r in samples]
    for name, (beta, beta_beam) in BETAS.items():
        picked = [
            choose(_traces(r), [both_ways(v.values, s.values, beta) for v, s in zip(vs, ss, strict=True)], "best")
            for r, vs, ss in read
        ]
        arms[f"{name}, best of 8"] = [float(bool(trace and trace.correct)) for trace in picked]
        params = SamplingParams(max_tokens=200, seed=trial.seed)
        method = BiRM(8, 2, beta_beam, reward="steps")
        found = Searcher(POLICY, ahead, method, params=params, separator="\n", judges={"steps": behind}).solve(given)
        arms[f"{name}, beam search"] = searches.right(found)
        cost += Cost.total(r.cost for r in found)
    return Outcome(arms, cost)


def _traces(result: SearchResult) -> list[Trajectory]:
    return [trace for trace, _ in result.candidates]
