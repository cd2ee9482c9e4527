"""Progress: a bar in a terminal, a line now and then elsewhere, always on the side of stderr."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from footfall import cli, terminal
from footfall.terminal import Progress, told


class Clock:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(terminal, "time", clock)
    return clock


def test_without_a_terminal_a_line_comes_now_and_then(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("label", 100, stream=stream) as shown:
        for _ in range(8):
            clock.now += 2.0
            shown.advance(10)
    assert stream.getvalue() == "label: 50/100, 5.0/s, 0:10 left\nlabel: 80/100, 5.0/s, 0:04 left\n"


def test_what_is_usually_done_in_no_time_is_told_of_where_it_takes_long(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of many traces takes minutes to be read and to be written, before and after the bar of the judgements."""
    assert list(terminal.telling("read", range(3))) == [0, 1, 2]
    assert capsys.readouterr().err == ""
    for _ in terminal.telling("written", range(4), 4):
        clock.now += 6.0
    assert capsys.readouterr().err == "written: 2/4\nwritten: 4/4\n"


def test_scoring_says_how_far_reading_and_writing_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.jsonl").write_text('{"problem": "p", "steps": ["a"]}\n{"problem": "q", "steps": ["b"]}\n')
    monkeypatch.setattr(terminal, "_LINE_EVERY_SECONDS", 0.0)
    assert cli.main(["score", "two.jsonl", "--judge", "length", "--to", "scored.jsonl"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if line.startswith(("read", "written"))] == [
        "read: 1",
        "read: 2",
        "written: 1/2",
        "written: 2/2",
    ]


def test_a_note_stands_at_the_end_of_the_line(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("train", 100, stream=stream) as shown:
        shown.note = "loss 0.412, lr 2.1e-04"
        clock.now += 10.0
        shown.advance(50)
    assert stream.getvalue() == "train: 50/100, 5.0/s, 0:10 left, loss 0.412, lr 2.1e-04\n"


def test_who_works_for_a_chunk_tells_how_far_it_is_and_nobody_else(clock: Clock) -> None:
    stream = io.StringIO()
    told(1, 8, "written")  # nobody listens
    with Progress("label", 100, stream=stream) as shown:
        told(1, 8, "written")
        with shown.listening():
            for done in range(1, 13):
                clock.now += 2.0
                told(done, 128, "written")
        told(99, 128, "written")
        clock.now += 6.0
        shown.advance(30)
    assert stream.getvalue() == (
        "label: 0/100, 0.0/s, ? left, 5/128 written\nlabel: 0/100, 0.0/s, ? left, 10/128 written\n"
        "label: 30/100, 1.0/s, 1:10 left\n"
    )


def test_a_bar_shows_the_batch_at_hand_until_its_chunk_is_done(clock: Clock) -> None:
    stream = Terminal()
    with Progress("label", 8, stream=stream) as shown:
        with shown.listening():
            clock.now += 1.0
            told(3, 16, "written")
            assert shown._bar is not None and shown._bar.tasks[0].fields["rate"] == "0.0/s, 3/16 written"
        shown.advance(8)
        assert shown._bar.tasks[0].fields["rate"] == "8.0/s"


def test_the_rate_counts_only_what_this_process_did(clock: Clock) -> None:
    with Progress("label", 100, done=60, stream=io.StringIO()) as shown:
        clock.now += 4.0
        shown.advance(20)
        assert shown.rate == 5.0


def test_nothing_is_said_when_there_was_nothing_to_do(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("label", 0, stream=stream), Progress("label", 8, done=8, stream=stream):
        pass
    assert stream.getvalue() == ""


def test_a_job_that_fails_does_not_end_with_a_line_as_if_it_were_done(clock: Clock) -> None:
    stream = io.StringIO()
    with pytest.raises(KeyError), Progress("label", 8, stream=stream) as shown:
        shown.advance(4)
        raise KeyError
    assert stream.getvalue() == ""


def test_long_waits_are_told_in_hours(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("label", 10_000, stream=stream) as shown:
        clock.now += 10.0
        shown.advance(1)
    assert "27:46:30 left" in stream.getvalue()


def test_a_terminal_gets_a_bar_with_count_and_rate() -> None:
    stream = Terminal()
    with Progress("label", 8, stream=stream) as shown:
        shown.advance(8)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert "label" in text and "8/8" in text and "/s" in text


def test_by_default_stdout_stays_data(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("label", 8) as shown:
        shown.advance(8)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("label: 8/8")


def test_samples_that_are_written_are_counted_within_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []
    monkeypatch.setattr(Progress, "tell", lambda self, batch: seen.append(batch))
    assert cli.main(["sample", "--problems", "world:arithmetic:3", "--n", "2", "--chunk", "2", "--out", "run"]) == 0
    counts = [tuple(map(int, batch.removesuffix(" written").split("/"))) for batch in seen]
    first, second = ([done for done, total in counts if total == size] for size in (4, 2))
    assert len(first) + len(second) == len(counts) and (first[-1], second[-1]) == (4, 2)
    assert first == sorted(first) and second == sorted(second) and len({*first}) > 2
