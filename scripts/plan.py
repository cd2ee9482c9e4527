"""A whole experiment as one command that does as much as fits into a time, and goes on where it was on the next machine.

    run       the stages of PLAN that are not done, some beside each other, for --seconds; --dry only says what it would do
    pack      the small files that the stages left, as an archive in pieces
    unpack    such an archive, on the next machine

    python -m scripts.plan run loop --out runs/loop --model model.gguf --data DATA --seconds 1500 --workers 3
    python -m scripts.plan pack --out runs/loop --to loop.tar.gz --mib 60
    python -m scripts.plan unpack --out runs/loop --from loop.tar.gz

PLAN is a TOML file (`scripts/plan_file.py` says what is in it) or the name of one in scripts/plans; what it wants to be given
are options of `run`. `run` ends with 0 when all is done, 75 when something is left, 1 when a stage failed, whose log it names,
and 2 when the disk is full.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts import plan_pack
from scripts.numbers import number
from scripts.plan_file import OUT, Plan, read_plan
from scripts.plan_run import Runner, forecast
from scripts.plan_state import Progress

PLANS = Path(__file__).parent / "plans"


def plan_of(named: str) -> Plan:
    """By its file, or by its name in scripts/plans."""
    own = PLANS / f"{named}.toml"
    file = Path(named)
    if not file.is_file() and not own.is_file():
        there = ", ".join(sorted(each.stem for each in PLANS.glob("*.toml")))
        raise ValueError(f"{named} is no file, and no plan in {PLANS.name}; those are {there}")
    return read_plan(file if file.is_file() else own)


def run(words: Sequence[str]) -> int:
    """Options come from the plan too, so it is read first."""
    parser = argparse.ArgumentParser(
        prog="plan run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # an option of the plan may begin one of these
    )  # fmt: skip
    parser.add_argument("plan", metavar="PLAN")
    out = parser.add_argument("--out", type=Path, help="folder of results")
    parser.add_argument(
        "--seconds", type=number(1, 10**7, float), default=1500.0, help="when they are over, all is stopped"
    )
    parser.add_argument("--workers", type=number(1, 64), default=3, help="stages beside each other")
    parser.add_argument(
        "--gib", type=number(1, 10**5, float), default=130.0,
        help="memory of the GPU that stages beside each other may take together; default: most of an H200's",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", default=[], help="stages of these names or patterns, and what they need")
    parser.add_argument("--then", nargs="+", default=[], help="others, begun where none of those of --only may be")
    parser.add_argument("--dry", action="store_true", help="say what would be done, with estimated seconds")
    others = [word for word in words if word not in ("-h", "--help")]
    known, _ = parser.parse_known_args(others or words)
    out.required = True
    plan = plan_of(known.plan)
    told = parser.add_argument_group("what this plan is given")
    for name, text in {**plan.given, **plan.places}.items():
        told.add_argument(f"--{name}", help=text.replace("%", "%%"))
    args = parser.parse_args(words)
    if args.then and not args.only:
        parser.error("--then names what comes after the stages of --only: name those too")
    first = plan.needing(args.only)
    stages = (*first, *(stage for stage in plan.needing([*args.only, *args.then]) if stage not in first))
    values = {
        name: v for name in (*plan.given, *plan.places) if (v := getattr(args, name.replace("-", "_"))) is not None
    }
    progress = Progress(plan, stages, args.out, values)
    lacking = {name for stage in progress.open() for name in stage.names} - {*values, OUT}
    if lacking and not args.dry:
        parser.error(f"its open stages need {' and '.join(f'--{name}' for name in sorted(lacking))}")
    if args.dry:
        sys.stdout.write(shown(progress, args, sorted(lacking)))
        return 0
    summary = Runner(progress, values, args.seconds, args.workers, args.gib).run()
    sys.stdout.write(f"{summary}\n")
    return summary.status


def shown(progress: Progress, args: argparse.Namespace, lacking: Sequence[str]) -> str:
    """What a run would do, in lines."""
    begins, later = forecast(progress, args.seconds, args.workers, args.gib)
    lines = [f"not given: --{name}" for name in lacking]
    for begin in begins:
        how = "measured" if progress.is_measured(begin.stage) else "guessed"
        shared = f"{begin.stage.gib:g} GiB of the GPU" if begin.stage.gib else "GPU shared"
        gpu = {"none": "no GPU", "shared": shared, "whole": "whole GPU"}[begin.stage.gpu]
        after = f", after {', '.join(begin.stage.after)}" if begin.stage.after else ""
        lines.append(f"{begin.at:7.0f} s  {begin.stage.name}: {begin.seconds:.0f} s {how}, {gpu}{after}")
    lines += [f"    later  {name}: {why}" for name, why in later.items()]
    done = len(progress.stages) - len(begins) - len(later)
    ends = max((begin.at + begin.seconds for begin in begins), default=0.0)
    lines.append(f"{done} done, {len(begins)} to begin in {min(ends, args.seconds):.0f} s, {len(later)} later")
    return "\n".join(lines) + "\n"


def pack(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="plan pack", description=plan_pack.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    parser.add_argument("--to", type=Path, required=True, help="the archive, a .tar.gz")
    parser.add_argument("--mib", type=number(0.001, 10**6, float), default=60.0, help="of a piece, at most")
    parser.add_argument("--only", nargs="+", default=[], help="files of stages of these names or patterns")
    parser.add_argument("--for", dest="plan", metavar="PLAN", help="files that the open stages of this plan need")
    parser.add_argument("--new", action="store_true", help="files that came with no archive")
    parser.add_argument(
        "--below", type=number(0.001, 10**6, float), default=math.inf, metavar="MIB", help="files of fewer MiB"
    )
    args = parser.parse_args(words)
    plan = None if args.plan is None else plan_of(args.plan)
    found = plan_pack.pack(args.out, args.to, args.mib, args.only, plan, args.new, args.below)
    for name, size in sorted(found.sizes.items(), key=lambda each: -each[1]):
        sys.stdout.write(f"{size / plan_pack.MIB:9.2f} MiB  {name}\n")
    for piece in found.pieces:
        sys.stdout.write(f"{piece.stat().st_size / plan_pack.MIB:9.2f} MiB  {piece}\n")
    return 0


def unpack(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="plan unpack", description=plan_pack.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    parser.add_argument("--from", type=Path, required=True, dest="given", help="the archive; of pieces, its name alone")
    parser.add_argument(
        "--most-mib", type=number(0.001, 10**6, float), default=2048.0, help="that it may hold unpacked"
    )
    parser.add_argument("--replace", action="store_true", help="files that are here with other bytes are replaced")
    args = parser.parse_args(words)
    changed = plan_pack.unpack(args.given, args.out, args.most_mib, args.replace)
    sys.stdout.write(f"{len(changed)} files are new or changed in {args.out}\n")
    return 0


COMMANDS = {"run": run, "pack": pack, "unpack": unpack}


def main(given: Sequence[str] | None = None) -> int:
    words = [*(sys.argv[1:] if given is None else given)]
    asked = words[:1] in (["-h"], ["--help"])
    if asked or not words or words[0] not in COMMANDS:
        sys.stderr.write(f"{__doc__}" if asked else f"plan: name one of {', '.join(COMMANDS)}\n")
        return 0 if asked else 2
    try:
        return COMMANDS[words[0]](words[1:])
    except (ValueError, OSError) as error:
        sys.stderr.write(f"plan {words[0]}: {' '.join(str(error).split())[:600]}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
