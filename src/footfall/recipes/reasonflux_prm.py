"""ReasonFlux-PRM: Trajectory-Aware PRMs for Long Chain-of-Thought Reasoning in LLMs (Zou et al., arXiv 2506.18896).

A long messy trajectory of thoughts comes before a short clean response, and PRMs trained on responses misjudge it. A PRM is
trained on trajectories instead, by signals of each step that are fused and one of the whole:

    r_step = Σ_k w_k r_k,  w = softmax(r_align, r_qual, r_coh),   L = (1/T) Σ_t (R_t − r_step,t)² + (R − r_final)²

A sample is worth r̂ = mean_t R_t + α R.

What differs: thinking is made of the policy's solutions: each is followed by a check of one of its steps, and the response
restates the mathematics. The judge of quality is the truth of each step with one verdict in five flipped. The template is the
solution's operations without its results, and r_final how often the scripted policy is right in 4 solutions that carry them
out; the trace's own outcome is in no label. Similarity is the cosine of word counts. The PRM on responses learns the same
judge's values of the same solutions without thoughts, and another one the same r_final too.
"""

from __future__ import annotations

from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import Said, best_of_n
from footfall.lab.shared.strategies import Followed
from footfall.label.reasonflux import Fused, sample_score, thinking_steps
from footfall.reward.views import mathematics
from footfall.simulate import Noisy
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judged, Judgement, Step, Trajectory, content_key
from footfall.worlds import ArithmeticPolicy, TruthJudge

RECIPE = Recipe(
    name="reasonflux-prm",
    paper="ReasonFlux-PRM: Trajectory-Aware PRMs for Long Chain-of-Thought Reasoning in LLMs",
    arxiv="2506.18896",
    year=2025,
    stage="train",
    world="arithmetic",
    scale="PRMs of 1.1M parameters on 240 traces with thoughts; a seed has 800 solutions of 100 held-out problems.",
    claims=(
        Claim(
            "A PRM on fused signals of trajectories chooses better among solutions with thoughts than one on responses.",
            metric="accuracy, best of 8", direction="higher", baseline="responses", method="trajectories",
            beside=("trajectories, steps alone",),
            stand_in="The paper's baselines are published PRMs of 72B parameters, on AIME, MATH-500 and GPQA.",
        ),
        Claim(
            "So it does over one on responses that is given the same trajectory rewards.",
            metric="accuracy, best of 8", direction="higher",
            baseline="responses and trajectory rewards", method="trajectories",
            stand_in="The paper's baselines have no such rewards: this tells what the thoughts add from what the rewards do.",
        ),
        Claim(
            "The trajectory's own reward adds to those of its steps.",
            metric="accuracy, best of 8", direction="higher", baseline="trajectories, steps alone", method="trajectories",
            stand_in="The paper varies α on AIME.",
        ),
        Claim(
            "Fused signals choose better than the judge's quality with the same trajectory rewards.",
            metric="accuracy, best of 8", direction="higher", baseline="quality and trajectory rewards", method="trajectories",
            stand_in="The paper measures it by tuning on the samples that are selected.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-8 among solutions with thoughts, by PRMs trained on responses, on quality and on fused signals."""
    plain, pool = prms.arm_traces(trial), [thought(t) for t in prms.arm_pool(trial)]
    traces = [thought(t) for t in plain]
    judge = Noisy(TruthJudge(), 0.2, 0.2, seed=trial.seed)
    final = Followed(ArithmeticPolicy(), params=prms.params(trial)).judge(plain)
    labels = Fused(judge, Said.of("followed", final)).judge(traces)
    quality = [replace(each, values=each.aspects["quality"]) for each in labels]
    responses = judge.judge(plain)
    rewarded = [_with_final(*each) for each in zip(responses, final, strict=True)]
    rows = {
        "responses": (plain, responses, "mse"),
        "responses and trajectory rewards": (plain, rewarded, "step-and-trajectory"),
        "quality and trajectory rewards": (traces, quality, "step-and-trajectory"),
        "trajectories": (traces, labels, "step-and-trajectory"),
    }
    found = {
        name: prms.arm_training(trial, list(map(Judged, read, said)), TrainConfig(objective, lr=3e-4))
        for name, (read, said, objective) in rows.items()
    }
    said = {name: prms.arm_judge(trial, result).judge(pool) for name, result in found.items()}
    said["trajectories, steps alone"] = said["trajectories"]
    alone = ("responses", "trajectories, steps alone")
    scored = {
        name: [_valued(j, t, name not in alone) for j, t in zip(row, pool, strict=True)] for name, row in said.items()
    }
    spent = [*(r.cost for r in found.values()), *(j.cost for name in rows for j in said[name])]
    arms = {name: best_of_n(pool, row, "last") for name, row in scored.items()}
    return Outcome(arms, prms.spent_on(trial, final, ()) + Cost.total(spent))


def _with_final(steps: Judgement, final: Judgement) -> Judgement:
    """Labels of a response with the reward of the trajectory at the last step."""
    return replace(steps, aspects={"trajectory": (*(None,) * (len(steps.values) - 1), final.value)})


def thought(trace: Trajectory) -> Trajectory:
    """The solution as thinking, with a check of one step after it, and a response that restates its mathematics."""
    at = int(content_key("check", trace.key), 16) % max(1, len(trace.steps))
    check = [Step(f"Wait, let me check. {step.text}") for step in trace.steps[at : at + 1]]
    response = Step(" ".join(mathematics(step.text) for step in trace.steps))
    return replace(trace, steps=(*(step.without_ids() for step in trace.steps), *check, response))


def _valued(said: Judgement, trace: Trajectory, whole: bool) -> Judgement:
    """r̂ as the last value: of the thinking steps, and of the trajectory where that counts."""
    final = said.aspects["trajectory"][-1] if whole else 0.0
    score = sample_score(said.values[: thinking_steps(trace)] or said.values, final)
    return replace(said, values=(*said.values[:-1], score))
