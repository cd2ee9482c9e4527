"""Demystifying Multilingual Chain-of-Thought in Process Reward Modeling (Wang et al., arXiv 2502.12663).

Translate step-labelled data step by step, copy the labels, and train one PRM on several languages:

    cross   trained on English alone            multi   trained on the union, of the same total size

Best-of-N by PRM in every language; figures are means over languages that count alike, whatever their test sizes.

What differs: the translator is the arithmetic world itself, so that labels, candidates and difficulty are the same in all seven
languages. The backbone, the lab's model, has read all seven; which of them it was taught to judge in is what differs.
Seen are en, de, es, ru and zh; fr and sw are unseen. Labels are soft Monte Carlo ones of 8 scripted rollouts on the
English traces. One PRM for each single language (mono) would take too long here.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.reward.judge import step_head
from footfall.search import aggregate, best
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judged
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from footfall.worlds.multilingual import LANGUAGES, translate
from footfall.worlds.multilingual.world import translate_rows

RECIPE = Recipe(
    name="multilingual-prm",
    paper="Demystifying Multilingual Chain-of-Thought in Process Reward Modeling",
    arxiv="2502.12663",
    year=2025,
    stage="data",
    world="arithmetic in seven languages",
    scale="The lab's model (9.5M parameters) as PRM backbone; a seed has 2,400 training traces and 1,000 held-out problems "
    "with 4 solutions each, in seven languages.",
    claims=(
        Claim(
            "A PRM trained on several languages beats one trained on English alone, over all languages.",
            metric="accuracy of best-of-4, mean over seven languages",
            direction="higher", baseline="English PRM", method="multilingual PRM", beside=("first solution", "any solution"),
        ),
        Claim(
            "It is better in languages that neither was trained on.",
            metric="accuracy of best-of-4, mean over fr and sw",
            direction="higher", baseline="English PRM, unseen", method="multilingual PRM, unseen",
        ),
        Claim(
            "Solutions that it chooses wrongly go wrong later.",
            metric="first wrong step of wrongly chosen solutions, as a share of their steps",
            direction="higher", baseline="English PRM, place of errors", method="multilingual PRM, place of errors",
        ),
    ),
)  # fmt: skip
N = 4
SEEN = ("en", "de", "es", "ru", "zh")
UNSEEN = tuple(language for language in LANGUAGES if language not in SEEN)


def measure(trial: Trial) -> Outcome:
    """Best-of-N by an English and a multilingual PRM on seven languages, seen and unseen."""
    trial = prms.large(trial)
    world, policy = ArithmeticWorld(max_ops=3) if trial.quick else ArithmeticWorld(), ArithmeticPolicy()
    params, n = SamplingParams(seed=trial.seed), trial.size(N, 2)
    traces = [trace for _, trace in world.traces(policy, trial.size(2400, 4), trial.seed)]
    english = list(map(Judged, traces, MonteCarlo(policy, 8, params=params).judge(traces)))
    problems = world.problems(trial.size(1000, 1), trial.seed, split="test")
    rows = draw_traces(policy, [world.prefix(problem) for problem in problems], n, params)
    places = [[world.first_error(t) / len(t.steps) for t in row] for row in rows]
    arms = {
        "first solution": [float(bool(row[0].correct)) for row in rows],
        "any solution": [float(any(t.correct for t in row)) for row in rows],
    }
    costs = [row.judgement.cost for row in english if row.judgement] + [t.cost for row in rows for t in row]
    for name, languages in (("English PRM", ("en",)), ("multilingual PRM", SEEN)):
        config = TrainConfig(lr=3e-4, epochs=trial.size(2, 1), eval_share=0.0, seed=trial.seed, device=trial.device)
        trained = prms.train(trial, f"{len(languages)}-languages", translate_rows(english, languages), config)
        prm = step_head(trained.folder, device=trial.device)
        chosen: dict[str, list[int]] = {}
        for language in LANGUAGES:
            said = prm.judge([translate(t, language) for row in rows for t in row])
            scores = [aggregate(each.values, "min") for each in said]
            chosen[language] = [best(scores[at : at + n]) or 0 for at in range(0, len(scores), n)]
            costs += [each.cost for each in said]
        costs.append(trained.cost)
        right = {
            lang: [float(bool(row[k].correct)) for row, k in zip(rows, chosen[lang], strict=True)] for lang in chosen
        }
        arms[name] = [sum(each) / len(each) for each in zip(*right.values(), strict=True)]
        arms[f"{name}, unseen"] = [sum(each) / len(UNSEEN) for each in zip(*(right[u] for u in UNSEEN), strict=True)]
        wrong = [places[i][k] for ks in chosen.values() for i, k in enumerate(ks) if not rows[i][k].correct]
        arms[f"{name}, place of errors"] = [sum(wrong) / len(wrong) if wrong else 1.0]
    return Outcome(arms, Cost.total(costs))
