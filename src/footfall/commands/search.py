"""`footfall search`: a policy and a judge together answer problems."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import UseAppendAction

from footfall.commands._judges import judge_name, make_judge, offers
from footfall.commands._options import (
    JudgeOptions,
    PolicyOptions,
    RayOptions,
    ReadOptions,
    RunOptions,
    SamplingOptions,
    StoreOptions,
    name_and_settings,
    policy_in_words,
)
from footfall.commands._output import NOTHING, emit, facts, spent
from footfall.commands._parts import Opener, TakesNo, check_drawing, make_part, placed, separator_of, settings
from footfall.commands._running import (
    REPORT,
    begin_edition,
    edition_of,
    end_edition,
    open_run,
    ray_workers,
    run_folder,
    run_settings,
    tried_again,
)
from footfall.commands._search_report import (
    answers,
    call_failed,
    check_answers_file,
    explain,
    show,
    summary,
    write_answers,
)
from footfall.commands._sources import problem_key, read_many_problems
from footfall.drive.budget import Budget
from footfall.formats import Mapped
from footfall.policy.protocol import Policy
from footfall.registry import declared, load, serving
from footfall.reports.pages import Named, write_page
from footfall.reports.search_page import search_page
from footfall.scale import Remote, is_address
from footfall.search.searcher import Searcher
from footfall.search.state import OWN_JUDGES, OWN_POLICIES, Method, draws_independently, roles_of, unused_by
from footfall.search.votes import Aggregation
from footfall.store import Run, Task
from footfall.types import Judge, Problem, SearchResult, content_key

_CACHE_TOKENS = 1 << 16
"""What a judge that can keeps of traces that grow, so that one more step costs one step; --set cache_tokens=0 for none."""

_FOR_SHOW = ("explain", "show", "to")
_RESULTS = "results.parquet"
_LISTED = 1000
"""Results up to which they are a list: each holds all candidates and the tree."""


@dataclass(frozen=True)
class SearchConfig:
    """Answer problems with more computation: a policy writes, a judge values, a method steers, a budget limits.

    PRM-weighted vote over 16 samples on held-out problems of the arithmetic world, then the majority vote beside it:
        footfall search --problems world:arithmetic:100 --judge runs/train-…/model --n 16
        footfall search --problems world:arithmetic:100 --method majority --n 16

    Any judge can guide the search; with the truth as judge it shows how far choosing can go:
        footfall search --problems world:arithmetic:100 --method best-of-n --judge truth-arithmetic --aggregate last

    Beam search within a budget for each problem, which counts what the policy writes and what the judge reads:
        footfall search --problems world:arithmetic:100 --method beam-search --n 16 --budget-tokens 4000 --set expansions=4

    A step that the judge finds wrong is written anew by another server; the judge asks that server too:
        footfall search --problems FILE --policy http://localhost:8000/v1 --method refined-bon --judge critic \\
            --set policy=critic --helper critic=http,url=http://localhost:8001/v1,mode=chat

    It prints the first answers; --json has all of them, and --to writes them with the solutions they come from:
        footfall search --problems world:arithmetic:100 --method majority --to answers.jsonl

    The run directory holds every candidate with its judgement, the tree and all decisions in results.parquet, and a
    page, report.html. Problems that failed are listed; the same command line again tries them again. If all of them
    failed, the exit code is 1. What servers wrote is kept in the store that `footfall label` has too, so that no other
    method or run pays for it again; the reported cost and the budget are those of a search that finds nothing there.

    One problem of a finished run as a page, with its tree, what was pruned, what each node cost and why:
        footfall search --out runs/search-… --explain arithmetic-bd1ef437f5abbf59
    """

    problems: str | None = None
    """A file of problems, or world:arithmetic:N[:SPLIT], of the split test unless another is named. One that occurs again in
    the file is taken once."""
    explain: str | None = None
    """The id of a problem: write its page from a finished run, that of --out or of the same command line, and do no more."""
    method: str = serving("searcher")
    """A name of `footfall list searcher`, or mine.py:MySearch of a file of yours."""
    n: int | None = None
    """Candidates a problem, or the width. None: 16 for methods that have one."""
    aggregate: Aggregation | None = None
    """How a candidate's step values become its score. None: min for votes over whole solutions (best-of-n,
    weighted-vote), and the method's own for any other. A method that folds none, as a majority vote, takes no --aggregate."""
    helper: Annotated[tuple[str, ...], UseAppendAction] = ()
    """A further policy, NAME=POLICY: its role, then a policy as in critic=http,url=http://localhost:8001/v1,mode=chat.
    May be given several times. --set policy=NAME lets the judge ask it."""
    judge_role: Annotated[tuple[str, ...], UseAppendAction] = ()
    """A further judge, NAME=JUDGE or NAME=JUDGE,SETTING=VALUE. May be given several times."""
    budget_tokens: int | None = None
    """The most tokens for one problem: generated by the policy and read or written by the judge."""
    budget_calls: int | None = None
    """The most samples and judgements for one problem."""
    budget_seconds: float | None = None
    """The longest time for one problem; problems of one chunk run side by side."""
    budget_flops: float | None = None
    """The most floating point operations for one problem."""
    show: int = 10
    """Answers to print; --json and --to give all."""
    to: Path | None = None
    """Also write every answer to this .jsonl file: id, answer, reference, correct, failure, problem, and the chosen steps."""
    chunk: int = 16
    """Problems that run side by side, and are saved together."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    store: StoreOptions = field(default_factory=StoreOptions)
    reading: ReadOptions = field(default_factory=ReadOptions)
    ray: RayOptions = field(default_factory=RayOptions)
    run: RunOptions = field(default_factory=RunOptions)

    @property
    def budget(self) -> Budget:
        return Budget(self.budget_tokens, self.budget_calls, self.budget_seconds, self.budget_flops)


def main(config: SearchConfig) -> int:
    """Search, keep all candidates and report."""
    from footfall.formats import write_parquet

    config = replace(config, policy=config.policy.resolved(serving("policy")))
    if config.explain is not None:
        return _explain(config, config.explain)
    if config.problems is None:
        raise ValueError("--problems is needed: a file of problems, or world:NAME:N")
    if config.to is not None:
        check_answers_file(config.to)
    method = _method(config)
    check_drawing(config.policy, config.sampling)
    given = read_many_problems(config.problems, config.run.seed, "test", config.reading)
    folder = run_folder("search", config, _FOR_SHOW)
    edition = edition_of(config, folder, _any_failed(config, folder))
    store = config.store.folder(beside=folder)
    opener = Opener(store, edition, servers_only=config.store.store is None)
    searcher = _searcher(config, method, opener)
    with (
        ray_workers(config.ray, partial(_task, config, store and store.absolute(), edition)) as workers,
        open_run("search", config, for_show=_FOR_SHOW, workers=workers) as run,
    ):
        begin_edition(run, edition)
        results = _solved(run, searcher, given.rows, config.chunk)
        end_edition(run)
        file = run.folder / _RESULTS
        write_parquet(file, results, "search-result")
        names = _names(searcher)
        judge = None if names["judge"] is None else Named(judge_name(config.judge), names["judge"])
        result = {
            "method": config.method, "n": getattr(method, "n", None),
            "aggregate": None if "aggregation" in unused_by(method) else getattr(method, "aggregation", None),
            "settings": method.name,
            "budget": config.budget.limits(), **names, "judge_given": judge and judge.given,
            "policy_given": config.policy.typed or names["policy"],
            **summary(results, config.run.seed, draws_independently(method)), **given.limited, "file": str(file),
            "cost": run.cost.to_dict(), "seconds": run.seconds(), "answers": answers(results),
            "page": str(run.folder / REPORT),
        }  # fmt: skip
        page = search_page(
            results, result, judge, independent=draws_independently(method), seed=config.run.seed,
            config=run_settings(config, _FOR_SHOW),
        )  # fmt: skip
        write_page(run.folder / REPORT, page)
        run.finish(result)
        if config.to is not None:
            write_answers(config.to, results)
        result = {**result, "store": opener.found(workers), "to": config.to}
        run.log("store", found=result["store"])
        emit(
            result, config.run.json, lambda console: show(console, result, spent(run.cost, run.seconds()), config.show)
        )
    return NOTHING if len(result["failed"]) == len(results) else 0


def _task(config: SearchConfig, store: Path | None, edition: str) -> Task:
    """What a worker does with a chunk of problems."""
    opener = Opener(store, edition, servers_only=config.store.store is None)
    return replace(_solving(_searcher(config, _method(config), opener)), counts=opener.counts)


def _solving(searcher: Searcher) -> Task:
    """What a run does with a chunk of problems, in this process or in a worker."""
    everybody = (searcher.policy, searcher.judge, *searcher.helpers.values(), *searcher.judges.values())
    return Task(searcher.solve, "search-result", everybody)


def _any_failed(config: SearchConfig, folder: Path) -> bool:
    """Whether the run in the folder ended with problems to try again. Their judge is asked anew: the store has what it said.

    Of a run in an object store that ended on another machine the results are fetched. A damaged file is set aside: what it held
    is in the run's shards, and is put together again.
    """
    from footfall.formats import DamagedError, iter_parquet, set_aside

    file = folder / _RESULTS
    if is_address(config.run.out) and not file.is_file():
        with suppress(FileNotFoundError):  # it has no results yet
            file = Remote(f"{config.run.out}/{_RESULTS}").data(_RESULTS)
    try:
        return file.is_file() and any(map(call_failed, iter_parquet(file, "search-result")))
    except DamagedError as error:
        set_aside(file, error)
        return False


def _explain(config: SearchConfig, problem: str) -> int:
    result = explain(run_folder("search", config, _FOR_SHOW), problem)
    emit(result, config.run.json, lambda console: facts(console, result))
    return 0


def _searcher(config: SearchConfig, method: Method, opener: Opener) -> Searcher:
    """The method with everybody whom it asks."""
    writer, asked_of_judge = placed(config.policy) if method.judged else (config.policy, {})
    policy = opener(writer)
    helpers = _helpers_of(config.helper, opener)
    offered = {
        **offers(config.policy, config.sampling, config.run.seed),
        "policy": policy,
        "cache_tokens": _CACHE_TOKENS,
    }
    judges, asked = _judges_of(config.judge_role, offered, helpers)
    judge, asked_too = _judge(config, method, asked_of_judge, offered, helpers)
    _check_roles(method, helpers, judges, asked | asked_too)
    if config.judge.judge is not None and judge is None:
        raise ValueError(f"the searcher {config.method!r} asks no judge with these settings; leave --judge out")
    params = config.sampling.params(config.run.seed)
    return Searcher(policy, judge, method, config.budget, params, _separator(config), helpers, judges)


def _separator(config: SearchConfig) -> str:
    served = config.policy.step_end == "auto" and config.policy.url is not None
    return "" if served and declared("searcher", config.method).blocks else separator_of(config.policy)


def _names(searcher: Searcher) -> dict[str, Any]:
    """Who took part."""
    found: dict[str, Any] = {"policy": searcher.policy.name}
    found["judge"] = None if searcher.judge is None or not searcher.method.judged else searcher.judge.name
    for kind in ("helpers", "judges"):
        if others := getattr(searcher, kind):
            found[kind] = {role: other.name for role, other in others.items()}
    return found


def _solved(run: Run, searcher: Searcher, problems: Sequence[Problem], chunk: int) -> Sequence[SearchResult]:
    """All results, which stay in their shards where they are many. Problems that failed in an earlier start are tried again."""
    made_by = content_key(searcher.method.name, _names(searcher), searcher.budget.limits())
    task = _solving(searcher)

    def solved(stage: str, problems: Sequence[Problem]) -> Sequence[SearchResult]:
        return run.kept(
            stage, problems, len(problems), task, listed=_LISTED, key=problem_key, chunk=chunk, made_by=made_by
        )

    def again(stage: str, places: Sequence[int]) -> Sequence[SearchResult]:
        return solved(stage, Mapped(lambda place: problems[place], places))

    return tried_again(run, solved("results", problems), call_failed, again)


def _method(config: SearchConfig) -> Method:
    """The method with its settings: --set NAME=VALUE is the method's if it has one of that name, else the judge's."""
    takes = inspect.signature(load("searcher", config.method)).parameters
    said = declared("searcher", config.method)
    asked = {name: value for name, value in settings(config.judge.set).items() if name in takes}
    if config.n is not None:
        if "n" not in takes and said.dial:
            raise ValueError(f"the searcher {config.method!r} takes no --n; its own is --set {said.dial}")
        asked["n"] = config.n
    if config.aggregate is not None:
        if "aggregation" not in takes:
            raise ValueError(f"the searcher {config.method!r} takes no --aggregate: it does not fold step values")
        asked["aggregation"] = config.aggregate
    offered = {"n": 16, **({} if said.aggregation is None else {"aggregation": said.aggregation})}
    try:
        made: Method = make_part("searcher", config.method, asked, offered)
    except ValueError as error:
        own = takes["expansions"].default if "expansions" in takes and "expansions" not in asked else 0
        if config.n is None or own <= config.n:
            raise
        raise ValueError(
            f"--n {config.n} with {own} expansions, its own: pass --set expansions=… too; {error}"
        ) from error
    return made


def _judge(
    config: SearchConfig,
    method: Method,
    more: Mapping[str, Any],
    offered: Mapping[str, Any],
    helpers: Mapping[str, Policy],
) -> tuple[Judge | None, set[str]]:
    """The judge, asked for its settings and for `more`, and the helper that it asks; none where the method asks no judge."""
    takes = inspect.signature(load("searcher", config.method)).parameters
    own = {name: value for name, value in settings(config.judge.set).items() if name not in takes}
    if not method.judged:
        if own and config.judge.judge is None:
            raise ValueError(
                f"the searcher {config.method!r} takes no --set {next(iter(own))}=…; it takes: {', '.join(takes)}"
            )
        return None, set()
    asked, used = _with_helper(own, helpers)
    try:
        return make_judge(judge_name(config.judge), {**more, **asked}, offered), used
    except TakesNo as error:
        raise ValueError(f"{error}; and the searcher {config.method!r} takes: {', '.join(takes)}") from error


def _check_roles(method: Method, helpers: Iterable[str], judges: Iterable[str], used: Iterable[str] = ()) -> None:
    """An error for a role that nobody fills, and for somebody whom nobody asks. `used`: by judges."""
    want, helpers, judges = roles_of(method), set(helpers), set(judges)
    for role in sorted(want.helpers - helpers):
        raise ValueError(
            f"{method.name} asks a policy in the role {role!r}: pass --helper {role}=POLICY, for example "
            f"--helper {role}={serving('policy', 'url')},url=http://localhost:8001/v1,mode=chat"
        )
    for role in sorted(want.judges - judges):
        raise ValueError(
            f"{method.name} asks a judge in the role {role!r}: pass --judge-role {role}=JUDGE, a folder or a name"
        )
    idle = sorted(helpers - want.helpers - set(used)) + sorted(judges - want.judges)
    for role in idle:
        raise ValueError(
            f"{method.name} asks nobody in the role {role!r}; which roles it asks is one of its settings (--set)"
        )


def _by_role(pairs: Sequence[str], flag: str) -> dict[str, str]:
    """`NAME=WORDS` pairs by name, each once."""
    own = OWN_POLICIES if flag == "--helper" else OWN_JUDGES
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, words = pair.partition("=")
        if not equals or not name or not words:
            raise ValueError(f"{flag} takes NAME=WHO, not {pair!r}")
        if name in own or name in found:
            why = "is the search's own" if name in own else "is named twice"
            raise ValueError(f"{flag} {pair}: the role {name!r} {why}")
        found[name] = words
    return found


def _helpers_of(pairs: Sequence[str], opening: Callable[[PolicyOptions], Policy]) -> dict[str, Policy]:
    """The policies of `--helper NAME=POLICY`, opened."""
    options = {name: policy_in_words(words) for name, words in _by_role(pairs, "--helper").items()}
    return {name: opening(each) for name, each in options.items()}


def _judges_of(
    pairs: Sequence[str], offered: Mapping[str, Any], helpers: Mapping[str, Policy]
) -> tuple[dict[str, Judge], set[str]]:
    """The judges of `--judge-role NAME=JUDGE,SETTING=VALUE,…`, and which helpers they ask."""
    judges: dict[str, Judge] = {}
    used: set[str] = set()
    for role, words in _by_role(pairs, "--judge-role").items():
        name, *own = name_and_settings(words)
        asked, helper = _with_helper(settings(own), helpers)
        used |= helper
        judges[role] = make_judge(name, asked, offered)
    return judges, used


def _with_helper(asked: Mapping[str, Any], helpers: Mapping[str, Policy]) -> tuple[dict[str, Any], set[str]]:
    """Settings of a judge in which `policy=NAME` is the helper of that name; and that name."""
    name = asked.get("policy")
    if name is None:
        return dict(asked), set()
    if name not in helpers:
        raise ValueError(
            f"policy={name} of a judge is the name of a helper, and there is none such: pass --helper {name}=POLICY"
        )
    return {**asked, "policy": helpers[name]}, {name}
