"""Parts in a file of the user's own, `mine.py:MyJudge`: named on the command line they are parts, named elsewhere not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall import cli, registry
from footfall.formats import read_parquet
from footfall.train.losses import mse_loss
from footfall.train.objectives import make_objective

MINE = '''
from dataclasses import dataclass, replace

from footfall.drive.requests import ROOT
from footfall.registry import create
from footfall.search.state import Choice
from footfall.types import Judgement
from footfall.worlds import ArithmeticPolicy

open("ran", "w").close()


@dataclass(frozen=True)
class Length:
    """Short steps are good."""

    most: int = 10

    @property
    def name(self):
        return f"length({self.most})"

    def judge(self, trajectories):
        return [Judgement(t.id, tuple(float(len(s.text) <= self.most) for s in t.steps), self.name) for t in trajectories]


@dataclass(frozen=True)
class First:
    """The first of n solutions."""

    n: int = 2
    judged = False

    @property
    def name(self):
        return f"first({self.n})"

    def search(self, state):
        [nodes] = yield from state.expand([ROOT], self.n, "end")
        return Choice(nodes[0] if nodes else None, nodes)


class Careful(ArithmeticPolicy):
    """The scripted writer under another name."""

    @property
    def name(self):
        return f"careful({self.recover})"


def half(scale: float = 0.5):
    """Half of the squared error."""
    made = create("objective", "mse")
    return replace(made, name=f"half({scale})", loss=lambda *of: scale * made.loss(*of))
'''
TRACE = '{"id": "t", "problem": "2 + 3 = ?", "steps": ["2 + 3 = 5", "so the answer is 5"]}\n'


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE, encoding="utf-8")
    Path("traces.jsonl").write_text(TRACE, encoding="utf-8")
    return Path("mine.py")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert cli.main([*words, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert cli.main([*words]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("words", [["mine.py:Length,most=9"], ["./mine.py:Length", "--set", "most=9"]])
def test_a_judge_with_settings_after_its_name_or_by_set(
    mine: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "score", "traces.jsonl", "--judge", *words)
    assert found["judge"] == "length(9)" and found["rows"][0]["values"] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("spec", "threshold", "whose"),
    [
        ("own.py:Plain", 0.7, "the judge's own"),
        ("own.py:Plain,threshold=0.3", 0.3, "the judge's own"),
        ("own.py:Declares,threshold=0.3", 0.3, "the judge's own"),
        ("own.py:Odd", 0.5, "usual"),
    ],
)
def test_the_threshold_of_a_judge_in_a_file_counts(
    mine: Path, spec: str, threshold: float, whose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plain attribute does, and so do `traits`; `mine.py:MyJudge,threshold=0.3` is what --help promises."""
    declares = "\n    @property\n    def traits(self):\n        return Traits(threshold=self.threshold)\n"
    own = [f"@dataclass\nclass {n}(Length):\n    threshold: {t}{m}\n" for n, t, m in (
        ("Plain", "float = 0.7", ""), ("Declares", "float = 0.7", declares), ("Odd", "str = 'high'", ""))]  # fmt: skip
    text = MINE.replace("(frozen=True)", "") + "\nfrom footfall.judging import Traits\n" + "\n".join(own)
    Path("own.py").write_text(text, encoding="utf-8")
    found = told(capsys, "score", "traces.jsonl", "--judge", spec)
    assert (found["threshold"], found["threshold_policy"]) == (threshold, whose)


def test_a_searcher_a_policy_and_a_judge_in_a_role(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "search",
        "--problems",
        "world:arithmetic:2",
        "--policy",
        "mine.py:Careful,recover=0.5",
        "--step-end",
        "line",
    ]
    found = told(capsys, *words, "--method", "mine.py:First", "--n", "3")
    assert found["policy"] == "careful(0.5)" and found["settings"] == "first(3)" and len(found["answers"]) == 2
    birm = told(capsys, *words, "--method", "birm", "--judge", "exact-value", "--judge-role", "short=mine.py:Length,most=12",
                "--set", "reward=short", "beams=2", "--n", "2")  # fmt: skip
    assert birm["judges"] == {"short": "length(12)"}


def test_who_writes_rollouts_who_is_asked_about_them_and_who_watches(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`footfall rl` said of each that the command line must name it, which it did."""
    pytest.importorskip("trl", reason="could not import 'trl'")
    sizes = ("--updates", "1", "--prompts", "1", "--group", "2", "--measured", "2", "--max-tokens", "99")
    judge = ("--judge", "monte-carlo,rollouts=2", "--judge-policy", "mine.py:Careful,recover=0.5")
    others = ("--held-out-judge", "mine.py:Length,most=8", "--writer", "mine.py:Careful")
    words = ["rl", "--problems", "world:arithmetic:4", "--credit", "capo", *judge, *others, *sizes, "--device", "cpu"]
    assert cli.main([*words, "--out", "run", "--json"]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["rollouts"] == 2
    told = [json.loads(line) for line in Path("run/log.jsonl").read_text(encoding="utf-8").splitlines()]
    figures = [line["figures"] for line in told if line["event"] == "checkpoint"]
    assert figures and all(each["held_out"] is not None for each in figures)


def test_a_labeller_and_an_objective_whose_model_is_read_without_the_file(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(
        capsys,
        "sample",
        "--problems",
        "world:arithmetic:8",
        "--policy",
        "scripted-arithmetic",
        "--n",
        "2",
        "--out",
        "s",
    )
    told(
        capsys,
        "label",
        "--data",
        "s/trajectories.parquet",
        "--method",
        "mine.py:Length",
        "--set",
        "most=14",
        "--out",
        "l",
    )
    assert read_parquet(Path("l/judged.parquet"), "judged")[0].judgement.judge == "length(14)"
    words = [
        "train",
        "--data",
        "l/judged.parquet",
        "--objective",
        "mine.py:half",
        "--set",
        "scale=0.25",
        "--epochs",
        "1",
    ]
    told(capsys, *words, "--device", "cpu", "--out", "t")
    mine.unlink()
    assert len(told(capsys, "score", "traces.jsonl", "--judge", "t")["rows"]) == 1


def test_an_objective_may_be_the_loss_itself(mine: Path) -> None:
    """Its logits have the shape of its targets, so that the difference of the two is no table of all against all."""
    source = "def squared(logits, targets, mask, scale=1.0):\n    assert logits.shape == targets.shape\n"
    source += "    return scale * (((logits.sigmoid() - targets) ** 2) * mask).sum() / mask.sum()\n"
    source += "def number(a):\n    return 1\ndef nothing():\n    return None\n"
    Path("loss.py").write_text(source, encoding="utf-8")
    registry.name_files(["loss.py:squared", "loss.py:number", "loss.py:nothing"])
    logits, targets = torch.tensor([[[0.3], [-1.0]]]), torch.tensor([[1.0, 0.0]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    found = make_objective("loss.py:squared", {"scale": 2.0}).loss(logits, targets, mask)
    assert torch.allclose(found, 2 * mse_loss(logits, targets, mask))
    wrong: list[tuple[str, dict[str, float], str]] = [
        ("squared", {"scales": 2.0}, r"scale=1.0\): a loss .* the settings are scales"),
        ("number", {}, r"takes \(a\): a loss of your own is loss\(logits, targets, mask\)"),
        ("nothing", {}, "gave NoneType: a loss"),
    ]
    for name, options, message in wrong:
        with pytest.raises(ValueError, match=message):
            make_objective(f"loss.py:{name}", options)


def test_a_file_that_changed_makes_another_run(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["score", "traces.jsonl", "--judge", "mine.py:Length"]
    assert told(capsys, *words)["rows"][0]["values"] == [1.0, 0.0]
    mine.write_text(MINE.replace("<= self.most", "> self.most"), encoding="utf-8")
    assert told(capsys, *words)["rows"][0]["values"] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mine.py:Lenght", "mine.py has no class or function 'Lenght'; did you mean 'Length'?"),
        ("mine.py:First", "is no labeller, which has a method 'judge'"),
        ("none.py:Length", "none.py: no such file"),
        ("bad.py:Length", "bad.py, line 2: "),
        ("short.py:Mine", "short.py, line 3: Mine.judge takes (self); it is called with (trajectories)"),
    ],
)
def test_what_is_amiss_with_a_file_is_said_in_one_line(
    mine: Path, spec: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.py").write_text("x = 1\ndef (:\n", encoding="utf-8")
    Path("short.py").write_text("class Mine:\n    name = 'mine'\n    def judge(self): return []\n", encoding="utf-8")
    said = refused(capsys, "score", "traces.jsonl", "--judge", spec)
    assert message in said and said.count("\n") == 1


def test_a_judges_folder_cannot_have_a_file_run(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("judge")
    folder.mkdir()
    of = {"name": "mine.py:Length", "settings": {}}
    (folder / "calibration.json").write_text(json.dumps({"kind": "platt", "of": of}), encoding="utf-8")
    said = refused(capsys, "score", "traces.jsonl", "--judge", str(folder))
    assert "only if the command line itself names it" in said and not Path("ran").exists()
    told(capsys, "score", "traces.jsonl", "--judge", "mine.py:Length")
    assert refused(capsys, "score", "traces.jsonl", "--judge", str(folder)) == said, (
        "no command allows it to a later one"
    )


def test_a_name_of_a_file_is_no_part_in_python_either(mine: Path) -> None:
    with pytest.raises(KeyError, match="only if the command line itself names it"):
        registry.create("labeller", f"{mine}:Length")
    assert not Path("ran").exists()


FAULTY = """
from footfall.types import Judgement

class Nameless:
    def judge(self, trajectories):
        return []

class Lists:
    name = "lists"
    def judge(self, trajectories):
        return [[0.5 for _ in t.steps] for t in trajectories]

class Few(Lists):
    def judge(self, trajectories):
        return []

class Boom(Lists):
    def judge(self, trajectories):
        return {}["oops"]

class Nothing(Lists):
    def judge(self, trajectories):
        return None

class Yields(Lists):
    def judge(self, trajectories):
        yield from trajectories

class Divides(Lists):
    def judge(self, trajectories):
        return 1 / 0

class Typo(Lists):
    def judge(self, trajectories):
        return [step.txt for t in trajectories for step in t.steps]

class Endless(Lists):
    def judge(self, trajectories):
        return self.judge(trajectories)

class Mixed(Lists):
    def judge(self, trajectories):
        from footfall.types import Judgement
        return [Judgement("another", (1.0,) * len(t.steps), "lists") for t in trajectories]
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("faulty.py:Nameless", "faulty.py:Nameless has no `name`: give it one"),
        ("faulty.py:Lists", "the judge 'lists' must return a list with one Judgement for each trace"),
        ("faulty.py:Few", "the judge 'lists' must return a list with one Judgement for each trace"),
        ("faulty.py:Boom", "faulty.py, line 19: KeyError: oops"),
        ("faulty.py:Nothing", "the judge 'lists' must return a list with one Judgement for each trace"),
        ("faulty.py:Yields", "the judge 'lists' must return a list with one Judgement for each trace"),
        ("faulty.py:Divides", "faulty.py, line 31: ZeroDivisionError: division by zero"),
        ("faulty.py:Typo", "faulty.py, line 35: AttributeError: 'Step' object has no attribute 'txt'"),
        ("faulty.py:Endless", "faulty.py, line 39: RecursionError: maximum recursion depth exceeded"),
        ("faulty.py:Mixed", "the judge 'lists' gave a judgement of 'another' for trace "),
        ("faulty.py", "faulty.py is a file; name the labeller in it too, as in faulty.py:NAME"),
        ("unknown.py:Any", "unknown.py, line 1: NameError: name 'mistyped' is not defined"),
        ("away.py:Any", "away.py, line 1: ModuleNotFoundError: No module named 'not_installed'"),
    ],
)
def test_a_fault_in_the_users_own_file_is_told_with_its_place(
    mine: Path, name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("faulty.py").write_text(FAULTY, encoding="utf-8")
    Path("away.py").write_text("import not_installed\n", encoding="utf-8")
    Path("unknown.py").write_text("mistyped\n", encoding="utf-8")
    assert message in refused(capsys, "score", "traces.jsonl", "--judge", name)


def test_calibrating_a_judge_in_a_file_advises_nothing_that_is_refused(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"problem": f"{i}?", "steps": ["a" * i, "b" * (20 - i)], "labels": [1, i % 2]} for i in range(1, 20)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert cli.main(["calibrate", "--data", "rows.jsonl", "--judge", "mine.py:Length", "--out", "c"]) == 0
    said = capsys.readouterr()
    assert "next:" not in said.out + said.err and "put it into a package" in said.err
