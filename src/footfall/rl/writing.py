"""Who writes the completions that a policy is trained on, and what comes of a batch: ids that end as the trained model ends.

    engine       Footfall's, with the very weights that are trained
    trl          TRL itself, by transformers' generation or its vLLM
    a policy     any other, such as an OpenAI server; what it writes in another vocabulary is tokenised anew

What tools answered to a policy (`Step.observation`) stands between its steps as another's tokens, which are not trained on.
A problem that occurs again gets its next sample. Nothing depends on earlier calls, so a run that goes on writes the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from footfall.hashing import vocabulary_fingerprint
from footfall.policy.decoding import Request
from footfall.policy.protocol import Completion, Policy, Run, SamplingParams, sample_runs, sample_seed
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template, encode, prompt_ids
from footfall.types import Problem, Trajectory

Writer: TypeAlias = Literal["engine", "trl"] | Policy


class Written(NamedTuple):
    """A completion: its ids, the end token included."""

    ids: list[int]
    failure: str | None = None
    own: list[bool] | None = None
    """True at ids that the writer wrote itself. None: all."""


def runs_of(problems: Sequence[Problem], separator: str) -> list[Run]:
    """One sample of each problem, from its bare prompt."""
    indices = Counter[str]()
    found = []
    for problem in problems:
        found.append(Run(Trajectory(problem.id, problem, (), separator=separator), 1, indices[problem.id]))
        indices[problem.id] += 1
    return found


def refuse_too_long(problems: Sequence[Problem], model: Any, tokenizer: Any, template: Template, most: int) -> None:
    """Refuse problems behind whose prompt the engine has no room for `most` tokens, before a run comes upon one of them."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if limit is None:
        return
    around = len(prompt_ids(tokenizer, Problem("", "?"), template))
    found = {}
    for problem in problems:
        # A token is hardly ever less than a byte, so most prompts need not be tokenised.
        turns = 1 if isinstance(problem.prompt, str) else len(problem.prompt)
        if len(problem.text.encode()) + (1 + turns) * around + most > limit:
            length = len(prompt_ids(tokenizer, problem, template))
            if length + most > limit:
                found[problem.id] = length
    for name, length in found.items():
        raise ValueError(
            f"problem {name!r}: its prompt has {length} tokens and {most} may follow, where the model takes {limit} (so with "
            f"{len(found)} of {len(problems)} problems): leave such problems out, or lower the tokens of a completion"
        )


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


def by_policy(
    policy: Policy, runs: Sequence[Run], params: SamplingParams, tokenizer: Any, template: Template
) -> list[Written]:
    """What any other policy writes, in the trained model's ids: those it was sampled with, or its text tokenised."""
    found = []
    for run, (completion,) in zip(runs, sample_runs(policy, runs, params), strict=True):
        ids, own = _ids_of(completion, run.prefix, tokenizer, template)
        if not ids or (completion.finish == "end" and not (own[-1] and ids[-1] == tokenizer.eos_token_id)):
            ids, own = [*ids, tokenizer.eos_token_id], [*own, True]
        found.append(Written(ids, completion.error if completion.finish == "error" else None, own))
    return found


def _ids_of(
    completion: Completion, prefix: Trajectory, tokenizer: Any, template: Template
) -> tuple[list[int], list[bool]]:
    """A completion in the tokenizer's ids, and which of them are the writer's."""
    parts = [part for step in completion.steps for part in step.parts]
    sampled = completion.tokenizer in (None, vocabulary_fingerprint(tokenizer))
    if sampled and all(part.token_ids is not None for part in parts):
        return (
            [token for part in parts for token in part.token_ids or ()],
            [part.author == "policy" for part in parts for _ in part.token_ids or ()],
        )
    if all(part.author == "policy" for part in parts):
        text = prefix.separator.join(step.written for step in completion.steps)
        ids = tokenizer.encode(text, add_special_tokens=False)
        return ids, [True] * len(ids)
    steps = tuple(step.without_ids() for step in completion.steps)
    reading = encode(tokenizer, Trajectory(prefix.id, prefix.problem, steps, separator=prefix.separator), template)
    ids, own = list(reading.ids[reading.prompt_length :]), list(reading.policy_mask[reading.prompt_length :])
    last = tokenizer.encode(prefix.separator, add_special_tokens=False)
    if ids[-len(last) :] == last:  # it stands between steps, and behind the last one nothing follows
        del ids[-len(last) :], own[-len(last) :]
    return ids, own
