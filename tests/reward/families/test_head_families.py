"""What holds for every family with a class or scalar head: it is found, refuses what is not its own, and is exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from footfall.render import Writer
from footfall.reward.checkpoint import checkpoint, evidence
from footfall.reward.family import Evidence, recognise
from tests.reward.families import head_checkpoints as made_by
from tests.reward.families.head_checkpoints import MAKERS, Made
from tests.reward.families.reference import TOLERANCE, trace, values
from tests.reward.tiny_checkpoints import WIDTH

torch.set_num_threads(1)

FAMILIES = (*MAKERS, "skywork-o1-prm", "qwen2.5-math-prm", "universal-prm-reference")
LOOK_ALIKE = (
    {"trl", "trl-blank-line", "pure"},
    {"reasonflux-prm-7b", "qwen2.5-math-prm"},
    {"universal-prm", "universal-prm-reference"},
)
"""Families whose checkpoints look the same from outside: the name says which it is, or the user does."""
HOSTILE = ("", "A step with <extra_0>, [PRM], <s> and ки и in it.", "Two\n\nparts.", "x")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One saved checkpoint a family, in a folder of the name by which it is found."""
    root = tmp_path_factory.mktemp("families")
    return {family: make(root / family.replace(".", "-") / name).folder for family, (name, make) in MAKERS.items()}


@pytest.mark.parametrize("family", MAKERS)
def test_each_checkpoint_is_found_and_reads_every_step_of_a_hostile_trace(
    family: str, folders: dict[str, Path]
) -> None:
    judge = checkpoint(folders[family])
    assert judge.name.startswith(f"{family}@")
    whole = values(judge, trace(*HOSTILE))
    assert len(whole) == len(HOSTILE)
    assert all(isinstance(value, float) for value in whole)
    assert whole[:3] == pytest.approx(values(judge, trace(*HOSTILE[:3])), abs=TOLERANCE)
    together = judge.judge([trace("One."), trace(*HOSTILE), trace("A long step, " * 20)])[1]
    assert list(together.values) == pytest.approx(whole, abs=TOLERANCE)


@pytest.mark.parametrize("family", MAKERS)
def test_each_checkpoint_is_refused_by_every_family_but_its_look_alikes(family: str, folders: dict[str, Path]) -> None:
    seen = evidence(folders[family])
    accepted = {name for name in FAMILIES if _accepts(name, seen)}
    assert accepted == next((group for group in LOOK_ALIKE if family in group), {family})


def _accepts(name: str, seen: Evidence) -> bool:
    try:
        family = recognise(seen, name)
        family.head.build(seen.tensors, Writer(seen.tokenizer), WIDTH, family.readout.outputs)
    except ValueError:
        return False
    return True


def test_the_refusal_says_what_is_missing(folders: dict[str, Path]) -> None:
    with pytest.raises(
        ValueError, match=r"is not of the family mathminos: its architecture is Qwen2ForTokenClass.*, not"
    ):
        checkpoint(folders["trl"], family="mathminos")
    with pytest.raises(ValueError, match=r"is not of the family actprm: it has no tensor score\.model\.nn1\.weight"):
        checkpoint(folders["reasonflux-prm-7b"], family="actprm")


@pytest.mark.parametrize(
    ("family", "make", "reason"),
    [
        ("reasoneval-7b", made_by.reasoneval_7b, "has 5 rows, not 3"),
        ("trl", made_by.token_classifier, "has 5 rows, not 2"),
        ("pure", made_by.token_classifier, "has 5 rows, not 2"),
        ("mathminos", made_by.mathminos, "has 5 rows, not 1"),
        ("reasonflux-prm-7b", made_by.reasonflux_7b, "has 5 rows, not 2"),
        ("reasonflux-prm-1.5b", made_by.reasonflux_1_5b, r"holds \(5, 32\)"),
        ("actprm", made_by.actprm, "gives 5 outputs, its family has 1"),
        ("babelscape", made_by.babelscape, "gives 5 outputs, its family has 1"),
        ("universal-prm", made_by.universal_prm, "gives 5 outputs, its family has 1"),
        ("pqm", made_by.pqm, "gives 5 outputs, its family has 1"),
    ],
)
def test_a_head_of_another_width_is_refused(
    family: str, make: Callable[[Path, int], Made], reason: str, tmp_path: Path
) -> None:
    folder = make(tmp_path / "tuned", 5).folder
    with pytest.raises(ValueError, match=reason):
        checkpoint(folder, family=family)
