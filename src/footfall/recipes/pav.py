"""Rewarding Progress: Scaling Automated Process Verifiers for LLM Reasoning (Setlur et al., arXiv 2410.08146).

A step is worth the progress it makes under a prover policy μ, not the chance of success after it:

    A_μ(s, a) = Q_μ(s, a) − V_μ(s),   prover Best-of-K:  Q_μ = 1 − (1 − Q_π)^K,   reward  Q_π(s, a) + α · A_μ(s, a)

The prover should tell π's steps apart and roughly agree with π; π itself adds nothing, a perfect one sees no difference.

What differs: no verifier is trained. Labels have 16 rollouts a prefix and are compared with whether an error is made at the
step; one that is right in itself but follows an error makes none. For exploration π takes one exact step of policy
improvement: of 4 next steps that it samples, one is drawn with weight exp(Q_π + α · A_μ), α = 5 (the paper's for its smallest
model), with exact values, until the answer. That is one natural-gradient step of the paper's theory, on problems that π
solves in less than half of its tries. With π as prover the weight is exp(6 Q_π), up to a factor that all candidates share:
that is Q alone at the scale of the others, and what they are compared with.

In search the rule Q_π + α · A_μ (α = 0.5, prover Best-of-4) keeps 2 of 8 partial solutions after every step. Its Q_π are the
exact values, blurred by a normal error on the scale of logits; the ORM is the same judge, asked about finished solutions alone.
Both have as many tokens, written by the policy and read by the judge, problem by problem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from footfall.lab.recipe import Arm, Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.lab.shared.known import error_auc, known, spent
from footfall.label.pav import Reward, StepAdvantage, best_of_k, effective_reward, explore
from footfall.policy.protocol import SamplingParams
from footfall.search import BeamSearch, EffectiveReward
from footfall.simulate import Blurred
from footfall.types import Cost, Judge, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, OpRates

RECIPE = Recipe(
    name="pav",
    paper="Rewarding Progress: Scaling Automated Process Verifiers for LLM Reasoning",
    arxiv="2410.08146", year=2024, stage="data", world="arithmetic, algebra, code",
    scale="Labels: 40 traces of each world a seed. Exploration: the harder ones of 300 arithmetic problems. "
    "Search: 200 problems by a scripted policy that gets a step wrong one time in three; N = 8, M = 4.",
    claims=(
        Claim("Beam search by Q + αA beats best-of-N with an outcome model at equal tokens.",
            metric="accuracy; tokens written by the policy and read by the judge, every new step once", direction="higher",
            baseline="best-of-N, ORM", method="beam search, Q + αA", beside=("single sample",),
            stand_in="The paper trains its verifiers; here values and outcomes are those of one simulated judge, exact ones "
            "blurred.",
        ),
        Claim("Beam search by Q + αA beats beam search by Q alone.",
            metric="accuracy, N = 8", direction="higher", baseline="beam search, Q", method="beam search, Q + αA",
            stand_in="The paper trains its verifiers; here values are those of a simulated judge, exact ones blurred.",
        ),
        Claim("The policy improves more under a Best-of-4 prover than under itself.",
            metric="share of traces that end right", direction="higher",
            baseline="prover: the policy", method="prover: best-of-4", beside=("no reward", "Q alone"),
            stand_in="The paper's policies are trained by RL; here one exact step of policy improvement is compared under "
            "different provers.",
        ),
        Claim("Progress under a Best-of-4 prover tells wrong steps from right ones better than the policy's own Q.",
            metric="AUC of steps that make no error against those that do, mean of the worlds", direction="higher",
            baseline="Q of the policy", method="progress under best-of-4", beside=("Q + progress / 2",),
        ),
        Claim("The same, of the steps up to the first error alone.",
            metric="AUC of right steps against first errors, mean of the worlds", direction="higher",
            baseline="Q to the first error", method="progress to the first error",
        ),
        Claim("The policy improves more under Best-of-4 than under Best-of-64, which finds all steps alike.",
            metric="share of traces that end right", direction="higher",
            baseline="prover: best-of-64", method="prover: best-of-4",
        ),
        Claim("Even a prover weaker than the policy improves it, beyond its own Q at the same scale.",
            metric="share of traces that end right", direction="higher",
            baseline="prover: the policy", method="prover: weaker", beside=("prover: stronger", "Q alone"),
        ),
    ),
)  # fmt: skip
POLICY = ArithmeticPolicy()
WEAKER = ArithmeticPolicy(OpRates(0.1, 0.15, 0.45, 0.35))
STRONGER = ArithmeticPolicy(OpRates(0.01, 0.01, 0.05, 0.04), misread_tricky=OpRates(0.2, 0.2, 0.2, 0.2))
PROVERS: dict[str, Callable[[Trajectory], float]] = {
    "prover: the policy": POLICY.value,
    "prover: best-of-4": lambda prefix: best_of_k(POLICY.value(prefix), 4),
    "prover: best-of-64": lambda prefix: best_of_k(POLICY.value(prefix), 64),
    "prover: weaker": WEAKER.value,
    "prover: stronger": STRONGER.value,
    "Q alone": lambda prefix: 0.0,
}


def measure(trial: Trial) -> Outcome:
    """Labels of provers, then the value of what a policy reaches when its search is rewarded by each."""
    drawn, world = SamplingParams(seed=trial.seed), ArithmeticWorld()
    arms, cost = _labels(trial, drawn)
    tops = [world.prefix(problem) for problem in world.problems(trial.size(300, 30), trial.seed)]
    hard = [top for top in tops if POLICY.value(top) < 0.5]
    rewards: dict[str, Reward] = {"no reward": lambda before, after: 0.0}
    for name, q in PROVERS.items():
        rewards[name] = lambda a, b, q=q: effective_reward(POLICY.value(b), q(b) - q(a), alpha=5.0)  # type: ignore[misc]
    for name, reward in rewards.items():
        traces, drawing = explore(POLICY, hard, reward, params=drawn)
        arms[name] = [POLICY.value(trace) for trace in traces]
        cost += drawing
    cost += _search(trial, arms)
    return Outcome(arms, cost)


def _search(trial: Trial, arms: dict[str, Arm]) -> Cost:
    """Adds the accuracy of beam search by two rules, and of best-of-N with an outcome model for the tokens of the first."""
    given, values = searches.problems(trial, trial.size(200, 4)), Blurred(searches.WRITER, seed=trial.seed)
    samples, beam = searches.drawn(trial, 60, given), BeamSearch(8, 4)
    rules: dict[str, Judge] = {"beam search, Q + αA": EffectiveReward(values), "beam search, Q": values}
    found = {arm: searches.searched(trial, beam, searches.priced(said, {}), given) for arm, said in rules.items()}
    arms |= {arm: searches.right(results) for arm, results in found.items()}
    arms["single sample"] = searches.single(samples)
    paid = searches.tokens(found["beam search, Q + αA"])
    arms["best-of-N, ORM"] = searches.best_of_n(samples, searches.priced(values, {}), paid)
    return Cost.total(result.cost for results in (samples, *found.values()) for result in results)


def _labels(trial: Trial, drawn: SamplingParams) -> tuple[dict[str, Arm], Cost]:
    """How well each kind of label ranks steps without an error above those with one, world by world."""
    arms, cost = defaultdict[str, list[float]](list), Cost()
    for name in ("arithmetic", "algebra", "code"):
        given = known(trial, name, trial.size(40, 5))
        said = StepAdvantage(given.policy, params=drawn).judge(given.traces)
        q, progress = [j.aspects["policy"] for j in said], [j.values for j in said]
        arms["Q of the policy"].append(error_auc(given, q, after_error=True))
        arms["progress under best-of-4"].append(error_auc(given, progress, after_error=True))
        arms["Q + progress / 2"].append(error_auc(given, [j.aspects["effective"] for j in said], after_error=True))
        arms["Q to the first error"].append(error_auc(given, q, after_error=False))
        arms["progress to the first error"].append(error_auc(given, progress, after_error=False))
        cost += spent(said)
    return dict(arms), cost
