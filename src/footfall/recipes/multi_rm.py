"""Rethinking Reward Models for Multi-Domain Test-Time Scaling (Lee et al., arXiv 2510.00492).

Reward models that are discriminative (d, one reading) or generative (g, the mean of ten), of the outcome or of the process,
trained on the same solutions from the same backbone:

    dORM  r(outcome)      dPRM  min_k r(step k)      gORM, gPRM  mean_j 1[verdict j is yes]

A generative one writes a verification of every step before its verdict. That of gORM is any whose verdict fits the outcome,
that of gPRM must agree with the label of every step up to the first error.

What differs: the backbone is the lab's model of 9.5M parameters, which has read all four domains; the embedded one reads three
of them letter by letter, so no model could tell their solutions apart. A verification is a digit a step, by a teacher that errs
at one step in ten; what does not fit the labels is left out, as in the paper. Domains are four worlds with scripted policies.
All models choose among the same samples. Short and long are halves of each world, or length would stand for the world.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.known import WORLDS
from footfall.lab.shared.searches import drawn, single
from footfall.lab.shared.verifiers import generated, lessons
from footfall.reward.judge import step_head
from footfall.search import aggregate, best, majority, weighted
from footfall.simulate import Noisy
from footfall.train.active import until_first_error
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judged, SearchResult, Trajectory

RECIPE = Recipe(
    name="multi-rm",
    paper="Rethinking Reward Models for Multi-Domain Test-Time Scaling",
    arxiv="2510.00492",
    year=2025,
    stage="search",
    world="arithmetic, logic, algebra, code",
    scale="Reward models of the lab's model (9.5M parameters), each on 600 scripted solutions of each of four worlds; 8 "
    "samples of each of 200 held-out problems a world and seed.",
    claims=(
        Claim(
            "The mean of ten generated verdicts on the outcome (gORM) beats a discriminative model of the steps (dPRM).",
            metric="accuracy, best of 8, four worlds", direction="higher",
            baseline="dPRM", method="gORM", beside=("majority", "single sample"),
            stand_in="The paper's verifiers write thousands of tokens before their verdict; these write a digit a step.",
        ),
        Claim(
            "Ten generated verdicts on the outcome (gORM) beat a discriminative model of the outcome (dORM).",
            metric="accuracy, best of 8, four worlds", direction="higher", baseline="dORM", method="gORM",
        ),
        Claim(
            "Verifications that are checked by the outcome (gORM) beat those checked step by step (gPRM).",
            metric="accuracy, best of 8, four worlds", direction="higher", baseline="gPRM", method="gORM",
        ),
        Claim(
            "A discriminative model of the outcome (dORM) is on a par with one of the steps (dPRM).",
            metric="accuracy, best of 8, four worlds", direction="higher", margin=-0.03, baseline="dPRM", method="dORM",
        ),
        Claim(
            "Stepwise scores lose with length: the lead of the outcome model is larger on long solutions.",
            metric="accuracy of dORM minus dPRM", direction="higher", baseline="lead, short", method="lead, long",
        ),
        Claim(
            "A vote weighted by ten generated verdicts on the outcome (gORM) beats the majority.",
            metric="accuracy of votes over 8, four worlds", direction="higher",
            baseline="majority", method="gORM, weighted vote",
        ),
    ),
)  # fmt: skip
DOMAINS, SHORT = ("arithmetic", "logic", "algebra", "code"), ("arithmetic", "short logic", "algebra", "short code")


def measure(trial: Trial) -> Outcome:
    """Best-of-8 by four trained reward models, over all domains and by length."""
    rows, tests, trial = dict[str, list[SearchResult]](), dict[str, list[SearchResult]](), prms.large(trial)
    for name in SHORT if trial.quick else DOMAINS:
        world, policy, _ = WORLDS[name]
        rows[name] = drawn(trial, 2, world.problems(trial.size(300, 2), trial.seed), policy)
        tests[name] = drawn(trial, trial.size(8, 3), world.problems(trial.size(200, 2), trial.seed, "test"), policy)
    asked = [trace for found in tests.values() for r in found for trace, _ in r.candidates]
    scores, cost = _scores(trial, rows, asked)
    cost += Cost.total(r.cost for found in (*rows.values(), *tests.values()) for r in found)
    arms, leads, at = defaultdict[str, list[float]](list), defaultdict[str, list[tuple[float, float]]](list), 0
    for name, result in ((name, result) for name, found in tests.items() for result in found):
        arms["single sample"] += single([result])
        traces = [trace for trace, _ in result.candidates]
        answers, domain = [t.answer for t in traces], result.problem.domain
        chosen = {"majority": majority(answers, domain).winner}
        for model, said in scores.items():
            own = said[at : at + len(traces)]
            chosen[model], chosen[f"{model}, weighted vote"] = best(own), weighted(answers, own, domain).winner
        won = {arm: float(k is not None and bool(traces[k].correct)) for arm, k in chosen.items()}
        for arm, figure in won.items():
            arms[arm].append(figure)
        leads[name].append((fmean(len(t.steps) for t in traces), won["dORM"] - won["dPRM"]))
        at += len(traces)
    for each in leads.values():
        for k, (_, lead) in enumerate(sorted(each, key=lambda pair: pair[0])):
            arms["lead, short" if 2 * k < len(each) else "lead, long"].append(lead)
    return Outcome(dict(arms), cost)


def _scores(
    trial: Trial, rows: Mapping[str, Sequence[SearchResult]], asked: Sequence[Trajectory]
) -> tuple[dict[str, list[float]], Cost]:
    """What each model, trained on these solutions, gives each of those that are asked about; what that cost."""
    process, outcome, by_outcome, by_steps = list[Judged](), list[Judged](), list[Trajectory](), list[Trajectory]()
    for name, found in rows.items():
        traces = [trace for r in found for trace, _ in r.candidates]
        truths = WORLDS[name].truth.judge(traces)
        process += map(Judged, traces, map(until_first_error, truths))
        outcome += [Judged(trace, prms.outcome_label(trace)) for trace in traces]
        taught = lessons(traces, truths, Noisy(WORLDS[name].truth, 0.1, 0.1, seed=trial.seed).judge(traces))
        by_outcome, by_steps = by_outcome + taught[0], by_steps + taught[1]
    config = TrainConfig(lr=3e-4, epochs=1, eval_share=0.0, seed=trial.seed, device=trial.device)
    n, cost = trial.size(10, 2), Cost()
    scores = {"gORM": generated(trial, by_outcome, asked, n), "gPRM": generated(trial, by_steps, asked, n)}
    for model, labelled, how in (("dORM", outcome, "last"), ("dPRM", process, "min")):
        trained = prms.train(trial, f"multi-rm-{model}", labelled, config)
        said = step_head(trained.folder, device=trial.device).judge(asked)
        scores[model] = [aggregate(each.values, how) or 0.0 for each in said]
        cost += trained.cost + Cost.total(each.cost for each in said)
    return scores, cost
