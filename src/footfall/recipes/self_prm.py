"""Is PRM Necessary? Problem-Solving RL Implicitly Induces PRM Capability in LLMs (Feng et al., arXiv 2505.11227).

The policy checks its own k solutions, v times each, for the first wrong step:

    reward_i = share of checks that find no error;   the answer is the majority among the solutions with the highest reward

What differs: the policy is scripted and cannot be prompted. It checks a solution by doing each step again from the steps before
it; a step that comes out otherwise is an error. So its checks err where it errs itself, as the paper's do. The dedicated PRM is
the lab's, of ten million parameters, on Monte Carlo labels. k = 8, v = 4. The paper compares at equal k;
what the checks cost as further votes of the majority is a claim of its own. "Hard" problems are those that the policy gets
wrong more often than right, by other samples than those that are checked. As fewer solutions of them are right, whoever finds
everything flawless is less precise there too; so the share of wrong solutions that are let through has a claim of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms, searches
from footfall.lab.shared.cases import first_error_f1
from footfall.policy.protocol import SamplingParams
from footfall.search import SelfCheck, aggregate, choose, majority
from footfall.search.self_prm import flawless, passing_vote
from footfall.types import Cost, SearchResult
from footfall.worlds import ArithmeticPolicy

RECIPE = Recipe(
    name="self-prm",
    paper="Is PRM Necessary? Problem-Solving RL Implicitly Induces PRM Capability in LLMs",
    arxiv="2505.11227",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="Scripted policy that does every step again as its own judge, 4 checks a solution; 8 solutions of each of 400 "
    "problems a seed; PRM of the lab's model (9.5M parameters) on 2,400 traces.",
    claims=(
        Claim(
            "The policy finds first errors as well as a dedicated PRM.",
            metric="first-error F1", direction="higher", baseline="F1, PRM", method="F1, policy",
            margin=-0.03,
            threshold="other data",
            stand_in="The paper's policy is trained by RL and asked to judge; here it is scripted and judges a step "
            "by doing it again.",
        ),
        Claim(
            "Choosing among solutions that the policy itself finds flawless beats the majority vote.",
            metric="accuracy, k = 8", direction="higher",
            baseline="majority", method="Self-PRM", beside=("single sample", "oracle"),
        ),
        Claim(
            "It beats best-of-N with a dedicated PRM.",
            metric="accuracy, k = 8", direction="higher", baseline="best-of-N, PRM", method="Self-PRM",
        ),
        Claim(
            "It beats the majority vote at equal tokens too, the checks counted.",
            metric="accuracy, tokens of Self-PRM with k = 8", direction="higher",
            baseline="majority, equal tokens", method="Self-PRM",
        ),
        Claim(
            "Its checks are less precise on hard problems.",
            metric="share of right solutions among those found flawless", direction="lower",
            baseline="precision, easy problems", method="precision, hard problems",
            beside=("right, easy problems", "right, hard problems"),
        ),
        Claim(
            "Of the wrong solutions of hard problems they let more through.",
            metric="share of wrong solutions found flawless", direction="higher",
            baseline="let through, easy problems", method="let through, hard problems",
            stand_in="The paper has the precision alone, which falls with the share of right solutions whoever judges.",
        ),
    ),
)  # fmt: skip
POLICY = ArithmeticPolicy()
K, VOTES = 8, 4


def measure(trial: Trial) -> Outcome:
    """Votes of solutions that the policy itself finds flawless against majority, equal tokens and a PRM."""
    trial = prms.large(trial)
    given = searches.problems(trial, trial.size(400, 4))
    samples = searches.drawn(trial, K * (VOTES + 3), given, POLICY)
    traces = [[trace for trace, _ in r.candidates[:K]] for r in samples]
    flat = [trace for row in traces for trace in row]
    checks = SelfCheck(POLICY, VOTES, SamplingParams(max_tokens=64, seed=trial.seed)).judge(flat)
    said = prms.judge(trial, "monte-carlo").judge(flat)
    arms: dict[str, list[float]] = {
        name: [] for name in ("majority", "majority, equal tokens", "best-of-N, PRM", "Self-PRM")
    }
    for i, (row, result) in enumerate(zip(traces, samples, strict=True)):
        own = checks[i * K : (i + 1) * K]
        votes = [t.answer for t, _ in result.candidates]
        correct = [float(bool(t.correct)) for t, _ in result.candidates]
        spent = sum(t.cost.generated_tokens for t in row) + sum(j.cost.generated_tokens for j in own)
        chosen = choose(row, [aggregate(j.values, "min") for j in said[i * K : (i + 1) * K]], "best")
        arms["best-of-N, PRM"].append(float(bool(chosen and chosen.correct)))
        for name, winner in {
            "majority": majority(votes[:K]).winner,
            "majority, equal tokens": majority(votes[: len(searches.affordable(result, None, spent))]).winner,
            "Self-PRM": passing_vote(votes[:K], [flawless(j) for j in own]).winner,
        }.items():
            arms[name].append(0.0 if winner is None else correct[winner])
    single, pairs = searches.single(samples), list(zip(flat, checks, strict=True))
    cost = Cost.total(r.cost for r in samples) + Cost.total(j.cost for j in (*checks, *said))
    figures = {"F1, policy": first_error_f1(flat, checks), "F1, PRM": first_error_f1(flat, said)}
    hard = _hard(samples)
    for name, side in (("easy", False), ("hard", True)):
        found = [(bool(t.correct), bool(flawless(j))) for i, (t, j) in enumerate(pairs) if hard[i // K] is side]
        figures |= {
            f"precision, {name} problems": _share(right for right, passed in found if passed),
            f"right, {name} problems": _share(right for right, _ in found),
            f"let through, {name} problems": _share(passed for right, passed in found if not right),
        }
    oracle = [float(any(t.correct for t in row)) for row in traces]
    used = prms.spent(trial, "monte-carlo", used_pool="no")
    return Outcome({**arms, **figures, "single sample": single, "oracle": oracle}, cost + used)


def _hard(samples: Sequence[SearchResult]) -> list[bool]:
    """Whether less than half of the solutions are right, of those that are not checked."""
    return [fmean(bool(t.correct) for t, _ in r.candidates[K:]) < 0.5 for r in samples]


def _share(flags: Iterable[bool]) -> float:
    given = list(flags)
    return sum(given) / max(1, len(given))
