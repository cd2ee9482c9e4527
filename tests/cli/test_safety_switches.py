"""Settings that take away protection come from the operator, never from a file."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from footfall import cli, registry
from footfall.reward.readout import readout_from
from footfall.tools import why_no_walls

TRACE = {
    "problem": "Double a number.",
    "steps": ["def f(n):", "    open({here!r}, 'w'); return n + n"],
    "program": ["def f(n):", "    return 2 * n"],
    "tests": ["assert f(2) == 4"],
}
MAP = {"kind": "isotonic", "names": ["isotonic"], "numbers": [[0, 0, 1, 1]], "rows": 2}


@pytest.fixture
def no_walls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine without bubblewrap; a trace that would leave a file `ran` there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    why_no_walls.cache_clear()
    steps = [step.format(here=str(tmp_path / "ran")) for step in TRACE["steps"]]
    (tmp_path / "traces.jsonl").write_text(json.dumps({**TRACE, "steps": steps}) + "\n", encoding="utf-8")
    yield tmp_path
    why_no_walls.cache_clear()


def calibrated(of: object, folder: str = "judge") -> str:
    Path(folder).mkdir(exist_ok=True)
    made = {**MAP, "judge": "execution(sandbox,seconds=5)", "of": of}
    (Path(folder) / "calibration.json").write_text(json.dumps(made), encoding="utf-8")
    return folder


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert cli.main(["score", "traces.jsonl", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return said


@pytest.mark.parametrize(
    "of",
    [
        {"name": "execution", "settings": {"allow_unsandboxed": True}},
        {"name": "prlcoder", "settings": {"allow_unsandboxed": True}},
        {"name": "ssrm", "settings": {"prm": "execution", "allow_unsandboxed": True}},
    ],
    ids=["part", "system", "in-a-role"],
)
def test_a_judges_folder_cannot_take_the_walls_away(
    of: dict[str, Any], no_walls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "--judge", calibrated(of))
    assert "judge/calibration.json sets allow_unsandboxed" in said and "only you can" in said
    assert not (no_walls / "ran").exists()


def test_the_operator_can_for_a_folder_too_and_is_warned(no_walls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = calibrated({"name": "execution", "settings": {}})
    assert "code is not run without a sandbox" in refused(capsys, "--judge", folder)
    with pytest.warns(UserWarning, match="ran without a sandbox"):
        assert cli.main(["score", "traces.jsonl", "--judge", folder, "--set", "allow_unsandboxed=true"]) == 0
    assert (no_walls / "ran").exists()


def test_a_configuration_file_cannot_set_the_switch_of_any_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("footfall.commands._config_file.safety_switches", lambda: frozenset({"of_an_extension"}))
    (tmp_path / "my.toml").write_text("judge = 'random'\nset = ['of-an-extension=true']\n", encoding="utf-8")
    assert cli.main(["score", "traces.jsonl", "--config", str(tmp_path / "my.toml")]) == 2
    assert "of-an-extension is not taken from a file" in capsys.readouterr().err


def test_calibrate_leaves_the_switch_out_of_the_folder_that_it_writes(tmp_path: Path) -> None:
    from footfall.commands._judges import inside, write_calibrated
    from footfall.reward.calibrated import fit_scores

    settings = {"run": "sandbox", "allow_unsandboxed": True}
    write_calibrated(tmp_path, fit_scores([0.0, 1.0], [0.0, 1.0], "isotonic"), "execution", settings)
    within = inside(tmp_path)
    assert within is not None and within.settings == {"run": "sandbox"}


def test_a_stored_read_out_cannot_set_one_either() -> None:
    with pytest.raises(ValueError, match="sets allow_unsandboxed"):
        readout_from({"name": "sigmoid", "allow_unsandboxed": True})


def test_every_parameter_that_sounds_like_a_switch_is_declared_as_one() -> None:
    risky = re.compile(r"^(allow|trust|unsafe|disable|insecure|skip_check)|unsandboxed|remote_code|pickle")
    for kind in registry.KINDS:
        for name in registry.parts(kind):
            takes = inspect.signature(registry.load(kind, name)).parameters
            sounds = {parameter for parameter in takes if risky.search(parameter)}
            assert sounds <= set(registry.declared(kind, name).switches), (kind, name)
    assert registry.safety_switches() == {"allow_unsandboxed"}


def test_a_calibration_that_names_itself_is_one_line(no_walls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is the judge of itself" in refused(capsys, "--judge", calibrated({"folder": ".", "settings": {}}))
    calibrated({"folder": "../b", "settings": {}}, "a")
    calibrated({"name": "ssrm", "settings": {"prm": "a"}}, "b")
    assert "is the judge of itself" in refused(capsys, "--judge", "a")
    assert "names itself" in refused(capsys, "--judge", "calibrated", "--set", "of=calibrated", "calibration=x")
    for k in range(9):
        calibrated({"folder": f"../deep{k + 1}", "settings": {}}, f"deep{k}")
    assert "within 8 calibrations" in refused(capsys, "--judge", "deep0")


@pytest.mark.parametrize(
    "of", [{"name": ["x"], "settings": {}}, {"folder": 3, "settings": {}}, {"name": "x", "settings": 3}, 7]
)
def test_a_reference_of_another_shape_is_one_line(
    of: object, no_walls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "--judge", calibrated(of))
