"""A model that writes stays its owner's: it can be called and trained, and the next text is that of its new weights."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from footfall.hashing import weights_fingerprint
from footfall.loading import load_model
from footfall.policy.decoding import Request
from footfall.policy.embedded import EMBEDDED
from footfall.policy.engine import Engine
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.types import Problem, Trajectory
from tests.policy.tiny_models import random_prompts, tiny_model

GREEDY = SamplingParams(temperature=0)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
PROMPTS = random_prompts([9, 30, 30, 5])
PREFIX = Trajectory("t", Problem("p", "Tom has 3 apples and buys 4 more. How many does he have?"), separator="\n")


def written(engine: Engine, new: int = 20) -> list[list[int]]:
    requests = [Request(ids, seed, new) for seed, ids in enumerate(PROMPTS)]
    return [each.tokens for each in engine.generate(requests, SamplingParams(), keep=True)]


def train(model: nn.Module, rate: float = 0.05, **options: Any) -> None:
    """One step towards other texts."""
    model.train()
    trained: Any = model
    ids = torch.tensor([random_prompts([24], seed=5)[0]], device=trained.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, **options)
    trained(input_ids=ids, labels=ids).loss.backward()
    assert all(each.grad is not None and bool(each.grad.abs().sum() > 0) for each in model.parameters())
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ["llama", "gemma2-softcap"])
def test_a_model_can_be_called_by_anybody_after_the_engine_has_used_it(architecture: str, device: str) -> None:
    model: Any = tiny_model(architecture, device)
    ids = torch.tensor([PROMPTS[1]], device=device)
    before, text = model(input_ids=ids).logits, model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0)
    engine = Engine(model, [])
    written(engine)
    assert torch.equal(model(input_ids=ids).logits, before)
    assert torch.equal(model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0), text)
    assert model.config._attn_implementation == tiny_model(architecture).config._attn_implementation


@pytest.mark.parametrize("device", DEVICES)
def test_the_weights_stay_the_same_tensors_in_the_same_place(device: str) -> None:
    model = tiny_model("llama", device)
    next(iter(model.parameters())).requires_grad_(False)
    names = [(name, id(p), p.data_ptr(), p.stride(), p.requires_grad) for name, p in model.named_parameters()]
    written(Engine(model, []))
    assert [(name, id(p), p.data_ptr(), p.stride(), p.requires_grad) for name, p in model.named_parameters()] == names


def test_the_mode_of_each_module_is_given_back() -> None:
    model: Any = tiny_model("llama")
    model.train()
    model.model.layers[1].eval()
    modes = [module.training for module in model.modules()]
    engine = Engine(model, [])
    assert [module.training for module in model.modules()] == modes
    written(engine)
    assert [module.training for module in model.modules()] == modes


def test_the_model_is_given_back_when_the_engine_fails() -> None:
    model: Any = tiny_model("llama").train()
    with pytest.raises(ValueError, match="max_tokens"):
        written(Engine(model, []), new=600)
    assert model.training and model.config._attn_implementation != "footfall_slots"
    assert all(isinstance(module.weight, nn.Parameter) for module in model.modules() if isinstance(module, nn.Linear))
    assert model(input_ids=torch.tensor([PROMPTS[0]])).logits.requires_grad


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}], ids=["plain", "foreach", "fused"])
def test_after_a_training_step_the_engine_writes_with_the_new_weights(options: dict[str, Any], device: str) -> None:
    """Fused optimizers write without torch's counting it."""
    model = tiny_model("llama", device)
    engine = Engine(model, [])
    old = written(engine)
    train(model, **options)
    new = written(engine)
    assert new != old
    assert new == written(Engine(copy.deepcopy(model), []))
    assert model.training


def directly(model: nn.Module) -> None:
    """As some trainers copy their own weights over the model's."""
    for parameter in model.parameters():
        parameter.data.mul_(1.5)


def in_other_memory(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data = parameter.data * 1.5


def loaded(model: nn.Module) -> None:
    model.load_state_dict({name: 1.5 * tensor for name, tensor in model.state_dict().items()})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("change", [directly, in_other_memory, loaded])
def test_weights_changed_in_any_other_way_are_noticed_too(change: Callable[[nn.Module], None], device: str) -> None:
    model = tiny_model("llama", device)
    engine = Engine(model, [])
    old = written(engine)
    change(model)
    new = written(engine)
    assert new != old and new == written(Engine(copy.deepcopy(model), []))


def test_one_number_written_behind_torchs_back_counts_once_the_engine_is_told_to_forget() -> None:
    model: Any = tiny_model("llama")
    engine = Engine(model, [])
    old = written(engine)
    model.model.layers[0].mlp.down_proj.weight.data[1:, 1:2] += 5
    engine.forget()
    new = written(engine)
    assert new != old and new == written(Engine(copy.deepcopy(model), []))


def test_another_models_training_costs_no_prefix_its_keys() -> None:
    engine = Engine(tiny_model("llama"), [])
    written(engine)
    train(tiny_model("llama"))
    read = engine.usage.prefilled
    written(engine)
    assert engine.usage.prefilled == read


def test_a_call_while_the_engine_writes_in_another_thread_is_refused() -> None:
    model: Any = tiny_model("llama")
    errors: list[str] = []

    def call() -> None:
        try:
            model(input_ids=torch.tensor([PROMPTS[0]]))
        except RuntimeError as error:
            errors.append(str(error))

    def stops(_: list[int]) -> bool:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return True

    every = frozenset(range(model.config.vocab_size))
    Engine(model, []).generate([Request(PROMPTS[0], 1, 5, stops=stops)], GREEDY, every)
    assert len(errors) == 1 and "engine is writing" in errors[0]
    call()
    assert len(errors) == 1


def test_engines_of_one_model_take_turns() -> None:
    model = tiny_model("llama")
    engines = [Engine(model, []) for _ in range(4)]
    found: dict[int, list[list[int]]] = {}
    threads = [
        threading.Thread(target=lambda i=i, engine=engine: found.update({i: written(engine)}))
        for i, engine in enumerate(engines)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(4)] == [written(Engine(tiny_model("llama"), []))] * 4


def test_a_policys_model_can_be_trained_and_saved_and_its_name_follows(tmp_path: Path) -> None:
    model, tokenizer = load_model(EMBEDDED, "cpu")
    policy = TorchPolicy(model, tokenizer, label="embedded")
    name, (old,) = policy.name, policy.sample([PREFIX], 4, SamplingParams(max_tokens=60))
    assert name == f"embedded@{weights_fingerprint(model)}"
    assert policy.choices([PREFIX], ["Tom", "He"]) == policy.choices([PREFIX], ["Tom", "He"])
    train(model, rate=0.003, fused=True)
    assert policy.name == f"embedded@{weights_fingerprint(model)}" != name
    (new,) = policy.sample([PREFIX], 4, SamplingParams(max_tokens=60))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = TorchPolicy.load(tmp_path, "cpu", label="embedded")
    assert again.name == policy.name
    assert [each.steps for each in again.sample([PREFIX], 4, SamplingParams(max_tokens=60))[0]] == [
        c.steps for c in new
    ]
    assert [each.steps for each in new] != [each.steps for each in old]


def test_a_model_without_its_adapter_is_another_writer_and_finds_no_keys_of_the_adapters() -> None:
    peft = pytest.importorskip("peft")
    model, tokenizer = load_model(EMBEDDED, "cpu")
    torch.manual_seed(0)
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    policy = TorchPolicy(adapted.get_base_model(), tokenizer, label="mine")
    cold = TorchPolicy(adapted.get_base_model(), tokenizer, label="mine")
    params = SamplingParams(temperature=0, max_tokens=8)
    ((before,),), name = policy.sample([PREFIX], 1, params), policy.name
    with adapted.disable_adapter():
        assert policy.name != name, "a store of rollouts is keyed by it"
        ((without,),), ((fresh,),) = policy.sample([PREFIX], 1, params), cold.sample([PREFIX], 1, params)
    assert without == fresh and without.steps != before.steps
    assert policy.name == name == f"mine@{weights_fingerprint(adapted.get_base_model())}"
    assert policy.sample([PREFIX], 1, params) == [[before]]
