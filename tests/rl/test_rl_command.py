"""`footfall rl`: the run directory, what is watched and told, and that a killed run ends with the same weights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import safetensors.torch
import torch

from footfall import cli
from footfall.commands._options import JudgeOptions
from footfall.commands.rl import RlConfig, _judge, _problems
from footfall.judging import forget
from footfall.policy.embedded import EMBEDDED
from footfall.registry import create
from footfall.render import prompt_ids
from footfall.reward.prm import PRM
from footfall.rl.loop import Watch
from footfall.scale import Remote
from footfall.store import Run
from footfall.types import Judgement, Step, Trajectory
from footfall.worlds import ArithmeticWorld
from tests.reward.test_reward_served import serving
from tests.rl.test_rl_trainer import small
from tests.train import fsdp_on_cpu
from tests.train.test_train_processes import FSDP2, MODULE, kill_main_at, launch

SIZES = ("--problems", "world:arithmetic:24", "--prompts", "2", "--group", "4", "--checkpoint-every", "2", "--measured", "6",
         "--max-tokens", "16", "--lr", "1e-3", "--device", "cpu")  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer with the embedded model's tokenizer."""
    folder = tmp_path_factory.mktemp("small") / "model"
    small().save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((EMBEDDED / name).read_bytes())
    return folder


def words(model: Path, out: Path, *more: str) -> list[str]:
    return ["rl", "--model", str(model), "--out", str(out), *SIZES, "--json", *more]


def events(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def weights(out: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(out / "model" / "model.safetensors")


def test_an_adapter_is_the_same_bytes_in_every_process(model: Path, tmp_path: Path) -> None:
    """PEFT's own order of names is that of a set, another one in every process."""
    pytest.importorskip("peft", reason="could not import 'peft'")
    assert cli.main(words(model, tmp_path / "run", "--updates", "1", "--lora-rank", "2")) == 0
    files = [*(tmp_path / "run").rglob("adapter_config.json")]
    assert len(files) == 2, "the model's, and that of its checkpoint"
    for file in files:
        names = json.loads(file.read_text())["target_modules"]
        assert len(names) > 3 and names == sorted(names)


def test_a_run_is_measured_watched_and_shown(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    how = ("--credit", "prime", "--online-lr", "1e-3", "--aggregate", "sum")
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


class Critic(BaseHTTPRequestHandler):
    """A chat server that answers as ProcessBench's critics do, and fails every third call."""

    calls = 0
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        Critic.calls += 1
        text = f"\\boxed{{{-(Critic.calls % 2)}}}"
        reply = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
        body = json.dumps({"error": "boom"} if Critic.calls % 3 == 0 else reply).encode()
        self.send_response(500 if Critic.calls % 3 == 0 else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def critic() -> Iterator[str]:
    """The address of one."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Critic)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_critic_behind_a_server_that_fails_a_third_of_its_calls_costs_rollouts_and_not_the_run(
    model: Path, tmp_path: Path, critic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, asked = tmp_path / "run", f"http,url={critic},mode=chat,model=m,retries=0"
    how = ("--updates", "3", "--credit", "capo", "--judge", "critic", "--judge-policy", asked)
    assert cli.main(words(model, out, *how, "--held-out-judge", "truth-arithmetic")) == 0
    told, said = capsys.readouterr()
    left = [row["left"] for row in events(out, "update")]
    assert json.loads(told)["left"] == sum(left) and 4 <= sum(left) <= 12, "of 24 rollouts"
    assert "boom" not in said and "All reward functions" not in said
    figures = [row["figures"] for row in events(out, "checkpoint")]
    assert all(row["held_out"] is not None for row in figures), "the judge that is not trained on"
    assert any(0 < row["unjudged"] < 1 for row in figures)
    assert "Held-out judge" in (out / "report.html").read_text()


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


def test_a_run_that_was_killed_after_its_last_update_makes_no_other(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, log = tmp_path / "run", tmp_path / "run" / "log.jsonl"
    assert cli.main(words(model, out, "--updates", "3")) == 0
    weights = out / "model" / "model.safetensors"
    told, before = json.loads(capsys.readouterr().out), weights.read_bytes()
    (out / "model").rename(out / "model.partial")
    (out / "result.json").unlink()
    log.write_text("".join(line for line in log.read_text().splitlines(True) if '"finished"' not in line))
    assert cli.main(words(model, out, "--updates", "3")) == 0
    assert {**json.loads(capsys.readouterr().out), "shares": 0} == {**told, "shares": 0}
    assert [row["update"] for row in events(out, "update")] == [1, 2, 3]
    assert weights.read_bytes() == before
    assert not [*out.rglob("README.md")], "a card of TRL has its tags in another order in every process"


def test_a_checkpoint_whose_optimizer_deepspeed_parted_is_refused_without_deepspeed(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Trainer would go on from its weights with a new optimizer, without a word."""
    out, log = tmp_path / "run", tmp_path / "run" / "log.jsonl"
    assert cli.main(words(model, out, "--updates", "3")) == 0
    (out / "result.json").unlink()
    log.write_text("".join(line for line in log.read_text().splitlines(True) if '"finished"' not in line))
    shutil.rmtree(out / "checkpoints" / "checkpoint-3")
    parts = out / "checkpoints" / "checkpoint-2" / "global_step2"
    parts.mkdir()
    for rank in range(2):
        (parts / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").touch()
    assert cli.main(words(model, out, "--updates", "3")) == 2
    assert "was written with DeepSpeed: go on with it" in capsys.readouterr().err


def test_what_it_will_take_is_measured_and_nothing_is_left(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words(model, tmp_path / "run", "--updates", "40", "--estimate")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rollouts"] == 320 and told["tokens"] <= 320 * 16 and told["seconds"] > 0
    assert sum(told[part] for part in ("writing", "judging", "training")) == pytest.approx(1, abs=0.01)
    assert not (tmp_path / "run").exists()


def test_a_judge_reads_a_prompt_once_for_a_group(tmp_path: Path) -> None:
    PRM.from_backbone(EMBEDDED, seed=1).save(tmp_path / "prm")
    judge = _judge(RlConfig(judge=JudgeOptions(str(tmp_path / "prm")), device="cpu"), create("credit", "pure"))
    assert judge is not None
    (problem,) = ArithmeticWorld().problems(1)
    group = [Trajectory(f"{i}", problem, (Step(f"{i} + 1 = {i + 1}"), Step("so it is"))) for i in range(4)]
    together = [said.cost.scored_tokens for said in judge.judge(group)]
    assert together[0] > 2 * max(together[1:]), "the first pays the prompt"
    apart: list[Judgement] = []
    for trace in group:
        forget(judge)
        apart += judge.judge([trace])
    assert [each.values for each in judge.judge(group)] == [pytest.approx(each.values, abs=1e-5) for each in apart]


@pytest.mark.parametrize("credit", ["pav", "red"])
def test_a_prm_values_the_bare_problem_and_tokens_for_credits_that_read_them(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], credit: str
) -> None:
    PRM.from_backbone(EMBEDDED, seed=1).save(tmp_path / "prm")
    how = ("--updates", "1", "--measured", "2", "--credit", credit, "--judge", str(tmp_path / "prm"))
    assert cli.main(words(model, tmp_path / "run", *how)) == 0
    assert json.loads(capsys.readouterr().out)["left"] == 0
    (update,) = events(tmp_path / "run", "update")
    assert update["grad_norm"] > 0, "something was learnt"


def test_a_prm_behind_a_server_pays_what_it_pays_in_this_process(model: Path, tmp_path: Path) -> None:
    PRM.from_backbone(EMBEDDED, seed=1).save(tmp_path / "prm")
    how = ("--updates", "2", "--measured", "2", "--credit", "pure,coef=0", "--judge")
    assert cli.main(words(model, tmp_path / "here", *how, str(tmp_path / "prm"))) == 0
    with serving(create("reward", "step-head", path=str(tmp_path / "prm"), device="cpu")) as url:
        assert cli.main(words(model, tmp_path / "served", *how, url)) == 0
    paid = [[row["reward"] for row in events(tmp_path / name, "update")] for name in ("here", "served")]
    assert paid[0] == pytest.approx(paid[1], abs=1e-5) and len({*paid[0]}) == 2
    here, served = weights(tmp_path / "here"), weights(tmp_path / "served")
    assert all(torch.allclose(here[name], served[name], atol=1e-4) for name in here)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--updates", "0"), "at least 1"),
        (("--accumulation", "3"), "divisors"),
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
        (("--filter", "prof", "--judge", "truth-arithmetic", "--group", "4"), "keeps 0 of a group's 4 rollouts"),
    ],
)
def test_what_does_not_fit_is_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    assert cli.main(words(model, tmp_path / "run", *given)) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def in_file(file: Path, rows: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_a_text_that_is_held_out_of_a_file_is_not_trained_on(tmp_path: Path) -> None:
    asked = [*range(20), 3, 19, 20, 21, 22]  # 3 and 19 again among the last five
    file = in_file(
        tmp_path / "all.jsonl",
        [{"id": f"{i}", "problem": f"{n} + 1?", "answer": f"{n + 1}"} for i, n in enumerate(asked)],
    )
    train, held_out = _problems(RlConfig(problems=file))
    assert [each.answer for each in held_out] == ["4", "20", "21", "22", "23"]
    assert [each.answer for each in train] == [f"{n + 1}" for n in range(19) if n != 3]


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
    assert "one.jsonl: 7 of 8 problems have no reference answer" in capsys.readouterr().err


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
    from footfall.commands.rl import RlConfig, _setting

    folder = tmp_path / "chat"
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<a>")
    config = RlConfig("world:arithmetic:24", model=str(folder), system="Be brief.", device="cpu")
    given = _setting(config)
    assert given.template is not None
    text = str(given.tokenizer.decode(prompt_ids(given.tokenizer, given.problems[0], given.template)))
    assert text.startswith("<system>Be brief.<user>") and text.endswith("<a>")


LIVES = """
import os, random, signal, sys, time
from pathlib import Path
import footfall.cli, footfall.rl.loop  # once, for all lives

log, kills, words = Path(sys.argv[1]) / "log.jsonl", int(sys.argv[2]), sys.argv[3:]

def lines():
    return log.read_text().count(chr(10)) if log.exists() else 0

def life():
    child = os.fork()
    if child:
        return child
    sys.stdout = open(os.devnull, "w")
    os._exit(footfall.cli.main(words))

rng, caught = random.Random(0), 0
for _ in range(kills):
    known, child = lines(), life()
    # Until it has told something new, so that it gets on; then a random moment more.
    while lines() < known + 3 and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.01)
    time.sleep(rng.random() / 2)
    if log.parent.joinpath("result.json").exists():
        break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    caught += 1
code = os.waitstatus_to_exitcode(os.waitpid(life(), 0)[1])
print(caught, code)
"""
"""A program that runs a command again and again, and kills it."""


@pytest.mark.long
def test_a_run_killed_ten_times_ends_with_the_same_weights(model: Path, tmp_path: Path) -> None:
    """With a reward model that learns beside the policy."""
    given = ("--updates", "24", "--credit", "prime", "--online-lr", "1e-3")
    assert cli.main(words(model, tmp_path / "whole", *given)) == 0
    out = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", LIVES, str(out), "10", *words(model, out, *given)], capture_output=True, text=True, timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    caught, code = map(int, done.stdout.split())
    assert code == 0 and caught >= 5, done.stderr
    for name, weight in weights(tmp_path / "whole").items():
        assert torch.equal(weight, weights(out)[name]), name


class Killed(BaseException):
    """What SIGKILL leaves: nothing is done after it."""


def test_a_run_in_an_object_store_that_is_killed_while_it_is_measured_knows_how_it_was_before(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill falls between the seal of the first checkpoint and its way to the store."""
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    command = words(model, Path(f"file://{tmp_path}/bucket/run"), "--updates", "3")
    look = Watch.look

    def killed(watch: Watch, update: int) -> None:
        if update == 2:
            once.setattr(Remote, "put_all", lambda *_, **__: None)
            raise Killed
        look(watch, update)

    with monkeypatch.context() as once, pytest.raises(Killed):
        once.setattr(Watch, "look", killed)
        cli.main(command)
    there = tmp_path / "bucket" / "run"
    assert not (there / "checkpoints").exists() and list(tmp_path.glob("runs/copy-*/checkpoints/checkpoint-2"))
    assert cli.main(command) == 0
    assert [line["update"] for line in events(there, "update")] == [1, 2, 3]
    assert [line["update"] for line in events(there, "checkpoint")] == [0, 2, 3]


def test_a_checkpoint_told_before_a_kill_is_told_once_on_the_page(tmp_path: Path) -> None:
    from footfall.reports.rl_page import Arm

    with Run(tmp_path / "run", "rl", {}) as run:
        for update, accuracy in ((1, 0.1), (2, 0.2), (2, 0.3)):
            run.log("update", update=update, accuracy=accuracy, left=1)
        arm = Arm.read("a", run.logged)
    assert [row["accuracy"] for row in arm.updates] == [0.1, 0.3] and arm.left == 2


PARTED = (
    "rl", "--problems", "world:arithmetic:24", "--prompts", "4", "--group", "4", "--updates", "5", "--measured", "6",
    "--max-tokens", "96", "--lr", "3e-4", "--device", "cpu", "--credit", "grpo,scale=batch", "--filter", "vspo", "--loss",
    "bnpo", "--checkpoint-every", "2", "--json", "--out",
)  # fmt: skip
"""VSPO puts groups with spread in the place of others, and GRPO scales by the batch, whoever wrote it."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run by one process."""
    folder = tmp_path_factory.mktemp("parted") / "alone"
    done = subprocess.run([sys.executable, "-m", "footfall", *PARTED, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_a_launcher_of_one_process_trains(model: Path, tmp_path: Path) -> None:
    job = launch(1, *words(model, tmp_path / "run", "--updates", "1", "--measured", "2"))
    said = job.communicate(timeout=300)[1]
    assert job.returncode == 0, said
    assert len(events(tmp_path / "run", "update")) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("processes", "sharded"), [((2,), False), ((4, 2), False), ((2, 2), True), ((2, 1), True)],
    ids=["two", "four, killed, and then two", "two with parts of the weights, killed, and then the same",
         "two with parts of the weights, killed, and then one"],
)  # fmt: skip
def test_several_processes_write_what_one_writes_and_learn_the_same(
    processes: tuple[int, ...], sharded: bool, alone: Path, tmp_path: Path
) -> None:
    parted = tmp_path / "parted"
    program = [str(Path(fsdp_on_cpu.__file__))] if sharded else MODULE

    def start(number: int) -> subprocess.Popen[str]:
        return launch(number, *PARTED, parted, program=program, **(FSDP2 if sharded else {}))

    for number in processes[:-1]:
        kill_main_at(parted / "checkpoints" / "checkpoint-2", start(number))
        assert not (parted / "result.json").exists()
    job = start(processes[-1])
    printed, said = job.communicate(timeout=300)
    assert job.returncode == 0, said
    one, other = json.loads((alone / "result.json").read_text()), json.loads(printed)
    assert other["before"] == one["before"] and other["after"] == one["after"]
    updates = [events(folder, "update") for folder in (alone, parted)]
    assert [row["update"] for row in updates[1]][-3:] == [3, 4, 5]
    assert any(row["grad_norm"] > 1e-2 for row in updates[0]), "there was something to learn"
    last = [{row["update"]: row for row in rows} for rows in updates]  # a killed one may have been at the third
    assert list(last[1]) == [1, 2, 3, 4, 5]
    for name in ("loss", "reward", "accuracy", "mean_length", "left", "steps", "grad_norm"):
        figures = [[row[name] for row in rows.values()] for rows in last]
        assert figures[1] == pytest.approx(figures[0], rel=1e-3, abs=2e-5), name
    shown = [{each["update"]: [row["tokens"] for row in each["rows"]] for each in events(folder, "traces")}
             for folder in (alone, parted)]  # fmt: skip
    # A kill right after a checkpoint may have come before its completions were told.
    told = {update: shown[0][update] for update in shown[1]}
    assert shown[1] == told and max(told) == 5, "the same completions, token by token"
    before, after = weights(alone), weights(parted)
    assert max(float((before[name] - after[name]).abs().max()) for name in before) < 1e-4, (
        "an update moves them by 3e-4"
    )
    if sharded:  # as if it had been killed before the last weights were saved
        shutil.rmtree(parted / "model")
        made = len(events(parted, "update"))
        job = start(processes[-1])
        assert job.communicate(timeout=300) and job.returncode == 0
        saved = weights(parted)
        assert all(torch.equal(saved[name], after[name]) for name in after) and len(events(parted, "update")) == made
