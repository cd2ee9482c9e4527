"""The plans in scripts/plans: each command is one that its program takes, reads what is made before, and makes what it says."""

from __future__ import annotations

import importlib
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.commands import COMMANDS
from footfall.formats import read_parquet
from scripts import kinds, loop, loop_arms, real_lines, rl_arms
from scripts.loop_data import label_counts
from scripts.loop_files import search_file
from scripts.plan import PLANS, plan_of
from scripts.plan_file import Plan, Stage
from scripts.plan_state import Progress

PARSERS: dict[str, Callable[[list[str]], Namespace]] = {
    "scripts.loop": loop.arguments, "scripts.kinds": kinds.arguments, "scripts.real_lines": real_lines.arguments,
    "scripts.rl_arms": rl_arms.arguments, "scripts.loop_arms": loop_arms.arguments,
}  # fmt: skip
VALUES = {"model": "model.gguf", "small": "small.gguf", "data": "DATA", "out": "OUT"}
NAMES = sorted(file.stem for file in PLANS.glob("*.toml"))
OWN = ("labels", "votes")
"""Plans of the loop that end with lines of the ledger."""


def parsed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Namespace | None:
    """What the stage's program makes of its words; None of a shell's."""
    program, *words = stage.command(VALUES)
    if program == "python" and words[:2] != ["-m", "footfall"]:
        assert words[0] == "-m"
        return PARSERS[words[1]](words[2:])
    if program == "python":
        words = words[2:]
        module = importlib.import_module(COMMANDS[words[0]].module)
        configs: list[Any] = []

        def keep(config: Any) -> int:
            configs.append(config)
            return 0

        monkeypatch.setattr(module, "main", keep)
        assert cli.main(words) == 0, stage.name
        return Namespace(config=configs[0])
    assert program == "sh"
    return None


def made_by(script: str, args: Namespace) -> set[str]:
    """The small files that a stage of the loop, or of kinds, leaves for those after it."""
    if args.stage in ("sample", "label"):
        begin = "sample" if args.stage == "sample" else f"label-{args.method}"
        return {f"{begin}-{name}.parquet" for name in args.sets}
    told, adapter = vars(args).get("told"), ("adapter_model.safetensors", "*")
    return {
        "prepare": {"prepare.json", "evaluation.json", "problems/*.jsonl", "rows/*.parquet"},
        "thin": {f"thin/sample-{name}.parquet" for name in args.sets},
        "train": {
            *(f"prm-{args.name}/{file}" for file in ("facts.json", *(adapter if script == "scripts.loop" else ()))),
            *(f"scores-{args.name}-{on}.jsonl.gz" for on in (args.on if vars(args).get("then_score") else ())),
        },
        "score": {f"scores-{args.name}-{on}.jsonl.gz" for on in args.on},
        "search": {
            search_file(Path(), args.name, name, method, bool(args.truth)).name
            for name in args.sets for method in args.methods
        },
        "few": {f"few/sample-{name}.parquet" for name in args.sets},
        "evaluate": {f"evaluate{'' if script == 'scripts.loop' else '-kinds'}.{end}" for end in ("json", "md")},
        "chains": {"rows/chains.parquet", "chains.json"}, "store": {"kinds/*"},
        "verify": {f"chains-{args.name}-processbench.jsonl.gz", *([f"prm-{args.name}/facts.json"] if told else [])},
    }[args.stage]  # fmt: skip


def read_by(args: Namespace) -> Iterator[str]:
    """What such a stage reads of earlier ones."""
    few = "few/" if vars(args).get("few") else ""
    pools = [f"{few}sample-{name}.parquet" for name in vars(args).get("on", ()) if name in ("gsm8k-test", "math-500")]
    if args.stage in ("sample", "search"):
        yield from (f"problems/{name}.jsonl" for name in args.sets)
    if args.stage in ("label", "thin", "few"):
        yield from (f"sample-{name}.parquet" for name in args.sets)
    if args.stage in ("score", "search") or (args.stage == "verify" and not args.told):
        yield f"prm-{args.name}/facts.json"
    if args.stage == "score":
        yield from pools
    if args.stage in ("train", "chains"):
        yield "evaluation.json"
        for row in (each.partition(":")[0] for each in args.rows):
            labels = [f"label-{m}-*" for m in row.replace("er-prm", "monte-carlo").split("+")]
            by_policy = {"outcome": ["sample-gsm8k-train.parquet", "sample-math-train.parquet"]}
            by_policy |= dict.fromkeys(("er-prm", "monte-carlo", "omegaprm", "monte-carlo+critic"), labels)
            yield from by_policy.get(row, [f"rows/{row}.parquet"])


def before(plan: Plan, stage: Stage) -> list[Stage]:
    return [each for each in plan.needing([stage.name]) if each is not stage]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_one_that_its_program_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(name)
    for stage in plan.stages:
        args = parsed(stage, monkeypatch)
        if args is None or "stage" not in args:
            continue
        assert {*stage.makes} == made_by(stage.words[2], args), stage.name
        there = [path for each in before(plan, stage) for path in each.makes]
        for wanted in read_by(args):
            assert any(fnmatchcase(wanted, path) or fnmatchcase(path, wanted) for path in there), (stage.name, wanted)
        if args.stage == "train" and args.rows == ["distilled:700"]:
            assert args.against == ["processbench", "prmbench"]
        if args.stage in ("sample", "label", "search", "train", "score", "verify", "chains"):
            assert stage.gpu == "whole" or stage.gib > 0, stage.name


def test_what_the_real_lines_read_has_two_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = plan_of("labels").stages
    made = {path for stage in stages for path in stage.makes}
    compared = parsed(next(stage for stage in stages if stage.name == "arms"), monkeypatch)
    assert compared is not None and {f"prm-{arm}-{k}/facts.json" for arm in compared.arms for k in (0, 1)} <= made
    for arms in real_lines.FIRST_ERRORS.values():
        assert {f"scores-{arm}-{seed}-processbench.jsonl.gz" for arm in arms.values() for seed in (0, 1)} <= made
    for choices in real_lines.CHOICES.values():
        for arm, _ in choices.values():
            assert {f"scores-{arm}-{seed}-{on}.jsonl.gz" for seed in (0, 1) for on in real_lines.SETS} <= made
    for on in real_lines.SETS:
        assert {f"search-vote-0-{on}-{method}.json" for method in real_lines.SEARCHES.values()} <= made
        assert f"scores-vote-0-{on}.jsonl.gz" in made, "votes at a search's tokens need its PRM's scores"
    assert {s.name for s in plan_of("labels").needing(["real-lines"])} >= {"label-critic-math-train", "pool-gsm8k-test"}


def test_the_real_lines_of_kinds_are_of_what_their_plan_trains_with_two_seeds() -> None:
    made = {path for stage in plan_of("kinds").stages for path in stage.makes}
    arms = {arm for each in real_lines.KINDS.values() for arm in each.values()}
    assert {f"scores-{arm}-{seed}-processbench.jsonl.gz" for arm in arms for seed in (0, 1)} <= made


def test_the_lines_of_a_plan_are_those_that_its_results_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of all problems is not replaced by one of the few that labels are compared on."""
    lines = {name: parsed(next(s for s in plan_of(name).stages if s.name == "real-lines"), monkeypatch) for name in OWN}
    labels, votes = lines["labels"], lines["votes"]
    assert labels is not None and votes is not None and labels.to == votes.to == Path("OUT/real.json")
    assert {*labels.only} == {*real_lines.FIRST_ERRORS, *real_lines.CHOICES, *real_lines.SEARCHES} and not labels.prm
    assert votes.prm == ["vote-0", "vote-1"]
    made = {path for stage in plan_of("votes").stages for path in stage.makes}
    assert {f"scores-{prm}-{on}.jsonl.gz" for prm in votes.prm for on in real_lines.SETS} <= made


def test_what_is_compared_was_cut_from_the_pools_at_the_same_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """`score --few` of more problems or candidates than the stage few leaves would silently be of fewer."""
    args = [each for stage in plan_of("kinds").stages if (each := parsed(stage, monkeypatch)) and "stage" in each]
    assert len({(each.problems, each.first) for each in args if each.stage == "few" or vars(each).get("few")}) == 1


def test_kinds_that_are_compared_learn_from_the_same_rows_and_none_is_left_out_for_its_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chat template is longer than a plain one: where solutions reach the limit, one kind would drop more of them."""
    stages = [each for each in plan_of("kinds").stages if each.words[2] == "scripts.kinds" and each.words[3] == "train"]
    args = {each.name: each for stage in stages if (each := parsed(stage, monkeypatch)) is not None}
    for name, own in args.items():
        if own.beside in args:
            assert (own.rows, own.max_length) == (args[own.beside].rows, args[own.beside].max_length), name
    sampled = next(s for s in plan_of("samples").stages if s.name == "sample-math-train")
    writer = parsed(sampled, monkeypatch)
    outcomes = [each for each in args.values() if each.rows == ["outcome@omegaprm"]]
    assert writer is not None and len(outcomes) == 4
    assert min(each.max_length for each in outcomes) >= writer.max_tokens + 256, "a problem and a template come on top"


def test_searches_and_the_candidates_that_they_are_held_against_are_of_the_same_problems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = [each for stage in plan_of("labels").stages if (each := parsed(stage, monkeypatch)) and "stage" in each]
    pools = [each for each in args if each.stage == "sample" and not {*each.sets} & {"gsm8k-train", "math-train"}]
    searched = [each.problems for each in args if each.stage == "search"]
    assert len(pools) == 2 and all(each <= pool.problems for each in searched for pool in pools) and searched


def test_nothing_is_made_by_two_stages() -> None:
    for name in NAMES:
        made = [path for stage in plan_of(name).stages for path in stage.makes]
        assert len({*made}) == len(made), name


def test_seeds_of_an_arm_differ_in_their_seed_alone() -> None:
    stages = {stage.name: stage for name in ("labels", "votes", "kinds", "rl") for stage in plan_of(name).stages}
    pairs = [(s, stages[f"{n[:-2]}-1"]) for n, s in stages.items() if n.endswith("-0") and f"{n[:-2]}-1" in stages]
    assert len(pairs) > 40
    for one, two in pairs:
        assert [re.sub(r"(^|-)0(?=$|/|\.json)", r"\g<1>1", word) for word in one.words] == [*two.words], one.name
        seeds = [s.words[s.words.index("--seed") + 1] for s in (one, two) if "--seed" in s.words]
        assert seeds in ([], ["0", "1"]) and (seeds or not any(w in one.words for w in ("train", "rl"))), one.name


def test_arms_of_reinforcement_learning_have_a_hundred_updates_and_one_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {s.name: parsed(s, monkeypatch) for s in plan_of("rl").stages if s.words[2:4] == ("footfall", "rl")}
    assert {name.split("-")[1] for name in found} == {"outcome", "sum", "pure", "prof", "pav"} and len(found) == 10
    for args in found.values():
        assert args is not None and args.config.settings.updates >= 100 and args.config.settings.measured == 600
        assert "\\boxed{}" in args.config.system and args.config.model == "small.gguf"
        judged = args.config.judge
        assert args.config.credit == "grpo" or "base=model.gguf" in str(judged)


def test_the_labels_that_come_along_are_done_stages_of_the_plan() -> None:
    """A changed command would leave them there for nothing, and pay for the labels again."""
    plan, folder = plan_of("labels"), PLANS.parent.parent / "examples" / "coder_1_5b_labels"
    progress = Progress(plan, plan.stages, folder, {"model": "models/qwen2.5-coder-1.5b.gguf"})
    labels = [stage for stage in plan.stages if stage.name.startswith("label-")]
    assert len(labels) == 6 and all(progress.is_recorded(s) and not progress.missing(s) for s in labels)
    told = (folder / "README.md").read_text(encoding="utf-8")
    for method in ("monte-carlo", "omegaprm", "critic"):
        parts = [read_parquet(folder / f"label-{method}-{on}-train.parquet", "judged") for on in ("gsm8k", "math")]
        counts = [label_counts(part) for part in parts]
        line = next(line for line in told.splitlines() if line.startswith(f"| `label-{method}-"))
        for key in ("traces", "steps", "generated tokens"):
            assert f"| {', '.join(f'{each[key]:,}' for each in counts)} |" in line, (method, key)
    first: dict[str, dict[str, int | None]] = {}
    for name, at in (("monte-carlo", 1e-9), ("critic", 0.5)):
        rows = [
            r for on in ("gsm8k", "math") for r in read_parquet(folder / f"label-{name}-{on}-train.parquet", "judged")
        ]
        first[name] = {row.trajectory.id: row.judgement.first_below(at) for row in rows}
    agreed = sum(k is not None and first["monte-carlo"][i] == k for i, k in first["critic"].items())
    assert f"in {agreed} of the 480" in told
