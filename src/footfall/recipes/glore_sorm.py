"""GLoRe: When, Where, and How to Improve LLM Reasoning via Global and Local Refinements (Havrilla et al., arXiv 2402.10963).

An outcome reward model (ORM: every prefix has the outcome of its own solution) says when a draft needs refinement. A stepwise
one (SORM) says where: a prefix is positive if any of K continuations is right, and then so are all shorter ones.

    label(P_i) = max_{k ≥ i} 1[a continuation of P_k is right and uses the result of step k]

A doubted draft is written anew (global) and from before its first error on (local); the ORM chooses among the three.

What differs: no refiner is trained. Global refinement is another solution by the policy, local refinement its continuation of
the steps before the located error. Drafts are sampled. Labels are balanced at each length; continuations are by the scripted
policy, K = 8.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.label.freeprm import OutcomeLabels
from footfall.label.glore import StepwiseORM, balanced
from footfall.search import BestOf, Method, Searcher
from footfall.search.glore import GlobalLocal, Where
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judged, SearchResult
from footfall.worlds import ArithmeticPolicy

RECIPE = Recipe(
    name="glore-sorm",
    paper="GLoRe: When, Where, and How to Improve LLM Reasoning via Global and Local Refinements",
    arxiv="2402.10963",
    year=2024,
    stage="search",
    world="arithmetic",
    scale="ORM and SORM of 9.5M parameters on 2,400 traces; the policy has as many. A seed has 1,000 held-out problems.",
    claims=(
        Claim(
            "Global and local refinement with the ORM's choice is right more often than the best of three samples.",
            metric="accuracy", direction="higher", baseline="best of three", method="global and local",
            beside=("a sample",),
            stand_in="The paper trains refiners that read the draft; here the policy itself writes anew, or on.",
        ),
        Claim(
            "A SORM finds first errors better than an ORM.",
            metric="F1 of the first error", direction="higher", baseline="ORM", method="SORM", beside=("soft labels",),
            threshold="other data",
        ),
        Claim(
            "Both refinements are right more often than the global one alone.",
            metric="accuracy", direction="higher", baseline="global", method="global and local",
            stand_in="The paper trains refiners that read the draft; here the policy itself writes anew, or on.",
        ),
        Claim(
            "Both refinements are right more often than the local one alone.",
            metric="accuracy", direction="higher", baseline="local", method="global and local",
            stand_in="The paper trains refiners that read the draft; here the policy itself writes anew, or on.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy of refined drafts and of best of three, and how well both models find first errors."""
    trial = prms.large(trial)
    traces = prms.arm_traces(trial)
    labels = StepwiseORM(ArithmeticPolicy(), trial.size(8, 2), params=prms.params(trial)).judge(traces)
    rows = {
        "ORM": list(map(Judged, traces, OutcomeLabels().judge(traces))),
        "SORM": balanced(list(map(Judged, traces, labels))),
    }
    config = TrainConfig("bce", {"threshold": 0.5}, lr=3e-4)
    trained = {name: prms.arm_with(trial, given, config) for name, given in rows.items()}
    trained["soft labels"] = prms.arm(trial, prms.arm_rows(trial), "soft-bce")
    orm, sorm = (prms.arm_judge(trial, prms.arm_training(trial, given, config)) for given in rows.values())
    problems = list({trace.problem.id: trace.problem for trace in prms.arm_pool(trial)}.values())

    def solved(method: Method) -> list[SearchResult]:
        return Searcher(
            prms.policy(trial), orm, method, judges={"sorm": sorm}, params=prms.params(trial), separator="\n"
        ).solve(problems)

    methods: dict[str, Method] = {"a sample": BestOf(1), "best of three": BestOf(3, "best", "last")}
    methods |= {"global and local": _refined("both"), "global": _refined("global"), "local": _refined("local")}
    found = {name: solved(method) for name, method in methods.items()}
    arms = prms.figures(trial, trained)
    arms |= {name: [float(bool(r.chosen and r.chosen.correct)) for r in results] for name, results in found.items()}
    searched = Cost.total(r.cost for results in found.values() for r in results)
    return Outcome(arms, prms.spent_on(trial, labels, trained.values()) + searched)


def _refined(where: Where) -> GlobalLocal:
    return GlobalLocal(n=3, where=where, greedy=False, locator="sorm")
