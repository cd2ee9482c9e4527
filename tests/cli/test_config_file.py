"""`--config FILE`: options from TOML, JSON or an earlier run; the command line wins, and what is unsafe it cannot say."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.commands import COMMANDS

SEARCH = """
problems = "world:arithmetic:3"
policy = "scripted-arithmetic"
method = "best-of-n"
judge = "exact-value"
n = 4
budget-seconds = 60
max_tokens = 64
"""
WORDS = ("--problems", "world:arithmetic:3", "--policy", "scripted-arithmetic", "--method", "best-of-n", "--n", "4",
         "--judge", "exact-value", "--budget-seconds", "60", "--max-tokens", "64")  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert cli.main([*words, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(
    capsys: pytest.CaptureFixture[str],
    text: str,
    command: str = "search",
    name: str = "my.toml",
    words: Sequence[str] = (),
) -> str:
    Path(name).write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert cli.main([command, *words, "--config", name]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_file_says_what_the_command_line_would_have(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my.toml").write_text(SEARCH, encoding="utf-8")
    by_file, by_words = told(capsys, "search", "--config", "my.toml"), told(capsys, "search", *WORDS)
    assert by_file["file"] == by_words["file"], "it is the very same run"
    rows = {"search": {"n": 8}, "n": 2, "train": {"epochs": 1}, "method": "majority", "out": "x"}
    rows |= {"problems": "world:arithmetic:3", "policy": "scripted-arithmetic"}
    Path("my.json").write_text(json.dumps(rows), encoding="utf-8")
    found = told(capsys, "search", "--config=my.json")
    assert found["n"] == 8 and Path(found["file"]).parent == Path("x")


def test_an_option_is_called_in_a_file_as_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    """`--as`; the settings of an earlier run call it by its field, which Python does not let be `as`."""
    for name in ("as", "as_family"):
        said = refused(capsys, f'data = "none.jsonl"\n{name} = "trl"\n', "train")
        assert "none.jsonl" in said and "no option" not in said


def test_the_command_line_wins_and_settings_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "sample", "--problems", "world:arithmetic:2", "--policy", "scripted-arithmetic", "--out", "s")
    held = {"data": "none.jsonl", "judge": "monte-carlo", "policy": "scripted-arithmetic", "temperature": 1, "show": 0}
    Path("my.json").write_text(json.dumps({**held, "set": {"rollouts": 2, "estimate": "hard"}}), encoding="utf-8")
    words = ("score", "s/trajectories.parquet", "--config", "my.json")
    by_file, by_words = told(capsys, *words)["judge"], told(capsys, *words, "--set", "rollouts=3")["judge"]
    plain = ("score", words[1], "--judge", "monte-carlo", "--policy", "scripted-arithmetic", "--set", "estimate=hard")
    assert by_file == told(capsys, *plain, "rollouts=2")["judge"] != by_words
    assert by_words == told(capsys, *plain, "rollouts=3")["judge"]


@pytest.mark.long
def test_every_command_takes_a_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    groups = {name: command.config for name, command in COMMANDS.items() if isinstance(command.config, dict)}
    commands = [[name] for name in COMMANDS if name not in groups] + [[g, i] for g, own in groups.items() for i in own]
    for words in commands:
        assert cli.main([*words, "--help"]) == 0
        assert "--config" in capsys.readouterr().out, words
    lab = '[lab.run]\nnames = ["symbolic-mc"]\nquick = true\nseeds = 1\n[lab.ledger]\nnames = ["pav"]\n'
    Path("my.toml").write_text(f'kind = "world"\njson = true\n{lab}', encoding="utf-8")
    assert cli.main(["list", "--config", "my.toml"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["world"]
    assert cli.main(["list", "policy", "--config", "my.toml"]) == 0, "the command line wins"
    assert list(json.loads(capsys.readouterr().out)) == ["policy"]
    assert "`footfall lab run` has no option 'kind'" in refused(capsys, 'kind = "world"', "lab", words=["run"])
    Path("lab.toml").write_text(lab, encoding="utf-8")
    assert cli.main(["lab", "run", "--config", "lab.toml"]) == 0
    assert "symbolic-mc" in capsys.readouterr().out and Path("runs/lab/symbolic-mc-quick/result.json").is_file()
    assert cli.main(["lab", "ledger", "--config", "lab.toml"]) == 0
    assert "pav" in (shown := capsys.readouterr().out) and "math-shepherd" not in shown
    Path("shell.json").write_text('{"shell": "fish"}', encoding="utf-8")
    assert cli.main(["completion", "--config", "shell.json"]) == 0
    assert "complete -c footfall" in capsys.readouterr().out
    assert "`footfall list` has no option 'kid'; did you mean kind?" in refused(capsys, "kid = 1", "list")


@pytest.mark.parametrize("name", ["my.yaml", "my.yml", "my.conf"])
def test_another_kind_of_file_is_told_what_is_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "n: 4\nmethod: majority\n", name=name)
    assert "options are read from TOML (a name that ends in .toml) or JSON" in said


def test_an_earlier_run_is_its_own_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    first = told(capsys, "search", *WORDS)
    folder = Path(first["file"]).parent
    for source in (folder, folder / "config.json"):
        assert told(capsys, "search", "--config", str(source))["file"] == first["file"]
    assert told(capsys, "search", "--config", str(folder), "--n", "2")["n"] == 2
    assert cli.main(["label", "--config", str(folder)]) == 2
    assert "is of a run of `footfall search`, not of `footfall label`" in capsys.readouterr().err


def test_a_required_option_may_stand_in_the_file_and_is_missed_if_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my.toml").write_text('policy = "scripted-arithmetic"\nn = 1\nout = "s"\n', encoding="utf-8")
    assert cli.main(["sample", "--config", "my.toml"]) == 2
    assert "--problems" in capsys.readouterr().err
    assert told(capsys, "sample", "--config", "my.toml", "--problems", "world:arithmetic:2")["traces"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metod = 'majority'", "`footfall search` has no option 'metod'; did you mean method?"),
        ("n = 'many'", "n of my.toml is a whole number, not 'many'"),
        ("n = ", "my.toml is no TOML: "),
        ("set = 3", "settings are a table"),
        ("api_key_env = 'HOME'", "api_key_env is not taken from a file; say --api-key-env on the command line"),
        ("fresh = true", "fresh is not taken from a file"),
        ("policy = 'http,url=http://localhost:1/v1,api-key-env=HOME'", "api-key-env is not taken from a file"),
        ("helper = ['a=http,url=http://localhost:1,api_key_env=HOME']", "api_key_env is not taken from a file"),
        ("set = ['allow_unsandboxed=true']", "allow_unsandboxed is not taken from a file"),
        ("[set]\nallow-unsandboxed = true", "allow-unsandboxed is not taken from a file"),
        ("judge = 'execution,allow_unsandboxed=true'", "allow_unsandboxed is not taken from a file"),
        ("problems = 'world:arithmetic:1'\nray = '127.0.0.1:9'", "ray is not taken from a file; say --ray on the"),
        ("problems = 'world:arithmetic:1'\nray = 'ray://127.0.0.1:9'", "ray is not taken from a file"),
        ("set = ['--api-key-env=HOME']", "settings begin with a name, not with '-'"),
        ("[set]\n'--fresh' = 1", "settings begin with a name, not with '-'"),
        ("temperature = 1" + "0" * 400, "temperature of my.toml is a finite number"),
        (
            "seed = 1" + "0" * 400,
            "--seed 1000000000000000000000000000000000000000: it must be 0 or more, and less than 2^63",
        ),
        ("judge = " + "[" * 60 + "]" * 60, "my.toml is nested more than 50 levels deep"),
        ("problems = 1979-05-27", "1979-05-27"),
        ("problems = 'world:arithmetic:1'\njudge = 'mine.py:Mine'", "only if the command line itself names it"),
    ],
)
def test_what_a_file_cannot_say(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text("open('ran', 'w').close()", encoding="utf-8")
    assert message in refused(capsys, text)
    assert not Path("ran").exists()


def test_a_file_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "holds no table of options" in refused(capsys, "[1]", name="my.json")
    assert "is no JSON" in refused(capsys, "[" * 100_000, name="my.json")
    assert "is larger than" in refused(capsys, "x" * (1 << 21), name="my.json")
    run = '{"command": "search", "config": [], "versions": {}}'
    assert "holds no table of options" in refused(capsys, run, name="my.json")
    Path("run").mkdir()
    os.mkfifo("run/config.json")
    assert cli.main(["search", "--config", "run"]) == 2 and "is no plain file" in capsys.readouterr().err
    assert cli.main(["search", "--config", "none.toml"]) == 2 and "none.toml: no such file" in capsys.readouterr().err


def test_field_names_may_be_a_table_and_the_command_line_wins(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.jsonl").write_text('{"q": "1?", "cot": ["a", "b"], "draft": ["c"]}\n', encoding="utf-8")
    Path("my.toml").write_text('judge = "random"\n[map]\nproblem = "q"\nsteps = "cot"\n', encoding="utf-8")
    words = ("score", "rows.jsonl", "--config", "my.toml")
    assert len(told(capsys, *words)["rows"][0]["values"]) == 2
    assert len(told(capsys, *words, "--map", "problem=q", "steps=draft")["rows"][0]["values"]) == 1


def test_config_without_a_file_is_no_config_json_of_this_folder(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.json").write_text('{"judge": "random"}', encoding="utf-8")
    assert cli.main(["score", "rows.jsonl", "--config"]) == 2
    assert "--config" in capsys.readouterr().err
