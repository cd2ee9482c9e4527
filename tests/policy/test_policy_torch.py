"""The in-process policy on the embedded model: reproducible samples, exact ids, honest costs."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from footfall.loading import load_model
from footfall.policy.embedded import CHECKING, EMBEDDED, embedded
from footfall.policy.protocol import Completion, SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import create
from footfall.render import Template, encode
from footfall.types import Step, Trajectory
from footfall.worlds import ArithmeticWorld
from footfall.worlds.code import CodeWorld

WORLD = ArithmeticWorld()
PREFIXES = [WORLD.prefix(problem) for problem in WORLD.problems(4, seed=1, split="test")]
GREEDY = SamplingParams(temperature=0, max_tokens=200)
DRAWN = SamplingParams(max_tokens=200, seed=3)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def policy() -> TorchPolicy:
    return embedded()


def ids_of(completion: Completion) -> tuple[int, ...]:
    return tuple(i for step in completion.steps for i in step.token_ids or ())


def texts(completion: Completion) -> list[str]:
    return [step.text for step in completion.steps]


def essence(completion: Completion) -> tuple[object, ...]:
    """All but the cost, which depends on what was in the cache."""
    return ids_of(completion), texts(completion), completion.finish, completion.index


class TestSamples:
    @pytest.mark.long
    def test_sample_i_is_the_same_however_many_are_asked_for(self) -> None:
        four = policy().sample(PREFIXES, 4, DRAWN)
        two = policy().sample(PREFIXES, 2, DRAWN)
        later = policy().sample(PREFIXES[::-1], 2, DRAWN, first=2)[::-1]
        for all_four, first, last in zip(four, two, later, strict=True):
            assert [c.index for c in all_four] == [0, 1, 2, 3]
            assert list(map(essence, all_four)) == [essence(c) for c in first + last]
        assert len({ids_of(c) for row in four for c in row}) > 8, "samples differ from each other"

    def test_another_seed_gives_other_samples(self) -> None:
        (ours,), (others,) = (policy().sample(PREFIXES[:1], 4, replace(DRAWN, seed=s)) for s in (3, 4))
        assert list(map(essence, ours)) != list(map(essence, others))

    @pytest.mark.long
    def test_a_new_process_or_a_forgotten_cache_gives_the_same_to_the_bit(self) -> None:
        ours = policy()
        ours.sample(PREFIXES, 2, replace(DRAWN, seed=99))
        ours.forget()
        again, fresh = ours.sample(PREFIXES, 2, DRAWN), embedded().sample(PREFIXES, 2, DRAWN)
        assert again == fresh, "costs and logprobs included"

    def test_no_prefixes_give_no_completions(self) -> None:
        assert policy().sample([], 4) == []

    def test_logprobs_are_those_of_each_token_and_never_positive(self) -> None:
        for (completion,) in policy().sample(PREFIXES, 1, DRAWN):
            for step in completion.steps:
                assert step.logprobs is not None and step.token_ids is not None
                assert len(step.logprobs) == len(step.token_ids) > 0
                assert all(math.isfinite(x) and x <= 0 for x in step.logprobs)

    def test_a_text_cut_at_max_tokens_says_so(self) -> None:
        ((completion,),) = policy().sample(PREFIXES[:1], 1, replace(GREEDY, max_tokens=5))
        assert completion.finish == "length" and len(ids_of(completion)) == 5
        assert completion.after(PREFIXES[0], "embedded").meta == {"finish": "length"}


class TestSteps:
    def test_it_stops_after_one_step_where_asked(self) -> None:
        for (completion,) in policy().sample(PREFIXES, 1, replace(DRAWN, until="step")):
            assert completion.finish == "step"
            (step,) = completion.steps
            assert step.text and "\n" not in step.text
            assert policy().tokenizer.decode(list(step.token_ids or ())) == step.text + "\n"

    @pytest.mark.long
    def test_step_by_step_is_the_same_as_in_one_go_when_greedy(self) -> None:
        for prefix, (whole,) in zip(PREFIXES, policy().sample(PREFIXES, 1, GREEDY), strict=True):
            trace = prefix
            for _ in range(20):
                ((piece,),) = policy().sample([trace], 1, replace(GREEDY, until="step"))
                trace = piece.after(trace, policy().name)
                if piece.finish == "end":
                    break
            assert whole.finish == "end"
            assert [step.text for step in trace.steps] == texts(whole)
            assert tuple(i for step in trace.steps for i in step.token_ids or ()) == ids_of(whole)

    def test_what_goes_on_after_some_lines_of_code_keeps_its_indentation(self) -> None:
        lab, program = create("policy", "embedded-lab", device="cpu"), CodeWorld()
        prefix = program.prefix(next(iter(program.problems(1))))
        ((whole,),) = lab.sample([prefix], 1, GREEDY)
        trace = whole.after(prefix, lab.name)
        assert trace.steps[1].text.startswith("    "), "a line in the body of a function"
        for row, k in zip(lab.sample([trace.prefix(k) for k in (1, 2)], 1, GREEDY), (1, 2), strict=True):
            assert texts(row[0]) == texts(whole)[k:]
        ((line,),) = lab.sample([trace.prefix(1)], 1, replace(GREEDY, until="step"))
        assert texts(line) == texts(whole)[1:2]

    def test_sampled_ids_come_back_when_the_trace_is_encoded(self) -> None:
        for prefix, (completion,) in zip(PREFIXES, policy().sample(PREFIXES, 1, DRAWN), strict=True):
            trace = completion.after(prefix, policy().name)
            encoded = encode(policy().tokenizer, trace, policy().template)
            assert encoded.ids[encoded.prompt_length :] == ids_of(completion)
            assert len(encoded.step_ends) == len(trace.steps)
            assert trace.tokenizer == policy().vocabulary and trace.author == policy().name

    def test_ids_of_another_vocabulary_are_dropped_when_a_trace_goes_on(self) -> None:
        foreign = replace(PREFIXES[0], tokenizer="another", steps=(Step("He has 5.", token_ids=(1, 2, 3)),))
        ((completion,),) = policy().sample([foreign], 1, GREEDY)
        trace = completion.after(foreign, policy().name)
        assert trace.tokenizer is None and all(step.token_ids is None for step in trace.steps)


class TestCosts:
    def prompt_length(self, prefix: Trajectory) -> int:
        return len(encode(policy().tokenizer, prefix, policy().template).ids)

    def test_a_prompt_is_counted_once_for_all_its_samples(self) -> None:
        policy().forget()
        (samples,) = policy().sample(PREFIXES[:1], 4, DRAWN)
        read = self.prompt_length(PREFIXES[0]) - 1  # its last token is decoded with the first one drawn
        assert [c.cost.prompt_tokens for c in samples] == [read, 0, 0, 0]
        assert [c.cost.cached_tokens for c in samples] == [0, read, read, read]
        assert [c.cost.calls for c in samples] == [1] * 4

    def test_every_drawn_token_is_counted_the_end_included(self) -> None:
        (samples,) = policy().sample(PREFIXES[:1], 4, DRAWN)
        assert [c.finish for c in samples] == ["end"] * 4
        assert [c.cost.generated_tokens for c in samples] == [len(ids_of(c)) + 1 for c in samples]

    def test_a_prefix_seen_before_is_not_read_again(self) -> None:
        policy().forget()
        ((first,),) = policy().sample(PREFIXES[:1], 1, replace(DRAWN, until="step"))
        ((second,),) = policy().sample([first.after(PREFIXES[0], "embedded")], 1, DRAWN)
        assert first.cost.prompt_tokens == self.prompt_length(PREFIXES[0]) - 1
        assert second.cost.prompt_tokens == 0
        assert second.cost.cached_tokens == self.prompt_length(PREFIXES[0]) + len(ids_of(first)) - 1

    def test_flops_are_two_for_each_weight_and_token(self) -> None:
        policy().forget()
        (samples,) = policy().sample(PREFIXES[:1], 2, DRAWN)
        weights = policy().engine.model.num_parameters(exclude_embeddings=True)
        for c in samples:
            assert c.cost.flops == 2 * weights * (c.cost.prompt_tokens + c.cost.generated_tokens)


class TestNames:
    def test_a_name_tells_weights_and_prompt_format_apart(self, tmp_path: Path) -> None:
        name = policy().name
        assert name.startswith("embedded@") and TorchPolicy.load(EMBEDDED, "cpu", label="embedded").name == name
        names = {name}
        for template in (Template(prompt_end="\n\n"), Template(system="Be brief."), Template("chat")):
            names.add(TorchPolicy.load(EMBEDDED, "cpu", label="embedded", template=template).name)
        model, tokenizer = load_model(EMBEDDED, "cpu")
        with torch.no_grad():
            next(iter(model.parameters()))[0, 0] += 0.5
        names.add(TorchPolicy(model, tokenizer, label="embedded").name)
        assert len(names) == 5


def test_a_system_message_for_a_model_without_a_chat_template_is_refused_before_anything_is_written() -> None:
    with pytest.raises(
        ValueError, match=r"has no chat template, so there is no place for a system message \(--system\)"
    ):
        create("policy", "torch", path=str(EMBEDDED), device="cpu", system="Reason step by step.")


class TestEmbeddedModel:
    def test_it_loads_by_the_same_code_as_any_folder(self, tmp_path: Path) -> None:
        copy = tmp_path / "embedded"
        shutil.copytree(EMBEDDED, copy)
        elsewhere = TorchPolicy.load(copy, "cpu")
        policy().forget()
        assert elsewhere.name == policy().name
        assert elsewhere.sample(PREFIXES, 2, DRAWN) == policy().sample(PREFIXES, 2, DRAWN)

    def test_saved_again_by_transformers_it_is_still_the_same(self, tmp_path: Path) -> None:
        model, tokenizer = load_model(EMBEDDED, "cpu")
        model.save_pretrained(tmp_path / "embedded")
        tokenizer.save_pretrained(tmp_path / "embedded")
        assert TorchPolicy.load(tmp_path / "embedded", "cpu").name == policy().name

    def test_it_is_a_llama_of_one_to_three_million_parameters_in_at_most_six_megabytes(self) -> None:
        assert json.loads((EMBEDDED / "config.json").read_text())["model_type"] == "llama"
        assert 1_000_000 <= policy().engine.model.num_parameters() <= 3_000_000
        assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) <= 6_000_000

    @pytest.mark.long
    def test_it_solves_about_half_of_the_held_out_problems(self) -> None:
        prefixes = [WORLD.prefix(problem) for problem in WORLD.problems(300, seed=17, split="test")]
        solved = 0
        for prefix, (completion,) in zip(prefixes, policy().sample(prefixes, 1, DRAWN), strict=True):
            solved += bool(WORLD.graded(completion.after(prefix, policy().name)).correct)
        error = math.sqrt(0.25 / len(prefixes))
        assert 0.40 - 2 * error < solved / len(prefixes) < 0.60 + 2 * error

    @pytest.mark.long
    def test_asked_to_check_each_step_it_corrects_itself_and_solves_far_more(self) -> None:
        careful = TorchPolicy.load(EMBEDDED, "cpu", template=CHECKING)
        prefixes = [WORLD.prefix(problem) for problem in WORLD.problems(100, seed=17, split="test")]
        solved = [
            bool(WORLD.graded(completion.after(prefix, careful.name)).correct)
            for prefix, (completion,) in zip(prefixes, careful.sample(prefixes, 1, DRAWN), strict=True)
        ]
        assert sum(solved) > 75

    def test_its_steps_are_those_of_the_world(self) -> None:
        for prefix, (completion,) in zip(PREFIXES, policy().sample(PREFIXES, 1, GREEDY), strict=True):
            trace = WORLD.graded(completion.after(prefix, policy().name))
            assert trace.answer is not None
            assert len(WORLD.check(trace)) == len(trace.steps) >= 3
