"""Parts made from what the user asked for: an option that a part does not take is an error that says so."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from footfall.commands._options import Drawing, PolicyOptions, SamplingOptions, given, name_and_settings, together
from footfall.commands._values import check_values
from footfall.drive.rollout_store import Counts, RolloutStore, StoredPolicy
from footfall.judging import refuse_idle
from footfall.label.counting import CountingPolicy, Rehearsal
from footfall.policy.protocol import Policy
from footfall.registry import NOTHING, declared, load, named_files, no_file_part, no_hub_id, parts, serving
from footfall.scale import RayWorkers
from footfall.types import Cost, content_key

_NAMED_BY = {
    "policy": "--policy, who completes the prefixes (a name of `footfall list policy`, a folder or .gguf file), or --url; "
    "for rl --judge-policy",
    "url": "--url, the address of the server",
    "data": "--data, the file or folder to measure on",
    "path": "its folder: give that to --judge",
    "base": "--base, the model that it is put on or held against",
}
"""How a user supplies what a part cannot do without."""
_FLAGS = (
    "policy", "prover", "rollouts", "until", "half_width", "n", "seed", "device", "data", "format", "temperature", "top_p",
    "top_k", "max_tokens", "base",
)  # fmt: skip
"""What flags say; all else is a setting."""
_OTHERWISE = {"estimate": "--values", "aggregation": "--aggregate"}
"""And what flags of another name say."""
_COMPLETIONS_A_SHARD = 1024
"""Of a model in this process."""
_REQUESTS_A_SHARD = 128
"""Of a server: so many answers are at most lost when the process is killed. More would keep a server busier."""


class TakesNo(ValueError):
    """A setting that a part does not have."""


def make_part(
    kind: str,
    name: str,
    asked: Mapping[str, Any],
    offered: Mapping[str, Any] | None = None,
    opening: Callable[[PolicyOptions], Policy] | None = None,
) -> Any:
    """The registered part with all that was asked for, and what is offered as far as it takes it.

    A value that is a `PolicyOptions` is opened here (by `opening`, else by `open_policy`), after the options have been
    found to fit; one that is a `Drawing` is put over the part's own sampling parameters.
    """
    factory = load(kind, name)
    takes = inspect.signature(factory).parameters
    asked = _spelled_out(asked, takes)
    check_names(kind, name, asked)
    asked = check_values(f"the {kind} {name!r}", factory, asked)
    arguments = {**{k: v for k, v in (offered or {}).items() if k in takes}, **asked}
    for option, parameter in takes.items():
        if parameter.default is parameter.empty and option not in arguments:
            raise ValueError(f"the {kind} {name!r} needs {_NAMED_BY.get(option, _flag(option, kind))}")
    arguments = {k: v.over(takes[k].default) if isinstance(v, Drawing) else v for k, v in arguments.items()}
    to_policy = opening or open_policy
    made = factory(**{k: to_policy(v) if isinstance(v, PolicyOptions) else v for k, v in arguments.items()})
    refuse_idle(made, asked, f"the {kind} {name!r}", partial(_flag, kind=kind))
    if name in named_files() and not isinstance(getattr(made, "name", None), str):
        raise ValueError(f"{name} has no `name`: give it one, a text; what it says is stored under it")
    return made


def check_names(kind: str, name: str, asked: Mapping[str, Any]) -> None:
    """Refuse a setting that the part does not take."""
    takes = inspect.signature(load(kind, name)).parameters
    for option in asked:
        if option not in takes:
            near = difflib.get_close_matches(option, takes, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it takes: {', '.join(takes) or 'nothing'}"
            by_address = isinstance(said := asked[option], PolicyOptions) and said.policy is None
            raise TakesNo(f"the {kind} {name!r} takes no {'--url' if by_address else _flag(option, kind)}; {hint}")


def _spelled_out(asked: Mapping[str, Any], takes: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part without sampling parameters as such may take a temperature or a limit by itself, as critics do."""
    drawing = asked.get("params")
    if not isinstance(drawing, Drawing) or "params" in takes:
        return asked
    return together(given(drawing.options), {k: v for k, v in asked.items() if k != "params"})


def _flag(option: str, kind: str) -> str:
    """How a user says it: by a flag where there is one, else as a setting."""
    if option == "params":
        return "--temperature, --top-p, --top-k or --max-tokens"
    if option in _OTHERWISE:
        return _OTHERWISE[option]
    if kind == "policy" or (option in _FLAGS and (option != "n" or kind == "searcher")):
        return "--" + option.replace("_", "-")
    if kind in ("credit", "filter"):
        return f"{option}=…"
    return f"{'--option' if kind == 'benchmark' else '--set'} {option}=…"


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """`name=value` pairs; a value that is JSON is read as JSON, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"--set takes name=value, not {pair!r}")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except (ValueError, RecursionError):  # no JSON, or more digits or brackets than can be read
            found[name.replace("-", "_")] = value
    return found


def with_settings(flags: Mapping[str, Any], pairs: Iterable[str]) -> dict[str, Any]:
    """What flags and settings ask for together; of settings of one name the last counts."""
    return together(flags, settings(pairs))


def open_policy(
    options: PolicyOptions,
    store: Path | None = None,
    charge: Literal["once", "always"] = "always",
    afresh: bool = False,
    edition: str = "",
) -> Policy:
    """The policy of a registered name, of a folder or GGUF file, or of a hub id (which has a slash).

    With `store`, over that folder.

    A server's completions lie in a folder of their own for each address: two servers may give one name to two models.
    With an `edition`, replies to the questions of a judge are taken from the store only if they were written for it.
    """
    options = options.resolved()
    policy = _open(options)
    if store is None:
        return policy
    place, chunk = store, _COMPLETIONS_A_SHARD
    if options.url is not None:
        first = options.url.partition(",")[0].rstrip("/")  # of a pool: it may grow
        place, chunk = store / f"server-{content_key(first)[:16]}", _REQUESTS_A_SHARD
    if edition:
        return _AskedAnew(policy, place, charge, chunk, afresh, edition)
    return StoredPolicy(policy, place, charge, chunk, afresh)


class _AskedAnew(StoredPolicy):
    """Rollouts come from the store; a judge's questions are asked again, for a reply that could not be read is kept there."""

    def __init__(
        self, policy: Policy, folder: Path, charge: Literal["once", "always"], chunk: int, afresh: bool, edition: str
    ) -> None:
        super().__init__(policy, folder, charge, chunk, afresh)
        self._replies = RolloutStore(folder, edition)

    def around(self, policy: Policy, form: str) -> StoredPolicy:
        other = super().around(policy, form)
        other.store = self._replies
        return other


@dataclass
class Opener:
    """Opens policies over one rollout store (if any), and says afterwards what was found there."""

    store: Path | None
    edition: str = ""
    """If there is one, judges ask again what was not asked for it."""
    servers_only: bool = False
    """Keep what servers write. A model in this process then keeps its cache of prefixes, which a store makes it forget."""
    opened: list[StoredPolicy] = field(default_factory=list)

    def __call__(self, options: PolicyOptions) -> Policy:
        here = self.servers_only and options.resolved().url is None
        policy = open_policy(options, None if here else self.store, afresh=True, edition=self.edition)
        if isinstance(policy, StoredPolicy):
            self.opened.append(policy)
        return policy

    def counts(self) -> list[Counts]:
        """Of each policy that was opened over the store."""
        return [policy.counts for policy in self.opened]

    def found(self, workers: RayWorkers | None = None) -> dict[str, Any] | None:
        """Hits, misses and what the hits had cost when they were written, by this process or by workers; `None` without a
        store."""
        if self.store is None or (self.servers_only and not self.opened):
            return None
        counts = [*self.counts(), *(each for own in (workers.counts if workers else {}).values() for each in own)]
        saved = Cost.total(count.saved for count in counts)
        return {"folder": str(self.store), "hits": sum(c.hits for c in counts), "misses": sum(c.misses for c in counts),
                "saved": {k: v for k, v in saved.to_dict().items() if v and k != "seconds"}}  # fmt: skip


@dataclass(frozen=True)
class StandIns:
    """Opens policies that only count: no server is asked, and no weights are loaded."""

    rehearsal: Rehearsal

    def __call__(self, options: PolicyOptions) -> CountingPolicy:
        options = options.resolved()
        name = name_and_settings(options.policy or "")[0]
        part = parts("policy").get(name)
        if options.url is not None or (part is not None and declared("policy", name).weightless):
            return self.rehearsal.policy(open_policy(options))  # made of its settings alone
        if part is None and not Path(name).exists() and ("/" not in name or name[0] in "./~"):
            if "/" in name:
                raise FileNotFoundError(f"{name}: there is no such folder or file to load a policy from")
            load("policy", name)
        return self.rehearsal.policy(tokenizer=_tokenizer(name))


class _Vocabulary:
    """A tokenizer of a folder, as far as counting and cutting need it; transformers' own would load torch."""

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(file))

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False, **_: object) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def get_vocab(self) -> dict[str, int]:
        known: dict[str, int] = self._tokenizer.get_vocab()
        return known

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())


def _tokenizer(policy: str) -> _Vocabulary | None:
    """That of a model's folder, or of a model that ships with the package; `None` where there is no such file."""
    for folder in (Path(policy), Path(__file__).parents[1] / "models" / policy):
        if (folder / "tokenizer.json").is_file():
            return _Vocabulary(folder / "tokenizer.json")
    return None


def found_in_words(store: dict[str, Any] | None) -> str:
    """What the rollout store had, in words."""
    if store is None:
        return ""
    saved = ", ".join(f"{count:,.0f} {name.replace('_', ' ')}" for name, count in store["saved"].items())
    return f"{store['hits']} rollouts found, {store['misses']} sampled" + (f"; saved {saved}" if saved else "")


def check_drawing(options: PolicyOptions, sampling: SamplingOptions) -> None:
    """An error for a way to draw tokens that the policy does not follow: one with a script has a distribution of its own."""
    name = name_and_settings(options.resolved().policy or "")[0]
    asked = {key: value for key, value in given(sampling).items() if key != "max_tokens"}
    if asked.get("temperature") == 0:
        del asked["temperature"]
    if asked and name in parts("policy") and not declared("policy", name).tempered:
        flag = "--" + next(iter(asked)).replace("_", "-")
        raise ValueError(
            f"the policy {name!r} takes no {flag}: it draws from a distribution of its own; --temperature 0 is greedy"
        )


def placed(options: PolicyOptions) -> tuple[PolicyOptions, dict[str, Any]]:
    """The policy, and `--device` as what a judge is asked for where the policy has no use for it, as a server has none."""
    name = name_and_settings(options.resolved().policy or "")[0]
    known = parts("policy")
    if options.device is None or (name and name not in known):  # a model's folder or hub id
        return options, {}
    if name and "device" in inspect.signature(load("policy", name)).parameters:
        return options, {}
    return replace(options, device=None), {"device": options.device}


def _open(options: PolicyOptions) -> Policy:
    if options.policy is None:
        raise ValueError(f"name {_NAMED_BY['policy']}")
    name, *own = name_and_settings(options.policy)
    flags = {k: v for k, v in given(options).items() if k not in ("policy", "step_end", "timeout")}
    asked = with_settings(flags, own)
    if options.timeout is not None:
        asked |= {"total_timeout": options.timeout, "read_timeout": options.timeout}
    if name not in parts("policy") and (Path(name).exists() or "/" in name) and not no_file_part("policy", name):
        if name[0] in "./~" and not Path(name).exists():
            raise FileNotFoundError(f"{name}: there is no such folder or file to load a policy from")
        if why := no_hub_id(name):
            raise ValueError(why)
        name, asked = serving("policy", "model"), {"path": name, **asked}
    policy: Policy = make_part("policy", name, asked)
    return policy


def separator_of(options: PolicyOptions) -> str:
    """What stands after each step that the policy writes."""
    if options.step_end == "none":
        return ""
    policy = name_and_settings(options.resolved().policy or "")[0]
    if options.step_end == "auto" and policy in parts("policy"):
        return declared("policy", policy).separator
    return "\n" if options.step_end == "line" else NOTHING.separator
