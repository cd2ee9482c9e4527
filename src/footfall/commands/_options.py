"""Options that several commands share. Each group is one dataclass; its fields are flags without a prefix."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from footfall.commands._values import finite_fields, in_range
from footfall.formats import check_names
from footfall.policy.protocol import SamplingParams
from footfall.registry import serving
from footfall.scale import check_place

WHERE = ("url", "api_key", "api_key_env", "timeout", "retries", "concurrency")
"""Options that say where a policy is and how it is asked, not what it is."""
_DAY_SECONDS = 86400.0
_ADDRESS = re.compile(r"https?://[^,]*(?:,\s*https?://[^,]*)*")
_PAIRS = re.compile(r",(?!\s*https?://)(?:(?=[^,=\s]*=)|(?=[^,=\s]*$))")
"""The commas in front of KEY=VALUE, and of a last word that is none; others are part of a value, as between addresses."""
_NUMBERS: dict[str, type[int] | type[float]] = {"timeout": float, "retries": int, "concurrency": int}
_SWITCHES = ("neutral", "logprobs")
_TRUTHS = {"true": True, "false": False}
StepEnd = Literal["auto", "line", "blank-line", "none"]


@dataclass(frozen=True)
class RunOptions:
    """The run: its folder, its seed, what it prints. Stopped at any moment, the same command line goes on."""

    config: Path | None = None
    """A file with options of this command, TOML or JSON, or an earlier run's folder; the command line wins over it."""
    seed: int = 0
    """Of everything random: the same seed gives the same result."""
    out: Path | None = None
    """Run directory, or one in an object store, s3://BUCKET/NAME or gs://BUCKET/NAME. None: runs/COMMAND-HASH, the hash of
    these settings, so that the same command line finds its run again."""
    fresh: bool = False
    """Throw away what an earlier run left in that directory."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""


@dataclass(frozen=True)
class RayOptions:
    """Where the work is done: in this process, or by workers of a Ray cluster, with the same result."""

    ray: str | None = None
    """Do the chunks of the run in Ray workers: --ray alone on this machine, --ray HOST:PORT (or auto) on a cluster that runs.
    Needs footfall[ray]."""
    ray_workers: int | None = None
    """How many. None: as many as the cluster has room for."""
    ray_cpus: float = 1.0
    """CPUs of each worker, and threads unless OMP_NUM_THREADS is set. As many threads as without --ray give the same bytes."""
    ray_gpus: float = 0.0
    """GPUs of each worker; 0.5 lets two share one. A worker without any runs its models on the CPU."""
    ray_memory: float | None = None
    """GiB of memory that each worker is given room for."""
    ray_patience: float | None = None
    """Seconds that one chunk may take before its worker is taken to hang and replaced. None: ten minutes, or 5 times the
    slowest chunk so far."""
    ray_opening: float | None = None
    """Seconds that a worker may take to open the policy and the judge before it is taken to hang and replaced. None: half an
    hour."""

    def patient(self) -> RayOptions:
        """For work that may take hours and says nothing in between: a day, unless the user says how long."""
        return replace(self, ray_patience=self.ray_patience or _DAY_SECONDS)

    def refuse(self, why: str) -> None:
        """An error where there is nothing that workers could do."""
        if self.ray is not None:
            raise ValueError(f"--ray: {why}")

    def check(self) -> None:
        """An error where it is said what workers are to be and there are none."""
        if self.ray is None and (said := given(self)):
            raise ValueError(f"--{next(iter(said)).replace('_', '-')} is of the workers of --ray; say --ray too")


@dataclass(frozen=True)
class ReadOptions:
    """How data are read."""

    skip_bad: bool = False
    """Leave out records that cannot be read, and tell how many and why, instead of stopping at the first."""
    segment: str | None = None
    """How a solution that is one text is cut into steps, a name of `footfall list segmenter`: lines, sentences, … None: at
    "Step 1:" to "Step n:" where a text has them, else at its blank lines."""

    limit: int | None = None
    """Take only so many: the first traces or problems; for bench, cases from all over the data. The result says of how many."""
    map: tuple[str, ...] = ()
    """Field names of your own, e.g. --map problem=question_text steps=cot; also answer=, reference=, labels=, ratings=, id=, …
    A name with dots leads into a field: problem=doc.question."""

    @property
    def names(self) -> dict[str, str]:
        """The fields that hold the problem, the steps and so on, by what they hold."""
        found: dict[str, str] = {}
        for pair in self.map:
            name, equals, field = pair.partition("=")
            if not equals or not field or name in found:
                why = "is named twice" if name in found else "takes NAME=FIELD, e.g. steps=cot"
                raise ValueError(f"--map {pair}: {name if name in found else 'it'} {why}")
            found[name] = field
        check_names(found)
        return found

    def refuse(self, source: str, why: str, besides: tuple[str, ...] = ()) -> None:
        """Refuse the options that a source has no use for, all but some."""
        for name in given(self):
            if name not in besides:
                raise ValueError(f"--{name.replace('_', '-')} means nothing for {source}: {why}")


@dataclass(frozen=True)
class PolicyOptions:
    """Who writes steps."""

    policy: str | None = None
    """embedded (ships with the package), smollm2, scripted-arithmetic, http (with --url), a URL, a folder, a .gguf file, a hub
    id, or mine.py:MyPolicy, of a file of yours; `footfall list policy` has them all. None: http if there is a --url; else
    embedded for sample and search."""
    url: str | None = None
    """Of an OpenAI-compatible server (vLLM, SGLang, llama.cpp), e.g. http://localhost:8000/v1. Several with commas between them
    are servers of the same model: the least busy is asked, one that fails is left out for a while."""
    model: str | None = None
    """The model's name on that server; needed where it serves several."""
    mode: Literal["completions", "chat"] | None = None
    """How that server is asked. None: completions."""
    system: str | None = None
    """A system message: for a server in chat mode, or for a model in this process that has a chat template."""
    observations: Literal["inline", "user", "tool"] | None = None
    """Where that server gets what tools and environments answered, in chat mode: in the assistant's own turn (inline), or in
    turns of this role. None: inline."""
    template: str | None = None
    """What that server is sent in completions mode: a text with {prompt} in it and {steps} at its end."""
    tokenizer: str | None = None
    """Folder with the tokenizer of that server's model, for completions mode: prompts then go as token ids, and the ids that
    the server writes are kept (vLLM, and llama.cpp's of whole answers), as adaptivestep and edu-prm need."""
    step_stop: Literal["reported", "cut", "assumed"] | None = None
    """How one learns that a step, not the answer, ended there. reported: the server says so (vLLM, SGLang, llama.cpp). cut: the
    text is cut here, which is exact with any server but pays for the tokens thrown away. assumed: it always was a step.
    None: reported."""
    neutral: bool | None = None
    """Whether that server is sent fields beside OpenAI's own, which switch off its own sampling defaults. None: True."""
    logprobs: bool | None = None
    """Whether that server is asked for the log-probabilities of its tokens. None: True."""
    api_key_env: str | None = None
    """Environment variable that holds the server's key."""
    timeout: float | None = None
    """Seconds that one request to that server may take, before it is tried again. None: 900."""
    retries: int | None = None
    """How often a request that failed is tried again. None: 5."""
    concurrency: int | None = None
    """Requests that may be under way at once, of each server. None: 32."""
    device: str | None = None
    """cpu, cuda, cuda:1, … None: CUDA where there is one."""
    step_end: StepEnd = "auto"
    """What the policy puts after each step. auto: a line break for the arithmetic policies, a blank line otherwise. none: a
    server's text is not cut into steps."""

    @property
    def named(self) -> bool:
        """Whether there is a policy at all; an address alone is one of the kind http."""
        return self.policy is not None or self.url is not None

    @property
    def typed(self) -> str | None:
        """The policy as the user named it; of a server its model's name, if that was given, for an address names no model."""
        options = self.resolved()
        return options.model if options.url is not None else options.policy and without_place(options.policy)

    def resolved(self, otherwise: str | None = None) -> PolicyOptions:
        """The same with an address as policy, or an address alone, spelled out: the policy http at that url.

        `otherwise` is the policy where neither is given.
        """
        if self.policy is not None and _ADDRESS.match(self.policy):
            return replace(self, policy=serving("policy", "url"), url=self.policy)
        if self.policy is None:
            return replace(self, policy=otherwise if self.url is None else serving("policy", "url"))
        return self

    def flags(self) -> list[str]:
        """The command line words that name the same policy, for commands that read traces, whose steps have their ends."""
        asked = [(name, value) for name, value in given(self).items() if name != "step_end"]
        return [word for name, value in asked for word in ("--" + name.replace("_", "-"), str(value))]


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    """Keep the likeliest tokens that together have this probability."""
    top_k: int = 0
    """Keep so many of the likeliest tokens; 0 keeps all."""
    max_tokens: int = 512
    """A completion is cut here, and counted as cut."""

    def params(self, seed: int) -> SamplingParams:
        return SamplingParams(self.temperature, self.top_p, self.top_k, self.max_tokens, seed=seed)


@dataclass(frozen=True)
class Drawing:
    """How rollouts are drawn as far as the user said so; the rest is what the part that draws them has for its own."""

    options: SamplingOptions
    seed: int

    def over(self, default: object) -> SamplingParams:
        """The part's own parameters with the user's wishes put over them."""
        own = default if isinstance(default, SamplingParams) else SamplingParams()
        return replace(own, **given(self.options), seed=self.seed)


@dataclass(frozen=True)
class StoreOptions:
    """Where completions are kept, so that none is ever paid for twice."""

    store: str | None = None
    """Folder of the rollout store; none: keep nothing. None: a folder `rollouts` beside the run directory for label, and
    for what servers write in search, and nothing for sample."""

    def folder(self, beside: Path | None = None) -> Path | None:
        """The folder, if there is a store; by default the one `beside` a run directory, if that is given."""
        if self.store is None:
            return None if beside is None else beside.absolute().parent / "rollouts"
        if not self.store.strip():
            raise ValueError("--store needs the name of a folder, or none for no store")
        return None if self.store.lower() == "none" else Path(self.store)


@dataclass(frozen=True)
class JudgeOptions:
    """Who says how good each step is."""

    judge: str | None = None
    """A folder that `footfall train` or `footfall calibrate` wrote, or a name of `footfall list labeller` or `footfall list
    reward`, or the address of a `footfall serve`, or a judge in a file of yours, mine.py:MyJudge. Settings may follow,
    mine.py:MyJudge,threshold=0.3."""
    set: tuple[str, ...] = ()
    """Further settings of the judge, e.g. --set rollouts=16 estimate=hard."""
    base: str | None = None
    """The model that an adapter is put on: a GGUF file, folder or hub id. None: the one that it names."""

    def __post_init__(self) -> None:
        """Settings after the name are as good as those of --set, and so is the base."""
        if self.base is not None:
            object.__setattr__(self, "set", (*self.set, f"base={self.base}"))
            object.__setattr__(self, "base", None)
        if self.judge is not None and not Path(self.judge).exists():
            name, *own = name_and_settings(self.judge)
            object.__setattr__(self, "judge", name)
            object.__setattr__(self, "set", (*own, *self.set))


def given(options: Any) -> dict[str, Any]:
    """What the user asked for: the fields of an option group that differ from its defaults."""
    values = asdict(options)
    return {f.name: values[f.name] for f in fields(options) if values[f.name] != f.default}


def together(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked for in two places, as by flags and by settings; of one thing these may not say two."""
    for name in first.keys() & then.keys():
        if first[name] != then[name]:
            said = [each.typed if isinstance(each, PolicyOptions) else each for each in (first[name], then[name])]
            raise ValueError(f"{name} is said twice, as {said[0]} and as {said[1]}: leave one of them out")
    return {**first, **then}


_IN_STORES = ("out", "data", "problems", "against", "meta")
_ON_THIS_MACHINE = ("to", "store", "scores", "ledger", "merge", "picture", "config", "accelerate")
"""Options that name files and folders, those that may lie in an object store, and those that may not."""


def check_options(config: Any) -> None:
    """Refuse what an option cannot be, whichever command has it: a number, a place, what workers there are not are to be."""
    values = asdict(config)
    finite_fields(values)
    flat = {
        **values,
        **{name: value for group in values.values() if isinstance(group, dict) for name, value in group.items()},
    }
    for name in (*_IN_STORES, *_ON_THIS_MACHINE):
        if isinstance(place := flat.get(name), str | Path):
            check_place(f"--{name}", place, name in _IN_STORES)
    if isinstance(workers := getattr(config, "ray", None), RayOptions):
        workers.check()


def name_and_settings(words: str) -> list[str]:
    """`NAME,KEY=VALUE,KEY=VALUE` taken apart."""
    return [word.strip() for word in re.split(r",(?=\s*[\w-]+=)", words)]


def policy_in_words(words: str) -> PolicyOptions:
    """A policy in one word of the command line: `embedded`, or `http,url=http://localhost:8001/v1,model=NAME,mode=chat`.

    What is not said of any policy is a setting of this one, and stays with its name; a server's has none.
    """
    name, *pairs = _PAIRS.split(words)
    known = {f.name for f in fields(PolicyOptions)} - {"policy", "step_end"}
    found: dict[str, Any] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if (
            key not in known
            and value
            and name.strip() not in ("", serving("policy", "url"))
            and not _ADDRESS.match(name.strip())
        ):
            name = f"{name},{pair}"
            continue
        if key not in known or not value:
            raise ValueError(
                f"{words!r}: {pair!r} says nothing of a policy; it takes {', '.join(sorted(known))}, as KEY=VALUE"
            )
        found[key] = _read(words, key, value)
    in_range(found, words)
    return PolicyOptions(policy=name.strip() or None, **found).resolved()


def _read(words: str, key: str, value: str) -> float | int | bool | str:
    if key in _SWITCHES:
        return _TRUTHS.get(value.lower(), value)
    return _number(words, key, value) if key in _NUMBERS else value


def _number(words: str, key: str, value: str) -> float | int:
    try:
        number: float | int = _NUMBERS[key](value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        kind = "whole" if _NUMBERS[key] is int else "finite"
        raise ValueError(f"{words!r}: {key} is a {kind} number, not {value!r}")
    return number


def without_place(words: str) -> str:
    """A policy in one word, or NAME=POLICY, without what only says where it is: `http,model=NAME,mode=chat`."""
    name, *pairs = _PAIRS.split(_ADDRESS.sub(serving("policy", "url"), words))
    return ",".join([name, *(pair for pair in pairs if pair.partition("=")[0].strip().replace("-", "_") not in WHERE)])
