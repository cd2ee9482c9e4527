"""Lines of the ledger from stored scores of published PRMs: by hand on made-up scores, and on the public data where it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from footfall.lab.recipe import find
from scripts.published_lines import MEASURED, PEOPLE, PRM, first_errors, main
from scripts.real_lines import Arms

SPLITS = ("gsm8k", "math", "olympiadbench", "omnimath")


def _packed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


def _scores(model: str, label: int) -> list[float]:
    """Up to the first error. One PRM is right on a scale of its own; the other calls every first step wrong."""
    right, wrong = 0.3, 0.1
    if model == PEOPLE:
        return [wrong] * (3 if label < 0 else label + 1)
    return [right] * (3 if label < 0 else label) + [wrong] * (label >= 0)


def test_first_errors_are_found_at_the_threshold_of_the_split_that_is_left_out(tmp_path: Path) -> None:
    """At 0.5 both would call everything wrong; a cut between 0.1 and 0.3 is learned from GSM8K."""
    scored = []
    for split in SPLITS:
        cases = [
            {"id": f"{split}-{k}", "generator": "g", "problem": f"{split} {k}?", "steps": ["a", "b", "c"],
             "final_answer_correct": label < 0, "label": label}
            for k, label in enumerate([-1, 1, -1, 2])
        ]  # fmt: skip
        (tmp_path / "processbench").mkdir(exist_ok=True)
        (tmp_path / "processbench" / f"{split}.json").write_text(json.dumps(cases))
        scored += [
            {"model": m, "split": split, "id": c["id"], "scores_to_first_error": _scores(m, int(str(c["label"])))}
            for c in cases for m in (PRM, PEOPLE)
        ]  # fmt: skip
    file = tmp_path / "processbench_prm_scores" / "published_prm_scores.jsonl.gz"
    # A PRM with one value has no threshold to choose.
    scored[1]["scores_to_first_error"] = [0.2, 0.1, 0.1]
    _packed(file, "".join(json.dumps(row) + "\n" for row in scored))
    arms = first_errors(tmp_path)
    assert arms.mean("PRM on filtered") == 1.0 and arms.mean("PRM on people's labels") == 0.0
    assert "of 12 cases" in arms.scale, "GSM8K is not reported on"
    assert arms.mean("PRM on filtered at 0.5") == arms.mean("PRM on people's labels at 0.5") == 0.0
    assert arms.scale.endswith("At 0.5 the difference is +0.000 [+0.000, +0.000]."), (
        "all of it came with the thresholds"
    )


def test_every_line_answers_a_claim_of_the_recipe_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = {"PRM on people's labels": 0.0, "Math-Shepherd's PRM": 0.0, "PRM on filtered": 1.0}
    stored |= {"PRM on people's labels at 0.5": 0.0, "PRM on filtered at 0.5": 0.5}
    arms = Arms({arm: np.full(4, value) for arm, value in stored.items()}, 1, "Made up.")
    for on in MEASURED:
        monkeypatch.setitem(MEASURED, on, lambda data: arms)
    kept = {"name": "dvts", "claim": "as it was"}
    (tmp_path / "real.json").write_text(json.dumps([kept]))
    main(["--data", str(tmp_path), "--to", str(tmp_path / "real.json")])
    made = json.loads((tmp_path / "real.json").read_text())
    assert kept in made and len(made) == 3
    claims = {claim.claim for claim in find("consensus-filter").recipe.claims if claim.tier == "real"}
    assert {line["claim"] for line in made if line["name"] == "consensus-filter"} < claims
