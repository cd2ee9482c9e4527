"""Plans of commands: read, run beside each other within a time, stopped and gone on with, moved to another machine."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from scripts import plan, plan_pack, plan_run
from scripts.loop_files import keep
from scripts.plan_file import Stage, read_plan
from scripts.plan_run import MORE
from scripts.plan_state import Progress, startable

HEAD = '[given]\nmodel = "who writes"\n[places]\ndata = "where"\n'
SLOW = "python -c 'import sys, time, pathlib; time.sleep(2); pathlib.Path(sys.argv[1]).touch()'"


def stage(name: str, run: str, makes: str, **more: Any) -> str:
    """An entry of a plan."""
    fields = {"name": name, "run": run, "makes": makes, "gpu": "none", "seconds": 1} | more
    lines = [f"{key} = {value if key == 'each' else json.dumps(value)}" for key, value in fields.items()]
    return "\n".join(["[[stage]]", *lines, ""])


def write(file: Path, *stages: str, head: str = HEAD) -> Path:
    file.write_text(head + "\n".join(stages), encoding="utf-8")
    return file


def touch(name: str) -> str:
    return f"sh -c 'echo x >> \"$0/{name}\"' {{out}}"


def run(file: Path, out: Path, *words: str) -> int:
    return plan.main(["run", str(file), "--out", str(out), "--seconds", "60", *words])


def progress(file: Path, out: Path, model: str = "m") -> Progress:
    found = read_plan(file)
    return Progress(found, found.stages, out, {"model": model})


def test_an_entry_is_a_stage_for_each_of_its_combinations_with_words_filled_in(tmp_path: Path) -> None:
    words = '[words]\nsay = "echo {more}"\nmore = "--x"\n'
    write(tmp_path / "one.toml", stage("first", "echo {out}", "a"), head=HEAD + words)
    each = '{seed = [0, 1], arm = ["p", "q"]}'
    file = write(
        tmp_path / "two.toml",
        stage("t-{arm}-{seed}", "{say} {rows[arm]} {seed} --model {model}", "b/{arm}", after="first", each=each, like="t-p"),
        stage("last", "echo 'a b' {data}/x", "c", after="t-*-1 first", gpu="whole", least=5),
        head='include = ["one.toml"]\n[words]\nrows.p = "P -n 3"\nrows.q = "Q"\n',
    )  # fmt: skip
    found = read_plan(file)
    assert [s.name for s in found.stages] == ["first", "t-p-0", "t-q-0", "t-p-1", "t-q-1", "last"]
    one, last = found.stages[1], found.stages[-1]
    assert (
        one.words == ("echo", "--x", "P", "-n", "3", "0", "--model", "{model}")
        and one.kind == "t-p"
        and found.stages[0].kind == "first"
    )
    assert one.command({"model": "a b", "data": "d", "out": "o"})[-1] == "a b", "a path with a blank is one word"
    assert last.words == ("echo", "a b", "{data}/x") and last.after == ("t-p-1", "t-q-1", "first") and last.least == 5
    assert [s.name for s in found.needing(["t-q-1"])] == ["first", "t-q-1"]
    with pytest.raises(ValueError, match="no stage is called 'x'"):
        found.needing(["x"])


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([stage("a", "echo {nobody}", "x")], r"stage 'a': \{nobody\} is neither a word of the plan nor given"),
        ([stage("a", "echo", "x", after="b")], "stage 'a' comes after 'b', which is no stage"),
        ([stage("a", "e", "x", after="b"), stage("b", "e", "x", after="a")], "wait for each other: a → b → a"),
        ([stage("a", "e", "x"), stage("a", "f", "x")], "two stages are called 'a'"),
        ([stage("a", "e", "../x")], "'../x' is no path inside"),
        ([stage("a", "e", "/x")], "'/x' is no path inside"),
        ([stage("a/b", "e", "x")], "'a/b' is no name for a file"),
        ([stage("a", "e", "x", gpu="half")], "gpu is one of none, shared, whole"),
        ([stage("a", "e", "x", seconds=0)], "seconds are positive"),
        ([stage("a", "e", "x", gpu="whole", gib=9)], "gib are the memory of one that shares the GPU"),
        ([stage("a", "e", "x", gpu="shared", gib=-1)], "gib are the memory of one that shares the GPU"),
        (["[[stage]]\nname = 'a'\nrun = 'e'\nmakes = 'x'\ngpu = 'none'\nseconds = nan\n"], "seconds are positive"),
        ([stage("a", " ", "x")], "stage 'a': run is no command"),
        ([stage("a", "e", ".")], "'.' is no path inside"),
        ([stage("a", "e", "x").replace("[[stage]]", "[stage]")], r"begins with \[\[stage\]\]"),
        ([stage("a", "e", "x", needs="b")], "a stage has name, .*, not needs"),
        ([stage("a", "e", "x", after=["b"])], "after is \\['b'\\], of another kind"),
        (["[[stage]]\nname = 'a'\n"], "stage 'a': it needs run"),
        (["[stages]\n"], "a plan has include, given, places, words and stage, not stages"),
        (["[words]\nx = '{y}'\ny = '{x}'\n", stage("a", "{x}", "x")], "without end"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused_by_file_and_stage(
    entries: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "p.toml", *entries)
    with pytest.raises(ValueError, match=said):
        read_plan(file)
    assert run(file, tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and str(file) in told


def test_what_is_done_is_skipped_and_what_has_other_settings_is_neither_redone_nor_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    file = write(tmp_path / "p.toml", stage("a", touch("a") + " {model}", "a"), stage("b", touch("b"), "b", after="a"))
    assert run(file, out, "--model", "/here/m") == 0 and run(file, out, "--model", "/there/m") == 0
    assert (out / "a").read_text() == (out / "b").read_text() == "x\n"
    assert run(file, out, "--model", "other") == 1
    told = capsys.readouterr().out
    assert "it was made with {'model': 'm'}, and is now asked for with {'model': 'other'}" in told
    write(file, stage("a", touch("a") + " {model} 2", "a"), stage("b", touch("b"), "b", after="a"))
    assert run(file, out, "--model", "m") == 1
    assert "and is now `sh -c" in capsys.readouterr().out and (out / "a").read_text() == "x\n"
    with pytest.raises(SystemExit):
        run(file, out)
    assert "its open stages need --model" in capsys.readouterr().err


def test_what_comes_then_is_begun_after_what_is_wanted_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One half hour does the first seeds, and of the second ones what there is time for."""
    each = "{seed = [0, 1]}"
    file = write(
        tmp_path / "p.toml", stage("rows", touch("rows"), "rows"),
        *(stage(f"{arm}-{{seed}}", touch(f"{arm}-{{seed}}"), f"{arm}-{{seed}}", each=each, after="rows") for arm in "ab"),
    )  # fmt: skip
    words = ["--dry", "--workers", "1", "--only", "*-0"]
    for then, wanted in (([], "rows a-0 b-0"), (["--then", "*-1"], "rows a-0 b-0 a-1 b-1")):
        assert run(file, tmp_path / "out", *words, *then) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[2].rstrip(":") for line in lines if " s  " in line] == wanted.split()
    with pytest.raises(SystemExit):
        run(file, tmp_path / "out", "--then", "*-1")
    assert "name those too" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["seconds", "Model", '"a b"'])
def test_a_name_that_no_command_can_have_is_not_given(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be given: a name is in small letters"):
        read_plan(write(tmp_path / "p.toml", stage("a", "e", "x"), head=f'[given]\n{name} = "x"\n'))


def test_options_of_a_plan_are_its_own_and_its_help_needs_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = '[given]\nwork = "100% of it"\n'
    file = write(tmp_path / "p.toml", stage("a", touch("a") + " {work}", "a"), head=head)
    assert run(file, tmp_path / "out", "--work", "hard") == 0
    for words in (["--help"], [str(file), "--help"]):
        with pytest.raises(SystemExit) as ended:
            plan.main(["run", *words])
        assert ended.value.code == 0
    assert "100% of it" in capsys.readouterr().out


def test_what_was_begun_with_other_settings_is_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    script = 'sh -c \'echo "$1" >> "$0/part"; if [ -e "$0/go" ]; then touch "$0/made"; else exit 3; fi\' {out} {model}'
    file = write(tmp_path / "p.toml", stage("long", script, "made", keeps="part"))
    assert run(file, out, "--model", "one/m") == 1
    (out / "go").touch()
    assert run(file, out, "--model", "two/m") == 1 and (out / "part").read_text() == "one/m\n"
    told = capsys.readouterr().out
    assert "it was begun with {'model': 'one/m'}, and is now asked for with {'model': 'two/m'}" in told
    assert run(file, out, "--model", "one/m") == 0 and (out / "part").read_text() == "one/m\none/m\n"


@pytest.mark.parametrize("own", [None, "backend:native"])
def test_torchs_memory_grows_in_segments_unless_the_user_says_otherwise(
    own: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "PYTORCH_CUDA_ALLOC_CONF"
    monkeypatch.delenv(name, raising=False)
    if own is not None:
        monkeypatch.setenv(name, own)
    file = write(tmp_path / "plan.toml", stage("a", f"sh -c 'echo ${name} > $0/a' {{out}}", "a"))
    assert run(file, tmp_path / "out") == 0
    assert (tmp_path / "out" / "a").read_text().strip() == (own or "expandable_segments:True")


def test_a_stage_that_goes_on_is_begun_again_in_the_time_that_it_was_stopped_after(tmp_path: Path) -> None:
    out = tmp_path / "out"
    entries = [stage("on", "sleep 30", "x", keeps="part", seconds=0.5), stage("anew", "sleep 30", "y")]
    file = write(tmp_path / "p.toml", *entries)
    (out / "plan").mkdir(parents=True)
    of_both = progress(file, out)
    for each in of_both.plan.stages:
        of_both.record(each, "stopped", 9.0)
    assert [of_both.fits(each, 0, 5.0) for each in of_both.plan.stages] == [True, False]
    assert of_both.estimate(of_both.plan.stages[0]) == 0.5


def test_the_last_stages_need_not_be_given_what_only_earlier_ones_need(tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = write(tmp_path / "p.toml", stage("a", touch("a") + " {model}", "a"), stage("b", touch("b"), "b", after="a"))
    assert run(file, out, "--model", "m", "--only", "a") == 0
    assert run(file, out) == 0 and (out / "b").is_file(), "at home, without the model"
    assert run(file, out, "--model", "m") == 0 and run(file, out, "--model", "other") == 1
    assert (out / "a").read_text() == (out / "b").read_text() == "x\n"


def test_files_that_are_not_here_are_made_again_only_where_something_open_needs_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    entries = [
        stage("a", touch("a"), "a"),
        stage("b", touch("b"), "b", after="a"),
        stage("c", touch("c"), "c", after="a b"),
    ]
    file = write(tmp_path / "p.toml", *entries)
    assert run(file, out) == 0
    (out / "a").unlink()
    assert progress(file, out).open() == []
    write(file, *entries, stage("d", touch("d"), "d", after="b"))
    assert [s.name for s in progress(file, out).open()] == ["d"]
    (out / "b").unlink()
    assert [s.name for s in progress(file, out).open()] == ["a", "b", "d"], "b needs a"
    assert run(file, out) == 0 and (out / "c").read_text() == "x\n"


def test_what_was_done_stays_done_when_making_it_again_is_stopped(tmp_path: Path) -> None:
    out = tmp_path / "out"
    again = 'sh -c \'if [ -e "$0/again" ]; then touch "$0/part"; sleep 50; else touch "$0/a"; fi\' {out}'
    file = write(tmp_path / "p.toml", stage("a", again, "a", keeps="part"), stage("b", touch("b"), "b", after="a"))
    assert run(file, out) == 0
    (out / "a").unlink()
    (out / "b").unlink()
    (out / "plan" / "b.json").unlink()
    (out / "again").touch()
    assert plan.main(["run", str(file), "--out", str(out), "--seconds", "3"]) == MORE, "b needs a, which is made again"
    assert progress(file, out).records["a"].end == "done" and (out / "part").is_file()
    assert [s.name for s in progress(file, out).open()] == ["a", "b"]
    packed = plan_pack.pack(out, tmp_path / "a.tar.gz", 1.0)
    assert plan_pack.unpack(packed.pieces[0], tmp_path / "other", 1.0) == ["part", "plan/a.json"], (
        "it goes on elsewhere"
    )


def test_a_stage_that_fails_is_told_with_its_log_and_independent_ones_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    entries = [
        stage("bad", "sh -c 'echo the\x1b[31m reason; exit 3'", "x"), stage("after-bad", touch("y"), "y", after="bad"),
        stage("nothing", "true", "never"), stage("no-program", "no-such-program-at-all", "z"), stage("good", touch("g"), "g"),
    ]  # fmt: skip
    file = write(tmp_path / "p.toml", *entries)
    assert run(file, out, "--workers", "1") == 1
    told = capsys.readouterr()
    assert "[31m reason" in told.err and "\x1b" not in told.err
    for line in (
        "failed   bad: it ended with status 3",
        "left     after-bad: it comes after bad",
        "failed   nothing: it ended well, and never is not there",
        "failed   no-program: no-such-program-at-all: No such file",
        "1 done now, 3 failed, 0 stopped, 1 left",
    ):
        assert line in told.out
    assert (out / "g").is_file() and not (out / "y").exists()
    entries[0] = stage("bad", touch("x"), "x")
    entries[2:4] = []
    assert run(write(file, *entries), out) == 0 and (out / "y").is_file(), "what failed is tried again"


def test_nothing_is_begun_that_will_not_end_in_time_by_what_its_kind_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    each = "{k = [0, 1, 2]}"
    slow = stage("s-{k}", f"{SLOW} {{out}}/s{{k}}", "s{k}", each=each)
    file = write(tmp_path / "p.toml", slow, stage("quick", touch("q"), "q", seconds=0.1))
    assert plan.main(["run", str(file), "--out", str(out), "--seconds", "3.9", "--workers", "1"]) == MORE
    made = [name for name in ("s0", "s1", "s2") if (out / name).exists()]
    assert made == ["s0"] and (out / "q").exists(), "a quick one that comes after it still fits"
    assert "left     s-1: about " in capsys.readouterr().out
    assert progress(file, out).estimate(read_plan(file).stages[1]) >= 2
    assert plan.main(["run", str(file), "--out", str(out), "--seconds", "5", "--dry", "--workers", "2"]) == 0
    told = capsys.readouterr().out
    assert "0 s  s-1: " in told and " s measured, no GPU" in told and "2 done, 2 to begin in " in told


def test_what_runs_when_the_time_is_up_is_ended_with_its_children_and_can_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = 'sh -c \'echo x >> "$0/begun"; sleep 60 & echo $! > "$0/child"; sleep 30\' {out}'
    late = stage("late", touch("n"), "n", seconds=100)
    file = write(tmp_path / "p.toml", stage("long", script, "never", least=0.5, seconds=100), late)
    assert plan.main(["run", str(file), "--out", str(out), "--seconds", "1"]) == MORE
    assert not (out / "n").exists()
    record = json.loads((out / "plan" / "long.json").read_text())
    assert record["end"] == "stopped" and 0.8 <= record["seconds"] < 30
    child = int((out / "child").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie", "it was ended with its stage"
    write(file, stage("long", script.replace("sleep 30", "touch $0/never"), "never", least=0.5, seconds=100))
    assert plan.main(["run", str(file), "--out", str(out), "--seconds", "9"]) == 0
    assert (out / "begun").read_text() == "x\nx\n"


def started(file: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    words = ["run", str(file), "--out", str(out), "--seconds", "600", "--workers", "2", *more]
    root = str(Path(plan.__file__).parents[1])
    path = os.pathsep.join([root, str(Path(root) / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "scripts.plan", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=file.parent,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def wait_for(file: Path, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not file.exists():
        assert time.monotonic() < until, f"{file} never came"
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_it_ends_its_stages_first(how: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = "sh -c 'echo $$ > \"$0/pid\"; sleep 50' {out}"
    process = started(write(tmp_path / "p.toml", stage("long", script, "never")), out)
    wait_for(out / "pid")
    process.send_signal(how)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == MORE and b"stopped  long" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int((out / "pid").read_text()), 0)


@pytest.mark.parametrize("fails", [2, 3], ids=["as a stage begins", "as a stage ends"])
def test_on_a_full_disk_it_ends_its_stages_and_goes_on_when_there_is_room(
    fails: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    long = 'sh -c \'if [ -e "$0/room" ]; then touch "$0/a"; else echo $$ > "$0/pid"; sleep 50; fi\' {out}'
    file = write(tmp_path / "p.toml", stage("a", long, "a"), stage("b", touch("b"), "b"))
    written: list[Path] = []

    def full(path: Path, facts: object) -> None:
        written.append(path)
        if len(written) >= fails:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        keep(path, facts)

    with monkeypatch.context() as patch:
        patch.setattr("scripts.plan_state.keep", full)
        assert run(file, out) == 2
    said = capsys.readouterr().out
    assert f"disk     {written[fails - 1]}: no space left on device; make room, and the same command goes on" in said
    assert "stopped  a" in said and "failed" not in said.replace("0 failed", "")
    if (out / "pid").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((out / "pid").read_text()), 0)
    (out / "room").touch()
    assert run(file, out) == 0


def test_a_killed_runner_leaves_a_lock_as_long_as_its_stages_live(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    script = 'sh -c \'if [ -e "$0/again" ]; then touch "$0/made"; else touch "$0/again"; sleep 50; fi\' {out}'
    file = write(tmp_path / "p.toml", stage("long", script, "made", keeps="again"))
    process = started(file, out)
    wait_for(out / "again")
    process.kill()
    process.communicate(timeout=20)
    packed = plan_pack.pack(out, tmp_path / "a.tar.gz", 1.0)
    assert plan_pack.unpack(packed.pieces[0], tmp_path / "other", 1.0) == ["again", "plan/long.json"], (
        "nobody wrote down how the stage ended, and what it keeps travels"
    )
    with monkeypatch.context() as impatient:
        impatient.setattr(plan_run, "PATIENCE", 0.2)
        assert run(file, out) == 2
    (group,) = (out / "plan" / "lock").read_text().split()
    assert f"are still going, in process groups {group}" in capsys.readouterr().err
    os.killpg(int(group), signal.SIGKILL)
    assert run(file, out) == 0


def test_a_process_that_left_the_group_of_its_stage_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '50'], start_new_session=True, close_fds=False)"
    script = f"python -c \"{code}; open(sys.argv[1], 'w').write(str(p.pid))\" {{out}}/pid"
    file = write(tmp_path / "p.toml", stage("a", script, "pid"))
    monkeypatch.setattr(plan_run, "PATIENCE", 0.2)
    assert run(file, out) == 0
    pid = int((out / "pid").read_text())
    try:
        assert run(file, out) == 2
        assert f"Its lock is held by the processes {pid}\n" in capsys.readouterr().err
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_runner_that_waited_for_another_takes_what_that_one_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    file = write(tmp_path / "p.toml", stage("a", touch("a"), "a"))
    take, tries = plan_run._take, []

    def busy_at_first(stream: Any) -> bool:
        tries.append(stream)
        if len(tries) == 1:
            assert run(file, out) == 0, "the other one, which ends now"
        return take(stream)

    monkeypatch.setattr(plan_run, "_take", busy_at_first)
    assert run(file, out) == 0 and len(tries) == 2 and (out / "a").read_text() == "x\n"


def test_stages_are_ended_and_recorded_when_nobody_reads_what_is_said(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = 'sh -c \'trap "" HUP; echo $$ > "$0/pid-{k}"; sleep 50\' {out}'
    process = started(write(tmp_path / "p.toml", stage("s-{k}", script, "never", each="{k = [0, 1]}")), out)
    for k in (0, 1):
        wait_for(out / f"pid-{k}")
    assert process.stdout is not None
    process.stdout.close()  # as a terminal that is closed
    process.send_signal(signal.SIGHUP)
    process.wait(timeout=20)
    for k in (0, 1):
        assert json.loads((out / "plan" / f"s-{k}.json").read_text())["end"] == "stopped"
        with pytest.raises(ProcessLookupError):
            os.kill(int((out / f"pid-{k}").read_text()), 0)


def shape(name: str, gpu: str, *after: str, gib: float = 0.0) -> Stage:
    return Stage(name, ("x",), ("x",), (), (), (), after, gpu, gib, 1.0, None, name, name)


def test_the_whole_gpu_is_had_alone_and_nobody_overtakes_who_waits_for_it() -> None:
    a, b, c, d = shape("a", "shared"), shape("b", "whole"), shape("c", "shared"), shape("d", "none")
    every = lambda stage, waits: True  # noqa: E731
    assert startable([a, b, c, d], set(), {}, 4, every) == [a, d]
    assert startable([b, c, d], set(), {a: 9.0}, 4, every) == [d], "c does not overtake b"
    assert startable([b, c, d], set(), {a: 9.0}, 4, lambda _, waits: waits < 9) == [c, d], (
        "b will not fit when a has ended"
    )
    assert startable([b, c, d], set(), {}, 4, every) == [b, d]
    assert startable([c, d], set(), {b: 1.0}, 4, every) == [d]
    assert startable([a, c, d], set(), {}, 2, every) == [a, c]
    assert startable([a, b, c], set(), {}, 4, lambda stage, _: stage is not b) == [a, c], (
        "who does not fit blocks nobody"
    )
    e = shape("e", "none", "a", "d")
    assert startable([e], {"a"}, {}, 4, every) == [] and startable([e], {"a", "d"}, {}, 4, every) == [e]


def test_those_that_share_the_gpu_have_its_memory_together() -> None:
    a, b, c = shape("a", "shared", gib=60), shape("b", "shared", gib=80), shape("c", "shared", gib=20)
    every = lambda stage, waits: True  # noqa: E731
    assert startable([a, c, b], set(), {}, 4, every, 130.0) == [a, c]
    assert startable([a, b, c], set(), {}, 4, every, 130.0) == [a], "c does not overtake b, which waits for memory"
    assert startable([b, c], set(), {a: 9.0}, 4, lambda _, waits: waits < 9, 130.0) == [c], (
        "b will not fit later either"
    )
    assert startable([b], set(), {}, 4, every, 40.0) == [b], "on a small GPU one that may be too large is tried alone"
    assert startable([a, b, c], set(), {}, 4, every) == [a, b, c], "without a limit memory does not count"
    assert startable([c], set(), {shape("w", "whole"): 1.0}, 4, every, 130.0) == []
