"""What `footfall rl` is told, and who takes part in it: model, problems, judges and writer, opened by these options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from footfall.commands._judges import open_judge
from footfall.commands._options import (
    JudgeOptions,
    PolicyOptions,
    RayOptions,
    ReadOptions,
    RunOptions,
    SamplingOptions,
    name_and_settings,
    policy_in_words,
)
from footfall.commands._output import note
from footfall.commands._parts import make_part, open_policy, separator_of, settings
from footfall.commands._sources import problem_key, read_source, world_source
from footfall.judging import all_parts, keep_nothing
from footfall.registry import declared, no_hub_id, parts, serving, systems
from footfall.render import template_for
from footfall.rl.groups import Credit, reads_steps
from footfall.rl.settings import RlSettings
from footfall.scale import Call
from footfall.scale.processes import is_main
from footfall.search.votes import Aggregation
from footfall.train.scalars import Log
from footfall.types import Judge, Problem, content_key

if TYPE_CHECKING:
    from footfall.rl.loop import Setting
    from footfall.rl.parts import Parts
    from footfall.rl.rewards import Reward

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


def open_setting(config: RlConfig, problems: Problems, parts: Parts | None = None) -> Setting:
    """Everybody who takes part, loaded."""
    from footfall.rl.filters import refuse_empty
    from footfall.rl.loop import Setting
    from footfall.rl.parts import JudgeInParts
    from footfall.rl.rewards import Reward

    assert config.problems is not None
    vllm = vllm_settings(config)
    credit = _part("credit", config.credit)
    keep = None if config.filter is None else _part("filter", config.filter)
    if keep is not None:
        refuse_empty(keep, config.settings.group)
    config.settings.check_beside(credit.needs)
    judge, other = reward_judge(config, credit), _held_out_judge(config)
    _refuse_unasked(config, judge, other)
    reward = Reward(credit, judge, keep, config.outcome, config.aggregate)
    _refuse_idle(config, reward)
    if parts is not None and judge is not None:
        reward = replace(reward, judge=JudgeInParts(judge, parts))
    train, held_out = problems
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
    if writer not in ("engine", "trl"):
        writer = open_policy(PolicyOptions(writer, system=config.system))
    return Setting(
        model, tokenizer, train, held_out, reward, config.sampling.params(config.run.seed), separator,
        template=template, writer=writer,
        vllm=vllm, truth=_truth(config), held_out_judge=other, log=config.log,
        parts=parts,
    )  # fmt: skip


def vllm_settings(config: RlConfig) -> dict[str, Any] | None:
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


def worker_task(config: RlConfig) -> Call:
    """What a worker does with a part of a batch: it writes, with the weights that it is sent, or judges."""
    from footfall.policy.torch_policy import TorchPolicy
    from footfall.rl.loop import adapters
    from footfall.rl.parts import PartWork

    judge = reward_judge(config, _part("credit", config.credit))
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


def reward_judge(config: RlConfig, credit: Credit) -> Judge | None:
    reads = reads_steps(credit) or config.outcome != "answer"
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


def _refuse_idle(config: RlConfig, reward: Reward) -> None:
    """Refuse options that do nothing with this credit, filter, judge and writer."""
    judge, idle = reward.judge, dict(reward.idle)
    if config.outcome != "answer" and "outcome" in idle:
        raise ValueError(
            f"--outcome {config.outcome}: the credit {config.credit} reads no outcome, and no filter does; leave it out"
        )
    if config.aggregate != RlConfig.aggregate and "aggregate" in idle and config.held_out_judge is None:
        raise ValueError(
            f"--aggregate {config.aggregate}: with the credit {config.credit} the outcome is what is logged and watched; leave "
            "it out, or say by --outcome what a completion is worth"
        )
    if config.judge.set and judge is None:
        raise ValueError(
            f"--set {config.judge.set[0]}: no judge is asked with this credit; name one by --judge, or leave it out"
        )
    if config.chunk is not None and config.writer != "engine" and judge is None:
        raise ValueError(
            f"--chunk {config.chunk}: {config.writer} writes whole batches and no judge reads them; leave it out"
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


class Problems(NamedTuple):
    """What is trained on and what is measured on."""

    train: Sequence[Problem]
    held_out: Sequence[Problem]

    @property
    def keys(self) -> dict[str, str]:
        """Their content: other problems under the same name make another run."""
        return {"problems_key": _content(self.train), "held_out_key": _content(self.held_out)}


def _content(problems: Sequence[Problem]) -> str:
    return content_key([problem_key(each) for each in problems])


def open_problems(config: RlConfig) -> Problems:
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
    return Problems(train, held_out)


def _truth(config: RlConfig) -> Judge | None:
    """A world knows the truth of steps."""
    source = world_source(config.problems or "", "train")
    name = f"truth-{source.world}" if source else ""
    return make_part("labeller", name, {}) if name in parts("labeller") else None
