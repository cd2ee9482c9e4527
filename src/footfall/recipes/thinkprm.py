"""ThinkPRM: Process Reward Models That Think (Khalifa et al., arXiv 2504.16828).

Verification chains are kept for training iff every verdict is the step's label (process filter), and not merely the verdict on
the whole (outcome filter). Labels may be Monte Carlo estimates:

    kept  iff  verdicts = labels, one by one, up to the first wrong step or for all

What differs: the paper trains reasoning models on what each filter keeps; here the kept chains themselves are compared with the
truth. The teacher is simulated: the truth with one verdict in ten flipped, four chains a solution, each up to its first wrong
step. Labels are those of 8 Monte Carlo rollouts a prefix (any success is right); the outcome filter knows the answer's. Beside
them stand the success rates of the same rollouts, cut at one half.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import known, spent
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.reward.generative.chains import agrees, gold_of
from footfall.simulate import Noisy
from footfall.types import Cost

RECIPE = Recipe(
    name="thinkprm",
    paper="Process Reward Models That Think",
    arxiv="2504.16828",
    year=2025,
    stage="data",
    world="arithmetic, algebra, code",
    scale="100 traces of each world a seed, right and wrong ones, four simulated chains of each.",
    claims=(
        Claim(
            "Chains that the process filter keeps have true verdicts throughout more often than those of the outcome filter.",
            metric="share of kept chains whose every verdict is true", direction="higher",
            baseline="outcome filter", method="process filter", beside=("process filter, cut at one half", "all chains"),
            stand_in="The paper's figure is the F1 of models trained on what each filter keeps; here the kept chains are "
            "compared with the truth, and the teacher is simulated.",
        ),
        Claim(
            "Monte Carlo labels keep chains that are as true as those that the truth itself keeps, within 5 points.",
            metric="share of kept chains whose every verdict is true", direction="higher",
            baseline="process filter, true labels", method="process filter", margin=-0.05,
            beside=("process filter, cut at one half",),
            stand_in="The paper trains on human and on Monte Carlo labels; here what each keeps is compared, and what the "
            "truth keeps is true by construction.",
        ),
    ),
)  # fmt: skip
CHAINS, ANY = 4, 1 / 16
"""Below it there was no success in 8 rollouts."""


def measure(trial: Trial) -> Outcome:
    """How many of the chains that each filter keeps are right about every step, and which share is kept."""
    kept, cost, drawn = defaultdict[str, list[float]](list), Cost(), SamplingParams(seed=trial.seed)
    for world in ("arithmetic", "algebra", "code"):
        given = known(trial, world, trial.size(100, 5))
        truths = given.truth.judge(given.traces)
        labels = MonteCarlo(given.policy, 8, params=drawn).judge(given.traces)
        said = [Noisy(given.truth, seed=100 * trial.seed + k, price=64).judge(given.traces) for k in range(CHAINS)]
        for trace, truth, label, *chains in zip(given.traces, truths, labels, *said, strict=True):
            true, gold, half = gold_of(truth.values), gold_of(label.values, ANY), gold_of(label.values)
            for chain in map(gold_of, (each.values for each in chains)):
                right = float(chain == true)
                kept["all chains"].append(right)
                kept["outcome filter"] += [right] * (all(chain) == bool(trace.correct))
                kept["process filter"] += [right] * agrees(chain, gold)
                kept["process filter, cut at one half"] += [right] * agrees(chain, half)
                kept["process filter, true labels"] += [right] * agrees(chain, true)
        cost += spent(labels, *said)
    arms = {name: fmean(values) if values else 0.0 for name, values in kept.items()}
    return Outcome({**arms, "share kept": len(kept["process filter"]) / len(kept["all chains"])}, cost)
