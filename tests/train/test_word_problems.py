"""The loop on real word problems, in small: the split holds problems apart, and every stage runs and is kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.train import find_overlaps
from scripts import word_problem_data as words
from scripts import word_problem_tables as tables
from scripts import word_problems as script
from tests.reward.tiny_models import byte_tokenizer, decoder

torch.set_num_threads(1)
DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def write(path: Path, rows: list[dict[str, Any]], lines: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(row) for row in rows) if lines else json.dumps(rows)
    path.write_bytes(gzip.compress(text.encode()))


NAMES = ("Ann", "Bob", "Cem", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon", "Kim", "Lea", "Max", "Nia", "Oto", "Pia")


def small_data(folder: Path) -> Path:
    """Sixteen problems of each set whose answer is always 7, so that a tiny model gets some right."""

    def question(kind: str, k: int) -> str:
        return f"{NAMES[k]} has 3 {kind} and finds 4 more near the {NAMES[-k]} house, how many {kind}?"

    solved = "3+4=<<3+4=7>>7\n#### 7"
    for split in ("train", "test"):
        rows = [{"question": question(f"{split} nuts", k), "answer": solved} for k in range(16)]
        write(folder / "gsm8k" / f"{split}.jsonl.gz", rows)
    bench = folder / "math_bench"
    asdiv = [{"body": "", "question": question("pens", k), "answer": "7 (pens)", "formula": "3+4=7"} for k in range(16)]
    write(bench / "asdiv" / "test.jsonl.gz", asdiv)
    write(bench / "mawps" / "test.jsonl.gz", [{"input": question("cups", k), "target": 7.0} for k in range(16)])
    svamp = [{"Body": question("hats", k), "Question": "", "Answer": 7.0} for k in range(16)]
    write(bench / "svamp" / "test.jsonl.gz", svamp)
    for name in ("gsm8k", "math", "olympiadbench", "omnimath"):
        case = {"id": f"{name}-0", "generator": "x", "problem": "2 + 2?", "steps": ["2+2=5", "5"], "label": 0}
        fine = {**case, "id": f"{name}-1", "steps": ["2+2=4"], "label": -1}
        write(folder / "processbench" / f"{name}.json.gz", [case, fine], lines=False)
    return folder


def test_a_solution_ends_with_the_answer_and_has_no_calculator_marks(tmp_path: Path) -> None:
    item = words.gsm8k(small_data(tmp_path), "train")[0]
    assert item.steps == ("3+4=7", "The answer is 7.")
    assert words.solution(item).problem.answer == "7"
    assert words.mawps(tmp_path)[0].steps == ()


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "math_bench").is_dir(), reason="needs the shared data")
def test_the_real_split_shares_no_problem_between_parts() -> None:
    parts = words.split(DATA)
    held_out = [item.problem for item in parts.held_out] + words.processbench_problems(DATA)
    seen = [item.problem for item in (*parts.imitate, *parts.label)]
    assert len(parts.imitate) > 7000 and len(parts.label) > 2000 and len(parts.held_out) > 3000
    assert not find_overlaps(seen, held_out)
    assert not find_overlaps([item.problem for item in parts.label], [item.problem for item in parts.imitate])


@pytest.mark.long
def test_every_stage_runs_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "load_model", lambda *given: (decoder(context=2048), byte_tokenizer()))
    common = [
        "--data",
        str(small_data(tmp_path / "data")),
        "--out",
        str(tmp_path / "out"),
        "--gguf",
        "x",
        "--device",
        "cpu",
    ]
    policy = script.main(["policy", *common, "--epochs", "20", "--lr", "1e-2"])
    assert policy["losses"][-1] < policy["losses"][0]
    label = script.main(["label", *common, "--problems", "4", "--rollouts", "2"])
    calls = {name: label[name]["cost"]["calls"] for name in script.LABELS}
    assert 0 < calls["omegaprm"] <= calls["monte-carlo"]
    for labels in script.LABELS:
        facts = script.main(["prm", *common, "--labels", labels, "--epochs", "1", "--batch", "8"])
        assert facts["updates"] > 0
    found = script.main(["evaluate", *common, "--problems", "2"])
    for labels in script.LABELS:
        assert set(found[labels]["processbench"]) >= {"f1"}
        assert found[labels]["accuracy"]["majority"] == found["monte-carlo"]["accuracy"]["majority"]
    searched = script.main(
        ["search", *common, "--problems", "2", "--widths", "4", "--methods", "best-of-n", "beam-search"]
    )
    assert {"best-of-n 4", "beam-search 4"} <= set(searched)
    assert json.loads((tmp_path / "out" / "search" / "facts.json").read_text()) == searched
    more = script.main(["search", *common, "--problems", "2", "--widths", "4", "--methods", "dvts"])
    assert {name: more[name] for name in searched} == searched and "dvts 4" in more
    fewer = script.main(["search", *common, "--problems", "1", "--widths", "4", "--methods", "dvts"])
    assert "beam-search 4" not in fewer, "other problems: nothing of the earlier search counts"
    facts = tables.gathered(tmp_path / "out")
    shown = {name: block(facts) for name, block in tables.BLOCKS.items()}
    assert f"{label['omegaprm']['cost']['calls']:,}" in shown["words-labels"]
    assert "majority" in shown["words-votes"] and "PRM of omegaprm" in shown["words-votes"]
    assert tables.percent(searched["beam-search 4"]["accuracy"]) in shown["words-search"]
