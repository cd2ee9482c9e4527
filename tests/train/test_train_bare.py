"""What `footfall train --estimate` counts is what the run reads: tokens and weights of the very model that is trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall import cli
from footfall.formats import write_parquet
from footfall.loading import load_model
from footfall.train import TrainConfig, train_prm
from footfall.train.bare import bare_model
from footfall.train.begin import fresh_model
from footfall.train.data import make_examples
from footfall.train.memory import size_of
from footfall.train.objectives import fitted_to, make_objective
from footfall.types import Judged, Judgement
from tests.reward.families.zoo import adapter_folder
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint
from tests.reward.tiny_models import trace
from tests.test_gguf import write_gguf

torch.set_num_threads(1)
PLAIN = TrainConfig(objective="bce", epochs=1, eval_share=0, device="cpu")


def rows() -> list[Judged]:
    """Steps with words and mathematics, so that views are shorter than the whole."""
    made = [trace("First we add: 3 + 4 = 7", "then we take away: 7 - 2 = 5", id=f"t{i}", prompt="q") for i in range(4)]
    return [Judged(t, Judgement(t.id, (1.0, 0.0), "toy")) for t in made]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm")
    save_checkpoint(folder, "qwen2", qwen_tokenizer(), seed=1)
    return folder


def agree(source: str | Path, config: TrainConfig) -> int:
    """Tokens of the longest example; the bare model reads the same as the model with weights, and has as many of them."""
    objective = make_objective(config.objective, config.objective_options)
    bare, model = bare_model(str(source), config, objective), fresh_model(source, config, objective)
    assert all(p.is_meta for p in bare.backbone.parameters())
    assert size_of(bare) == size_of(model)
    read = [
        [e.reading for e in make_examples(rows(), m, fitted_to(objective, m.readout), config.too_long)[0]]
        for m in (bare, model)
    ]
    assert read[0] == read[1]
    return max(reading.tokens for reading in read[0])


@pytest.mark.parametrize(
    "change",
    [
        {"view": "math"}, {"view": "words"}, {"view": "last-math"}, {"head": "both-ways"}, {"marker": "<step>"},
        {"as_family": "trl", "objective": "ce"}, {"as_family": "qwen2.5-math-prm", "objective": "ce"}, {"lora_rank": 2},
        {"max_length": 300},
    ],
)  # fmt: skip
def test_a_fresh_prm_is_counted_as_it_reads(change: dict[str, Any], lm: Path) -> None:
    """The view and --as were left out: with a view of less, or a family of longer traces, other tokens were counted."""
    whole, own = agree(lm, PLAIN), agree(lm, replace(PLAIN, **change))
    expected = {"view": own < whole, "head": own > 1.5 * whole, "marker": own > whole, "as_family": own != whole}
    assert expected.get(next(iter(change)), own == whole)


def test_a_gguf_file_is_counted_by_the_configuration_in_it(tmp_path: Path) -> None:
    """It was taken for a folder, and refused as damaged."""
    agree(write_gguf(tmp_path / "tiny.gguf", "qwen2"), PLAIN)


@pytest.mark.parametrize(
    "change",
    [{"view": "math"}, {"lora_rank": 2, "marker": "<step>"}, {"as_family": "trl", "objective": "ce"}],
)
def test_a_prm_to_go_on_from_is_counted_as_it_reads(change: dict[str, Any], lm: Path, tmp_path: Path) -> None:
    """As a plain decoder its folder had the usual layout; with adapters alone it has no configuration of a decoder."""
    first = replace(PLAIN, **change)
    folder = train_prm(rows(), lm, first, tmp_path / "first").folder
    assert agree(folder, replace(PLAIN, objective=first.objective)) == agree(lm, first)
    if first.as_family is not None:
        published = tmp_path / "first" / "published"
        assert agree(published, replace(PLAIN, objective="ce", family=first.as_family)) == agree(lm, first)


def test_a_published_adapter_is_counted_as_the_model_that_it_is_merged_into(lm: Path, tmp_path: Path) -> None:
    """It has no configuration of a decoder, and was refused for that."""
    adapter_folder(tmp_path / "Math-psa", lm, qwen_tokenizer(), ["q_proj", "v_proj"])
    assert agree(tmp_path / "Math-psa", PLAIN)


def test_a_policy_s_adapter_is_a_backbone_with_the_adapter_in_its_weights(tmp_path: Path) -> None:
    """All weights were frozen: of a PRM on it the head alone was trained, without a word; `footfall rl` could train nothing."""
    folder = tmp_path / "tuned"
    save_checkpoint(tmp_path / "base", "qwen2", qwen_tokenizer())
    adapted = adapter_folder(folder, tmp_path / "base", qwen_tokenizer(), ["q_proj", "down_proj"])
    qwen_tokenizer().save_pretrained(folder)
    agree(folder, PLAIN)
    decoder = fresh_model(folder, PLAIN, make_objective("bce", {})).backbone
    ids, model = torch.arange(3, 13)[None], load_model(folder, "cpu", torch.float32)[0]
    with torch.no_grad():
        wanted = adapted(input_ids=ids, output_hidden_states=True)
        torch.testing.assert_close(decoder(input_ids=ids).last_hidden_state, wanted.hidden_states[-1])
        torch.testing.assert_close(model(input_ids=ids).logits, wanted.logits)
    for each in (decoder, model):
        assert all(weight.requires_grad and "lora" not in name for name, weight in each.named_parameters())


def test_an_adapter_with_a_module_of_its_own_is_not_merged_in_part(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    base = save_checkpoint(tmp_path / "base", "qwen2", qwen_tokenizer())
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["down_proj"], task_type="CAUSAL_LM")
    base.name_or_path = str(tmp_path / "base")
    peft.get_peft_model(base, config).save_pretrained(tmp_path / "tuned")
    with pytest.raises(ValueError, match=r"the adapter has a .*down_proj of its own: merge it into its base"):
        load_model(tmp_path / "tuned", "cpu")


def test_what_a_prm_to_go_on_from_cannot_become_is_refused_by_the_estimate_too(lm: Path, tmp_path: Path) -> None:
    """Figures were given for trainings that are refused: other adapters, none before, another family's head."""
    pytest.importorskip("peft")
    plain, lora = (
        train_prm(rows(), lm, replace(PLAIN, lora_rank=rank), tmp_path / str(rank)).folder for rank in (None, 2)
    )
    refused: list[tuple[Path, dict[str, Any], str]] = [
        (plain, {"lora_rank": 2}, "was trained without lora; a further training cannot change that"),
        (lora, {"lora_rank": 4}, "has adapters of rank 2; a further training cannot make it 4"),
        (lora, {"lora_rank": 2, "lora_alpha": 9}, "has adapters of alpha 4; a further training cannot make it 9"),
        (plain, {"as_family": "trl", "objective": "ce"}, "has a head of its own .* leave --as out to go on from it"),
    ]
    for source, change, message in refused:
        config = replace(PLAIN, **change)
        objective = make_objective(config.objective, config.objective_options)
        for made in (bare_model, fresh_model):
            with pytest.raises(ValueError, match=message):
                made(str(source), config, objective)


def test_the_command_says_the_tokens_of_the_view_and_refuses_what_the_run_refuses(
    lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_parquet(tmp_path / "judged.parquet", rows(), "judged")
    data = ["--data", str(tmp_path / "judged.parquet")]
    words = ["train", *data, "--backbone", str(lm), "--device", "cpu", "--estimate"]

    def longest(*more: str) -> int:
        assert cli.main([*words, "--json", *more]) == 0
        return int(json.loads(capsys.readouterr().out)["longest_trace"])

    assert longest() == agree(lm, PLAIN)
    assert longest("--view", "words") == agree(lm, replace(PLAIN, view="words"))
    assert longest("--as", "trl", "--objective", "ce") == agree(lm, replace(PLAIN, as_family="trl", objective="ce"))
    for more, said in (
        (("--as", "trl", "--objective", "ce", "--view", "math"), "cannot hold view of your own"),
        (("--max-length", "20"), "the limit is 20"),
        (("--as", "genprm", "--objective", "verdict"), "a genprm is a language model"),
    ):
        assert cli.main([*words, *more]) == 2
        assert said in capsys.readouterr().err


def test_graded_solutions_that_weigh_rows_count_in_an_estimate_and_are_refused_as_in_the_run(
    lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def graded(*correct: bool | None, words: str = "3 + 4 = 7") -> str:
        """Solutions of other problems, some of them right."""
        made = [replace(trace(words, id=f"m{i}", prompt=f"other {i}"), correct=c) for i, c in enumerate(correct)]
        path = tmp_path / f"meta-{len(words)}-{'-'.join(map(str, correct))}.parquet"
        write_parquet(path, [Judged(t, None) for t in made], "judged")
        return str(path)

    write_parquet(tmp_path / "judged.parquet", rows(), "judged")
    words = [
        "train",
        "--data",
        str(tmp_path / "judged.parquet"),
        "--backbone",
        str(lm),
        "--device",
        "cpu",
        "--estimate",
    ]
    words += ["--eval-share", "0", "--json"]

    def estimated(*more: str) -> dict[str, Any]:
        assert cli.main([*words, *more]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    weighed = ("--objective", "instance-weights", "--meta")
    short, long = (estimated(*weighed, graded(True, False, words=text)) for text in ("3 + 4 = 7", "3 + 4 = 7, " * 20))
    assert short["longest_trace"] == estimated()["longest_trace"] < long["longest_trace"]
    for more, said in (
        (("--meta", graded(True, False)), "soft-bce weighs no rows, so a meta set is of no use to it"),
        ((*weighed, graded(True, None)), "the meta set needs graded solutions: `correct` of each says"),
        ((*weighed, graded(True, True)), "right ones and wrong ones"),
    ):
        assert cli.main([*words, *more]) == 2
        assert said in capsys.readouterr().err
