"""Options that several commands share. Each group is one dataclass; its fields are flags without a prefix."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from footfall.policy.protocol import SamplingParams

__all__ = ["JudgeOptions", "PolicyOptions", "RunOptions", "SamplingOptions", "StepEnd", "given"]

StepEnd = Literal["auto", "line", "blank-line"]


@dataclass(frozen=True)
class RunOptions:
    """The run: its folder, its seed, what it prints. Stopped at any moment, the same command line goes on."""

    seed: int = 0
    """Of everything random: the same seed gives the same result."""
    out: Path | None = None
    """Run directory. None: runs/COMMAND-HASH, the hash of these settings, so that the same command line finds its run
    again."""
    fresh: bool = False
    """Throw away what an earlier run left in that directory."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""


@dataclass(frozen=True)
class PolicyOptions:
    """Who writes steps."""

    policy: str | None = None
    """embedded (ships with the package), smollm2, scripted-arithmetic, http (with --url), a folder or a hub id;
    `footfall list policy` has them all."""
    url: str | None = None
    """Of an OpenAI-compatible server (vLLM, SGLang, llama.cpp), e.g. http://localhost:8000/v1."""
    model: str | None = None
    """The model's name on that server; needed where it serves several."""
    mode: Literal["completions", "chat"] | None = None
    """How that server is asked. None: completions."""
    api_key_env: str | None = None
    """Environment variable that holds the server's key."""
    device: str | None = None
    """cpu, cuda, cuda:1, … None: CUDA where there is one."""
    step_end: StepEnd = "auto"
    """What the policy puts after each step. auto: a line break for the arithmetic policies, a blank line otherwise."""

    @property
    def named(self) -> bool:
        """Whether there is a policy at all; an address alone is one of the kind http."""
        return self.policy is not None or self.url is not None

    def flags(self) -> list[str]:
        """The command line words that name the same policy."""
        asked = [(name, value) for name, value in given(self).items()]
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
class JudgeOptions:
    """Who says how good each step is."""

    judge: str | None = None
    """A folder that `footfall train` wrote, or a name of `footfall list labeller` or `footfall list reward`."""
    set: tuple[str, ...] = ()
    """Further settings of the judge, e.g. --set rollouts=16 estimate=hard."""


def given(options: Any) -> dict[str, Any]:
    """What the user asked for: the fields of an option group that differ from its defaults."""
    values = asdict(options)
    return {f.name: values[f.name] for f in fields(options) if values[f.name] != f.default}
