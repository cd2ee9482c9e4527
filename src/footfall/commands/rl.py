"""`footfall rl`: a policy learns from its own completions, with a reward for every step."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from footfall.commands._judges import open_judge
from footfall.commands._options import (
    JudgeOptions,
    PolicyOptions,
    RayOptions,
    ReadOptions,
    RunOptions,
    SamplingOptions,
    given,
    name_and_settings,
    policy_in_words,
)
from footfall.commands._output import emit, facts, figures, next_command, note
from footfall.commands._parts import make_part, open_policy, separator_of, settings
from footfall.commands._running import REPORT, open_run, ray_workers, run_settings
from footfall.commands._sources import read_source, world_source
from footfall.damaged import naming
from footfall.judging import all_parts, keep_nothing
from footfall.metrics.intervals import wilson
from footfall.registry import declared, no_hub_id, parts, serving, systems
from footfall.render import template_for
from footfall.reports.pages import write_page
from footfall.reports.rl_page import Arm, rl_page
from footfall.rl.groups import Credit
from footfall.rl.settings import QUICK_ARMS, QUICK_HELD_OUT, QUICK_PROBLEMS, RlSettings
from footfall.scale import Call, is_address
from footfall.scale.processes import agreed, count, is_main, joined
from footfall.search.votes import Aggregation
from footfall.store import Run, worker_processes
from footfall.terminal import Progress
from footfall.train.scalars import Log, log_module
from footfall.types import Judge, Problem

if TYPE_CHECKING:
    from footfall.rl.loop import Setting, Trained
    from footfall.rl.parts import Parts

_FOR_SHOW = ("log", "estimate", "quick")
_TRIED = 3
"""Updates that an estimate makes."""
_CACHE_TOKENS = 1 << 16
"""That a judge may keep of what it has read."""


@dataclass(frozen=True)
class RlConfig:
    """Train a policy by reinforcement learning: it writes, a judge values the steps, a credit makes one advantage a token.

    On this machine, in minutes: the embedded model with outcome rewards and with process rewards, side by side:
        footfall rl --quick

    With a PRM that `footfall train` wrote, in PURE's minimum form, and a stop when the reward is hacked:
        footfall rl --problems world:arithmetic:2000 --credit pure --judge runs/train-…/model --lr 3e-4 --stop-hacked

    With a critic behind a server as the reward, and a PRM that the policy is not trained on to watch it:
        footfall rl --problems train.jsonl --model ./Qwen2.5-0.5B --credit capo --judge critic \\
            --judge-policy http,url=http://localhost:8000/v1,mode=chat --held-out-judge runs/train-…/model

    Written and judged by 8 workers of a cluster, to the bytes of the same command without --ray:
        footfall rl --problems train.jsonl --model ./Qwen2.5-0.5B --judge PRM --chunk 8 --ray head:6379 --ray-gpus 1

    A model of your own with LoRA, GRPO with PROF's filter, and what it will cost first:
        footfall rl --problems train.jsonl --model ./Qwen2.5-0.5B --lora-rank 32 --filter prof --judge PRM --estimate

    The run directory holds the policy in model/ (and rlcm's probe, a judge, in probe/), checkpoints, log.jsonl with every
    update, and a page, report.html. Killed at any moment, the same command line goes on from the last checkpoint.
    """

    problems: str | None = None
    """A file of problems with reference answers, or world:arithmetic:N; those are of the split train."""
    held_out: str | None = None
    """Problems to measure on, as --problems. None: of a world its split test, of a file its last problems, which are then not
    trained on."""
    model: str = serving("policy")
    """Who is trained: embedded, a folder, hub id or GGUF file of any decoder."""
    system: str | None = None
    """A system message for a model with a chat template, such as how to separate steps and where to put the answer."""
    credit: str = serving("credit")
    """A name of `footfall list credit`, settings may follow: pure,temperature=0.2. Or a system's, such as dr-grpo."""
    filter: str | None = None
    """Which rollouts are trained on: a name of `footfall list filter`, settings may follow."""
    outcome: Literal["answer"] | Aggregation = "answer"
    """What a whole completion is worth: 1 for the right answer, or the judge's step values aggregated."""
    aggregate: Aggregation = "min"
    """The proxy that is logged and watched where the credit reads step values."""
    judge_policy: str | None = None
    """The model that judges which ask one (critics, monte-carlo, …) ask, in one word: a name of `footfall list policy`, a
    folder, or http,url=http://localhost:8000/v1,mode=chat."""
    held_out_judge: str | None = None
    """A judge that the policy is not trained on, as --judge, settings may follow: monitors compare what is paid with it."""
    writer: str = "engine"
    """Who writes the rollouts: engine (Footfall's, with the weights that are trained), trl, vllm (TRL's; its settings may
    follow: vllm,gpu_memory_utilization=0.5), or a server's URL."""
    chunk: int | None = None
    """Completions that are written, and judged, at once: with --ray by one worker. It decides how sums are rounded, so the same
    number gives the same bytes with --ray and without. None: a whole batch."""
    log: Log | None = None
    """Also log by update to TensorBoard (tensorboard/ in the run directory) or to Weights & Biases, by TRL."""
    estimate: bool = False
    """Make three updates in a folder that is thrown away, say what the run would take, and stop."""
    quick: bool = False
    """The embedded model on the arithmetic world: outcomes, and the truth of steps beside them, at equal rollouts."""
    device: str | None = None
    """cpu, cuda, … None: CUDA where there is one."""
    settings: RlSettings = field(default_factory=RlSettings)
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    reading: ReadOptions = field(default_factory=ReadOptions)
    ray: RayOptions = field(default_factory=RayOptions)
    run: RunOptions = field(default_factory=RunOptions)


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
    _vllm(config)  # which may not be here
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
    threads = max(1, (os.cpu_count() or 2) // len(arms))
    with worker_processes(len(arms)) as pool:
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
    import torch

    torch.set_num_threads(threads)
    return _train(config, name)


def _config(config: RlConfig) -> dict[str, Any]:
    return run_settings(config, _FOR_SHOW)


def _train(config: RlConfig, name: str) -> tuple[Arm, dict[str, Any]]:
    """One run, to its end; what a page shows of it, and what is printed."""
    from footfall.rl.loop import point_of, train_policy
    from footfall.rl.parts import Parts

    with (
        ray_workers(config.ray, partial(_task, config)) as workers,
        open_run("rl", config, for_show=_FOR_SHOW) as run,
        ExitStack() as stack,
    ):
        log = run.folder / "log.jsonl"
        finished = run.logged("finished")
        if agreed(None if finished and (run.folder / "model").is_dir() else run.folder):
            if config.run.fresh:
                _throw_away(run.folder)
            with naming(log):
                known = [point_of(facts) for facts in run.logged("checkpoint")]
            shown = _Shown(stack, run, name, config.settings.updates)
            parts = None if config.chunk is None else Parts(config.chunk, workers, run.log)
            trained = train_policy(
                _setting(config, parts), config.settings, run.folder, told=shown.told, known=known, saved=run.keep
            )
            run.log("finished", **_facts(trained))
            finished = run.logged("finished")
        with naming(log):
            arm, end = Arm.read(name, run.logged), finished[-1]
            probe = {"probe": str(run.folder / "probe")} if (run.folder / "probe").is_dir() else {}
            result = {
                "model": str(run.folder / "model"), **probe, "page": str(run.folder / REPORT), "credit": config.credit,
                "updates": end["updates"], "rollouts": config.settings.rollouts, "left": arm.left, "hacked": end["hacked"],
                "alarms": [alarm["why"] for alarm in end["alarms"]], "shares": end["seconds"],
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
        train_policy(_setting(config, parts), config.settings, folder)
    return {}


def _facts(trained: Trained) -> dict[str, Any]:
    alarms = [vars(alarm) for alarm in trained.alarms]
    seconds = {name: round(value, 2) for name, value in trained.seconds.items()}
    return {"updates": trained.updates, "hacked": trained.hacked, "alarms": alarms, "seconds": seconds}


def _accuracy(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    return dict(wilson(int(checkpoint["right"]), int(checkpoint["rollouts"])).to_dict())


def _throw_away(folder: Path) -> None:
    import shutil

    for name in ("checkpoints", "model", "model.partial", "probe"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _setting(config: RlConfig, parts: Parts | None = None) -> Setting:
    """Everybody who takes part, loaded."""
    from footfall.rl.filters import refuse_empty
    from footfall.rl.loop import Setting
    from footfall.rl.parts import JudgeInParts
    from footfall.rl.rewards import Reward

    assert config.problems is not None
    vllm = _vllm(config)
    credit = _part("credit", config.credit)
    keep = None if config.filter is None else _part("filter", config.filter)
    if keep is not None:
        refuse_empty(keep, config.settings.group)
    judge, other = _judge(config, credit), _held_out_judge(config)
    _refuse_unasked(config, judge, other)
    if parts is not None and judge is not None:
        judge = JudgeInParts(judge, parts)
    reward = Reward(credit, judge, keep, config.outcome, config.aggregate)
    train, held_out = _problems(config)
    if (lacking := reward.unanswered(train)) and is_main():
        note(f"{config.problems}: {lacking:,} of {len(train):,} problems have no reference answer to learn from")
    model, tokenizer = _model(config)
    template = template_for(tokenizer)
    if config.system is not None:
        if template.kind != "chat":
            raise ValueError(f"--system: {config.model} has no chat template, so there is no place for it")
        template = replace(template, system=config.system)
    separator = separator_of(PolicyOptions(policy=config.model))
    writer: Any = "trl" if vllm is not None else config.writer
    return Setting(
        model, tokenizer, train, held_out, reward, config.sampling.params(config.run.seed), separator,
        template=template, writer=writer if writer in ("engine", "trl") else open_policy(PolicyOptions(writer)),
        vllm=vllm, truth=_truth(config), held_out_judge=other, log=config.log,
        parts=parts,
    )  # fmt: skip


def _vllm(config: RlConfig) -> dict[str, Any] | None:
    """What is said of TRL's vLLM, if that is to write."""
    from footfall.gguf.container import is_gguf
    from footfall.loading import pick_device

    name, *own = name_and_settings(config.writer)
    if name != "vllm":
        return None
    if find_spec("vllm") is None:
        raise ModuleNotFoundError(
            "--writer vllm needs vLLM in a version that TRL takes; install it with: pip install 'trl[vllm]'"
        )
    if pick_device(config.device).type == "cpu":
        raise ValueError(
            "--writer vllm: on a CPU vLLM packs its weights when it loads them and takes no others from TRL; leave --writer out"
        )
    if is_gguf(config.model):
        raise ValueError(
            f"--writer vllm: vLLM opens {config.model} by itself and reads no GGUF; name a folder or hub id as --model"
        )
    return settings(own)


def _model(config: RlConfig) -> tuple[Any, Any]:
    """Who is trained, and its tokenizer."""
    import torch

    from footfall.loading import load_model, pick_device
    from footfall.policy.embedded import EMBEDDED

    if why := no_hub_id(config.model):
        raise ValueError(f"--model {why}")
    source = str(EMBEDDED) if config.model == serving("policy") else config.model
    # All weights are trained in float32: at usual learning rates an update is smaller than bfloat16 can add to a weight.
    whole = torch.float32 if config.settings.lora_rank is None else None
    return load_model(source, str(pick_device(config.device)), whole)


def _task(config: RlConfig) -> Call:
    """What a worker does with a part of a batch: it writes, with the weights that it is sent, or judges."""
    from footfall.policy.torch_policy import TorchPolicy
    from footfall.rl.loop import adapters
    from footfall.rl.parts import PartWork

    judge = _judge(config, _part("credit", config.credit))
    if config.writer != "engine":
        return Call(PartWork(None, judge))
    model, tokenizer = _model(config)
    if config.settings.lora_rank is not None:
        from peft import get_peft_model

        model = get_peft_model(model, adapters(config.settings.lora_rank)).get_base_model()
    rows = config.settings.prompts * config.settings.group
    return Call(PartWork(TorchPolicy(model, tokenizer, label="policy", rows=max(64, min(1024, rows))).engine, judge))


def _part(kind: str, words: str) -> Any:
    name, *own = name_and_settings(words)
    known = {} if name in parts(kind) else systems(kind)
    if name in known:
        return make_part(kind, known[name].part, {**known[name].settings, **settings(own)})
    return make_part(kind, name, settings(own))


def _judge(config: RlConfig, credit: Credit) -> Judge | None:
    reads = {"rewards", "start", "token_scores"} & set(credit.needs) or config.outcome != "answer"
    filtered = config.filter is not None and "rewards" in declared("filter", name_and_settings(config.filter)[0]).needs
    if config.judge.judge is None and not reads and not filtered:
        return None
    # A PRM that can value the bare problem, or every token, does so for a credit that reads it.
    read = {"initial": "start" in credit.needs, "token_values": "token_scores" in credit.needs}
    return _opened(config, config.judge, {name: True for name, needed in read.items() if needed})


def _held_out_judge(config: RlConfig) -> Judge | None:
    return None if config.held_out_judge is None else _opened(config, JudgeOptions(config.held_out_judge))


def _refuse_unasked(config: RlConfig, *judges: Judge | None) -> None:
    """A model that no judge asks was named by mistake."""
    if config.judge_policy is not None and not any(hasattr(each, "sample") for each in all_parts(*judges)):
        named = " and ".join(name for name in (config.judge.judge, config.held_out_judge) if name)
        raise ValueError(
            f"--judge-policy {config.judge_policy}: {f'{named} asks no model' if named else 'there is no judge'}; leave it out"
        )


def _opened(config: RlConfig, options: JudgeOptions, more: Mapping[str, Any] | None = None) -> Judge:
    """A judge; of two that are named, one need not ask the policy."""
    from footfall.loading import pick_device

    asks = {} if config.judge_policy is None else {"policy": policy_in_words(config.judge_policy)}
    # On a CPU a judge reads a prompt once for a whole group: in one row if it can, else by what it keeps within a batch.
    kept = _CACHE_TOKENS if pick_device(config.device).type == "cpu" else 0
    offered = {"device": config.device, "seed": config.run.seed, "cache_tokens": kept, **(more or {})}
    alone = config.held_out_judge is None
    judge = open_judge(options, asks if alone else {}, offered if alone else {**offered, **asks})
    keep_nothing(judge)
    return judge


def _problems(config: RlConfig) -> tuple[Sequence[Problem], Sequence[Problem]]:
    """Those to train on and those to measure on; no problem is among both."""
    assert config.problems is not None
    train = list(read_source(config.problems, config.run.seed, "train", config.reading))
    world, most = world_source(config.problems, "train"), config.settings.measured
    if config.held_out is not None or world is not None:
        other = config.held_out or f"world:{world.world if world else ''}:{most}:test"
        held_out = list(read_source(other, config.run.seed, "test", ReadOptions()))
    else:
        held_out = train[len(train) - min(most, len(train) // 5) :]
    seen = {problem.text for problem in held_out}
    train = [problem for problem in train if problem.text not in seen]
    if len(train) < config.settings.prompts or not held_out:
        raise ValueError(
            f"{config.problems}: {len(train)} problems to train on and {len(held_out)} to measure on; an update takes "
            f"{config.settings.prompts}"
        )
    return train, held_out


def _truth(config: RlConfig) -> Judge | None:
    """A world knows the truth of steps."""
    source = world_source(config.problems or "", "train")
    name = f"truth-{source.world}" if source else ""
    return make_part("labeller", name, {}) if name in parts("labeller") else None


def _estimate(config: RlConfig) -> dict[str, Any]:
    """By making a few updates: what one takes, and how it is shared."""
    from footfall.rl.loop import make_trainer

    given = _setting(config)
    whole = config.settings.iterations
    tried = replace(config.settings, updates=-(-_TRIED // whole) * whole)
    with TemporaryDirectory() as folder:
        trainer = make_trainer(given, tried, Path(folder))
        trainer.train()
    step = trainer.seconds["steps"] / tried.updates
    shares = {name: trainer.seconds[name] / trainer.seconds["steps"] for name in ("writing", "judging")}
    tokens = sum(len(each.ids) for each in trainer.batch) / len(trainer.batch)
    return {
        "updates": config.settings.updates, "rollouts": config.settings.rollouts,
        "tokens": round(tokens * config.settings.rollouts), "seconds": round(step * config.settings.updates, 1),
        "seconds_an_update": round(step, 3), "tokens_a_completion": round(tokens, 1),
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
        "accuracy": f"{_percent(result['before'])} before, {_percent(result['after'])} after, one sample a held-out problem",
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
