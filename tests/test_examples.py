"""The scripts of examples/ run, with small sizes, and say what they promise."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.serving import Server
from tests.cli.telling import one_thread

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with one_thread():
        yield


def said_by(name: str, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, spec.name, module)
        spec.loader.exec_module(module)
        assert module.main(list(words)) == code
    return capsys.readouterr().out


def test_every_example_is_in_the_list_and_run_here() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    listed = set(re.findall(r"\]\((\w+\.py)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    tested = set(re.findall(r'said_by\("(\w+)"', Path(__file__).read_text(encoding="utf-8")))
    assert scripts == listed == {f"{name}.py" for name in tested}


def test_own_fields_are_scored(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_by("score_own_traces", capsys)
    assert "1.00  3 * 4 = 12" in said and "0.00  14 - 5 = 8" in said


def test_a_judge_of_ones_own_beats_those_that_know_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said_by("judge_of_your_own", capsys, "--traces", "60").splitlines()
    found = {line.split()[0]: float(line.split()[-3]) for line in lines}
    assert found["sums(unsure=0.9)"] > max(value for name, value in found.items() if name != "sums(unsure=0.9)")


@pytest.mark.long
def test_a_prm_is_trained_on_own_labels(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_by("train_a_prm", capsys, "--traces", "40", "--epochs", "1")
    assert "step_auc" in said and re.search(r"first-error F1 0\.\d+; judges that know nothing: \w+ 0\.", said)
    assert Path("runs/my-prm/model").is_dir()


def test_a_server_writes_and_a_judge_chooses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    server = Server(tmp_path / "log.jsonl")
    try:
        server.behave("3 * 4 = 12\n\nIt is \\boxed{12}")
        said = said_by("best_of_n_over_a_server", capsys, "--url", server.url, "--model", "toy", "--n", "2")
    finally:
        server.stop()
    assert "pens: 12 (right); scores 0.93, 0.93" in said and "marbles: 12 (wrong)" in said


def test_a_server_that_refuses_is_told_with_its_reason(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    server = Server(tmp_path / "log.jsonl")
    try:
        server.behave(api_key="secret")
        said = said_by("best_of_n_over_a_server", capsys, "--url", server.url, "--model", "toy", "--n", "2", code=1)
    finally:
        server.stop()
    assert "pens: failed: " in said and "marbles: failed: " in said and "HTTP 401" in said


def test_labels_of_ones_own_are_held_against_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_by("labeller_of_your_own", capsys, "--traces", "30")
    shares = [float(share) for share in re.findall(r"([\d.]+)% of", said)]
    assert len(shares) == 3 and min(shares) > 75
