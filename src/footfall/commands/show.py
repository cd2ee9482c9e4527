"""`footfall show`: traces with their labels and judgements, for people to read in the terminal."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional

from footfall.commands._options import ReadOptions
from footfall.commands._output import emit, facts
from footfall.commands._sources import Some, here, read_source, read_traces
from footfall.commands.info import format_of
from footfall.damaged import json_of, text_of
from footfall.reports.pages import Named
from footfall.terminal import one_line
from footfall.types import Judged, Judgement, Problem, SearchResult, Step, Trajectory

_FIRST = 20
"""Traces that are shown unless --limit or --id says otherwise."""
_CHOSEN = "chosen by the search"
JUDGE_GIVEN = "judge_given"
"""The field in which scored traces keep the judge as the user typed it."""
_OF_RUNS = ("results.parquet", "judged.parquet", "trajectories.parquet", "held_out.parquet")
"""What runs of search, label, sample and train leave; others leave judgements alone."""


@dataclass(frozen=True)
class ShowConfig:
    """Show traces, labels and judgements in the terminal, in colour where it has any (NO_COLOR is respected).

    The first traces of a file in any supported format, or of a run directory:
        footfall show traces.jsonl
        footfall show runs/label-1a2b3c4d --limit 5

    One trace, or all traces of one problem, by id:
        footfall show judged.parquet --id t-0a1b2c3d4e5f6071

    Control characters in the data are shown, not sent to the terminal.
    """

    data: Positional[str] = "-"
    """Traces, problems, judgements, trees or search results: a file, a run directory, or - for standard input."""
    format: str = "auto"
    """The format of the data; auto knows it by the first record."""
    id: str | None = None
    """Show the traces of this id, or of the problem of this id."""
    reading: ReadOptions = field(default_factory=ReadOptions)
    config: Path | None = None
    """A file with options of this command, TOML or JSON; the command line wins over it."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""


def main(config: ShowConfig) -> int:
    """Read and print."""
    rows = _rows(config)
    if not rows:
        raise ValueError(f"{config.data}: there is nothing in it to show")
    if config.id is not None:
        rows = Some(_named(rows, config.id, config.data), None)
    shown = rows if config.json or config.id or config.reading.limit else Some(rows, _FIRST)
    given = _typed(Path(config.data))
    told = {"judge_given": given} if given else {}
    result = {"path": config.data, **told, **shown.limited, "traces": [_told(row) for row in shown]}
    emit(result, config.json, lambda console: _show(console, shown, result))
    return 0


def _rows(config: ShowConfig) -> Some[Judged]:
    """All that the source holds, as traces that are judged or not."""
    from footfall.formats import is_foreign, parquet_kind

    config = replace(config, data=here(config.data))
    path = Path(config.data)
    if path.is_dir():
        files = _files_of(path)
    elif config.data == "-" or config.format not in ("auto", "parquet"):
        return read_traces(config.data, config.format, config.reading)
    else:
        files = [path]
    if files[0].suffix == ".parquet" and not is_foreign(files[0]):
        found = [row for file in files for row in _stored(file, parquet_kind(file), config.reading)]
        return Some(found, config.reading.limit)
    kind, _ = format_of(path, None, config.reading.names)
    if kind == "problems":
        problems = read_source(config.data, 0, "test", config.reading)
        rows = Some([_of_problem(problem) for problem in problems], None)
        rows.of = problems.of
        return rows
    return read_traces(config.data, config.format, config.reading)


def _typed(path: Path) -> str | None:
    """The judge as the user named it, if this is a run of one that judged, or a file that such a run wrote."""
    try:
        found = json_of(_run_of(path) / "config.json")
        options = found["config"]
        return str(options["method" if found["command"] == "label" else "judge"] or "") or None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _run_of(path: Path) -> Path:
    """The run directory that a file is of; for one that `score --to` wrote, the latest run whose log names it."""
    if path.is_dir():
        return path
    if path.name in _OF_RUNS or path.parent.name == "judgements":
        return path.parent if path.name in _OF_RUNS else path.parent.parent
    line = json.dumps({"event": "to", "file": str(path.absolute())})[1:-1]
    logs = sorted(Path("runs").glob("*/log.jsonl"), key=lambda log: log.stat().st_mtime, reverse=True)
    return next((log.parent for log in logs if line in text_of(log)), Path(os.devnull))


def _files_of(folder: Path) -> list[Path]:
    """What a run directory holds of traces or judgements."""
    found = [file for name in _OF_RUNS if (file := folder / name).is_file()]
    found = found[:1] or sorted(folder.glob("judgements/*.parquet"))
    if not found:
        raise ValueError(f"{folder} holds no traces: neither {', '.join(_OF_RUNS)} nor judgements of a run")
    return found


def _stored(file: Path, kind: str, options: ReadOptions) -> Iterator[Judged]:
    """The rows of a Parquet file of any kind."""
    from footfall.formats import read_parquet, tree_rows

    options.refuse(str(file), "it is no text", ("limit", "skip_bad"))
    for row in read_parquet(file, kind):
        if isinstance(row, Judged):
            yield row
        elif isinstance(row, Trajectory):
            yield Judged(row, None)
        elif isinstance(row, Problem):
            yield _of_problem(row)
        elif isinstance(row, Judgement):
            yield Judged(Trajectory(row.trajectory_id, Problem("", ""), (Step(""),) * len(row.values)), row)
        elif isinstance(row, SearchResult):
            yield from (_marked(one, row) for one in row.candidates or [_of_problem(row.problem)])
        else:
            yield from tree_rows(row)


def _marked(candidate: Judged, result: SearchResult) -> Judged:
    """The candidate that a search chose is called so."""
    trace = candidate.trajectory
    if result.chosen is None or trace.id != result.chosen.id or not trace.steps:
        return candidate
    return candidate._replace(trajectory=replace(trace, meta={**trace.meta, _CHOSEN: True}))


def _of_problem(problem: Problem) -> Judged:
    return Judged(Trajectory(problem.id, problem), None)


def _named(rows: Sequence[Judged], name: str, source: str) -> list[Judged]:
    found = [row for row in rows if name in (row.trajectory.id, row.trajectory.problem.id)]
    if not found:
        known = dict.fromkeys(row.trajectory.id for row in rows)
        near = difflib.get_close_matches(name, list(known)[:10_000], n=1)
        some = near[0] if near else next(iter(known))
        hint = (
            f"did you mean {one_line(some, 60)!r}?" if near else f"one of its {len(known):,} is {one_line(some, 60)!r}"
        )
        raise ValueError(f"{source}: no trace and no problem is called {one_line(name, 60)!r}; {hint}")
    return found


def _told(row: Judged) -> dict[str, Any]:
    trace, said = row
    steps = [
        {"text": step.written, **({} if said is None else _said(said, k))} for k, step in enumerate(trace.steps)
    ]  # fmt: skip
    judged: dict[str, Any] = {} if said is None else {"judge": said.judge, "value": said.value}
    judged |= {name: trace.meta[name] for name in (JUDGE_GIVEN,) if said is not None and name in trace.meta}
    return {
        "id": trace.id, "problem": trace.problem.text, "reference": trace.problem.answer, "answer": trace.answer,
        "correct": trace.correct, **({"chosen": True} if _CHOSEN in trace.meta else {}), **judged, "steps": steps,
    }  # fmt: skip


def _said(judgement: Judgement, k: int) -> dict[str, Any]:
    why = judgement.failure(k) if judgement.values[k] is None else None
    rationale = judgement.rationales[k] if judgement.rationales else None
    return {
        "value": judgement.values[k],
        **({"why": why} if why else {}),
        **({"rationale": rationale} if rationale else {}),
    }


def _show(console: Console, rows: Some[Judged], result: dict[str, Any]) -> None:
    for row in rows:
        print_trace(console, row, given=result.get("judge_given"))
    some = result.get("limited")
    facts(
        console,
        {"traces": f"{some['used']:,} of {some['of']:,}; --limit {rows.of} shows all" if some else f"{len(rows):,}"},
    )


def print_trace(
    console: Console, row: Judged, below: float | None = None, width: int | None = None, given: str | None = None
) -> None:
    """A trace with a line or more for each step; the first step valued `below` is marked, texts are cut at `width`.

    `given` is the judge as the user named it.
    """
    trace, said = row
    first = None if said is None or below is None else said.first_below(below)
    console.print(Text(one_line(trace.id, 120), style="bold"), Text(_fitted(trace.problem.text, width, 4), style="dim"))
    for k, step in enumerate(trace.steps):
        value = None if said is None else said.values[k]
        why = said.failure(k) if said is not None and value is None else None
        mark = f"  <- first below {below:g}" if k == first else f"  ({why})" if why else ""
        number = "" if said is None else coloured(value)
        console.print(f"{k + 1:>4} ", number, f"  {_fitted(step.written, width, 12)}", Text(mark, style="bold"), sep="")
        if width is None and said is not None and said.rationales and (rationale := said.rationales[k]):
            console.print(Text(f"{'':12}{_fitted(rationale, None, 12)}", style="dim"))
    if width is None:
        facts(console, _outcome(trace, said, given))
        console.print()


def _outcome(trace: Trajectory, said: Judgement | None, given: str | None) -> dict[str, Any]:
    verdict = {True: "right", False: "wrong", None: None}[trace.correct]
    chosen = _CHOSEN if _CHOSEN in trace.meta else None
    return {
        "     answer": ", ".join(filter(None, [trace.answer, verdict, chosen])),
        "     reference": trace.problem.answer,
        "     judge": None
        if said is None
        else Named(str(given or trace.meta.get(JUDGE_GIVEN) or said.judge), said.judge),
        "     value": None if said is None or said.value is None else coloured(said.value),
    }


def _fitted(text: str, width: int | None, indent: int) -> str:
    """One line of at most `width`; without one, all lines, set in."""
    return one_line(text, width) if width is not None else text.strip("\n").replace("\n", "\n" + " " * indent)


def coloured(value: float | None) -> Text:
    """A value from red to green."""
    if value is None:
        return Text("    –")
    return Text(f"{value:.3f}", style="green" if value >= 0.75 else "yellow" if value >= 0.4 else "red")
