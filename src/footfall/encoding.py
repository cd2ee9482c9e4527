"""Text to token ids, step by step: a prompt, its steps and its separators are tokenised apart and joined as ids.

Joining the text first lets a BPE merge swallow a step boundary; that alone has cost published evaluations four points
of F1. Ids that came from the sampler are used as they are when they belong to the same vocabulary.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from footfall.types import Author, Problem, Step, Trajectory

__all__ = [
    "Encoded", "Template", "Tokenizer", "check_round_trip", "encode", "fingerprint", "prompt_ids", "template_for",
    "texts_to_tokenise",
]  # fmt: skip


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used here."""

    bos_token_id: int | None
    eos_token_id: int | None
    chat_template: Any

    def encode(self, text: Any, **options: Any) -> list[int]: ...
    def decode(self, token_ids: Any, **options: Any) -> Any: ...
    def get_vocab(self) -> dict[str, int]: ...
    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Template:
    """How a problem becomes the ids in front of its first step."""

    kind: Literal["plain", "chat"] = "plain"
    """`plain`: bos, prompt, `prompt_end`. `chat`: the tokenizer's own chat template with a generation prompt."""
    system: str | None = None
    prompt_end: str = "\n"


class Encoded(NamedTuple):
    """Ids of a whole trace; `step_ends[k]` is the index of the last token of step k, its separator included."""

    ids: tuple[int, ...]
    prompt_length: int
    step_ends: tuple[int, ...]
    foreign: tuple[tuple[int, int], ...] = ()
    """Spans of ids after the prompt that the policy did not write: observations, and steps of other authors."""
    images: tuple[str, ...] = ()
    """References in the order of the trace: the problem's, then the steps'."""

    @property
    def policy_mask(self) -> tuple[bool, ...]:
        """True at the tokens that the policy wrote: those alone are counted as generated and get gradient."""
        mask = [False] * self.prompt_length + [True] * (len(self.ids) - self.prompt_length)
        for start, end in self.foreign:
            mask[start:end] = [False] * (end - start)
        return tuple(mask)


def encode(
    tokenizer: Tokenizer, trajectory: Trajectory, template: Template, prompt: Sequence[int] | None = None
) -> Encoded:
    """The trace as ids. Steps sampled with this very vocabulary keep the ids they were sampled with.

    `prompt` are the ids of the problem, from who has made them before (`prompt_ids`).
    """
    ids = list(prompt_ids(tokenizer, trajectory.problem, template) if prompt is None else prompt)
    prompt_length = len(ids)
    own_ids = _is_own(tokenizer, trajectory)
    ends: list[int] = []
    foreign: list[tuple[int, int]] = []
    known: dict[str, list[int]] = {}
    for k, step in enumerate(trajectory.steps):
        start = len(ids)
        for author, written, text in _pieces(step, trajectory.separator, own_ids):
            before = len(ids)
            if text is not None and text not in known:  # a separator comes again after every step
                known[text] = tokenizer.encode(text, add_special_tokens=False)
            ids.extend(written if text is None else known[text])
            if author != "policy" and len(ids) > before:
                foreign.append((before, len(ids)))
        if len(ids) == start:
            raise ValueError(f"trajectory {trajectory.id!r}: step {k + 1} is empty and has no separator to read it at")
        ends.append(len(ids) - 1)
    images = (*trajectory.problem.images, *(image for step in trajectory.steps for image in step.images))
    return Encoded(tuple(ids), prompt_length, tuple(ends), tuple(foreign), images)


class _Piece(NamedTuple):
    """Ids as they are, or a text that is tokenised by itself."""

    author: Author
    ids: Sequence[int]
    text: str | None = None


def _pieces(step: Step, separator: str, own_ids: bool) -> Iterator[_Piece]:
    """A step in the order of its sequence; the separator goes with what it follows."""
    observed = step.observation is not None or step.observation_ids is not None
    if own_ids and step.token_ids:
        yield _Piece(step.author, step.token_ids)
    else:
        yield _Piece(step.author, (), "\n".join(part for part in (step.text, step.action) if part))
        if not observed:
            yield _Piece(step.author, (), separator)
    if own_ids and step.observation_ids is not None:
        yield _Piece("environment", step.observation_ids)
    elif observed:
        yield _Piece("environment", (), f"\n{step.observation}" if step.observation else "")
        yield _Piece("environment", (), separator)


def texts_to_tokenise(tokenizer: Tokenizer, trajectory: Trajectory) -> list[str]:
    """What `encode` tokenises of a trace beside its prompt: what carries no ids of this vocabulary, and the separators."""
    own_ids = _is_own(tokenizer, trajectory)
    pieces = (piece for step in trajectory.steps for piece in _pieces(step, trajectory.separator, own_ids))
    return list(dict.fromkeys(piece.text for piece in pieces if piece.text is not None))


def _is_own(tokenizer: Tokenizer, trajectory: Trajectory) -> bool:
    return trajectory.tokenizer is not None and trajectory.tokenizer == fingerprint(tokenizer)


def prompt_ids(tokenizer: Tokenizer, problem: Problem, template: Template) -> list[int]:
    """The ids in front of a problem's first step."""
    if template.kind == "plain":
        bos = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        return bos + tokenizer.encode(problem.text + template.prompt_end, add_special_tokens=False)
    if isinstance(problem.prompt, str):
        messages = [{"role": "user", "content": problem.prompt}]
    else:
        messages = [{"role": m.role, "content": m.content} for m in problem.prompt]
    if template.system is not None:
        messages.insert(0, {"role": "system", "content": template.system})
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    return list(ids)


def template_for(tokenizer: Tokenizer) -> Template:
    """Chat where the tokenizer brings a chat template, plain otherwise."""
    return Template("chat" if getattr(tokenizer, "chat_template", None) else "plain")


_FINGERPRINT = "_footfall_fingerprint"


def fingerprint(tokenizer: Tokenizer) -> str:
    """Names a vocabulary by its content; ids may be carried over between equal fingerprints only."""
    known: str | None = getattr(tokenizer, _FINGERPRINT, None)
    if known is None:
        vocabulary = json.dumps(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))
        known = hashlib.sha256(vocabulary.encode()).hexdigest()[:16]
        setattr(tokenizer, _FINGERPRINT, known)
    return known


_ROUND_TRIP = ("3 + 4 = 7.", "so  two   spaces\nand lines\n\n", "x² ≤ ½ → 例えば 🙂 \\frac{1}{2}")


def check_round_trip(tokenizer: Tokenizer, source: str) -> None:
    """`decode(encode(x)) == x`, or an error: a tokenizer that drops spaces still runs and still gives numbers."""
    for text in _ROUND_TRIP:
        ids = tokenizer.encode(text, add_special_tokens=False)
        back = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if back.lstrip() != text.lstrip():
            raise ValueError(
                f"the tokenizer of {source} turns {text!r} into {back!r}; "
                "it was probably saved by another transformers version or loaded with the wrong class"
            )
