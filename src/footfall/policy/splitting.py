"""Cutting what a model wrote into steps, on token boundaries: each step keeps exactly the ids it was sampled with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import NamedTuple

from footfall.hashing import vocabulary_fingerprint
from footfall.render import Tokenizer, decoded
from footfall.types import Problem, Step, Trajectory, sampled_ids, sampled_logprobs

_PART = "\ufffd"
"""What a decoder gives for a part of a character."""


class StepSplitter:
    """Splits token sequences at a separator. Knows which tokens can complete one, so most tokens cost nothing.

    A token belongs to one step. One that ends a step and begins the next stays with the step it ends, while its text is
    divided; one that holds a whole short step between two separators keeps that text in the step it ends.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary_size: int, separator: str) -> None:
        if not separator:
            raise ValueError("a separator between steps must not be empty")
        self.tokenizer, self.separator = tokenizer, separator
        self._word = self._some_word(vocabulary_size)
        self.closing = frozenset(i for i in range(vocabulary_size) if self._may_close(self._text([i])))

    def closes_step(self, tokens: Sequence[int]) -> bool:
        """Whether a step with some text in it is complete in `tokens`."""
        return self.separator in self._without_lead(self._text(tokens).lstrip())

    def split(self, tokens: Sequence[int], logprobs: Sequence[float], first: bool = True) -> tuple[Step, ...]:
        """The steps of a completion. Ids of stray separators stay with the step before them, or lead the first.

        `first`: the completion begins the solution, and all blanks in front are dropped. After other steps blank lines are, and
        what is left is indentation.
        """
        steps: list[Step] = []
        start, lead = 0, ""
        for i, token in enumerate(tokens):
            if token not in self.closing:
                continue
            text = lead + self._text(tokens[start : i + 1])
            unled = self._without_lead(text if steps else _begun(text, first))
            written, found, rest = unled.rpartition(self.separator)
            if found and written.strip():
                steps.append(_step(self._trimmed(written), tokens[start : i + 1], logprobs[start : i + 1]))
                start, lead = i + 1, rest
            elif steps and not text.strip():
                steps[-1] = _joined(steps[-1], "", tokens[start : i + 1], logprobs[start : i + 1])
                start, lead = i + 1, ""
        text = self._trimmed(lead + self._text(tokens[start:])).rstrip()
        if not steps:
            return (_step(_begun(text, first), tokens, logprobs),) if tokens else ()
        if text.strip() and start < len(tokens):
            steps.append(_step(text, tokens[start:], logprobs[start:]))
        else:
            more = self.separator + text if text else ""
            steps[-1] = _joined(steps[-1], more, tokens[start:], logprobs[start:])
        return tuple(steps)

    def _without_lead(self, text: str) -> str:
        """Without the separators in front of it, and the blanks between them."""
        blank, found, rest = text.partition(self.separator)
        while found and not blank.strip():
            text = rest
            blank, found, rest = text.partition(self.separator)
        return text.lstrip(self.separator) if self.separator.isspace() else text

    def _trimmed(self, text: str) -> str:
        """Without separators at either end; indentation stays."""
        text = self._without_lead(text)
        if self.separator.isspace():
            return text.rstrip(self.separator)
        while text.endswith(self.separator):
            text = text.removesuffix(self.separator)
        return text

    def _may_close(self, text: str) -> bool:
        """Whether a token of this text may end a separator, whose last character may be spread over several tokens."""
        last = self.separator[-1]
        return last in text or (not last.isascii() and _PART in text)

    def _some_word(self, vocabulary_size: int) -> tuple[int, str] | None:
        """A token of letters after which others say what they say in the middle of a text."""
        for token in range(vocabulary_size):
            text = decoded(self.tokenizer, [token])
            if text.isascii() and text.isalpha() and decoded(self.tokenizer, [token, token]) == 2 * text:
                return token, text
        return None

    def _text(self, tokens: Sequence[int]) -> str:
        """What tokens say after others: in front of a text SentencePiece's decoder drops a blank, which may be indentation."""
        if self._word is None:
            return decoded(self.tokenizer, tokens)
        token, word = self._word
        text = decoded(self.tokenizer, [token, *tokens])
        return text.removeprefix(word) if text.startswith(word) else decoded(self.tokenizer, tokens)


def _begun(text: str, first: bool) -> str:
    """Without the blank lines in front, and without indentation if it is the first text of all."""
    bare = text.lstrip()
    return bare if first else text[text.rfind("\n", 0, len(text) - len(bare)) + 1 :]


def splitter_for(tokenizer: Tokenizer, separator: str) -> StepSplitter:
    """The splitter of a tokenizer, made once and kept with it: it looks at every token of the vocabulary."""
    made: dict[str, StepSplitter] = vars(tokenizer).setdefault("_footfall_splitters", {})
    if separator not in made:
        made[separator] = StepSplitter(tokenizer, max(tokenizer.get_vocab().values()) + 1, separator)
    return made[separator]


class SampledTrajectory(NamedTuple):
    """A trace in steps that carry their ids and logprobs, and where in the completion each step ends."""

    trajectory: Trajectory
    step_ends: tuple[int, ...]
    """Index of each step's last token that its author wrote, within the completion's ids: where a reward for it belongs."""


def trajectory_from_ids(
    problem: Problem,
    ids: Sequence[int],
    tokenizer: Tokenizer,
    separator: str = "\n\n",
    *,
    logprobs: Sequence[float] | None = None,
    end_ids: Collection[int] | None = None,
    policy_mask: Sequence[bool] | None = None,
    id: str | None = None,
    author: str | None = None,
) -> SampledTrajectory:
    """The trace that any sampler's ids are, for reinforcement learning: the steps' ids joined are the completion's ids.

    The text ends before the first of `end_ids` (the tokenizer's eos if `None`); that token and padding after it are in no step,
    as with a model in this process. Without an end the trace says so (`meta["finish"]`). `logprobs` are one for each id.

    `policy_mask` is true at the ids that the policy wrote (as `Reading.policy_mask`), false at those that tools and templates
    put between: the observation of the step before them, with its ids. The tokens by which the policy ended a turn stay the
    step's own, and the text ends where it ended its last one.
    """
    ids = [int(token) for token in ids]  # of a tensor or an array too
    given = [0.0] * len(ids) if logprobs is None else [float(logprob) for logprob in logprobs]
    own = [True] * len(ids) if policy_mask is None else [bool(each) for each in policy_mask]
    for what, count in (("logprobs", len(given)), ("entries of policy_mask", len(own))):
        if count != len(ids):
            raise ValueError(f"problem {problem.id!r}: {len(ids)} ids but {count} {what}; give one for each id")
    ends = {tokenizer.eos_token_id} if end_ids is None else set(end_ids)
    if policy_mask is None:
        length = next((at for at, token in enumerate(ids) if token in ends), len(ids))
    else:
        padding = ends | {getattr(tokenizer, "pad_token_id", None)}
        length = max((at + 1 for at in range(len(ids)) if own[at] or ids[at] not in padding), default=0)
        length -= bool(length and own[length - 1] and ids[length - 1] in ends)
    splitter = splitter_for(tokenizer, separator)
    steps: list[Step] = []
    step_ends: list[int] = []
    at = 0
    for mine, run in groupby(own[:length]):
        start, at = at, at + len(list(run))
        if not mine:
            heard = _heard(tokenizer, ids[start:at])
            if steps:
                steps[-1] = replace(steps[-1], observation=heard, observation_ids=tuple(ids[start:at]))
            else:  # nobody has spoken before
                steps, step_ends = [Step(heard, token_ids=tuple(ids[:at]), author="environment")], [at - 1]
            continue
        last = next((i + 1 for i in range(at - 1, start - 1, -1) if ids[i] not in ends), start)
        written = list(splitter.split(ids[start:last], given[start:last])) or [_step("", (), ())]
        written[-1] = _joined(written[-1], "", ids[last:at], given[last:at])
        step_ends += [start + end - 1 for end in accumulate(len(step.token_ids or ()) for step in written)]
        steps += written
    if logprobs is None:
        steps = [replace(step, logprobs=None) for step in steps]
    trajectory = Trajectory(
        id or problem.id, problem, tuple(steps), author=author, separator=separator,
        tokenizer=vocabulary_fingerprint(tokenizer),
        meta={} if length < len(ids) and own[length] and ids[length] in ends else {"finish": "length"},
    )  # fmt: skip
    return SampledTrajectory(trajectory, tuple(step_ends))


def _heard(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """What the environment said, without the special tokens around it."""
    return decoded(tokenizer, ids, special=False).strip()


def in_lines(trajectory: Trajectory, tokenizer: Tokenizer, separator: str = "\n") -> Trajectory:
    """A trace that was cut anywhere, cut at its separators again, as the policy itself would have given it."""
    ids = sampled_ids(trajectory.steps)
    logprobs = sampled_logprobs(trajectory.steps)
    whole = all(step.is_plain and (step.token_ids or not step.text) for step in trajectory.steps)
    if len(ids) != len(logprobs) or not whole:
        raise ValueError(f"trajectory {trajectory.id!r} does not hold the ids and logprobs that it was sampled with")
    return replace(trajectory, steps=splitter_for(tokenizer, separator).split(ids, logprobs), separator=separator)


def _step(text: str, tokens: Sequence[int], logprobs: Sequence[float]) -> Step:
    return Step(text, token_ids=tuple(tokens), logprobs=tuple(logprobs))


def _joined(step: Step, more: str, tokens: Sequence[int], logprobs: Sequence[float]) -> Step:
    """The step with some further text and ids."""
    assert step.token_ids is not None and step.logprobs is not None
    return _step(step.text + more, step.token_ids + tuple(tokens), step.logprobs + tuple(logprobs))
