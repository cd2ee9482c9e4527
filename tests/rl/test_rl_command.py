"""`footfall rl`: the run directory, what is measured, watched and told, and what it refuses."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

from footfall import cli
from footfall.commands._rl_setting import RlConfig, open_problems, open_setting
from footfall.render import prompt_ids
from footfall.rl.loop import looks
from footfall.rl.monitors import Alarm
from footfall.rl.settings import RlSettings
from tests.rl.runs import events, model, words

__all__ = ["model"]


def test_an_adapter_is_the_same_bytes_in_every_process(model: Path, tmp_path: Path) -> None:
    """PEFT's own order of names is that of a set, another one in every process."""
    pytest.importorskip("peft", reason="could not import 'peft'")
    assert cli.main(words(model, tmp_path / "run", "--updates", "1", "--lora-rank", "2")) == 0
    files = [*(tmp_path / "run").rglob("adapter_config.json")]
    assert len(files) == 2, "the model's, and that of its checkpoint"
    for file in files:
        names = json.loads(file.read_text())["target_modules"]
        assert len(names) > 3 and names == sorted(names)


def test_a_run_ends_with_the_name_of_each_sign(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six exploits that pay it said six times "it pays for 56% of traces"."""
    sign = Alarm("exploit: thanks", 1, "it pays for 56% of traces")
    monkeypatch.setattr("footfall.rl.loop.alarms", lambda *_: [sign])
    assert cli.main([each for each in words(model, tmp_path / "run", "--updates", "1") if each != "--json"]) == 0
    assert "signs     exploit: thanks: it pays for 56% of traces" in capsys.readouterr().out


def test_a_run_is_measured_watched_and_shown(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    how = ("--credit", "prime", "--online-lr", "1e-3")
    assert cli.main(words(model, out, "--updates", "3", *how)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rollouts"] == 24 and told["updates"] == 3 and list(told)[-2:] == ["before", "after"]
    assert [row["update"] for row in events(out, "update")] == [1, 2, 3]
    points = events(out, "checkpoint")
    assert [row["update"] for row in points] == [0, 2, 3], "at the start, at every checkpoint, at the end"
    assert points[0]["kl"] == 0 and points[-1]["kl"] != 0 and "repetition" in points[-1]["figures"]
    assert all(row["graded"].count(True) == row["right"] and len(row["graded"]) == 6 for row in points)
    page = (out / "report.html").read_text()
    for words_ in ("True accuracy", "KL to the policy at first", "Entropy", "repeated steps", "<script"):
        assert (words_ in page) == (words_ != "<script")
    assert cli.main(words(model, out, "--updates", "3", *how)) == 0
    assert json.loads(capsys.readouterr().out) == told, "a finished run is not done again"
    assert len(events(out, "update")) == 3
    log = (out / "log.jsonl").read_text()
    for garbage in (
        '{"event": "update"}',
        '{"event": "traces", "update": 1, "rows": 3}',
        '{"event": "checkpoint", "update": []}',
    ):
        (out / "log.jsonl").write_text(f"{log}{garbage}\n")
        assert cli.main(words(model, out, "--updates", "3", *how)) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"{out / 'log.jsonl'}: a file of it is damaged" in said


def test_a_run_that_is_hacked_can_be_stopped(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("footfall.rl.loop.hacked", lambda run, _: run[-1].update >= 4)
    told = {}
    for name, more in (("stopped", ("--stop-hacked",)), ("goes on", ())):
        assert cli.main(words(model, tmp_path / name, "--updates", "8", *more)) == 0
        told[name] = json.loads(capsys.readouterr().out)
    assert (told["stopped"]["updates"], told["goes on"]["updates"]) == (4, 8)
    assert told["stopped"]["hacked"] and (tmp_path / "stopped" / "model" / "model.safetensors").is_file()
    assert cli.main(words(model, tmp_path / "stopped", "--updates", "8", "--stop-hacked")) == 0
    assert json.loads(capsys.readouterr().out) == told["stopped"], "it stays stopped"


def test_a_trained_policy_keeps_its_own_special_tokens(model: Path, tmp_path: Path) -> None:
    """The Trainer puts the tokenizer's in their place, but not in a run that was killed after its last update."""
    own = tmp_path / "own"
    shutil.copytree(model, own)
    for name in ("config.json", "generation_config.json"):
        said = json.loads((own / name).read_text())
        (own / name).write_text(json.dumps({**said, "pad_token_id": 5, "eos_token_id": [2, 7], "bos_token_id": None}))
    assert cli.main(words(own, tmp_path / "run", "--updates", "1")) == 0
    for name in ("config.json", "generation_config.json"):
        said = json.loads((tmp_path / "run" / "model" / name).read_text())
        assert (said["pad_token_id"], said["eos_token_id"], said.get("bos_token_id")) == (5, [2, 7], None), name


def test_what_it_will_take_is_measured_and_nothing_is_left(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words(model, tmp_path / "run", "--updates", "40", "--estimate")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rollouts"] == 320 and told["tokens"] <= 320 * 16 and told["seconds_a_checkpoint"] > 0
    # Measured at the start and after every second update.
    whole = 40 * told["seconds_an_update"] + 21 * told["seconds_a_checkpoint"]
    assert told["seconds"] == pytest.approx(whole, abs=0.2)
    assert sum(told[part] for part in ("writing", "judging", "training")) == pytest.approx(1, abs=0.01)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--updates", "0"), "at least 1"),
        (("--accumulation", "3"), "divisors"),
        (("--forced", " "), "--forced is empty"),
        (("--forced", "So"), "with this credit no probe of confidences learns beside the policy"),
        (("--credit", "prl", "--online-lr", "1e-5"), "with this credit no reward model learns beside the policy"),
        (("--credit", "prl,eta=0"), "1/eta is the weight of the KL"),
        (("--credit", "pure,temperature=-1"), "want 0 for the strict form"),
        (("--model", "/no/such/folder"), "--model /no/such/folder: there is no such folder"),
        (("--credit", "gpro"), "grpo"),
        (("--prompts", "64"), "problems to train on"),
        (("--credit", "pure,form=sun"), "sun"),
        (("--system", "Reason step by step."), "has no chat template"),
        (("--credit", "capo", "--judge", "critic"), "for rl --judge-policy"),
        (("--credit", "capo", "--judge", "truth-arithmetic", "--judge-policy", "embedded"), "takes no --policy"),
        (
            ("--judge", "truth-arithmetic", "--held-out-judge", "truth-arithmetic", "--judge-policy", "embedded"),
            "asks no model",
        ),
        (("--judge-policy", "embedded"), "there is no judge"),
        (("--aggregate", "sum"), "--aggregate sum: with the credit grpo the outcome is what is logged"),
        (
            ("--credit", "grpo-process", "--judge", "truth-arithmetic", "--outcome", "min"),
            "--outcome min: the credit grpo-process reads no outcome, and no filter does; leave it out",
        ),
        (("--set", "consequent=1.0"), "--set consequent=1.0: no judge is asked with this credit; name one by --judge"),
        (
            ("--chunk", "4", "--writer", "trl"),
            "--chunk 4: trl writes whole batches and no judge reads them; leave it out",
        ),
        (
            ("--credit", "dr-grpo,eps=0.1"),
            "has no use for eps=… as it is set; it is for scale=group and scale=batch; leave it out",
        ),
        (("--credit", "pure-sum,temperature=0.2", "--judge", "truth-arithmetic"), "it is for form=min; leave it out"),
        (("--filter", "prof,seed=3", "--judge", "truth-arithmetic"), "it is for wrong_at_random=true; leave it out"),
        (("--filter", "prof", "--judge", "truth-arithmetic", "--group", "4"), "keeps 0 of a group's 4 rollouts"),
    ],
)
def test_what_does_not_fit_is_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    assert cli.main(words(model, tmp_path / "run", *given)) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(("iterations", "every", "at"), [(1, 2, [0, 2, 3]), (3, 2, [0, 3]), (1, 1, [0, 1, 2, 3])])
def test_as_many_looks_as_an_estimate_reckons_with(
    model: Path, tmp_path: Path, iterations: int, every: int, at: list[int]
) -> None:
    how = ("--updates", "3", "--iterations", f"{iterations}", "--checkpoint-every", f"{every}")
    assert cli.main(words(model, tmp_path / "run", *how)) == 0
    assert [row["update"] for row in events(tmp_path / "run", "checkpoint")] == at
    assert looks(RlSettings(updates=3, iterations=iterations, checkpoint_every=every)) == len(at)


def in_file(file: Path, rows: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_a_text_that_is_held_out_of_a_file_is_not_trained_on(tmp_path: Path) -> None:
    asked = [*range(20), 3, 19, 20, 21, 22]  # 3 and 19 again among the last five
    file = in_file(
        tmp_path / "all.jsonl",
        [{"id": f"{i}", "problem": f"{n} + 1?", "answer": f"{n + 1}"} for i, n in enumerate(asked)],
    )
    train, held_out = open_problems(RlConfig(problems=file))
    assert [each.answer for each in held_out] == ["4", "20", "21", "22", "23"]
    assert [each.answer for each in train] == [f"{n + 1}" for n in range(19) if n != 3]


@pytest.mark.parametrize("changed", ["train", "held out"])
def test_other_problems_under_the_same_name_are_another_run(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    def problems(name: str, answer: int) -> str:
        rows = [{"id": f"{i}", "problem": f"{name}: {i} + 1?", "answer": f"{i + answer}"} for i in range(6)]
        return in_file(tmp_path / f"{name}.jsonl", rows)

    files = ("--problems", problems("train", 1), "--held-out", problems("held out", 1), "--updates", "1")
    assert cli.main(words(model, tmp_path / "run", *files)) == 0
    assert cli.main(words(model, tmp_path / "run", *files)) == 0
    capsys.readouterr()
    problems(changed, 2)
    assert cli.main(words(model, tmp_path / "run", *files)) == 2
    error = capsys.readouterr().err
    assert f"{'problems' if changed == 'train' else 'held_out'}_key" in error and "--fresh" in error


def test_problems_without_answers_are_told_at_the_start(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, Any]] = [{"id": f"{n}", "problem": f"{n} + 1?"} for n in range(10)]
    given = ("--problems", in_file(tmp_path / "none.jsonl", rows), "--updates", "1")
    assert cli.main(words(model, tmp_path / "none", *given)) == 2
    error = capsys.readouterr().err
    assert "no problem has a reference answer" in error and error.count("\n") == 1
    rows[0]["answer"] = "1"
    given = ("--problems", in_file(tmp_path / "one.jsonl", rows), "--updates", "1")
    assert cli.main(words(model, tmp_path / "one", *given)) == 0
    said = capsys.readouterr()
    assert "one.jsonl: 7 of 8 problems have no reference answer" in said.err
    told = json.loads(said.out)
    assert told["before"] is None and told["after"] is None, "what is not known is no zero"
    page = (tmp_path / "one" / "report.html").read_text()
    assert "Accuracy is not known: no held-out problem has a reference answer" in page and "True accuracy" not in page


def test_chance_is_reckoned_with_the_samples_whose_truth_is_known(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": f"{n}", "problem": f"{n} + 1?", **({"answer": f"{n + 1}"} if n != 9 else {})} for n in range(10)]
    given = ("--problems", in_file(tmp_path / "some.jsonl", rows), "--updates", "1")
    assert cli.main(words(model, tmp_path / "some", *given)) == 0
    (first, _) = events(tmp_path / "some", "checkpoint")
    assert len(first["graded"]) == 2 and first["graded"][1] is None and first["rollouts"] == 1
    ci = json.loads(capsys.readouterr().out)["before"]["ci95"]
    assert ci[1] - ci[0] > 0.75, "of one sample"


@pytest.mark.parametrize("log", ["tensorboard", "wandb"])
def test_a_log_whose_package_is_missing_is_told_in_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    for name in ("wandb", "tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert cli.main(words(model, tmp_path / "run", "--log", log)) == 2
    error = capsys.readouterr().err
    assert f"--log {log} needs the package {log}" in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_system_message_stands_before_every_problem(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "chat"
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<a>")
    config = RlConfig("world:arithmetic:24", model=str(folder), system="Be brief.", device="cpu")
    given = open_setting(config, open_problems(config))
    assert given.template is not None
    text = str(given.tokenizer.decode(prompt_ids(given.tokenizer, given.problems[0], given.template)))
    assert text.startswith("<system>Be brief.<user>") and text.endswith("<a>")
    served = replace(config, writer="http,url=http://localhost:1/v1,mode=chat,model=m")
    writer: Any = open_setting(served, open_problems(served)).writer
    assert writer.system == "Be brief.", "a server that writes is told too"
    twice = replace(config, writer="http,url=http://localhost:1/v1,mode=chat,model=m,system=Be long.")
    with pytest.raises(ValueError, match=r"system is said twice, as Be brief\. and as Be long\."):
        open_setting(twice, open_problems(twice))
