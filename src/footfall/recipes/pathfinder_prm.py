"""PathFinder-PRM: Error Typing for Smarter Rewards (Pala et al., arXiv 2505.19706).

A step is judged in two passes: is its mathematics right, does it fit what stands before; and then, given both verdicts, is it
good. A causal LM fills label slots of a template,

    Math reasoning: A, Consistency: B        and        Math reasoning: A, Consistency: B, Correctness: O

and is trained on both, with a loss on the slots alone. A step with a bad mark is worth −1, others the value of the last slot.

What differs: errors are typed by the world, not by a language model: a wrong equation is one of mathematics, any other wrong
step one of consistency. There is no third label, since no step of this world is right and idle. The PRM without types has the
same template and learns correctness given good marks, in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.label.error_types import ErrorTypes
from footfall.loading import load_tokenizer
from footfall.reward.backbone import add_marker, load_backbone
from footfall.reward.checkpoint import Options
from footfall.reward.config import PRMConfig
from footfall.reward.families.pathfinder import pathfinder
from footfall.reward.heads import linear_head
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.train.config import TrainConfig
from footfall.train.prm import train_prm
from footfall.types import Cost, Judge, Judged, Judgement, Trajectory
from footfall.worlds import TruthJudge
from footfall.worlds.arithmetic.problem import SYMBOLS, is_exact

RECIPE = Recipe(
    name="pathfinder-prm",
    paper="Error Typing for Smarter Rewards: Improving Process Reward Models with Error-Aware Hierarchical Supervision",
    arxiv="2505.19706",
    year=2025,
    stage="train",
    world="arithmetic",
    scale="PRMs of the lab's model (9.5M parameters) on the truth of 600 traces; a seed has 4,000 solutions of 500 held-out "
    "problems.",
    claims=(
        Claim(
            "A PRM that types errors before it values a step finds first errors better than one that values it at once.",
            metric="F1 of the first error", direction="higher", baseline="correctness alone", method="error types",
            beside=("step head",), threshold="other data",
            stand_in="The paper's main figure is the PRMScore on PRMBench; first errors it measures on ProcessBench.",
        ),
        Claim(
            "It gives better best-of-N than one that values steps at once.",
            metric="accuracy, best of 8", direction="higher",
            baseline="correctness alone, best of 8", method="error types, best of 8", beside=("step head, best of 8",),
            stand_in="The paper guides greedy search with it; here it chooses among the same 8 solutions.",
        ),
    ),
)  # fmt: skip
TURNS = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
EQUATION = re.compile(r"([0-9]{1,9}) ([-+*/]) ([0-9]{1,9}) = ([0-9]{1,9})")


@dataclass(frozen=True)
class Typed:
    """Knows the kind of each error: 1 for a right step and −1 for a wrong one, and the aspects say what is wrong."""

    name: str = "typed"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(t, said) for t, said in zip(trajectories, TruthJudge().judge(trajectories), strict=True)]

    def _judge(self, trace: Trajectory, truth: Judgement) -> Judgement:
        right = [value == 1 for value in truth.values]
        exact = [
            all(
                is_exact(SYMBOLS["+-*/".index(s)], int(a), int(b), int(c)) for a, s, b, c in EQUATION.findall(step.text)
            )
            for step in trace.steps
        ]
        fits = (float(r or not e) for r, e in zip(right, exact, strict=True))
        marks = {"math": tuple(map(float, exact)), "consistency": tuple(fits)}
        return replace(truth, values=tuple(1.0 if r else -1.0 for r in right), judge=self.name, aspects=marks)


def measure(trial: Trial) -> Outcome:
    """First-error F1 and best-of-8 with typed errors and without."""
    trial, problems = prms.large(trial), trial.size(500, 2)
    traces, pool = prms.arm_traces(trial)[: trial.size(600, 4)], prms.arm_pool(trial)[: problems * prms.POOL]
    rows = list(map(Judged, traces, ErrorTypes(Typed(), (Typed(),)).judge(traces)))
    trained = {"step head": prms.arm(trial, rows, "bce", threshold=0.5)}
    config = TrainConfig(lr=3e-4, epochs=trial.size(2, 1), eval_share=0, seed=trial.seed, device=trial.device)
    for name, objective in (("error types", "error-types"), ("correctness alone", "ce")):
        model = _begun(trial)
        result = train_prm(rows, model, replace(config, objective=objective), trial.folder / objective)
        judge: Judge = PRMJudge(model) if objective == "ce" else Options(cache_tokens=100_000).judge(model)
        said = judge.judge(pool)
        trained[name] = prms.Arm(said, Cost.total([result.cost, *(each.cost for each in said)]))
    return Outcome(prms.figures(trial, trained, problems=problems), prms.spent_on(trial, (), trained.values()))


def _begun(trial: Trial) -> PRM:
    """The lab's decoder in the family's template, with its three tokens and a fresh head."""
    source, family = str(prms.backbone(trial)), pathfinder()
    backbone, tokenizer = load_backbone(source, dtype=torch.float32), load_tokenizer(source)
    tokenizer.chat_template = TURNS
    for token in family.match.tokens:
        add_marker(tokenizer, backbone, token)
    head = linear_head(backbone.config.hidden_size, 2, trial.seed)
    config = PRMConfig(source, family.name, head=head.settings, readout=family.readout, max_length=1024)
    return PRM(backbone, tokenizer, config, head=head).to(trial.device)
