"""The one way from a problem and its steps to what a model reads: turns first, then ids, messages or text from the same turns.

    turns      who speaks, in pieces: the prompt's messages, the solver's turn with its steps, observations
    ids        of a model in this process: `encode` (policies) and `read_traces` (PRMs with a head of their own)
    messages   for a chat server: `messages`
    text       for questions whose reply is begun for the model: `dialogue_text`

A prompt, its steps and its separators are tokenised apart and joined as ids: joining the text first lets a BPE merge swallow
a step boundary; that alone has cost published evaluations four points of F1. Ids that came from the sampler are used as they
are when they belong to the same vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from footfall.render.pieces import CUT, Ids, Piece, Reading, Text, Token, Writer, templated
from footfall.types import Author, Json, Message, Problem, Step, Trajectory

Observations: TypeAlias = Literal["inline", "user", "tool"]


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used here."""

    bos_token_id: int | None
    eos_token_id: int | None
    chat_template: Any

    def encode(self, text: Any, **options: Any) -> list[int]:
        """Text to ids."""
        ...

    def decode(self, token_ids: Any, **options: Any) -> Any:
        """Ids to text."""
        ...

    def get_vocab(self) -> dict[str, int]:
        """Every token with its id, added ones included."""
        ...

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Messages as the text or the ids that the model was trained on."""
        ...


def decoded(tokenizer: Tokenizer, ids: Sequence[int], special: bool = True) -> str:
    """The text of the ids as it was written, spaces and special tokens (unless not `special`) included."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=not special, clean_up_tokenization_spaces=False))


_ROUND_TRIP = ("3 + 4 = 7.", "so  two   spaces\nand lines\n\n", "x² ≤ ½ → 例えば 🙂 \\frac{1}{2}")


def check_round_trip(tokenizer: Tokenizer, source: str) -> None:
    """`decode(encode(x)) == x`, or an error: a tokenizer that drops spaces still runs and still gives numbers."""
    for text in _ROUND_TRIP:
        back = decoded(tokenizer, tokenizer.encode(text, add_special_tokens=False))
        if back.lstrip() != text.lstrip():
            raise ValueError(
                f"the tokenizer of {source} turns {text!r} into {back!r}; "
                "it was probably saved by another transformers version or loaded with the wrong class"
            )


@dataclass(frozen=True, slots=True)
class Template:
    """How a problem and its steps become turns, and these the ids in front of what is written next."""

    kind: Literal["plain", "chat", "rendered"] = "plain"
    """`plain`: bos, prompt, `prompt_end`. `chat`: the tokenizer's own chat template with a generation prompt. `rendered`: the
    prompt is the whole dialogue as text already, special tokens meant as such."""
    system: str | None = None
    prompt_end: str = "\n"
    observations: Observations = "inline"
    """Where an observation stands in a chat: in the solver's own turn, or in a turn of this role after it. One whose ids are
    known stands where these put it: they hold all that is around it."""

    def __post_init__(self) -> None:
        if self.observations != "inline" and self.kind != "chat":
            raise ValueError(
                f"observations={self.observations!r} are turns of a chat: they need kind='chat', not {self.kind!r}"
            )

    def to_dict(self) -> dict[str, Json]:
        """Its fields; the place of observations only if it is another than in the solver's turn, as names of old have it."""
        found: dict[str, Json] = {"kind": self.kind, "system": self.system, "prompt_end": self.prompt_end}
        return found if self.observations == "inline" else {**found, "observations": self.observations}


class Turn(NamedTuple):
    """What one side of a dialogue says."""

    role: str
    pieces: tuple[Piece, ...]
    author: Author = "environment"
    """Who wrote its last step, and so ended it."""

    @property
    def text(self) -> str:
        """What its pieces say, cuts aside."""
        return "".join(piece.text for piece in self.pieces if isinstance(piece, Text | Token | Ids))


def template_for(tokenizer: Tokenizer) -> Template:
    """Chat where the tokenizer brings a chat template, plain otherwise."""
    return Template("chat" if getattr(tokenizer, "chat_template", None) else "plain")


# -- turns


def prompt_turns(problem: Problem, system: str | None = None) -> list[Turn]:
    """The messages in front of the first step."""
    said = (Message("user", problem.prompt),) if isinstance(problem.prompt, str) else problem.prompt
    lead = () if system is None else (Message("system", system),)
    return [Turn(message.role, (Text(message.content),)) for message in (*lead, *said)]


def solution_turns(
    trajectory: Trajectory,
    vocabulary: str | None = None,
    observations: Observations = "inline",
    marker: int | None = None,
) -> list[Turn]:
    """The steps as turns of the assistant, each step read at its end (at the `marker` after it, if there is one).

    Steps sampled with the `vocabulary` keep the ids they were sampled with. Observations that are not `inline` are turns of
    their own between those of the assistant.
    """
    own_ids = vocabulary is not None and trajectory.tokenizer == vocabulary
    turns: list[Turn] = []
    spoken: list[Piece] = []
    for k, step in enumerate(trajectory.steps):
        where = f"trajectory {trajectory.id!r}: step {k + 1}"
        inside, heard = _step_pieces(step, trajectory.separator, own_ids, observations == "inline", where)
        spoken += _read_at_end(inside) if marker is None else [*inside, Ids((marker,), read=0, author="environment")]
        if heard is not None:
            turns += [Turn("assistant", tuple(spoken), step.author), Turn(observations, (heard,))]
            spoken = []
    return [*turns, Turn("assistant", tuple(spoken))] if spoken else turns


def _read_at_end(pieces: list[Piece]) -> list[Piece]:
    """The pieces of a step with a read at the last one that is no cut."""
    last = len(pieces) - 1 - (pieces[-1] == CUT)
    piece = pieces[last]
    assert isinstance(piece, Text | Ids)
    return [*pieces[:last], replace(piece, read=0), *pieces[last + 1 :]]


def _step_pieces(
    step: Step, separator: str, own_ids: bool, inline: bool, where: str
) -> tuple[list[Piece], Text | None]:
    """A step in the order of its sequence, the separator with what it follows; and the observation, if that is a turn."""
    observed = step.observation is not None or step.observation_ids is not None
    inline = inline or (own_ids and step.observation_ids is not None)
    pieces: list[Piece] = []
    said = "\n".join(part for part in (step.text, step.action) if part)
    if own_ids and step.token_ids:
        pieces.append(Ids(step.token_ids, said + ("" if observed else separator), author=step.author))
    else:
        pieces += [Text(said, author=step.author), CUT]
        if not (observed and inline):
            pieces += [Text(separator, author=step.author), CUT]
    if observed and inline:
        if own_ids and step.observation_ids is not None:
            pieces.append(Ids(step.observation_ids, f"\n{step.observation or ''}", author="environment"))
        else:
            heard = f"\n{step.observation}" if step.observation else ""
            pieces += [Text(heard, author="environment"), CUT, Text(separator, author="environment"), CUT]
    if not any(piece.ids if isinstance(piece, Ids) else isinstance(piece, Text) and piece.text for piece in pieces):
        raise ValueError(f"{where} is empty and has no separator to read it at")
    return pieces, None if inline or not observed else Text(step.observation or "", author="environment")


# -- ids


def prompt_ids(tokenizer: Tokenizer, problem: Problem, template: Template) -> list[int]:
    """The ids in front of a problem's first step."""
    if template.kind == "rendered":
        return tokenizer.encode(problem.text, add_special_tokens=False)
    if template.kind == "plain":
        return _bos(tokenizer) + tokenizer.encode(problem.text + template.prompt_end, add_special_tokens=False)
    ids = templated(
        tokenizer,
        _json(prompt_turns(problem, template.system)),
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
    )
    if not ids:
        raise ValueError(
            f"the chat template of {getattr(tokenizer, 'name_or_path', None) or 'the tokenizer'} writes nothing"
        )
    return list(ids)


def _bos(tokenizer: Tokenizer) -> list[int]:
    return [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]


def encode(
    tokenizer: Tokenizer, trajectory: Trajectory, template: Template, prompt: Sequence[int] | None = None
) -> Reading:
    """The trace as a policy reads it. `prompt` are the ids of the problem, from who has made them before (`prompt_ids`)."""
    writer = _policy_writer(tokenizer)
    known = Ids(prompt_ids(tokenizer, trajectory.problem, template) if prompt is None else prompt)
    return _read(writer, trajectory, _laid_out(writer, trajectory, template, [known], None))


def read_traces(
    writer: Writer, trajectories: Sequence[Trajectory], template: Template, marker: int | None = None
) -> list[Reading]:
    """Traces as a PRM with a head reads them, tokenised together: special tokens spelled out in them stay text."""
    laid = [_laid_out(writer, t, template, _prompt_pieces(writer, t.problem, template), marker) for t in trajectories]
    with writer.ahead(pieces for layout in laid for pieces in layout):
        return [_read(writer, t, layout) for t, layout in zip(trajectories, laid, strict=True)]


class _Layout(NamedTuple):
    prompt: Sequence[Piece]
    solution: Sequence[Piece]


def _prompt_pieces(writer: Writer, problem: Problem, template: Template) -> list[Piece]:
    if template.kind == "plain":
        return [Ids(_bos(writer.tokenizer)), Text(problem.text + template.prompt_end), CUT]
    return [Ids(prompt_ids(writer.tokenizer, problem, template))]


def _laid_out(
    writer: Writer, trajectory: Trajectory, template: Template, prompt: Sequence[Piece], marker: int | None
) -> _Layout:
    turns = solution_turns(trajectory, writer.vocabulary, template.observations, marker)
    if len(turns) < 2:
        return _Layout(prompt, [piece for turn in turns for piece in turn.pieces])
    before: list[tuple[str, str | Sequence[Piece]]] = [
        (turn.role, turn.text) for turn in prompt_turns(trajectory.problem, template.system)
    ]
    said: list[tuple[str, str | Sequence[Piece]]] = [(turn.role, turn.pieces) for turn in turns]
    asked = writer.chat(before, open_turn=True, author="environment")
    ended = {len(before) + n for n, turn in enumerate(turns) if turn.author == "policy"}
    whole = writer.chat(
        before + said, open_turn=said[-1][0] != "assistant", author="environment", open_end=True, closed=ended
    )
    if whole[: len(asked)] != asked:
        raise ValueError(f"the chat template of {writer.source} writes a prompt otherwise once it is answered")
    return _Layout(asked, whole[len(asked) :])


def _read(writer: Writer, trajectory: Trajectory, layout: _Layout) -> Reading:
    reading = writer.read(layout.solution, f"trajectory {trajectory.id!r}", layout.prompt)
    images = (*trajectory.problem.images, *(image for step in trajectory.steps for image in step.images))
    return reading._replace(images=images) if images else reading


_WRITER = "_footfall_writer"


def _policy_writer(tokenizer: Tokenizer) -> Writer:
    """The writer of a policy's tokenizer, made once: a policy reads special tokens in prompts as such."""
    known: Writer | None = getattr(tokenizer, _WRITER, None)
    if known is None:
        known = Writer(tokenizer, specials="parsed")
        setattr(tokenizer, _WRITER, known)
    return known


# -- messages and text


def messages(prefix: Trajectory, template: Template, fragment: bool = False) -> dict[str, Json]:
    """A chat request's own fields; the steps so far are an assistant turn to be gone on with. A `fragment` is not ended."""
    turns = prompt_turns(prefix.problem, template.system) + solution_turns(prefix, None, template.observations)
    if not prefix.steps or turns[-1].role != "assistant":
        return {"messages": _json(turns)}
    said = solution_text(prefix, fragment, template.observations)
    whole: list[Json] = [*_json(turns[:-1]), {"role": "assistant", "content": said}]
    return {"messages": whole, "add_generation_prompt": False, "continue_final_message": True}


def solution_text(prefix: Trajectory, fragment: bool = False, observations: Observations = "inline") -> str:
    """The turn that is gone on with as text, all steps of it and the observations in it; none if the environment spoke last.

    A last step that is a `fragment` is not ended.
    """
    turns = solution_turns(prefix, None, observations)
    said = turns[-1].text if turns and turns[-1].role == "assistant" else ""
    return said.removesuffix(prefix.separator) if fragment else said


def _json(turns: Sequence[Turn]) -> list[dict[str, Json]]:
    return [{"role": turn.role, "content": turn.text} for turn in turns]


def dialogue_text(tokenizer: Any, said: Sequence[Message], opening: str = "", header: bool = True) -> str:
    """A dialogue and the opening of its reply as the model reads them, bos included.

    The whole is tokenised as one text afterwards (`Template("rendered")`), as judges that write were trained: a blank line
    that closes the assistant's header and one that opens the reply are then one token, and not two. Without `header` the
    reply goes on in the last turn.
    """
    disarm = _disarmer(tokenizer)
    if tokenizer.chat_template is None:
        return (tokenizer.bos_token or "") + "\n\n".join(disarm(m.content) for m in said) + "\n" + opening
    turns = [{"role": m.role, "content": disarm(m.content)} for m in said]
    text: str = templated(tokenizer, turns, tokenize=False, add_generation_prompt=header)
    closed = text.removesuffix("\n")
    if not header and tokenizer.eos_token and closed.endswith(tokenizer.eos_token):
        text = closed.removesuffix(tokenizer.eos_token)
    return text + opening


def _disarmer(tokenizer: Any) -> Callable[[str], str]:
    """Breaks special tokens that a trace spells out, so that no step can close a turn and speak for the judge."""
    names = sorted({token.content for token in tokenizer.added_tokens_decoder.values() if token.special}, key=len)
    if not names:
        return str
    pattern = re.compile("|".join(re.escape(name) for name in reversed(names)))
    return lambda text: pattern.sub(lambda match: match[0][:1] + "\u200b" + match[0][1:], text)
