"""`footfall search` with every searcher against a server in a process of its own: budgets, helpers, kills and failures."""

from __future__ import annotations

import inspect
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from footfall import cli
from footfall.commands._search_report import shown_id
from footfall.formats import read_parquet
from footfall.registry import create, declared, load, parts
from footfall.types import SearchResult
from tests.cli.serving import Job, Server

PROBLEMS = 3
MAX_TOKENS = 16


class Case(NamedTuple):
    """How a searcher is asked for in the parametrised test."""

    options: tuple[str, ...] = ()
    judge: str | None = "random"


CASES = {
    "birm": Case(("--set", "reward=steps", "--judge-role", "steps=always-right")),
    "refined-bon": Case(("--helper", "critic=http,url={url},model=toy")),
    "rstar": Case(("--set", 'actions=["step","rest","rephrase"]',
                   "--helper", "rephrase=http,url={url},template=Again: {{prompt}}\n{{steps}}"), judge=None),
    "self-regulation": Case(("--set", "rule=always", "helper=large", "--helper", "large={url}")),
}  # fmt: skip
"""What a method needs beside its smoke settings: others whom it asks."""


def case_of(method: str) -> Case:
    """A searcher as it declares to be tried quickly; one that needs no judge has none."""
    smoke = declared("searcher", method).smoke
    assert smoke, f"{method} declares no smoke settings"
    judged = create("searcher", method, **smoke).judged
    case = CASES.get(method, Case() if judged else Case(judge=None))
    return case._replace(options=("--set", *(f"{k}={json.dumps(v)}" for k, v in smoke.items()), *case.options))


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    servers = tuple(Server(tmp_path_factory.mktemp(name) / "log.jsonl") for name in ("writer", "judge"))
    yield servers[0], servers[1]
    for server in servers:
        server.stop()


@pytest.fixture
def server(processes: tuple[Server, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that solves problems, mostly rightly, and a folder to work in with a file of them."""
    monkeypatch.chdir(tmp_path)
    write_problems(tmp_path, PROBLEMS)
    processes[0].behave(None, solve=True)
    return processes[0]


@pytest.fixture
def critic(processes: tuple[Server, Server]) -> Server:
    """Another server, whose critiques find no error."""
    processes[1].behave("No error: \\boxed{-1}")
    return processes[1]


def write_problems(folder: Path, n: int) -> None:
    rows = [{"id": f"p{k}", "problem": f"p{k}: what is 3 - 4?", "answer": "-1"} for k in range(n)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def told(capsys: pytest.CaptureFixture[str], server: Server, *words: str, code: int = 0) -> dict[str, Any]:
    """What a search of the file says with --json, and that it ends with this exit code."""
    capsys.readouterr()
    assert cli.main(line(server, *words)) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def line(server: Server, *words: str) -> list[str]:
    fixed = ["search", "--problems", "problems.jsonl", "--policy", "http", "--url", server.url, "--json"]
    return [*fixed, "--max-tokens", str(MAX_TOKENS), "--retries", "0", *words]


def results(found: dict[str, Any]) -> list[SearchResult]:
    rows: list[SearchResult] = read_parquet(Path(found["file"]), "search-result")
    return rows


def spent(result: SearchResult) -> int:
    return result.cost.generated_tokens + result.cost.scored_tokens


# Every searcher


@pytest.mark.long
@pytest.mark.parametrize("method", parts("searcher"))
def test_a_searcher_answers_problems_over_a_server(
    method: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    case = case_of(method)
    words = ["--method", method, *(word.format(url=server.url) for word in case.options)]
    words += ["--judge", case.judge] if case.judge else []
    found = told(capsys, server, *words, "--budget-tokens", "400", "--out", "run")
    rows = results(found)
    assert found["failed"] == {} and found["decided"] == len(rows) == PROBLEMS and found["method"] == method
    assert all(row.answer in ("-1", "1") and row.chosen is not None and row.tree is not None for row in rows)
    assert all(spent(row) <= 400 + MAX_TOKENS for row in rows)
    asked = [json.dumps(request, sort_keys=True) for request in server.requests()]
    assert found["cost"]["generated_tokens"] > 0 and len(asked) == len(set(asked)) > 0, "nothing is asked for twice"
    before = Path(found["file"]).read_bytes()
    server.behave(None, solve=True)
    told(capsys, server, *words, "--budget-tokens", "400", "--out", "run")
    assert not server.asked() and Path(found["file"]).read_bytes() == before, "the same command again asks for nothing"
    short = told(capsys, server, *words, "--budget-tokens", "6", "--out", "short")
    assert short["stopped"] == {"tokens": PROBLEMS}
    assert all(spent(row) <= 6 + MAX_TOKENS for row in results(short))


def test_a_step_is_gone_on_with_in_its_middle(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--method", "early-rejection", "--judge", "random", *case_of("early-rejection").options)
    found = told(capsys, server, *words)
    resumed = [request for request in server.requests() if not request["prompt"].endswith("\n")]
    assert resumed and all(request["max_tokens"] == 8 and request["stop"] == ["\n\n"] for request in resumed)
    steps = [step.text for row in results(found) for t, _ in row.candidates for step in t.steps]
    assert any(step.startswith("Take") and step.endswith(".") for step in steps)
    assert not any("\n\n" in step for step in steps)
    chat = told(capsys, server, *words, "--mode", "chat", code=1)
    assert set(chat["failed"]) == {"p0", "p1", "p2"}
    assert all("use mode='completions' (--mode completions)" in why for why in chat["failed"].values())


def test_llama_cpp_is_searched_step_by_step_in_both_modes_and_as_strict_servers_want_it(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--method", "beam-search", "--judge", "random", *case_of("beam-search").options)
    plain = told(capsys, server, *words)
    server.behave(None, solve=True, llama_cpp=True)
    same = told(capsys, server, *words, "--store", "none")
    assert [r.answer for r in results(same)] == [r.answer for r in results(plain)] and not same["failed"]
    chat = told(capsys, server, *words, "--store", "none", "--mode", "chat")
    steps = [step.text for row in results(chat) for t, _ in row.candidates for step in t.steps]
    assert not chat["failed"] and sum(step.startswith("Take") for step in steps) * 3 == len(steps)
    strict = told(capsys, server, *words, "--store", "none", "--neutral", "False", code=1)
    assert all("(--step-stop cut; exact" in why for why in strict["failed"].values())
    cut = told(
        capsys, server, *words, "--store", "none", "--neutral", "False", "--logprobs", "False", "--step-stop", "cut"
    )
    sent = server.requests()[-1]
    assert not cut["failed"] and not {"stop", "verbose", "top_k", "logprobs"} & set(sent)


def test_blocks_of_tokens_are_joined_as_they_were_written(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, server, "--method", "vgs", "--judge", "random", *case_of("vgs").options)
    for row in results(found):
        assert row.chosen is not None and len(row.chosen.steps) > 1 and row.chosen.separator == ""
        assert row.chosen.text.startswith("Take ") and row.chosen.text.count("\n\n") == 2


# Who takes part


def test_a_policy_may_be_named_by_its_address_alone(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = [
        "search",
        "--problems",
        "problems.jsonl",
        "--method",
        "majority",
        "--n",
        "2",
        "--max-tokens",
        "16",
        "--json",
    ]
    files = []
    for words in (["--policy", server.url], ["--policy", "http", "--url", server.url], ["--url", server.url]):
        capsys.readouterr()
        assert cli.main([*fixed, *words]) == 0
        files.append(json.loads(capsys.readouterr().out)["file"])
    assert len(set(files)) == 1 and len(server.asked()) == PROBLEMS * 2, "all are one run"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "refined-bon"), "in the role 'critic': pass --helper critic=POLICY"),
        (("--method", "self-regulation", "--set", "helper=large"), "in the role 'large': pass --helper large=POLICY"),
        (("--method", "rstar", "--set", 'actions=["step","subquestion"]'), "pass --helper subquestion=POLICY"),
        (("--method", "birm", "--set", "reward=steps"), "in the role 'steps': pass --judge-role steps=JUDGE"),
        (("--method", "compute-optimal", "--set", "methods=refined-bon:n=2;;"), "pass --helper critic=POLICY"),
        (("--set", "policy=large"), "there is none such: pass --helper large=POLICY"),
        (("--helper", "large"), "--helper takes NAME=WHO, not 'large'"),
        (("--helper", "policy=embedded"), "the role 'policy' is the search's own"),
        (("--helper", "a=http,uri=x"), "'uri=x' says nothing of a policy"),
        (("--judge-role", "a=no-such-judge"), "no judge and no folder is called 'no-such-judge'"),
        (("--method", "self-prm", "--aggregate", "min"), "'self-prm' takes no --aggregate"),
    ],
)
def test_who_is_missing_or_not_known_is_said(
    words: tuple[str, ...], said: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(line(server, "--judge", "random", *words)) == 2
    assert said in capsys.readouterr().err
    assert not server.asked() and not Path("runs").exists()


def test_a_helper_whom_nobody_asks_is_refused(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--judge", "random", "--method", "self-regulation", "--helper", f"large={server.url}")
    assert cli.main(line(server, *words)) == 2
    assert "asks nobody in the role 'large'" in capsys.readouterr().err and not server.asked()


def test_a_critic_corrects_and_judges_over_its_own_server(
    server: Server, critic: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    critic.behave("It goes wrong at \\boxed{0}. Corrected step: 3 - 4 = -1.")
    words = ["--method", "refined-bon", "--n", "4", "--judge", "critic", "--set", "policy=critic"]
    helper = f"critic=http,url={critic.url},mode=chat"
    found = told(capsys, server, *words, "--helper", helper)
    assert found["helpers"]["critic"].startswith("http:toy:chat") and found["failed"] == {}
    assert all("messages" in request for request in critic.requests())
    refined = [t for row in results(found) for t, _ in row.candidates if t.steps[0].text == "3 - 4 = -1."]
    assert refined and all(t.answer in ("-1", "1") for t in refined)
    assert found["judge_cost"]["generated_tokens"] > 0
    at = len(critic.asked())
    moved = told(capsys, server, *words, "--helper", helper.replace("127.0.0.1", "localhost"))
    assert moved["file"] == found["file"] and len(critic.asked()) == at, "another address is no other run"


@pytest.mark.parametrize(
    ("method", "words", "aggregate"),
    [
        ("best-of-n", (), "min"),
        ("weighted-vote", (), "min"),
        ("majority", (), None),
        ("mcts", (), "last"),
        ("gflownet", (), "prod"),
        ("mcts", ("--aggregate", "min"), "min"),
        ("best-of-n", ("--aggregate", "last"), "last"),
        ("self-prm", (), None),
    ],
)
def test_a_methods_own_aggregation_holds_unless_another_is_named(
    method: str, words: tuple[str, ...], aggregate: str | None, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = () if method == "majority" else ("--judge", "random")
    found = told(capsys, server, "--method", method, *judge, "--budget-tokens", "10", *words)
    assert found["aggregate"] == aggregate
    assert (f"aggregation={aggregate}" in found["settings"]) == (aggregate is not None)


@pytest.mark.parametrize("method", ["beam-search", "early-rejection"])
def test_completions_in_a_store_are_not_paid_for_again(
    method: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--method", method, "--judge", "random", *case_of(method).options, "--store", "kept", "--out")
    first = told(capsys, server, *words, "a")
    server.behave(None, solve=True)
    second = told(capsys, server, *words, "b")
    assert second["store"]["misses"] == 0 and Path(first["file"]).read_bytes() == Path(second["file"]).read_bytes()
    assert not server.requests(), "the middle of steps is kept too"


def test_no_method_and_no_command_pays_for_the_samples_of_another(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("--n", "4", "--judge", "random")
    first = told(capsys, server, "--method", "best-of-n", *common)
    assert first["store"]["folder"] == str(Path("runs/rollouts").absolute()), "where labelling has its own"
    assert (first["store"]["hits"], first["store"]["misses"]) == (0, PROBLEMS * 4) == (0, len(server.asked()))
    server.behave(None, solve=True)
    second = told(capsys, server, "--method", "weighted-vote", *common)
    assert (second["store"]["hits"], second["store"]["misses"]) == (PROBLEMS * 4, 0) and not server.asked()
    unshared = told(capsys, server, "--method", "weighted-vote", *common, "--store", "none", "--out", "unshared")
    assert unshared["store"] is None and len(server.asked()) == PROBLEMS * 4
    assert second["policy_cost"] == unshared["policy_cost"], "what it costs does not depend on what was there"
    assert Path(second["file"]).read_bytes() == Path(unshared["file"]).read_bytes()


def test_a_budget_does_not_depend_on_what_the_store_holds(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--method", "best-of-n", "--n", "8", "--judge", "random", "--budget-tokens", "40", "--out")
    first = told(capsys, server, *words, "a")
    second = told(capsys, server, *words, "b")
    assert first["stopped"] == second["stopped"] == {"tokens": PROBLEMS} and second["store"]["misses"] == 0
    assert Path(first["file"]).read_bytes() == Path(second["file"]).read_bytes()


# Problems without an answer


def test_a_problem_whose_budget_ran_out_is_wrong_and_not_failed(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--method", "best-of-n", "--n", "2", "--judge", "random", "--budget-tokens", "3")
    found = told(capsys, server, *words)
    assert set(found["unanswered"]) == {"p0", "p1", "p2"} and found["failed"] == {} and found["decided"] == PROBLEMS
    assert found["accuracy"]["chosen"]["value"] == 0.0
    assert all("the budget of tokens ran out" in why for why in found["unanswered"].values())
    assert cli.main([word for word in line(server, *words) if word != "--json"]) == 0
    assert "no answer  3, counted as wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "mcts", "--n", "4"), "takes no --n; its own is --set paths=N"),
        (("--method", "pats", "--n", "4"), "takes no --n; its own is --set widths="),
        (("--method", "adaptive-beam", "--n", "4"), "--n 4 with 8 expansions, its own: pass --set expansions=… too"),
    ],
)
def test_a_number_of_candidates_that_does_not_fit_says_which_setting_does(
    words: tuple[str, ...], said: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(line(server, "--judge", "random", *words)) == 2
    assert said in capsys.readouterr().err


def test_every_searcher_without_n_has_another_setting_that_exists() -> None:
    for method in parts("searcher"):
        takes = inspect.signature(load("searcher", method)).parameters
        dial = declared("searcher", method).dial
        assert ("n" in takes) != bool(dial), method
        for pair in dial.split():
            assert pair.partition("=")[0] in takes


# Judges and servers that fail


@pytest.mark.parametrize("method", ["best-of-n", "beam-search"])
def test_a_judge_that_hangs_fails_its_problem_only(
    method: str, server: Server, critic: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    critic.behave("No error: \\boxed{-1}", faults=[{"kind": "stall", "match": "p1:"}])
    words = ["--method", method, "--n", "2", "--judge", "critic", "--set", "policy=critic"]
    words += ["expansions=2"] if method == "beam-search" else []
    words += ["--helper", f"critic=http,url={critic.url},mode=chat,timeout=2.5,retries=0"]
    found = told(capsys, server, *words)
    assert list(found["failed"]) == ["p1"] and "2.5 s" in found["failed"]["p1"] and found["decided"] == 2
    critic.behave("No error: \\boxed{-1}")
    server.behave(None, solve=True)
    again = told(capsys, server, *words)
    assert again["failed"] == {} and again["decided"] == 3
    assert all("p1:" in key for key in [*server.asked(), *critic.asked()])


@pytest.mark.parametrize(
    ("judge", "text", "reason"),
    [
        ("prompted", "I would rather talk about the weather.", "unparsable: no list of 0 and 1"),
        ("critic", "The first \\boxed{paragraph}.", "unparsable: the box holds 'paragraph'"),
    ],
)
def test_a_judge_that_babbles_fails_its_problems_with_the_reason(
    judge: str, text: str, reason: str, server: Server, critic: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    critic.behave(text)
    words = ["--method", "best-of-n", "--n", "2", "--judge", judge, "--set", "policy=other"]
    words += ["--helper", f"other=http,url={critic.url},mode=chat"]
    found = told(capsys, server, *words, code=1)
    assert len(found["failed"]) == PROBLEMS and found["decided"] == 0
    assert all("2 could not be scored" in why and reason in why for why in found["failed"].values())
    assert cli.main([word for word in line(server, *words) if word != "--json"]) == 1
    assert f"p0: 0 of 2 samples failed, 0 gave no answer, 2 could not be scored; {reason}" in capsys.readouterr().out
    server.behave(None, solve=True)
    critic.behave("No error: [1, 1, 1] \\boxed{-1}")
    mended = told(capsys, server, *words)
    assert mended["failed"] == {} and critic.asked() and not server.asked(), (
        "the judge is asked anew, the writer is not"
    )


@pytest.mark.parametrize("method", ["best-of-n", "weighted-vote", "beam-search"])
def test_a_critic_that_finds_the_first_step_wrong_has_not_failed(
    method: str, server: Server, critic: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says nothing of the steps after the error: those are worth what the error is."""
    critic.behave("The first one is wrong: \\boxed{0}")
    words = ["--method", method, "--n", "2", "--judge", "critic", "--set", "policy=other"]
    words += ["--helper", f"other=http,url={critic.url},mode=chat"]
    words += ["--set", "expansions=2"] if method == "beam-search" else []
    found = told(capsys, server, *words)
    assert found["failed"] == {} and found["with_failed_calls"] == 0 and found["decided"] == PROBLEMS
    for result in results(found):
        assert len(result.candidates) == 2 and all(len(t.steps) > 1 for t, _ in result.candidates)
        assert all(said is not None and set(said.values) == {0.0} for _, said in result.candidates)
    critic.behave("The first one is wrong: \\boxed{0}")
    told(capsys, server, *words)
    assert critic.asked() == [], "nothing is tried again"


@pytest.mark.parametrize("settings", [{"no_usage": True}, {"no_tokens": True}])
def test_a_budget_of_tokens_is_refused_where_the_server_counts_none(
    settings: dict[str, bool], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(None, solve=True, **settings)
    words = ("--method", "best-of-n", "--n", "8", "--judge", "random", "--logprobs", "False", "--budget-tokens", "40")
    assert cli.main(line(server, *words)) == 2
    assert "counts no tokens, so a budget of tokens cannot hold" in capsys.readouterr().err
    assert told(capsys, server, *words[:-2], "--budget-calls", "4")["stopped"] == {"calls": PROBLEMS}


def test_ids_go_to_the_terminal_short_and_without_control_characters() -> None:
    assert shown_id("p\n\x1b[31m7") == "p\ufffd\ufffd[31m7" and len(shown_id("x" * 5000)) == 81


def test_problems_that_a_server_failed_on_are_listed_and_tried_again(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--method", "dvts", "--n", "4", "--judge", "random", "--store", "none", "--out")
    whole = told(capsys, server, *words, "whole")
    server.behave(None, solve=True, faults=[{"kind": "500", "match": "p1:"}])
    broken = told(capsys, server, *words, "broken")
    assert list(broken["failed"]) == ["p1"] and "trouble 500" in broken["failed"]["p1"] and broken["decided"] == 2
    server.behave(None, solve=True)
    mended = told(capsys, server, *words, "broken")
    assert mended["failed"] == {} and all("p1:" in key for key in server.asked())
    assert Path(mended["file"]).read_bytes() == Path(whole["file"]).read_bytes()


def test_a_judge_that_babbled_is_asked_anew_by_another_machine_where_the_run_lies_in_an_object_store(
    server: Server, critic: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no results of its own, took that for a search without failures, and read the babble from the store again."""
    pytest.importorskip("fsspec")
    words = ["--method", "best-of-n", "--n", "2", "--judge", "critic", "--set", "policy=other"]
    words += ["--helper", f"other=http,url={critic.url},mode=chat"]
    words += ["--store", str(tmp_path / "shared"), "--out", f"file://{tmp_path}/bucket/run"]
    critic.behave("It is what it is.")
    assert len(told(capsys, server, *words, code=1)["failed"]) == PROBLEMS
    critic.behave("\\boxed{-1}")
    monkeypatch.setattr("footfall.scale.objects.Remote.folder", tmp_path / "other" / "copy")
    assert told(capsys, server, *words)["failed"] == {} and critic.asked()


def test_answers_that_were_found_although_calls_failed_are_counted(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave(None, solve=True, faults=[{"kind": "500", "match": "So 3 - 4 = 1."}])
    words = ("--method", "dvts", "--n", "12", "--set", "expansions=2", "--judge", "always-right")
    found = told(capsys, server, *words)
    lossy = [row for row in results(found) if any(decision.what == "failed" for decision in row.decisions)]
    assert found["failed"] == {} and found["with_failed_calls"] == len(lossy) > 0
    assert cli.main([word for word in line(server, *words) if word != "--json"]) == 0
    assert f"{len(lossy)} answered although a call failed" in capsys.readouterr().out


@pytest.mark.long
def test_a_server_that_dies_and_returns_costs_nothing_but_time(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    patience = ("--retries", "6", "--timeout", "5", "--store", "none")
    words = ("--method", "beam-search", "--n", "4", "--judge", "random", *patience, "--out")
    whole = told(capsys, server, *words, "whole")
    server.behave(None, solve=True, delay=0.1)

    def die_and_return() -> None:
        wait_for(lambda: len(server.asked("answered")) >= 3)
        server.stop()
        time.sleep(0.2)
        server.start(solve=True)

    thread = threading.Thread(target=die_and_return)
    thread.start()
    found = told(capsys, server, *words, "disturbed")
    thread.join()
    assert found["failed"] == {}
    for one, other in zip(results(found), results(whole), strict=True):
        assert one.cost.calls >= other.cost.calls and one.answer == other.answer and one.decisions == other.decisions


def test_a_server_that_is_gone_for_good_fails_problems_until_it_is_back(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--method", "best-of-n", "--n", "2", "--judge", "random", "--model", "toy")
    server.stop()
    try:
        gone = told(capsys, server, *words, code=1)
    finally:
        server.start()
    assert len(gone["failed"]) == PROBLEMS and gone["accuracy"] == {}
    assert all("2 of 2 samples failed" in why for why in gone["failed"].values())
    server.behave(None, solve=True)
    assert told(capsys, server, *words)["failed"] == {}


# A run that is killed


class SearchJob(Job):
    """A search over the server."""

    def __init__(self, server: Server, folder: Path, method: str) -> None:
        words = ["--method", method, "--n", "4", "--judge", "random", "--budget-tokens", "100", "--chunk", "4"]
        super().__init__(folder, line(server, *words))
        folder.mkdir()
        write_problems(folder, 12)

    def finished(self) -> set[str]:
        """The problems that are kept."""
        shards = sorted((self.folder / "run" / "results").glob("*.parquet"))
        return {row.problem.id for shard in shards for row in read_parquet(shard, "search-result")}

    def kept(self) -> int:
        """Completions in the store."""
        shards = (self.folder / "rollouts").rglob("[!.]*.parquet")
        return sum(len(read_parquet(shard, "trajectory")) for shard in shards)


@pytest.mark.long
@pytest.mark.parametrize("method", ["weighted-vote", "beam-search"])
def test_a_killed_search_goes_on_to_the_same_bytes_and_repeats_no_finished_problem(
    method: str, server: Server, tmp_path: Path
) -> None:
    server.behave(None, solve=True)
    undisturbed = SearchJob(server, tmp_path / "undisturbed", method)
    undisturbed.finish()
    total = len(server.asked())
    killed = SearchJob(server, tmp_path / "killed", method)
    server.behave(None, solve=True, delay=0.05)
    process = killed.start()
    wait_for(lambda: len(server.asked("answered")) > total // 2 or process.poll() is not None, 60)
    process.kill()
    _, errors = process.communicate()
    assert process.returncode == -9, errors.decode()
    kept, stored = killed.finished(), killed.kept()
    assert 0 < len(kept) < 12 and stored > 0
    server.behave(None, solve=True)
    killed.finish()
    again = {key.partition("|")[2].partition(":")[0] for key in server.asked()}
    assert again <= {f"p{k}" for k in range(12)} - kept
    assert len(server.asked()) == len(set(server.asked())) == total - stored, "nor what was written for others"
    assert killed.written() == undisturbed.written()


def wait_for(happened: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.005)


def test_the_page_on_search_has_every_searcher_and_says_rightly_whether_it_needs_a_judge() -> None:
    page = (Path(__file__).parents[2] / "docs" / "search.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| (yes|no) \|$", page, re.MULTILINE))
    assert rows == {name: "yes" if create("searcher", name).judged else "no" for name in parts("searcher")}
