"""EDU-PRM's trees over a server: ids in, ids and the likeliest tokens out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from footfall.hashing import vocabulary_fingerprint
from footfall.label.edu_prm import EntropyTrees, Grown, TokenWriter
from footfall.policy.http import HttpPolicy
from footfall.policy.http_client import Server, ServerRefusedError
from footfall.policy.http_tokens import HttpTokens, least_entropy, read_told
from footfall.policy.protocol import SamplingParams
from footfall.types import Problem, Step, Trajectory
from tests.policy.loopback_process import LoopbackProcess
from tests.policy.served_tokens import DOUBTS, embedded_tokenizer, vocabulary

PROBLEMS = [Problem(name, f"{name}: what is 3 - 4?", "-1") for name in ("a", "b")]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackProcess]:
    server = LoopbackProcess(tmp_path_factory.mktemp("server") / "log.jsonl")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return embedded_tokenizer()


@pytest.fixture
def settings(tokenizer: Any) -> dict[str, Any]:
    return {"solve": True, "vocabulary": vocabulary(tokenizer), "doubts": DOUBTS}


def writer(process: LoopbackProcess, tokenizer: Any, retries: int = 0) -> HttpTokens:
    return HttpTokens(HttpPolicy(Server(process.url, retries=retries, first_wait=0.01), tokenizer=tokenizer), "\n\n")


def grown(by: HttpTokens, **options: Any) -> list[Grown]:
    return EntropyTrees(by, leaves=3, **options).grow(PROBLEMS)


def test_the_entropy_of_the_likeliest_tokens_takes_the_others_for_one() -> None:
    assert least_entropy([math.log(0.5), math.log(0.25)]) == pytest.approx(1.5 * math.log(2))
    assert least_entropy([0.0]) == 0 == least_entropy([0.0, -1000.0])
    assert least_entropy([math.log(0.5)]) < least_entropy([math.log(0.5), math.log(0.25)]) < math.log(4)


def test_a_text_and_what_was_thought_of_it_are_one_request_in_ids(
    process: LoopbackProcess, tokenizer: Any, settings: dict[str, Any]
) -> None:
    process.behave(**settings)
    by = writer(process, tokenizer)
    assert isinstance(by, TokenWriter)
    begun = tuple(tokenizer.encode("Take so", add_special_tokens=False))
    prefix = Trajectory("a", PROBLEMS[0], (Step("Take so", token_ids=begun),), separator="", tokenizer=by.vocabulary)
    ((written,),) = by.sample([prefix], 1, SamplingParams(0.0, max_tokens=200))
    (entry,) = process.entries("took")
    prompt = [1, *tokenizer.encode(PROBLEMS[0].text + "\n", add_special_tokens=False)]
    assert entry["request"]["prompt"] == [*prompt, *begun], "the fragment in the middle of a line, and nothing after it"
    assert entry["request"]["temperature"] == 0 and entry["request"]["logprobs"] == 20
    (step,) = written.steps
    assert step.text.endswith("}") and tokenizer.decode(step.token_ids) == step.text and written.finish == "end"
    assert step.token_ids is not None and step.logprobs is not None and len(step.logprobs) == len(step.token_ids)
    (thought,) = by.thoughts([prefix.extend([step])])
    texts = [by.text([i]) for i in begun + step.token_ids]
    unsure = [k for k, entropy in enumerate(thought.entropy) if entropy > 1]
    assert [texts[k] for k in unsure] == ["So", " is"] and len(thought.entropy) == len(texts)
    assert [by.text([thought.second[k]]) for k in unsure] == ["Now", " equal"]
    assert thought.second_logprob[unsure[0]] == pytest.approx(math.log(0.25), abs=1e-3)


@pytest.mark.parametrize("told", [{}, {"texts": True}])
def test_trees_branch_at_the_server_s_doubts(
    process: LoopbackProcess, tokenizer: Any, settings: dict[str, Any], told: dict[str, Any]
) -> None:
    process.behave(**settings, **told)
    by = writer(process, tokenizer)
    for each in grown(by):
        assert each.tree.tokenizer == vocabulary_fingerprint(tokenizer) == by.vocabulary
        assert len(each.solutions) == 3 == len(each.tree.leaves())
        firsts = {each.tree.nodes[k].step.text[:4] for k in range(len(each.tree.nodes))}
        assert {"Take", "So 3", "Now "} <= firsts
        assert each.solutions[0].separator == "\n\n" and len(each.solutions[0].steps) == 3
        assert by.spent(each.tree.problem).calls == 3 and by.failure(each.tree.problem) is None
    asked = process.entries("took")
    assert len(asked) == 6 and sum(by.spent(p).prompt_tokens for p in PROBLEMS) > 0


def test_a_second_token_that_is_none_of_the_tokenizer_s_is_no_place_to_branch(
    process: LoopbackProcess, tokenizer: Any, settings: dict[str, Any]
) -> None:
    process.behave(**{**settings, "doubts": {"So": "no such token", " is": "</s>"}}, texts=True)
    assert [len(each.solutions) for each in grown(writer(process, tokenizer))] == [1, 1]


def test_a_server_without_ids_of_its_own_is_read_by_the_texts_of_tokens(
    process: LoopbackProcess, tokenizer: Any, settings: dict[str, Any]
) -> None:
    process.behave(**settings, no_ids=True)
    in_ids = grown(writer(process, tokenizer))
    process.behave(**settings, no_ids=True, texts=True)
    in_texts = grown(writer(process, tokenizer))
    assert [each.tree for each in in_ids] == [each.tree for each in in_texts]


def test_what_failed_is_told_of_its_problem_alone_and_not_asked_again(
    process: LoopbackProcess, tokenizer: Any, settings: dict[str, Any]
) -> None:
    process.behave(**settings, faults=[{"kind": "500", "match": "a: what is 3 - 4?\nTake"}])
    by = writer(process, tokenizer)
    trees = grown(by)
    assert "HTTP 500" in str(by.failure(PROBLEMS[0])) and by.failure(PROBLEMS[1]) is None
    assert len(trees[1].solutions) == 3 and by.spent(PROBLEMS[0]).calls == 2, "the first went well"
    process.behave(**settings, faults=[{"kind": "500"}])
    nothing = writer(process, tokenizer)
    grown(nothing)
    assert all(nothing.failure(problem) for problem in PROBLEMS) and len(process.entries("took")) == 2


def test_a_request_that_is_tried_again_is_one_call(
    process: LoopbackProcess, tokenizer: Any, settings: dict[str, Any]
) -> None:
    process.behave(**settings, faults=[{"kind": "503", "match": "a: what is 3 - 4?", "times": 2}])
    by = writer(process, tokenizer, retries=2)
    grown(by)
    assert [by.spent(problem).calls for problem in PROBLEMS] == [3, 3]


def test_a_server_without_logprobs_is_refused_with_the_reason(
    process: LoopbackProcess, tokenizer: Any, settings: dict[str, Any]
) -> None:
    process.behave(**settings, no_logprobs=True)
    with pytest.raises(ServerRefusedError, match="gives no log-probabilities of the likeliest tokens"):
        grown(writer(process, tokenizer))


def test_rows_of_likeliest_tokens_with_ids_are_read_too() -> None:
    rows = [{"id": 7, "token": "So", "logprob": -0.7, "top_logprobs": [{"id": 7, "token": "So", "logprob": -0.7},
                                                                       {"id": 9, "token": "So", "logprob": -1.4}]}]  # fmt: skip
    choice = {"text": "So", "finish_reason": "length", "logprobs": {"content": rows}}
    told = read_told({"choices": [choice]}, "http://localhost", lambda text: None)
    assert told.ids == (7,) and told.likeliest == (((7, -0.7), (9, -1.4)),) and not told.stopped
    rows[0]["top_logprobs"] = None
    with pytest.raises(ServerRefusedError, match="gives no log-probabilities"):
        read_told({"choices": [choice]}, "http://localhost", lambda text: None)


def test_another_model_s_tokenizer_is_noticed(
    process: LoopbackProcess, tokenizer: Any, settings: dict[str, Any]
) -> None:
    texts = settings["vocabulary"]
    process.behave(**{**settings, "vocabulary": [*texts[:3], *texts[4:60], texts[3], *texts[60:]]})
    by = writer(process, tokenizer)
    grown(by)
    assert "do not spell its text" in str(by.failure(PROBLEMS[0]))
