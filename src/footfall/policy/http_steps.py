"""A server's text to steps: cut at the separator, with each token's logprob given to the step its text starts in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from footfall.policy.http_wire import Choice
from footfall.types import Step

StepStop = Literal["reported", "assumed", "cut"]


class Piece(NamedTuple):
    """A step's place in the text; `closed` if its separator follows."""

    start: int
    end: int
    closed: bool


class Written(NamedTuple):
    """What one choice comes to. `spelled` is False if tokens were given but do not spell the text."""

    steps: tuple[Step, ...]
    finish: Literal["end", "step", "length", "error"]
    error: str | None = None
    spelled: bool = True
    blank: Step | None = None
    """What there is of a step that the separator ended before it had any text: the writer can be asked to go on there."""


class Cutter(NamedTuple):
    """How to read the choices written after one prefix."""

    separator: str
    until: Literal["end", "step"]
    step_stop: StepStop
    turn: str
    """The chat turn that the choice goes on with; its template may have dropped the last separator, then it comes again."""
    keep_ids: bool
    begun: Step | None = None
    """The fragment that the choice goes on with: the first step read is that step, now whole."""

    def read(self, choice: Choice) -> Written:
        """The choice as steps. A stop string that the server cut off the text is put back first."""
        choice, separator = self._without_turn(choice), self.separator
        at_stop = self._stopped_at_separator(choice)
        text = choice.text.removesuffix(separator) + separator if at_stop else choice.text
        if self.begun is not None:
            return self._with_fragment(self.begun, replace(choice, text=text))
        again = self.turn and separator and text.startswith(separator)
        found = pieces(text, separator, len(separator) if again else 0)
        finish: Literal["end", "step", "length"] = "length" if choice.finish == "length" else "end"
        if self.until == "step" and found and found[0].closed:
            found, finish = found[:1], "step"
        elif at_stop:
            reason = f"the step is empty: the answer begins with {separator!r}; {_EMPTY_STEP}"
            # llama.cpp gives no logprobs at all (null) where a stop string is all that was written.
            return Written((), "error", reason, blank=Step(text, logprobs=choice.logprobs or ()))
        # llama.cpp does not tell the token that meets a stop string, which may begin with some of the text.
        spare = len(text) if at_stop and choice.of_llama_cpp else 0
        starts = None if choice.tokens is None else token_starts(text, choice.tokens, spare)
        steps = tuple(self._step(choice, text, piece, starts) for piece in found)
        return Written(steps, finish, spelled=choice.tokens is None or starts is not None)

    def _with_fragment(self, begun: Step, choice: Choice) -> Written:
        written = self._replace(begun=None, turn="").read(_joined(begun, choice))
        first = tuple(_whole(begun, step) for step in written.steps[:1])
        blank = None if written.blank is None else _whole(begun, written.blank)
        return written._replace(steps=(*first, *written.steps[1:]), blank=blank)

    def _without_turn(self, choice: Choice) -> Choice:
        """llama.cpp gives the turn back in front of what it wrote; the tokens it tells, if any, are those that it wrote."""
        if not self.turn or not choice.of_llama_cpp or not choice.text.startswith(self.turn):
            return choice
        given_back = choice.tokens is None or token_starts(choice.text, choice.tokens) is None
        return replace(choice, text=choice.text.removeprefix(self.turn)) if given_back else choice

    def _stopped_at_separator(self, choice: Choice) -> bool:
        if self.until != "step" or self.step_stop == "cut" or choice.finish != "stop":
            return False
        return choice.stop == self.separator if choice.tells_stop else True

    def _step(self, choice: Choice, text: str, piece: Piece, starts: Sequence[int] | None) -> Step:
        """One piece with the tokens that start in it; ids only where they spell exactly the step and its separator."""
        step = Step(text[piece.start : piece.end])
        if starts is None or choice.tokens is None or choice.logprobs is None:
            return step
        end = piece.end + len(self.separator) * piece.closed
        mine = slice(bisect_left(starts, piece.start), bisect_left(starts, end))
        ids = choice.token_ids
        if not self.keep_ids or ids is None or "".join(choice.tokens[mine]) != text[piece.start : end]:
            return Step(step.text, logprobs=choice.logprobs[mine])
        return Step(step.text, token_ids=ids[mine], logprobs=choice.logprobs[mine])


def _joined(begun: Step, choice: Choice) -> Choice:
    """The choice with the fragment before it, as if that were its first token."""
    tokens = None if choice.tokens is None else (begun.text, *choice.tokens)
    logprobs = None if choice.logprobs is None else (0.0, *choice.logprobs)
    ids = None if choice.token_ids is None else (0, *choice.token_ids)
    return replace(choice, text=begun.text + choice.text, tokens=tokens, logprobs=logprobs, token_ids=ids)


def _whole(begun: Step, step: Step) -> Step:
    """The joined step with what is known of the fragment's tokens in the place of that one; nothing if nothing is."""
    new_logprobs, new_ids = step.logprobs, step.token_ids
    logprobs = None if begun.logprobs is None or new_logprobs is None else (*begun.logprobs, *new_logprobs[1:])
    ids = None if logprobs is None or begun.token_ids is None or new_ids is None else (*begun.token_ids, *new_ids[1:])
    return replace(step, logprobs=logprobs, token_ids=ids)


_EMPTY_STEP = (
    "end steps with what the model puts between them (--step-end), use step_stop='cut' (--step-stop cut) or, if a chat "
    "template drops the last separator, mode='completions' (--mode completions)"
)


def pieces(text: str, separator: str, start: int = 0) -> list[Piece]:
    """The steps in `text[start:]`. A separator with only white space before it closes nothing, so no step is empty.

    `"a\\n\\n\\n\\nb"` is `"a"` and `"\\n\\nb"`: joined by the separator the steps are again what was written.
    """
    found: list[Piece] = []
    at = text.find(separator, start) if separator else -1
    while at >= 0:
        if text[start:at].strip():
            found.append(Piece(start, at, True))
            start = at + len(separator)
        at = text.find(separator, at + len(separator))
    if text[start:].strip():
        found.append(Piece(start, len(text), False))
    return found


def token_starts(text: str, tokens: Sequence[str], spare: int = 0) -> list[int] | None:
    """Where each token begins in the text, or `None` if the tokens do not spell it, but for the last `spare` characters.

    The last ones may run past the end (eos, the rest of a stop string). A token whose leading space the server dropped
    (SentencePiece vocabularies) is found too; a character broken over several tokens is not.
    """
    starts: list[int] = []
    cursor = 0
    for token in tokens:
        rest = text[cursor : cursor + len(token) + 1]
        starts.append(cursor)
        if rest.startswith(token) or token.startswith(rest):
            cursor += len(token)
        elif rest == " " + token:
            cursor += len(rest)
        else:
            return None
    return starts if cursor >= len(text) - spare else None
