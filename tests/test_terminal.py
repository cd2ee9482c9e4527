"""Hostile text: whatever a file holds, no command sends control characters of it to the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from footfall import cli
from footfall.terminal import json_parts, one_line, visible

HOSTILE = {
    "escape": "\x1b[2J\x1b[31mred",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "title": "\x1b]0;owned\x1b\\",
    "C1": "\x9b31mred\x9d52;c;x\x9c",
    "backspace": "safe\x08\x08\x08\x08evil\r",
    "bidi": "a\u202egnp.exe\u2066b\u2069\u200f",
    "delete": "\x7f\x00",
    "line ends": "a\u2028b\u2029c\x0bd\x85e",
}
FORBIDDEN = {chr(c) for c in [*range(0x20), *range(0x7F, 0xA0)]} - {"\n", "\t"} | set(
    "\u202e\u2066\u2069\u200f\u2028\u2029"
)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_unsafe_characters_become_signs_of_the_same_number(text: str) -> None:
    assert not FORBIDDEN & set(visible(text)) and len(visible(text)) == len(text)
    assert visible("\x1b") == "␛" and visible("\u202e") == "�" and visible("\x7f") == "␡"


def test_plain_text_of_any_language_is_left_alone() -> None:
    plain = "ünïcode, 中文, עברית, 👩‍👩‍👧, √2 ≤ x\n\ttab"
    assert visible(plain) == plain


@pytest.mark.parametrize("text", [*HOSTILE.values(), "\ud800"])
def test_json_is_safe_and_still_says_the_same(text: str) -> None:
    made = "".join(json_parts({text: [text]}, safe=True))
    assert not FORBIDDEN & set(made) and json.loads(made) == {text: [text]}
    made.encode()


def test_words_between_colons_stay_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ratio, a name or a path may hold `:m:`; rich would put a picture in its place, and the path would lead nowhere."""
    monkeypatch.chdir(tmp_path)
    trace = {"id": "q:b:1", "problem": "a :100: b", "steps": ["The ratio is a :m: b [bold]so[/bold]."]}
    Path("x:m:y.jsonl").write_text(json.dumps(trace) + "\n", encoding="utf-8")
    assert cli.main(["score", "x:m:y.jsonl", "--judge", "length", "--to", "s:o:.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "q:b:1 a :100: b" in shown and "a :m: b [bold]so[/bold]." in shown
    assert "s:o:.jsonl" in shown


def test_a_line_is_bounded_whatever_its_text() -> None:
    assert one_line("a\nb\x1b", 10) == "a b␛"
    assert one_line("x" * 10**6, 10) == "x" * 9 + "…"
    assert len(one_line(" " * 10**6 + "x", 10)) <= 10


ALL = "".join(HOSTILE.values())
TRACE = {
    "id": f"t{ALL}",
    "problem": f"?{ALL}",
    "answer": ALL,
    "prediction": ALL,
    "steps": [f"a{ALL}", "b"],
    "labels": [1, 0],
}
COMMANDS = [
    ["show", "hostile.jsonl"],
    ["info", "hostile.jsonl"],
    ["score", "hostile.jsonl", "--judge", "random"],
    ["label", "--data", "hostile.jsonl", "--method", "random"],
    ["bench", "steps", "--data", "hostile.jsonl", "--judge", "oracle"],
    ["search", "--problems", "hostile.jsonl", "--method", "majority", "--n", "1", "--policy", "scripted-arithmetic"],
    ["score", "bad.jsonl", "--judge", "random"],
    ["score", "bad.jsonl", "--judge", "random", "--skip-bad"],
    ["show", "hostile.jsonl", "--id", ALL.replace("\x00", "")],
]


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("words", COMMANDS, ids=[" ".join(words[:2]) for words in COMMANDS])
def test_no_command_prints_control_characters_of_its_data(
    words: list[str],
    as_json: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hostile.jsonl").write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    bad = [
        {"problem": "?", "steps": 3, ALL: ALL},
        {ALL: ALL},
        {**TRACE, "labels": [ALL]},
        {"problem": {ALL: 1}, "steps": []},
    ]
    Path("bad.jsonl").write_text("\n".join(map(json.dumps, [*bad, TRACE])), encoding="utf-8")
    cli.main([*words, *as_json])
    shown = capsys.readouterr()
    assert shown.out or shown.err
    assert not FORBIDDEN & set(shown.out + shown.err)
