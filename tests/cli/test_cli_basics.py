"""The command line before any work is done: help, names, errors, exit codes, and what must not be imported."""

from __future__ import annotations

import errno
import importlib
import inspect
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from footfall import cli
from footfall.commands import COMMANDS
from footfall.commands._values import check_values
from footfall.registry import KINDS, load, parts
from footfall.worlds import ArithmeticPolicy

HEAVY = {"torch", "transformers", "pyarrow", "tyro", "numpy", "rich"}
WITH_CONFIG = [name for name, command in COMMANDS.items() if isinstance(command.config, str) and name != "demo"]
TRACE = '{"problem": "2 + 3 * 4 = ?", "steps": ["3 * 4 = 12", "2 + 12 = 15"], "id": "mine"}\n'
LABEL = ["label", "--data", "traces.jsonl", "--policy", "embedded", "--method"]
ESTIMATE = [*LABEL, "monte-carlo", "--estimate"]
SEARCH = ["search", "--problems", "world:arithmetic:2", "--judge", "length", "--method"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def modules_after(*lines: str) -> set[str]:
    """Top level modules that a new interpreter has loaded after these lines."""
    script = "\n".join([*lines, "import sys; sys.stderr.write(' '.join(m for m in sys.modules if '.' not in m))"])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["--version"], ["list", "policy", "--json"], ["nothing"]])
def test_where_standard_output_is_closed_nothing_is_told(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(words) == (2 if words == ["nothing"] else 0)


@pytest.mark.parametrize("words", [["--help"], ["list"], ["list", "policy", "--json"], ["--version"]])
def test_help_and_list_load_nothing_heavy(words: list[str]) -> None:
    assert not HEAVY & modules_after("from footfall.cli import main", f"assert main({words!r}) == 0")


def test_configurations_are_importable_without_torch() -> None:
    wanted = [COMMANDS[name] for name in WITH_CONFIG]
    assert "torch" not in modules_after(*(f"from {command.module} import {command.config}" for command in wanted))


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and command.summary in shown for name, command in COMMANDS.items())


@pytest.mark.parametrize("name", WITH_CONFIG)
def test_the_help_of_a_command_explains_it_and_shows_a_call(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"    footfall {name}" in shown or f"| footfall {name}" in shown
    command = COMMANDS[name]
    described = inspect.getdoc(getattr(importlib.import_module(command.module), str(command.config))) or ""
    calls = [line for line in described.splitlines() if line.startswith("    ")]
    assert calls and set(calls) <= {line.rstrip() for line in shown.splitlines()}, (
        "no call is run into the text after it"
    )
    known = {"info": ["--json"], "show": ["--json"], "serve": ["--seed"]}
    flags = known.get(name, ["--seed", "--out", "--fresh", "--json"])
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
        (["sample", "--problems", "world:arithmetic:4", "--policy", "embedded", "--url", "http://x"], "takes no --url"),
        (["score", "traces.jsonl"], "run `footfall demo`"),
        (["score", "traces.jsonl", "--judge", "alwys-right"], "did you mean 'always-right'?"),
        (["score", "traces.jsonl", "--judge", "."], "is no PRM"),
        (
            ["score", "traces.jsonl", "--judge", "random", "--set", "sead=1"],
            "takes no --set sead=…; did you mean seed?",
        ),
        (["score", "traces.jsonl", "--judge", "random", "--policy", "embedded"], "takes no --policy"),
        (["score", "traces.jsonl", "--judge", "random", "--to", "traces.jsonl"], "name another file"),
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
        (["score", "traces.jsonl", "--judge", "calibrated"], "needs --set calibration=…"),
        (
            ["score", "traces.jsonl", "--judge", "random", "--threshold", "nan"],
            "--threshold nan: a finite number is needed",
        ),
        (["label", "--data", "traces.jsonl", "--policy", "embedded", "--set", "k=4"], "takes no --set k=…"),
        (["score", "traces.jsonl", "--judge", "length", "--set", "n=4"], "takes no --set n=…"),
        (["label", "--data", "traces.jsonl", "--policy", "embedded", "--half-width", "2"], "below 0.5"),
        (
            ["label", "--data", "traces.jsonl", "--policy", "embedded", "--store", ""],
            "--store needs the name of a folder",
        ),
        (["label", "--data", "traces.jsonl", "--set", "policy=embedded"], "--policy names a policy"),
        ([*ESTIMATE, "--price-in", "-5"], "--price-in -5: a price is 0 or more"),
        ([*ESTIMATE, "--price-out", "nan"], "--price-out nan: a finite number"),
        ([*ESTIMATE, "--tokens-per-second", "nan"], "--tokens-per-second nan: a finite number"),
        ([*ESTIMATE, "--tokens-per-second", "0"], "it must be more than 0"),
        (["search", "--problems", "world:arithmetic:2", "--method", "majority", "--set", "m=2"], "takes no --set m=…"),
        (
            [*SEARCH, "beam-search", "--judge", "formal", "--set", "width=2"],
            "takes no --set width=…; it takes: nothing; and the searcher 'beam-search' takes: n, expansions",
        ),
        ([*SEARCH, "majority", "--temperature", "nan"], "--temperature nan: a finite number"),
        (
            [*SEARCH, "majority", "--helper", "a=http,url=http://x/v1,timeout=soon"],
            "timeout is a finite number, not 'soon'",
        ),
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*SEARCH, "beam-search", "--set", "expansions=abc"], "expansions of the searcher 'beam-search' is a whole number"),
        ([*SEARCH, "beam-search", "--set", "expansions=2.5"], "is a whole number, not 2.5"),
        ([*SEARCH, "beam-search", "--set", "rule=abc"], "is one of best, majority, weighted, not 'abc'"),
        ([*SEARCH, "beam-search", "--set", "distinct=1"], "is true or false, not 1"),
        ([*SEARCH, "mcts", "--set", "paths=abc"], "paths of the searcher 'mcts' is a whole number"),
        ([*SEARCH, "hybrid-vote", "--set", "share=abc"], "share of the searcher 'hybrid-vote' is a finite number"),
        ([*SEARCH, "pats", "--set", "widths=3"], "is a list, as in [8, 4, 2], of a whole number each, not 3"),
        ([*LABEL, "monte-carlo", "--set", "rollouts=abc"], "rollouts of the labeller 'monte-carlo' is a whole number"),
        ([*LABEL, "monte-carlo", "--set", "rollouts=true"], "is a whole number, not true"),
        ([*LABEL, "er-prm", "--set", "eta=abc"], "eta of the labeller 'er-prm' is a finite number, not 'abc'"),
        ([*LABEL, "er-prm", "--set", "eta=NaN"], "is a finite number, not nan"),
        ([*LABEL, "scan", "--set", "confidence=abc"], "confidence of the labeller 'scan' is a finite number"),
        ([*LABEL, "prompted", "--set", "n=abc"], "n of the labeller 'prompted' is a whole number"),
        ([*LABEL, "prompted", "--set", "prompts=3"], "prompts of the labeller 'prompted' is text, not 3"),
        (["bench", "labels", "--option", "seeds=abc"], "seeds of bench labels is a whole number, not 'abc'"),
        (["bench", "search", "--option", "seeds=abc"], "seeds of bench search is a whole number, not 'abc'"),
        (["bench", "search", "--option", "workers=abc"], "workers of bench search is a whole number, not 'abc'"),
        (["score", "traces.jsonl", "--judge", "length", "--set", "scale=abc"], "scale of the labeller 'length' is a finite"),
        (["score", "traces.jsonl", "--judge", "length", "--set", "scale=0"], "'length' is a finite number above 0, not 0"),
        (["score", "traces.jsonl", "--judge", "length", "--set", "scale=-11"], "'length' is a finite number above 0, not -11"),
        (["score", "traces.jsonl", "--judge", "length", "--set", "scale=NaN"], "'length' is a finite number, not nan"),
        (["train", "--data", "traces.jsonl", "--objective", "bce", "--set", "threshold=abc"], "of the objective 'bce' is"),
    ],
)  # fmt: skip
def test_a_setting_of_the_wrong_kind_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    test_a_mistake_is_one_line_with_the_way_out(words, said, capsys)


@pytest.mark.parametrize("kind", ["labeller", "reward", "searcher", "benchmark", "policy", "objective"])
def test_every_parts_own_defaults_fit_what_it_is_said_to_take(kind: str) -> None:
    for name in parts(kind):
        factory = load(kind, name)
        own = {key: p.default for key, p in inspect.signature(factory).parameters.items() if p.default is not p.empty}
        as_json = {key: list(value) if type(value) is tuple else value for key, value in own.items()}
        check_values(name, factory, as_json)


def test_a_type_that_only_type_checkers_know_is_not_looked_at() -> None:
    def factory(known: int, unknown: "Nowhere") -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821, UP037

    assert check_values("it", factory, {"known": 1, "unknown": "x"}) == {"known": 1, "unknown": "x"}
    with pytest.raises(ValueError, match="known of it is a whole number, not true"):
        check_values("it", factory, {"known": True})


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
    assert cli.main(words) == 0, "what this run wrote it may write again"
    assert cli.main([*words, "--threshold", "0.9", "--set", "seed=4"]) == 2, "another run may not"
    assert cli.main([*words, "--fresh"]) == 0
    capsys.readouterr()
    assert cli.main(["info", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["steps"], found["judged"]) == (1, 2, 1)
    assert found["judges"] == ["random(seed=3)"]


def test_where_no_run_may_be_kept_another_folder_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "runs")

    Path("traces.jsonl").write_text(TRACE, encoding="utf-8")
    monkeypatch.setattr(Path, "mkdir", refused)  # root may write everywhere
    assert cli.main(["score", "traces.jsonl", "--judge", "length", "--set", "scale=11"]) == 2
    assert "the run may not be written there" in (said := capsys.readouterr().err) and "by --out" in said


def test_control_c_says_how_to_go_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ArithmeticPolicy, "sample", interrupted)
    words = ["sample", "--problems", "world:arithmetic:4", "--policy", "scripted-arithmetic"]
    assert cli.main(words) == 130
    assert f"goes on: footfall {' '.join(words)}" in capsys.readouterr().err


def test_info_says_where_the_documentation_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "--json"]) == 0
    assert (Path(json.loads(capsys.readouterr().out)["docs"]) / "tutorial.md").is_file()


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
    assert _gathered([]) == []  # `footfall info`
