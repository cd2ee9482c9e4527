"""The trainer: what a credit says reaches TRL's loss, what was not judged does not, and the trained weights write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from footfall.loading import load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.rl.groups import Chosen, Credit, Filter, Floats, Group
from footfall.rl.groups import Rollout as Numbers
from footfall.rl.online import OnlineReward, Sequences
from footfall.rl.probes import probes
from footfall.rl.rewards import Reward
from footfall.rl.shared_prompts import shareable
from footfall.rl.trainer import CreditTrainer
from footfall.types import Judgement, Problem, Reason, Trajectory, Unjudged
from footfall.worlds import ArithmeticWorld
from tests.forked import Job

PROBLEMS = ArithmeticWorld().problems(4)


def small() -> Any:
    """One layer, the embedded model's vocabulary, weights by seed."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        tie_word_embeddings=True,
    )  # fmt: skip
    make: Any = LlamaForCausalLM
    return make(config)


class Third:
    """A judge of whose calls every third fails; it likes digits."""

    name = "third"

    def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
        lost = Unjudged(Reason.FAILED_CALL, "the server hung up")
        return [
            Judgement(t.id, (None,) * len(t.steps), self.name, failures=(lost,) * len(t.steps))
            if i % 3 == 0
            else Judgement(t.id, tuple(sum(c.isdigit() for c in s.text) / 9 for s in t.steps), self.name)
            for i, t in enumerate(traces)
        ]


class Lost(Third):
    """A judge that cannot be reached at all."""

    def __init__(self, reason: Reason = Reason.FAILED_CALL) -> None:
        self.reason = reason

    def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
        lost = Unjudged(self.reason, "the server hung up")
        return [Judgement(t.id, (None,) * len(t.steps), "lost", failures=(lost,) * len(t.steps)) for t in traces]


def arguments(folder: Path, steps: int = 2, **more: Any) -> GRPOConfig:
    given = {
        "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 12, "max_steps": steps,
        "learning_rate": 1e-2, "use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no",
        "disable_tqdm": True, "gradient_checkpointing": False, "lr_scheduler_type": "constant", "logging_steps": 1,
    }  # fmt: skip
    return GRPOConfig(str(folder), **{**given, **more})


def trainer(
    folder: Path, reward: Reward, model: Any = None, problems: Sequence[Problem] = PROBLEMS, **more: Any
) -> Any:
    own = {name: more.pop(name) for name in ("writer", "online_lr", "peft_config", "callbacks") if name in more}
    tokenizer = load_tokenizer(str(EMBEDDED))
    return CreditTrainer(
        model or small(), tokenizer, problems, reward, arguments(folder, **more), separator="\n", **own
    )


def graded(made: Any, right: Sequence[bool] = (True, False)) -> Any:
    """As if so many answers, in turn, were right: what a model with random weights writes never is."""
    turn, trace = cycle(right), made.trace
    made.trace = lambda *given: replace(trace(*given), correct=next(turn))
    return made


def watched_log_probs(made: Any) -> list[torch.Tensor]:
    """Log-probabilities of tokens as the loss takes them from here on, each with its gradient behind `backward`."""
    seen: list[torch.Tensor] = []
    logps = made._get_per_token_logps_and_entropies

    def watched(*given: Any, **named: Any) -> Any:
        values, *rest = logps(*given, **named)
        values.retain_grad()
        seen.append(values)
        return values, *rest

    made._get_per_token_logps_and_entropies = watched
    return seen


def batch_of(made: Any) -> Any:
    """A batch of two groups of four, as TRL would hold it."""
    made.model.train()
    rows = [{"prompt": PROBLEMS[i // 4].text, "problem": i // 4} for i in range(8)]
    return made._generate_and_score_completions(rows)


def by_place(groups: Sequence[Sequence[Numbers]]) -> list[list[Floats]]:
    """Advantages that tell where they stand: 1, 2, 3, … along every completion."""
    return [[np.arange(1.0, each.tokens + 1) for each in group] for group in groups]


def test_advantages_reach_the_loss_token_by_token(tmp_path: Path) -> None:
    made = trainer(tmp_path, Reward(Credit((), by_place)))
    batch = batch_of(made)
    lengths = batch["completion_mask"].sum(dim=1).tolist()
    for row, length in enumerate(lengths):
        assert batch["advantages"][row].tolist()[:length] == list(range(1, length + 1))
        assert not batch["advantages"][row, length:].any()
    assert list(made._logs["advantages"]) == [(length + 1) / 2 for length in lengths], "as `log_completions` shows them"
    made.current_gradient_accumulation_steps = 1
    loss = made.compute_loss(made.model, batch)
    # On the policy that sampled all ratios are 1, so the loss is the mean of -A over the policy's tokens.
    wanted = -sum(sum(range(1, length + 1)) for length in lengths) / sum(lengths)
    assert loss.item() == pytest.approx(wanted, rel=1e-5)


KL, DRIFT = 0.5, 0.7


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "bnpo", "dr_grpo"])
def test_a_token_that_completions_share_has_its_whole_loss_divided_its_kl_too(tmp_path: Path, loss_type: str) -> None:
    """λ-GRPO's weights of ABC, ABD, AEF with the outcomes 1, 0, 0, beside a KL that is the same at every token."""
    made = graded(
        trainer(
            tmp_path, Reward(create("credit", "lambda-grpo")), beta=KL, loss_type=loss_type, num_generations=3,
            per_device_train_batch_size=3, max_completion_length=4, use_bias_correction_kl=False,
        ),
        (True, False, False),
    )  # fmt: skip
    A, B, C, D, E, F = range(40, 46)
    written, prompts = [[A, B, C], [A, B, D], [A, E, F]], made._tokenize_prompts
    made.rollout_func = lambda asked, _: {"prompt_ids": prompts(asked)[0], "completion_ids": written, "logprobs": None}
    made.model.train()
    batch = made._generate_and_score_completions([{"prompt": PROBLEMS[0].text, "problem": 0}] * 3)
    made.current_gradient_accumulation_steps = 1
    scored = made._get_per_token_logps_and_entropies(
        made.model, torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1),
        torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1), 3,
    )[0].detach()  # fmt: skip
    batch["ref_per_token_logps"] = scored + DRIFT
    seen = watched_log_probs(made)
    loss = made.compute_loss(made.model, batch)
    loss.backward()
    weights = torch.tensor([[1 / 3, 1 / 2, 1], [1 / 3, 1 / 2, 1], [1 / 3, 1, 1]])
    advantages = torch.tensor([[1.1545], [-0.57725], [-0.57725]])
    divided = weights / (12 if loss_type == "dr_grpo" else 9)
    kl = np.exp(DRIFT) - DRIFT - 1
    assert loss.item() == pytest.approx((divided * (KL * kl - advantages)).sum().item(), abs=1e-5)
    # The gradient of e^x - x - 1 by log π, where x = log π_ref - log π.
    wanted = divided * (KL * (1 - np.exp(DRIFT)) - advantages)
    torch.testing.assert_close(seen[0].grad, wanted.float(), rtol=0, atol=1e-5)
    assert made._metrics["train"]["kl"][-1] == pytest.approx(kl, rel=1e-5), "what is logged is the KL itself"
    assert made.beta == KL


def test_a_failed_judgement_leaves_the_group_and_is_counted(tmp_path: Path) -> None:
    made = trainer(tmp_path, Reward(create("credit", "grpo-process"), Third()))
    batch = batch_of(made)
    assert [each.left is not None for each in made.batch] == [i % 3 == 0 for i in range(8)]
    assert made.left == {"failed-call": 3}
    for i, each in enumerate(made.batch):
        assert bool(batch["tool_mask"][i].any()) == (i % 3 != 0) and (each.reward is None) == (i % 3 == 0)
        if i % 3 == 0:
            assert not batch["advantages"][i].any()
    # The statistics of the first group are those of its two others alone.
    kept = [made.batch[i].rollout for i in (1, 2)]
    alone = create("credit", "grpo-process")([Group(tuple(kept))])[0].advantages
    for row, wanted in zip((1, 2), alone, strict=True):
        np.testing.assert_allclose(batch["advantages"][row, : len(wanted)].numpy(), wanted, rtol=1e-5)
    assert batch["num_items_in_batch"] == batch["tool_mask"].sum()


def test_prompts_and_observations_are_not_trained_on(tmp_path: Path) -> None:
    """Tokens 4 to 6 of each completion are a tool's: no advantage, no loss, and the gradient does not know them as targets."""
    made = trainer(tmp_path, Reward(Credit((), by_place)))
    inner = made.rollout_func

    def with_tool(prompts: Any, owner: Any) -> dict[str, Any]:
        found = inner(prompts, owner)
        masks = [[int(not 4 <= t < 7) for t in range(len(ids))] for ids in found["completion_ids"]]
        return {**found, "env_mask": masks}

    made.rollout_func = with_tool
    batch = batch_of(made)
    assert batch["tool_mask"].shape == batch["completion_ids"].shape  # prompts are no part of it
    long = [i for i, each in enumerate(made.batch) if len(each.ids) > 7]
    assert long
    for row in long:
        assert not batch["tool_mask"][row, 4:7].any() and not batch["advantages"][row, 4:7].any()
        assert batch["tool_mask"][row, :4].all() and made.batch[row].trajectory.steps[0].observation_ids is not None
    made.current_gradient_accumulation_steps = 1
    logps = made._get_per_token_logps_and_entropies

    def found(observed: float) -> float:
        def shifted(*given: Any, **named: Any) -> Any:
            values, *rest = logps(*given, **named)
            return values + observed * (1 - batch["tool_mask"]), *rest

        made._get_per_token_logps_and_entropies = shifted
        return float(made.compute_loss(made.model, batch).detach())

    assert found(0.0) == found(-5.0), "whatever the policy thinks of a tool's tokens"


def test_a_function_of_the_users_pays_completions_and_one_that_it_cannot_judge_leaves_its_group(tmp_path: Path) -> None:
    asked: list[Trajectory] = []

    def by_length(trace: Trajectory) -> float | None:
        asked.append(trace)
        return None if len(asked) == 1 else float(len(trace.text))

    made = graded(trainer(tmp_path, Reward(create("credit", "grpo"), outcome=by_length)))
    batch = batch_of(made)
    assert [each.rollout.outcome for each in made.batch] == [None, *(float(len(trace.text)) for trace in asked[1:])]
    assert made.batch[0].left == Unjudged(Reason.UNCHECKABLE, "the function that pays completions gave None")
    assert not batch["tool_mask"][0].any() and batch["advantages"][1:].any()
    with pytest.raises(ValueError, match="the outcome reads a judge's values: name a judge"):
        Reward(create("credit", "grpo"), outcome="min")


@pytest.mark.parametrize(
    ("problems", "reward", "wrong"),
    [
        ([{"prompt": "2 + 2 = ?", "answer": "4"}], Reward(create("credit", "grpo")), "Problem is wanted, and not dict"),
        (
            PROBLEMS,
            lambda completions: [0.0],
            r"Reward is wanted, and not function.*Reward\(credit, outcome=function\)",
        ),
    ],
)
def test_what_trl_itself_would_be_given_is_answered_with_what_to_give(
    tmp_path: Path, problems: Any, reward: Any, wrong: str
) -> None:
    with pytest.raises(TypeError, match=wrong):
        CreditTrainer(small(), load_tokenizer(str(EMBEDDED)), problems, reward, arguments(tmp_path))


@pytest.mark.parametrize("most", [None, 3])
def test_a_prompt_read_once_for_its_group_gives_the_numbers_and_gradients_of_the_padded_batch(
    tmp_path: Path, most: int | None
) -> None:
    made = trainer(tmp_path, Reward(create("credit", "grpo")))
    batch = batch_of(made)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    mask[0, -6:] = 0
    kept = batch["completion_ids"].shape[1]
    weights = torch.randn(len(ids), kept, generator=torch.Generator().manual_seed(0)) * mask[:, -kept:]
    read: list[int] = []
    watch = made.model.get_input_embeddings().register_forward_hook(lambda _, given, __: read.append(given[0].numel()))

    def gradients(of: Any) -> list[torch.Tensor]:
        made.model.zero_grad()
        found = of(made.model, ids, mask, kept, compute_entropy=True, batch_size=most)
        torch.autograd.backward([(found[0] * weights).sum()])
        return [(each * mask[:, -kept:]).detach() for each in found[:2]] + [
            each.grad.clone() for each in made.model.parameters()
        ]

    theirs = gradients(partial(GRPOTrainer._get_per_token_logps_and_entropies, made))
    read.clear()
    ours = gradients(made._get_per_token_logps_and_entropies)
    watch.remove()
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-3, atol=2e-5)
    if most is None:
        prompts = {
            tuple(row[row_mask.bool()].tolist()) for row, row_mask in zip(ids[:, :-kept], mask[:, :-kept], strict=True)
        }
        assert sum(read) == sum(len(each) - 1 for each in prompts) + int(mask[:, -kept:].sum())
    else:
        assert len(read) == -(-len(ids) // most), "passes"


def test_layers_that_are_computed_again_are_left_to_trl(tmp_path: Path) -> None:
    made = trainer(tmp_path, Reward(create("credit", "grpo")))
    assert shareable(made.model, 64)
    made.model.gradient_checkpointing_enable()
    assert not shareable(made.model, 64)


@pytest.mark.parametrize("lora", [False, True])
def test_the_engine_writes_with_the_very_weights_that_are_trained(tmp_path: Path, lora: bool) -> None:
    more: dict[str, Any] = {}
    if lora:
        peft = pytest.importorskip("peft", reason="could not import 'peft'")
        more["peft_config"] = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "up_proj"])
    made = trainer(tmp_path, Reward(create("credit", "rloo"), outcome="answer"), **more)
    params = SamplingParams(max_tokens=12, seed=3)
    before = made.write(PROBLEMS, params)
    assert made.policy.engine.model.model.layers[0] is made.accelerator.unwrap_model(made.model).get_decoder().layers[0]
    made.paid = Reward(Credit((), by_place))
    made.train()
    assert made.write(PROBLEMS, params) != before
    fresh = trainer(tmp_path, Reward(create("credit", "grpo")), **more)
    fresh.model.load_state_dict(made.model.state_dict())
    assert made.write(PROBLEMS, params) == fresh.write(PROBLEMS, params)


def test_the_engine_writes_under_autocast_too(tmp_path: Path) -> None:
    """With `bf16=True`, as in docs/rl.md, a run on a CPU ended at its first token: "Index put requires … dtypes match"."""
    made = graded(trainer(tmp_path, Reward(create("credit", "grpo")), bf16=True))
    made.train()
    assert made.state.global_step == 2 and made.model.dtype == torch.float32
    assert all(len(each.ids) > 1 for each in made.batch)


def test_trl_can_write_too(tmp_path: Path) -> None:
    made = trainer(tmp_path, Reward(create("credit", "grpo-process"), Third()), writer="trl")
    made.train()
    assert made.left["failed-call"] == 2 * 3 and len(made.batch) == 8


def test_another_policy_can_write_and_its_failures_cost_rollouts(tmp_path: Path) -> None:
    scripted = create("policy", "scripted-arithmetic")
    made = trainer(tmp_path, Reward(create("credit", "grpo")), writer=scripted, max_completion_length=200)
    batch_of(made)
    assert any(each.trajectory.correct for each in made.batch)
    assert all(each.ids[-1] == 2 for each in made.batch)


@pytest.mark.parametrize("name", ["prime", "oprl", "prl"])
def test_reward_models_that_learn_beside_the_policy(tmp_path: Path, name: str) -> None:
    made = graded(trainer(tmp_path, Reward(create("credit", name)), online_lr=1e-3))
    made.train()
    assert not made.left and all(np.isfinite(each.advantages).all() for each in made.batch)
    if made.beside.online is not None:
        assert "online_loss" in made.state.log_history[-2]
        first = next(made.beside.online.model.parameters())
        assert not torch.equal(first, next(small().parameters())), "it has learned"


@pytest.mark.parametrize("name", ["band", "vspo", "prof"])
def test_filters_choose_among_the_groups(tmp_path: Path, name: str) -> None:
    class Known(Third):
        def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
            return [Judgement(t.id, (0.5,) * len(t.steps), "known", value=0.5) for t in traces]

    settings = {"remove": 2} if name == "prof" else {}
    made = trainer(tmp_path, Reward(create("credit", "grpo"), Known(), create("filter", name, **settings)))
    batch = batch_of(graded(made, [True, False, False, True] + [False] * 4))
    rows = batch["rollout"].tolist()
    assert len(rows) == 8
    assert not made.left and made._metrics["train"]["left"] == [0], "what a filter leaves out was judged"
    assert made._metrics["train"]["filtered"] == [4]
    if name == "vspo":
        assert rows == [0, 1, 2, 3] * 2, "the group without spread is replaced"
    if name == "prof":
        assert batch["tool_mask"].any(dim=1).tolist() == [False, False, True, True] + [False] * 2 + [True] * 2
    if name == "band":
        assert batch["tool_mask"][:4].any() and not batch["tool_mask"][4:].any()


def first_group(groups: Sequence[Group]) -> list[Chosen]:
    return [Chosen(0, np.ones(len(groups[0].rollouts)))]


@pytest.mark.parametrize(
    ("credit", "keep", "judge", "lost", "filtered"),
    [
        ("grpo", create("filter", "prof", remove=1), Third(), {0, 3, 6}, 2),
        ("grpo", create("filter", "prof", remove=1), Lost(), set(range(8)), 0),
        ("grpo-process", Filter((), first_group), Third(), {0, 3, 6}, 3),
        (
            "grpo",
            Filter(("rewards",), first_group),
            Third(),
            {6},
            3,
        ),  # 0 and 3 were chosen, and are paid by their answers
    ],
    ids=["prof", "prof, dead judge", "the credit needs it", "the filter needs it"],
)
def test_a_rollout_that_was_lost_is_not_counted_as_filtered(
    tmp_path: Path, credit: str, keep: Filter, judge: Third, lost: set[int], filtered: int
) -> None:
    made = graded(trainer(tmp_path, Reward(create("credit", credit), judge, keep)))
    batch = batch_of(made)
    assert {i for i, each in enumerate(made.batch) if each.left == "the server hung up"} == lost
    assert made.left == {"failed-call": len(lost)} and made._metrics["train"]["left"] == [len(lost)]
    assert made._metrics["train"]["filtered"] == [filtered]
    assert int(batch["tool_mask"].any(dim=1).sum()) == 8 - len(lost) - filtered
    assert all((each.reward is None) == (i in lost) for i, each in enumerate(made.batch))


def test_what_is_not_finite_stops_the_run_and_names_update_and_trace(tmp_path: Path) -> None:
    class Nan(Third):
        def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
            return [
                Judgement(t.id, (float("nan") if i == 5 else 1.0,) * len(t.steps), "nan") for i, t in enumerate(traces)
            ]

    made = trainer(tmp_path, Reward(create("credit", "grpo-process"), Nan()))
    with pytest.raises(ValueError, match=r"update 0: judgement of '.*/step-0/5': step 1 has the value nan"):
        made.train()

    def burst(groups: Sequence[Sequence[Numbers]]) -> list[list[Floats]]:
        return [[np.full(each.tokens, np.inf if (g, i) == (1, 2) else 1.0) for i, each in enumerate(group)]
                for g, group in enumerate(groups)]  # fmt: skip

    made = trainer(tmp_path, Reward(Credit((), burst)))
    with pytest.raises(ValueError, match=r"update 0: the loss is .*/step-0/6'"):
        made.train()


def test_a_gradient_that_is_not_finite_stops_the_run_before_it_is_in_the_weights(tmp_path: Path) -> None:
    made = graded(trainer(tmp_path, Reward(create("credit", "grpo"))))
    made.model.lm_head.weight.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(ValueError, match="update 0: the gradient's norm is nan"):
        made.train()
    assert all(torch.isfinite(weight).all() for weight in made.model.parameters())


def test_a_judge_that_gives_too_few_judgements_is_told_how_many(tmp_path: Path) -> None:
    class Short(Third):
        def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
            return super().judge(traces)[:-1]

    made = trainer(tmp_path, Reward(create("credit", "grpo-process"), Short()))
    with pytest.raises(ValueError, match="update 0: judge 'third' gave 7 judgements for 8 trajectories"):
        batch_of(made)


def test_a_reward_model_that_learns_outcomes_refuses_those_that_are_no_share(tmp_path: Path) -> None:
    """Cross-entropy against 3 has no lowest value: the model would be driven off for good."""

    class Liked(Third):
        def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
            return [Judgement(t.id, (3.0,) * len(t.steps), "liked") for t in traces]

    made = trainer(tmp_path, Reward(create("credit", "prime"), Liked(), outcome="min"))
    with pytest.raises(ValueError, match=r"update 0: an outcome is 3: .* outcomes in \[0, 1\]"):
        batch_of(made)


@pytest.mark.parametrize(("name", "what"), [("prime", "online"), ("prl", "reference")])
def test_log_probabilities_that_are_not_finite_name_update_and_trace(tmp_path: Path, name: str, what: str) -> None:
    made = graded(trainer(tmp_path, Reward(create("credit", name))))
    broken = made.beside.online.model if what == "online" else made.beside.reference
    with torch.no_grad():
        next(broken.parameters()).fill_(float("nan"))
    with pytest.raises(ValueError, match=rf"update 0, trace '.*/step-0/0': {what} of a rollout is not finite"):
        batch_of(made)


def test_a_credit_that_gets_nothing_of_what_it_needs_stops_the_run(tmp_path: Path) -> None:
    """A judge that says nothing of the bare prompt can never serve PAV: that is no failed call."""

    class Startless(Third):
        def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
            return [Judgement(t.id, (0.5,) * len(t.steps), "startless") for t in traces]

    made = trainer(tmp_path, Reward(create("credit", "pav"), Startless()))
    with pytest.raises(ValueError, match="update 0: the judge values no bare problems, and the credit needs that"):
        batch_of(made)


@pytest.mark.parametrize("reason", [Reason.FAILED_CALL, Reason.NO_REFERENCE])
def test_a_batch_without_any_judgement_moves_nothing_and_prints_no_completion(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reason: Reason
) -> None:
    made = trainer(tmp_path, Reward(create("credit", "grpo-process"), Lost(reason)))
    made.train()
    assert made.left == {reason.value: 16} and torch.equal(
        made.model.state_dict()["lm_head.weight"], small().lm_head.weight
    )
    assert "All reward functions" not in caplog.text


def test_an_outcome_that_a_judge_failed_to_give_is_told_as_its_failure(tmp_path: Path) -> None:
    made = trainer(tmp_path, Reward(create("credit", "grpo"), Third(), outcome="min"))
    batch_of(made)
    assert made.left == {"failed-call": 3}


def test_a_batch_of_problems_without_answers_moves_nothing(tmp_path: Path) -> None:
    problems = [replace(each, answer=None) if i < 2 else each for i, each in enumerate(PROBLEMS)]
    made = trainer(tmp_path, Reward(create("credit", "grpo")), problems=problems)
    batch = batch_of(made)
    assert made.left == {"no-reference": 8} and not batch["tool_mask"].any()


def test_problems_none_of_which_has_the_answer_that_is_paid_by_are_refused_at_the_start(tmp_path: Path) -> None:
    problems = [replace(each, answer=None) for each in PROBLEMS]
    by_filter = Reward(create("credit", "grpo-process"), Third(), create("filter", "band"))
    for paid in (Reward(create("credit", "grpo")), by_filter):
        with pytest.raises(ValueError, match="no problem has a reference answer"):
            trainer(tmp_path, paid, problems=problems)
    for paid in (
        Reward(create("credit", "grpo-process"), Third()),
        Reward(create("credit", "grpo"), Third(), outcome="min"),
    ):
        assert paid.unanswered(problems) == 0
    assert by_filter.unanswered([*problems, PROBLEMS[0]]) == len(problems)


def test_a_filter_that_reads_steps_wants_a_judge() -> None:
    with pytest.raises(ValueError, match="name a judge"):
        Reward(create("credit", "grpo"), None, create("filter", "prof"))


def test_what_the_old_policy_is_held_against_has_its_temperature(tmp_path: Path) -> None:
    """At first policy, reference and online reward model are one: no token has earned or drifted anything."""
    for name in ("prl", "oprl"):
        made = graded(trainer(tmp_path, Reward(create("credit", name)), temperature=0.6))
        batch_of(made)
        for each in made.batch:
            against = each.rollout.reference if name == "prl" else each.rollout.online
            np.testing.assert_allclose(each.rollout.known("old"), against, atol=1e-5)


FSDP2 = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
         "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT"}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("credit", "writer"), [("prl", "scripted-arithmetic"), ("oprl", "scripted-arithmetic"), ("grpo", "trl"), ("grpo", "engine")]
)  # fmt: skip
def test_sharded_weights_are_trained_as_whole_ones_whoever_writes(tmp_path: Path, credit: str, writer: str) -> None:
    program = Path(__file__).with_name("sharded_policy.py")
    job = Job(2, [program, credit, writer, tmp_path], **FSDP2)
    printed, said = job.communicate(timeout=300)
    assert job.returncode == 0, said
    losses = json.loads(printed.splitlines()[-1])
    assert len(losses) == 2
    if writer != "trl":  # each process of TRL's draws tokens of its own
        given = writer if writer == "engine" else create("policy", writer)
        alone = graded(trainer(tmp_path, Reward(create("credit", credit)), writer=given))
        alone.train()
        told = [row["loss"] for row in alone.state.log_history if "loss" in row]
        assert losses == pytest.approx(told, abs=1e-4) and max(map(abs, told)) > 1e-3


def test_an_exploit_is_paid_for_the_answer_that_it_states_itself() -> None:
    world = ArithmeticWorld()
    scripted = create("policy", "scripted-arithmetic")
    right = next(trace for _, trace in world.traces(scripted, 20) if trace.correct)
    found = probes(right)
    paid = Reward(create("credit", "grpo")).score([right, found["only thanks"], found["fake answer"]])
    assert paid == [1.0, 0.0, 1.0], "thanks are no answer; that a right answer has no steps, outcomes cannot see"


def test_a_group_must_be_whole_within_a_process(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"divisible|multiple"):
        trainer(tmp_path, Reward(create("credit", "grpo")), per_device_train_batch_size=6)


def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    """With an online reward model too, whose weights and optimizer are part of a checkpoint."""

    def made(folder: str, **more: Any) -> Any:
        return graded(trainer(tmp_path / folder, Reward(create("credit", "prime")), steps=4, online_lr=1e-3, **more))

    whole = made("a", save_strategy="steps", save_steps=3)
    whole.train()
    resumed = made("a")
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-3"))
    assert whole.beside.online is not None and resumed.beside.online is not None
    for own, other in ((whole.model, resumed.model), (whole.beside.online.model, resumed.beside.online.model)):
        for name, weight in own.state_dict().items():
            assert torch.equal(weight, other.state_dict()[name]), name


def test_an_online_reward_model_clips_its_gradient() -> None:
    ids = torch.randint(3, 512, (4, 20), generator=torch.Generator().manual_seed(1))
    batch = Sequences(ids, torch.ones_like(ids), 12)
    model = OnlineReward(small(), beta=1e3)
    model.update(
        batch, model.scores(batch), torch.zeros(4, 12), torch.ones(4, 12), [[12]] * 4, [1.0, 0.0, 1.0, 0.0], ["a"] * 4
    )
    grads = [p.grad for p in model.model.parameters() if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in grads]))
    assert norm.item() == pytest.approx(10, rel=1e-3)


@pytest.mark.parametrize("pairs", [False, True], ids=["prime", "oprl"])
def test_an_online_reward_model_reads_few_rows_at_a_time_and_learns_as_from_all(
    pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = torch.randint(3, 512, (8, 20), generator=torch.Generator().manual_seed(1))
    batch, own = Sequences(ids, torch.ones_like(ids), 12), torch.ones(8, 12)
    found = []
    for rows in (3, 8):
        monkeypatch.setattr("footfall.rl.online._ROWS", rows)
        model = OnlineReward(small(), lr=1e-2, beta=0.5, pairs=pairs)
        given = (
            batch,
            model.scores(batch),
            torch.zeros(8, 12),
            own,
            [[4, 8]] * 8,
            [1.0, 0.0, 1.0, None] * 2,
            ["a", "b"] * 4,
        )
        loss = model.update(*given)
        found.append((loss, [p.grad.clone() for p in model.model.parameters() if p.grad is not None]))
    assert found[0][0] == pytest.approx(found[1][0]) and found[0][1]
    for few, everything in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(few, everything, rtol=1e-3, atol=1e-6)
