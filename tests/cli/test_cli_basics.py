"""The command line before any work is done: help, names, errors, exit codes, and what must not be imported."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from footfall import cli
from footfall.registry import KINDS, parts
from footfall.worlds import ArithmeticPolicy

HEAVY = {"torch", "transformers", "pyarrow", "tyro", "numpy", "rich"}
WITH_CONFIG = [name for name, command in cli.COMMANDS.items() if command.config and name != "demo"]
TRACE = '{"problem": "2 + 3 * 4 = ?", "steps": ["3 * 4 = 12", "2 + 12 = 15"], "id": "mine"}\n'


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def modules_after(*lines: str) -> set[str]:
    """Top level modules that a new interpreter has loaded after these lines."""
    script = "\n".join([*lines, "import sys; sys.stderr.write(' '.join(m for m in sys.modules if '.' not in m))"])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["list"], ["list", "policy", "--json"], ["--version"]])
def test_help_and_list_load_nothing_heavy(words: list[str]) -> None:
    assert not HEAVY & modules_after("from footfall.cli import main", f"assert main({words!r}) == 0")


def test_configurations_are_importable_without_torch() -> None:
    wanted = [cli.COMMANDS[name] for name in WITH_CONFIG]
    assert "torch" not in modules_after(*(f"from {command.module} import {command.config}" for command in wanted))


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and command.summary in shown for name, command in cli.COMMANDS.items())


@pytest.mark.parametrize("name", WITH_CONFIG)
def test_the_help_of_a_command_explains_it_and_shows_a_call(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"    footfall {name}" in shown or f"| footfall {name}" in shown
    flags = ["--json"] if name == "info" else ["--seed", "--out", "--fresh", "--json"]
    assert all(flag in shown for flag in flags)


def test_list_shows_every_part_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(part.name in shown and part.summary in shown for kind in KINDS for part in parts(kind).values())


def test_list_of_one_kind_takes_the_plural_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "policies", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["policy"]
    assert "embedded" in found["policy"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["smaple"], "no command is called 'smaple'; did you mean 'sample'?"),
        (["list", "polcy"], "did you mean 'policy'?"),
        (["sample", "--problems", "world:arithmetic:4", "--policy", "embeded"], "did you mean 'embedded'?"),
        (["sample", "--problems", "world:arithmetik:4"], "did you mean 'arithmetic'?"),
        (["sample", "--problems", "world:arithmetic:many"], "world:NAME:N"),
        (["sample", "--problems", "none.jsonl"], "none.jsonl"),
        (["sample", "--problems", "world:arithmetic:4", "--policy", "./none"], "no such folder"),
        (["sample", "--problems", "world:arithmetic:4", "--policy", "http"], "needs --url"),
        (["sample", "--problems", "world:arithmetic:4", "--url", "http://x"], "'embedded' takes no --url"),
        (["score", "traces.jsonl"], "run `footfall demo`"),
        (["score", "traces.jsonl", "--judge", "alwys-right"], "did you mean 'always-right'?"),
        (["score", "traces.jsonl", "--judge", "."], "is no PRM"),
        (["score", "traces.jsonl", "--judge", "random", "--set", "sead=1"], "takes no --sead; did you mean seed?"),
        (["score", "traces.jsonl", "--judge", "random", "--policy", "embedded"], "takes no --policy"),
        (["score", "traces.jsonl", "--judge", "random", "--to", "traces.jsonl"], "pass --fresh"),
        (["score", "traces.jsonl", "--judge", "random", "--to", "x.csv"], ".parquet is expected"),
        (["label", "--data", "traces.jsonl"], "needs --policy"),
        (["label", "--data", "traces.jsonl", "--method", "random", "--rollouts", "4"], "takes no --rollouts"),
        (["label", "--data", "traces.jsonl", "--method", "random", "--temperature", "0"], "takes no --temperature"),
        (["search", "--problems", "traces.jsonl", "--method", "best-of-m"], "did you mean 'best-of-n'?"),
        (["search", "--problems", "traces.jsonl"], "run `footfall demo`"),
        (["bench", "process-bench"], "did you mean 'processbench'?"),
        (["bench", "processbench", "--judge", "random"], "needs --data"),
        (["bench", "processbench", "--data", "world:arithmetic:4", "--judge", "random"], "footfall bench steps"),
        (["bench", "steps", "--data", "x", "--threshold", "0.5", "--tune-on", "x"], "pass one of them"),
        (["train", "--data", "traces.jsonl"], "`footfall label` makes them"),
        (["train", "--data", "traces.jsonl", "--objective", "soft-bse"], "did you mean 'soft-bce'?"),
        (["info", "none"], "there is no such file or folder"),
    ],
)
def test_a_mistake_is_one_line_with_the_way_out(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("traces.jsonl").write_text(TRACE, encoding="utf-8")
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("footfall: ") and shown.err.count("\n") == 1
    assert said in shown.err
    assert not Path("runs").exists(), "a command that could not begin leaves no run directory"


def test_a_wrong_flag_is_refused_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sample", "--problms", "x"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "--problms" in shown.err


def test_malformed_input_names_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.jsonl").write_text(TRACE + '{"problem": "1 + 1 = ?", "steps": 3}\n', encoding="utf-8")
    assert cli.main(["score", "bad.jsonl", "--judge", "random"]) == 2
    shown = capsys.readouterr()
    assert 'bad.jsonl, line 2, field "steps"' in shown.err and shown.out == ""


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOOTFALL_DEBUG", "1")
    with pytest.raises(KeyError, match="no searcher is called"):
        cli.main(["search", "--problems", "world:arithmetic:4", "--method", "nobody"])


def test_an_own_trace_from_standard_input_is_scored(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TRACE.encode())))
    assert cli.main(["score", "--judge", "always-wrong", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == [{"id": "mine", "values": [0.0, 0.0], "aggregate": 0.0, "first_error": 0}]
    assert (found["judge"], found["aggregate"], found["threshold"]) == ("always-wrong", "min", 0.5)


def test_the_table_shows_steps_values_and_the_first_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("traces.jsonl").write_text(TRACE, encoding="utf-8")
    words = ["score", "traces.jsonl", "--judge", "length", "--set", "scale=11", "--threshold", "0.51"]
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["1", "0.524", "3", "*", "4", "=", "12"]
    assert lines[2].split()[:2] == ["2", "0.500"] and "<- first below 0.51" in lines[2]
    assert lines[3].split() == ["min", "0.500"]


@pytest.mark.parametrize("name", ["scored.jsonl", "scored.parquet"])
def test_scores_go_to_a_file_that_can_be_read_again(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("traces.jsonl").write_text(TRACE, encoding="utf-8")
    words = ["score", "traces.jsonl", "--judge", "random", "--seed", "3", "--to", name]
    assert cli.main(words) == 0
    assert cli.main(words) == 2
    assert cli.main([*words, "--fresh"]) == 0
    capsys.readouterr()
    assert cli.main(["info", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["steps"], found["judged"]) == (1, 2, 1)
    assert found["judges"] == ["random(seed=3)"]


def test_control_c_says_how_to_go_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ArithmeticPolicy, "sample", interrupted)
    words = ["sample", "--problems", "world:arithmetic:4", "--policy", "scripted-arithmetic"]
    assert cli.main(words) == 130
    assert f"goes on: footfall {' '.join(words)}" in capsys.readouterr().err


def test_info_knows_formats_and_problems(capsys: pytest.CaptureFixture[str]) -> None:
    Path("shepherd.jsonl").write_text(
        json.dumps({"input": "1 + 1? Step 1: 2 ки", "label": "1 + 1? Step 1: 2 +", "task": "GSM8K"}) + "\n", "utf-8"
    )
    Path("problems.jsonl").write_text('{"question": "1 + 1 = ?", "answer": "2"}\n' * 2, "utf-8")
    found = []
    for name in ("shepherd.jsonl", "problems.jsonl"):
        assert cli.main(["info", name, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        found.append((told["format"], told["rows"]))
    assert found == [("math-shepherd", 1), ("problems", 1)]


def test_settings_may_be_given_together_or_one_by_one() -> None:
    from footfall.cli import _gathered

    together = ["data.jsonl", "--seed", "3", "--set", "a=1", "b=2"]
    assert _gathered(["data.jsonl", "--set", "a=1", "--seed", "3", "--set", "b=2"]) == together
    assert _gathered(["--set", "a=1", "b=2", "--seed", "3", "data.jsonl"]) == [
        "--seed",
        "3",
        "data.jsonl",
        "--set",
        "a=1",
        "b=2",
    ]
    assert _gathered(["--set=a=-1", "--set", "url=http://x?y=z"]) == ["--set", "a=-1", "url=http://x?y=z"]
    assert _gathered(["steps", "--option", "votes=false"]) == ["steps", "--option", "votes=false"]
