"""`footfall serve`: a judge behind HTTP, for commands on other machines and processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from footfall.commands._judges import asks, judge_name, offers, open_judge
from footfall.commands._options import JudgeOptions, PolicyOptions, SamplingOptions
from footfall.commands._output import note


@dataclass(frozen=True)
class ServeConfig:
    """Serve a judge: other commands name its address as theirs.

    On the machine that has the GPU:
        footfall serve --judge Qwen/Qwen2.5-Math-PRM-7B --port 8100

    And wherever its values are wanted; several addresses with commas between them share the work:
        footfall rl --judge http://localhost:8100 --credit pure …
        footfall search --judge http://localhost:8100,http://localhost:8101 …

    Any other program POSTs {"traces": [{"problem": …, "steps": […]}]} as JSON to /v1/judge and gets a value for each step.

    A judge that asks a policy takes --policy and --url here. Ctrl-C ends it.
    """

    host: str = "127.0.0.1"
    """The address to listen at; one that others can reach needs --key-env."""
    port: int = 8100
    """0 is any free port, which is told."""
    key_env: str | None = None
    """The environment variable with a key that requests must have; who asks names it by --set api_key_env=VARIABLE."""
    seed: int = 0
    """Of everything random in the judge."""
    config: Path | None = None
    """A file with options of this command, TOML or JSON; the command line wins over it."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)


def main(config: ServeConfig) -> int:
    """Load the judge and answer until interrupted."""
    from footfall.policy.http_client import LOOPBACK, key_from
    from footfall.reward.judge_server import JudgeServer

    judge_name(config.judge)
    if config.key_env is None and config.host not in LOOPBACK:
        raise ValueError(
            f"--host {config.host} can be reached by others: name a variable that holds a key by --key-env, or listen at "
            "127.0.0.1"
        )
    if not 0 <= config.port < 1 << 16:
        raise ValueError(f"--port {config.port} is none; 0 to 65535")
    key = None if config.key_env is None else key_from(config.key_env)
    asked = asks(config.policy, config.sampling, config.seed)
    judge = open_judge(config.judge, asked, offers(config.policy, config.sampling, config.seed))
    with JudgeServer(judge, config.host, config.port, key) as server:
        host = f"[{config.host}]" if ":" in config.host else config.host
        note(f"{judge.name} is served at http://{host}:{server.server_port}; Ctrl-C ends it")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            note("ended")
    return 0
