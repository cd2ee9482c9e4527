"""What `footfall search` says of its results: the answers, accuracies over the problems that were decided, and what became
of the others; and with --explain one problem of a finished run as a page.
"""

from __future__ import annotations

import gzip
import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, tee
from pathlib import Path
from typing import IO, Any, cast

from rich.console import Console

from footfall.commands._output import facts, figures, next_command
from footfall.commands._parts import found_in_words
from footfall.formats import DamagedError, Mapped, atomic_write, iter_parquet
from footfall.formats.ids import apart
from footfall.metrics.intervals import share_right
from footfall.reports.pages import Named, limited_in_words, write_page
from footfall.reports.search_page import ACCURACIES, tree_page
from footfall.types import Cost, SearchResult, Trajectory, content_key

_LONGEST_ID = 80
_ANSWER_FIELDS = ("id", "answer", "reference", "correct", "failure")
_NAMED = 10
"""Problems without an answer that are named."""
_SUCH_AS = 5
"""Those that are named where one is asked for that is not there."""


def call_failed(result: SearchResult) -> bool:
    """Whether there is no answer because a call failed, which may go better next time."""
    return result.failure is not None and _any_failed(result)


def _any_failed(result: SearchResult) -> bool:
    return any(decision.what == "failed" for decision in result.decisions)


def summary(results: Sequence[SearchResult], seed: int, independent: bool) -> dict[str, Any]:
    """Accuracies over the problems that have a reference answer and did not fail.

    `independent`: the candidates are plain samples, so their mean is what one sample is right, and any of them the most that
    choosing could reach. Those that a method steered, refined or stopped at are called what they are: its candidates.
    """
    means, chosen, any_right = array("d"), array("b"), array("b")  # of many problems no more is held than these
    stopped: Counter[str] = Counter()
    policy_cost, judge_cost = Cost(), Cost()
    lossy = unanswered = failed = 0
    for r in results:
        policy_cost, judge_cost = policy_cost + r.policy_cost, judge_cost + r.judge_cost
        stopped.update([r.stopped] if r.stopped else ())
        lossy += r.failure is None and _any_failed(r)
        unanswered += _fell_silent(r)
        failed += _fell_out(r)
        verdicts = _verdicts(r)
        if r.problem.answer is not None and verdicts["chosen"] is not None:
            means.append(verdicts["mean"] or 0.0)
            chosen.append(int(verdicts["chosen"]))
            any_right.append(int(verdicts["any"] or 0))
    mean, best = ("single", "oracle") if independent else ("candidates_mean", "candidates_any")
    accuracy = {}
    rights: dict[str, Sequence[float]] = {mean: means, "chosen": chosen, best: any_right}
    for name, right in rights.items() if means else ():
        value, low, high = share_right(right, seed)
        accuracy[name] = {"value": value, "ci95": [low, high]}
    return {
        "problems": len(results),
        "stopped": dict(stopped),
        "policy_cost": policy_cost.to_dict(),
        "judge_cost": judge_cost.to_dict(),
        "decided": len(means),
        "accuracy": accuracy,
        "with_failed_calls": lossy,
        "unanswered": _Reasons(results, _fell_silent, unanswered),
        "failed": _Reasons(results, _fell_out, failed),
    }


@dataclass(frozen=True)
class _Reasons(Mapping[str, str]):
    """Problems by their ids with why they have no answer, read from the results each time. An id that occurs again gets "~2",
    "~3", …: what is written of it has each name once."""

    results: Sequence[SearchResult]
    of: Callable[[SearchResult], bool]
    many: int

    def _read(self) -> Iterator[tuple[str, str]]:
        found = (r for r in self.results if self.of(r))
        own, names = tee(islice(found, self.many))  # none where there are none, and not beyond the last
        return zip(apart(r.problem.id for r in names), (r.failure or "" for r in own), strict=True)

    def __getitem__(self, name: str) -> str:
        return dict(self._read())[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._read())

    def __len__(self) -> int:
        return self.many

    def items(self) -> Any:
        """In one go through the results."""
        return self._read()


def answers(results: Sequence[SearchResult]) -> Sequence[dict[str, Any]]:
    """The answer to each problem. `correct` is None where there is no reference, or where a call failed."""
    return Mapped(_answer, results)


def _answer(r: SearchResult) -> dict[str, Any]:
    return dict(zip(_ANSWER_FIELDS, (r.problem.id, r.answer, r.problem.answer, _is_right(r), r.failure), strict=True))


def _is_right(result: SearchResult) -> bool | None:
    verdict = None if result.problem.answer is None else _verdicts(result)["chosen"]
    return None if verdict is None else bool(verdict)


def check_answers_file(file: Path) -> None:
    """Before any work is done: a file that may be written, or written over because an earlier search wrote it."""
    if not file.name.endswith((".jsonl", ".jsonl.gz")):
        raise ValueError(f"--to {file}: a file that ends in .jsonl or .jsonl.gz is expected")
    if not file.exists():
        return
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            ours = set(_ANSWER_FIELDS) <= set(json.loads(stream.readline(1 << 24)))
    except (ValueError, TypeError, OSError, EOFError):
        ours = False
    if not ours:
        raise ValueError(f"--to {file} is already there, and no earlier search wrote it: choose another name")


def write_answers(file: Path, results: Sequence[SearchResult]) -> None:
    """One line a problem: its answer, and the solution that gave it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stream: IO[bytes] = stack.enter_context(atomic_write(file))
        if file.suffix == ".gz":
            packed = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0))
            stream = cast(IO[bytes], packed)
        for r in results:
            steps = None if r.chosen is None else [step.written for step in r.chosen.steps]
            row = {**_answer(r), "problem": r.problem.text, "steps": steps}
            stream.write((json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


def _verdicts(result: SearchResult) -> dict[str, float | None]:
    """How right the choice is, the candidates are on average, and the best of them is. A problem that the policy or the
    judge failed on is not a wrong answer; one that is unanswered is."""
    right = [bool(t.correct) for t in _drawn(result)]
    chosen = None if result.chosen is None else float(bool(result.chosen.correct))
    mean = sum(right) / len(right) if right else None
    return {"chosen": 0.0 if _unanswered(result) else chosen, "mean": mean, "any": float(any(right))}


def _drawn(result: SearchResult) -> list[Trajectory]:
    return [t for t, _ in result.candidates if "error" not in t.meta]


def _unanswered(result: SearchResult) -> bool:
    """Whether no sample gave an answer, or none within the budget, though nobody failed to write or to judge one."""
    drawn = _drawn(result)
    return (result.chosen is None and not call_failed(result)) or (bool(drawn) and all(t.answer is None for t in drawn))


def _fell_silent(result: SearchResult) -> bool:
    return result.failure is not None and _unanswered(result)


def _fell_out(result: SearchResult) -> bool:
    return result.failure is not None and not _unanswered(result)


def shown_id(name: str) -> str:
    """An id as it may go to a terminal: short, and without line ends and control characters."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return plain if len(plain) <= _LONGEST_ID else f"{plain[:_LONGEST_ID]}…"


def _listed(problems: Mapping[str, str], how: str) -> str:
    """Problems with their reasons, the first ten by name."""
    lines = [f"\n  {shown_id(name)}: {why}" for name, why in islice(problems.items(), _NAMED)]
    more = [f"\n  and {len(problems) - _NAMED} more"] if len(problems) > _NAMED else []
    return "".join([f"{len(problems)}, {how}", *lines, *more]) if problems else ""


def _show_answers(console: Console, rows: Sequence[Mapping[str, Any]], most: int) -> None:
    """The first ones, right or wrong where that is known."""
    listed = [(shown_id(row["id"]), _verdict(row), shown_id(row["answer"] or "–")) for row in rows[: max(0, most)]]
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    for name, verdict, answer in listed:
        console.print(f"  {name:<{widths[0]}}  {answer:<{widths[2]}}  {verdict}".rstrip())
    if len(rows) > len(listed):
        console.print(f"  … and {len(rows) - len(listed)} more: --show {len(rows)}, or --to answers.jsonl")


def _verdict(row: Mapping[str, Any]) -> str:
    if row["correct"] is None:
        return "" if row["failure"] is None else "failed"
    return "right" if row["correct"] else f"wrong, it is {shown_id(row['reference'])}"


def show(console: Console, result: dict[str, Any], cost: str, most: int) -> None:
    """Answers, accuracies, facts, and how to see the search of one problem: a wrong one if there is one."""
    _show_answers(console, result["answers"], most)
    names = {**ACCURACIES, "chosen": f"{result['method']} of {result['n']}" if result["n"] else result["method"]}
    rows = [
        [names[name], f"{a['value']:.1%}", f"[{a['ci95'][0]:.1%}, {a['ci95'][1]:.1%}]"]
        for name, a in result["accuracy"].items()
    ]
    lossy = result["with_failed_calls"]
    if rows:
        figures(console, [["", "right", "95% interval"], *rows])
    facts(console, {
        "problems": f"{limited_in_words(result, 'problems') or result['problems']}, accuracy over {result['decided']}",
        "no answer": _listed(result["unanswered"], "counted as wrong"),
        "failed": _listed(result["failed"], "not counted; the same command line tries again"),
        "lossy": f"{lossy} answered although a call failed" if lossy else "",
        "stopped": ", ".join(f"{n} by the budget of {limit}" for limit, n in result["stopped"].items()),
        "judge": result["judge"] and Named(result["judge_given"], result["judge"]),
        **{kind: ", ".join(f"{role}: {name}" for role, name in result.get(kind, {}).items()) for kind in ("helpers", "judges")},
        "aggregate": result["aggregate"],
        "cost": cost,
        "store": found_in_words(result["store"]),
        "answers": result["to"],
        "file": result["file"],
        "page": result["page"],
    })  # fmt: skip
    of = next((row for row in result["answers"] if row["correct"] is False), result["answers"][0])
    next_command(console, "search", "--out", Path(result["file"]).parent, "--explain", of["id"])


def explain(folder: Path, problem: str) -> dict[str, Any]:
    """Write the page of a problem beside the run's results; what it is and where."""
    result = find_result(folder, problem)
    name = re.sub(r"[^\w.-]+", "-", problem)[:60]
    if name != problem:
        name += f"-{content_key(problem)[:8]}"
    path = write_page(folder / f"explain-{name}.html", tree_page(result, {"run": folder.name}))
    return {
        "problem": result.problem.id,
        "answer": result.answer,
        "correct": None if result.chosen is None else result.chosen.correct,
        "nodes": len(result.tree.nodes) if result.tree is not None else 0,
        "decisions": len(result.decisions),
        "page": str(path),
    }


def find_result(folder: Path, problem: str) -> SearchResult:
    """The result for a problem of this id, or an error that says what there is."""
    file = folder / "results.parquet"
    if not file.exists():
        raise ValueError(
            f"{folder} holds no finished search: run the same command without --explain first, or name it by --out"
        )
    others, some = 0, []
    try:
        for result in iter_parquet(file, "search-result"):
            if result.problem.id == problem:
                return cast(SearchResult, result)
            others += 1
            some += [shown_id(result.problem.id)] if others <= _SUCH_AS else []
    except DamagedError as error:
        raise ValueError(f"{error}; the same command without --explain puts it together again") from error
    raise ValueError(
        f"{file}: no problem is called {shown_id(problem)!r}; there are {others}, such as {', '.join(some)}"
    )
