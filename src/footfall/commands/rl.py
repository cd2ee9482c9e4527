"""`footfall rl`: a policy learns from its own completions, with a reward for every step."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import is_dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console

from footfall.commands._options import JudgeOptions, SamplingOptions, given
from footfall.commands._output import emit, facts, figures, next_command
from footfall.commands._rl_setting import RlConfig, open_problems, open_setting, vllm_settings, worker_task
from footfall.commands._running import REPORT, open_run, ray_workers, run_settings
from footfall.damaged import naming
from footfall.reports.pages import write_page
from footfall.reports.rl_page import Arm, accuracy, rl_page
from footfall.rl.settings import QUICK_ARMS, QUICK_HELD_OUT, QUICK_PROBLEMS, RlSettings
from footfall.scale import is_address
from footfall.scale.processes import agreed, count, is_main, joined
from footfall.store import Run, empty_inner, is_half_removed, removing
from footfall.store.processes import hearing_ctrl_c, worker_processes
from footfall.terminal import Progress
from footfall.train.scalars import log_module

if TYPE_CHECKING:
    from footfall.rl.loop import Trained

_FOR_SHOW = ("log", "estimate", "quick")
_OWN = ("checkpoints", "model", "model.partial", "probe")
"""What a run has beside its log."""
_TRIED = 3
"""Updates that an estimate makes."""


_QUICK = RlConfig(
    problems=QUICK_PROBLEMS, held_out=QUICK_HELD_OUT, device="cpu",
    settings=RlSettings(updates=45, lr=3e-4, checkpoint_every=15, measured=300), sampling=SamplingOptions(max_tokens=160),
)  # fmt: skip
_ARMS: dict[str, dict[str, Any]] = {
    name: {"credit": arm.credit, "judge": JudgeOptions(arm.judge, arm.settings)} for name, arm in QUICK_ARMS.items()
}


def main(config: RlConfig) -> int:
    """Train, or go on training, and report."""
    if find_spec("trl") is None:
        raise ModuleNotFoundError("footfall rl needs the package trl; install it with: pip install 'footfall[rl]'")
    if config.quick or config.estimate:
        config.ray.refuse("--quick and --estimate are for this machine; leave them or --ray out")
    if config.quick:
        _refuse_unused(config)
        if count() > 1:
            raise ValueError("--quick starts its processes itself: leave the launcher out")
        return _quick(config)
    if config.problems is None:
        raise ValueError("--problems is needed: a file of problems, or world:NAME:N; or try --quick")
    config.settings.check()
    vllm_settings(config)  # which may not be here
    if config.log is not None:
        log_module(config.log)
    if config.chunk is None:
        config.ray.refuse("say --chunk N, how many completions of a batch a worker writes and judges at once")
    if count() > 1:
        config.ray.refuse("one process hands out the work; leave out --ray, or the launcher of several processes")
    if config.sampling.temperature == 0:
        raise ValueError(
            "--temperature 0: greedy completions of a problem are all the same, and nothing is learnt from them"
        )
    from footfall.loading import pick_device

    with joined(pick_device(config.device).type == "cpu"):
        result = _estimate(config) if config.estimate else _train(config, "rl")[1] if is_main() else _take_part(config)
    if not is_main():
        return 0
    if config.estimate:
        emit(result, config.run.json, lambda console: facts(console, result))
        return 0
    problems = config.held_out or config.problems
    emit(result, config.run.json, lambda console: _show(console, result, problems))
    return 0


def _refuse_unused(config: RlConfig) -> None:
    """--quick fixes all but its folder, its seed and what is printed."""
    groups = (replace(config, quick=False), config.settings, config.judge, config.sampling, config.reading, config.ray)
    named = [name for group in groups for name in given(group) if not is_dataclass(getattr(group, name))]
    if named:
        raise ValueError(
            f"rl --quick is one comparison with settings of its own and takes no --{named[0].replace('_', '-')}"
        )


def _quick(config: RlConfig) -> int:
    """Both arms, each in a process of its own with half the cores."""
    begun = time.monotonic()
    if is_address(config.run.out):
        raise ValueError(f"--out {config.run.out}: --quick is for this machine; name a folder")
    folder = config.run.out or Path("runs") / "rl-quick"
    arms = {
        name: replace(_QUICK, **given, run=replace(config.run, out=folder / name, config=None, json=False))
        for name, given in _ARMS.items()
    }
    if folder.is_dir() and (config.run.fresh or is_half_removed(folder)):
        with removing(folder):
            empty_inner(folder, tuple(arms), _OWN)
    threads = max(1, (os.cpu_count() or 2) // len(arms))
    fewer = "free some, or run `footfall rl` once for each arm"
    # After Ctrl-C each arm keeps the update it is at.
    with worker_processes(len(arms), lambda: f"rl --quick, {' and '.join(arms)}", fewer, waited_for=True) as pool:
        futures = {name: pool.submit(_arm, arm, name, threads) for name, arm in arms.items()}
        found = {name: future.result() for name, future in futures.items()}
    page = write_page(folder / REPORT, rl_page([arm for arm, _ in found.values()], _config(_QUICK)))
    ends = {name: result["after"] for name, (_, result) in found.items()}
    rollouts = _QUICK.settings.rollouts
    result = {"page": str(page), "before": found["outcome"][1]["before"], **ends, "rollouts": rollouts,
              "seconds": round(time.monotonic() - begun, 1)}  # fmt: skip
    emit(result, config.run.json, lambda console: _show_quick(console, result))
    return 0


def _arm(config: RlConfig, name: str, threads: int) -> tuple[Arm, dict[str, Any]]:
    """In a process of its own."""
    with hearing_ctrl_c():  # before all that takes seconds to load
        import torch

        torch.set_num_threads(threads)
        return _train(config, name)


def _config(config: RlConfig) -> dict[str, Any]:
    return run_settings(config, _FOR_SHOW)


def _train(config: RlConfig, name: str) -> tuple[Arm, dict[str, Any]]:
    """One run, to its end; what a page shows of it, and what is printed."""
    from footfall.rl.loop import point_of, train_policy
    from footfall.rl.parts import Parts

    problems = open_problems(config)
    with (
        ray_workers(config.ray, partial(worker_task, config)) as workers,
        open_run("rl", config, problems.keys, _FOR_SHOW, beside=_OWN) as run,
        ExitStack() as stack,
    ):
        log = run.folder / "log.jsonl"
        finished = run.logged("finished")
        if agreed(None if finished and (run.folder / "model").is_dir() else run.folder):
            with naming(log):
                known = [point_of(facts) for facts in run.logged("checkpoint")]
            shown = _Shown(stack, run, name, config.settings.updates)
            parts = None if config.chunk is None else Parts(config.chunk, workers, run.log)
            trained = train_policy(
                open_setting(config, problems, parts),
                config.settings,
                run.folder,
                told=shown.told,
                known=known,
                saved=run.keep,
            )
            run.log("finished", **_facts(trained))
            finished = run.logged("finished")
        with naming(log):
            arm, end = Arm.read(name, run.logged), finished[-1]
            probe = {"probe": str(run.folder / "probe")} if (run.folder / "probe").is_dir() else {}
            result = {
                "model": str(run.folder / "model"), **probe, "page": str(run.folder / REPORT), "credit": config.credit,
                "updates": end["updates"], "rollouts": config.settings.rollouts, "left": arm.left, "hacked": end["hacked"],
                "alarms": [f"{alarm['name']}: {alarm['why']}" for alarm in end["alarms"]], "shares": end["seconds"],
                "before": _accuracy(arm.checkpoints[0]), "after": _accuracy(arm.checkpoints[-1]),
            }  # fmt: skip
            page = rl_page([arm], _config(config))
        write_page(run.folder / REPORT, page)
        run.finish(result)
    return arm, result


def _take_part(config: RlConfig) -> dict[str, Any]:
    """A run in another than the main process, which writes and tells all of it."""
    from footfall.rl.loop import train_policy
    from footfall.rl.parts import Parts

    folder: Path | None = agreed(None)
    if folder is not None:
        parts = None if config.chunk is None else Parts(config.chunk)
        train_policy(open_setting(config, open_problems(config), parts), config.settings, folder)
    return {}


def _facts(trained: Trained) -> dict[str, Any]:
    alarms = [vars(alarm) for alarm in trained.alarms]
    seconds = {name: round(value, 2) for name, value in trained.seconds.items()}
    return {"updates": trained.updates, "hacked": trained.hacked, "alarms": alarms, "seconds": seconds}


def _accuracy(checkpoint: Mapping[str, Any]) -> dict[str, Any] | None:
    found = accuracy(checkpoint)
    return None if found is None else dict(found.to_dict())


def _estimate(config: RlConfig) -> dict[str, Any]:
    """By making a few updates and looking at the policy once: what these take, and how an update is shared."""
    from footfall.rl.loop import Watch, looks, make_trainer
    from footfall.train.checkpoints import Saves

    given = open_setting(config, open_problems(config))
    whole = config.settings.iterations
    tried = replace(config.settings, updates=-(-_TRIED // whole) * whole)
    with TemporaryDirectory() as folder:
        trainer = make_trainer(given, tried, Path(folder))
        trainer.train()
        watch = Watch(given, tried, lambda *_: None, (), Saves(None))
        watch.trainer = trainer
        begun = time.monotonic()
        watch.on_train_begin(trainer.args, trainer.state, trainer.control)
        look = time.monotonic() - begun
    step = trainer.seconds["steps"] / tried.updates
    shares = {name: trainer.seconds[name] / trainer.seconds["steps"] for name in ("writing", "judging")}
    tokens = sum(len(each.ids) for each in trainer.batch) / len(trainer.batch)
    seconds = step * config.settings.updates + look * looks(config.settings)
    return {
        "updates": config.settings.updates, "rollouts": config.settings.rollouts,
        "tokens": round(tokens * config.settings.rollouts), "seconds": round(seconds, 1),
        "seconds_an_update": round(step, 3), "seconds_a_checkpoint": round(look, 3), "tokens_a_completion": round(tokens, 1),
        **{name: round(share, 3) for name, share in shares.items()}, "training": round(1 - sum(shares.values()), 3),
    }  # fmt: skip


class _Shown:
    """A bar with reward and accuracy, and all events in the run's log."""

    def __init__(self, stack: ExitStack, run: Run, name: str, updates: int) -> None:
        self.stack, self.run, self.name, self.updates = stack, run, name, updates
        self.bar: Progress | None = None

    def told(self, event: str, facts: Mapping[str, Any]) -> None:
        self.run.log(event, **facts)
        if event != "update":
            return
        if self.bar is None:
            self.bar = self.stack.enter_context(Progress(self.name, self.updates, facts["update"] - 1))
        said = [f"{name} {facts[name]:.3f}" for name in ("reward", "accuracy") if name in facts]
        said += [f"{facts['left']:.0f} left their groups"] if facts.get("left") else []
        # A second update on the same rollouts (--iterations) has nothing new to say of them.
        self.bar.note = ", ".join(said) or self.bar.note
        self.bar.advance(facts["update"] - self.bar.done)


def _percent(figure: Mapping[str, Any]) -> str:
    low, high = figure["ci95"]
    return f"{100 * figure['value']:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def _show(console: Console, result: Mapping[str, Any], problems: str) -> None:
    facts(console, {
        "accuracy": f"{_percent(result['before'])} before, {_percent(result['after'])} after, one sample a held-out problem"
        if result["before"] and result["after"] else "not known: no held-out problem has a reference answer",
        "rollouts": f"{result['rollouts']:,} in {result['updates']} updates",
        "left their groups": result["left"] or None,
        "hacked": "; ".join(result["alarms"]) if result["hacked"] else None,
        "signs": "; ".join(result["alarms"]) if not result["hacked"] else None,
        "model": result["model"], "probe": result.get("probe"), "page": result["page"],
    })  # fmt: skip
    next_command(console, "search", "--policy", result["model"], "--problems", problems)


def _show_quick(console: Console, result: Mapping[str, Any]) -> None:
    rows = [["", "accuracy of one sample"]]
    rows += [[name, _percent(result[name])] for name in ("before", *_ARMS)]
    figures(console, rows)
    facts(
        console,
        {"rollouts": f"{result['rollouts']:,} each", "time": f"{result['seconds']:.0f} s", "page": result["page"]},
    )
