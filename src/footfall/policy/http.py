"""A policy behind any OpenAI-compatible server (vLLM, SGLang, llama.cpp), named by its URL.

What makes it dependable:
- one request a sample, each with its own seed, so that sample `index` is the same however many are asked for, as far as
  the server honours `seed` (vLLM and llama.cpp do; SGLang with --enable-deterministic-inference);
- each (prefix, index) gives exactly one completion, in order. A request that fails after its retries is a completion
  with `finish="error"` and the reason; what can never work (wrong key, model or field) raises `ServerRefusedError`;
- the server's own sampling defaults are switched off (`neutral`), so that `SamplingParams` says all there is to say.

Logprobs are the server's: at temperature 1 on vLLM, on SGLang only with SGLANG_RETURN_ORIGINAL_LOGPROB=1.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar, cast

from footfall.encoding import Tokenizer, check_round_trip
from footfall.policy import _http_jobs as jobs
from footfall.policy._http_client import Outcome, Question, Server, ServerRefusedError, Session, run_in_thread
from footfall.policy._http_steps import StepStop
from footfall.policy._http_wire import Mode, model_ids
from footfall.policy.protocol import Completion, SamplingParams
from footfall.policy.runs import Run
from footfall.registry import register
from footfall.types import Json, Step, Trajectory, content_key

__all__ = ["HttpPolicy", "Server", "ServerRefusedError", "http_policy"]

log = logging.getLogger(__name__)
T = TypeVar("T")
_BLANKS = 3


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
    """Send fields beside the standard ones: those that switch off the server's own defaults (top_k, min_p, penalties), and that
    which makes llama.cpp say what stopped a step. Strict servers refuse them."""
    step_stop: StepStop = "reported"
    """How `until="step"` learns that the separator, not the end of the answer, stopped a sample. `reported`: the server
    says so (vLLM, SGLang, llama.cpp). `cut`: send no stop string and cut the text here; exact on every server, but pays for the
    tokens thrown away. `assumed`: every stop is a step, so the end of an answer is never noticed."""
    batch_n: bool = False
    """One request with server-side n for each prefix: faster, but which sample an index names then depends on `n` and
    `first`, and the first sample of a request carries the cost of all."""
    tokenizer: Tokenizer | None = None
    """The model's tokenizer: prompts then go as ids, tokenised step by step, and sampled ids are kept (vLLM; of llama.cpp
    those of whole answers)."""
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Further fields of every request, e.g. `{"chat_template_kwargs": {"enable_thinking": False}}`."""
    counts_flops = False
    """What the server computes it does not say, so a budget of FLOPs is refused."""
    _accepted: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _told: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        jobs.check_wording(self)

    @property
    def name(self) -> str:
        """Model and prompt format. Not the address: a server that moved to another port still writes the same."""
        form = [self.template if self.mode == "completions" else self.system, jobs.vocabulary(self)]
        form_key = content_key(form, self.neutral, self.batch_n, dict(self.extra))
        return f"http:{self.served_model}:{self.mode}:{form_key[:8]}"

    @cached_property
    def served_model(self) -> str:
        """The model's name on the server, asked for once if it was not given."""
        if self.model is not None:
            return self.model
        found = run_in_thread(self._ask_models)
        if found.value is None:
            raise ConnectionError(f"{self.server.url} does not answer: {found.error}; is the server running?")
        if len(found.value) != 1:
            raise ValueError(
                f"{self.server.url} serves {', '.join(found.value) or 'no model'}; name one by model= (--model)"
            )
        return found.value[0]

    async def _ask_models(self) -> Outcome[tuple[str, ...]]:
        session = Session(self.server, set())
        async with session.client:
            return await session.ask(Question("models", "/models"), model_ids)

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix, in order; a failed one says so in `finish` and `error`."""
        return self.sample_runs([Run(prefix, n, first) for prefix in prefixes], params)

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        """The same where each prefix may want other samples; all share the requests in flight."""
        return self._write(runs, params, [None] * len(runs))

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
        return self._write(
            [Run(prefix, n, first) for prefix in prefixes], params, [prefix.steps[-1] for prefix in prefixes]
        )

    def _write(
        self, runs: Sequence[Run], params: SamplingParams, begun: Sequence[Step | None]
    ) -> list[list[Completion]]:
        """`begun` are the steps that prefixes end in the middle of."""
        asked: list[jobs.Job] = []
        for i, (run, step) in enumerate(zip(runs, begun, strict=True)):
            jobs.check_prefix(run.prefix, params)
            groups = [tuple(run.indices)] if self.batch_n else [(index,) for index in run.indices]
            asked += [jobs.Job(i, run.prefix, group, step) for group in groups if group]
        written: list[list[Completion]] = [[] for _ in runs]
        for job, completions in zip(asked, self._answers(asked, params), strict=True):
            written[job.position].extend(completions)
        return written

    def _answers(
        self, asked: Sequence[jobs.Job], params: SamplingParams, blanks: int = _BLANKS
    ) -> list[list[Completion]]:
        """The samples of each job; one that stopped at a separator before it had any text goes on, at most `blanks` times."""
        if not asked:
            return []
        questions = [(jobs.question(self, job, params), partial(jobs.read, self, job, params.until)) for job in asked]
        started = time.perf_counter()
        outcomes = run_in_thread(lambda: self._run(questions))
        # Requests overlap: each gets its share of the wall clock, so that the seconds of all add up to it.
        share = (time.perf_counter() - started) / (sum(outcome.seconds for outcome in outcomes) or 1.0)
        answers = zip(asked, outcomes, strict=True)
        read = [list(jobs.completions(self, job, outcome, params, share)) for job, outcome in answers]
        onwards = [further for row in read for _, further in row if further is not None]
        longer = iter(self._answers(onwards, params, blanks - 1) if blanks else [])
        return [[done if on is None else _joined(done, next(longer, None)) for done, on in row] for row in read]

    def choices(self, prefixes: Sequence[Trajectory], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        """From the 20 likeliest next tokens; an option that is not among them takes the smallest of their logprobs.

        All are `None` where the server gives no logprobs or no answer.
        """
        if len(set(options)) < len(options):
            raise ValueError(f"the options {', '.join(map(repr, options))} must differ")
        params = SamplingParams(max_tokens=1)
        for prefix in prefixes:
            jobs.check_prefix(prefix, params)
        if not prefixes or not self.logprobs:
            return [(None,) * len(options) for _ in prefixes]
        asked = [
            (jobs.next_token_question(self, jobs.Job(i, prefix, (0,)), params), jobs.likeliest)
            for i, prefix in enumerate(prefixes)
        ]
        outcomes = run_in_thread(lambda: self._run(asked))
        for reason in {outcome.error for outcome in outcomes if outcome.error is not None}:
            self.tell_once(f"a question about the next token was not answered: {reason}")
        return [jobs.among(outcome.value or {}, options) for outcome in outcomes]

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

    @property
    def counts_tokens(self) -> bool:
        """Whether the server has counted its tokens so far; a budget of tokens needs that."""
        return jobs.UNCOUNTED not in self._told

    def tell_once(self, note: str) -> None:
        """What is amiss with the server's answers, as a warning that comes once."""
        if note not in self._told:
            self._told.add(note)
            log.warning("%s: %s", self.server.url, note)


def _joined(blank: Completion, longer: list[Completion] | None) -> Completion:
    """The longer completion with what the blank one has cost, if there is a longer one."""
    return blank if longer is None else replace(longer[0], cost=blank.cost + longer[0].cost)


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
