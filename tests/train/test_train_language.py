"""PRMs that are language models are trained as they are read: implicit ones by outcomes, critics by their verdicts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.registry import create
from footfall.reward.checkpoint import checkpoint
from footfall.reward.families.eurus import ImplicitJudge
from footfall.reward.family import families
from footfall.reward.generative.genprm import verdicts as genprm_verdicts
from footfall.reward.generative.thinkprm import verdicts as thinkprm_verdicts
from footfall.train import TrainConfig, language, train_prm
from footfall.train.objectives import make_objective
from footfall.train.run import CHECKPOINTS, make_plan, open_run
from footfall.types import Judged, Judgement
from tests.reward.tiny_checkpoints import llama3_tokenizer, qwen_tokenizer, save_checkpoint, sentencepiece_tokenizer
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


def test_the_other_forms_of_an_implicit_prm_s_loss() -> None:
    """r_w = 0.4, r_l = −0.2, by hand: z_w = 0.4, z_l = 0 (−0.2 is below it)."""
    rewards, outcomes, mask = torch.tensor([[[0.4]], [[-0.2]]]), torch.tensor([[1.0], [0.0]]), torch.ones(2, 1).bool()

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    expected = {
        "dpo": -math.log(sigmoid(0.6)),
        "nca": -math.log(sigmoid(0.4)) - 0.5 * math.log(sigmoid(-0.4)) - 0.5 * math.log(sigmoid(0.2)),
        "kto": ((1 - sigmoid(0.4 - 0.0)) + (1 - sigmoid(0.4 + 0.2))) / 2,
    }
    for form, loss in expected.items():
        objective = make_objective("log-ratio", {"form": form})
        assert float(objective.loss(rewards, outcomes, mask)) == pytest.approx(loss, abs=1e-6), form
        swapped = objective.loss(rewards.flip(0), outcomes.flip(0), mask)
        assert float(swapped) == pytest.approx(loss, abs=1e-6), "which of a pair comes first says nothing"
    alone = make_objective("log-ratio", {"form": "kto"}).loss(rewards[:1], outcomes[:1], mask[:1])
    assert float(alone) == pytest.approx(1 - sigmoid(0.4)), "a batch without a wrong trace refers to 0"
    with pytest.raises(ValueError, match="form is one of cross-entropy, dpo, nca, kto, not 'orpo'"):
        make_objective("log-ratio", {"form": "orpo"})


@pytest.mark.parametrize("form", ["dpo", "nca", "kto"])
def test_every_form_trains_and_pairs_stay_together(form: str, tmp_path: Path) -> None:
    made = [trace(word, id=f"{word}{i}", prompt=f"q{i}") for i in range(8) for word in ("ok", "no")]
    pairs = [
        Judged(replace(t, correct=t.id[:2] == "ok"), Judgement(t.id, (float(t.id[:2] == "ok"),), "toy")) for t in made
    ]
    config = replace(QUICK, batch_size=4, epochs=4, objective_options={"form": form})
    result = train_prm(pairs, model(tmp_path), config, tmp_path / "run")
    assert result.metrics["step_auc"] > 0.9 and result.curve[-1][1] < result.curve[0][1]
    judge = checkpoint(result.folder, device="cpu")
    right, wrong = judge.judge([trace("ok"), trace("no")])
    assert (right.values[-1] or 0) > (wrong.values[-1] or 1)
    if form != "kto":
        parted = [pairs[0], *pairs[2:], pairs[1]]
        with pytest.raises(ValueError, match="takes 2 rows of one problem side by side; row 1"):
            train_prm(parted, model(tmp_path), config, tmp_path / "parted")


def test_what_the_reference_says_is_read_once_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path)
    train_prm(rows(), folder, QUICK, tmp_path / "run")
    stored = (tmp_path / "run" / "reference.json").read_bytes()
    (tmp_path / "run" / "result.json").unlink()  # as if it was killed before its end
    read: list[int] = []
    really = language._read

    def counted(lm: Any, items: Sequence[language.Item]) -> list[float]:
        read.append(len(items))
        return really(lm, items)

    monkeypatch.setattr(language, "_read", counted)
    train_prm(rows(), folder, QUICK, tmp_path / "run")
    assert read == [6], "only the held-out traces, by the trained model"
    assert (tmp_path / "run" / "reference.json").read_bytes() == stored
    (tmp_path / "run" / "reference.json").write_bytes(stored[:-9])
    (tmp_path / "run" / "result.json").unlink()
    with pytest.warns(UserWarning, match=r"reference\.json: .*what it held is made again"):
        train_prm(rows(), folder, QUICK, tmp_path / "run")
    assert (tmp_path / "run" / "reference.json").read_bytes() == stored


def test_other_outcomes_or_critiques_are_other_data(tmp_path: Path) -> None:
    plain = rows(4)
    turned = [row._replace(trajectory=replace(row.trajectory, correct=not row.trajectory.correct)) for row in plain]
    critiqued = [Judged(t, replace(said, rationales=("so",) * len(t.steps))) for t, said in plain if said is not None]
    for name, taught in (("log-ratio", turned), ("critique", critiqued)):
        objective = make_objective(name, {})
        plan = make_plan(plain, (), "lm", objective, QUICK)
        assert open_run(tmp_path / name, plan, resume=True) is None
        (tmp_path / name / CHECKPOINTS).mkdir()  # it has begun
        with pytest.raises(ValueError, match="holds a run with other taught; choose another folder"):
            open_run(tmp_path / name, make_plan(taught, (), "lm", objective, QUICK), resume=True)
        earlier = tmp_path / name / "train.json"
        earlier.write_text(json.dumps({key: value for key, value in plan.items() if key != "taught"}))
        assert open_run(tmp_path / name, plan, resume=True) is None, "a run that an earlier version began goes on"
    assert "taught" not in make_plan(plain, (), "lm", make_objective("soft-bce", {}), QUICK)


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


@pytest.mark.parametrize("family", [pytest.param("genprm", marks=pytest.mark.long), "thinkprm"])
def test_a_critic_learns_its_verdict_given_its_question(family: str, tmp_path: Path) -> None:
    config = replace(QUICK, family=family, objective="verdict", epochs=8)
    result = train_prm(rows(), model(tmp_path), config, tmp_path / "run")
    assert result.metrics["step_auc"] > 0.9 and result.curve[-1][1] < result.curve[0][1]
    judge = checkpoint(result.folder, device="cpu")
    assert judge.name.startswith(family) and judge.name.endswith("model@" + judge.name.rpartition("@")[2])


@pytest.mark.long
def test_a_critic_learns_to_write_the_chains_that_its_labels_bring(tmp_path: Path) -> None:
    """Of a step without a chain nothing is learned; of one with, every token behind the forced opening and the verdict."""
    taught = []
    for row in rows(32):
        assert row.judgement is not None
        chains = tuple("fine" if value else "bad" for value in row.judgement.values[:-1]) + ("so",)
        taught.append(Judged(row.trajectory, replace(row.judgement, rationales=chains)))
    assert taught[1].judgement is not None
    taught[1] = taught[1]._replace(judgement=replace(taught[1].judgement, rationales=(None, "so")))
    config = replace(QUICK, family="thinkprm", objective="critique", epochs=10)
    result = train_prm(taught, model(tmp_path), config, tmp_path / "run")
    assert result.train.steps - result.train.unlabelled + result.held_out.steps - result.held_out.unlabelled == 47
    assert result.metrics["step_auc"] > 0.9 and result.curve[-1][1] < 0.5 * result.curve[0][1]
    policy = create("policy", "torch", path=str(result.folder), device="cpu")
    said = create("reward", "thinkprm", policy=policy, max_tokens=12, temperature=0.0).judge([trace("ok")])[0]
    assert (said.rationales[0] or "").startswith("so\n"), "it writes the chain, and goes on to its question"


def test_a_judge_is_fitted_to_pairs_of_its_own_critiques(tmp_path: Path) -> None:
    from trl.trainer.dpo_config import DPOConfig

    from footfall.reward.generative.chains import Preference
    from footfall.reward.generative.critic import Request, say
    from footfall.train.dpo import train_dpo

    pairs = [Preference(f"q{i}", Request(say(f"q{i} {'ok' if i % 2 else 'no'}")), f"s {'Yes' if i % 2 else 'No'}",
                        f"s {'No' if i % 2 else 'Yes'}", bool(i % 2)) for i in range(12)]  # fmt: skip
    args = DPOConfig(
        str(tmp_path / "run"), per_device_train_batch_size=4, max_steps=8, learning_rate=3e-3, use_cpu=True, bf16=False,
        report_to="none", save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, logging_steps=100,
    )  # fmt: skip
    found = train_dpo(pairs, model(tmp_path), tmp_path / "out", args, eval_share=0.25)
    assert (found.pairs, found.held_out) == (9, 3) and found.metrics["train_loss"] < 0.69
    assert (tmp_path / "out" / "model.safetensors").is_file() and "eval_loss" in found.metrics
    with pytest.raises(ValueError, match="leave none to train on"):
        train_dpo([], model(tmp_path), tmp_path / "out", args)
    long = [*pairs, pairs[0]._replace(problem="long", chosen="so " * 600 + "Yes")]
    with pytest.raises(ValueError, match=r"have \d{4} tokens, and DPOConfig's max_length is 1024: raise it"):
        train_dpo(long, model(tmp_path), tmp_path / "out", args)


def test_a_pair_is_tokenised_as_the_judge_is_asked_with_one_bos() -> None:
    from footfall.reward.generative.chains import Preference
    from footfall.reward.generative.critic import Request, say
    from footfall.train.dpo import preference_rows
    from footfall.train.writers import asked

    for tokenizer in (llama3_tokenizer(), qwen_tokenizer()):
        pair = Preference("q", Request(say("Is it right?")), "s Yes", "s No", True)
        (row,) = preference_rows([pair], tokenizer)
        read = tokenizer.encode(asked(pair.request, tokenizer), add_special_tokens=False)
        assert tokenizer(row["prompt"]).input_ids == read, (
            "TRL adds the special tokens that the tokenizer adds by itself"
        )


def test_a_critic_is_trained_on_the_place_where_it_is_read() -> None:
    first, second = genprm_verdicts(Judged(trace("no", "ok"), Judgement("t", (0.0, 1.0), "toy")))
    assert first.request.opening.endswith("$\\boxed{") and not first.request.header
    assert [message.role for message in second.request.messages] == ["system", "user", "assistant", "user"]
    assert "$\\boxed{No}$" in second.request.messages[2].content and (first.value, second.value) == (0.0, 1.0)


def test_a_prefix_with_an_error_is_wrong_whatever_its_last_step_is() -> None:
    found = thinkprm_verdicts(Judged(trace("ok", "no", "so", "ok"), Judgement("t", (1.0, 0.0, None, 1.0), "toy")))
    assert [(verdict.step, verdict.value) for verdict in found] == [(0, 1.0), (1, 0.0), (3, 0.0)]


def test_the_verdicts_that_a_dialogue_shows_are_those_that_it_learned() -> None:
    row = Judged(trace("no", "ok"), Judgement("t", (0.25, 1.0), "monte-carlo"))
    for threshold, word in ((0.0, "Yes"), (0.5, "No")):
        hard = language._hard(row, make_objective("verdict", {"threshold": threshold}))
        first, second = genprm_verdicts(hard)
        assert first.value == float(word == "Yes") and f"$\\boxed{{{word}}}$" in second.request.messages[2].content
    with pytest.raises(ValueError, match="trajectory 't', step 1: label 2 is no probability"):
        language._hard(Judged(trace("no", id="t"), Judgement("t", (2.0,), "toy")), make_objective("verdict", {}))


def test_verdicts_that_begin_with_one_token_are_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "lm", "mistral", sentencepiece_tokenizer(), seed=1)  # it has no piece for ` yes`
    with pytest.raises(
        ValueError, match=r"' yes' and ' no' begin with the same token of .*lm, so a verdict cannot be told"
    ):
        train_prm(rows(8), tmp_path / "lm", replace(QUICK, family="thinkprm", objective="verdict"), tmp_path / "run")


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
