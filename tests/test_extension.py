"""A package of somebody else: its labeller, searcher, objective and head are known everywhere by entry points alone."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODULE = '''
"""Three toys, as a user's own package would have them."""

from collections.abc import Sequence
from dataclasses import dataclass

from footfall.drive.requests import ROOT
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, Paper, register
from footfall.search.state import Choice, Course, SearchState, described
from footfall.registry import label_row
from footfall.types import Cost, Judgement, Trajectory


@register(
    "labeller",
    "toy-rates",
    Declared(
        study=(label_row(budgets=(1.0, 2.0), value="values"),),
        systems={"toy-system": {"rollouts": 3}},
        paper=Paper("Toy rates", 2026, "2601.00001"),
    ),
)
@dataclass(frozen=True)
class ToyRates:
    """The share of rollouts that end by themselves, whatever they answer."""

    policy: Policy
    rollouts: int = 4
    params: SamplingParams = SamplingParams()

    @property
    def name(self) -> str:
        return f"toy-rates({self.policy.name},{self.rollouts})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        prefixes = [trajectory.prefix(k + 1) for k in range(len(trajectory.steps))]
        drawn = self.policy.sample(prefixes, self.rollouts, self.params)
        values = tuple(sum(c.finish == "end" for c in row) / len(row) for row in drawn)
        cost = Cost.total(c.cost for row in drawn for c in row)
        return Judgement(trajectory.id, values, self.name, cost=cost)


@register("searcher", "toy-first", Declared(paper=Paper("Toy search", 2025)))
@dataclass(frozen=True)
class ToyFirst:
    """Draws n solutions and takes the first."""

    n: int = 2

    @property
    def name(self) -> str:
        return described("toy-first", self)

    @property
    def judged(self) -> bool:
        return False

    def search(self, state: SearchState) -> Course:
        [nodes] = yield from state.expand([ROOT], self.n, "end")
        return Choice(nodes[0] if nodes else None, nodes)


@register("searcher", "toy-paths", Declared(dial="paths=N"))
@dataclass(frozen=True)
class ToyPaths(ToyFirst):
    """The same without a number that --n could set."""

    def __init__(self, paths: int = 1) -> None:
        super().__init__(paths)
'''
OBJECTIVE = '''
"""A loss in a file of its own, for it needs torch."""

from footfall.registry import Declared, Paper, register
from footfall.train.losses import mse_loss
from footfall.train.objectives import Objective, probability


@register("objective", "toy-half", Declared(paper=Paper("Toy loss", 2026)))
def toy_half(scale: float = 0.5) -> Objective:
    """Half of the squared error."""
    return Objective(
        f"toy-half(scale={scale:g})",
        lambda logits, targets, mask: scale * mse_loss(logits, targets, mask),
        probability,
        lambda label: label > 0.5,
    )
'''
HEAD = '''
"""A head: one small class and the function that makes it."""

from torch import nn

from footfall.registry import register
from footfall.reward.heads import Head


class Bounded(Head):
    """A linear layer whose logits stay within ± most."""

    def __init__(self, width, outputs, most):
        super().__init__()
        self.most, self.layer = most, nn.Linear(width, outputs)

    @property
    def settings(self):
        return {"name": "toy-bounded", "most": self.most}

    def forward(self, states):
        return self.most * self.layer(states).tanh()


@register("head", "toy-bounded")
def toy_bounded(width: int, outputs: int, seed: int = 0, most: float = 4.0) -> Bounded:
    """Logits within bounds."""
    head = Bounded(width, outputs, most)
    nn.init.normal_(head.layer.weight, 0.0, 0.02)
    return head
'''
POINTS = """[footfall.parts]
labeller:toy-rates = toys.parts:ToyRates
searcher:toy-first = toys.parts:ToyFirst
searcher:toy-paths = toys.parts:ToyPaths
objective:toy-half = toys.loss:toy_half
head:toy-bounded = toys.head:toy_bounded
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as an installer leaves it: the package, and what it is called."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in {"__init__": "", "parts": MODULE, "loss": OBJECTIVE, "head": HEAD}.items():
        file = folder / "toys" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    info = folder / "toys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    return folder


def run(site: Path, folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The real command line in a process of its own, with that folder on its path."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def told(site: Path, folder: Path, *words: str) -> Any:
    return json.loads(run(site, folder, "-m", "footfall.cli", *words, "--json").stdout)


def test_the_toys_are_listed_without_being_imported(site: Path, tmp_path: Path) -> None:
    found = told(site, tmp_path, "list")
    assert found["labeller"]["toy-rates"] == found["objective"]["toy-half"] == "from toys"
    assert found["searcher"]["toy-first"] == "from toys" and "best-of-n" in found["searcher"]
    script = "import sys; from footfall.registry import KINDS, parts; all(map(parts, KINDS)); assert 'toys' not in sys.modules"
    run(site, tmp_path, "-c", script)


@pytest.mark.long
def test_the_toys_label_are_estimated_and_search(site: Path, tmp_path: Path) -> None:
    written = ("--policy", "scripted-arithmetic")
    traces = told(site, tmp_path, "sample", "--problems", "world:arithmetic:3", "--n", "1", *written)["file"]
    label = ("label", "--data", traces, "--method", "toy-rates", *written)
    made = told(site, tmp_path, *label, "--rollouts", "2")
    assert made["judge"].endswith(",2)") and made["labelled"] == made["steps"] > 0
    assert told(site, tmp_path, *label[:4], "toy-system", *written)["judge"].endswith(",3)"), "a system of its own"
    estimate = told(site, tmp_path, *label, "--rollouts", "2", "--estimate")
    assert estimate["expected"]["calls"] == 2 * made["steps"], "the labeller itself ran, over a policy that counts"
    problems = ("search", "--problems", "world:arithmetic:2", *written, "--method")
    found = told(site, tmp_path, *problems, "toy-first", "--n", "3")
    assert found["settings"] == "toy-first(n=3)" and found["decided"] == 2
    refused = run(site, tmp_path, "-m", "footfall.cli", *problems, "toy-paths", "--n", "3", code=2)
    assert "takes no --n; its own is --set paths=N" in refused.stderr


@pytest.mark.long
def test_the_studies_measure_the_toys(site: Path, tmp_path: Path) -> None:
    size = ("--option", "worlds=arithmetic", "seeds=1", "workers=1")
    labels = told(site, tmp_path, "bench", "labels", *size, "methods=toy-rates,freeprm", "traces=3")
    assert [(p["method"], p["budget"]) for p in labels["points"]] == [
        ("freeprm", 0.0), ("toy-rates", 1.0), ("toy-rates", 2.0),
    ]  # fmt: skip
    search = told(site, tmp_path, "bench", "search", *size, "methods=toy-first", "judges=exact", "problems=2", "most=4")
    assert [(p["method"], p["budget"]) for p in search["points"]] == [("single", 1), ("toy-first", 4)]


@pytest.mark.long
def test_the_paper_index_has_the_toys(site: Path, tmp_path: Path) -> None:
    script = """
from pathlib import Path
from footfall.lab.pages import papers_page
print(papers_page([], Path()))
"""
    page = run(site, tmp_path, "-c", script).stdout
    rows = [line for line in page.splitlines() if "Toy" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| Toy search", "| Toy loss", "| Toy rates"], "by year and title"
    assert "https://arxiv.org/abs/2601.00001" in rows[2] and "`toy-rates`" in rows[2] and "from toys" in rows[2]


@pytest.mark.long
def test_the_toy_objective_and_head_train_are_saved_loaded_and_score(site: Path, tmp_path: Path) -> None:
    written = ("--policy", "scripted-arithmetic")
    traces = told(site, tmp_path, "sample", "--problems", "world:arithmetic:8", "--n", "2", *written)["file"]
    rows = told(site, tmp_path, "label", "--data", traces, "--method", "truth-arithmetic")["file"]
    words = (
        "train",
        "--data",
        rows,
        "--objective",
        "toy-half",
        "--set",
        "scale=0.25",
        "--head",
        "toy-bounded,most=0.5",
    )
    trained = told(site, tmp_path, *words, "--epochs", "1", "--device", "cpu")
    stored = json.loads((Path(tmp_path, trained["model"]).parent / "config.json").read_text(encoding="utf-8"))
    assert stored["config"]["objective"] == "toy-half" and trained["updates"] > 0
    model = json.loads((Path(tmp_path, trained["model"]) / "step_head.json").read_text(encoding="utf-8"))
    assert model["head"] == {"name": "toy-bounded", "most": 0.5}
    run(site, tmp_path, "-m", "footfall.cli", "score", traces, "--judge", trained["model"], "--to", "said.jsonl")
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text(encoding="utf-8").splitlines()]
    values = [value for row in said for value in row["judgement"]["values"]]
    assert values and all(1 / (1 + math.exp(0.5)) <= value <= 1 / (1 + math.exp(-0.5)) for value in values)
