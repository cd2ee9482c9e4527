"""`footfall search` and `label --trees` over more problems than are held: the files and pages of a list, and no more memory."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from footfall.cli import main
from footfall.commands import _search_report, _trees
from footfall.formats import iter_problems, spool
from footfall.metrics import Interval
from footfall.terminal import json_parts
from footfall.types import Problem, SearchResult, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.cli.telling import told
from tests.formats.test_formats_spool import SEVEN

SECONDS = re.compile(r'"seconds": [0-9.e-]+|[0-9.]+ s\b')
UNSURE = """
import random
from footfall.policy.protocol import Completion
from footfall.types import Step
class Unsure:
    name = 'unsure'
    def sample(self, prefixes, n=1, params=None, first=0):
        if any(prefix.problem.id == 'p7' for prefix in prefixes):
            raise ConnectionError('the server is gone')
        def step(prefix, i):
            said = random.Random(f'{prefix.problem.id} {i}').choice(['The answer is 7.', 'The answer is 8.', 'Well.'])
            return Step('Well.' if prefix.problem.id == 'p5' else said)
        return [[Completion((step(prefix, i),), 'end', i) for i in range(first, first + n)] for prefix in prefixes]
"""
JUDGE = """
from footfall.types import Judgement
class Odd:
    name = 'odd'
    def judge(self, traces):
        return [Judgement(t.id, tuple(len(t.problem.id) / 4 - len(s.text) / 20 for s in t.steps), self.name) for t in traces]
"""


def problems(many: int, words: int = 1) -> None:
    lines = (json.dumps({"id": f"p{i}", "problem": f"{i} " * words, "answer": "7"}) for i in range(many))
    Path("problems.jsonl").write_text("\n".join(lines))


@pytest.mark.parametrize("method", ["majority", "best-of-n"])
def test_results_of_many_problems_are_those_of_a_list(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.py").write_text(UNSURE)
    (tmp_path / "judge.py").write_text(JUDGE)
    problems(13)
    judge = [] if method == "majority" else ["--judge", "judge.py:Odd"]
    words = ["search", "--problems", "problems.jsonl", "--policy", "policy.py:Unsure", "--method", method, *judge]
    words += ["--n", "3", "--chunk", "4", "--limit", "11", "--store", "none"]

    def searched(folder: str, most: int) -> tuple[dict[str, Any], list[Any]]:
        for name in ("footfall.formats.spool.IN_MEMORY", "footfall.commands.search._LISTED"):
            monkeypatch.setattr(name, most)
        to = ["--to", f"{folder}.jsonl", "--out", folder]
        first, again = (told(capsys, *words, *to) for _ in range(2))  # what failed is tried again, in vain
        assert first["failed"] == again["failed"] == {"p7": "ConnectionError: the server is gone"}
        assert main([*words, *to, "--show", "6"]) == 0
        texts = [capsys.readouterr().out, *(Path(folder, name).read_text() for name in ("report.html", "result.json"))]
        files = [Path(folder, "results.parquet").read_bytes(), Path(f"{folder}.jsonl").read_bytes()]
        retried = sorted(path.name for path in Path(folder).glob("retry-*/*"))
        return again, [*files, *(SECONDS.sub("", text.replace(folder, "")) for text in texts), retried]

    monkeypatch.setattr(spool, "_A_FILE", 3)
    (said, listed), (_, many) = searched("aaaa", 20_000), searched("bbbb", 5)
    assert len(said["answers"]) == said["problems"] == 11 and said["limited"] == {"used": 11, "of": 13}
    assert "p5" in said["unanswered"] and 0 < said["accuracy"]["chosen"]["value"] < 1 and len(listed[-1]) == 2
    assert many == listed


@pytest.mark.long
def test_four_times_the_problems_are_searched_and_have_trees_in_the_same_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each problem has 14 kB of text: held in memory, 90 more of them would show."""
    monkeypatch.chdir(tmp_path)
    for name in ("formats.spool.IN_MEMORY", "formats.spool._A_FILE", "formats.parquet._AT_ONCE", "formats.parquet._GROUP",
                 "formats.parquet._LARGE_AT_ONCE", "commands.search._LISTED", "commands._trees.IN_MEMORY"):  # fmt: skip
        monkeypatch.setattr(f"footfall.{name}", 16)
    monkeypatch.setattr("footfall.metrics.intervals.bootstrap_mean", lambda rates, seed: Interval(len(rates), 0.0, 0.0))
    (tmp_path / "policy.py").write_text(SEVEN)
    words = ["--policy", "policy.py:Seven", "--chunk", "8", "--store", "none", "--json"]
    commands = {
        "search": ["search", "--problems", "problems.jsonl", "--method", "majority", "--n", "2"],
        "trees": ["label", "--data", "traces.jsonl", "--method", "omegaprm", "--trees", "1", "--rollouts", "2"],
    }
    for command, own in commands.items():
        peaks = []
        for many in (8, 30, 120):  # the first one for what is imported, which takes long if memory is traced
            problems(many, words=4000)
            records = [
                {"id": p.id, "problem": p.text, "answer": "7", "steps": ["7."]} for p in iter_problems("problems.jsonl")
            ]
            Path("traces.jsonl").write_text("\n".join(map(json.dumps, records)))
            del records
            if many > 8:
                tracemalloc.start()
            assert main([*own, *words, "--out", f"{command}-{many}"]) in (0, 1)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            capsys.readouterr()
        shards = len(list(Path(f"{command}-120").glob("*/*.parquet")))
        assert shards == 15 and peaks[2] < 1.5 * peaks[1], f"{command}: {peaks}"


def test_each_problem_has_one_tree_in_the_order_of_first_traces_as_the_last_one_has_it() -> None:
    traces = [t for _, t in ArithmeticWorld().traces(ArithmeticPolicy(), 9, seed=3)] * 3
    random.Random(0).shuffle(traces)
    other = [replace(t, problem=replace(t.problem, answer=str(i))) for i, t in enumerate(traces)]

    def tops(traces: list[Trajectory]) -> list[_trees._Top]:
        return list({t.prefix(0).key: _trees._Top(t.problem, t.separator) for t in traces}.values())

    assert list(_trees._tops(other)) == tops(other) and len(tops(other)) == 9


def test_problems_of_one_id_are_told_apart_where_they_have_no_answer() -> None:
    """A JSON object has each name once: of two, readers keep the last."""
    why = {"a": "first", "b": "other", "a~2": "its own", "a~3": "second"}
    results = [
        SearchResult(Problem(name, "1 + 1?"), None, None, failure=said)
        for name, said in zip(("a", "b", "a~2", "a"), why.values(), strict=True)
    ]
    found = _search_report.summary(results, 0, True)["unanswered"]
    assert dict(found) == why and len(found) == 4 and found["a~3"] == "second"
    pairs: list[list[tuple[str, Any]]] = []
    json.loads("".join(json_parts({"unanswered": found})), object_pairs_hook=pairs.append)
    assert pairs[0] == list(why.items())
