"""A policy behind any OpenAI-compatible server (vLLM, SGLang, llama.cpp), named by its URL.

What makes it dependable:
- one request a sample, each with its own seed, so that sample `index` is the same however many are asked for, as far as
  the server honours `seed` (vLLM does; SGLang with --enable-deterministic-inference);
- each (prefix, index) gives exactly one completion, in order. A request that fails after its retries is a completion
  with `finish="error"` and the reason; what can never work (wrong key, model or field) raises `ServerRefusedError`;
- the server's own sampling defaults are switched off (`neutral`), so that `SamplingParams` says all there is to say.

Logprobs are the server's: at temperature 1 on vLLM, on SGLang only with SGLANG_RETURN_ORIGINAL_LOGPROB=1.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple, TypeVar, cast

from footfall.encoding import Template, Tokenizer, check_round_trip, encode, fingerprint
from footfall.policy._http_client import (
    AttemptError,
    Outcome,
    Question,
    Server,
    ServerRefusedError,
    Session,
    run_in_thread,
)
from footfall.policy._http_steps import Cutter, StepStop
from footfall.policy._http_wire import Mode, Reply, messages, model_ids, read_reply, sampling_fields
from footfall.policy.protocol import Completion, SamplingParams, sample_seed
from footfall.registry import register
from footfall.types import Cost, Json, Step, Trajectory, content_key

__all__ = ["HttpPolicy", "Server", "ServerRefusedError", "http_policy"]

log = logging.getLogger(__name__)
T = TypeVar("T")

_PATHS: dict[Mode, str] = {"completions": "/completions", "chat": "/chat/completions"}
_OWN_FIELDS = frozenset(
    {"model", "messages", "prompt", "stop", "stream", "max_tokens", "temperature", "top_p", "seed", "n"}
)


class _Job(NamedTuple):
    """One request: the samples `indices` of the prefix at `position`."""

    position: int
    prefix: Trajectory
    indices: tuple[int, ...]
    begun: Step | None = None
    """The prefix's last step, if it is a fragment to go on with."""


@dataclass(frozen=True)
class HttpPolicy:
    """Writes steps by asking a server. Synchronous outside; inside, `server.concurrency` requests may be in flight."""

    server: Server
    model: str | None = None
    """`None` asks the server, which must then serve one model only."""
    mode: Mode = "completions"
    template: str = "{prompt}\n{steps}"
    """Of completions mode: the problem's text and the steps so far, each with its separator."""
    system: str | None = None
    """Of chat mode: a system message put in front."""
    logprobs: bool = True
    neutral: bool = True
    """Send the fields that switch off the server's own defaults (top_k, min_p, penalties). Strict servers refuse them."""
    step_stop: StepStop = "reported"
    """How `until="step"` learns that the separator, not the end of the answer, stopped a sample. `reported`: the server
    says so (vLLM, SGLang). `cut`: send no stop string and cut the text here; exact on every server, but pays for the
    tokens thrown away. `assumed`: every stop is a step, so the end of an answer is never noticed."""
    batch_n: bool = False
    """One request with server-side n for each prefix: faster, but which sample an index names then depends on `n` and
    `first`, and the first sample of a request carries the cost of all."""
    tokenizer: Tokenizer | None = None
    """The model's tokenizer: prompts then go as ids, tokenised step by step, and sampled ids are kept (vLLM)."""
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Further fields of every request, e.g. `{"chat_template_kwargs": {"enable_thinking": False}}`."""
    _accepted: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _told: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

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
    def name(self) -> str:
        """Model and prompt format. Not the address: a server that moved to another port still writes the same."""
        form = [self.template if self.mode == "completions" else self.system, self._vocabulary]
        form_key = content_key(form, self.neutral, self.batch_n, dict(self.extra))
        return f"http:{self.served_model}:{self.mode}:{form_key[:8]}"

    @property
    def _vocabulary(self) -> str | None:
        return None if self.tokenizer is None else fingerprint(self.tokenizer)

    @cached_property
    def served_model(self) -> str:
        """The model's name on the server, asked for once if it was not given."""
        if self.model is not None:
            return self.model
        found = run_in_thread(self._ask_models)
        if found.value is None:
            raise ConnectionError(f"{self.server.url} does not answer: {found.error}; is the server running?")
        if len(found.value) != 1:
            raise ValueError(f"{self.server.url} serves {', '.join(found.value) or 'no model'}; name one by model=")
        return found.value[0]

    async def _ask_models(self) -> Outcome[tuple[str, ...]]:
        session = Session(self.server, set())
        async with session.client:
            return await session.ask(Question("models", "/models"), model_ids)

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix, in order; a failed one says so in `finish` and `error`."""
        return self._write(prefixes, n, params, first, [None] * len(prefixes))

    def resume(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """The same for prefixes whose last step is unfinished: a completion begins with that step, now whole.

        The server reads the fragment as text and may cut it into other tokens than it wrote; with `tokenizer` it gets the ids.
        """
        if self.mode == "chat":
            raise ValueError(
                f"{self.server.url}: a chat server cannot be relied on to go on in the middle of a step, since chat templates "
                "may trim or close the last turn; use mode='completions' (--mode completions)"
            )
        for prefix in prefixes:
            if not prefix.steps or not prefix.steps[-1].text.strip():
                raise ValueError(f"trajectory {prefix.id!r} has no unfinished step to go on with")
        return self._write(prefixes, n, params, first, [prefix.steps[-1] for prefix in prefixes])

    def _write(
        self, prefixes: Sequence[Trajectory], n: int, params: SamplingParams, first: int, begun: Sequence[Step | None]
    ) -> list[list[Completion]]:
        """`begun` are the steps that prefixes end in the middle of."""
        for prefix in prefixes:
            _check(prefix, params)
        indices = tuple(range(first, first + n))
        groups = [indices] if self.batch_n else [(index,) for index in indices]
        places = enumerate(zip(prefixes, begun, strict=True))
        jobs = [_Job(i, prefix, group, step) for i, (prefix, step) in places for group in groups if group]
        written: list[list[Completion]] = [[] for _ in prefixes]
        if not jobs:
            return written
        model = self.served_model
        started = time.perf_counter()
        asked = [
            (self._question(job, params, model), partial(self._parse, n=len(job.indices), until=params.until))
            for job in jobs
        ]
        outcomes = run_in_thread(lambda: self._run(asked))
        # Requests overlap: each gets its share of the wall clock, so that the seconds of all add up to it.
        share = (time.perf_counter() - started) / (sum(outcome.seconds for outcome in outcomes) or 1.0)
        for job, outcome in zip(jobs, outcomes, strict=True):
            written[job.position].extend(self._completions(job, outcome, params, share))
        return written

    def choices(self, prefixes: Sequence[Trajectory], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        """From the 20 likeliest next tokens; an option that is not among them takes the smallest of their logprobs.

        All are `None` where the server gives no logprobs or no answer.
        """
        if len(set(options)) < len(options):
            raise ValueError(f"the options {', '.join(map(repr, options))} must differ")
        params = SamplingParams(max_tokens=1)
        for prefix in prefixes:
            _check(prefix, params)
        if not prefixes or not self.logprobs:
            return [(None,) * len(options) for _ in prefixes]
        more = {"logprobs": 20} if self.mode == "completions" else {"logprobs": True, "top_logprobs": 20}
        asked = []
        for i, prefix in enumerate(prefixes):
            question = self._question(_Job(i, prefix, (0,)), params, self.served_model)
            asked.append((question._replace(body={**(question.body or {}), **more}), _likeliest))
        outcomes = run_in_thread(lambda: self._run(asked))
        for reason in {outcome.error for outcome in outcomes if outcome.error is not None}:
            self._tell_once(f"a question about the next token was not answered: {reason}")
        return [_among(outcome.value or {}, options) for outcome in outcomes]

    async def _run(self, asked: Sequence[tuple[Question, Callable[[object], T]]]) -> list[Outcome[T]]:
        """As many workers as requests may be in flight; a worker that waits to retry asks nothing else meanwhile."""
        outcomes: dict[int, Outcome[T]] = {}
        queue = iter(enumerate(asked))
        session = Session(self.server, self._accepted)

        async def work() -> None:
            for i, (question, parse) in queue:
                outcomes[i] = await session.ask(question, parse)

        async with session.client:
            workers = [asyncio.ensure_future(work()) for _ in range(min(self.server.concurrency, len(asked)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        return [outcomes[i] for i in range(len(asked))]

    def _question(self, job: _Job, params: SamplingParams, model: str) -> Question:
        # 31 bits: llama.cpp and numpy-based servers take no longer seed.
        seed = sample_seed(params, job.prefix, job.indices[0]) >> 32
        body = {"model": model, **self._prompt(job.prefix, job.begun)}
        body.update(sampling_fields(params, seed, len(job.indices), self.neutral))
        if params.until == "step" and self.step_stop != "cut":
            body["stop"] = [job.prefix.separator]
        if self.logprobs:
            body.update({"logprobs": 1} if self.mode == "completions" else {"logprobs": True, "top_logprobs": 1})
        if self.logprobs and self.tokenizer is not None:
            body["return_token_ids"] = True
        body.update(self.extra)
        return Question(f"{job.prefix.key[:12]}-{job.position}-{job.indices[0]}", _PATHS[self.mode], body)

    def _prompt(self, prefix: Trajectory, begun: Step | None = None) -> dict[str, Json]:
        """A fragment is the last thing in the prompt: nothing comes between it and what is written next."""
        if self.mode == "chat":
            return messages(prefix, self.system)
        before, after = self.template.removesuffix("{steps}").split("{prompt}")
        prompt = before + prefix.problem.text + after
        if self.tokenizer is None:
            return {"prompt": prompt + (prefix.text if begun is None else prefix.text.removesuffix(prefix.separator))}
        asked = replace(prefix, problem=replace(prefix.problem, prompt=prompt))
        plain = Template("plain", prompt_end="")
        if begun is None or (begun.token_ids and prefix.tokenizer == self._vocabulary):
            return {"prompt": encode(self.tokenizer, asked, plain).ids}
        known = encode(self.tokenizer, asked.prefix(len(asked.steps) - 1), plain).ids
        return {"prompt": (*known, *self.tokenizer.encode(begun.text, add_special_tokens=False))}

    def _parse(self, payload: object, n: int, until: str) -> Reply:
        reply = read_reply(payload, self.mode, n)
        unsaid = any(choice.finish == "stop" and not choice.tells_stop for choice in reply.choices)
        if unsaid and until == "step" and self.step_stop == "reported":
            raise ServerRefusedError(
                f"{self.server.url} does not say whether a sample ended at the step's separator or at the end of the "
                "answer; pass step_stop='cut' (exact, pays for the tokens cut off) or step_stop='assumed'"
            )
        return reply

    def _completions(
        self, job: _Job, outcome: Outcome[Reply], params: SamplingParams, share: float
    ) -> Iterator[Completion]:
        """The samples of one request; its cost is on the first, so that costs add up."""
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
                self._tell_once("the server's tokens do not spell its text; logprobs of such samples are left out")
            if outcome.value.usage is None:
                self._tell_once("the server sends no usage; the token counts of its samples are 0")
            yield Completion(written.steps, written.finish, index, self._vocabulary, written.error, own_cost)

    def _tell_once(self, note: str) -> None:
        if note not in self._told:
            self._told.add(note)
            log.warning("%s: %s", self.server.url, note)


def _check(prefix: Trajectory, params: SamplingParams) -> None:
    if params.until == "step" and not prefix.separator:
        raise ValueError(f"trajectory {prefix.id!r} has an empty separator, so no step can be told from the next")
    if prefix.problem.images or any(step.images for step in prefix.steps):
        raise ValueError(f"trajectory {prefix.id!r} has images; the http policy sends text only")


def _likeliest(payload: object) -> dict[str, float]:
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


def _among(listed: Mapping[str, float], options: Sequence[str]) -> tuple[float | None, ...]:
    """The logprob of the longest listed token that this option alone begins with; the smallest one if there is none."""
    if not listed:
        return (None,) * len(options)
    own: dict[str, float] = {}
    for token in sorted(listed, key=len):
        begun = [option for option in options if token and option.startswith(token)]
        if len(begun) == 1:
            own[begun[0]] = listed[token]
    return tuple(own.get(option, min(listed.values())) for option in options)


def _cost(outcome: Outcome[Reply], share: float) -> Cost:
    cost = Cost(calls=outcome.calls, seconds=outcome.seconds * share)
    usage = outcome.value.usage if outcome.value is not None else None
    return cost if usage is None else cost + Cost(usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens)


@register("policy", "http")
def http_policy(
    url: str,
    model: str | None = None,
    mode: Mode = "completions",
    api_key: str | None = None,
    api_key_env: str | None = None,
    concurrency: int = 32,
    connect_timeout: float = 10.0,
    read_timeout: float = 600.0,
    total_timeout: float = 900.0,
    retries: int = 5,
    first_wait: float = 0.5,
    longest_wait: float = 60.0,
    template: str = "{prompt}\n{steps}",
    system: str | None = None,
    logprobs: bool = True,
    neutral: bool = True,
    step_stop: StepStop = "reported",
    batch_n: bool = False,
    tokenizer: str | None = None,
) -> HttpPolicy:
    """Any OpenAI-compatible server (vLLM, SGLang, llama.cpp) by its URL.

    The key comes from `api_key` or the environment variable that `api_key_env` names, never from one not named here;
    `tokenizer` is the model's local folder.
    """
    if api_key is None and api_key_env is not None:
        api_key = os.environ.get(api_key_env)
        if not api_key:
            raise ValueError(f"api_key_env names {api_key_env}, but that environment variable is not set")
    timeouts = (connect_timeout, read_timeout, total_timeout)
    server = Server(url, api_key, concurrency, *timeouts, retries, first_wait, longest_wait)
    loaded = None if tokenizer is None else _load_tokenizer(tokenizer)
    return HttpPolicy(server, model, mode, template, system, logprobs, neutral, step_stop, batch_n, loaded)


def _load_tokenizer(folder: str) -> Tokenizer:
    from transformers import AutoTokenizer

    tokenizer = cast(Tokenizer, AutoTokenizer.from_pretrained(folder, local_files_only=True))
    check_round_trip(tokenizer, folder)
    return tokenizer
