"""Rollouts on the page: of the updates that were asked for, every token with its advantage, whatever kill came between."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

from footfall import cli
from footfall.rl.batches import Rolled
from footfall.rl.groups import Rollout
from footfall.rl.loop import Watch
from footfall.rl.settings import RlSettings
from footfall.rl.shown import LONGEST, shown
from footfall.types import Judgement, Problem, Reason, Step, Trajectory, Unjudged
from tests.rl.runs import events, model, words
from tests.rl.test_rl_kills import Killed

__all__ = ["model"]

CHOSEN = (
    "--updates",
    "4",
    "--traces-at",
    "1",
    "3",
    "--traces-shown",
    "5",
    "--credit",
    "capo",
    "--judge",
    "truth-arithmetic",
)


def page_of(out: Path) -> str:
    """Without the folder that it is told to be in."""
    return (out / "report.html").read_text().replace(str(out), "")


def test_the_page_shows_rollouts_of_the_updates_that_were_asked_for(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert cli.main(words(model, out, *CHOSEN)) == 0
    kept = events(out, "traces")
    assert [each["update"] for each in kept] == [1, 3], "and not those of the checkpoints 2 and 4"
    assert all(len(each["rows"]) == 5 for each in kept)
    for row in (row for each in kept for row in each["rows"]):
        assert len(row["advantages"]) == len(row["tokens"]) > 0 or row["left"]
    titles = re.findall(r"update (\d+): ", page_of(out))
    assert titles == ["1"] * 5 + ["3"] * 5


@pytest.mark.parametrize("when", [2, 4])
def test_a_run_that_was_killed_has_the_same_page(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    """The kill falls behind a checkpoint: what was shown before it is not written again."""
    assert cli.main(words(model, tmp_path / "whole", *CHOSEN)) == 0
    look = Watch.look

    def killed(watch: Watch, update: int) -> None:
        if update == when:
            raise Killed
        look(watch, update)

    with monkeypatch.context() as once, pytest.raises(Killed):
        once.setattr(Watch, "look", killed)
        cli.main(words(model, tmp_path / "parts", *CHOSEN))
    assert cli.main(words(model, tmp_path / "parts", *CHOSEN)) == 0
    assert page_of(tmp_path / "parts") == page_of(tmp_path / "whole")


def test_those_of_a_checkpoint_are_told_before_it_is_saved(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --traces-at; a run that is killed while it is measured goes on behind the checkpoint."""

    def killed(watch: Watch, update: int) -> None:
        if update:
            raise Killed

    with monkeypatch.context() as once, pytest.raises(Killed):
        once.setattr(Watch, "look", killed)
        once.setattr("footfall.rl.loop.shown", lambda *_: [{}])  # the small model writes nothing that teaches
        cli.main(words(model, tmp_path / "run", "--updates", "4"))
    assert [each["update"] for each in events(tmp_path / "run", "traces")] == [2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--updates", "4", "--traces-at", "5"), "--traces-at 5: the run has the updates 1 to 4"),
        (("--updates", "4", "--traces-at", "0"), "--traces-at 0: the run has the updates 1 to 4"),
        (("--traces-at", *map(str, range(1, 26))), "room for 24 updates"),
        (("--traces-shown", "0"), "at least 1 is shown"),
    ],
)
def test_what_no_page_has_room_for_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    assert cli.main(words(model, tmp_path / "run", *given)) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "run").exists()


def rolled(name: str, correct: bool | None, advantage: float, tokens: int = 2, left: bool = False) -> Rolled:
    trace = Trajectory(name, Problem(name, "2 + 2"), (Step("4"),), "4", correct)
    why = Unjudged(Reason.FAILED_CALL, "no reply") if left else None
    return Rolled(
        trace,
        Judgement(name, (1.0,), "j"),
        (1,) * tokens,
        Rollout(np.array([tokens])),
        1.0,
        why,
        np.full(tokens, advantage),
    )


class Letters:
    def decode(self, ids: Any) -> str:
        return "x" * len(ids)


def test_right_and_wrong_ones_are_shown_in_turn_and_long_ones_are_cut() -> None:
    batch = [
        rolled("a", True, 1.0), rolled("b", True, 1.0), rolled("c", True, 0.0), rolled("d", False, -1.0, tokens=LONGEST + 7),
        rolled("e", None, 0.0, left=True),
    ]  # fmt: skip
    found = shown(batch, Letters(), RlSettings(traces_shown=4))
    assert [row["problem"] for row in found] == ["a", "d", "e", "b"]
    assert len(found[1]["tokens"]) == len(found[1]["advantages"]) == LONGEST and found[1]["left_out"] == 7


def test_an_update_that_teaches_nothing_is_shown_only_if_it_was_asked_for() -> None:
    batch = [rolled("a", True, 0.0)]
    assert shown(batch, Letters(), RlSettings()) == []
    assert [row["problem"] for row in shown(batch, Letters(), RlSettings(traces_at=(1,)))] == ["a"]
