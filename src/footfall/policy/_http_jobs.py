"""What turns jobs into questions for a server and its answers into completions.

Kept apart from the policy because nothing here waits, retries or touches the network: the same job and the same answer
always give the same question and the same completions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from footfall.encoding import Template, Tokenizer, encode, fingerprint
from footfall.policy._http_client import AttemptError, Outcome, Question, ServerRefusedError
from footfall.policy._http_steps import Cutter, StepStop
from footfall.policy._http_wire import Mode, Reply, messages, read_reply, sampling_fields
from footfall.policy.protocol import Completion, SamplingParams, sample_seed
from footfall.types import Cost, Json, Step, Trajectory

__all__ = ["Form", "Job", "among", "check_prefix", "likeliest"]

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


@dataclass(frozen=True)
class Form:
    """How a policy words its requests and reads the replies. The fields are those of `HttpPolicy`, told of there."""

    mode: Mode
    template: str
    system: str | None
    logprobs: bool
    neutral: bool
    step_stop: StepStop
    tokenizer: Tokenizer | None
    extra: Mapping[str, Json]

    def __post_init__(self) -> None:
        if self.mode not in _PATHS:
            raise ValueError(f"mode={self.mode!r}; there are 'completions' and 'chat'")
        if self.template.count("{prompt}") != 1 or not self.template.endswith("{steps}"):
            raise ValueError(f"template={self.template!r} must hold {{prompt}} once and end with {{steps}}")
        if self.mode == "completions" and self.system is not None:
            raise ValueError("completions mode has no system message; write it into the template")
        if self.mode == "chat" and self.tokenizer is not None:
            raise ValueError("chat mode sends text; use mode='completions' to send token ids")
        if clash := _OWN_FIELDS & set(self.extra):
            raise ValueError(f"extra may not hold {', '.join(sorted(clash))}: the policy itself sets them")

    @property
    def vocabulary(self) -> str | None:
        """The fingerprint of the tokenizer whose ids are sent and kept."""
        return None if self.tokenizer is None else fingerprint(self.tokenizer)

    def question(self, job: Job, params: SamplingParams, model: str) -> Question:
        """The request that asks for a job's samples."""
        # 31 bits: llama.cpp and numpy-based servers take no longer seed.
        seed = sample_seed(params, job.prefix, job.indices[0]) >> 32
        body = {"model": model, **self._prompt(job.prefix, job.begun)}
        body.update(sampling_fields(params, seed, len(job.indices), self.neutral))
        if params.until == "step" and self.step_stop != "cut":
            body["stop"] = [job.prefix.separator]
        if self.logprobs:
            body.update(self._likeliest_fields(1))
        if self.logprobs and self.tokenizer is not None:
            body["return_token_ids"] = True
        body.update(self.extra)
        return Question(f"{job.prefix.key[:12]}-{job.position}-{job.indices[0]}", _PATHS[self.mode], body)

    def next_token_question(self, job: Job, params: SamplingParams, model: str) -> Question:
        """The same, asking for the 20 likeliest tokens in each place, which `likeliest` then reads."""
        question = self.question(job, params, model)
        return question._replace(body={**(question.body or {}), **self._likeliest_fields(20)})

    def _likeliest_fields(self, count: int) -> dict[str, Json]:
        return {"logprobs": count} if self.mode == "completions" else {"logprobs": True, "top_logprobs": count}

    def _prompt(self, prefix: Trajectory, begun: Step | None) -> dict[str, Json]:
        """A fragment is the last thing in the prompt: nothing comes between it and what is written next."""
        if self.mode == "chat":
            return messages(prefix, self.system)
        before, after = self.template.removesuffix("{steps}").split("{prompt}")
        prompt = before + prefix.problem.text + after
        if self.tokenizer is None:
            return {"prompt": prompt + (prefix.text if begun is None else prefix.text.removesuffix(prefix.separator))}
        asked = replace(prefix, problem=replace(prefix.problem, prompt=prompt))
        plain = Template("plain", prompt_end="")
        if begun is None or (begun.token_ids and prefix.tokenizer == self.vocabulary):
            return {"prompt": encode(self.tokenizer, asked, plain).ids}
        known = encode(self.tokenizer, asked.prefix(len(asked.steps) - 1), plain).ids
        return {"prompt": (*known, *self.tokenizer.encode(begun.text, add_special_tokens=False))}

    def reply(self, payload: object, n: int, until: str, url: str) -> Reply:
        """The answer's `n` choices; `ServerRefusedError` naming the `url` if they do not say where a step ended."""
        reply = read_reply(payload, self.mode, n)
        unsaid = any(choice.finish == "stop" and not choice.tells_stop for choice in reply.choices)
        if unsaid and until == "step" and self.step_stop == "reported":
            raise ServerRefusedError(
                f"{url} does not say whether a sample ended at the step's separator or at the end of the "
                "answer; pass step_stop='cut' (exact, pays for the tokens cut off) or step_stop='assumed'"
            )
        return reply

    def completions(
        self, job: Job, outcome: Outcome[Reply], params: SamplingParams, share: float, tell: Callable[[str], None]
    ) -> Iterator[Completion]:
        """The samples of one request; its cost is on the first, so that costs add up. `tell` hears what is amiss."""
        cost = _cost(outcome, share)
        unfinished_turn = self.mode == "chat" and bool(job.prefix.steps)
        keep_ids = self.tokenizer is not None
        cutter = Cutter(job.prefix.separator, params.until, self.step_stop, unfinished_turn, keep_ids, job.begun)
        for k, index in enumerate(job.indices):
            own_cost = cost if k == 0 else Cost()
            if outcome.value is None:
                yield Completion((), "error", index, error=outcome.error, cost=own_cost)
                continue
            written = cutter.read(outcome.value.choices[k])
            if not written.spelled:
                tell("the server's tokens do not spell its text; logprobs of such samples are left out")
            if outcome.value.usage is None:
                tell("the server sends no usage; the token counts of its samples are 0")
            yield Completion(written.steps, written.finish, index, self.vocabulary, written.error, own_cost)


def _cost(outcome: Outcome[Reply], share: float) -> Cost:
    cost = Cost(calls=outcome.calls, seconds=outcome.seconds * share)
    usage = outcome.value.usage if outcome.value is not None else None
    return cost if usage is None else cost + Cost(usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens)


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
