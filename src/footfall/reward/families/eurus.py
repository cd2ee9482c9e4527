"""EurusPRM-Stage1 and -Stage2, and any other pair of causal LMs as an implicit PRM (`reward/implicit.py`).

Where a step ends, EurusPRM follows the authors' evaluation code and not its description. The code counts the tokens of
each prefix closed by the end-of-turn token and a blank line, so q of a step that another one follows takes in one token of
the next step's `Step k:` (two where the blank line merged with the full stop before it), and q of the last step the end of
turn. The generic family ends a step with its blank line, as the formula says, and the last one with its last token.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from footfall.registry import register
from footfall.reward.family import Evidence, Family, Match
from footfall.reward.heads import VocabularyRows, output_matrix
from footfall.reward.pieces import Piece, Text, Writer
from footfall.reward.readout import Readout
from footfall.reward.tensors import TensorFiles
from footfall.types import Trajectory

if TYPE_CHECKING:
    from footfall.reward.checkpoint import Options
    from footfall.reward.implicit import ImplicitJudge, LogProbs, Scored, Spans

__all__ = ["eurus", "implicit", "implicit_judge", "numbered_spans", "published_spans"]

REFERENCE = "Qwen/Qwen2.5-Math-7B-Instruct"
BETA = 0.001
_HEADS = ("score.weight", "score.0.weight", "score_head.weight", "v_head.summary.weight", "v_head.weight")


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """`Step k: …` joined by blank lines as the assistant's turn, read at each step's end and, first, before the turn."""
    last = len(trajectory.steps)
    turn: list[Piece] = [Text("", read=0)]
    for k, step in enumerate(trajectory.steps, 1):
        turn.append(Text(f"Step {k}: {step.written}" + ("\n\n" if k < last else ""), read=0))
    return writer.chat([("user", trajectory.problem.text), ("assistant", turn)])


def numbered_spans(writer: Writer, trajectory: Trajectory) -> Scored:
    """A step ends with the blank line after it; the last one with its own last token."""
    from footfall.reward.implicit import Scored

    reading = writer.read(layout(writer, trajectory), f"trajectory {trajectory.id!r}")
    return Scored(reading.ids, reading.positions[0] + 1, reading.positions[1:])


def published_spans(writer: Writer, trajectory: Trajectory) -> Scored:
    """A step ends two tokens after where its prefix alone would, the last one with the end of its turn."""
    scored = numbered_spans(writer, trajectory)
    alone = [numbered_spans(writer, trajectory.prefix(k)).ends[-1] for k in range(1, len(trajectory.steps))]
    return scored._replace(ends=(*(end + 2 for end in alone), scored.ends[-1] + 1))


@register("family", "eurus-prm")
def eurus() -> Family:
    """PRIME-RL/EurusPRM-Stage1 and -Stage2 against Qwen2.5-Math-7B-Instruct."""
    return Family(
        name="eurus-prm",
        published=("PRIME-RL/EurusPRM-Stage1", "PRIME-RL/EurusPRM-Stage2"),
        licence="Apache-2.0",
        match=Match(
            model_types=("qwen2",), absent=_HEADS, tokens=("<|im_start|>", "<|im_end|>"), names=("eurusprm", "eurus-prm"),
            named=True,
        ),
        layout=layout, head=VocabularyRows(()), readout=Readout("sigmoid"), open=_open_eurus,
    )  # fmt: skip


@register("family", "implicit")
def implicit() -> Family:
    """Any causal LM as an implicit PRM against another one, which `base` names."""
    return Family(
        name="implicit", published=(), licence="that of the two models",
        match=Match(absent=_HEADS, named=True),
        layout=layout, head=VocabularyRows(()), readout=Readout("sigmoid"), open=_open_implicit,
    )  # fmt: skip


@register("reward", "implicit")
def implicit_judge(
    path: str | Path, base: str, beta: float = BETA, device: str | None = None, token_budget: int | None = None
) -> ImplicitJudge:
    """An implicit PRM: the causal LM at `path` against the reference `base`, with its own beta."""
    from footfall.reward.checkpoint import Options, evidence

    options = Options(device=device, token_budget=token_budget, base=base)
    return _open(evidence(path), implicit(), options, base, numbered_spans, beta)


def _open_eurus(seen: Evidence, family: Family, options: Options) -> ImplicitJudge:
    return _open(seen, family, options, options.base or REFERENCE, published_spans, BETA)


def _open_implicit(seen: Evidence, family: Family, options: Options) -> ImplicitJudge:
    if options.base is None:
        raise ValueError(f"{seen.name} as an implicit PRM needs a reference model: --set base=…")
    return _open(seen, family, options, options.base, numbered_spans, BETA)


def _open(seen: Evidence, family: Family, options: Options, base: str, spans: Spans, beta: float) -> ImplicitJudge:
    from footfall.reward.canary import default_pair
    from footfall.reward.checkpoint import evidence
    from footfall.reward.implicit import ImplicitJudge

    other = evidence(base)
    if seen.tokenizer.get_vocab() != other.tokenizer.get_vocab():
        raise ValueError(
            f"{seen.name} and its reference {base} do not share a vocabulary, so their tokens do not compare"
        )
    judge = ImplicitJudge(
        _language_model(seen, options), _language_model(other, options), Writer(seen.tokenizer, seen.name), spans,
        kind=family.name, beta=beta, too_long=options.too_long, token_budget=options.token_budget,
    )  # fmt: skip
    if options.check:
        judge.refuse_equal(default_pair(), seen.name)
    return judge


def _language_model(seen: Evidence, options: Options) -> LogProbs:
    from footfall.loading import pick_device, pick_dtype
    from footfall.reward.checkpoint import load_native
    from footfall.reward.implicit import LogProbs

    place = pick_device(options.device)
    dtype = options.dtype or pick_dtype(place)
    base = None if seen.base is None else seen.base()
    tensors = seen.tensors if base is None else TensorFiles(base)
    backbone = load_native(seen.folder, dtype, None, None if base is None else str(base))
    output_VH = tensors.load(output_matrix(tensors)).to(dtype)
    model: LogProbs = LogProbs(backbone, output_VH).to(place)
    return model
