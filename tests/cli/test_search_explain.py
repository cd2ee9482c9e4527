"""`footfall search --explain ID`: one page with the tree of a problem, from a finished run, whatever the text in it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from footfall import cli
from footfall.formats import read_parquet
from footfall.policy.protocol import SamplingParams
from footfall.reports.search_page import tree_page
from footfall.search import BeamSearch, BestOf, Budget, Searcher
from footfall.types import Cost, Decision, Problem, SearchResult, Step, Tree
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge

WORDS = ["search", "--problems", "world:arithmetic:3", "--policy", "scripted-arithmetic", "--judge", "exact-value",
         "--method", "beam-search", "--n", "8", "--max-tokens", "64"]  # fmt: skip
HOSTILE = '</summary><script>alert(1)</script><img src=x onerror="alert(2)">\x00 & "quotes"'


def searched(n: int = 8) -> SearchResult:
    policy = ArithmeticPolicy()
    params = SamplingParams(seed=1, max_tokens=64)
    searcher = Searcher(policy, ExactValueJudge(policy), BeamSearch(n, 4), params=params, separator="\n")
    return searcher.solve(ArithmeticWorld().problems(1, split="test"))[0]


def nodes_of(page: str) -> list[ElementTree.Element]:
    body = ElementTree.fromstring(page.partition("\n")[2])
    return [e for e in body.iter("li") if "node" in (e.get("class") or "").split()]


def test_the_page_of_a_finished_run_by_the_same_command_line_or_by_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(WORDS) == 0
    (folder,) = (tmp_path / "runs").glob("search-*")
    result = read_parquet(folder / "results.parquet", "search-result")[1]
    capsys.readouterr()
    assert cli.main([*WORDS, "--explain", result.problem.id, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    first = Path(told["page"]).read_text(encoding="utf-8")
    assert Path(told["page"]).parent.resolve() == folder.resolve() and told["nodes"] == len(result.tree.nodes)
    assert cli.main(["search", "--out", str(folder), "--explain", result.problem.id, "--json"]) == 0
    assert Path(json.loads(capsys.readouterr().out)["page"]).read_text(encoding="utf-8") == first
    assert list((tmp_path / "runs").glob("search-*")) == [folder], "--explain does not make another run"


def test_a_search_shows_its_answers_and_how_to_look_into_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*WORDS, "--show", "2", "--to", "out/answers.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert cli.main([*WORDS, "--json", "--to", "out/answers.jsonl"]) == 0, (
        "what an earlier search wrote is written anew"
    )
    told = json.loads(capsys.readouterr().out)
    (folder,) = Path("runs").glob("search-*")
    results: list[SearchResult] = read_parquet(folder / "results.parquet", "search-result")
    for row, result in zip(told["answers"], results, strict=True):
        right = result.chosen is not None and result.chosen.correct
        assert (row["id"], row["answer"], row["correct"]) == (result.problem.id, result.answer, right)
        assert row["reference"] == result.problem.answer and row["failure"] is None
    first, second, third = told["answers"]
    assert (
        first["id"] in shown and second["id"] in shown and f"  {third['id']}" not in shown and "… and 1 more" in shown
    )
    assert f"{first['answer']}  {'right' if first['correct'] else 'wrong'}" in shown
    wrong = next((row for row in told["answers"] if not row["correct"]), first)
    assert f"footfall search --out {folder} --explain {wrong['id']}" in " ".join(shown.split())
    lines = [json.loads(line) for line in Path("out/answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [{name: line[name] for name in first} for line in lines] == told["answers"]
    assert results[0].chosen is not None and lines[0]["steps"] == [step.text for step in results[0].chosen.steps]


def test_a_file_that_no_search_wrote_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = tmp_path / "problems.jsonl"
    problems.write_text('{"id": "a", "problem": "1 + 1 = ?", "answer": "2"}\n', encoding="utf-8")
    assert cli.main([*WORDS, "--out", str(tmp_path / "run"), "--to", str(problems)]) == 2
    assert "no earlier search wrote it" in capsys.readouterr().err and "1 + 1" in problems.read_text(encoding="utf-8")
    assert cli.main([*WORDS, "--out", str(tmp_path / "run"), "--to", str(tmp_path / "answers.csv")]) == 2
    assert "ends in .jsonl" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*It is now results.parquet.damaged")
def test_damaged_results_are_named_and_put_together_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, file = [*WORDS, "--out", str(tmp_path)], tmp_path / "results.parquet"
    assert cli.main(words) == 0
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert cli.main([*words, "--explain", "any"]) == 2
    assert "the same command without --explain puts it together again" in capsys.readouterr().err
    assert cli.main(words) == 0
    assert file.read_bytes() == whole and file.with_name("results.parquet.damaged").exists()


def test_what_cannot_be_explained_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["search", "--out", str(tmp_path), "--explain", "x"]) == 2
    assert "holds no finished search" in capsys.readouterr().err
    assert cli.main([*WORDS, "--out", str(tmp_path / "run")]) == 0
    assert cli.main(["search", "--out", str(tmp_path / "run"), "--explain", "no-such"]) == 2
    assert "no problem is called 'no-such'; there are 3" in capsys.readouterr().err
    assert cli.main(["search"]) == 2
    assert "--problems is needed" in capsys.readouterr().err


def test_every_node_is_there_once_with_value_cost_and_state() -> None:
    result = searched()
    assert result.tree is not None
    page = tree_page(result)
    drawn = nodes_of(page)
    assert len(drawn) == len(result.tree.nodes)
    (chosen,) = (d.nodes[0] for d in result.decisions if d.what == "chosen")
    path = result.tree.path(chosen)
    marked = [e for e in drawn if "chosen" in (e.get("class") or "")]
    assert len(marked) == len(path)
    given_up = [e for e in drawn if "pruned" in (e.get("class") or "").split()]
    assert len(given_up) == sum(node.pruned for node in result.tree.nodes) > 0
    for element in given_up:
        assert element.find("details").get("open") is None  # type: ignore[union-attr]
    summaries = ["".join(e.find("details/summary").itertext()) for e in drawn]  # type: ignore[union-attr]
    for i, node in enumerate(result.tree.nodes):
        (line,) = (s for s in summaries if f" #{i} " in s)
        assert node.value is not None and line.startswith(f"{node.value:.2f}")
        assert f"{node.cost.generated_tokens} written" in line
    assert page.count('<ol class="told">') == 1 and all(f"{k}. " in page for k in range(1, len(result.decisions) + 1))


@pytest.mark.long
def test_hostile_text_stays_text() -> None:
    problem = Problem(HOSTILE, HOSTILE, HOSTILE)
    tree = Tree(problem)
    node = tree.add(-1, Step(HOSTILE), value=0.5, cost=Cost(generated_tokens=3), meta={HOSTILE: HOSTILE})
    tree.add(node, Step("x" * 5000), value=-3.0, pruned=True)
    tree.add(node, Step(""), value=7.0, terminal=True)
    decisions = (Decision(HOSTILE, (node,), HOSTILE, ()), Decision("chosen", (node,), "", (0.5,)))
    result = SearchResult(problem, HOSTILE, None, tree=tree, decisions=decisions, failure=HOSTILE)
    page = tree_page(result)

    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: set[str] = set()

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found.add(tag)
            assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    tags = Tags()
    tags.feed(page)
    assert not {"script", "img"} & tags.found
    assert len(nodes_of(page)) == 3


def test_a_tree_of_thousands_of_nodes_and_a_very_deep_one_are_drawn() -> None:
    wide = Tree(Problem("p", "?"))
    for i in range(2000):
        wide.add((i - 1) // 3, Step(f"step {i}"), value=i / 2000)
    assert len(nodes_of(tree_page(SearchResult(wide.problem, None, None, tree=wide)))) == 2000
    deep = Tree(Problem("p", "?"))
    for i in range(1500):
        deep.add(i - 1, Step(f"step {i}"))
    assert tree_page(SearchResult(deep.problem, None, None, tree=deep)).count('class="node') == 1500


def test_a_search_that_found_nothing_has_a_page_too() -> None:
    policy = ArithmeticPolicy()
    searcher = Searcher(policy, None, BestOf(2, "majority"), Budget(tokens=1), SamplingParams(max_tokens=1), "\n")
    result = searcher.solve(ArithmeticWorld().problems(1))[0]
    assert "no answer" in tree_page(result) and "Nothing was written" in tree_page(result)
