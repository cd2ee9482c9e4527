"""The ways in beside the command: `python -m footfall`, completion in a shell, `footfall.load` and `footfall.read`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import footfall
from footfall import cli
from footfall.registry import create


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "footfall", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"footfall {footfall.__version__}\n")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch, (tmp_path_factory.mktemp("shell") / "footfall").open("w+") as file:
        patch.setattr(sys, "stdout", file)
        assert cli.main(["completion", "bash"]) == 0
    return Path(file.name)


TYPED = [
    ("sea", "search"),
    ("train --epo", "--epochs"),
    ("label --method monte", "monte-carlo"),
    ("search --method beam", "beam-search"),
    ("score --judge footfall/s", "footfall/smol"),
    ("sample --mode ch", "chat"),
    ("list label", "labeller"),
    ("list --j", "--json"),
    ("search --judge-r", "--judge-role"),
    ("lab r", "run"),
    ("lab run math", "math-shepherd"),
    ("lab run pav --quick math", "math-shepherd"),
    ("lab run --see", "--seed --seeds"),
    ("lab ledger --ch", "--check"),
    ("bench proc", "processbench"),
    ("bench s", "search socratic-prmbench steps"),
    ("bench search --opt", "--option"),
    ("score mine.jsonl --segment sent", "sentences"),
    ("label --segment num", "numbered"),
    ("label --prover scripted-lo", "scripted-logic"),
    ("sample --neutral F", "False"),
    ("train --head both", "both-ways"),
    ("train --as", "--as"),
    ("train --as qwen2.5-math", "qwen2.5-math-prm"),
    ("rl --credit pri", "prime"),
    ("rl --filter pro", "prof"),
    ("completion z", "zsh"),
    ("completion --con", "--config"),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(("typed", "offered"), TYPED)
def test_bash_completes_commands_options_and_names(script: Path, typed: str, offered: str) -> None:
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    words = ["footfall", *typed.split()]
    ask = f'source "$0"; COMP_WORDS=("$@"); COMP_CWORD={len(words) - 1}; _footfall; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", ask, str(script), *words], capture_output=True, text=True, cwd=script.parent)
    assert sorted(done.stdout.split()) == offered.split() and done.stderr == ""


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_completes_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "fish"]) == 0
    asked = "\n".join(f"echo (complete -C 'footfall {typed}' | cut -f1)" for typed, _ in TYPED)
    (tmp_path / "asked").write_text(f"{capsys.readouterr().out}\n{asked}\n", encoding="utf-8")
    done = subprocess.run(["fish", "--no-config", "asked"], capture_output=True, text=True, cwd=tmp_path)
    said = {
        typed: " ".join(sorted(line.split())) for (typed, _), line in zip(TYPED, done.stdout.splitlines(), strict=True)
    }
    assert said == dict(TYPED) and done.stderr == ""


@pytest.mark.long
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts_that_they_accept(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "beam-search" in text and text.count("'") % 2 == 0
    if shutil.which(shell):
        (tmp_path / "script").write_text(text, encoding="utf-8")
        assert subprocess.run([shell, "-n", str(tmp_path / "script")]).returncode == 0
    assert cli.main(["completion", "cmd"]) == 2


def test_load_and_read_are_what_score_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arithmetic = ["--policy", "scripted-arithmetic", "--json"]
    assert cli.main(["sample", "--problems", "world:arithmetic:8", "--n", "2", "--out", "s", *arithmetic]) == 0
    assert (
        cli.main(["label", "--data", "s/trajectories.parquet", "--method", "truth-arithmetic", "--out", "l", "--json"])
        == 0
    )
    assert (
        cli.main(["train", "--data", "l/judged.parquet", "--epochs", "1", "--device", "cpu", "--out", "t", "--json"])
        == 0
    )
    capsys.readouterr()
    assert cli.main(["score", "l/judged.parquet", "--judge", "t", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    judge, rows = footfall.load(Path("t"), device="cpu"), footfall.read("l/judged.parquet")
    said = judge.judge([row.trajectory for row in rows])
    assert judge.name == told["judge"] and rows[0].judgement is not None
    assert [list(each.values) for each in said] == [row["values"] for row in told["rows"]]


def test_load_takes_names_with_settings_and_says_what_it_cannot_load() -> None:
    assert footfall.load("random", seed=3).name == create("labeller", "random", seed=3).name
    with pytest.raises(ValueError, match="did you mean 'random'"):
        footfall.load("randomm")
    with pytest.raises(ValueError, match="takes no --set sed"):
        footfall.load("random", sed=3)


def test_load_takes_a_policy_by_name_as_the_command_line_does() -> None:
    by_name = footfall.load("monte-carlo", policy="scripted-arithmetic", rollouts=2)
    policy = create("policy", "scripted-arithmetic")
    assert by_name.name == footfall.load("monte-carlo", policy=policy, rollouts=2).name
    with pytest.raises(KeyError, match="no policy is called 'scripted-arithmetics'"):
        footfall.load("monte-carlo", policy="scripted-arithmetics")


def test_importing_the_package_and_asking_for_load_loads_no_torch() -> None:
    script = "import sys, footfall; footfall.load, footfall.read; assert not {'torch', 'pyarrow'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
