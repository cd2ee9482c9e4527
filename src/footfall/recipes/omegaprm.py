"""OmegaPRM: Improve Mathematical Reasoning in Language Models by Automated Process Supervision (Luo et al., arXiv 2406.06592).

A wrong trace of M steps is searched for its first error by bisection: a prefix is lost if none of its k rollouts is right,
MC = 0, and otherwise the error comes later. That takes at most ⌈log2(M + 1)⌉ · k rollouts, against M · k for every step.
Wrong rollouts that were made on the way are searched too, those with the largest Q + U first, and all of it is one tree.

What differs: the paper cannot know the first error; here it is known, in three worlds. In the code world an error is nearly
always final, as MC = 0 assumes (k = 8, the paper's). In arithmetic (up to 8 steps) the completer takes back one error in
twenty at each step, so a second rule is measured beside it: lost at MC ≤ 0.3, with k = 32. Long traces are arithmetic
of 13 to 17 steps, by a policy that errs and repairs less. The outcome is known, so no method rolls out the last step. Trees
are the paper's, without right rollouts as further leaves, which the public re-implementation keeps; those stand beside.
"""

from __future__ import annotations

from collections import defaultdict

from footfall.drive.trees import tree_of
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import hits, known, spent
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.omegaprm import BinarySearch, OmegaPRM
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.types import Cost

RECIPE = Recipe(
    name="omegaprm",
    paper="Improve Mathematical Reasoning in Language Models by Automated Process Supervision",
    arxiv="2406.06592", year=2024, stage="data", world="arithmetic, code",
    scale="The wrong ones of 80 arithmetic, 40 long arithmetic and 40 code traces a seed by scripted policies, which are "
    "also the completers; trees of 40 arithmetic problems with 100 rollouts each.",
    claims=(
        Claim("A tree that searches its own wrong rollouts labels more steps than Monte Carlo for the same rollouts.",
            metric="labelled steps for 100 rollouts, 8 a prefix", direction="higher",
            baseline="Monte Carlo of fresh traces", method="tree", beside=("tree with right leaves",),
            stand_in="The paper's figure is a weighted vote with a PRM on the trees; here the labels that a budget "
            "of rollouts yields are counted.",
        ),
        Claim("By the published rule, MC = 0, binary search finds the first error as often as rollouts of every step.",
            metric="first-error accuracy, 8 rollouts a prefix", direction="higher", margin=-0.03,
            baseline="every step, MC = 0", method="search, MC = 0", beside=("arithmetic, MC = 0", "code, MC = 0"),
        ),
        Claim("With the cut at MC = 0.3 binary search finds the first error as often as rollouts of every step.",
            metric="first-error accuracy, 32 rollouts a prefix", direction="higher", margin=-0.03,
            baseline="every step, cut", method="search, cut", beside=("arithmetic, cut", "code, cut"),
        ),
        Claim("Binary search needs less than two thirds of the rollouts that labelling every step needs.",
            metric="rollouts a wrong trace, 32 a prefix", direction="lower",
            baseline="two thirds of every step", method="rollouts of search", beside=("rollouts of every step",),
        ),
        Claim("On long traces binary search needs fewer rollouts than going on step by step until the error is found.",
            metric="rollouts a wrong trace, 32 a prefix", direction="lower",
            baseline="long arithmetic, until the error", method="long arithmetic, search",
            beside=("arithmetic, until the error", "arithmetic, search"),
        ),
        Claim("The published rule finds the first error more often with more rollouts.",
            metric="first-error accuracy of binary search, arithmetic", direction="higher",
            baseline="arithmetic, MC = 0", method="arithmetic, MC = 0, 32 rollouts",
        ),
        Claim(
            "At equal tokens a PRM on trees finds first errors better than one on Monte Carlo labels, on ProcessBench.",
            metric="F1 of the first error, mean of four splits", direction="higher",
            baseline="PRM on Monte Carlo", method="PRM on trees", tier="real", threshold="other data",
        ),
    ),
)  # fmt: skip
RULES = {(8, 0.0): "MC = 0", (32, 0.0): "MC = 0, 32 rollouts", (32, 0.3): "cut"}


def measure(trial: Trial) -> Outcome:
    """First errors found and rollouts paid by bisection and by probing every step; then the trees."""
    drawn, arms, cost = SamplingParams(seed=trial.seed), defaultdict[str, list[float]](list), Cost()
    for world, n in (("arithmetic", 80), ("long arithmetic", 40), ("code", 40)):
        given = known(trial, world, trial.size(n, 10), wrong=True)
        found = {(k, at): BinarySearch(given.policy, k, lost=at, params=drawn).judge(given.traces) for k, at in RULES}
        every = {k: MonteCarlo(given.policy, k, params=drawn).judge(given.traces) for k in (8, 32)}
        for (k, lost), rule in RULES.items():
            arms[f"{world}, {rule}"] = hits(found[k, lost], given.first_errors)
            arms[f"search, {rule}"] += arms[f"{world}, {rule}"]
            arms[f"every step, {rule}"] += hits(every[k], given.first_errors, lost + 1e-9)
        arms[f"{world}, search"] = [j.cost.calls for j in found[32, 0.3]]
        arms["rollouts of search"] += arms[f"{world}, search"]
        arms["rollouts of every step"] += [j.cost.calls for j in every[32]]
        arms[f"{world}, until the error"] = [min(j.cost.calls, 32 * (1 + (j.first_below(0.3) or 0))) for j in every[32]]
        cost += spent(*found.values(), *every.values())
    arms["two thirds of every step"] = [2 / 3 * rollouts for rollouts in arms["rollouts of every step"]]
    return Outcome(arms, cost + _grow(trial, drawn, arms))


def _grow(trial: Trial, drawn: SamplingParams, arms: dict[str, list[float]]) -> Cost:
    """Trees against four fresh traces each, which are rollouts too, where there is something to search."""
    given = known(trial, "arithmetic", trial.size(40, 4))
    tops = [trace.prefix(0) for trace in given.traces]
    problems = [top.problem for top in tops]
    grown = OmegaPRM(given.policy, budget=100, leaves=False, params=drawn).grow(problems, "\n")
    leafy = OmegaPRM(given.policy, budget=100, params=drawn).grow(problems, "\n")
    rows = draw_traces(given.policy, tops, 4, drawn)
    labeller = MonteCarlo(given.policy, 8, params=drawn)
    costs = [Cost.total((spent(labeller.judge(row)), *(trace.cost for trace in row))) for row in rows]
    searched = [i for i, tree in enumerate(grown) if tree.searches]
    arms["tree"] = [100 * grown[i].labelled / grown[i].rollouts for i in searched]
    arms["tree with right leaves"] = [100 * leafy[i].labelled / leafy[i].rollouts for i in searched]
    arms["Monte Carlo of fresh traces"] = [100 * len(tree_of(rows[i]).nodes) / costs[i].calls for i in searched]
    return Cost.total((*costs, *(tree.cost for tree in grown)))
