"""Labels compared: means over trainings, each training beside them, and differences on the same cases."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from footfall.formats import write_parquet
from footfall.types import Cost, Problem, Step, Trajectory
from scripts.loop_arms import compare, main, table

ON = "math-500"
SPLITS = ("gsm8k", "math", "olympiadbench", "omnimath")
RIGHT, FOUND, MISSED = [0.9, 0.9], [0.9, 0.1], [0.9, 0.9]
"""Scores of two steps: of a solution without an error, of one whose second step is wrong, and of that one unseen."""


def _lines(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    file.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Path]:
    """Two cases a split, one of them wrong at its second step; four samples of each of two problems, one right and one
    wrong answer twice; `good-0` and `good-1` find every error, `mixed-0` does too and `mixed-1` none."""
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "processbench").mkdir(parents=True)
    out.mkdir()
    for split in SPLITS:
        cases = [
            {"id": f"{split}-{k}", "problem": f"{split} {k}?", "steps": ["a", "b"], "label": label,
             "final_answer_correct": label < 0, "generator": "g"}
            for k, label in enumerate((-1, 1))
        ]  # fmt: skip
        (data / "processbench" / f"{split}.json.gz").write_bytes(gzip.compress(json.dumps(cases).encode()))
    traces = [
        Trajectory(f"{p}{k}", Problem(p, p, "1", "math"), (Step("so"),), answer=a, correct=a == "1", cost=Cost())
        for p in "pq" for k, a in enumerate("1221")
    ]  # fmt: skip
    write_parquet(out / f"sample-{ON}.parquet", traces, "trajectory")
    for prm, wrong in {"good-0": FOUND, "good-1": FOUND, "mixed-0": FOUND, "mixed-1": MISSED}.items():
        (out / f"prm-{prm}").mkdir()
        labels = {"monte-carlo": {"traces": 5, "steps": 10, "below one half": 3, "generated tokens": 7000}}
        (out / f"prm-{prm}" / "facts.json").write_text(json.dumps({"validation": {"threshold": 0.5}, "labels": labels}))
        steps = [
            {"id": f"{s}-{k}", "split": s, "scores": scores} for s in SPLITS for k, scores in enumerate((RIGHT, wrong))
        ]
        _lines(out / f"scores-{prm}-processbench.jsonl.gz", steps)
        said = [{"id": t.id, "split": ON, "scores": [0.9 if t.correct == (wrong is FOUND) else 0.2]} for t in traces]
        _lines(out / f"scores-{prm}-{ON}.jsonl.gz", said)
    return out, data


def test_an_arm_is_the_mean_of_its_trainings_and_shows_each(stored: tuple[Path, Path]) -> None:
    found = compare(*stored, ["good", "mixed", "absent"], "mixed")
    assert [*found] == ["good", "mixed"], "an arm without scores is left out"
    assert found["good"]["f1"][0] == 100.0 and found["mixed"]["f1"][0] == 50.0
    assert {name: f1[0] for name, f1 in found["mixed"]["f1, each"].items()} == {"mixed-0": 100.0, "mixed-1": 0.0}
    assert found["good"]["f1 − mixed"][0] == 50.0 and found["mixed"]["f1 − mixed"] == [0.0, 0.0, 0.0]
    assert found["good"]["labels"] == {
        "rows": ["monte-carlo"], "traces": 5, "steps": 10, "below one half": 3, "generated tokens": 7000,
    }  # fmt: skip


def test_choices_are_held_against_the_majority_of_the_same_samples(stored: tuple[Path, Path]) -> None:
    """Two samples say 1 and two say 2: the vote is by the first answer, 1, and the best by the PRM."""
    found = compare(*stored, ["good", "mixed"], "mixed")
    assert (found["good"][ON]["n"], found["good"][ON]["problems"]) == (4, 2)
    assert found["good"][ON]["majority"][0] == 100.0 and "gsm8k-test" not in found["good"]
    assert found["good"][ON]["best, last − majority"][0] == 0.0
    assert found["mixed"][ON]["best, last − majority"][0] == -50.0
    assert found["mixed"][ON]["best, last − majority, each"] == {"mixed-0": 0.0, "mixed-1": -100.0}


def test_the_table_has_the_best_labels_first(stored: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    out, data = stored
    main(["--out", str(out), "--data", str(data), "--arms", "mixed", "good", "--against", "mixed"])
    capsys.readouterr()
    assert (out / "arms.md").read_text() == table(json.loads((out / "arms.json").read_text()))
    head, _, first, second = (out / "arms.md").read_text().splitlines()
    assert head.startswith("| labels | traces | steps | generated tokens | ProcessBench F1 | each | − mixed |")
    assert first.startswith("| `good` | 5 | 10 | 7,000 | 100.0 [100.0, 100.0] | 100.0, 100.0 | +50.0 [")
    assert "| 100.0, 0.0 |  |" in second, "no difference to itself"


def test_an_arm_to_be_held_against_that_is_not_there_is_named(stored: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="no scores of mc-0 on processbench"):
        compare(*stored, ["good"], "mc")
