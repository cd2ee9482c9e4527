"""`footfall label`: traces in, judged steps out."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from rich.console import Console

from footfall.commands._estimate import (
    EstimateOptions,
    check_costs,
    estimate_of,
    estimate_of_trees,
    show_estimate,
)
from footfall.commands._judges import JudgeInRun, asks, judging, make_judge, offers
from footfall.commands._options import (
    PolicyOptions,
    RayOptions,
    ReadOptions,
    RunOptions,
    SamplingOptions,
    StoreOptions,
    policy_in_words,
)
from footfall.commands._output import NOTHING, emit, facts, next_command, spent
from footfall.commands._parts import Opener, StandIns, found_in_words, with_settings
from footfall.commands._reasons import alike, in_general
from footfall.commands._running import (
    REPORT,
    begin_edition,
    edition_of,
    end_edition,
    open_run,
    ray_workers,
    run_folder,
    run_settings,
)
from footfall.commands._sources import read_many
from footfall.commands._trees import Found, growing, harvested, tree_labeller, without_answer
from footfall.drive.trees import ELSEWHERE, TreeLabeller
from footfall.formats import Mapped, write_parquet
from footfall.judging import all_parts, traits
from footfall.label.counting import Rehearsal
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import declared, load, parts, serving, systems
from footfall.reports.label_page import label_page
from footfall.reports.pages import Named, limited_in_words, write_page
from footfall.store import Run, Task
from footfall.types import Harvest, Judge, Judged, Trajectory

_CUT = "{cut} of {of} rollouts were cut at max_tokens and count as no success; raise --max-tokens if that is many"
_ONE_SIDED = (
    "all labels are {value:g}, for {unlabelled_traces} traces have none ({because}); a PRM learns nothing from that"
)
_FOR_SHOW = ("again", *(f.name for f in fields(EstimateOptions)))
"""Options that do not decide what the labels are."""


@dataclass(frozen=True)
class LabelConfig:
    """Label the steps of traces: an expensive judge makes the data that a PRM is trained on.

    Monte Carlo labels (Math-Shepherd): complete each prefix 8 times and count the right answers.
        footfall label --data runs/sample-…/trajectories.parquet --policy embedded --rollouts 8

    Stop at each trace's first error, and spend no more rollouts on a step than its interval needs:
        footfall label --data traces.jsonl --policy embedded --until first-error --rollouts 32 --half-width 0.15

    What a method would cost with your server and its prices, before anything runs:
        footfall label --data traces.jsonl --method omegaprm --url http://localhost:8000/v1 --estimate --price-out 0.6

    Traces of its own, from the problems alone: 20 searches a problem of OmegaPRM's tree search.
        footfall label --data traces.jsonl --method omegaprm --trees 20 --policy embedded

    The truth itself, where the problems are of the arithmetic world:
        footfall label --data runs/sample-…/trajectories.parquet --method truth-arithmetic

    The run directory holds the rows in judged.parquet, which `footfall train` reads, and a page, report.html. A step
    that could not be judged has no label, and the summary says why; if no step has one, or every rollout failed, the
    exit code is 1. Rollouts are kept in a store, so that no other method or run pays for them again.
    """

    data: str
    """Traces in any supported format (`footfall list format`) or Parquet; - is standard input."""
    method: str = serving("labeller")
    """A judge: a name of `footfall list labeller`, a published system's that is one (math-shepherd, aurora, fover, …), the
    folder of a trained PRM, or mine.py:MyJudge, of a file of yours. GenPRM's labels are relative-progress; genprm is its
    critic, which writes about each step."""
    format: str = "auto"
    """The format of the data; auto knows it by the first record."""
    rollouts: int | None = None
    """Completions of each prefix; monte-carlo's own is 8."""
    values: Literal["soft", "hard"] | None = None
    """soft: the share of right answers; hard: 1 if there was any; monte-carlo's own is soft."""
    until: Literal["all", "first-error"] | None = None
    """first-error leaves the steps after the first worthless one without a label; monte-carlo's own is all."""
    half_width: float | None = None
    """Stop a step's rollouts once its 95% interval is this narrow on either side."""
    trees: int | None = None
    """Do not label the traces, but grow a tree of new ones on each of their problems, by a --method of `footfall list
    tree-labeller`: with omegaprm by at most so many binary searches, with edu-prm up to so many solutions, …"""
    prover: str | None = None
    """A second policy, for a method that takes one (pav): a name, or http,url=http://localhost:8001/v1,model=NAME."""
    set: tuple[str, ...] = ()
    """Further settings of the method, e.g. --set consequent=0.5."""
    chunk: int = 16
    """Traces between two savings."""
    again: bool = False
    """Judge those chunks again in which a step has no label, as after a server was down. Rollouts in the store are free; a
    language model that judges is asked anew. Killed, the same command goes on with the replies that it has."""
    costs: EstimateOptions = field(default_factory=EstimateOptions)
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    store: StoreOptions = field(default_factory=StoreOptions)
    reading: ReadOptions = field(default_factory=ReadOptions)
    ray: RayOptions = field(default_factory=RayOptions)
    run: RunOptions = field(default_factory=RunOptions)


def main(config: LabelConfig) -> int:
    """Judge, keep the rows and report."""
    check_costs(config.costs)
    given = read_many(config.data, config.format, config.reading)
    trajectories = given.rows
    if not trajectories:
        raise ValueError(f"{config.data}: there is no trace in it")
    folder = run_folder("label", config, _FOR_SHOW)
    store = config.store.folder(beside=folder)
    edition = edition_of(config, folder, config.again)
    opener = Opener(store, edition)
    if config.costs.estimate:
        return _estimate(config, opener, trajectories, given.limited)
    method = _method(config, opener)
    if config.store.folder() is not None and not opener.opened:
        raise ValueError(f"--store means nothing for {config.method}: it puts no rollouts there")
    if (prepare := traits(method).prepare) is not None:  # as adaptivestep cuts them anew
        trajectories = prepare(trajectories)
    with (
        ray_workers(config.ray, partial(_task, config, store and store.absolute(), edition)) as workers,
        open_run("label", config, for_show=_FOR_SHOW, workers=workers) as run,
    ):
        begin_edition(run, edition)
        if config.again:
            _drop_unlabelled(run)
        found = _found(config, run, method, trajectories, bool(opener.opened))
        end_edition(run)
        file = run.folder / "judged.parquet"
        write_parquet(file, found.rows, "judged")
        result = {**_summary(found), **given.limited, "judge": method.name, "judge_given": config.method,
                  "file": str(file), "cost": run.cost.to_dict(), "seconds": run.seconds(),
                  "page": str(run.folder / REPORT)}  # fmt: skip
        result |= _one_sided(found.rows)
        if config.trees is not None:
            result["problems_without_answer"] = without_answer(trajectories)
            result["problems_without_tree"] = alike(found.barren)
        if config.policy.typed:
            result["policy_given"] = config.policy.typed
        who, settled = Named(config.method, method.name), run_settings(config, _FOR_SHOW)
        write_page(run.folder / REPORT, label_page(found.rows, result, who, seed=config.run.seed, config=settled))
        run.finish(result)
        shown = {**result, "store": opener.found(workers)}
        run.log("store", found=shown["store"])
        emit(shown, config.run.json, lambda console: _show(console, shown, spent(run.cost, run.seconds())))
    return 0 if _of_use(result) else NOTHING


def _estimate(config: LabelConfig, opener: Opener, traces: Sequence[Trajectory], limited: Mapping[str, Any]) -> int:
    """Run the method over policies that only count; for a probe, the same method over those that were asked for."""
    rehearsal = Rehearsal()
    method = _method(config, StandIns(rehearsal))
    traces = (traits(method).prepare or list)(traces)
    if isinstance(method, TreeLabeller):
        found = estimate_of_trees(rehearsal, method, traces, config.costs)
    else:
        chunk = config.chunk if opener.store is None else None
        probing = cast(Judge, _method(config, opener)) if config.costs.probe else None
        found = estimate_of(rehearsal, method, traces, config.costs, chunk, probing, config.run.seed)
    estimate = {"method": config.method, **limited, **found}
    emit(estimate, config.run.json, lambda console: show_estimate(console, estimate))
    return 0


def _task(config: LabelConfig, store: Path | None, edition: str) -> Task:
    """What a worker does with a chunk of traces, or of problems."""
    opener = Opener(store, edition)
    method = _method(config, opener)
    task = growing(method) if isinstance(method, TreeLabeller) else judging(method)
    return replace(task, counts=opener.counts)


def _found(
    config: LabelConfig, run: Run, method: Judge | TreeLabeller, traces: Sequence[Trajectory], stored: bool
) -> Found:
    """The given traces with their judgements, or the traces that the method wrote itself."""
    if isinstance(method, TreeLabeller):
        return harvested(run, method, traces, config.chunk)
    rows: Sequence[Judged] = Mapped(Judged, traces, JudgeInRun(run, method, config.chunk, stored).kept(traces))
    settle = traits(method).settle
    return Found(rows if settle is None else settle(rows))


def _method(config: LabelConfig, opener: Callable[[PolicyOptions], Policy]) -> Judge | TreeLabeller:
    """The method with the options that were given; one that it does not take is an error."""
    own = {"rollouts": "rollouts", "values": "estimate", "until": "until", "half_width": "half_width"}
    asked = {its: getattr(config, name) for name, its in own.items() if getattr(config, name) is not None}
    if config.prover is not None:
        asked["prover"] = policy_in_words(config.prover)
    drawing = (config.policy, config.sampling, config.run.seed)
    asked = with_settings({**asks(*drawing), **asked}, config.set)
    width = asked.get("half_width")
    if isinstance(width, float | int) and not 0 < width < 0.5:
        raise ValueError(f"a half width of {width:g}: it is above 0 and below 0.5, for rates lie in [0, 1]")
    made_with = (asked, offers(*drawing), opener)
    made: Judge | TreeLabeller
    if config.trees is not None:
        made = tree_labeller(config.method, config.trees, *made_with)
    else:
        made = make_judge(config.method, *made_with)
    if config.sampling.temperature == 0:
        _refuse_copies(made, "labeller" if config.trees is None else "tree-labeller", config.method)
    return made


def _refuse_copies(method: object, kind: str, name: str) -> None:
    """Greedy completions of one text are all the same. A part that draws at a temperature of its own writes no copies."""
    copies: dict[str, int] = {}
    for part in all_parts(method):
        own = getattr(part, "params", None)
        if not isinstance(own, SamplingParams) or own.temperature == 0:
            copies |= {setting: count for setting, count in traits(part).repeats if count > 1}
    if not copies:
        return
    flags = [f"--{each} 1" for each in copies if each in ("rollouts", "trees")]
    if others := [f"{each}=1" for each in copies if each not in ("rollouts", "trees")]:
        flags.append(f"--set {' '.join(others)}")
    fix = f"say {' '.join(flags)}, or leave --temperature out"
    if fixed := [each for each in copies if not _sets(kind, name, each)]:
        fix = f"{name} has no setting for its {' and '.join(fixed)}: leave --temperature out"
    many = " and ".join(f"{count} {each}" for each, count in copies.items())
    raise ValueError(f"--temperature 0: all {many} of a text would be one and the same; {fix}")


def _sets(kind: str, method: str, setting: str) -> bool:
    """Whether --method can be told this. What a judge made over another (or a folder) does not take itself goes to that one."""
    known = systems(kind)
    part = known[method].part if method in known else method
    passed_on = part not in parts(kind) or bool(declared(kind, part).judges)
    return passed_on or setting in inspect.signature(load(kind, part)).parameters


def _drop_unlabelled(run: Run) -> None:
    """Remove the finished chunks that hold a step without a label, or a problem without a tree. In a row of a tree's node
    all steps but its last are valued in other rows."""
    run.drop("judgements", "judgement", lambda rows: any(None in judgement.values for judgement in rows))
    run.drop("trees", "harvest", lambda rows: any(_has_gaps(found) for found in rows))


def _has_gaps(found: Harvest) -> bool:
    silent = (said.failure(k) for _, said in found.rows if said for k, v in enumerate(said.values) if v is None)
    return bool(found.barren) or any(reason != ELSEWHERE for reason in silent)


def _summary(found: Found) -> dict[str, Any]:
    reasons: Counter[str] = Counter()
    steps = 0

    def known() -> Iterator[float]:
        nonlocal steps
        for trace, said in found.rows:
            for k, value in enumerate(() if said is None else said.values):
                steps += 1
                if value is not None:
                    yield value
                elif said is not None:
                    reasons[in_general(said.failure(k), trace.problem)] += 1

    total = sum(known())
    labelled = steps - reasons.total()
    return {
        "traces": len(found.rows),
        "steps": steps,
        "labelled": labelled,
        "unlabelled": alike(reasons),
        "mean_label": total / labelled if labelled else None,
        **_rolled_out(found),
    }


def _one_sided(rows: Sequence[Judged]) -> dict[str, Any]:
    """The one value of all labels, the traces that have none and why; nothing if there are labels of both kinds."""
    known: set[float] = set()
    silent: Counter[str] = Counter()
    for trace, said in rows:
        if said is None:
            continue
        known |= {value for value in said.values if value is not None}
        if len(known) > 1:
            return {}
        if set(said.values) == {None}:
            silent[in_general(said.failures[0] if said.failures else None, trace.problem)] += 1
    if not known or not silent:
        return {}
    because = next(iter(alike(silent)))
    return {"one_sided": {"value": known.pop(), "unlabelled_traces": silent.total(), "because": because}}


def _rolled_out(found: Found) -> dict[str, Any]:
    """Rollouts that were cut at max_tokens, and all of them, where the method counts them. Equal prefixes count each time.

    If not one of them says anything, `in_vain` says so: what labels there are come from known answers alone.
    """
    cuts = rollouts = 0.0
    counted_steps, failed = 0, False
    for _, said in found.rows:
        if said is not None:
            cuts += sum(count for count in said.aspects.get("unfinished", ()) if count is not None)
            own = [count for count in said.aspects.get("rollouts", ()) if count is not None]
            rollouts, counted_steps, failed = rollouts + sum(own), counted_steps + len(own), failed or 0 in own
    cut, of = int(found.unfinished + cuts), int(found.rollouts + rollouts)
    told = {"cut_rollouts": {"cut": cut, "of": of}} if cut else {}
    if not counted_steps or cut < of:
        return told
    how = "failed or was cut at max_tokens" if failed and cut else "failed" if failed else "was cut at max_tokens"
    return {**told, "in_vain": f"every rollout {how}"}


def _of_use(result: dict[str, Any]) -> bool:
    """Whether there is something to train on: labels, and not of known answers alone because all rollouts failed."""
    return bool(result["labelled"]) and "in_vain" not in result


def _show(console: Console, result: dict[str, Any], cost: str) -> None:
    mean = result["mean_label"]
    facts(console, {
        "judge": Named(result["judge_given"], result["judge"]),
        "limit": limited_in_words(result, "traces"),
        "labelled": f"{result['labelled']} of {result['steps']} steps in {result['traces']} traces"
        + (f", mean label {mean:.3f}" if mean is not None else ""),
        "unlabelled": "; ".join(f"{count}: {reason}" for reason, count in result["unlabelled"].items()),
        "cut": _CUT.format(**result["cut_rollouts"]) if "cut_rollouts" in result else None,
        "in vain": f"{result['in_vain']}: no label is of a rollout, and there is nothing to train on"
        if "in_vain" in result else None,
        "one-sided": _ONE_SIDED.format(**result["one_sided"]) if "one_sided" in result else None,
        "no tree": "; ".join(
            f"{count} problem{'s' if count > 1 else ''}: {why}"
            for why, count in result.get("problems_without_tree", {}).items()
        ),
        "cost": cost,
        "store": found_in_words(result["store"]),
        "file": result["file"],
        "page": result["page"],
    })  # fmt: skip
    if _of_use(result) and "one_sided" not in result:
        next_command(console, "train", "--data", result["file"])
