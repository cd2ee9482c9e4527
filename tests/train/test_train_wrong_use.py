"""Wrong use gets one clear line: labels of another kind than a loss takes, heads a family cannot hold, a lost reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainingArguments

from footfall.loading import load_model
from footfall.policy.embedded import EMBEDDED
from footfall.render import Template
from footfall.reward.checkpoint import checkpoint
from footfall.reward.config import View
from footfall.reward.prm import PRM
from footfall.train import TrainConfig, train_prm
from footfall.train.imitation import ImitationConfig, imitate
from footfall.train.objectives import make_objective
from footfall.train.writers import train_writer
from footfall.types import Json, Judged, Judgement, Problem
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint
from tests.reward.tiny_models import byte_tokenizer, decoder, trace

torch.set_num_threads(1)
PLAIN = Template("plain")
CONFIG = TrainConfig(epochs=1, eval_share=0, device="cpu")


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm")
    save_checkpoint(folder, "qwen2", qwen_tokenizer("<+>", "<->", "<extra>"), seed=1)
    return folder


def rows(*labels: float | None, correct: bool | None = None) -> list[Judged]:
    made = [trace("ok", "no", id=f"t{i}", prompt="q") for i in range(4)]
    return [Judged(replace(t, correct=correct), Judgement(t.id, labels, "toy")) for t in made]


@pytest.mark.parametrize("objective", ["buffer", "self-agreement", "token-value"])
def test_labels_of_steps_where_outcomes_are_wanted(objective: str, lm: Path, tmp_path: Path) -> None:
    said = (
        rf"trajectory 't0': {objective}.* learns from the outcome, the same label on every step, and this one has 0, 1"
    )
    with pytest.raises(ValueError, match=said):
        train_prm(rows(1.0, 0.0), lm, replace(CONFIG, objective=objective, family="footfall"), tmp_path)


def test_labels_of_all_steps_where_pairs_are_compared(lm: Path, tmp_path: Path) -> None:
    said = r"trajectory 't0': bradley-terry.* takes one labelled step of each trace, its last; this one has 2"
    with pytest.raises(ValueError, match=said):
        train_prm(rows(1.0, 0.0), lm, replace(CONFIG, objective="bradley-terry", family="footfall"), tmp_path)


@pytest.mark.parametrize(("objective", "family"), [("bradley-terry", "footfall"), ("log-ratio", "implicit")])
def test_two_traces_of_a_pair_with_one_label_are_named(objective: str, family: str, lm: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, objective=objective, family=family)
    if objective == "log-ratio":
        config = replace(config, objective_options={"form": "dpo"})
    said = r"compares a right trace .* row 1 \('t0'\) and its neighbour both have the label 1: leave one of them out"
    with pytest.raises(ValueError, match=said):
        train_prm(rows(None, 1.0), lm, config, tmp_path)


@pytest.mark.parametrize(
    ("objective", "family", "aspect", "by"),
    [
        ("value-and-reward", "footfall", "reward", "the labeller `beside`"),
        ("step-and-trajectory", "footfall", "trajectory", "the labeller `reasonflux`"),
        ("error-types", "pathfinder-prm", "math", "footfall.label.error_types:ErrorTypes"),
    ],
)
def test_labels_without_the_aspect_that_is_learned_too_and_who_writes_it(
    objective: str, family: str, aspect: str, by: str, lm: Path, tmp_path: Path
) -> None:
    said = (
        rf"trajectory 't0': {objective}.* learns from the aspect '{aspect}' too, and the labels of toy have none; {by}"
    )
    with pytest.raises(ValueError, match=said):
        train_prm(rows(1.0, 0.0), lm, replace(CONFIG, objective=objective, family=family), tmp_path)


def test_labels_without_critiques_where_a_judge_learns_to_write_them(lm: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"learns to write the critiques that labels bring, and none of 4 rows has one"
    ):
        train_prm(rows(1.0, 0.0), lm, replace(CONFIG, objective="critique", family="thinkprm"), tmp_path)


@pytest.mark.parametrize(
    ("form", "label", "why"), [("kto", 0.5, "is no outcome"), ("dpo", 0.5, "names no side of a pair")]
)
def test_a_label_that_an_implicit_prm_cannot_take_is_named(
    form: str, label: float, why: str, lm: Path, tmp_path: Path
) -> None:
    config = replace(CONFIG, objective="log-ratio", objective_options={"form": form}, family="implicit")
    with pytest.raises(ValueError, match=rf"trajectory 't0', step 2: label 0\.5 {why}"):
        train_prm(rows(None, label), lm, config, tmp_path)


def test_a_family_whose_one_head_reads_marks_and_value_holds_no_second_output(lm: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, objective="quantile", family="pathfinder-prm")
    with pytest.raises(
        ValueError, match="a pathfinder-prm reads its marks and its value with one head and cannot hold"
    ):
        train_prm(rows(1.0, 0.0), lm, config, tmp_path)


def test_an_implicit_prm_says_that_its_reference_is_missing(lm: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="as an implicit PRM needs a reference model"):
        checkpoint(lm, family="implicit", device="cpu")
    with pytest.raises(
        FileNotFoundError, match=r"the reference of .*, which an implicit PRM is held against, is missing"
    ):
        checkpoint(lm, family="implicit", base=str(tmp_path / "gone"), device="cpu")


@pytest.mark.parametrize("objective", ["q-ranking", "td", "buffer"])
@pytest.mark.parametrize("view", ["last-math", "next-thought"])
def test_a_loss_that_looks_along_a_trace_where_each_step_is_read_apart(
    objective: str, view: View, lm: Path, tmp_path: Path
) -> None:
    said = rf"{objective}.* holds the steps of a trace against each other, and the view {view} reads each in a sequence"
    with pytest.raises(ValueError, match=said):
        train_prm(rows(1.0, 1.0), lm, replace(CONFIG, objective=objective, view=view, family="footfall"), tmp_path)


def test_a_loss_that_looks_along_a_trace_of_a_family_that_reads_prefixes(lm: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"td.*, and a pathfinder-prm reads each in a sequence of its own"):
        train_prm(rows(1.0, 0.0), lm, replace(CONFIG, objective="td", family="pathfinder-prm"), tmp_path)


def test_a_loss_that_weighs_a_whole_update_is_not_cut_into_batches(lm: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, objective="self-agreement", accumulation=2, family="footfall")
    with pytest.raises(ValueError, match="accumulation: self-agreement weighs the steps of an update together"):
        train_prm(rows(1.0, 1.0), lm, config, tmp_path)


def test_a_head_that_reads_both_ways_where_each_step_is_read_apart(lm: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, head="both-ways", view="next-thought", family="footfall")
    with pytest.raises(
        ValueError, match="the head both-ways reads whole traces in both orders, and the view next-thought"
    ):
        train_prm(rows(1.0, 0.0), lm, config, tmp_path)


def test_of_steps_that_are_read_apart_the_longest_has_to_fit(lm: Path, tmp_path: Path) -> None:
    made = [trace("1 + " * 40 + "1 = 41", "so", id=f"t{i}", prompt="q") for i in range(4)]
    long = [Judged(t, Judgement(t.id, (1.0, 0.0), "toy")) for t in made]
    config = replace(CONFIG, view="last-math", family="footfall", max_length=60)
    with pytest.raises(ValueError, match=r"trajectory 't0' has \d+ tokens, the limit is 60"):
        train_prm(long, lm, config, tmp_path)


@pytest.mark.parametrize(
    ("objective", "options", "why"),
    [
        ("soft-bce", {"wrong_weight": -3}, "wrong_weight multiplies the loss of wrong steps and is above 0, not -3"),
        ("q-ranking", {"margin": -4}, "the margin keeps wrong steps below right ones and is 0 at least, not -4"),
        ("td", {"right": [0.1]}, "right and wrong are two rewards each"),
        ("bradley-terry", {"centering": -1}, "centering pulls rewards to 0 and is 0 at least, not -1"),
    ],
)
def test_settings_that_turn_a_loss_around(objective: str, options: dict[str, Json], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make_objective(objective, options)


def test_an_objective_of_other_outputs_than_a_family_s(lm: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs \('good', 'bad', 'buffer'\) and \(\): take an objective that fits"):
        train_prm(rows(1.0, 1.0), lm, replace(CONFIG, objective="buffer", as_family="trl"), tmp_path)


def test_a_prm_whose_head_would_be_lost_is_no_plain_decoder(lm: Path, tmp_path: Path) -> None:
    done = train_prm(rows(1.0, 0.0), lm, replace(CONFIG, objective="ce", as_family="trl"), tmp_path / "run")
    for folder, head in ((done.folder, "step_head.json"), (tmp_path / "run" / "published", "score.bias")):
        said = rf"{folder} has a head of its own \({head}\), and a trl is begun from a plain decoder: leave --as out"
        with pytest.raises(ValueError, match=said):
            train_prm(rows(1.0, 0.0), folder, replace(CONFIG, as_family="trl"), tmp_path / head)


def test_adapters_that_are_not_there_are_not_folded_into_a_language_model(lm: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, objective="log-ratio", family="implicit", merge_lora=True)
    with pytest.raises(ValueError, match="trained without merge_lora; leave that out"):
        train_prm(rows(None, 1.0, correct=True), lm, config, tmp_path)


@pytest.mark.parametrize("threshold", [0.0, 0.9])
def test_labels_that_are_all_on_one_side_of_a_threshold_teach_nothing(
    threshold: float, lm: Path, tmp_path: Path
) -> None:
    config = replace(CONFIG, objective="bce", objective_options={"threshold": threshold}, family="footfall")
    with pytest.raises(ValueError, match="the 4 usable training rows have only one label value, as it takes them"):
        train_prm(rows(0.75, 0.25), lm, config, tmp_path)


# -- settings that would do nothing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lora_alpha": 8}, "lora_alpha scales adapters, and there are none: set lora_rank too"),
        ({"head_options": {"fusion": "mean"}}, r"head_options .* are settings of a head, and none is named: set head"),
        ({"max_length": 0}, "max_length must be at least 1, not 0"),
        ({"lora_rank": 0}, "lora_rank must be at least 1, not 0"),
    ],
)
def test_a_setting_without_what_it_is_about_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **change)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("soft-bce", {"margin": 4.0},
         r"the objective soft-bce takes no setting margin: it takes wrong_weight; margin is a setting of q-ranking"),
        ("mse", {"gamma": 0.5}, r"the objective mse takes no setting gamma: it takes none; gamma is a setting of td"),
        ("td", {"temperature": 1.0}, r"takes no setting temperature: .*; no objective has a setting temperature"),
    ],
)  # fmt: skip
def test_a_setting_of_another_objective_is_told_whose_it_is(name: str, options: dict[str, Json], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_objective(name, options)


def test_a_pull_on_small_networks_that_are_not_there_is_refused(lm: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="anchor holds several small networks to where they began: set heads too"):
        train_prm(rows(1.0, 0.0), lm, replace(CONFIG, anchor=1.0), tmp_path)


def test_a_template_is_refused_where_a_family_or_a_critic_has_its_own(lm: Path, tmp_path: Path) -> None:
    given = replace(CONFIG, template=PLAIN)
    with pytest.raises(ValueError, match="cannot hold template of your own; leave --as out"):
        train_prm(rows(1.0, 0.0), lm, replace(given, as_family="qwen2.5-math-prm"), tmp_path / "as")
    with pytest.raises(ValueError, match="is a language model, trained without template; leave that out"):
        train_prm(rows(1.0, correct=True), lm, replace(given, family="implicit", objective="log-ratio"), tmp_path)


def test_a_model_to_go_on_from_keeps_its_head_template_and_adapters(lm: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    first = replace(
        CONFIG, family="footfall", lora_rank=2, head="both-ways", head_options={"fusion": "mean"}, template=PLAIN
    )
    folder = train_prm(rows(1.0, 0.0), lm, first, tmp_path / "first").folder
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"lora_rank": 4}, "has adapters of rank 2; a further training cannot make it 4"),
        ({"lora_alpha": 8}, "has adapters of alpha 4; a further training cannot make it 8"),
        ({"head_options": {"fusion": "gate"}}, "has a head with fusion=mean; .* cannot make it fusion=gate"),
        ({"template": Template("chat")}, r"is read as Template\(.*'plain'.*; a further training cannot make it .*chat"),
    ]
    for change, message in wrong:
        with pytest.raises(ValueError, match=message):
            train_prm(rows(1.0, 0.0), folder, replace(first, **change), tmp_path / "more", resume=False)


def test_patience_needs_labels_to_judge_by(lm: Path, tmp_path: Path) -> None:
    """Without any the held-out loss was 0 after each epoch, so the first epoch's weights were the best."""
    unlabelled = [Judged(replace(t, problem=Problem("other", "other")), None) for t, _ in rows(1.0, 0.0)]
    config = replace(CONFIG, eval_share=0.1, epochs=3, patience=1)
    with pytest.raises(
        ValueError, match=r"patience goes by the held-out loss, and none of 4 held-out traces has a label"
    ):
        train_prm(rows(1.0, 0.0), lm, config, tmp_path, held_out=unlabelled)


def test_patience_takes_held_out_rows_that_are_given_or_a_share_and_is_refused_without_either(
    lm: Path, tmp_path: Path
) -> None:
    """With a share of 0 it was refused though held-out rows were given, which take the place of that share."""
    config = replace(CONFIG, eval_share=0, epochs=2, patience=1)
    apart = [Judged(replace(t, problem=Problem("other", "other")), said) for t, said in rows(1.0, 0.0)]
    trained = train_prm(rows(1.0, 0.0), lm, config, tmp_path / "given", held_out=apart)
    assert trained.held_out.used == 4
    assert trained.held_out_curve
    with pytest.raises(ValueError, match=r"patience needs held-out problems: set --eval-share .*held_out rows"):
        train_prm(rows(1.0, 0.0), lm, config, tmp_path / "none")
    assert not (tmp_path / "none").exists()


# -- the longest trace


def test_the_limit_of_length_holds_in_every_training(lm: Path, tmp_path: Path) -> None:
    """A published layout and a model in memory went by their own context, whatever was asked for."""
    short, said = replace(CONFIG, max_length=10), r"has \d+ tokens, the limit is 10; raise max_length"
    begun = PRM.from_backbone(str(lm), seed=1)
    published = replace(short, as_family="qwen2.5-math-prm")
    trainings: list[tuple[Path | PRM, TrainConfig]] = [(lm, short), (lm, published), (begun, short)]
    for source, config in trainings:
        with pytest.raises(ValueError, match=said):
            train_prm(rows(1.0, 0.0), source, config, tmp_path / "run", resume=False)
    with pytest.raises(ValueError, match=said):
        implicit = replace(short, family="implicit", objective="log-ratio")
        train_prm(rows(1.0, correct=True), lm, implicit, tmp_path / "lm")


def test_what_a_model_cannot_read_is_too_long_whatever_is_asked_for() -> None:
    """A policy learned from traces past its context, where positions mean nothing."""
    model, tokenizer = decoder(context=64), byte_tokenizer()
    long, brief = trace("x" * 100, id="long"), trace("x", id="brief", prompt="q")
    done = imitate(model, tokenizer, [long, brief], PLAIN, ImitationConfig(epochs=1))
    assert done.too_long == 1
    with pytest.raises(ValueError, match=r"none of 1 traces has at most 64 tokens: the model's context is no longer"):
        imitate(model, tokenizer, [long], PLAIN, ImitationConfig(epochs=1))
    pytest.importorskip("trl", reason="could not import 'trl'")
    from footfall.train.dpo import refuse_cut

    pair = [{"prompt": "q", "chosen": "y" * 100, "rejected": "n"}]
    with pytest.raises(ValueError, match=r"have \d+ tokens, and the model reads 64: leave the pair out"):
        refuse_cut(pair, tokenizer, 1024, model)
    with pytest.raises(ValueError, match=r"DPOConfig's max_length is 32: raise it"):
        refuse_cut(pair, tokenizer, 32, model)


# -- weights that a language model has no place for


def test_a_head_is_not_left_behind_by_a_training_of_language_models(tmp_path: Path) -> None:
    """With a decoder whose embedding is its output matrix, a PRM's folder was taken for a language model."""
    folder = train_prm(rows(1.0, 0.0), EMBEDDED, replace(CONFIG, view="words"), tmp_path / "prm").folder
    with pytest.raises(ValueError, match=r"is a PRM with a head of its own \(head\.safetensors\)"):
        train_writer(folder, tmp_path / "out", TrainingArguments(use_cpu=True), lambda lm, tokenizer: Trainer(lm))
    implicit = TrainConfig("log-ratio", {"base": str(folder)}, family="implicit", eval_share=0, device="cpu")
    with pytest.raises(ValueError, match="is a PRM with a head of its own"):
        train_prm([*rows(1.0, correct=True), *rows(1.0, correct=False)], EMBEDDED, implicit, tmp_path / "run")


def test_a_model_with_several_output_heads_is_not_loaded_as_one_without(tmp_path: Path) -> None:
    lm, tokenizer = load_model(EMBEDDED, "cpu")
    lm.heads = torch.nn.Parameter(torch.zeros(2, 3))
    lm.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"holds weights that a LlamaForCausalLM has no place for \(heads\)"):
        load_model(tmp_path, "cpu")
