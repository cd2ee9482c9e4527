"""A head on the frozen policy, read while the policy writes: the values of a second pass, without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from footfall.loading import load_tokenizer, quiet
from footfall.policy import engine
from footfall.policy.embedded import EMBEDDED
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.policy.tapping import last_looks
from footfall.policy.torch_policy import TorchPolicy
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.reward.while_written import Seen, SeenRunner, uhead, while_written
from footfall.search import BeamSearch, Searcher
from footfall.types import Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

torch.set_num_threads(1)
WORLD = ArithmeticWorld()


def judge(head: str = "uncertainty", **settings: int) -> PRMJudge:
    chosen = {"size": 16, "heads": 2, "window": 3} if head == "uncertainty" else {}
    model = PRM.from_backbone(str(EMBEDDED), head={"name": head, **chosen, **settings}, seed=3)
    return PRMJudge(model.eval())


def written(policy: TorchPolicy, n: int = 3) -> list[Trajectory]:
    prefixes = [WORLD.prefix(problem) for problem in WORLD.problems(4)]
    return [trace for row in draw_traces(policy, prefixes, n, SamplingParams(max_tokens=120, seed=1)) for trace in row]


def runner(judge: PRMJudge) -> SeenRunner:
    assert isinstance(judge.runner, SeenRunner)
    return judge.runner


def test_looks_are_those_at_the_token_and_before_it_and_nothing_before_the_start() -> None:
    weights = torch.tensor([[[0.1, 0.2, 0.7, 0.0]], [[1.0, 0.0, 0.0, 0.0]]])
    found = last_looks(weights, torch.tensor([2, 0]), 3)
    assert torch.equal(found, torch.tensor([[[0.7, 0.2, 0.1]], [[1.0, 0.0, 0.0]]]))


def test_values_while_writing_are_those_of_a_second_pass() -> None:
    again, policy = judge(), TorchPolicy.load(EMBEDDED, "cpu")
    plain = written(TorchPolicy.load(EMBEDDED, "cpu"))
    watching = while_written(again, policy)
    traces = written(policy)
    assert [t.text for t in traces] == [t.text for t in plain], "what is written does not change"
    found, expected = watching.judge(traces), again.judge(traces)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.values == pytest.approx(theirs.values, abs=1e-5) and ours.judge == theirs.judge
    assert len({value for said in found for value in said.values}) > 20, "values differ, so equal ones say something"
    assert runner(watching).read_again == 0
    assert sum(said.cost.scored_tokens for said in found) == 0 < sum(said.cost.scored_tokens for said in expected)


def test_a_search_judges_every_step_without_a_second_pass() -> None:
    policy = TorchPolicy.load(EMBEDDED, "cpu")
    again = judge()
    watching = while_written(again, policy)
    params = SamplingParams(max_tokens=120, seed=2)
    method = BeamSearch(n=4, expansions=2)
    problems = WORLD.problems(3, split="test")
    ours = Searcher(policy, watching, method, params=params, separator="\n").solve(problems)
    assert runner(watching).read_again == 0 and sum(result.cost.scored_tokens for result in ours) == 0
    plain = Searcher(TorchPolicy.load(EMBEDDED, "cpu"), again, method, params=params, separator="\n").solve(problems)
    assert [result.answer for result in ours] == [result.answer for result in plain]
    assert sum(result.cost.scored_tokens for result in plain) > 0


def test_a_trace_that_somebody_else_wrote_is_read_by_a_second_pass() -> None:
    policy, again = TorchPolicy.load(EMBEDDED, "cpu"), judge()
    watching = while_written(again, policy)
    others = written(TorchPolicy.load(EMBEDDED, "cpu"), 1)
    mine = written(policy, 1)
    policy.forget()
    assert [j.values for j in watching.judge(others)] == [j.values for j in again.judge(others)]
    assert runner(watching).read_again == len(others)
    watching.judge(mine)
    assert runner(watching).read_again == 2 * len(others), "the engine has forgotten"


def test_without_probabilities_too() -> None:
    policy, again = TorchPolicy.load(EMBEDDED, "cpu"), judge(top=0)
    watching = while_written(again, policy)
    traces = written(policy, 1)
    assert [j.values for j in watching.judge(traces)] == [
        pytest.approx(j.values, abs=1e-5) for j in again.judge(traces)
    ]


def rows(*values: float) -> torch.Tensor:
    """Of four bytes each."""
    return torch.tensor(values)[:, None]


def told(seen: Seen, *ids: int) -> list[float] | None:
    found = seen.of(ids, 0)
    return None if found is None else [round(value, 1) for value in found[:, 0].tolist()]


def test_what_nobody_used_for_longest_is_dropped_when_there_is_too_much() -> None:
    seen = Seen(1, 0, most_bytes=5 * 4)
    seen.keep((1, 2, 3), 0, rows(0.1, 0.2, 0.3))
    seen.keep((1, 2, 4), 1, rows(0.9, 0.4))  # the token 2 was seen before, and that stays
    seen.keep((1, 2, 5), 2, rows(0.5))
    assert told(seen, 1, 2, 4) == [0.1, 0.2, 0.4]
    seen.keep((1, 2, 4, 6), 3, rows(0.6))
    assert told(seen, 1, 2, 5) is None, "given up: the others were read or gone on from since"
    assert told(seen, 1, 2, 4, 6) == [0.1, 0.2, 0.4, 0.6]
    seen.keep((7, 8), 0, rows(0.7, 0.8))
    assert told(seen, 7, 8) == [0.7, 0.8] and told(seen, 1, 2, 4) is None, "ends go before their beginning"
    assert told(seen, 1, 2, 3) == [0.1, 0.2, 0.3]


def test_a_sequence_that_is_too_much_alone_is_kept_until_the_next() -> None:
    seen = Seen(1, 0, most_bytes=4)
    seen.keep((1, 2), 0, rows(0.1, 0.2))
    assert told(seen, 1, 2) == [0.1, 0.2]
    seen.keep((3,), 0, rows(0.3))
    assert told(seen, 1, 2) is None and told(seen, 3) == [0.3]


def test_a_long_search_drops_what_it_gave_up_and_reads_nothing_again() -> None:
    policy, again = TorchPolicy.load(EMBEDDED, "cpu"), judge()
    watching = while_written(again, policy)
    seen = runner(watching).seen

    def solve(n: int) -> None:
        searcher = Searcher(
            policy, watching, BeamSearch(n=4, expansions=2), params=SamplingParams(max_tokens=120, seed=2),
            separator="\n",
        )  # fmt: skip
        for problem in WORLD.problems(n, split="test"):
            searcher.solve([problem])

    solve(1)
    seen.most_bytes = 2 * seen.bytes
    solve(4)
    assert runner(watching).read_again == 0 and seen.bytes <= seen.most_bytes


def test_what_a_broken_off_call_saw_is_not_taken_for_the_next_one_s(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, again = TorchPolicy.load(EMBEDDED, "cpu"), judge()
    watching = while_written(again, policy)
    steps = iter(range(12))

    def broken_off(*_: object) -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(engine, "told", broken_off)
        written(policy)
    traces = written(policy)
    assert [j.values for j in watching.judge(traces)] == [
        pytest.approx(j.values, abs=1e-5) for j in again.judge(traces)
    ]


def test_a_policy_that_is_trained_on_is_read_by_a_second_pass_and_as_before_when_it_is_what_it_was() -> None:
    policy, again = TorchPolicy.load(EMBEDDED, "cpu"), judge()
    watching, weights = while_written(again, policy), list(policy.engine.model.parameters())
    before = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight in weights:
            weight.mul_(1.02)
    moved = written(policy, 1)
    assert [j.values for j in watching.judge(moved)] == [j.values for j in again.judge(moved)]
    assert runner(watching).read_again == len(moved)
    with torch.no_grad():
        for weight, own in zip(weights, before, strict=True):
            weight.copy_(own)
    assert [j.values for j in watching.judge(moved)] == [j.values for j in again.judge(moved)], (
        "seen by another decoder"
    )
    mine, known = written(policy, 1), runner(watching).read_again
    assert [j.values for j in watching.judge(mine)] == [pytest.approx(j.values, abs=1e-5) for j in again.judge(mine)]
    assert runner(watching).read_again == known


def test_a_model_that_caps_its_logits_is_read_as_a_second_pass_reads_it(tmp_path: Path) -> None:
    tokenizer: Any = load_tokenizer(str(EMBEDDED))
    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=512, sliding_window=8, final_logit_softcapping=0.5,
        attn_logit_softcapping=5.0, query_pre_attn_scalar=8, initializer_range=0.4, pad_token_id=0,
        eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    made: Any = Gemma2ForCausalLM
    with quiet():
        made(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    head = {"name": "uncertainty", "size": 16, "heads": 2, "window": 3}
    again, policy = PRMJudge(PRM.from_backbone(str(tmp_path), head=head, seed=3)), TorchPolicy.load(tmp_path, "cpu")
    watching = while_written(again, policy)
    traces = written(policy, 2)
    assert [j.values for j in watching.judge(traces)] == [
        pytest.approx(j.values, abs=1e-5) for j in again.judge(traces)
    ]
    assert runner(watching).read_again == 0


def test_wrong_use_is_told_in_one_line() -> None:
    policy = TorchPolicy.load(EMBEDDED, "cpu")
    with pytest.raises(ValueError, match="the head linear is not read while a policy writes: uncertainty is"):
        while_written(judge("linear"), policy)
    with pytest.raises(ValueError, match="is no PRM with a head: `footfall train --head uncertainty` makes one"):
        uhead(TruthJudge(), policy)
    with pytest.raises(ValueError, match="does not say: name the head's folder itself as the judge"):
        uhead(judge(), ArithmeticPolicy())
    assert isinstance(uhead(judge(), policy).runner, SeenRunner)
    with torch.no_grad():
        next(policy.engine.model.parameters()).add_(0.1)
    with pytest.raises(ValueError, match="trained on another decoder than the policy's"):
        while_written(judge(), policy)
