"""Solutions that are one text: where they are cut into steps, and what is said of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.formats import FormatError, Solutions, read
from footfall.types import Trajectory


def trace(text: str, solutions: Solutions | None = None, **more: Any) -> Trajectory:
    line = json.dumps({"problem": "?", "solution": text, **more})
    (row,) = read(io.BytesIO(line.encode()), solutions=solutions)
    return row.trajectory


def steps(text: str, segment: str | None = None) -> list[str]:
    return [step.text for step in trace(text, Solutions(segment)).steps]


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("Step 1: add. Step 2: double it.", " "),
        ("Step 1: add.\nStep 2: double it.", "\n"),
        ("Step 1: add.\n\nStep 2: double it.", "\n\n"),
        ("Step 1: add.\n\n\nStep 2: double it.\n", "\n\n"),
    ],
)
def test_numbered_steps_are_cut_wherever_they_stand(text: str, separator: str) -> None:
    found = trace(text)
    assert [step.text for step in found.steps] == ["Step 1: add.", "Step 2: double it."]
    assert found.separator == separator


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Step 1: a\n\nmore of a\n\n## Step 2: b", ["## Step 1: a\n\nmore of a", "## Step 2: b"]),
        ("**Step 1.** a\n**Step 2.** b", ["**Step 1.** a", "**Step 2.** b"]),
        ("step 1\na\nstep 2\nb", ["step 1\na", "step 2\nb"]),
        ("First:\nStep 1: a, as Step 1: says\nStep 2: b", ["First:", "Step 1: a, as Step 1: says", "Step 2: b"]),
        ("```\nStep 1: x\n```\n\nStep 2: y", ["```\nStep 1: x\n```", "Step 2: y"]),
    ],
)
def test_markers_may_be_dressed_and_mentions_cut_nothing(text: str, expected: list[str]) -> None:
    assert steps(text) == expected


@pytest.mark.parametrize(
    "text", ["By Step 2: a\n\nb", "Step 1: a\n\nb", "Step 2: a\n\nStep 1: b", "Step 1: a\n\nand Step 3: b"]
)
def test_what_is_not_numbered_from_1_to_n_is_cut_at_blank_lines(text: str) -> None:
    assert steps(text) == text.split("\n\n")


def test_a_list_of_steps_is_left_as_it_is() -> None:
    (row,) = read(io.BytesIO(b'{"problem": "?", "steps": ["Step 1: a Step 2: b"]}'))
    assert len(row.trajectory.steps) == 1


def test_a_chat_is_cut_like_any_other_text() -> None:
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Step 1: a Step 2: b"}]
    (row,) = read(io.BytesIO(json.dumps({"messages": turns}).encode()))
    assert [step.text for step in row.trajectory.steps] == ["Step 1: a", "Step 2: b"]


def test_a_segmenter_can_be_named() -> None:
    text = "One. Two.\nThree.\n\nFour."
    assert steps(text) == ["One. Two.\nThree.", "Four."]
    assert steps(text, "lines") == ["One. Two.", "Three.", "Four."]
    assert steps(text, "sentences") == ["One.", "Two.", "Three.", "Four."]
    assert trace(text, Solutions("sentences")).separator in (" ", "\n", "\n\n")


def test_one_that_needs_tokens_says_so_with_the_line() -> None:
    with pytest.raises(FormatError, match=r'line 1, field "solution".*entropy'):
        trace("a b", Solutions("entropy"))
    with pytest.raises(KeyError, match="did you mean 'lines'"):
        Solutions("line")


def test_it_is_counted_how_texts_were_cut() -> None:
    solutions = Solutions()
    for text in ("Step 1: a Step 2: b", "Step 1: c\nStep 2: d", "e\n\nf", "g"):
        trace(text, solutions)
    assert solutions.told() == (
        "split at 'Step k:' markers: 2 traces, at blank lines: 1 trace; 1 text not split: "
        "--segment lines or sentences may cut more finely"
    )


TEXTS = "".join(
    json.dumps({"problem": f"{i}?", "solution": "Step 1: a. Step 2: b.", "correct": bool(i % 2)}) + "\n"
    for i in range(4)
)
COMMANDS = [
    ["info", "texts.jsonl"],
    ["score", "texts.jsonl", "--judge", "random"],
    ["label", "--data", "texts.jsonl", "--method", "random"],
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text(TEXTS, encoding="utf-8")
    Path("lists.jsonl").write_text('{"problem": "?", "steps": ["a"], "labels": [1]}\n', encoding="utf-8")


@pytest.mark.parametrize("words", COMMANDS, ids=[words[0] for words in COMMANDS])
def test_every_command_that_reads_says_once_what_it_did(
    words: list[str], here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 0
    assert capsys.readouterr().err.count("split at 'Step k:' markers: 4 traces") == 1
    assert cli.main([*words, "--segment", "sentences"]) == 0
    assert "split by sentences: 4 traces" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["score", "lists.jsonl", "--judge", "random", "--segment", "lines"], "its traces are in steps already"),
        (["bench", "steps", "--data", "lists.jsonl", "--judge", "oracle", "--segment", "lines"], "in steps already"),
        (
            ["bench", "steps", "--data", "world:arithmetic:2", "--judge", "oracle", "--segment", "lines"],
            "a world writes",
        ),
        (["bench", "processbench", "--data", "x", "--judge", "random", "--segment", "lines"], "bench steps"),
        (["sample", "--problems", "texts.jsonl", "--segment", "lines"], "only its problems are read"),
        (["sample", "--problems", "world:arithmetic:2", "--skip-bad"], "a world makes its problems"),
        (["score", "texts.jsonl", "--judge", "random", "--step-end", "line"], "--segment says how a text is cut"),
        (["label", "--data", "texts.jsonl", "--method", "random", "--step-end", "line"], "--segment says how"),
        (["info", "texts.jsonl", "--limit", "3"], "it counts all that there is"),
        (["info", ".", "--segment", "lines"], "it is for reading one"),
        (["bench", "labels", "--limit", "3"], "studies take --option"),
        (["score", "texts.jsonl", "--judge", "random", "--segment", "nope"], "no segmenter is called 'nope'"),
    ],
)
def test_an_option_that_a_source_does_not_use_is_refused(
    words: list[str], why: str, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert why in capsys.readouterr().err.splitlines()[-1]
