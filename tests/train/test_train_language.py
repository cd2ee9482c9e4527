"""PRMs that are language models are trained as they are read: implicit ones by outcomes, critics by their verdicts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from footfall.reward.checkpoint import checkpoint
from footfall.reward.families.eurus import ImplicitJudge
from footfall.reward.family import families
from footfall.reward.generative.genprm import verdicts as genprm_verdicts
from footfall.train import TrainConfig, train_prm
from footfall.train.objectives import make_objective
from footfall.types import Judged, Judgement
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint
from tests.reward.tiny_models import trace

torch.set_num_threads(1)
QUICK = TrainConfig(
    lr=3e-3, epochs=6, batch_size=8, eval_share=0.25, device="cpu", family="implicit", objective="log-ratio"
)


def rows(n: int = 24) -> list[Judged]:
    """A step is good if and only if it says `ok`, and a trace is right if its last step is."""
    found = []
    for i in range(n):
        good = [(i * 7 + k * k * 3 + i // 3) % 3 != 0 for k in range(1 + i % 2)]
        made = trace(*("ok" if g else "no" for g in good), id=f"t{i}", prompt=f"q{i // 2}")
        found.append(Judged(replace(made, correct=good[-1]), Judgement(made.id, tuple(map(float, good)), "toy")))
    return found


def model(tmp_path: Path, name: str = "lm", seed: int = 1) -> Path:
    save_checkpoint(tmp_path / name, "qwen2", qwen_tokenizer(), seed=seed)
    return tmp_path / name


def test_the_card_s_log_ratios_give_its_cross_entropy() -> None:
    ratios = torch.tensor([0.2, -0.1, 0.4, -0.6, 0.1, 0.3])
    objective = make_objective("log-ratio", {"beta": 0.05})
    for outcome, expected in ((1.0, 0.685675), (0.0, 0.700675)):
        logits = 0.05 * ratios.sum().reshape(1, 1, 1)
        loss = objective.loss(logits, torch.tensor([[outcome]]), torch.ones(1, 1, dtype=torch.bool))
        assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_an_implicit_prm_learns_outcomes_is_saved_and_read_at_its_own_beta(tmp_path: Path) -> None:
    folder = model(tmp_path)
    result = train_prm(rows(), folder, QUICK, tmp_path / "run")
    assert result.metrics["step_auc"] > 0.9 and result.metrics["loss"] < math.log(2) < result.curve[0][1] + 0.1
    judge = checkpoint(result.folder, device="cpu", initial=True, token_values=True)
    assert isinstance(judge, ImplicitJudge) and judge.beta == 0.05
    right, wrong = judge.judge([trace("ok"), trace("no")])
    assert (right.values[-1] or 0) > (wrong.values[-1] or 1) + 0.05
    assert right.initial == 0.5 and right.token_values[0][-1] == pytest.approx(right.values[0])
    longer, *_ = judge.judge([trace("ok", "no")])
    assert [step[-1] for step in longer.token_values] == pytest.approx(list(longer.values))
    again = train_prm(rows(), folder, QUICK, tmp_path / "run")
    assert again.metrics == result.metrics, "a finished run is read back"
    further = train_prm(rows(), result.folder, replace(QUICK, epochs=1, family=None), tmp_path / "more")
    assert further.metrics["loss"] <= result.metrics["loss"] + 0.05


def test_a_reference_of_ones_own_is_the_zero_that_is_learned_from(tmp_path: Path) -> None:
    folder, base = model(tmp_path), model(tmp_path, "base", 2)
    config = replace(QUICK, epochs=1, objective_options={"base": str(base), "beta": 0.1})
    result = train_prm(rows(), folder, config, tmp_path / "run")
    judge = checkpoint(result.folder, device="cpu")
    assert isinstance(judge, ImplicitJudge) and judge.beta == 0.1
    own = checkpoint(result.folder, device="cpu", base=str(base))
    assert own.name == judge.name, "the stored reference is the one it was trained against"


@pytest.mark.parametrize("family", ["genprm", "thinkprm"])
def test_a_critic_learns_its_verdict_given_its_question(family: str, tmp_path: Path) -> None:
    config = replace(QUICK, family=family, objective="verdict", epochs=8)
    result = train_prm(rows(), model(tmp_path), config, tmp_path / "run")
    assert result.metrics["step_auc"] > 0.9 and result.curve[-1][1] < result.curve[0][1]
    judge = checkpoint(result.folder, device="cpu")
    assert judge.name.startswith(family) and judge.name.endswith("model@" + judge.name.rpartition("@")[2])


def test_a_critic_is_trained_on_the_place_where_it_is_read() -> None:
    first, second = genprm_verdicts(Judged(trace("no", "ok"), Judgement("t", (0.0, 1.0), "toy")))
    assert first.request.opening.endswith("$\\boxed{") and not first.request.header
    assert [message.role for message in second.request.messages] == ["system", "user", "assistant", "user"]
    assert "$\\boxed{No}$" in second.request.messages[2].content and (first.value, second.value) == (0.0, 1.0)


def test_families_say_how_they_are_trained_and_another_way_is_refused(tmp_path: Path) -> None:
    folder = model(tmp_path)
    with pytest.raises(
        ValueError, match=r"an? implicit is trained by the objective log-ratio \(--objective log-ratio\)"
    ):
        train_prm(rows(), folder, replace(QUICK, objective="soft-bce"), tmp_path / "run")
    with pytest.raises(ValueError, match="trains no head, but a language model of the families eurus-prm, implicit"):
        train_prm(rows(), folder, replace(QUICK, family=None), tmp_path / "run")
    with pytest.raises(ValueError, match="trained without heads, patience"):
        train_prm(rows(), folder, replace(QUICK, heads=4, patience=1), tmp_path / "run")
    assert all(family.trained_by is not None for family in families().values())


def test_the_docs_table_of_what_is_read_and_trained_is_the_code_s() -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    found = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.count("|") == 5]
    for name, family in families().items():
        line = next(cells for cells in found if f"`{name}`" in cells[1])
        assert line[3:5] == [_by(family.trained_by), "yes" if family.token_level else "no"], name


def _by(trained_by: str | None) -> str:
    return "a loss that fits its head" if trained_by == "head" else f"`{trained_by}`"
