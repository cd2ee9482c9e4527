"""A judge behind HTTP: `footfall serve` on the machine with the GPU, `--judge http://HOST:PORT` wherever its values are wanted.

    GET  /v1/judge   {"judge": name, "threshold": …, "separators": […], "partial": whether unfinished steps can be read,
                      "compares": whether the traces of a problem belong in one request}
    POST /v1/judge   {"traces": [a record of Footfall's JSON lines, …], "partial": false}
                     → {"judgements": [one for each trace, in order], "judge": name}

Traces go with their token ids and judgements come with all that they hold, so that the values are those of the same judge in
this process. A request that fails after its retries leaves its traces without values, each step with the reason: no zeros.
An answer of another judge than the one that was asked for first ends the run: values of two are never mixed under one name.
The server is not trusted (`footfall.policy.http_client`), and an answer that is not one judgement for each trace is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

from footfall.formats import Fields, FormatError, format_named, read_record
from footfall.formats.nouns import from_plain, to_plain
from footfall.judging import Traits
from footfall.policy.http_client import AttemptError, Question, Server, ServerRefusedError, ask_all, key_from
from footfall.registry import Declared, register
from footfall.terminal import one_line
from footfall.types import Json, Judged, Judgement, Reason, Trajectory, Unjudged, content_key

PATH = "/judge"
_TEXT_ALONE = Unjudged(Reason.UNCHECKABLE, "a served judge gets text, and the trace has images")


class About(NamedTuple):
    """What a server says of its judge."""

    judge: str
    threshold: float | None = None
    separators: tuple[str, ...] = ()
    partial: bool = False
    compares: bool = False


@dataclass(frozen=True)
class ServedJudge:
    """Asks a server of `footfall serve`; several addresses with commas between them are servers of the same judge."""

    server: Server
    batch: int = 64
    """Traces a request; more where a problem has more and the judge compares them."""
    _accepted: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch={self.batch} traces a request; 1 at least")

    @cached_property
    def about(self) -> About:
        """Asked for once; every judgement is stored under the judge's name."""
        (found,) = ask_all(self.server, self._accepted, [(Question("judge", PATH), _about)])
        if found.value is None:
            told = f"{self.server.url} does not answer: {found.error}; is `footfall serve` running there?"
            raise ConnectionError(told)
        return found.value

    @property
    def name(self) -> str:
        """The judge's own. Not the address: a server that moved to another port still says the same."""
        return f"served({self.about.judge})"

    @property
    def traits(self) -> Traits:
        about = self.about
        read = partial(self._judge, unfinished=True) if about.partial else None
        return Traits(
            threshold=about.threshold, separators=about.separators, judge_partial=read, compares=about.compares
        )

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self._judge(trajectories, unfinished=False)

    def _judge(self, trajectories: Sequence[Trajectory], unfinished: bool) -> list[Judgement]:
        said = {i: _unjudged(t, self.name, _TEXT_ALONE) for i, t in enumerate(trajectories) if has_images(t)}
        places = self._parts([(i, t) for i, t in enumerate(trajectories) if i not in said])
        parts = [[trajectories[i] for i in part] for part in places]
        asked = [(self._question(part, unfinished), partial(_judgements, part, self)) for part in parts]
        for own, part, outcome in zip(places, parts, ask_all(self.server, self._accepted, asked), strict=True):
            why = Unjudged(Reason.FAILED_CALL, f"the judge's server: {outcome.error}")
            said |= zip(own, outcome.value or [_unjudged(trace, self.name, why) for trace in part], strict=True)
        return [said[i] for i in range(len(trajectories))]

    def _parts(self, traces: Sequence[tuple[int, Trajectory]]) -> list[list[int]]:
        """Which traces go into one request: with a judge that compares them all of a problem."""
        groups: dict[object, list[int]] = {}
        for i, trace in traces:
            groups.setdefault(trace.problem.text if self.about.compares else i, []).append(i)
        parts: list[list[int]] = []
        for group in groups.values():
            if not parts or len(parts[-1]) + len(group) > self.batch:
                parts.append([])
            parts[-1] += group
        return parts

    def _question(self, part: Sequence[Trajectory], unfinished: bool) -> Question:
        body: dict[str, Json] = {"traces": list(records(part)), "partial": unfinished}
        return Question(content_key(*[trace.id for trace in part])[:16], PATH, body)


@register("reward", "served", Declared(serves=("url",)))
def served(
    url: str,
    api_key_env: str | None = None,
    batch: int = 64,
    concurrency: int = 2,
    timeout: float = 600.0,
    retries: int = 5,
    first_wait: float = 0.5,
) -> ServedJudge:
    """The judge of a `footfall serve`, by its address; the key comes from the variable that `api_key_env` names."""
    key = None if api_key_env is None else key_from(api_key_env)
    server = Server(
        url, key, concurrency, read_timeout=timeout, total_timeout=timeout, retries=retries, first_wait=first_wait
    )
    return ServedJudge(server, batch)


def has_images(trace: Trajectory) -> bool:
    """Whether there is more to it than text."""
    return bool(trace.problem.images) or any(step.images for step in trace.steps)


def records(traces: Sequence[Trajectory]) -> list[dict[str, Json]]:
    """As Footfall's JSON lines have them, every field."""
    written = format_named("jsonl").write(Judged(trace, None) for trace in traces)
    return [dict(each.record) for each in written]


def traces_of(body: object, where: str) -> list[Trajectory]:
    """The traces of a request; an error names the one that is none."""
    given = body.get("traces") if isinstance(body, dict) else None
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise FormatError(where, 'a JSON object with the field "traces", a list of objects')
    form = format_named("jsonl")
    return [
        read_record(form, Fields(each, where, line=k, unit="trace"))[0].trajectory for k, each in enumerate(given, 1)
    ]


def answer_of(judgements: Sequence[Judgement], judge: str) -> dict[str, Json]:
    """What a server answers."""
    return {"judgements": [to_plain(judgement) for judgement in judgements], "judge": judge}


def _judgements(part: Sequence[Trajectory], asked: ServedJudge, payload: object) -> list[Judgement]:
    """One for each trace, under the name by which this process knows the judge."""
    who = payload.get("judge") if isinstance(payload, dict) else None
    if isinstance(who, str) and who != asked.about.judge:
        raise ServerRefusedError(
            f"{asked.server.url} answers by the judge {one_line(who, 200)!r}, where {one_line(asked.about.judge, 200)!r} was "
            "asked: all addresses must serve one judge, and the same one to the end; start the run anew with it"
        )
    given = payload.get("judgements") if isinstance(payload, dict) else None
    if not isinstance(given, list) or len(given) != len(part) or not all(isinstance(each, dict) for each in given):
        raise AttemptError(f"the answer has no list of {len(part)} judgements", again=False)
    found = []
    for k, (trace, each) in enumerate(zip(part, given, strict=True), 1):
        try:
            said = from_plain(Judgement, Fields(each, "answer", line=k, unit="judgement")).check(trace)
        except (ValueError, TypeError, RecursionError) as error:
            raise AttemptError(f"the answer is no judgement: {error}", again=False) from error
        if said.trajectory_id != trace.id:
            raise AttemptError(f"a judgement of {said.trajectory_id!r} for the trace {trace.id!r}", again=False)
        found.append(replace(said, judge=asked.name))
    return found


def _about(payload: object) -> About:
    found = payload if isinstance(payload, dict) else {}
    name, threshold, separators = found.get("judge"), found.get("threshold"), found.get("separators", [])
    a_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    texts = isinstance(separators, list) and all(isinstance(each, str) for each in separators)
    if not isinstance(name, str) or not name or not (threshold is None or a_number) or not texts:
        raise AttemptError("it answers, but not as `footfall serve` does", again=False)
    return About(name, None if threshold is None else float(threshold), tuple(separators), found.get("partial") is True,
                 found.get("compares") is True)  # fmt: skip


def _unjudged(trace: Trajectory, name: str, why: Unjudged) -> Judgement:
    steps = len(trace.steps)
    return Judgement(trace.id, (None,) * steps, name, failures=(why,) * steps)
