"""Self-Regulation and Requesting Interventions (Min et al., arXiv 2502.04576).

A policy may ask for help C times a task on average. Help is asked for at random once, the transitions are counted, and with a
price per request

    Q(s, a) = −price · [a = ask] + Σ P_a(s'|s) V(s'),   V = max_a Q

dynamic programming gives a policy for every price, offline; the smallest price whose expected requests are at most C is taken.

What differs: the task is a sum in words, help is the next step by a policy that errs a quarter as often, and the judge is the
exact chance of success without further help. A state is the number of steps and that chance in tenths; the helper is the table
itself, no model is fine-tuned on it. The threshold is the one with the most successes on the collected tasks, with no more than
C requests in any task: without that cap it asks at every step after an error. Random requests have C a task on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.searches import right
from footfall.policy.protocol import SamplingParams
from footfall.search import Searcher, SelfRegulation
from footfall.search.self_regulation import plan_within, transitions
from footfall.types import Cost, Problem, SearchResult
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge, OpRates

RECIPE = Recipe(
    name="self-regulation",
    paper="Self-Regulation and Requesting Interventions",
    arxiv="2502.04576",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="Scripted policies; 160 tasks to collect transitions and 150 to measure a seed; C = 1 request a task, against one "
    "at every step.",
    claims=(
        Claim(
            "With about one request a task success is close to that of always asking.",
            metric="success rate", direction="higher", margin=-0.05, baseline="always", method="planned",
            stand_in="The paper's tasks are instructions to a household agent with language models; here arithmetic "
            "with scripted policies.",
        ),
        Claim(
            "Planned requests beat as many random ones.",
            metric="success rate", direction="higher",
            baseline="random", method="planned", beside=("never", "always"),
        ),
        Claim(
            "Planned requests beat asking where the PRM's value is low.",
            metric="success rate", direction="higher", baseline="threshold", method="planned",
        ),
        Claim(
            "It takes a fraction of the requests of always asking.",
            metric="requests a task", direction="lower", margin=2.0,
            baseline="requests, always", method="requests, planned", beside=("requests, threshold", "requests, random"),
        ),
    ),
)  # fmt: skip
C = 1.0
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
ACTOR = ArithmeticPolicy()
HELPER = ArithmeticPolicy(
    OpRates(0.01, 0.01, 0.05, 0.04), OpRates(0.0, 0.0, 0.01, 0.01), OpRates(0.16, 0.16, 0.16, 0.16), recover=0.2
)


def measure(trial: Trial) -> Outcome:
    """Success and requests of rules that ask for help, within one budget of requests."""
    world = ArithmeticWorld()
    given = world.problems(trial.size(160, 20), trial.seed)
    seen = _run(trial, SelfRegulation("random", rate=0.5, helper="large", width=1), given)
    steps = fmean(len(r.chosen.steps) for r in seen if r.chosen is not None)
    guarded = [SelfRegulation("threshold", below, cap=int(C), helper="large", width=1) for below in THRESHOLDS]
    tried = [_run(trial, rule, given[: len(given) // 2]) for rule in guarded]
    rules = {
        "never": SelfRegulation("never"),
        "always": SelfRegulation("always", helper="large", width=1),
        "random": SelfRegulation("random", rate=C / steps, helper="large", width=1),
        "threshold": max(zip(tried, guarded, strict=True), key=lambda pair: sum(right(pair[0])))[1],
        "planned": SelfRegulation("plan", helper="large", width=1, ask=plan_within(transitions(seen), C).ask),
    }
    arms: dict[str, list[float]] = {}
    cost = Cost.total(r.cost for results in (seen, *tried) for r in results)
    for name, rule in rules.items():
        results = _run(trial, rule, world.problems(trial.size(150, 10), trial.seed, split="test"))
        arms[name] = right(results)
        arms[f"requests, {name}"] = _requests(results)
        cost += Cost.total(r.cost for r in results)
    return Outcome(arms, cost)


def _run(trial: Trial, rule: SelfRegulation, given: Sequence[Problem]) -> list[SearchResult]:
    params = SamplingParams(max_tokens=64, seed=trial.seed)
    return Searcher(
        ACTOR, ExactValueJudge(ACTOR), rule, params=params, separator="\n", helpers={"large": HELPER}
    ).solve(given)


def _requests(results: Sequence[SearchResult]) -> list[float]:
    return [float(sum(decision.what == "asked" for decision in r.decisions)) for r in results]
