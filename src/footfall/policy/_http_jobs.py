"""What turns jobs into questions for a server and its answers into completions.

Kept apart from the policy because nothing here waits, retries or touches the network: the same job and the same answer
always give the same question and the same completions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from footfall.encoding import Template, encode, fingerprint
from footfall.policy._http_client import AttemptError, Outcome, Question, ServerRefusedError
from footfall.policy._http_steps import Cutter
from footfall.policy._http_wire import TELL_STOP, Mode, Reply, messages, read_reply, sampling_fields, turn_of
from footfall.policy.protocol import Completion, SamplingParams, sample_seed
from footfall.types import Cost, Json, Step, Trajectory

if TYPE_CHECKING:
    from footfall.policy.http import HttpPolicy

__all__ = [
    "UNCOUNTED", "Job", "among", "check_prefix", "check_wording", "completions", "likeliest", "next_token_question",
    "question", "read", "vocabulary",
]  # fmt: skip

UNCOUNTED = "the server sends no usage; the token counts of its samples are 0"
_PATHS: dict[Mode, str] = {"completions": "/completions", "chat": "/chat/completions"}
_OWN_FIELDS = frozenset(
    {"model", "messages", "prompt", "stop", "stream", "max_tokens", "temperature", "top_p", "seed", "n"}
)


class Job(NamedTuple):
    """One request: the samples `indices` of the prefix at `position`."""

    position: int
    prefix: Trajectory
    indices: tuple[int, ...]
    begun: Step | None = None
    """The prefix's last step, if it is a fragment to go on with."""


def check_wording(policy: HttpPolicy) -> None:
    """Refuse settings that no request could be made from."""
    if policy.mode not in _PATHS:
        raise ValueError(f"mode={policy.mode!r}; there are 'completions' and 'chat'")
    if policy.template.count("{prompt}") != 1 or not policy.template.endswith("{steps}"):
        raise ValueError(f"template={policy.template!r} must hold {{prompt}} once and end with {{steps}}")
    if policy.mode == "completions" and policy.system is not None:
        raise ValueError("completions mode has no system message; write it into the template (--template)")
    if policy.mode == "chat" and policy.tokenizer is not None:
        raise ValueError("chat mode sends text; use mode='completions' (--mode completions) to send token ids")
    if clash := _OWN_FIELDS & set(policy.extra):
        raise ValueError(f"extra may not hold {', '.join(sorted(clash))}: the policy itself sets them")


def vocabulary(policy: HttpPolicy) -> str | None:
    """The fingerprint of the tokenizer whose ids are sent and kept."""
    return None if policy.tokenizer is None else fingerprint(policy.tokenizer)


def question(policy: HttpPolicy, job: Job, params: SamplingParams) -> Question:
    """The request that asks for a job's samples."""
    # 31 bits: llama.cpp and numpy-based servers take no longer seed.
    seed = sample_seed(params, job.prefix, job.indices[0]) >> 32
    body = {"model": policy.served_model, **_prompt(policy, job.prefix, job.begun)}
    body.update(sampling_fields(params, seed, len(job.indices), policy.neutral))
    if params.until == "step" and policy.step_stop != "cut":
        body["stop"] = [job.prefix.separator]
        if policy.neutral and policy.step_stop == "reported":
            body.update(TELL_STOP)
    if policy.logprobs:
        body.update(_likeliest_fields(policy.mode, 1))
    if policy.logprobs and policy.tokenizer is not None:
        body["return_token_ids"] = True
    body.update(policy.extra)
    return Question(f"{job.prefix.key[:12]}-{job.position}-{job.indices[0]}", _PATHS[policy.mode], body)


def next_token_question(policy: HttpPolicy, job: Job, params: SamplingParams) -> Question:
    """The same, asking for the 20 likeliest tokens in each place, which `likeliest` then reads."""
    asked = question(policy, job, params)
    return asked._replace(body={**(asked.body or {}), **_likeliest_fields(policy.mode, 20)})


def _likeliest_fields(mode: Mode, count: int) -> dict[str, Json]:
    return {"logprobs": count} if mode == "completions" else {"logprobs": True, "top_logprobs": count}


def _prompt(policy: HttpPolicy, prefix: Trajectory, begun: Step | None) -> dict[str, Json]:
    """A fragment is the last thing in the prompt: nothing comes between it and what is written next."""
    if policy.mode == "chat":
        return messages(prefix, policy.system, begun is not None)
    before, after = policy.template.removesuffix("{steps}").split("{prompt}")
    prompt = before + prefix.problem.text + after
    if policy.tokenizer is None:
        return {"prompt": prompt + turn_of(prefix, begun is not None)}
    asked = replace(prefix, problem=replace(prefix.problem, prompt=prompt))
    plain = Template("plain", prompt_end="")
    if begun is None or (begun.token_ids and prefix.tokenizer == vocabulary(policy)):
        return {"prompt": encode(policy.tokenizer, asked, plain).ids}
    known = encode(policy.tokenizer, asked.prefix(len(asked.steps) - 1), plain).ids
    return {"prompt": (*known, *policy.tokenizer.encode(begun.text, add_special_tokens=False))}


def read(policy: HttpPolicy, job: Job, until: str, payload: object) -> Reply:
    """The answer's choices; `ServerRefusedError` naming the server if they do not say where a step ended."""
    reply = read_reply(payload, policy.mode, len(job.indices))
    unsaid = any(choice.finish == "stop" and not choice.tells_stop for choice in reply.choices)
    if unsaid and until == "step" and policy.step_stop == "reported":
        raise ServerRefusedError(
            f"{policy.server.url} does not say whether a sample ended at the step's separator or at the end of the "
            "answer; pass step_stop='cut' (--step-stop cut; exact, pays for the tokens cut off) or step_stop='assumed' "
            "(--step-stop assumed)"
        )
    return reply


def completions(
    policy: HttpPolicy, job: Job, outcome: Outcome[Reply], params: SamplingParams, share: float
) -> Iterator[tuple[Completion, Job | None]]:
    """The samples of one request; its cost is on the first, so that costs add up.

    With a sample that stopped before its step had any text (a blank line more, where steps are lines) goes the job to go on
    from there, as a model in this process does.
    """
    cost = _cost(outcome, share)
    turn = turn_of(job.prefix, job.begun is not None) if policy.mode == "chat" else ""
    keep_ids = policy.tokenizer is not None
    cutter = Cutter(job.prefix.separator, params.until, policy.step_stop, turn, keep_ids, job.begun)
    for k, index in enumerate(job.indices):
        own_cost = cost if k == 0 else Cost()
        if outcome.value is None:
            yield Completion((), "error", index, error=outcome.error, cost=own_cost), None
            continue
        written = cutter.read(outcome.value.choices[k])
        if not written.spelled:
            policy.tell_once("the server's tokens do not spell its text; logprobs of such samples are left out")
        if outcome.value.usage is None and not _listed_tokens(outcome.value):
            policy.tell_once(UNCOUNTED)
        onwards = None if written.blank is None else _after_blank(job, index, written.blank)
        yield Completion(written.steps, written.finish, index, vocabulary(policy), written.error, own_cost), onwards


def _after_blank(job: Job, index: int, blank: Step) -> Job:
    before = job.prefix if job.begun is None else job.prefix.prefix(len(job.prefix.steps) - 1)
    return Job(job.position, before.extend([blank]), (index,), blank)


def _cost(outcome: Outcome[Reply], share: float) -> Cost:
    """A request counts once, however often it had to be tried: a server that dies and returns costs only time."""
    cost = Cost(calls=min(outcome.calls, 1), seconds=outcome.seconds * share)
    if outcome.value is None:
        return cost
    usage = outcome.value.usage
    if usage is None:
        return cost + Cost(generated_tokens=_listed_tokens(outcome.value))
    return cost + Cost(usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens)


def _listed_tokens(reply: Reply) -> int:
    """The tokens that a server lists with their logprobs, where it sends no usage."""
    return sum(len(choice.tokens or ()) for choice in reply.choices)


def check_prefix(prefix: Trajectory, params: SamplingParams) -> None:
    """Refuse what no request could ask for."""
    if params.until == "step" and not prefix.separator:
        raise ValueError(f"trajectory {prefix.id!r} has an empty separator, so no step can be told from the next")
    if prefix.problem.images or any(step.images for step in prefix.steps):
        raise ValueError(f"trajectory {prefix.id!r} has images; the http policy sends text only")


def likeliest(payload: object) -> dict[str, float]:
    """Texts and logprobs of the likeliest first tokens of an answer; none if the server leaves them out.

    Completions has an object for each token, chat (and llama.cpp everywhere) a list of rows.
    """
    found: object = payload
    for key in ("choices", 0, "logprobs"):
        found = _item(found, key)
    rows = _item(_item(_item(found, "content"), 0), "top_logprobs")
    table = _item(_item(found, "top_logprobs"), 0)
    pairs = table.items() if isinstance(table, dict) else []
    if isinstance(rows, list):
        pairs = [(_item(row, "token"), _item(row, "logprob")) for row in rows]
    for token, value in pairs:
        if not isinstance(token, str) or not isinstance(value, int | float) or not math.isfinite(value):
            raise AttemptError(f"top_logprobs holds {token!r}: {value!r} where a token and a number belong")
    return {token: float(value) for token, value in pairs}


def _item(found: object, key: str | int) -> object:
    """`found[key]`, or None if there is no such thing."""
    if isinstance(key, int):
        return found[key] if isinstance(found, list) and len(found) > key else None
    return found.get(key) if isinstance(found, dict) else None


def among(listed: Mapping[str, float], options: Sequence[str]) -> tuple[float | None, ...]:
    """The logprob of the longest listed token that this option alone begins with; the smallest one if there is none."""
    if not listed:
        return (None,) * len(options)
    own: dict[str, float] = {}
    for token in sorted(listed, key=len):
        begun = [option for option in options if token and option.startswith(token)]
        if len(begun) == 1:
            own[begun[0]] = listed[token]
    return tuple(own.get(option, min(listed.values())) for option in options)
