"""What `footfall search` says of its results: accuracies over the problems that were decided, and what became of the others;
and with --explain one problem of a finished run as a page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from footfall.commands._output import facts, figures
from footfall.commands._parts import found_in_words
from footfall.types import Cost, SearchResult, Trajectory, content_key

if TYPE_CHECKING:
    from footfall.metrics.intervals import Interval

_LONGEST_ID = 80


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
    verdicts = {r.problem.id: _verdicts(r) for r in results if r.problem.answer is not None}
    decided = [v for v in verdicts.values() if v["chosen"] is not None]
    accuracy = {}
    mean, best = ("single", "oracle") if independent else ("candidates_mean", "candidates_any")
    for name, of in {mean: "mean", "chosen": "chosen", best: "any"}.items() if decided else ():
        value, low, high = _share([float(v[of] or 0) for v in decided], seed)
        accuracy[name] = {"value": value, "ci95": [low, high]}
    return {
        "problems": len(results),
        "stopped": {limit: n for limit, n in Counter(r.stopped for r in results).items() if limit},
        "policy_cost": Cost.total(r.policy_cost for r in results).to_dict(),
        "judge_cost": Cost.total(r.judge_cost for r in results).to_dict(),
        "decided": len(decided),
        "accuracy": accuracy,
        "with_failed_calls": sum(r.failure is None and _any_failed(r) for r in results),
        "unanswered": {r.problem.id: r.failure for r in results if r.failure is not None and _unanswered(r)},
        "failed": {r.problem.id: r.failure for r in results if r.failure is not None and not _unanswered(r)},
    }


def _share(rights: Sequence[float], seed: int) -> Interval:
    """Wilson's interval where every problem is right or wrong (resamples of all right have no spread), else the bootstrap's."""
    from footfall.metrics.intervals import bootstrap_mean, wilson

    plain = all(right in (0.0, 1.0) for right in rights)
    return wilson(int(sum(rights)), len(rights)) if plain else bootstrap_mean(rights, seed)


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


def shown_id(name: str) -> str:
    """An id as it may go to a terminal: short, and without line ends and control characters."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return plain if len(plain) <= _LONGEST_ID else f"{plain[:_LONGEST_ID]}…"


def _listed(problems: Mapping[str, str], how: str) -> str:
    """Problems with their reasons, the first ten by name."""
    lines = [f"\n  {shown_id(name)}: {why}" for name, why in list(problems.items())[:10]]
    more = [f"\n  and {len(problems) - 10} more"] if len(problems) > 10 else []
    return "".join([f"{len(problems)}, {how}", *lines, *more]) if problems else ""


def show(console: Console, result: dict[str, Any], cost: str) -> None:
    names = {
        "single": "one sample",
        "chosen": f"{result['method']} of {result['n']}" if result["n"] else result["method"],
        "oracle": "oracle (best possible)",
        "candidates_mean": "mean of its candidates",
        "candidates_any": "any of its candidates",
    }
    rows = [
        [names[name], f"{a['value']:.1%}", f"[{a['ci95'][0]:.1%}, {a['ci95'][1]:.1%}]"]
        for name, a in result["accuracy"].items()
    ]
    lossy = result["with_failed_calls"]
    if rows:
        figures(console, [["", "right", "95% interval"], *rows])
    facts(console, {
        "problems": f"{result['problems']}, accuracy over {result['decided']}",
        "no answer": _listed(result["unanswered"], "counted as wrong"),
        "failed": _listed(result["failed"], "not counted; the same command line tries again"),
        "lossy": f"{lossy} answered although a call failed" if lossy else "",
        "stopped": ", ".join(f"{n} by the budget of {limit}" for limit, n in result["stopped"].items()),
        "judge": result["judge"],
        **{kind: ", ".join(f"{role}: {name}" for role, name in result.get(kind, {}).items()) for kind in ("helpers", "judges")},
        "aggregate": result["aggregate"],
        "cost": cost,
        "store": found_in_words(result["store"]),
        "file": result["file"],
    })  # fmt: skip


def explain(folder: Path, problem: str) -> dict[str, Any]:
    """Write the page of a problem beside the run's results; what it is and where."""
    from footfall.reports.pages import write_page
    from footfall.reports.tree_page import tree_page

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
    from footfall.formats import read_parquet

    file = folder / "results.parquet"
    if not file.exists():
        raise ValueError(
            f"{folder} holds no finished search: run the same command without --explain first, or name it by --out"
        )
    results: list[SearchResult] = read_parquet(file, "search-result")
    for result in results:
        if result.problem.id == problem:
            return result
    some = ", ".join(shown_id(result.problem.id) for result in results[:5])
    raise ValueError(f"{file}: no problem is called {shown_id(problem)!r}; there are {len(results)}, such as {some}")
