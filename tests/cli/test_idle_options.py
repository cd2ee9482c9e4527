"""An option that nobody has a use for is refused in one line: nothing that the user asked for is ignored in silence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from footfall import cli
from footfall.commands import score
from footfall.commands._options import PolicyOptions
from footfall.commands._parts import placed

TRACE = '{{"problem": "2 + {0} = ?", "steps": ["2 + {0} = {1}"], "labels": [{2}]}}\n'
WORLD = ["bench", "steps", "--data", "world:arithmetic:4"]
SEARCH = ["search", "--problems", "world:arithmetic:2", "--policy", "scripted-arithmetic"]
LABEL = ["label", "--data", "traces.jsonl", "--method", "formal"]
TRAIN = ["train", "--data", "traces.jsonl"]


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [TRACE.format(i, 2 + i + i % 2, 1 - i % 2) for i in range(8)]
    Path("traces.jsonl").write_text("".join(lines), encoding="utf-8")


def refusal(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    capsys.readouterr()
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("footfall: ") and shown.err.count("\n") == 1
    assert not Path("runs").exists()
    return shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*TRAIN, "--accelerate", "fsdp2.yaml"], "begin the command with accelerate launch --config_file fsdp2.yaml -m"),
        ([*SEARCH, "--ray-workers", "3"], "--ray-workers is of the workers of --ray; say --ray too"),
        ([*LABEL, "--ray-gpus", "1"], "--ray-gpus is of the workers of --ray; say --ray too"),
        ([*LABEL, "--out", "gcs://bucket/run"], "--out gcs:/bucket/run: stores are named s3://BUCKET/NAME, gs://"),
        ([*LABEL, "--out", "s3://"], "--out s3:: stores are named s3://BUCKET/NAME"),
        ([*LABEL, "--store", "s3://bucket/rollouts"], "--store s3://bucket/rollouts: it is a place on this machine"),
        (["score", "hdfs://host/traces.jsonl", "--judge", "formal"], "--data hdfs://host/traces.jsonl: stores are named"),
        (["score", "traces.jsonl", "--judge", "formal", "--to", "s3://b/x.jsonl"], "--to s3:/b/x.jsonl: it is a place on this"),
        (["score", "traces.jsonl", "--judge", "formal", "--device", "cpu"], "'formal' takes no --device"),
        (["score", "traces.jsonl", "--judge", "formal", "--model", "m"], "--model says how a policy is asked"),
        (["score", "traces.jsonl", "--judge", "formal", "--retries", "1"], "--retries says how a policy is asked"),
        (["calibrate", "--data", "traces.jsonl", "--judge", "formal", "--device", "cpu"], "takes no --device"),
        ([*LABEL, "--device", "cpu"], "takes no --device"),
        ([*LABEL, "--store", "rollouts"], "--store means nothing for formal"),
        ([*WORLD, "--judge", "formal", "--device", "cpu"], "takes no --device"),
        ([*WORLD, "--judge", "formal", "--temperature", "0.5"], "takes no --temperature"),
        ([*WORLD, "--judge", "formal", "--allow-constant"], "about the file of --scores"),
        ([*WORLD, "--judge", "oracle", "--top-p", "0.5"], "the oracle says what the benchmark knows; it takes no --top-p"),
        ([*WORLD, "--scores", "s.jsonl", "--device", "cpu"], "those of a judge elsewhere and take no --device"),
        (["bench", "steps", "--data", "traces.jsonl", "--scores", "s.jsonl", "--policy", "embedded"], "take no --policy"),
        (["bench", "compare", "a", "b", "--option", "x=1"], "takes finished runs and no --option"),
        (["bench", "labels", "--chunk", "3"], "takes no --chunk"),
        (["rl", "--quick", "--limit", "3"], "rl --quick is one comparison with settings of its own and takes no --limit"),
        (["rl", "--quick", "--updates", "5"], "takes no --updates"),
        (["rl", "--quick", "--credit", "pure"], "takes no --credit"),
        (["rl", "--quick", "--estimate"], "takes no --estimate"),
        ([*SEARCH, "--method", "majority", "--judge", "formal"], "'majority' asks no judge"),
        ([*SEARCH, "--method", "majority", "--device", "cpu"], "the policy 'scripted-arithmetic' takes no --device"),
        ([*SEARCH, "--judge", "formal", "--device", "cpu"], "the labeller 'formal' takes no --device"),
        (["sample", "--problems", "world:arithmetic:1", "--url", "http://127.0.0.1:9/v1", "--mode", "chat", "--template",
          "Q {prompt} A {steps}"], "chat mode sends messages and no template"),
        ([*TRAIN, "--contaminated", "drop"], "about the problems of --against"),
    ],
)  # fmt: skip
def test_an_option_without_a_use_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refusal(capsys, words)


def test_the_device_goes_to_whoever_has_a_use_for_it() -> None:
    """A PRM beside a server, or beside a world's scripted writer, may be put on a device; a model takes it for itself."""
    for policy in ("http", "scripted-arithmetic", None):
        assert placed(PolicyOptions(policy, device="cuda:1")) == (PolicyOptions(policy), {"device": "cuda:1"})
    for policy in ("embedded", "owner/name"):
        assert placed(PolicyOptions(policy, device="cuda:1")) == (PolicyOptions(policy, device="cuda:1"), {})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["score", "traces.jsonl", "--judge", "footfall/smoll"], "did you mean 'footfall/smol'?"),
        (["sample", "--problems", "world:arithmetic:1", "--policy", "footfall/smoll"], "did you mean 'footfall/smol'?"),
        (
            ["sample", "--problems", "world:arithmetic:1", "--policy", "footfall/smol"],
            "a reward, and no language model",
        ),
        (["sample", "--problems", "world:arithmetic:1", "--policy", "embeded"], "did you mean 'embedded'?"),
        ([*TRAIN, "--backbone", "footfall/smoll"], "did you mean 'footfall/smol'?"),
        (["score", "traces.jsonl", "--judge", "runs/traces"], "runs/traces: there is no such folder; there are: none"),
    ],
)
def test_a_name_mistyped_is_not_looked_for_on_the_hub(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(capsys, words)


def test_lora_without_its_package_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    capsys.readouterr()
    assert cli.main([*TRAIN, "--lora-rank", "4", "--device", "cpu"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == "footfall: LoRA needs the package peft; install it with: pip install peft"


def test_a_package_that_a_library_asks_for_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers says on several lines what a tokenizer needs."""

    def fails(_: object) -> int:
        raise ImportError("\nT5Converter requires the protobuf library\nbut it was not found\n")

    monkeypatch.setattr(score, "main", fails)
    said = refusal(capsys, ["score", "traces.jsonl"])
    assert said == "footfall: T5Converter requires the protobuf library but it was not found\n"


def test_adapters_are_folded_in_only_where_there_are_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*TRAIN, "--merge-lora", "--device", "cpu"]) == 2
    assert "there are no adapters to fold into the weights" in capsys.readouterr().err
