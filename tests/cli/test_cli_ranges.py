"""Numbers out of range, said in one line that names the option, before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from footfall import cli
from footfall.commands._options import policy_in_words


@pytest.mark.parametrize("command", [("sample", "--problems"), ("search", "--problems"), ("label", "--data")])
@pytest.mark.parametrize(
    ("option", "value", "range"),
    [
        ("--timeout", "0", "more than 0 seconds"),
        ("--retries", "-1", "0 or more"),
        ("--concurrency", "0", "1 or more"),
        ("--temperature", "-1", "0 or more"),
        ("--top-p", "0", "more than 0 and at most 1"),
        ("--top-k", "-1", "0 or more"),
        ("--max-tokens", "0", "1 or more"),
        ("--seed", "-1", "0 or more"),
    ],
)
def test_a_number_out_of_range_is_named_with_its_option_and_range(
    command: tuple[str, str], option: str, value: str, range: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    address = ("--url", "http://localhost:1/v1")
    assert cli.main([*command, str(tmp_path / "none.jsonl"), *address, option, value]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"footfall: {option} {value}: it must be {range}")


def test_a_policy_in_one_word_has_the_same_ranges() -> None:
    with pytest.raises(ValueError, match="'http,url=http://x/v1,timeout=0': timeout is more than 0 seconds"):
        policy_in_words("http,url=http://x/v1,timeout=0")
