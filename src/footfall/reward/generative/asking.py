"""Questions to a policy in chat form, with the beginning of its reply put in its mouth and strings to stop at.

Where the model's chat template is at hand (a model in this process, or a server asked for completions with `tokenizer`),
the whole dialogue is rendered to one text and tokenised as one, as these judges were trained and published: a blank line
that closes the assistant's header and one that opens the reply are then one token, and not two. Otherwise (a chat server)
messages are sent, and the opening is an unfinished assistant turn.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from footfall.policy.http import HttpPolicy
from footfall.policy.protocol import Completion, Policy, SamplingParams, can_choose
from footfall.render import Template, dialogue_text
from footfall.types import Cost, Message, Problem, Reason, Step, Trajectory, Unjudged

if TYPE_CHECKING:
    from footfall.policy.torch_policy import TorchPolicy


@dataclass(frozen=True, slots=True)
class Request:
    """What is put to the model."""

    messages: tuple[Message, ...]
    opening: str = ""
    """How its reply begins."""
    stops: tuple[str, ...] = ()
    """Where the reply ends; in process and with a tokenizer the first one also stops the writing."""
    header: bool = True
    """Whether the template's assistant header stands before the opening. Only a rendered text can leave it out."""

    def going_on(self, opening: str, *stops: str) -> Request:
        """The same dialogue with a longer opening."""
        return replace(self, opening=opening, stops=stops)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model wrote, cut before the first stop string, which is named by `stop`."""

    text: str
    stop: str | None = None
    cut: bool = False
    """Ended by max_tokens, not by the model."""
    failure: Unjudged | None = None
    """Why there is no text at all."""
    cost: Cost = field(default_factory=Cost)


class Asker:
    """Puts many requests to one policy in one batch."""

    def __init__(self, policy: Policy) -> None:
        # A policy with a rollout store before it (drive.stored_policy) is asked through the store, as the one behind it reads.
        writer: Policy = getattr(policy, "inner", policy)
        self._tokenizer = _tokenizer(writer)
        self._writer = writer if self._tokenizer is None else _taking_text(writer)
        around: Callable[[Policy, str], Policy] | None = getattr(policy, "around", None)
        self._policy = self._writer if around is None else around(self._writer, "as text" if self._tokenizer else "")
        self.name = self._writer.name

    def ask(self, requests: Sequence[Request], n: int, params: SamplingParams) -> list[list[Reply]]:
        """`n` replies to each request, in order; what cannot be answered is a reply with its reason."""
        prefixes = [self._prefix(request) for request in requests]
        too_long = [self._too_long(prefix, params.max_tokens) for prefix in prefixes]
        stopping = self._tokenizer is not None and any(request.stops for request in requests)
        params = replace(params, until="step" if stopping else "end")
        fitting = [prefix for prefix, reason in zip(prefixes, too_long, strict=True) if reason is None]
        written = iter(self._policy.sample(fitting, n, params) if fitting else ())
        return [
            [Reply("", failure=reason) for _ in range(n)] if reason is not None
            else [self._reply(request, prefix, completion) for completion in next(written)]
            for request, prefix, reason in zip(requests, prefixes, too_long, strict=True)
        ]  # fmt: skip

    def choose(self, requests: Sequence[Request], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        """Log-probabilities of the options right after each opening; `None` if the policy cannot tell."""
        if not requests or not can_choose(self._policy):
            return [(None,) * len(options) for _ in requests]
        return self._policy.choices([self._prefix(request) for request in requests], options)

    @property
    def counts(self) -> bool:
        """Whether a tokenizer is at hand to count the tokens of a request."""
        return self._tokenizer is not None

    def tokens(self, request: Request) -> int:
        """Tokens of a request, for the cost of a choice; 0 where no tokenizer is at hand to count them."""
        if self._tokenizer is None:
            return 0
        return len(self._tokenizer.encode(self._rendered(request), add_special_tokens=False))

    def _prefix(self, request: Request) -> Trajectory:
        # With an empty separator the opening is not followed by anything; a text without steps may use it as a stop.
        if self._tokenizer is None:
            steps = (Step(request.opening),) if request.opening else ()
            return Trajectory("critique", Problem("critique", request.messages), steps, separator="")
        separator = request.stops[0] if request.stops else "\n\n"
        return Trajectory("critique", Problem("critique", self._rendered(request)), separator=separator)

    def _rendered(self, request: Request) -> str:
        return dialogue_text(self._tokenizer, request.messages, request.opening, request.header)

    def _too_long(self, prefix: Trajectory, max_tokens: int) -> Unjudged | None:
        """In process a sequence that cannot fit would stop the whole batch; a server says so itself."""
        if not _in_process(self._writer):
            return None
        limit = getattr(self._writer.engine.model.config.get_text_config(), "max_position_embeddings", None)
        length = len(self._writer.tokenizer.encode(prefix.problem.text, add_special_tokens=False)) + 1
        if limit is None or length + max_tokens <= limit:
            return None
        asked = f"the question has {length} tokens and the critique may have {max_tokens} (max_tokens; --max-tokens)"
        return Unjudged(Reason.TOO_LONG, f"{asked}, the context holds {limit}")

    def _reply(self, request: Request, prefix: Trajectory, completion: Completion) -> Reply:
        if completion.finish == "error":
            why = Unjudged(Reason.FAILED_CALL, completion.error or "the policy failed")
            return Reply("", failure=why, cost=completion.cost)
        text = self._text(prefix, completion)
        found = [(text.find(stop), stop) for stop in request.stops if stop in text]
        if found:
            at, stop = min(found)
            return Reply(text[:at], stop, cost=completion.cost)
        return Reply(text, cut=completion.finish == "length", cost=completion.cost)

    def _text(self, prefix: Trajectory, completion: Completion) -> str:
        """All that was written, as it was written: from the ids where there are ids."""
        if _in_process(self._writer):
            ids = [i for step in completion.steps for i in step.token_ids or ()]
            decode = self._writer.tokenizer.decode
            return str(decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
        end = prefix.separator if completion.finish == "step" else ""
        return prefix.separator.join(step.text for step in completion.steps) + end


def _in_process(policy: Policy) -> TypeGuard[TorchPolicy]:
    """A model in this process, for which its module is loaded already: a server needs no torch, whose import takes seconds."""
    module = sys.modules.get("footfall.policy.torch_policy")
    return module is not None and isinstance(policy, module.TorchPolicy)


def _tokenizer(policy: Policy) -> Any:
    """The tokenizer that renders dialogues for this policy; None if it takes messages."""
    if _in_process(policy):
        return policy.tokenizer
    if not isinstance(policy, HttpPolicy) or policy.mode == "chat":
        return None
    if policy.tokenizer is None:
        raise ValueError(
            f"{policy.name} is asked for completions, which have no chat turns; "
            "use mode='chat' (--mode chat), or give the model's folder as tokenizer (--tokenizer)"
        )
    return policy.tokenizer


def _taking_text(policy: Policy) -> Policy:
    """The same policy for prompts that are rendered already, bos and all."""
    if isinstance(policy, HttpPolicy):
        return replace(policy, template="{prompt}{steps}", bos=False)
    taking: Any = copy.copy(policy)
    taking.template = Template("rendered")
    made: Policy = taking
    return made
