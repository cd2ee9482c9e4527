"""A generative reward model at lab scale: the trial's model learns to write, behind a solution, a digit a step and a verdict.

question: problem and solution      answer: "1 1 0 no", or "1 1 1 yes"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from footfall.lab.recipe import Trial
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.train.active import until_first_error
from footfall.types import Judgement, Step, Trajectory


def flawless(said: Judgement) -> bool:
    """Whether every step is called right."""
    return all(value == 1 for value in said.values)


def asked_about(trace: Trajectory) -> Trajectory:
    """The solution as part of a question that is to be answered by a verification."""
    problem = replace(trace.problem, prompt=f"{trace.problem.text}\n{trace.text}")
    return Trajectory(trace.id, problem, separator="\n")


def verified(trace: Trajectory, said: Judgement) -> Trajectory:
    """The question with its answer: a digit a step up to the first error, and the verdict."""
    digits = " ".join(f"{value:g}" for value in said.values if value is not None)
    return replace(asked_about(trace), steps=(Step(f"{digits} {'yes' if flawless(said) else 'no'}"),))


def lessons(
    traces: Sequence[Trajectory], truths: Sequence[Judgement], teacher: Sequence[Judgement]
) -> tuple[list[Trajectory], list[Trajectory]]:
    """A teacher's verifications whose verdict fits the outcome, and those that fit the truth of every step."""
    told = list(zip(traces, map(until_first_error, truths), map(until_first_error, teacher), strict=True))
    by_outcome = [verified(trace, said) for trace, _, said in told if flawless(said) == bool(trace.correct)]
    return by_outcome, [verified(trace, said) for trace, truth, said in told if said.values == truth.values]


def generated(trial: Trial, taught: Sequence[Trajectory], asked: Sequence[Trajectory], readings: int) -> list[float]:
    """The mean of so many sampled verdicts on each solution, after these lessons; one that is none counts as one half."""
    from torch.nn import Module

    from footfall.lab.shared.prms import policy as writer
    from footfall.train.imitation import ImitationConfig, imitate

    policy = writer(trial)
    Module.float(policy.engine.model)  # what is trained must not be half precision, as a writer on CUDA is
    config = ImitationConfig(lr=5e-4, epochs=trial.size(3, 1), batch_tokens=4096, seed=trial.seed)
    imitate(policy.engine.model, policy.tokenizer, taught, policy.template, config)
    params = SamplingParams(temperature=0.6, max_tokens=40, seed=trial.seed)
    written = draw_traces(policy, list(map(asked_about, asked)), readings, params)
    texts = [["".join(step.text for step in trace.steps) for trace in row] for row in written]
    return [fmean(1.0 if t.endswith("yes") else 0.0 if t.endswith("no") else 0.5 for t in row) for row in texts]
