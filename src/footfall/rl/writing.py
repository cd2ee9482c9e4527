"""Who writes the completions that a policy is trained on, and what comes of a batch: ids that end as the trained model ends.

    engine       Footfall's, with the very weights that are trained
    trl          TRL itself, by transformers' generation or its vLLM
    a policy     any other, such as an OpenAI server; what it writes in another vocabulary is tokenised anew

A problem that occurs again gets its next sample. Nothing depends on earlier calls, so a run that goes on writes the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from footfall.policy.decoding import Request
from footfall.policy.protocol import Policy, Run, SamplingParams, sample_runs, sample_seed
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template, prompt_ids
from footfall.types import Problem, Trajectory, sampled_ids

Writer: TypeAlias = Literal["engine", "trl"] | Policy


class Written(NamedTuple):
    """A completion: its ids, the end token included."""

    ids: list[int]
    failure: str | None = None


def runs_of(problems: Sequence[Problem], separator: str) -> list[Run]:
    """One sample of each problem, from its bare prompt."""
    indices = Counter[str]()
    found = []
    for problem in problems:
        found.append(Run(Trajectory(problem.id, problem, (), separator=separator), 1, indices[problem.id]))
        indices[problem.id] += 1
    return found


def by_engine(policy: TorchPolicy, runs: Sequence[Run], params: SamplingParams, template: Template) -> list[Written]:
    """What the engine of a policy writes, whatever it has kept of earlier batches."""
    policy.forget()
    problems = {id(run.prefix.problem): run.prefix.problem for run in runs}
    prompts = {name: tuple(prompt_ids(policy.tokenizer, each, template)) for name, each in problems.items()}
    requests = [
        Request(prompts[id(run.prefix.problem)], sample_seed(params, run.prefix, run.first), params.max_tokens)
        for run in runs
    ]
    found = policy.engine.generate(requests, params)
    return [Written(each.tokens + ([] if each.end is None else [each.end])) for each in found]


def by_policy(policy: Policy, runs: Sequence[Run], params: SamplingParams, tokenizer: Any) -> list[Written]:
    """What any other policy writes, in the trained model's ids: those it was sampled with, or its text tokenised."""
    found = []
    for run, (completion,) in zip(runs, sample_runs(policy, runs, params), strict=True):
        steps = completion.steps
        if steps and all(step.token_ids is not None for step in steps):
            ids = list(sampled_ids(steps))
        else:
            ids = tokenizer.encode(run.prefix.separator.join(step.written for step in steps), add_special_tokens=False)
        ended = completion.finish == "end" or not ids
        found.append(
            Written(ids + [tokenizer.eos_token_id] * ended, completion.error if completion.finish == "error" else None)
        )
    return found
