"""A server as a writer of tokens: greedy texts in ids, and what its model thought before each of them (for EDU-PRM).

One request gives both, for it asks for the 20 likeliest tokens in every place. With p of those and r = 1 - Σ p of all others

    H = -Σ p ln p - r ln r

takes the others for one token: a lower bound on the entropy, since telling them apart only adds to it. A place where the second
likeliest token is not known by its id is taken for one where nobody could go on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

from footfall.hashing import vocabulary_fingerprint
from footfall.policy.http import HttpPolicy, Job
from footfall.policy.http_client import AttemptError, Outcome, ServerRefusedError
from footfall.policy.http_wire import IDS_IN_WORDS, Usage, candidate, likeliest_tokens, read_reply
from footfall.policy.protocol import Completion, SamplingParams, only_greedy
from footfall.policy.splitting import in_lines
from footfall.render import Tokenizer, decoded
from footfall.segment.tokens import entropy_of
from footfall.types import Cost, Problem, Step, Trajectory, sampled_ids

_NO_TOKEN = -1
_Key: TypeAlias = tuple[str, str]


class Told(NamedTuple):
    """One answer: its text and tokens, and the likeliest tokens in each place with their logprobs, ids where they are known."""

    text: str
    stopped: bool
    """The writer ended by itself, not at `max_tokens`."""
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    likeliest: tuple[tuple[tuple[int | None, float], ...], ...]
    usage: Usage | None


def read_told(payload: object, url: str, id_of: Callable[[str], int | None]) -> Told:
    """The answer in ids, or `ServerRefusedError` if the server at `url` never tells what is needed.

    `id_of` gives the id of a text that is the text of one token alone, for servers that tell texts only.
    """
    reply = read_reply(payload, "completions", 1)
    (choice,) = reply.choices
    places = likeliest_tokens(payload)
    if choice.tokens is None or choice.logprobs is None or len(places) != len(choice.tokens):
        raise ServerRefusedError(
            f"{url} gives no log-probabilities of the likeliest tokens in each place of an answer (logprobs=20), without which "
            "nobody knows where its model was unsure: start it so that it does, or take a model in this process as --policy"
        )
    ids = choice.token_ids
    if ids is None:
        known = [candidate(text, None, 0.0) for text in choice.tokens]
        found = [id_of(each.text) if each.id is None else each.id for each in known]
        ids = tuple(i for i in found if i is not None)
        if len(ids) < len(found):
            raise ServerRefusedError(
                f"{url} does not tell the ids of the tokens that it writes (return_token_ids; vLLM and llama.cpp do)"
            )
    likeliest = tuple(
        tuple((id_of(each.text) if each.id is None else each.id, each.logprob) for each in place) for place in places
    )
    return Told(choice.text, choice.finish == "stop", ids, choice.logprobs, likeliest, reply.usage)


class TopTokens(NamedTuple):
    """What a server told of the place before each token of a text; places that it was given count as sure."""

    entropy: tuple[float, ...]
    """In nats, at least."""
    second: tuple[int, ...]
    """The likeliest token but the one that was written; -1 where it is not known."""
    second_logprob: tuple[float, ...]


def least_entropy(logprobs: Sequence[float]) -> float:
    """In nats, of the likeliest tokens' log-probabilities, with all other tokens taken for one: at least so much it is."""
    listed = [math.exp(each) for each in logprobs]
    return entropy_of([*listed, 1.0 - sum(listed)])


def served_tokenizer(method: str, policy: HttpPolicy) -> Tokenizer:
    """The tokenizer of a server's model, for a method that goes on from ids; an error says which flag names it."""
    if policy.tokenizer is None:
        raise ValueError(
            f"{method} goes on in the middle of a line, from token ids: over a server it needs --tokenizer FOLDER, that of the "
            "server's model, in completions mode"
        )
    return policy.tokenizer


class HttpTokens:
    """Writes greedily, and keeps books by problem: what was spent on each, and why a problem's text could not be written."""

    def __init__(self, policy: HttpPolicy, separator: str = "\n") -> None:
        if policy.tokenizer is None or policy.mode != "completions" or not policy.logprobs:
            raise ValueError("a server writes in tokens in completions mode with logprobs and its model's tokenizer")
        self.policy, self.separator = policy, separator
        self.tokenizer: Tokenizer = policy.tokenizer
        self.vocabulary = vocabulary_fingerprint(self.tokenizer)
        self._spent: defaultdict[_Key, Cost] = defaultdict(Cost)
        self._failures: dict[_Key, str] = {}
        self._thoughts: dict[tuple[_Key, tuple[int, ...]], TopTokens] = {}

    @property
    def name(self) -> str:
        """That of the policy it speaks to the server through."""
        return self.policy.name

    def spent(self, problem: Problem) -> Cost:
        """What the server counted for this problem so far."""
        return self._spent[_key(problem)]

    def failure(self, problem: Problem) -> str | None:
        """Why a text of this problem could not be written; nothing more is asked for it then."""
        return self._failures.get(_key(problem))

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """The greedy rest of each text, as one step; what failed says so, and so do all later ones of that problem."""
        only_greedy(self.name, n, params)
        due = [i for i, prefix in enumerate(prefixes) if self.failure(prefix.problem) is None]
        asked = self._ask([replace(prefixes[i], separator="") for i in due], params)
        outcomes = dict(zip(due, asked, strict=True))
        return [[self._kept(prefix, outcomes.get(i))] for i, prefix in enumerate(prefixes)]

    def thoughts(self, trajectories: Sequence[Trajectory]) -> list[TopTokens]:
        """What the model thought while it finished these very texts; once for each."""
        found = []
        for each in trajectories:
            ids = sampled_ids(each.steps)
            found.append(self._thoughts.pop((_key(each.problem), ids), _sure(len(ids))))
        return found

    def ends(self, token: int) -> bool:
        """Whether nothing may be written after this token: it is special, or none at all."""
        ending = token in (_NO_TOKEN, self.tokenizer.eos_token_id)
        return ending or not decoded(self.tokenizer, [token], special=False)

    def text(self, ids: Sequence[int]) -> str:
        """What the ids say."""
        return decoded(self.tokenizer, ids)

    def in_lines(self, trajectory: Trajectory) -> Trajectory:
        """A text that is cut anywhere, cut into its lines."""
        return in_lines(trajectory, self.tokenizer, self.separator)

    def _ask(self, prefixes: Sequence[Trajectory], params: SamplingParams) -> list[Outcome[Told]]:
        read = partial(self._read, url=self.policy.server.url)
        plain = [self.policy.next_token_question(Job(i, prefix, (0,)), params) for i, prefix in enumerate(prefixes)]
        return self.policy.ask_all(
            [(each._replace(body={**IDS_IN_WORDS, **(each.body or {})}), read) for each in plain]
        )

    def _read(self, payload: object, url: str) -> Told:
        told = read_told(payload, url, self._by_text.get)
        own = len(told.ids) - bool(told.stopped and told.ids and self.ends(told.ids[-1]))
        spelled = {_bare(decoded(self.tokenizer, told.ids[:own], special)) for special in (True, False)}
        if _bare(told.text) not in spelled:
            raise AttemptError(
                f"the server's tokens do not spell its text: is the tokenizer that of {self.name}?", again=False
            )
        return told._replace(ids=told.ids[:own], logprobs=told.logprobs[:own], likeliest=told.likeliest[:own])

    def _kept(self, prefix: Trajectory, outcome: Outcome[Told] | None) -> Completion:
        problem, begun = _key(prefix.problem), sampled_ids(prefix.steps)
        if outcome is None:
            return Completion((), "error", error=self._failures[problem])
        told = outcome.value
        cost = Cost(calls=min(outcome.calls, 1), seconds=outcome.seconds)  # once, however often it had to be tried
        if told is not None and told.usage is not None:
            cost += Cost(told.usage.prompt_tokens, told.usage.cached_tokens, told.usage.generated_tokens)
        self._spent[problem] += cost
        if told is None or not (begun or told.ids):
            self._failures[problem] = outcome.error or "the server wrote nothing"
            return Completion((), "error", error=self._failures[problem], cost=cost)
        self._thoughts[problem, begun + told.ids] = _after(len(begun), told)
        step = Step(self.text(told.ids), token_ids=told.ids, logprobs=told.logprobs)
        steps = (step,) if told.ids else ()
        return Completion(steps, "end" if told.stopped else "length", 0, self.vocabulary, cost=cost)

    @cached_property
    def _by_text(self) -> dict[str, int]:
        """The tokens that alone have their text."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for token in self.tokenizer.get_vocab().values():
            found[decoded(self.tokenizer, [token])].append(token)
        return {text: tokens[0] for text, tokens in found.items() if len(tokens) == 1}


def _after(begun: int, told: Told) -> TopTokens:
    """Of a whole text, of which the first `begun` tokens were given."""
    entropy = tuple(least_entropy([value for _, value in place]) for place in told.likeliest)
    seconds = [_second(own, place) for own, place in zip(told.ids, told.likeliest, strict=True)]
    before = _sure(begun)
    return TopTokens(
        before.entropy + entropy,
        before.second + tuple(token for token, _ in seconds),
        before.second_logprob + tuple(value for _, value in seconds),
    )


def _second(own: int, place: Sequence[tuple[int | None, float]]) -> tuple[int, float]:
    others = [(value, token) for token, value in place if token != own]
    value, token = max(others, key=lambda each: each[0], default=(-math.inf, None))
    return (_NO_TOKEN if token is None else token), value


def _sure(count: int) -> TopTokens:
    return TopTokens((0.0,) * count, (_NO_TOKEN,) * count, (-math.inf,) * count)


def _key(problem: Problem) -> _Key:
    return problem.id, problem.text


def _bare(text: str) -> str:
    """Without what tokenizers do differently at the ends: the blank before a first word, and halves of characters."""
    return text.strip("\ufffd").lstrip()
