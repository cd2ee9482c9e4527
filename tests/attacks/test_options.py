"""Absurd numbers, addresses with keys in them, and files that are no files, typed at commands: one line each, and at once."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest

from footfall.commands import COMMANDS
from footfall.commands._config_file import without_values_of_unknown
from footfall.commands._values import MANY, finite_fields
from footfall.commands.sample import SampleConfig
from footfall.reward.backbone import check_rank
from footfall.reward.calibrated import Calibration
from footfall.scale import RayWorkers, Remote, Resources
from footfall.scale.actors import check_answers
from footfall.store import RunError
from footfall.terminal import without_keys
from tests.attacks.commands import CREDIT, KINDS, RL, SAMPLE, SCRIPTED, say

ANY_SIZE = {
    "seed",
    "limit",
    "chunk",
    "show",
    "max_tokens",
    "budget",
    "budget_tokens",
    "budget_calls",
    "tokens_per_second",
}
"""Options that may be as large as one likes: they only say where to stop, or count nothing that is made."""
MANY_DIGITS = "9" * 5000
KEY = "sEcReT-123-tOkEn"
LABEL = ["label", "--data", "none.parquet", *SCRIPTED]
TRAIN = ["train", "--data", "none.parquet"]


def numbers(kind: Any) -> Iterator[tuple[str, type]]:
    """The options of a command that are numbers."""
    hints = get_type_hints(kind)
    for each in fields(kind):
        hint = hints[each.name]
        if is_dataclass(hint):
            yield from numbers(hint)
        else:
            yield from ((each.name, of) for of in (int, float) if of in (get_args(hint) or (hint,)))


def configurations() -> Iterator[Any]:
    for command in COMMANDS.values():
        module = importlib.import_module(command.module)
        names = [command.config] if isinstance(command.config, str) else [*(command.config or {}).values()]
        yield from (getattr(module, name) for name in names)


def options() -> set[tuple[str, type]]:
    return {option for kind in configurations() for option in numbers(kind)}


@pytest.mark.parametrize("name", sorted(name for name, of in options() if of is int and name not in ANY_SIZE))
def test_every_option_that_counts_has_a_largest_number(name: str) -> None:
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} 1000000000000000: it must be "):
        finite_fields({name: 10**15})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_no_option_is_a_number_that_is_none(value: float) -> None:
    for name in sorted(name for name, of in options() if of is float):
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} "):
            finite_fields({name: value})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sample", "--problems", "world:arithmetic:99999999999999", *SCRIPTED], f"N from 1 to {MANY:,}"),
        (["sample", "--problems", f"world:arithmetic:{MANY_DIGITS}", *SCRIPTED], f"N from 1 to {MANY:,}"),
        (["sample", "--problems", "world:arithmetic:²", *SCRIPTED], f"N from 1 to {MANY:,}"),
        ([*SAMPLE, "--n", "1000000000"], f"--n 1000000000: it must be at most {MANY:,}"),
        ([*SAMPLE, "--ray", "--ray-cpus", "1e300"], "--ray-cpus 1e+300: it must be more than 0, and at most 10,000"),
        ([*LABEL, "--rollouts", "1000000000"], "--rollouts 1000000000"),
        ([*TRAIN, "--epochs", "1000000000"], "--epochs 1000000000"),
        ([*TRAIN, "--lora-rank", "99999999"], "--lora-rank 99999999"),
        ([*TRAIN, "--max-length", "0"], "--max-length 0: it must be 1 or more"),
        ([*TRAIN, "--patience", "-1"], "--patience -1: it must be 1 or more"),
        ([*TRAIN, "--patience", "1", "--eval-share", "0"], "patience needs held-out problems: set --eval-share"),
        ([*TRAIN, "--lr", "1e300"], "--lr 1e+300: it must be 0 or more, and at most 100"),
        ([*RL, "--lora-rank", "99999999"], "--lora-rank 99999999"),
        ([*RL, "--lr", "-1"], "--lr -1: it must be 0 or more"),
        ([*RL, "--beta", "-1"], "--beta -1: it must be 0 or more"),
        (["bench", "kinds", *KINDS, "sizes=1000000000000"], "sizes are numbers of traces, from 8 to 999,999"),
        (["bench", "kinds", *KINDS, f"sizes={MANY_DIGITS}"], "sizes are numbers of traces, from 8 to 999,999"),
        (["bench", "kinds", *KINDS, "pool=1000000000000"], f"pool of bench kinds is at most {MANY:,}"),
        (["bench", "kinds", *KINDS, "seeds=1000000"], "'bench kinds': seeds is at most 10,000"),
        (["bench", "kinds", *KINDS, "workers=1000000"], "'bench kinds': workers is 1 or more, and at most 1,024"),
        (["bench", "kinds", *KINDS, f"pool={'[' * 50_000}"], "pool of bench kinds is a whole number"),
        (["bench", "credit", *CREDIT, "horizon=1000000"], "horizon=1000000: at most 1,000 tokens"),
        (["lab", "run", "aurora", "--seeds", "1000000000"], "--seeds 1000000000: it must be at most 10,000"),
        (["lab", "run", "aurora", "--quick", "--workers", "1000000"], "--workers 1000000: it must be 1 or more"),
    ],
)
def test_a_command_with_an_absurd_number_says_the_limit_in_one_line(words: list[str], said: str) -> None:
    code, out, errors = say(words)
    assert (code, out) == (2, "")
    assert said in errors and errors.count("\n") == 1 and len(errors) < 5000


def test_reinforcement_learning_needs_completions_that_differ() -> None:
    pytest.importorskip("trl")
    code, _, errors = say([*RL, "--temperature", "0"])
    assert code == 2 and errors.startswith("footfall: --temperature 0: ") and errors.count("\n") == 1


def test_adapters_have_at_most_the_rank_of_what_they_adapt() -> None:
    config = SimpleNamespace(hidden_size=64)
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: config))
    check_rank(model, 64)
    for rank in (0, 65, 99_999_999):
        with pytest.raises(ValueError, match=f"lora_rank {rank}: from 1 to 64"):
            check_rank(model, rank)


@pytest.mark.parametrize(
    "words",
    [
        ["score", "none.jsonl", "--judge", "random", "--out", f"s3://AKIA:{KEY}@bucket/run"],
        ["score", "none.jsonl", "--judge", "random", "--out", f"s3://AKIA:x/{KEY}@bucket/run"],
        ["score", f"gs://{KEY}@bucket/x.jsonl", "--judge", "random"],
        ["show", f"s3://AKIA:{KEY}@bucket/x"],
        ["info", f"s3://AKIA:{KEY}@bucket/x"],
        ["sample", "--config", f"s3://AKIA:{KEY}@bucket/run"],
        [*SAMPLE[:3], "--url", "http://127.0.0.1:9/v1", "--api-key-env", KEY],
        [*SAMPLE[:3], "--url", f"http://127.0.0.1:9/v1,http://user:{KEY}@127.0.0.1:8/v1"],
        [*SAMPLE, "--ray", f"ray://user:{KEY}@127.0.0.1:9"],
    ],
)
def test_a_key_in_the_wrong_place_is_not_repeated(words: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, errors = say(words)
    assert code == 2 and errors.count("\n") == 1
    assert KEY not in out + errors
    assert not any(KEY in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "words",
    [
        [*SAMPLE, "--api-key-typo", KEY],
        [*SAMPLE, f"--api_key={KEY}"],
        [*LABEL, "--key", KEY, "--rollouts", "2"],
        ["lab", "run", "aurora", "--token", "Bearer", KEY],
        [*SAMPLE, "-k", KEY],
        [*SAMPLE, f"-k{KEY}"],
    ],
)
def test_what_an_unknown_option_was_given_is_not_repeated(words: list[str]) -> None:
    code, out, errors = say(words)
    assert code == 2 and "Unrecognized options" in errors and "***" in errors
    assert KEY not in out + errors


SHAPES = ["sk-proj-1234567890abcdefXYZ", "hf_AbCdEfGhIjKlMnOpQrStUv", "AKIA1234567890ABCDEF"]
OTHER_SHAPES = [
    f"sk-ant-api03-{'aB3-' * 20}AA",
    "sk-lf-550e8400-e29b-41d4-a716-446655440000",
    f"gsk_{'aB3d' * 10}",
    f"ghr_{'aB3d' * 9}",
    f"github_pat_11ABCDEFG0_{'aB3d' * 12}",
    "ASIAABCDEFGHIJK12345",
    f"AIza{'aB3-5' * 7}",
]
NAMES = [
    "sk-learn-baseline-of-monday-2024-v2",
    "hf_traces_of_monday_0123456789",
    "Qwen2-5-Math-7B-Instruct-labels-2024",
    "hf-internal-testing-tiny",
    "MATH_train_lvl5_000123_v2",
]


@pytest.mark.parametrize("key", SHAPES)
def test_what_looks_like_a_key_is_not_repeated(key: str) -> None:
    for words in (
        [*SAMPLE, key], [key], [f"--{key}"], ["list", key], ["list", "policy", key], ["completion", key],
        ["show", key], ["bench", key], [*SAMPLE, "--n", key], [*SAMPLE, f"--n={key}"],
        [*SAMPLE[:3], "--url", key], [*SAMPLE[:3], "--url", f"ftp://{key}/v1"],
    ):  # fmt: skip
        code, out, errors = say(words)
        assert code == 2 and key not in out + errors, words


@pytest.mark.parametrize("key", [*SHAPES, *OTHER_SHAPES])
def test_a_key_is_known_in_any_text(key: str) -> None:
    for around in ("{}", "--{}", "no model is called '{}'", "(?key={}&x)", "{}.jsonl", "my_{}", "{}, {}"):
        assert key not in without_keys(around.format(key, key)), around


@pytest.mark.parametrize("flag", ["--out", "--model"])
def test_nothing_goes_on_under_another_name_than_was_typed(flag: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, errors = say([*SAMPLE, flag, f"runs/{SHAPES[0]}"])
    assert code == 2 and "***" in errors and SHAPES[0] not in out + errors
    assert not list(tmp_path.iterdir()), "no run is written, under whatever name"
    assert say([*SAMPLE, "--out", f"runs/{NAMES[0]}"])[0] == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [NAMES[0]]


@pytest.mark.parametrize("command", ["list", "completion"])
def test_small_commands_repeat_nothing_that_an_unknown_option_was_given(command: str) -> None:
    for words in ([command, "--token", KEY], [command, f"--token={KEY}"], [command, "-k", KEY]):
        code, out, errors = say(words)
        assert code == 2 and errors and KEY not in out + errors


def test_other_names_are_told_and_files_are_read_whatever_they_are_called(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        assert name in say(["show", name])[2] and name in say([*SAMPLE, name])[2]
    for name in (*NAMES, *SHAPES):
        Path(name).write_text('{"problem": "1 + 1?", "steps": ["so 2"]}\n')
        code, out, errors = say(["show", name])
        assert code == 0 and "so 2" in out, errors
        words = ["--problems", name, f"--problems={name}"]
        assert without_values_of_unknown(SampleConfig, words) == words


def test_a_text_of_any_length_is_searched_for_keys_in_a_moment() -> None:
    for text in (
        "sk-" * 300_000,
        "hf_" + "a" * 1_000_000 + "_",
        "sk-" + "a-" * 500_000 + "\n",
        "AIza" * 250_000,
        "github_pat_" * 100_000,
        "sk-a-" * 200_000,
    ):
        before = time.process_time()
        without_keys(text)
        assert time.process_time() - before < 5


def test_a_warning_of_a_library_is_bounded_and_holds_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    say(["info"])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown = warnings.formatwarning("\x1b]52;" + "x" * 1_000_000, UserWarning, "peft.py", 7)
        keyed = warnings.formatwarning(f"token {SHAPES[0]} is no token", UserWarning, "peft.py", 7)
    assert keyed == "peft.py:7: UserWarning: token *** is no token\n"
    assert len(shown) < 5000 and "\x1b" not in shown and shown.startswith("peft.py:7: UserWarning: ␛]52;xxx")


def test_a_log_that_is_not_utf_8_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    say([*SAMPLE, "--n", "1", "--out", str(tmp_path / "run")])
    with (tmp_path / "run" / "log.jsonl").open("ab") as log:
        log.write(b'\xff\xfe{"event": 3}\n[1]\n{}\n')
    code, out, errors = say(["info", str(tmp_path / "run")])
    assert code == 0 and not errors and "sample" in out


@pytest.mark.parametrize("command", [name for name, command in COMMANDS.items() if isinstance(command.config, str)])
def test_what_an_option_of_a_command_was_given_is_kept(command: str) -> None:
    module, config, _ = COMMANDS[command]
    shown = re.findall(r"^[\s│]*(?:-\w, )?(--[a-z][a-z-]*)", say([command, "--help"])[1], re.MULTILINE)
    words = [word for flag in shown for word in (flag, "value")]
    assert "--config" in words
    assert without_values_of_unknown(getattr(importlib.import_module(module), str(config)), words) == words


def test_a_failing_disk_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    """The memory of this process is a file whose first byte cannot be read."""
    for words in (["show"], ["info"], ["score", "--judge", "random", "--out", str(tmp_path / "run")]):
        code, _, errors = say([*words, "/proc/self/mem"])
        assert code == 2 and errors.count("\n") == 1 and "/proc/self/mem" in errors and "nput/output error" in errors


@pytest.mark.parametrize("address", [f"s3://AKIA:{KEY}@bucket/run", f"gs://{KEY}@bucket/run", f"s3://A:{KEY}/b"])
def test_an_address_with_a_key_in_it_is_refused(address: str) -> None:
    with pytest.raises(RunError, match="credentials come from the environment") as caught:
        Remote(address)
    assert KEY not in str(caught.value)


def test_a_device_or_pipe_in_a_store_is_not_read(tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    code, _, errors = say(["score", "file:///dev/zero", "--judge", "random"])
    assert code == 2 and errors == "footfall: file:///dev/zero is no plain file but a folder, pipe or device\n"
    (tmp_path / "bucket" / "run").mkdir(parents=True)
    os.mkfifo(tmp_path / "bucket" / "run" / "config.json")
    code, _, errors = say(["score", "none.jsonl", "--judge", "random", "--out", f"file://{tmp_path}/bucket/run"])
    assert code == 2 and errors.count("\n") == 1


def test_a_cluster_that_is_none_is_told_at_once() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(RunError, match=r"no cluster answers there: .*refused"):
            check_answers(f"127.0.0.1:{closed.getsockname()[1]}")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def as_a_web_server() -> None:
            there, _ = server.accept()
            with there:
                there.recv(100)
                there.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=as_a_web_server, daemon=True).start()
        with pytest.raises(RunError, match="what answers is no Ray"):
            check_answers(f"ray://127.0.0.1:{server.getsockname()[1]}")
    for address in ("local", "auto"):
        check_answers(address)


@pytest.mark.parametrize(
    "wanted", [Resources(cpus=3), Resources(gpus=1), Resources(memory_gib=9), Resources(1, cpus=3)]
)
def test_a_worker_that_this_machine_has_no_room_for_is_no_endless_wait(wanted: Resources) -> None:
    make: Any = None
    workers: Any = RayWorkers("local", make, wanted)
    workers._ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 2.0, "memory": 8.0 * 2**30})
    with pytest.raises(RunError, match="this machine has"):
        workers._room()


DIGITS = "1" + "0" * 400


@pytest.mark.parametrize(
    "damage",
    [
        ("[" * 100_000, "deep"),
        ("[0, 1]", "[NaN, 1]"),
        ("[0, 1]", f"[0, {DIGITS}]"),
        ('"rows": 1', '"rows": 1e400'),
    ],
    ids=["deep", "NaN", "400 digits", "infinite rows"],
)
def test_a_damaged_calibration_is_told_in_one_line(damage: tuple[str, str], tmp_path: Path) -> None:
    of = {"name": "random", "settings": {}}
    whole = {"of": of, "kind": "isotonic", "names": ["value"], "numbers": [[0, 1]], "rows": 1, "judge": "random"}
    (tmp_path / "calibration.json").write_text(damage[0] if damage[1] == "deep" else json.dumps(whole).replace(*damage))
    with pytest.raises(ValueError, match="holds no calibration"):
        Calibration.read(tmp_path / "calibration.json")
    (tmp_path / "traces.jsonl").write_text(json.dumps({"problem": "3 + 4?", "steps": ["7"]}) + "\n")
    code, _, errors = say(
        ["score", str(tmp_path / "traces.jsonl"), "--judge", str(tmp_path), "--out", str(tmp_path / "run")]
    )
    assert code == 2 and errors.count("\n") == 1 and "calibration.json" in errors


def test_deep_nesting_in_the_files_of_a_prm_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "step_head.json").write_text('{"a":' * 100_000)
    (tmp_path / "traces.jsonl").write_text(json.dumps({"problem": "3 + 4?", "steps": ["7"]}) + "\n")
    words = ["score", str(tmp_path / "traces.jsonl"), "--judge", str(tmp_path), "--out", str(tmp_path / "run")]
    code, _, errors = say(words)
    assert code == 2 and errors.count("\n") == 1 and "step_head.json" in errors and "nested too deeply" in errors


def test_what_a_library_logs_of_a_file_has_no_control_characters(caplog: Any, tmp_path: Path) -> None:
    """transformers quotes the kind of a model that it does not know."""
    say(["info", str(tmp_path)])
    logging.getLogger("transformers.some_module").warning("a model of type `%s`", "\x1b]52;c;aGk=\x07" + "x" * 10_000)
    assert "␛]52;c;aGk=␇" in caplog.text and "\x1b" not in caplog.text and len(caplog.text) < 5000
