"""AURORA: Automated Training Framework of Universal Process Reward Models via Ensemble Prompting and Reverse Verification
(Tan et al., arXiv 2502.11520).

A language model grades all steps of a solution under several prompts p, each reply a list v_p of 0 and 1:

    label_k = 1[ Σ_p v_pk > P/2 ],  a tie is wrong, and so is every step after the first wrong one

The prompts hold the reference answer (reverse verification): a verdict that does not go with it can be thought over.

What differs: the grader is a scripted critic that gets the very prompts and errs at known rates, for want of knowledge (5% of
steps, under all prompts alike), misled by the wording (10%, each prompt in other places) and by chance (5%); with the
reference in view it looks again at what does not go with it. That prompts mislead in different places is the paper's
premise and is put in here; what is measured is what votes, ties, unreadable replies and the cut make of it. Four samples
of one prompt cost as much as the ensemble and are reported beside it. Labels are compared with the truth; no model is
trained on them.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.label.critic import ScriptedCritic
from footfall.label.prompted import PromptedJudge, cut_after_error, prompted
from footfall.types import Cost, Judgement
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

RECIPE = Recipe(
    name="aurora",
    paper="AURORA: Automated Training Framework of Universal Process Reward Models via Ensemble Prompting and Reverse "
    "Verification",
    arxiv="2502.11520",
    year=2025,
    stage="data",
    world="arithmetic",
    scale="300 traces a seed by the scripted policy, graded by a scripted critic through the real prompts.",
    claims=(
        Claim(
            "An ensemble of prompts labels steps better than one prompt.",
            metric="share of a trace's steps labelled as the truth says",
            direction="higher", baseline="one prompt", method="four prompts", beside=("one prompt, four samples",),
            stand_in="The paper's figure is ProcessBench F1 of a PRM trained on the labels; here the labels of a "
            "scripted critic are compared with the truth.",
        ),
        Claim(
            "Labels are better with the reference answer in view (reverse verification).",
            metric="share of a trace's steps labelled as the truth says",
            direction="higher", baseline="four prompts, no reference", method="four prompts",
            beside=("one prompt, no reference",),
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """The share of steps labelled rightly by one prompt and by four, with and without the reference."""
    traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), trial.size(300, 10), trial.seed)]
    critic = ScriptedCritic(traces, seed=trial.seed)
    arms: dict[str, PromptedJudge] = {
        "one prompt": prompted(critic),
        "one prompt, no reference": prompted(critic, reference=False),
        "one prompt, four samples": prompted(critic, n=4),
        "four prompts": prompted(critic, prompts="all"),
        "four prompts, no reference": prompted(critic, prompts="all", reference=False),
    }
    truth = [cut_after_error([int(value or 0) for value in said.values]) for said in TruthJudge().judge(traces)]
    judged = {name: judge.judge(traces) for name, judge in arms.items()}
    shares = {name: list(map(_right, said, truth)) for name, said in judged.items()}
    return Outcome(shares, Cost.total(each.cost for said in judged.values() for each in said))


def _right(said: Judgement, truth: list[int | None]) -> float:
    """Share of the steps with the true label; a step without a label has none."""
    return sum(value == true for value, true in zip(said.values, truth, strict=True)) / len(truth)
