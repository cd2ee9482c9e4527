"""Lines of the ledger at real scale: from stored samples, scores and searches, claim by claim."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from footfall.formats import write_parquet
from footfall.lab.ledger import REAL
from footfall.lab.recipe import RECIPES, find
from footfall.registry import create
from footfall.types import Cost, Problem, Step, Trajectory
from scripts.real_lines import (
    CHOICES,
    FIRST_ERRORS,
    STEPS,
    add_lines,
    calibrated,
    choices,
    first_errors,
    lines,
    main,
    searched,
    seeds_of,
    votes,
)  # fmt: skip

ON = "math-500"
ANSWERS = {"a": "1112", "b": "1222", "c": "2221", "d": "1122"}
"""Of four samples of each problem; 1 is right."""


def _traces() -> list[Trajectory]:
    return [
        Trajectory(
            f"{name}{k}", Problem(name, name, "1", "math"), (Step("think"), Step(f"so {answer}")), answer=answer,
            correct=answer == "1", cost=Cost(generated_tokens=10),
        )
        for name, answers in ANSWERS.items() for k, answer in enumerate(answers * 4)
    ]  # fmt: skip


def _stored(out: Path, prms: Mapping[str, Mapping[str, Sequence[float]]]) -> Path:
    """A loop's folder: samples, problems, and what each PRM said of a right and of a wrong solution."""
    write_parquet(out / f"sample-{ON}.parquet", _traces(), "trajectory")
    (out / "problems").mkdir()
    (out / "problems" / f"{ON}.jsonl").write_text("".join(json.dumps({"id": name}) + "\n" for name in ANSWERS))
    for prm, said in prms.items():
        rows = [{"split": ON, "id": t.id, "scores": said["right" if t.correct else "wrong"]} for t in _traces()]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (out / f"scores-{prm}-{ON}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        _facts(out, prm, 1000)
    return out


def _facts(out: Path, prm: str, tokens: int) -> None:
    """What training leaves of a PRM: its threshold, and what its labels cost."""
    (out / f"prm-{prm}").mkdir(exist_ok=True)
    labels = {"monte-carlo": {"traces": 40, "generated tokens": tokens}, "gold": {"traces": 2, "generated tokens": 0}}
    facts = {"validation": {"threshold": 0.5}, "labels": labels}
    (out / f"prm-{prm}" / "facts.json").write_text(json.dumps(facts))


KNOWS, ERRS = {"right": [0.5, 0.9], "wrong": [0.5, 0.2]}, {"right": [0.5, 0.2], "wrong": [0.5, 0.9]}


def test_arms_of_two_seeds_are_means_and_a_line_has_the_claims_words(tmp_path: Path) -> None:
    out = _stored(tmp_path, {"mc-0": ERRS, "mc-1": KNOWS, "er-0": KNOWS, "er-1": KNOWS, "er-final": ERRS})
    assert seeds_of(out, "er", ON) == ["er-0", "er-1"], "only seeds of the arm"
    arms = choices(out, ON, CHOICES["er-prm"])
    assert arms is not None
    assert arms.values["entropy-regularised, η = 1"].tolist() == [1.0] * 4
    assert arms.values["soft Monte Carlo"].tolist() == [0.5] * 4
    (line,) = lines("er-prm", "MATH-500", arms, "command")
    assert line["claim"] in [claim.claim for claim in find("er-prm").recipe.claims if claim.tier == "real"]
    assert (line["effect"], line["seeds"]) == (0.5, 2)
    assert "soft Monte Carlo (mc-0, mc-1): 42 traces, 1,000 tokens generated for their labels" in line["scale"]
    assert choices(out, ON, CHOICES["prm800k"]) is None, "an arm without PRMs"


def test_votes_and_a_calibration_on_the_other_half(tmp_path: Path) -> None:
    out = _stored(tmp_path, {"final-0": {"right": [0.9, 0.9], "wrong": [0.9, 0.2]}})
    found = votes(out, ON, ("final-0",)).values
    assert found["majority vote"].tolist()[:3] == [1.0, 0.0, 0.0]
    assert found["best-of-N"].tolist() == [1.0] * 4
    assert found["frequency vote"].tolist()[:2] == [1.0, 1.0]
    briers = calibrated(out, ON, ["final-0"]).values
    rates = np.asarray([0.75, 0.25, 0.25, 0.5])
    assert briers["uncalibrated"] == pytest.approx((0.9 - rates) ** 2)
    assert briers["quantile regression"].mean() < briers["uncalibrated"].mean(), "0.9 for all is too much"


def test_a_search_stands_beside_the_vote_that_its_tokens_pay_for(tmp_path: Path) -> None:
    out = _stored(tmp_path, {"best-0": KNOWS})
    wide = {"right": "1111", "generated": 900}
    facts = {"beam-search 64, 4 problems": wide, "beam-search 8, 4 problems": {"right": "1101", "generated": 25}}
    told = {"dvts 8, 4 problems, truth 1": {"right": "1111", "generated": 25}}
    (out / f"search-best-0-{ON}-beam-search.json").write_text(json.dumps(facts))
    (out / f"search-best-0-{ON}-dvts-truth.json").write_text(json.dumps(told))
    arms = searched(out, ON, "beam-search")
    assert arms is not None and "those of 3 samples" in arms.scale, (
        "25 tokens, 10 a sample, rounded up; 90 samples are not there"
    )
    assert arms.values["search"].tolist() == [1.0, 1.0, 0.0, 1.0]
    assert searched(out, ON, "dvts") is None, "one that was told the truth is no search with a PRM"


def test_a_search_with_two_prms_of_an_arm_is_their_mean(tmp_path: Path) -> None:
    out = _stored(tmp_path, {"vote-0": KNOWS, "vote-1": ERRS})
    for prm, right, tokens in (("vote-0", "1101", 20), ("vote-1", "0001", 30)):
        facts = {"dvts 8, 4 problems": {"right": right, "generated": tokens}}
        (out / f"search-{prm}-{ON}.json").write_text(json.dumps(facts))
    arms = searched(out, ON, "dvts")
    assert arms is not None and arms.seeds == 2
    assert "PRM vote-0, vote-1: 25 tokens a problem, those of 3 samples" in arms.scale
    assert arms.values["search"].tolist() == [0.5, 0.5, 0.0, 1.0]
    (out / "thin").mkdir()
    (out / f"sample-{ON}.parquet").rename(out / "thin" / f"sample-{ON}.parquet")
    again = searched(out, ON, "dvts")
    assert again is not None and again.scale == arms.scale, "a pool that did not travel has a thin one"


def test_lines_of_what_is_not_there_stay_as_they_are(tmp_path: Path) -> None:
    """The pool of one of the two sets, and no search."""
    out = _stored(tmp_path, {"er-0": KNOWS, "mc-0": ERRS})
    kept = {"name": "dvts", "claim": "as it was"}
    (tmp_path / "real.json").write_text(json.dumps([kept]))
    main(["--out", str(out), "--to", str(tmp_path / "real.json")])
    made = json.loads((tmp_path / "real.json").read_text())
    assert kept in made
    assert {line["name"] for line in made} == {"dvts", "er-prm", "self-consistency"}
    main(["--out", str(out), "--to", str(tmp_path / "real.json"), "--prm", "er-0", "--prm", "er-1"])
    again = json.loads((tmp_path / "real.json").read_text())
    assert {line["name"] for line in again} == {line["name"] for line in made}, (
        "er-1 has no scores: no votes of er-0 alone"
    )
    main(["--out", str(out), "--to", str(tmp_path / "some.json"), "--only", "er-prm", "dvts"])
    (line,) = json.loads((tmp_path / "some.json").read_text())
    assert line["name"] == "er-prm" and line["command"].endswith("--only er-prm dvts")


def test_a_choice_is_among_the_first_16_samples(tmp_path: Path) -> None:
    out = _stored(tmp_path, {"mc-0": KNOWS, "er-0": KNOWS})
    traces = [replace(trace, id=f"{trace.id}, {k}") for k in range(2) for trace in _traces()]
    write_parquet(out / f"sample-{ON}.parquet", traces, "trajectory")
    known = [t.id for t in traces if t.correct and t.id.endswith(", 1")]
    rows = [{"split": ON, "id": t.id, "scores": KNOWS["right" if t.id in known else "wrong"]} for t in traces]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    for prm in ("mc-0", "er-0"):
        (out / f"scores-{prm}-{ON}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    arms = choices(out, ON, CHOICES["er-prm"])
    assert arms is not None and "16 samples of each of 4 problems" in arms.scale
    assert arms.values["soft Monte Carlo"].tolist() == [1, 1, 0, 1], (
        "the first; those with high scores come after the 16"
    )


def test_at_equal_tokens_labels_cost_as_much_or_the_line_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        {
            "id": f"{k}",
            "problem": "?",
            "steps": ["a", "b"],
            "label": 1 - 2 * (k % 2),
            "final_answer_correct": bool(k % 2),
        }
        for k in range(8)
    ]
    (tmp_path / STEPS).mkdir()
    for split in ("gsm8k", "math"):
        (tmp_path / STEPS / f"{split}.json").write_text(json.dumps(given))
    cases = create("benchmark", STEPS, data=tmp_path / STEPS).cases
    for prm, tokens in {"mc-0": 1000, "omega-0": 1080}.items():
        rows = [
            {"split": c.split, "id": c.trajectory.id, "scores": [0.9, 0.9 if prm == "mc-0" else 0.1]} for c in cases
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"scores-{prm}-{STEPS}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        _facts(tmp_path, prm, tokens)
    arms = first_errors(tmp_path, tmp_path, FIRST_ERRORS["omegaprm"])
    assert arms is not None
    (line,) = lines("omegaprm", "ProcessBench", arms, "command")
    assert "PRM on trees (omega-0): 42 traces, 1,080 tokens" in line["scale"]
    assert line["scale"].startswith("Qwen2.5-Coder-1.5B-Instruct (GGUF, Q4_K_M); "), "the model with its quantisation"
    assert (
        lines("omegaprm", "ProcessBench", arms._replace(tokens={**arms.tokens, "PRM on trees": 1200}), "command") == []
    )
    assert "did not cost as much" in capsys.readouterr().err


def test_lines_of_trained_prms_say_what_single_trainings_gave(tmp_path: Path) -> None:
    """An interval over problems holds no luck of training, so it is told beside, from the figures that the docs keep."""
    stored = tmp_path / "real.json"
    shutil.copy(RECIPES / REAL, stored)
    add_lines(stored, [])
    assert stored.read_bytes() == (RECIPES / REAL).read_bytes(), "run: python -m scripts.real_lines --out runs/loop"
    scales = {(line["name"], line["world"]): line["scale"] for line in json.loads(stored.read_text())}
    people = scales["prm800k", "MATH-500"]
    assert "ORM (outcome-0): 4,000 traces" in people and "PRM, product (human-0, human-1): 750 traces" in people
    assert people.endswith("right in 27.5 with human-0, 38.0 with human-1, 42.5 with outcome-0.")
    for recipe in ("best-of-n", "unprm"):
        assert "fewer-1, on 9,301 outcomes, majority 48.8" in scales[recipe, "MATH-500"]
        assert scales[recipe, "GSM8K test"].endswith("fewer-1 has no scores of this set.")
    assert "(distilled-0 and distilled-1) have F1 31.9 and 20.3" in scales["omegaprm", "ProcessBench"]
    assert "Trainings" not in scales["self-consistency", "MATH-500"], "no PRM is asked there"
