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

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from footfall.damaged import check_tokenizer, naming
from footfall.hashing import vocabulary_fingerprint
from footfall.policy.http_client import (
    Outcome,
    Question,
    Server,
    ServerRefusedError,
    Session,
    ask_all,
    key_from,
    run_in_thread,
)
from footfall.policy.http_wire import (
    TELL_STOP,
    Candidate,
    Cutter,
    Mode,
    Reply,
    StepStop,
    likeliest_tokens,
    model_ids,
    read_reply,
    sampling_fields,
)
from footfall.policy.protocol import Completion, Run, RunWriter, SamplingParams, sample_seed
from footfall.registry import Declared, register
from footfall.render import Observations, Template, Tokenizer, check_round_trip, encode, messages, solution_text
from footfall.types import Cost, Json, Step, Trajectory, content_key

T = TypeVar("T")
log = logging.getLogger(__name__)

_BLANKS = 3
_SHOWN = 10
"""Models of a server that are named."""
_UNCOUNTED = "the server sends no usage; the token counts of its samples are 0"
_TEMPLATE = "{prompt}\n{steps}"
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
class HttpPolicy(RunWriter):
    """Writes steps by asking a server. Synchronous outside; inside, `server.concurrency` requests may be in flight."""

    server: Server
    model: str | None = None
    """`None` asks the server, which must then serve one model only."""
    mode: Mode = "completions"
    template: str = _TEMPLATE
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
    bos: bool = True
    """Whether the tokenizer's bos stands before prompts that go as ids; a rendered dialogue holds its own."""
    observations: Observations = "inline"
    """Of chat mode: where observations stand, in the assistant's turn or in turns of this role (`Template.observations`)."""
    counts_flops = False
    """What the server computes it does not say, so a budget of FLOPs is refused."""
    _accepted: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _told: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse settings that no request could be made from."""
        if self.mode not in _PATHS:
            raise ValueError(f"mode={self.mode!r}; there are 'completions' and 'chat'")
        if self.template.count("{prompt}") != 1 or not self.template.endswith("{steps}"):
            raise ValueError(f"template={self.template!r} must hold {{prompt}} once and end with {{steps}}")
        if self.mode == "chat" and self.template != _TEMPLATE:
            raise ValueError("chat mode sends messages and no template; leave it out, or use --mode completions")
        if self.mode == "completions" and self.system is not None:
            raise ValueError("completions mode has no system message; write it into the template (--template)")
        if self.mode == "completions" and self.observations != "inline":
            raise ValueError("completions have no turns; observations of their own role need mode='chat' (--mode chat)")
        if self.mode == "chat" and self.tokenizer is not None:
            raise ValueError("chat mode sends text; use mode='completions' (--mode completions) to send token ids")
        if clash := _OWN_FIELDS & set(self.extra):
            raise ValueError(f"extra may not hold {', '.join(sorted(clash))}: the policy itself sets them")

    @property
    def vocabulary(self) -> str | None:
        """The fingerprint of the tokenizer whose ids are sent and kept."""
        return None if self.tokenizer is None else vocabulary_fingerprint(self.tokenizer)

    @property
    def name(self) -> str:
        """Model and prompt format. Not the address: a server that moved to another port still writes the same."""
        form = [self.template if self.mode == "completions" else self.system, self.vocabulary]
        placed = [] if self.observations == "inline" else [self.observations]  # as names of old have it
        form_key = content_key(form, self.neutral, self.batch_n, dict(self.extra), *placed)
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
            some = ", ".join(found.value[:_SHOWN]) + (
                f" and {len(found.value) - _SHOWN} more" if found.value[_SHOWN:] else ""
            )
            raise ValueError(f"{self.server.url} serves {some or 'no model'}; name one by model= (--model)")
        return found.value[0]

    async def _ask_models(self) -> Outcome[tuple[str, ...]]:
        session = Session(self.server, set())
        async with session.client:
            return await session.ask(Question("models", "/models"), model_ids)

    def _refuse_to_resume(self, prefix: Trajectory) -> None:
        """The server reads a fragment as text, which may give other tokens than it wrote; with `tokenizer` it gets the ids."""
        if self.mode == "chat":
            raise ValueError(
                f"{self.server.url}: a chat server cannot be relied on to go on in the middle of a step, since chat templates "
                "may trim or close the last turn; use mode='completions' (--mode completions)"
            )
        if not prefix.steps or not prefix.steps[-1].text.strip():
            raise ValueError(f"trajectory {prefix.id!r} has no unfinished step to go on with")

    def _write(
        self, runs: Sequence[Run], params: SamplingParams, begun: Sequence[Step | None]
    ) -> list[list[Completion]]:
        """`begun` are the steps that prefixes end in the middle of."""
        asked: list[Job] = []
        for i, (run, step) in enumerate(zip(runs, begun, strict=True)):
            _check_prefix(run.prefix, params)
            groups = [tuple(run.indices)] if self.batch_n else [(index,) for index in run.indices]
            asked += [Job(i, run.prefix, group, step) for group in groups if group]
        written: list[list[Completion]] = [[] for _ in runs]
        for job, completions in zip(asked, self._answers(asked, params), strict=True):
            written[job.position].extend(completions)
        return written

    def _answers(self, asked: Sequence[Job], params: SamplingParams, blanks: int = _BLANKS) -> list[list[Completion]]:
        """The samples of each job; one that stopped at a separator before it had any text goes on, at most `blanks` times."""
        questions = [(self._question(job, params), partial(self._read, job, params.until)) for job in asked]
        answers = zip(asked, self.ask_all(questions), strict=True)
        read = [list(self._completions(job, outcome, params)) for job, outcome in answers]
        onwards = [further for row in read for _, further in row if further is not None]
        longer = iter(self._answers(onwards, params, blanks - 1) if onwards and blanks else [])
        return [[done if on is None else _joined(done, next(longer, None)) for done, on in row] for row in read]

    def choices(self, prefixes: Sequence[Trajectory], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        """From the 20 likeliest next tokens; an option that is not among them takes the smallest of their logprobs.

        All are `None` where none of them is among them: nothing is known of either then. So they are where the server gives no
        logprobs or no answer.
        """
        if len(set(options)) < len(options):
            raise ValueError(f"the options {', '.join(map(repr, options))} must differ")
        params = SamplingParams(max_tokens=1)
        for prefix in prefixes:
            _check_prefix(prefix, params)
        if not prefixes or not self.logprobs:
            return [(None,) * len(options) for _ in prefixes]
        asked = [
            (self.next_token_question(Job(i, prefix, (0,)), params), likeliest_tokens)
            for i, prefix in enumerate(prefixes)
        ]
        outcomes = self.ask_all(asked)
        for reason in {outcome.error for outcome in outcomes if outcome.error is not None}:
            self._tell_once(f"a question about the next token was not answered: {reason}")
        return [_among((outcome.value or [[]])[0], options) for outcome in outcomes]

    def ask_all(self, asked: Sequence[tuple[Question, Callable[[object], T]]]) -> list[Outcome[T]]:
        """The answers in order."""
        return ask_all(self.server, self._accepted, asked)

    def _question(self, job: Job, params: SamplingParams) -> Question:
        """The request that asks for a job's samples."""
        # 31 bits: llama.cpp and numpy-based servers take no longer seed.
        seed = sample_seed(params, job.prefix, job.indices[0]) >> 32
        body = {"model": self.served_model, **self._prompt(job.prefix, job.begun)}
        body.update(sampling_fields(params, seed, len(job.indices), self.neutral))
        if params.until == "step" and self.step_stop != "cut":
            body["stop"] = [job.prefix.separator]
            if self.neutral and self.step_stop == "reported":
                body.update(TELL_STOP)
        if self.logprobs:
            body.update(_likeliest_fields(self.mode, 1))
        if self.logprobs and self.tokenizer is not None:
            body["return_token_ids"] = True
        body.update(self.extra)
        return Question(f"{job.prefix.key[:12]}-{job.position}-{job.indices[0]}", _PATHS[self.mode], body)

    def next_token_question(self, job: Job, params: SamplingParams) -> Question:
        """The same, asking for the 20 likeliest tokens in each place, which `likeliest_tokens` then reads."""
        asked = self._question(job, params)
        return asked._replace(body={**(asked.body or {}), **_likeliest_fields(self.mode, 20)})

    def _prompt(self, prefix: Trajectory, begun: Step | None) -> dict[str, Json]:
        """A fragment is the last thing in the prompt: nothing comes between it and what is written next."""
        if self.mode == "chat":
            return messages(prefix, Template("chat", self.system, observations=self.observations), begun is not None)
        before, after = self.template.removesuffix("{steps}").split("{prompt}")
        prompt = before + prefix.problem.text + after
        if self.tokenizer is None:
            return {"prompt": prompt + solution_text(prefix, begun is not None)}
        asked = replace(prefix, problem=replace(prefix.problem, prompt=prompt))
        plain = Template("plain" if self.bos else "rendered", prompt_end="")
        if begun is None or (begun.token_ids and prefix.tokenizer == self.vocabulary):
            return {"prompt": encode(self.tokenizer, asked, plain).ids}
        known = encode(self.tokenizer, asked.prefix(len(asked.steps) - 1), plain).ids
        return {"prompt": (*known, *self.tokenizer.encode(begun.text, add_special_tokens=False))}

    def _read(self, job: Job, until: str, payload: object) -> Reply:
        """The answer's choices; `ServerRefusedError` naming the server if they do not say where a step ended."""
        reply = read_reply(payload, self.mode, len(job.indices))
        unsaid = any(choice.finish == "stop" and not choice.tells_stop for choice in reply.choices)
        if unsaid and until == "step" and self.step_stop == "reported":
            raise ServerRefusedError(
                f"{self.server.url} does not say whether a sample ended at the step's separator or at the end of the "
                "answer; pass step_stop='cut' (--step-stop cut; exact, pays for the tokens cut off) or step_stop='assumed' "
                "(--step-stop assumed)"
            )
        return reply

    def _completions(
        self, job: Job, outcome: Outcome[Reply], params: SamplingParams
    ) -> Iterator[tuple[Completion, Job | None]]:
        """The samples of one request; its cost is on the first, so that costs add up.

        With a sample that stopped before its step had any text (a blank line more, where steps are lines) goes the job to go on
        from there, as a model in this process does.
        """
        cost = _cost(outcome)
        begun = job.begun is not None
        turn = solution_text(job.prefix, begun, self.observations) if self.mode == "chat" else ""
        keep_ids = self.tokenizer is not None
        cutter = Cutter(job.prefix.separator, params.until, self.step_stop, turn, keep_ids, job.begun)
        for k, index in enumerate(job.indices):
            own_cost = cost if k == 0 else Cost()
            if outcome.value is None:
                yield Completion((), "error", index, error=outcome.error, cost=own_cost), None
                continue
            written = cutter.read(outcome.value.choices[k])
            if not written.spelled:
                self._tell_once("the server's tokens do not spell its text; logprobs of such samples are left out")
            if outcome.value.usage is None and not _listed_tokens(outcome.value):
                self._tell_once(_UNCOUNTED)
            onwards = None if written.blank is None else _after_blank(job, index, written.blank)
            yield Completion(written.steps, written.finish, index, self.vocabulary, written.error, own_cost), onwards

    @property
    def counts_tokens(self) -> bool:
        """Whether the server has counted its tokens so far; a budget of tokens needs that."""
        return _UNCOUNTED not in self._told

    def _tell_once(self, note: str) -> None:
        """What is amiss with the server's answers, as a warning that comes once."""
        if note not in self._told:
            self._told.add(note)
            log.warning("%s: %s", self.server.url, note)


def _likeliest_fields(mode: Mode, count: int) -> dict[str, Json]:
    return {"logprobs": count} if mode == "completions" else {"logprobs": True, "top_logprobs": count}


def _after_blank(job: Job, index: int, blank: Step) -> Job:
    before = job.prefix if job.begun is None else job.prefix.prefix(len(job.prefix.steps) - 1)
    return Job(job.position, before.extend([blank]), (index,), blank)


def _cost(outcome: Outcome[Reply]) -> Cost:
    """A request counts once, however often it had to be tried: a server that dies and returns costs only time."""
    cost = Cost(calls=min(outcome.calls, 1), seconds=outcome.seconds)
    if outcome.value is None:
        return cost
    usage = outcome.value.usage
    if usage is None:
        return cost + Cost(generated_tokens=_listed_tokens(outcome.value))
    return cost + Cost(usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens)


def _listed_tokens(reply: Reply) -> int:
    """The tokens that a server lists with their logprobs, where it sends no usage."""
    return sum(len(choice.tokens or ()) for choice in reply.choices)


def _check_prefix(prefix: Trajectory, params: SamplingParams) -> None:
    """Refuse what no request could ask for."""
    if params.until == "step" and not prefix.separator:
        raise ValueError(f"trajectory {prefix.id!r} has an empty separator, so no step can be told from the next")
    if prefix.problem.images or any(step.images for step in prefix.steps):
        raise ValueError(f"trajectory {prefix.id!r} has images; the http policy sends text only")


def _among(listed: Sequence[Candidate], options: Sequence[str]) -> tuple[float | None, ...]:
    """The logprob of the longest listed token that this option alone begins with; the smallest one if there is none.

    `None` for all if no option has one: two smallest ones would say that the options are equally likely.
    """
    own: dict[str, float] = {}
    for token in sorted(listed, key=lambda each: len(each.text)):
        begun = [option for option in options if token.text and option.startswith(token.text)]
        if len(begun) == 1:
            own[begun[0]] = token.logprob
    if not own:
        return (None,) * len(options)
    return tuple(own.get(option, min(each.logprob for each in listed)) for option in options)


def _joined(blank: Completion, longer: list[Completion] | None) -> Completion:
    """The longer completion with what the blank one has cost, if there is a longer one."""
    return blank if longer is None else replace(longer[0], cost=blank.cost + longer[0].cost)


@register("policy", "http", Declared(serves=("url",)))
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
    template: str = _TEMPLATE,
    system: str | None = None,
    logprobs: bool = True,
    neutral: bool = True,
    step_stop: StepStop = "reported",
    batch_n: bool = False,
    tokenizer: str | None = None,
    observations: Observations = "inline",
) -> HttpPolicy:
    """Any OpenAI-compatible server (vLLM, SGLang, llama.cpp) by its URL.

    The key comes from `api_key` or the environment variable that `api_key_env` names, never from one not named here;
    `tokenizer` is the model's local folder.
    """
    if api_key is None and api_key_env is not None:
        api_key = key_from(api_key_env)
    timeouts = (connect_timeout, read_timeout, total_timeout)
    server = Server(url, api_key, concurrency, *timeouts, retries, first_wait, longest_wait)
    loaded = None if tokenizer is None else _load_tokenizer(tokenizer)
    return HttpPolicy(
        server, model, mode, template, system, logprobs, neutral, step_stop, batch_n, loaded, observations=observations
    )


def _load_tokenizer(folder: str) -> Tokenizer:
    from transformers import AutoTokenizer

    check_tokenizer(Path(folder))
    with naming(folder):
        loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    tokenizer = cast(Tokenizer, loaded)
    check_round_trip(tokenizer, folder)
    return tokenizer
