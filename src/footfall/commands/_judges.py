"""Judges by name or folder, and judging in a run: what label, score, search and bench share.

A calibrated judge is a folder with the map, and with the judge that it belongs to:

    calibration.json   kind, numbers, the judge's name by content, and `of`: the judge as --judge takes it, its settings

A judge that is a folder is named relative to this one, so that both can be moved together, and found from anywhere.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from footfall.commands._options import Drawing, JudgeOptions, PolicyOptions, SamplingOptions, given
from footfall.commands._output import note
from footfall.commands._parts import StandIns, check_drawing, make_part, placed, with_settings
from footfall.damaged import json_of
from footfall.judging import Traits, as_trained, chunks_of, traits
from footfall.lab.recipe import catalogue
from footfall.policy.protocol import Policy
from footfall.registry import declared, load, no_file_part, no_hub_id, parts, safety_switches, serving, stored, systems
from footfall.reward.calibrated import Calibrated, Calibration
from footfall.reward.config import CONFIG_FILE, FOOTFALL, read_json
from footfall.store import Run, Task, write_json
from footfall.terminal import one_line
from footfall.types import Judge, Judged, Judgement, Trajectory, content_key, problem_rest

CALIBRATION = "calibration.json"
_DEMO = Path("runs/demo")
_DEEPEST = 8
"""Calibrations of calibrations."""


def judge_name(options: JudgeOptions) -> str:
    """The judge that the options name; without a name, the PRM that the demo trained here."""
    if options.judge is not None:
        return options.judge
    if prm_folder(_DEMO) is None:
        raise ValueError(
            "no judge is named, and there is none of the demo here: run `footfall demo` to train one, or pass "
            "--judge with a folder that `footfall train` wrote or a name of `footfall list labeller`"
        )
    return str(_DEMO)


def open_judge(options: JudgeOptions, asked: Mapping[str, Any], offered: Mapping[str, Any]) -> Judge:
    """The judge of these options, with its own settings beside what is asked for; see `make_judge`."""
    return make_judge(judge_name(options), with_settings(asked, options.set), offered)


def make_judge(
    name: str,
    asked: Mapping[str, Any],
    offered: Mapping[str, Any],
    opening: Callable[[PolicyOptions], Policy] | None = None,
    above: tuple[Path, ...] = (),
) -> Judge:
    """A judge from a PRM's folder (or the run that trained it, or one of `footfall calibrate`), a published PRM's folder or hub
    id, a registered name, or a published system's; or the address of one that is served.

    What is asked for must fit the judge; what is offered is used if it does. `above` are the folders that it is within.
    """
    if name.startswith(("http://", "https://")):
        there: Judge = make_part("reward", serving("reward", "url"), {**asked, "url": name}, offered, opening)
        return there
    kinds = {part: kind for kind in ("labeller", "reward") for part in parts(kind)}
    if name not in kinds and (why := no_file_part("labeller", name)):
        raise ValueError(why)
    if name not in kinds and (why := no_hub_id(name)):
        raise ValueError(why)
    known = {} if "/" in name or name in kinds or Path(name).exists() else systems("labeller")
    folder = prm_folder(Path(name))
    within = inside(Path(name))
    if name in kinds:
        made = _registered(kinds[name], name, asked, offered, opening, above)
    elif name in known:
        made = _registered("labeller", known[name].part, {**known[name].settings, **asked}, offered, opening, above)
    elif within is not None:
        here = Path(name).resolve()
        if here in above or len(above) == _DEEPEST:
            what = "the judge of itself" if here in above else f"within {_DEEPEST} calibrations"
            raise ValueError(f"{Path(name) / CALIBRATION} is {what}; calibrate another judge by `footfall calibrate`")
        own = make_judge(within.judge, {**within.settings, **asked}, offered, opening, (*above, here))
        made = Calibrated(own, Calibration.read(Path(name) / CALIBRATION))
    elif isinstance(opening, StandIns) and (folder is not None or (_is_checkpoint(name) and not _a_run(name))):
        made = opening.rehearsal.reader(name)
    elif folder is not None:
        # What was trained of a published family is opened as that is: in two passes, against a reference, or as a critic.
        what = "prm" if read_json(folder).get("family", FOOTFALL) == FOOTFALL else "checkpoint"
        made = make_part("reward", serving("reward", what), {**asked, "path": str(folder)}, offered, opening)
    elif why := _a_run(name):
        raise ValueError(why)
    elif _is_checkpoint(name):
        made = make_part("reward", serving("reward", "checkpoint"), {**asked, "path": name}, offered, opening)
    elif Path(name).suffix == ".safetensors" and Path(name).is_file():
        raise ValueError(f"{name} is a file with weights; name its folder, {Path(name).parent}")
    elif Path(name).exists():
        raise ValueError(
            f"{name} is no PRM: it has neither a {CONFIG_FILE} (`footfall train` writes it) nor a {CALIBRATION} (`footfall "
            "calibrate` does) nor a config.json"
        )
    else:
        raise ValueError(_not_a_judge(name) or _unknown(name, [*kinds, *known]))
    return made


def _registered(
    kind: str,
    name: str,
    asked: Mapping[str, Any],
    offered: Mapping[str, Any],
    opening: Callable[[PolicyOptions], Policy] | None,
    above: tuple[Path, ...],
) -> Judge:
    """The part; one whose labels are those of other judges is made over them, and what it does not take is the last one's."""
    said = declared(kind, name)
    own = dict(asked)
    if said.judges:
        takes = inspect.signature(load(kind, name)).parameters
        if any(not isinstance(asked.get(role), str) for role in said.judges):
            usual = " and ".join(f"--set {role}=NAME or FOLDER, a judge" for role in said.judges)
            raise ValueError(f"{name} needs {said.missing or usual}")
        own = {key: value for key, value in asked.items() if key in takes}
        rest = {key: value for key, value in asked.items() if key not in own}
        for role in said.judges:
            own[role] = make_judge(own[role], rest if role == said.judges[-1] else {}, offered, opening, above)
    made: Judge = make_part(kind, name, own, offered, opening)
    return made


def _not_a_judge(name: str) -> str | None:
    """What is called so and how it is run, if there is something and it judges no given traces."""
    entry = next((entry for entry in catalogue() if entry.recipe.name == name), None)
    known = {kind: parts(kind)[name] for kind in ("tree-labeller", "searcher") if name in parts(kind)}
    told = [note for kind in known if (note := declared(kind, name).note)]
    if "tree-labeller" in known:
        module = known["tree-labeller"].module
        told.append(f"it grows traces of its own, `footfall label --method {name} --trees N`, {module}")
    if "searcher" in known:
        told.append(f"its search is `footfall search --method {name}`")
    if entry is None:
        return f"{name!r} labels no given traces: {'; '.join(told)}" if told else None
    where = "; ".join([f"it is of the stage {entry.recipe.stage}", *told])
    return f"{name!r} is a published system that labels no given traces: {where}; `footfall lab run {name}` measures it"


def _unknown(name: str, known: Sequence[str]) -> str:
    from footfall.reward.family import families

    called = {
        hub.rpartition("/")[2].lower(): hub for each in families().values() for hub in each.published if "/" in hub
    }
    if (hub := called.get(Path(name).name.lower())) is not None:
        return f"no judge and no folder is called {name!r}; as a published PRM it is {hub!r}"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    return f"no judge and no folder is called {name!r}; {hint}"


def _a_run(name: str) -> str | None:
    """What to say of the folder of a run that has made no judge, which has a config.json as a checkpoint has."""
    try:
        of: object = json_of(Path(name) / "config.json")
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(of, dict) or not {"command", "config", "versions"} <= of.keys():
        return None
    told = {
        "label": f"train one on its labels: footfall train --data {Path(name) / 'judged.parquet'}",
        "train": "it has no model yet, and the same command line goes on",
    }
    hint = told.get(str(of["command"]), "`footfall train` and `footfall calibrate` write judges")
    return f"{name} is a run of `footfall {one_line(str(of['command']), 40)}` and no judge; {hint}"


def _is_checkpoint(name: str) -> bool:
    """A folder as hubs hold it, or a hub id (owner/name)."""
    folder = Path(name)
    if folder.exists():
        return any((folder / file).is_file() for file in ("config.json", "adapter_config.json"))
    return name.count("/") == 1 and name[0] not in "./~" and not name.endswith("/")


def asks(policy: PolicyOptions, sampling: SamplingOptions, seed: int) -> dict[str, Any]:
    """What the user wants the judge to use: a policy to complete prefixes with, and how."""
    if policy.step_end != "auto":
        raise ValueError(
            "--step-end is what a policy puts after the steps that it writes in sample and search; traces that are read have "
            "their own, and --segment says how a text is cut"
        )
    check_drawing(policy, sampling)
    writer, found = placed(policy)
    if policy.named:
        found["policy"] = writer
    elif other := list(given(writer)):
        flag = "--" + other[0].replace("_", "-")
        raise ValueError(
            f"{flag} says how a policy is asked, and none is named: pass --policy or --url, or leave it out"
        )
    return {**found, "params": Drawing(sampling, seed)} if given(sampling) else found


def offers(policy: PolicyOptions, sampling: SamplingOptions, seed: int) -> dict[str, Any]:
    """What any judge may use: the seed, the way to draw rollouts, the device."""
    found: dict[str, Any] = {"params": Drawing(sampling, seed), "seed": seed}
    return found if policy.device is None else {**found, "device": policy.device}


def prm_folder(path: Path) -> Path | None:
    """The PRM at `path`: the folder itself, or the model in a run of `train` or `demo`."""
    places = (path, path / "model", path / "prm" / "model")
    return next((place for place in places if (place / CONFIG_FILE).is_file()), None)


class Inside(NamedTuple):
    """The judge that a calibration is for, as `--judge` and `--set` name it."""

    judge: str
    settings: Mapping[str, Any]


def write_calibrated(folder: Path, made: Calibration, judge: str, settings: Mapping[str, Any]) -> None:
    """Make `folder` a judge. A safety switch stays with the command that it was said to."""
    kept = {key: value for key, value in settings.items() if key not in safety_switches()}
    named = any(judge in parts(kind) for kind in ("labeller", "reward"))
    of = {"name": judge} if named or not Path(judge).exists() else {"folder": os.path.relpath(judge, folder)}
    write_json(folder / CALIBRATION, {**asdict(made), "of": {**of, "settings": kept}})


def inside(folder: Path) -> Inside | None:
    """The judge that is calibrated in `folder`; `None` if that holds no calibrated judge."""
    path = folder / CALIBRATION
    if not path.is_file():
        return None
    try:
        of: dict[str, Any] = json_of(path)["of"]
        name = str(of["name"]) if "name" in of else os.path.normpath(folder / of["folder"])
        settings: dict[str, Any] = {**of["settings"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} does not say which judge it is for ({error!r}); write it by `footfall calibrate`"
        ) from error
    return Inside(name, stored(settings, path))


def judging(judge: Judge) -> Task:
    """What a run does with traces that are to be judged, in this process or in a worker."""

    def work(part: Sequence[Trajectory]) -> list[Judgement]:
        said = judge.judge(part)
        listed = isinstance(said, list | tuple) and len(said) == len(part)
        if not listed or not all(isinstance(each, Judgement) for each in said):
            raise ValueError(f"the judge {judge.name!r} must return a list with one Judgement for each trace, in order")
        for judgement, t in zip(said, part, strict=True):
            if judgement.trajectory_id != t.id:
                raise ValueError(
                    f"the judge {judge.name!r} gave a judgement of {judgement.trajectory_id!r} for trace {t.id!r}"
                )
        return [without_seconds(judgement.check(t)) for judgement, t in zip(said, part, strict=True)]

    return Task(work, "judgement", (judge,))


@dataclass(frozen=True)
class JudgeInRun:
    """A judge whose judgements are kept in a run, chunk by chunk, and read from there the next time."""

    run: Run
    inner: Judge
    chunk: int
    stored: bool = False
    """Whether rollouts of one chunk are found in a store by another: then chunks with the same problem keep their order."""

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def traits(self) -> Traits:
        return traits(self.inner)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return list(self.kept(trajectories))

    def kept(self, trajectories: Sequence[Trajectory]) -> Sequence[Judgement]:
        """The same for any number of traces: of many no more is in memory than is being read."""
        known, task = traits(self.inner).separators, judging(self.inner)
        if len(known) == 1 and (other := sum(as_trained(known, [t])[0].separator != t.separator for t in trajectories)):
            note(f"{other} traces are read with {known[0]!r} after each step, as the judge was trained")
        read = (as_trained(known, [trajectory])[0] for trajectory in trajectories)
        return self.run.kept(
            "judgements", read, len(trajectories), task, key=_judged_key, chunk=chunks_of(self.inner, trajectories, self.chunk),
            made_by=self.name,
            shared=(lambda t: t.prefix(0).key) if self.stored else None,
        )  # fmt: skip


def without_seconds(judgement: Judgement) -> Judgement:
    """Times stand in the run's log alone, so that two runs can be compared byte by byte."""
    return replace(judgement, cost=replace(judgement.cost, seconds=0.0))


def _judged_key(trajectory: Trajectory) -> str:
    """All that a judgement may depend on, the reference answer included."""
    t = trajectory
    more = [problem_rest(t.problem), repr(t.meta) if t.meta else "", _drawn(t)]
    return content_key(t.id, t.key, t.problem.answer, t.answer, t.correct, *(more if any(more) else []))


def _drawn(trajectory: Trajectory) -> str:
    """Names the tokens that a trace was sampled with, and their log-probabilities; empty if it is text."""
    if trajectory.tokenizer is None:
        return ""
    digest = hashlib.sha256(trajectory.tokenizer.encode())
    for step in trajectory.steps:
        for kind, numbers in (("q", step.token_ids), ("q", step.observation_ids), ("d", step.logprobs)):
            digest.update(f"{None if numbers is None else len(numbers)},".encode())
            digest.update(array(kind, numbers or ()).tobytes())
    return digest.hexdigest()[:32]


def learned_by_heart(judge: object, rows: Sequence[Judged]) -> str | None:
    """What to say where a judge is measured on the very labels that it was trained on."""
    trained_on = traits(judge).trained_on
    if trained_on is None:
        return None
    from footfall.train.data import data_key  # such a judge has loaded torch already

    if data_key(rows) != trained_on:
        return None
    return "the judge was trained on these labels: on problems that it has not seen it may be far worse"
