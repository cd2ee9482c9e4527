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
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

from footfall.policy.http_client import Outcome, Question, Server, Session, run_in_thread
from footfall.policy.http_requests import HttpRequests, Job, among, check_prefix
from footfall.policy.http_steps import StepStop
from footfall.policy.http_wire import Mode, likeliest_tokens
from footfall.policy.protocol import Completion, Run, SamplingParams
from footfall.registry import register
from footfall.render import Tokenizer, check_round_trip
from footfall.types import Step, Trajectory

T = TypeVar("T")
_BLANKS = 3


@dataclass(frozen=True)
class HttpPolicy(HttpRequests):
    """Writes steps by asking a server. Synchronous outside; inside, `server.concurrency` requests may be in flight."""

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
        asked: list[Job] = []
        for i, (run, step) in enumerate(zip(runs, begun, strict=True)):
            check_prefix(run.prefix, params)
            groups = [tuple(run.indices)] if self.batch_n else [(index,) for index in run.indices]
            asked += [Job(i, run.prefix, group, step) for group in groups if group]
        written: list[list[Completion]] = [[] for _ in runs]
        for job, completions in zip(asked, self._answers(asked, params), strict=True):
            written[job.position].extend(completions)
        return written

    def _answers(self, asked: Sequence[Job], params: SamplingParams, blanks: int = _BLANKS) -> list[list[Completion]]:
        """The samples of each job; one that stopped at a separator before it had any text goes on, at most `blanks` times."""
        if not asked:
            return []
        questions = [(self.question(job, params), partial(self.read, job, params.until)) for job in asked]
        started = time.perf_counter()
        outcomes = run_in_thread(lambda: self.run_all(questions))
        # Requests overlap: each gets its share of the wall clock, so that the seconds of all add up to it.
        share = (time.perf_counter() - started) / (sum(outcome.seconds for outcome in outcomes) or 1.0)
        answers = zip(asked, outcomes, strict=True)
        read = [list(self.completions(job, outcome, params, share)) for job, outcome in answers]
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
            check_prefix(prefix, params)
        if not prefixes or not self.logprobs:
            return [(None,) * len(options) for _ in prefixes]
        asked = [
            (self.next_token_question(Job(i, prefix, (0,)), params), likeliest_tokens)
            for i, prefix in enumerate(prefixes)
        ]
        outcomes = run_in_thread(lambda: self.run_all(asked))
        for reason in {outcome.error for outcome in outcomes if outcome.error is not None}:
            self.tell_once(f"a question about the next token was not answered: {reason}")
        return [among((outcome.value or [[]])[0], options) for outcome in outcomes]

    async def run_all(self, asked: Sequence[tuple[Question, Callable[[object], T]]]) -> list[Outcome[T]]:
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
