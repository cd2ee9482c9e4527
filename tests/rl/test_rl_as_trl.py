"""GRPO by a credit against TRL's own: the same completions, losses and weights; what would not be heeded is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch
from datasets import Dataset
from transformers import LlamaForCausalLM
from trl.trainer.grpo_trainer import GRPOTrainer

from footfall.loading import load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.registry import create
from footfall.render import prompt_ids, template_for
from footfall.rl.rewards import Reward
from footfall.rl.trainer import CreditTrainer
from footfall.types import Judgement, Trajectory
from tests.rl.test_rl_trainer import PROBLEMS, arguments, batch_of, graded, small, trainer

TOKENIZER: Any = load_tokenizer(str(EMBEDDED))
TEMPLATE = template_for(TOKENIZER)
END = 2


def written(seed: int) -> list[int]:
    """A completion of 3 to 12 tokens; of three, one is cut."""
    drawn = torch.Generator().manual_seed(seed)
    length = int(torch.randint(3, 12, (), generator=drawn))
    return torch.randint(3, 400, (length,), generator=drawn).tolist() + [END] * (seed % 3 > 0)


def paid(tokens: int) -> float:
    return float(tokens % 3)


class ByLength(Reward):
    """An outcome that a random model earns now and then."""

    def outcome_of(self, trace: Trajectory, said: Judgement) -> float:
        return paid(sum(len(part.token_ids or ()) for step in trace.steps for part in step.parts))


def stock(model: Any, args: Any) -> Any:
    def reward(completion_ids: Sequence[list[int]], **_: Any) -> list[float | None]:
        return [paid(len(ids) - (ids[-1] == END)) for ids in completion_ids]

    rows = Dataset.from_list([{"prompt": problem.text} for problem in PROBLEMS])
    return GRPOTrainer(
        model=model, reward_funcs=reward, args=args, train_dataset=rows, processing_class=TOKENIZER,
        rollout_func=lambda *_: {},
    )  # fmt: skip


def own(model: Any, args: Any) -> Any:
    scale, args.scale_rewards = args.scale_rewards, "group"
    credit = create("credit", "grpo", scale=scale)
    return CreditTrainer(model, TOKENIZER, PROBLEMS, ByLength(credit), args, separator="\n")


def trained(make: Any, folder: Path, **more: Any) -> tuple[Any, list[tuple[float, float]], dict[str, torch.Tensor]]:
    """Four updates on completions that only their place decides: losses with gradient norms, and the weights."""
    by_text = {problem.text: problem for problem in PROBLEMS}
    model = LlamaForCausalLM.from_pretrained(folder)
    made = make(model, arguments(folder / "out", steps=4, shuffle_dataset=False, learning_rate=3e-3, **more))
    batches = iter(range(100))

    def fixed(prompts: Sequence[str], _: Any) -> dict[str, Any]:
        batch = next(batches)
        torch.manual_seed(batch)  # by which TRL shuffles the rows afterwards
        ids = [prompt_ids(TOKENIZER, by_text[text], TEMPLATE) for text in prompts]
        completions = [written(100 * batch + i) for i in range(len(prompts))]
        return {"prompt_ids": ids, "completion_ids": completions, "logprobs": None}

    made.rollout_func = fixed
    made.train()
    told = [(row["loss"], row["grad_norm"]) for row in made.state.log_history if "loss" in row]
    return made, told, {name: weight.detach().clone() for name, weight in made.model.state_dict().items()}


PARTS = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
QUICK: dict[str, dict[str, Any]] = {
    "token mean": {},
    "KL": {"beta": 0.5, "num_iterations": 2},
    "cut ones masked": {"mask_truncated_completions": True, "loss_type": "grpo", "scale_rewards": "none"},
    "parts, iterations": {**PARTS, "num_iterations": 2},
}
OTHERS: dict[str, dict[str, Any]] = {
    "sequence mean": {"loss_type": "grpo"},
    "Dr. GRPO": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "mean of a pass": {"loss_type": "bnpo", **PARTS},
    "CISPO": {"loss_type": "cispo", "num_iterations": 2},
    "SAPO": {"loss_type": "sapo", "num_iterations": 2},
    "VESPO": {"loss_type": "vespo", "num_iterations": 2},
    "LUSPO": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "GSPO": {"loss_type": "grpo", "importance_sampling_level": "sequence", "num_iterations": 2},
    "parts": PARTS,
    "a batch for two updates": {"per_device_train_batch_size": 4, "steps_per_generation": 2},
    "std of the batch": {"scale_rewards": "batch"},
    "cut ones masked, token mean": {"mask_truncated_completions": True},
    "uncertain tokens": {"top_entropy_quantile": 0.5},
    "entropy bonus": {"entropy_coef": 0.1},
    "temperature, clipped twice": {"temperature": 0.7, "delta": 1.5, "num_iterations": 2},
    "off-policy mask": {"off_policy_mask_threshold": 1e-6, "num_iterations": 2},
}


@pytest.mark.parametrize(
    "more", [*QUICK.values(), *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS.values())],
    ids=[*QUICK, *OTHERS],
)  # fmt: skip
def test_grpo_is_trls(tmp_path: Path, more: dict[str, Any]) -> None:
    small().save_pretrained(tmp_path)
    _, theirs, wanted = trained(stock, tmp_path, **more)
    _, told, weights = trained(own, tmp_path, **more)
    assert max(abs(figure) for each in theirs for figure in each) > 1e-3
    np.testing.assert_allclose(told, theirs, rtol=1e-3, atol=2e-5)
    first = LlamaForCausalLM.from_pretrained(tmp_path).state_dict()
    moved = max(float((wanted[name] - first[name]).abs().max()) for name in wanted)
    assert moved > 1e-3
    for name, weight in wanted.items():
        torch.testing.assert_close(weights[name], weight, rtol=0, atol=moved / 100)


@pytest.mark.parametrize("name", ["prl", "prime"])
def test_a_cut_completion_that_is_not_trained_on_is_still_read_whole(tmp_path: Path, name: str) -> None:
    """TRL hides its tokens from attention, which gave it the log-probabilities of another text, or zeros."""
    found = []
    for masked in (False, True):
        made = graded(trainer(
            tmp_path, Reward(create("credit", name)), mask_truncated_completions=masked, num_iterations=2,
        ))  # fmt: skip
        batch = batch_of(made)
        found.append([each.rollout.known("old" if name == "prl" else "online") for each in made.batch])
        cut = [each.ids[-1] != END for each in made.batch]
        assert any(cut)
        assert batch["tool_mask"].any(dim=1).tolist() == [not (masked and each) for each in cut]
        assert batch["num_items_in_batch"] == batch["tool_mask"].sum()
    for plain, masked_row in zip(*found, strict=True):
        np.testing.assert_allclose(masked_row, plain, atol=1e-6)


def test_the_reference_of_a_kl_is_the_policy_as_it_was_also_where_its_name_says_nothing(tmp_path: Path) -> None:
    made = graded(trainer(tmp_path, Reward(create("credit", "grpo")), beta=0.1))
    assert made.ref_model is not None and not made.ref_model.training
    for name, weight in small().state_dict().items():
        assert torch.equal(made.ref_model.state_dict()[name], weight), name
    made.train()
    assert not torch.equal(made.model.lm_head.weight, made.ref_model.lm_head.weight)
    assert next(row["kl"] for row in made.state.log_history if "kl" in row) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"scale_rewards": "none"}, "scale_rewards='none' would not be heeded: advantages are the credit's"),
        ({"reward_weights": [2.0]}, "reward_weights=.* advantages are the credit's"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "advantages are the credit's"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "prompts are Footfall's"),
        ({"min_p": 0.1}, "min_p=0.1 would not be heeded: this writer has temperature, top_p and top_k alone"),
        ({"repetition_penalty": 1.1, "writer": create("policy", "scripted-arithmetic")}, "this writer has temperature"),
        ({"use_transformers_continuous_batching": True}, "this writer has temperature"),
        ({"vllm_importance_sampling_mode": "token_truncate"}, "no vLLM writes here: .* use_vllm=True"),
        ({"model_init_kwargs": {"dtype": "float32"}}, "the model is loaded already: say it to load_model"),
        ({"max_tool_calling_iterations": 2}, "who calls tools is the writer: say it to a policy of your own"),
        ({"remove_unused_columns": True}, "rows name the problems"),
    ],
)  # fmt: skip
def test_what_only_trl_would_heed_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trainer(tmp_path, Reward(create("credit", "grpo")), **more)


@pytest.mark.parametrize("more", [{"temperature": 0.0}, {"max_completion_length": None}])
def test_completions_that_nobody_can_learn_from_or_end_are_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    """They ended in a ZeroDivisionError of TRL's and a TypeError."""
    with pytest.raises(ValueError, match=r"drawn at a temperature above 0, .* and cut at a number of tokens"):
        trainer(tmp_path, Reward(create("credit", "grpo")), **more)


def test_fewer_problems_than_a_batch_takes_are_refused(tmp_path: Path) -> None:
    """TRL drops the batch that it cannot fill: `train` came back at once, without an update or a word."""
    with pytest.raises(ValueError, match="4 problems, and a batch of 20 completions takes 5, 4 of each: give more"):
        trainer(tmp_path, Reward(create("credit", "grpo")), per_device_train_batch_size=20)
    assert trainer(tmp_path, Reward(create("credit", "grpo")), per_device_train_batch_size=16).problems == PROBLEMS


def test_trl_as_writer_has_all_of_its_own_sampling(tmp_path: Path) -> None:
    assert trainer(tmp_path, Reward(create("credit", "grpo")), writer="trl", min_p=0.1).min_p == 0.1
