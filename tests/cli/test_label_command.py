"""`footfall label` with every labeller: over files of traces, a server in a process of its own, and a store of rollouts."""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import re
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from footfall import cli
from footfall.formats import read, read_parquet, write, write_parquet
from footfall.registry import create, declared, load, parts, systems
from footfall.types import Judged, Problem, Step, Trajectory
from tests.cli.serving import RIGHT, Job, Server
from tests.cli.telling import told


class Case(NamedTuple):
    """How a labeller is asked for in the parametrised test."""

    options: tuple[str, ...] = ()
    data: str = "traces.jsonl"
    """A file of real traces, or the world whose traces are labelled."""
    policy: str | None = None
    """`completions` or `chat` of the server, a registered policy, or none at all."""
    text: str = RIGHT


CASES = {
    "agreeing": Case(("--set", "labels=freeprm"), policy="chat", text="\\boxed{correct} \\boxed{correct}"),
    "beside": Case(policy="chat"),
    "consensus": Case(policy="chat"),
    "exact-value": Case(data="arithmetic", policy="scripted-arithmetic"),
    "execution": Case(data="code"),
    "noisy": Case(data="arithmetic"),
    "omegaprm": Case(("--values", "hard"), policy="chat"),
    "pav": Case(("--prover", "http,url={url},model=toy,mode=chat"), policy="completions"),
    "prompted": Case(policy="chat", text="Both are right: [1, 1]"),
    "truth-arithmetic": Case(("--set", "consequent=0.5"), data="arithmetic"),
    "unprm": Case(("--temperature", "0.5"), "sampled.parquet", policy="completions"),
    # Judges of the kind reward that label as well.
    "critic": Case(("--max-tokens", "64"), policy="chat"),
    # Published systems by their own names.
    "consensus-filter": Case(policy="chat"),
    "aurora": Case(policy="chat", text="Both are right: [1, 1]"),
    "reasonflux": Case(policy="chat", text="Both are right: [1, 1]"),
    "versaprm": Case(policy="chat", text="Both are right: \\boxed{-1}"),
    "birm": Case(policy="chat"),
    "prlcoder": Case(data="code"),
}
"""What a labeller needs beside its smoke settings: a world's traces, a chat model, a reply that it can read."""
ELSEWHERE = {"actprm", "adaptivestep", "prm800k", "ssrm"}
"""Labellers over a PRM, another judge or a model's own ids: tests/cli/test_label_systems.py has them."""
METHODS = sorted({*parts("labeller"), *systems("labeller"), "critic"} - ELSEWHERE)


def case_of(method: str) -> Case:
    """A labeller as it declares to be tried quickly: a truth over its world, others over traces, a policy if it takes it."""
    part = systems("labeller")[method].part if method in systems("labeller") else method
    takes = inspect.signature(load("reward" if part == "critic" else "labeller", part)).parameters
    world = part.removeprefix("truth-") if part.startswith("truth-") else "traces.jsonl"
    case = CASES.get(method, Case(data=world, policy="completions" if "policy" in takes else None))
    smoke = {} if part == "critic" else declared("labeller", part).smoke
    settings = [f"{name}={json.dumps(value)}" for name, value in smoke.items()]
    return case._replace(options=(*(("--set", *settings) if settings else ()), *case.options))


def trace(id: str, *steps: str) -> Trajectory:
    return Trajectory(id, Problem(id, f"{id}: what is 3 - 4?", "-1"), tuple(map(Step, steps)))


TRACES = [
    trace("good", "3 - 4 = -1.", "The answer is \\boxed{-1}."),
    trace("bad", "3 - 4 = 1.", "The answer is \\boxed{1}."),
]


BABBLE = "I would rather talk about the weather."


@pytest.fixture
def server(process: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that answers right, and a folder to work in with a file of traces."""
    monkeypatch.chdir(tmp_path)
    write("traces.jsonl", [Judged(t, None) for t in TRACES], "jsonl")
    process.behave()
    return process


def label(capsys: pytest.CaptureFixture[str], server: Server, *words: str) -> dict[str, Any]:
    """Monte Carlo labels of the file by the server's rollouts, unless the words say otherwise."""
    patience = ("--timeout", "5", "--retries", "2")
    return told(capsys, "label", "--data", "traces.jsonl", "--url", server.url, "--rollouts", "2", *patience, *words)


def labels(result: dict[str, Any]) -> list[list[float | None]]:
    return [list(row.judgement.values) for row in read(result["file"]) if row.judgement]


# Every labeller


def data_for(case: Case, server: Server, capsys: pytest.CaptureFixture[str]) -> str:
    """The path of the case's data, made here if it is not the file of traces."""
    if case.data == "sampled.parquet":  # wrong traces as the server wrote them, log-probabilities and all
        server.behave("3 - 4 = 1.\n\nThat is all of it.\n\nIt is \\boxed{1}")
        served = ("--policy", "http", "--url", server.url)
        Path("problems.jsonl").write_text('{"id": "p", "problem": "What is 3 - 4?", "answer": "-1"}\n', "utf-8")
        return str(told(capsys, "sample", "--problems", "problems.jsonl", *served, "--n", "2")["file"])
    if case.data.endswith(".jsonl"):
        return case.data
    policy = create("policy", f"scripted-{case.data}")
    traces = [t for _, t in create("world", case.data).traces(policy, 3, seed=5)]
    write_parquet(Path("world.parquet"), traces, "trajectory")
    return "world.parquet"


def words_of(case: Case, server: Server) -> list[str]:
    """The options of a case, with its policy."""
    words = [word.format(url=server.url) for word in case.options]
    if case.policy in ("chat", "completions"):
        return [*words, "--url", server.url, "--mode", case.policy, "--retries", "0"]
    return [*words, "--policy", case.policy] if case.policy else words


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_a_labeller_labels_a_file_of_traces(method: str, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of(method)
    words = ["label", "--data", data_for(case, server, capsys), "--method", method, *words_of(case, server)]
    server.behave(case.text)
    found = told(capsys, *words)
    rows = labels(found)
    values = [value for row in rows for value in row]
    assert found["steps"] == len(values) and found["labelled"] == sum(v is not None for v in values) > 0
    assert found["labelled"] + sum(found["unlabelled"].values()) == found["steps"]
    assert all(math.isfinite(value) for value in values if value is not None)
    assert bool(server.asked()) == (case.policy in ("chat", "completions"))
    server.behave(case.text)
    assert labels(told(capsys, *words)) == rows and not server.asked(), "the same command again asks for nothing"


def test_two_judges_side_by_side_give_value_and_aspect(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("label", "--data", "traces.jsonl", "--method", "birm", "--url", server.url, "--mode", "chat")
    said = [row.judgement for row in read(told(capsys, *words)["file"])]
    assert [j.values for j in said if j] == [(1.0, 1.0), (1.0, 0.0)], "rollouts give the values"
    assert [j.aspects["reward"] for j in said if j] == [(1.0, 1.0), (1.0, 1.0)], "the critic finds no error"


@pytest.mark.parametrize(
    ("system", "words", "settings"),
    [
        ("math-shepherd", (), "n=8,hard"),
        ("math-shepherd", ("--values", "soft", "--rollouts", "2"), "n=2,soft"),
        ("aurora", ("--mode", "chat"), "reason+list+example+repeat"),
        ("consensus-filter", ("--mode", "chat"), "first-error"),
    ],
)
def test_a_published_system_is_a_labeller_with_its_settings_and_the_users_before_them(
    system: str, words: tuple[str, ...], settings: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave("Both are right: [1, 1] \\boxed{-1}")
    line = ("label", "--data", "traces.jsonl", "--url", server.url, "--method", system, *words)
    assert settings in told(capsys, *line)["judge"]


@pytest.mark.parametrize(
    ("system", "where"),
    [
        ("edu-prm", "footfall.label.edu_prm"),
        ("hrm-hnc", "footfall.label.hrm_hnc"),
        ("hgs-prm", "footfall.label.execution"),
        ("dvts", "stage search"),
    ],
)
def test_a_system_that_labels_no_given_traces_says_what_it_is(
    system: str, where: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["label", "--data", "traces.jsonl", "--method", system]) == 2
    said = capsys.readouterr().err
    assert where in said and f"footfall lab run {system}" in said and "did you mean" not in said
    for module in re.findall(r"footfall(?:\.\w+)+", said):
        assert importlib.util.find_spec(module), "what it points at is there"


@pytest.mark.parametrize("format", ["jsonl", "parquet", "prm800k"])
def test_labels_do_not_depend_on_the_format_of_the_file(
    format: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Judged(t, None) for t in TRACES]
    if format == "parquet":
        write_parquet(Path("other.parquet"), [row.trajectory for row in rows], "trajectory")
    else:
        said = create("labeller", "always-right").judge(TRACES)
        write(f"other.{format}", [Judged(t, j) for t, j in zip(TRACES, said, strict=True)], format)
    assert labels(label(capsys, server, "--data", f"other.{format}")) == [[1.0, 1.0], [1.0, 0.0]]


def test_a_methods_own_sampling_parameters_stay_but_for_what_is_asked(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """UnPRM draws at 0.8; asking for fewer tokens does not change that."""
    words = ("label", "--data", "traces.jsonl", "--method", "unprm", "--url", server.url, "--max-tokens", "64")
    assert "temperature=0.8,top_p=1.0,top_k=0,max_tokens=64" in told(capsys, *words)["judge"]


def test_an_option_of_another_method_is_refused(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--method", "prompted", "--top-p", "0.5"), ("--method", "scan", "--values", "hard")):
        assert cli.main(["label", "--data", "traces.jsonl", "--url", server.url, "--mode", "chat", *words]) == 2
        assert f"takes no {words[2]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rollouts", "4", "--half-width", "0.2"), "no use for --half-width as it is set: "),
        (("--method", "er-prm", "--rollouts", "3", "--half-width", "0.2"), "it is for more than the 4 rollouts"),
        (
            ("--method", "pav", "--prover", "scripted-arithmetic", "--set", "k=2"),
            "where no prover is named; leave it out",
        ),
        (("--method", "relative-progress", "--set", "alpha=0.3"), "it is for compare=effective; leave it out"),
        (("--rollouts", "8", "--set", "rollouts=4"), "rollouts is said twice, as 8 and as 4: leave one of them out"),
        (
            ("--temperature", "0"),
            "--temperature 0: all 8 rollouts of a text would be one and the same; say --rollouts 1",
        ),
        (("--method", "scan", "--rollouts", "1", "--temperature", "0"), "all 128 responses of a text would be one"),
        (
            ("--method", "relative-progress", "--temperature", "0"),
            "all 32 pass_rollouts and 32 rollouts of a text would be one",
        ),
        (("--method", "omegaprm", "--trees", "2", "--temperature", "0"), "all 8 rollouts of a text would be one"),
        (
            ("--method", "relative-progress", "--set", "pass_rollouts=1", "--temperature", "0"),
            "all 32 rollouts of a text would be one and the same; say --rollouts 1",
        ),
        (("--method", "unprm", "--temperature", "0"), "all 72 draws of a text would be one and the same"),
        (("--method", "reasonflux", "--temperature", "0"), "all 4 solutions of a text would be one"),
        (("--method", "hrm-hnc", "--trees", "3", "--temperature", "0"), "one and the same; say --trees 1, or leave"),
        (("--method", "grounded", "--trees", "3", "--temperature", "0"), "all 3 children of a text would be one"),
    ],
)
def test_options_that_do_nothing_or_say_two_things_are_refused(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write("traces.jsonl", [Judged(t, None) for t in TRACES], "jsonl")
    assert cli.main(["label", "--data", "traces.jsonl", "--policy", "scripted-arithmetic", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_whether_a_labeller_writes_copies_is_what_it_says_of_itself_and_not_what_its_settings_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A labeller with a setting `n` of another meaning was refused, and one that calls its completions otherwise was not."""
    monkeypatch.chdir(tmp_path)
    write("traces.jsonl", [Judged(t, None) for t in TRACES], "jsonl")
    Path("mine.py").write_text(
        "from footfall.judging import Traits\n"
        "from footfall.types import Judgement\n"
        "class Words:\n"
        "    name = 'words'\n"
        "    def __init__(self, policy, n: int = 8, looks: int = 0, temperature: float = 1.0):\n"
        "        self.policy, self.n, self.traits = policy, n, Traits(repeats=(('looks', looks),))\n"
        "    def judge(self, traces):\n"
        "        return [Judgement(t.id, tuple(float(len(s.text) > self.n) for s in t.steps), self.name) for t in traces]\n",
        "utf-8",
    )
    words = ["label", "--data", "traces.jsonl", "--method", "mine.py:Words", "--policy", "scripted-arithmetic"]
    assert cli.main([*words, "--temperature", "0"]) == 0
    capsys.readouterr()
    assert cli.main([*words, "--temperature", "0", "--set", "looks=3"]) == 2
    assert "all 3 looks of a text would be one and the same; say --set looks=1" in capsys.readouterr().err


def test_a_greedy_critic_may_agree_with_labels_that_are_drawn_at_a_temperature_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rollouts of agreeing's labels were taken for copies, and it has no --rollouts to set to 1."""
    monkeypatch.chdir(tmp_path)
    write("traces.jsonl", [Judged(t, None) for t in TRACES], "jsonl")
    words = ["label", "--data", "traces.jsonl", "--method", "agreeing", "--policy", "scripted-arithmetic", "--estimate"]
    assert cli.main([*words, "--temperature", "0"]) == 2
    assert "all 4 n of a text would be one and the same; say --set n=1" in capsys.readouterr().err
    assert cli.main([*words, "--temperature", "0", "--set", "n=1"]) == 0


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            "consensus",
            "all 8 rollouts of a text would be one and the same; consensus has no setting for its rollouts: leave",
        ),
        ("birm", "all 8 rollouts of a text would be one and the same; birm has no setting for its rollouts: leave"),
        (
            "scan",
            "all 8 rollouts and 128 responses of a text would be one and the same; say --rollouts 1 --set responses=1, or",
        ),
    ],
)
def test_what_greedy_drawing_is_refused_for_can_be_set_as_the_message_says(
    method: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The judges that a consensus is made of were told --rollouts 1, which it does not take."""
    monkeypatch.chdir(tmp_path)
    write("traces.jsonl", [Judged(t, None) for t in TRACES], "jsonl")
    words = ["label", "--data", "traces.jsonl", "--method", method, "--policy", "scripted-arithmetic", "--estimate"]
    assert cli.main([*words, "--temperature", "0"]) == 2
    assert said in capsys.readouterr().err


def test_a_prover_is_a_policy_in_one_word(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    found = label(capsys, server, "--method", "pav", "--prover", f"http,url={server.url},mode=chat")
    assert "prover=http:toy:chat" in found["judge"]
    assert cli.main(["label", "--data", "traces.jsonl", "--url", server.url, "--prover", "http,uri=x"]) == 2
    assert "'uri=x' says nothing of a policy" in capsys.readouterr().err


# Judges that hang, babble or die


def test_a_server_that_hangs_leaves_its_steps_unlabelled(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.behave(faults=[{"kind": "stall", "match": "bad"}])
    found = label(capsys, server, "--timeout", "1.5", "--retries", "0")
    assert labels(found) == [[1.0, 1.0], [None, 0.0]], "the outcome of a finished trace needs no rollout"
    ((reason, count),) = found["unlabelled"].items()
    assert count == 1 and "all 2 rollouts failed" in reason and "1.5 s" in reason


@pytest.mark.parametrize("kind", ["truncated", "drop", "500"])
def test_garbage_from_a_server_is_no_zero(kind: str, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.behave(faults=[{"kind": kind, "match": "bad"}])
    found = label(capsys, server, "--retries", "0")
    assert labels(found) == [[1.0, 1.0], [None, 0.0]]
    assert found["labelled"] == 3 and sum(found["unlabelled"].values()) == 1


@pytest.mark.parametrize(
    ("method", "text", "reason"),
    [
        ("prompted", BABBLE, "unparsable: no list of 0 and 1"),
        ("prompted", "[1, 0, 1, 1, 0]", "unparsable: 5 verdicts for 2 steps"),
        ("critic", "The first \\boxed{paragraph}.", "unparsable: the box holds 'paragraph'"),
    ],
)
def test_a_judge_that_babbles_has_no_opinion(
    method: str, text: str, reason: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(text)
    words = ("label", "--data", "traces.jsonl", "--method", method, "--url", server.url, "--mode", "chat")
    found = told(capsys, *words, code=1)
    assert labels(found) == [[None, None], [None, None]] and found["labelled"] == 0
    ((told_reason, count),) = found["unlabelled"].items()
    assert reason in told_reason and count == 4
    assert cli.main(list(words)) == 1
    assert "labelled    0 of 4 steps" in (shown := capsys.readouterr().out) and f"unlabelled  4: {reason}" in shown
    assert "next:" not in shown, "there is nothing to train on"


@pytest.mark.parametrize(("method", "mended"), [("prompted", "[1, 1]"), ("critic", "\\boxed{-1}")])
@pytest.mark.parametrize("flag", ["--again", "--fresh"])
def test_a_judge_that_babbled_is_asked_anew_and_not_read_from_the_store(
    method: str, mended: str, flag: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(BABBLE)
    words = ("label", "--data", "traces.jsonl", "--method", method, "--url", server.url, "--mode", "chat")
    assert told(capsys, *words, code=1)["labelled"] == 0
    server.behave(mended)
    assert told(capsys, *words, flag)["labelled"] == 4 and len(server.asked()) == 2
    assert told(capsys, *words)["labelled"] == 4 and len(server.asked()) == 2, "the new replies are kept"
    other = told(capsys, *words, "--out", "runs/other")
    assert other["labelled"] == 4 and len(server.asked()) == 2, "in the store too"


@pytest.mark.parametrize("chunks", [("1", "2"), ("2", "1")])
def test_replies_asked_for_anew_in_other_batches_go_before_the_old_ones(
    chunks: tuple[str, str], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("label", "--data", "traces.jsonl", "--method", "prompted", "--url", server.url, "--mode", "chat")
    first, then = chunks
    server.behave(BABBLE)
    assert told(capsys, *words, "--chunk", first, code=1)["labelled"] == 0
    server.behave("[1, 0]")
    assert labels(told(capsys, *words, "--chunk", then, "--again")) == [[1.0, 0.0]] * 2
    server.behave("[1, 1]")
    assert labels(told(capsys, *words, "--chunk", then, "--fresh")) == [[1.0, 1.0]] * 2, (
        "twice anew: the last one counts"
    )
    server.behave(BABBLE)
    for chunk in ("1", "2", "3"):
        found = told(capsys, *words, "--chunk", chunk, "--out", f"runs/other{chunk}")
        assert labels(found) == [[1.0, 1.0]] * 2 and not server.asked()


@pytest.mark.parametrize("resumed_with", [("--again",), ()], ids=["again", "plain"])
@pytest.mark.parametrize("first_chunk", ["1", "4"])
def test_a_killed_run_that_asked_anew_goes_on_with_its_own_replies_and_no_others(
    first_chunk: str, resumed_with: tuple[str, ...], server: Server, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    traces = [trace(f"t{k}", "3 - 4 = -1.", "It is \\boxed{-1}.") for k in range(4)]
    write("traces.jsonl", [Judged(t, None) for t in traces], "jsonl")
    asking = ("label", "--data", "traces.jsonl", "--method", "prompted", "--url", server.url, "--mode", "chat")
    server.behave(BABBLE)
    assert told(capsys, *asking, "--chunk", first_chunk, code=1)["labelled"] == 0
    words = (*asking, "--chunk", "2")
    assert told(capsys, *words, code=1)["labelled"] == 0, "the store has the replies"
    server.behave("[1, 0]")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # two replies are in the store, but not in the run
        patch.setattr("footfall.store.run.write_parquet", killed)
        assert cli.main([*words, "--again"]) == 130
    assert len(server.asked()) == 2
    server.behave("[1, 1]")
    found = told(capsys, *words, *resumed_with)
    assert labels(found) == [[1.0, 0.0]] * 2 + [[1.0, 1.0]] * 2
    assert len(server.asked()) == 2, "those that were asked before the kill are not asked again"
    server.behave("[0, 0]")
    assert labels(told(capsys, *words, "--fresh")) == [[0.0, 0.0]] * 4, "a finished run leaves nothing for the next"


def test_a_killed_run_in_an_object_store_that_asked_anew_goes_on_with_its_own_replies_on_another_machine(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one knew nothing of the edition, and took what had been said before from the rollout store that both see."""
    pytest.importorskip("fsspec")
    asking = ("label", "--data", "traces.jsonl", "--method", "prompted", "--url", server.url, "--mode", "chat")
    words = (*asking, "--chunk", "1", "--store", str(tmp_path / "shared"), "--out", f"file://{tmp_path}/bucket/run")
    server.behave(BABBLE)
    assert told(capsys, *words, code=1)["labelled"] == 0
    server.behave("[1, 0]")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("footfall.store.run.write_parquet", killed)
        assert cli.main([*words, "--again"]) == 130
    assert len(server.asked()) == 1
    mark = tmp_path / "bucket" / "run" / ".again"
    edition = mark.read_text()
    mark.write_text("0/../../../elsewhere")
    assert cli.main(list(words)) == 2
    assert "is no mark of a run; remove it, or begin anew with --fresh" in capsys.readouterr().err, (
        "others write there, and it names files"
    )
    mark.write_text(edition)
    other = tmp_path / "other"
    other.mkdir()
    (other / "traces.jsonl").write_bytes(Path("traces.jsonl").read_bytes())
    monkeypatch.chdir(other)
    server.behave("[1, 1]")
    assert labels(told(capsys, *words)) == [[1.0, 0.0], [1.0, 1.0]]
    assert len(server.asked()) == 1
    monkeypatch.chdir(tmp_path)
    server.behave("[0, 0]")
    assert labels(told(capsys, *words)) == [[1.0, 0.0], [1.0, 1.0]], (
        "the run has ended, which the copy here did not know"
    )
    assert labels(told(capsys, *words, "--fresh")) == [[0.0, 0.0]] * 2


def test_a_run_that_asked_anew_and_ended_leaves_no_reply_to_the_next_that_does(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("label", "--data", "traces.jsonl", "--method", "prompted", "--url", server.url, "--mode", "chat")
    server.behave(BABBLE)
    assert told(capsys, *words, code=1)["labelled"] == 0
    server.behave("[1, 1]", faults=[{"kind": "500", "match": "bad"}])
    assert told(capsys, *words, "--retries", "0", "--again")["labelled"] == 2
    server.behave("[1, 0]")
    assert labels(told(capsys, *words, "--again")) == [[1.0, 0.0]] * 2, "the run had ended: this one asks all anew"


def test_rollouts_that_were_cut_are_counted_in_the_summary(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.behave("So it goes on and on and on")
    words = ("label", "--data", "traces.jsonl", "--url", server.url, "--rollouts", "2", "--max-tokens", "3")
    found = told(capsys, *words, code=1)
    assert found["cut_rollouts"]["cut"] > 0 and found["in_vain"] == "every rollout was cut at max_tokens"
    assert cli.main(list(words)) == 1
    cut, of = found["cut_rollouts"].values()
    assert f"{cut} of {of} rollouts were cut at max_tokens" in capsys.readouterr().out
    server.behave()
    assert "cut_rollouts" not in label(capsys, server)


@pytest.mark.long
def test_a_server_that_dies_and_returns_costs_nothing_but_time(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(delay=0.1)

    def die_and_return() -> None:
        deadline = time.monotonic() + 10
        while not server.asked() and time.monotonic() < deadline:
            time.sleep(0.01)
        server.stop()
        time.sleep(0.2)
        server.start()

    thread = threading.Thread(target=die_and_return)
    thread.start()
    found = label(capsys, server, "--retries", "6")
    thread.join()
    assert found["unlabelled"] == {} and found["labelled"] == 4, "the reborn server writes other words, but it answers"


def test_what_failed_is_asked_again_on_demand_and_nothing_else(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(faults=[{"kind": "500", "match": "bad"}])
    words = ("--retries", "0", "--chunk", "1")
    assert label(capsys, server, *words)["labelled"] == 3
    server.behave()
    assert label(capsys, server, *words)["labelled"] == 3, "a finished run is finished"
    assert not server.asked()
    again = label(capsys, server, *words, "--again")
    assert again["labelled"] == 4 and labels(again) == [[1.0, 1.0], [1.0, 0.0]]
    assert len(server.asked()) == 2 and all("bad" in key for key in server.asked())


# The rollout store


def test_no_method_pays_for_a_rollout_of_another(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    first = label(capsys, server)
    assert (first["store"]["hits"], first["store"]["misses"]) == (0, len(server.asked())) == (0, 4)
    assert first["store"]["folder"] == str(Path("runs/rollouts").absolute())
    server.behave()
    second = label(capsys, server, "--method", "omegaprm")
    assert (second["store"]["hits"], second["store"]["misses"]) == (2, 0) and not server.asked()
    assert second["store"]["saved"]["generated_tokens"] == second["cost"]["generated_tokens"] > 0
    third = label(capsys, server, "--rollouts", "3")
    assert (third["store"]["hits"], third["store"]["misses"]) == (4, 2)
    assert cli.main(["label", "--data", "traces.jsonl", "--url", server.url, "--rollouts", "3", "--seed", "1"]) == 0
    assert "0 rollouts found, 6 sampled" in capsys.readouterr().out, "another seed, other rollouts"


def test_without_a_store_each_run_pays_for_itself(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    for out in ("a", "b"):
        found = label(capsys, server, "--store", "none", "--out", out)
        assert found["store"] is None
    assert len(server.asked()) == 8 and not Path("rollouts").exists()


def test_two_models_behind_one_address_and_one_name_at_two_addresses_share_nothing(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(models=["toy", "other"])
    other = Server(tmp_path / "other.jsonl")
    try:
        other.behave("It is \\boxed{5}")
        runs = [
            label(capsys, at, "--model", model, "--store", "shared", "--out", f"{model}-{at.port}")
            for at, model in ((server, "toy"), (server, "other"), (other, "toy"))
        ]
    finally:
        other.stop()
    assert [run["store"]["hits"] for run in runs] == [0, 0, 0]
    assert [labels(run)[0][0] for run in runs] == [1.0, 1.0, 0.0]


def test_sampled_traces_come_from_the_store_too(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    Path("problems.jsonl").write_text('{"id": "p", "problem": "What is 3 - 4?", "answer": "-1"}\n', "utf-8")
    words = (
        "sample",
        "--problems",
        "problems.jsonl",
        "--policy",
        "http",
        "--url",
        server.url,
        "--store",
        "kept",
        "--n",
    )
    first, second = (told(capsys, *words, n, "--out", n) for n in ("2", "5"))
    assert (first["store"]["misses"], second["store"]["hits"], second["store"]["misses"]) == (2, 2, 3)
    assert len(server.asked()) == 5
    assert told(capsys, *words[:-3], "--n", "2", "--out", "plain")["store"] is None


# A run that is killed


class LabelJob(Job):
    """A labelling of thirty traces over the server."""

    def __init__(self, server: Server, folder: Path) -> None:
        words = ["label", "--data", "traces.jsonl", "--url", server.url, "--rollouts", "8", "--chunk", "20"]
        super().__init__(folder, [*words, "--concurrency", "8", "--json"])
        folder.mkdir()
        traces = [trace(f"t{k}", "3 - 4 = -1.", f"Then {k} more.", "It is \\boxed{-1}.") for k in range(30)]
        write(folder / "traces.jsonl", [Judged(t, None) for t in traces], "jsonl")

    def kept(self) -> int:
        """Completions in the store."""
        shards = (self.folder / "rollouts").rglob("[!.]*.parquet")
        return sum(len(read_parquet(shard, "trajectory")) for shard in shards)


@pytest.mark.long
def test_a_killed_run_goes_on_to_the_same_bytes_and_repeats_no_rollout_that_was_kept(
    server: Server, tmp_path: Path
) -> None:
    server.behave(None, delay=0.005)
    undisturbed = LabelJob(server, tmp_path / "undisturbed")
    undisturbed.finish()
    total = len(server.asked())
    assert total == len(set(server.asked())) == 30 * 2 * 8
    killed = LabelJob(server, tmp_path / "killed")
    server.behave(None, delay=0.005)
    for answers in (140, 290):
        process = killed.start()
        deadline = time.monotonic() + 60
        while len(server.asked("answered")) < answers and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.kill()
        _, errors = process.communicate()
        assert process.returncode == -9, errors.decode()
    before = len(server.asked("answered"))
    kept = killed.kept()
    assert 0 < kept < total
    killed.finish()
    assert len(server.asked()) - before <= total - kept + 8, "all that is asked is what was not kept, and was in flight"
    assert killed.kept() == undisturbed.kept() == total
    assert killed.written() == undisturbed.written()


# What it would cost


def test_an_estimate_asks_nobody(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    money = ("--price-in", "1", "--price-out", "4", "--tokens-per-second", "10")
    found = label(capsys, server, "--estimate", *money)
    assert not server.asked() and not Path("runs").exists()
    expected = found["expected"]
    assert found["low"]["calls"] == expected["calls"] == found["high"]["calls"] == 4
    paid = (expected["prompt_tokens"] * 1 + expected["generated_tokens"] * 4) / 1e6
    assert expected["money"] == pytest.approx(paid, rel=0.05)
    assert expected["seconds"] == pytest.approx(expected["generated_tokens"] / 10, rel=0.05)
    assert found["tokens_counted_by"] == "a token for every 4 characters"
    assert cli.main(["label", "--data", "traces.jsonl", "--url", server.url, "--estimate"]) == 0
    shown = capsys.readouterr().out
    assert "at least" in shown and "at most" in shown and "pass --tokens-per-second" in shown


def test_a_probe_corrects_the_estimate_and_is_not_lost(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    found = label(capsys, server, "--estimate", "--probe", "1")
    assert found["probe"]["traces"] == 1 and found["probe"]["cost"]["calls"] == len(server.asked()) == 2
    assert found["expected"]["seconds"] > 0
    assert label(capsys, server)["store"]["hits"] == 2


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("unprm", "execution")])
def test_every_method_can_be_estimated(method: str, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of(method)
    words = ["label", "--data", data_for(case, server, capsys), "--method", method, "--estimate"]
    words += words_of(case, server)
    found = told(capsys, *words)
    assert not server.asked()
    assert found["low"]["calls"] <= found["expected"]["calls"] <= found["high"]["calls"]
    assert (found["high"]["calls"] > 0) == (case.policy in ("chat", "completions"))
