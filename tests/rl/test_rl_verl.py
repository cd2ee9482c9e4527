"""The same credits in verl: rows of rewards by token carry all that a credit needs, and verl's own code gets its advantages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from footfall.loading import load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.registry import create
from footfall.rl.groups import FILTERED, Group, Rollout, credited, padded
from footfall.rl.rewards import Reward, advantages_of, rollout_of, row_of
from footfall.rl.verl_settings import Settings
from footfall.types import Judgement, Problem, Reason, Step, Trajectory, Unjudged
from footfall.worlds import ArithmeticWorld

CREDITS = ("capo", "clip-delta", "grpo", "grpo-process", "pav", "psgpo", "pspo", "pure", "reinforce++",
           "reinforce-step", "renorm", "rloo", "spark", "tp-grpo")  # fmt: skip


def drawn(seed: int, groups: int = 3, size: int = 5) -> list[Group]:
    """Groups of rollouts with rewards among which 0 and 1 occur, tokens of tools, and a failed judgement in each."""
    rng = np.random.default_rng(seed)
    found = []
    for g in range(groups):
        rollouts = []
        for i in range(size):
            lengths = rng.integers(1, 5, rng.integers(2, 6))
            lengths[0] += 2
            rewards = np.float32(rng.choice([0.0, 1.0, *rng.random(4)], len(lengths))).astype(float)
            mask = rng.random(lengths.sum()) < 0.8
            mask[[0, -1]] = True
            R, V = float(rng.integers(2)), float(np.float32(rng.random()))
            lost = Unjudged(Reason.FAILED_CALL, "the server hung up")
            rollouts.append(
                Rollout(lengths, R, mask=mask, failure=lost) if i == g else Rollout(lengths, R, rewards, V, mask)
            )
        found.append(Group(tuple(rollouts), f"prompt-{g}"))
    return found


def tensors(groups: Sequence[Group], needs: Sequence[str], seed: int = 0) -> tuple[Any, Any, list[str], list[int]]:
    """Rows, masks and uids of a batch in which the groups are mixed, and where each row's rollout stands."""
    flat = [(group.prompt, each) for group in groups for each in group.rollouts]
    order = np.random.default_rng(seed).permutation(len(flat)).tolist()
    width = max(each.tokens for _, each in flat) + 3
    rows = padded([row_of(flat[i][1], needs).astype(float) for i in order], width)
    own = padded([flat[i][1].mask.astype(float) for i in order], width)
    return np.float32(rows), own.astype(np.int64), [flat[i][0] for i in order], order


def wanted(groups: Sequence[Group], credit: Any, order: Sequence[int], width: int, keep: Any = None) -> Any:
    said = dict(credited(groups, credit, keep))
    rows = [
        a * w for g in range(len(groups)) for a, w in zip(said[g].advantages, said[g].weights, strict=True)
    ]  # fmt: skip
    return padded([rows[i] for i in order], width)


@pytest.mark.parametrize("name", CREDITS)
def test_rows_of_rewards_give_the_advantages_of_their_rollouts(name: str) -> None:
    for seed in range(5):
        groups, credit = drawn(seed), create("credit", name)
        rows, own, index, order = tensors(groups, credit.needs, seed)
        found, left = advantages_of(rows, own, index, credit)
        np.testing.assert_allclose(found, wanted(groups, credit, order, rows.shape[1]), rtol=1e-9, atol=1e-9)
        assert np.abs(found).max() > 0.05
        # The judgement of rollout g failed in group g: it leaves, unless the credit reads outcomes alone.
        lost = {order.index(g * 5 + g) for g in range(3)} if "rewards" in credit.needs else set()
        assert set(left) == lost and not found[sorted(lost)].any()


def test_a_filter_sees_the_same_groups() -> None:
    groups, credit, keep = drawn(7), create("credit", "grpo"), create("filter", "prof", remove=2)
    rows, own, index, order = tensors(groups, ("outcome", "rewards"))
    found, out = advantages_of(rows, own, index, credit, keep)
    np.testing.assert_allclose(found, wanted(groups, credit, order, rows.shape[1], keep), rtol=1e-9, atol=1e-9)
    assert (~found.any(axis=1)).sum() >= 6
    lost = {order.index(g * 5 + g) for g in range(3)}
    assert {i for i, why in out.items() if why != FILTERED} == lost, (
        "who was not judged is no one whom the filter left out"
    )
    assert len(out) > len(lost) and not found[list(out)].any()


def test_groups_that_a_filter_drops_are_left_out() -> None:
    """Of a group that is all right there is nothing to learn, and `spread` drops it."""
    rows = [Rollout(np.array([2]), R) for R in (1.0, 1.0, 1.0, 0.0)]
    found, out = advantages_of(
        np.stack([row_of(each) for each in rows]), np.ones((4, 2)), ["a", "a", "b", "b"], create("credit", "grpo"),
        create("filter", "spread"),
    )  # fmt: skip
    assert out == {0: FILTERED, 1: FILTERED} and found[2:].all() and not found[:2].any()


@pytest.mark.parametrize(
    ("credit", "keep"),
    [(create("credit", "grpo", scale="batch"), None), (create("credit", "grpo"), create("filter", "vspo")),
     (create("credit", "grpo"), create("filter", "prof", remove=2)), (create("credit", "pure"), None),
     (create("credit", "reinforce++"), None)],
    ids=["std of the batch", "vspo", "prof", "pure", "reinforce++"],
)  # fmt: skip
def test_rows_that_verl_fills_a_batch_up_with_are_in_no_statistic(credit: Any, keep: Any) -> None:
    """Two of one token that nobody wrote, under an id of their own (`verl.trainer.ppo.padding_utils`): they were a group of
    wrong answers to every rule that looks at the whole batch, and were counted among those that were left out."""
    rows, own, index, _ = tensors(drawn(7), ("outcome", "rewards"))
    plain, out = advantages_of(rows, own, index, credit, keep)
    blank = np.zeros((2, rows.shape[1]))
    found, more = advantages_of(
        np.concatenate([rows, blank]), np.concatenate([own, blank]), [*index, "pad-1", "pad-1"], credit, keep
    )
    np.testing.assert_array_equal(found[:-2], plain)
    assert not found[-2:].any() and more == out


def test_a_row_tells_steps_outcome_and_start_and_sums_to_the_step_rewards() -> None:
    rolled = Rollout(np.array([3, 1, 2]), 0.0, np.array([0.0, -0.25, 1.0]), 0.5)
    row = row_of(rolled, ("rewards", "start"))
    assert row.sum() == 0.75 and row.dtype == np.float32
    back = rollout_of(np.pad(row, (0, 4)), [1] * 6 + [0] * 4)
    assert back.lengths.tolist() == [3, 1, 2] and back.rewards is not None and back.rewards.tolist() == [0, -0.25, 1]
    assert (back.outcome, back.start, back.tokens) == (0.0, 0.5, 6)
    assert rollout_of(row_of(Rollout(np.array([3, 1]), None, np.ones(2))), np.ones(4)).outcome is None
    with pytest.raises(ValueError, match="scale it"):
        row_of(Rollout(np.array([3, 1]), 1e12, np.ones(2)))


def test_a_row_without_step_rewards_has_the_outcome_alone() -> None:
    for R, length in ((1.0, 4), (0.0, 4), (None, 4), (1.0, 1), (0.0, 1), (None, 1)):
        back = rollout_of(row_of(Rollout(np.array([length]), R)), np.ones(length))
        assert (back.outcome, back.tokens, back.rewards) == (R, length, None)
    cut_off = Rollout(np.array([1, 1]), 1.0, np.array([0.5, 0.5]))  # no token is left for R
    assert rollout_of(row_of(cut_off), np.ones(2)).rewards is None
    # What verl's own reward functions give: the score on the last token.
    found, left = advantages_of(
        [[0, 0, 1.0], [0, 0.0, 0]], [[1, 1, 1], [1, 1, 0]], ["a", "a"], create("credit", "rloo")
    )
    assert found.tolist() == [[1, 1, 1], [-1, -1, 0]] and not left


@pytest.mark.parametrize("R", [1.0, 0.0, -0.25, None])
def test_a_response_of_one_token_leaves_its_group_and_says_why(R: float | None) -> None:
    """Such as the end token alone. It was taken for a row of a reward function that knows no steps, and in a batch of such
    alone the run ended."""
    silent = Rollout(np.array([1]), R, failure=Unjudged(Reason.UNCHECKABLE, "the completion has no step"))
    judged = Rollout(np.array([1]), R, np.array([0.5]))
    for name in ("grpo-process", "pure", "capo", "pav"):
        credit = create("credit", name)
        rows = [row_of(each, credit.needs) for each in (silent, judged)]
        assert [rollout_of(row, [1]).outcome for row in rows] == [R, R]
        found, left = advantages_of(np.stack(rows), np.ones((2, 1)), ["a", "a"], credit)
        assert not found.any() and {why.reason for why in left.values()} == {Reason.FAILED_CALL} and len(left) == 2
    alone = row_of(judged, create("credit", "grpo").needs)
    assert alone.sum() == pytest.approx(R or 0.0) and rollout_of(alone, [1]).outcome == R


def test_what_rows_cannot_carry_is_said() -> None:
    with pytest.raises(ValueError, match="online and reference"):
        advantages_of([[1.0]], [[1]], ["a"], create("credit", "prime"))
    with pytest.raises(ValueError, match="row_of"):
        advantages_of([[0, 1.0]], [[1, 1]], ["a"], create("credit", "pure"))


@pytest.mark.parametrize("name", ["grpo-process", "pure", "clip-delta"])
def test_advantages_are_those_of_the_trainer(name: str, tmp_path: Path) -> None:
    """The batch that TRL's loss would get, made again from rewards by token; every third judgement failed."""
    pytest.importorskip("trl", reason="could not import 'trl'")
    from tests.rl.test_rl_trainer import Third, batch_of, graded, trainer

    class Sums(Third):
        def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
            said = [tuple(sum(map(ord, step.text)) % 97 / 97 for step in trace.steps) for trace in traces]
            return [each if each.failures else replace(each, values=values)
                    for each, values in zip(super().judge(traces), said, strict=True)]  # fmt: skip

    made = graded(trainer(tmp_path, Reward(create("credit", name), Sums())))
    batch = batch_of(made)
    width = batch["advantages"].shape[1]
    rows = padded([row_of(each.rollout).astype(float) for each in made.batch], width)
    uids = [each.trajectory.problem.id for each in made.batch]
    found, left = advantages_of(rows, batch["completion_mask"].numpy(), uids, made.paid.credit)
    assert set(left) == {0, 3, 6} == {i for i, each in enumerate(made.batch) if each.left is not None}
    np.testing.assert_allclose(found, batch["advantages"].numpy(), rtol=1e-4, atol=1e-6)
    assert np.abs(found).max() > 1e-3


@pytest.mark.parametrize(
    ("credit", "said", "refused"),
    [
        ("grpo", {"credit": {"scale": "none", "eps": 0.1}}, "credit 'grpo' has no use for algorithm.footfall.credit.eps"),
        ("pure", {"credit": {"form": "sum", "temperature": 0.1}}, "for algorithm.footfall.credit.temperature .* form=min"),
        ("grpo", {"filter": {"name": "prof", "seed": 3}}, "for algorithm.footfall.filter.seed .* wrong_at_random=true"),
        ("grpo", {"aggregate": "mean"}, "credit 'grpo' has no use for algorithm.footfall.aggregate"),
        ("grpo", {"after_error": None}, "for algorithm.footfall.after_error .* what a judge says of steps"),
        ("pspo", {"judge": {"name": "truth-arithmetic"}, "outcome": "min"}, "use for algorithm.footfall.outcome"),
    ],
)  # fmt: skip
def test_settings_in_the_config_of_verl_that_do_nothing_are_refused(
    credit: str, said: dict[str, Any], refused: str
) -> None:
    """They were taken without a word, where `footfall rl` refuses them."""
    with pytest.raises(ValueError, match=refused):
        Settings(**said).reward(credit)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"agregate": "min"}, "algorithm.footfall has no 'agregate'; did you mean 'aggregate'"),
        ({"colour": 1}, "has no 'colour'; there are: credit, filter, judge, outcome"),
        (
            {"filter": {"remove": 2}},
            "algorithm.footfall.filter is {'remove': 2}, without a name: set algorithm.footfall.filter.name",
        ),
        (
            {"judge": "truth-arithmetic"},
            "judge is 'truth-arithmetic', without a name: set algorithm.footfall.judge.name",
        ),
    ],
)
def test_a_key_of_the_config_that_nothing_reads_is_named(said: dict[str, Any], message: str) -> None:
    assert Settings.of({"outcome": "min", "judge": None}) == Settings(outcome="min"), "`judge:` in YAML says none"
    with pytest.raises(ValueError, match=message):
        Settings.of(said)


def test_settings_in_the_config_of_verl_that_do_something_are_taken() -> None:
    judge = {"name": "truth-arithmetic", "consequent": 0.5}
    said = Settings({"temperature": 0.2}, {"name": "prof", "remove": 2}, judge, "min", "mean", None)
    paid = said.reward("pure")
    assert paid.judge is not None and paid.judge.name == "truth-arithmetic(consequent=0.5)"
    assert (paid.outcome, paid.aggregate, paid.after_error) == ("min", "mean", None) and paid.keep is not None


# verl's own code.


@pytest.fixture(scope="module")
def hook() -> Any:
    for needed in ("verl.trainer.ppo.ray_trainer", "verl.experimental.agent_loop.agent_loop"):
        pytest.importorskip(needed, reason="no verl", exc_type=ImportError)
    import footfall.rl.verl as hook

    return hook


def in_verl(name: str, rows: Any, own: Any, index: Sequence[str], **algorithm: Any) -> Any:
    """verl's own step from rewards by token to advantages."""
    import torch
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.trainer.ppo.ray_trainer import compute_advantage

    given = {"token_level_rewards": torch.as_tensor(rows), "response_mask": torch.as_tensor(own)}
    data: Any = DataProto.from_dict(tensors=given, non_tensors={"uid": np.array(index, dtype=object)})
    config = OmegaConf.create({"use_kl_in_reward": False, **algorithm})
    return compute_advantage(data, adv_estimator=f"footfall-{name}", config=config).batch


def test_the_registry_of_verl_has_the_credits(hook: Any) -> None:
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    assert get_adv_estimator_fn("footfall-pure") is hook.ESTIMATORS["pure"]
    assert set(hook.ESTIMATORS) >= set(CREDITS) and "prime" not in hook.ESTIMATORS


@pytest.mark.parametrize("name", CREDITS)
def test_verl_computes_these_advantages(name: str, hook: Any) -> None:
    groups, credit = drawn(11), create("credit", name)
    rows, own, index, order = tensors(groups, credit.needs)
    batch = in_verl(name, rows, own, index)
    np.testing.assert_allclose(
        batch["advantages"].numpy(), wanted(groups, credit, order, rows.shape[1]), rtol=1e-5, atol=1e-6
    )
    assert batch["advantages"].shape == batch["returns"].shape == rows.shape


def test_settings_of_credit_and_filter_stand_in_the_config_of_verl(hook: Any, caplog: pytest.LogCaptureFixture) -> None:
    groups, credit, keep = drawn(3), create("credit", "grpo", scale="none"), create("filter", "prof", remove=2)
    rows, own, index, order = tensors(groups, ("outcome", "rewards"))
    said = {"credit": {"scale": "none"}, "filter": {"name": "prof", "remove": 2}}
    with caplog.at_level("INFO"):
        batch = in_verl("grpo", rows, own, index, footfall=said)
    assert "3 of 15 rollouts left their groups" in caplog.text and "the filter left out" in caplog.text
    np.testing.assert_allclose(
        batch["advantages"].numpy(), wanted(groups, credit, order, rows.shape[1], keep), atol=1e-6
    )
    with pytest.raises(ValueError, match="use_kl_loss"):
        in_verl("grpo", rows, own, index, use_kl_in_reward=True)


class Writes:
    """In the place of verl's agent loop that asks a server: texts in turn, with the end token."""

    texts: tuple[str, ...] = ()
    turn = 0

    def __init__(self, tokenizer: Any, **_: Any) -> None:
        self.tokenizer = tokenizer

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

        text, Writes.turn = self.texts[Writes.turn], Writes.turn + 1
        ids = [*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id]
        return AgentLoopOutput(
            prompt_ids=[1], response_ids=ids, response_mask=[1] * len(ids), metrics=AgentLoopMetrics()
        )


def test_completions_are_judged_where_verl_writes_them(hook: Any) -> None:
    """From texts through verl's agent loop and its tensors to advantages: those of the rollouts that Footfall makes itself."""
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap, _agent_loop_registry

    assert _agent_loop_registry["footfall"]["_target_"] == "footfall.rl.verl.StepAgentLoop"
    _agent_loop_registry["writes"] = {"_target_": f"{__name__}.Writes"}
    tokenizer, world = load_tokenizer(str(EMBEDDED)), ArithmeticWorld()
    (problem,) = world.problems(1)
    truth = create("labeller", "truth-arithmetic")
    Writes.texts, Writes.turn = (
        ("1 + 1 = 2\n2 + 2 = 5\nAnswer: 5", f"Answer: {problem.answer}", "1 + 2 = 3\nso it is"),
        0,
    )
    block = {"judge": {"name": "truth-arithmetic"}, "separator": "\n", "agent_loop": "writes"}
    config = OmegaConf.create({"algorithm": {"adv_estimator": "footfall-capo", "footfall": block}})
    row = {
        "raw_prompt": [{"role": "user", "content": problem.text}], "reward_model": {"ground_truth": problem.answer},
        "extra_info": {"problem": {"domain": problem.domain, "meta": problem.meta}},
    }  # fmt: skip

    async def write() -> list[Any]:
        loops = [hook.StepAgentLoop(DictConfigWrap(config), tokenizer, server_manager=None) for _ in Writes.texts]
        return await asyncio.gather(*(each.run({}, uid="u", session_id=i, **row) for i, each in enumerate(loops)))

    outputs = asyncio.run(write())
    stored = [output.as_dict() for output in outputs]
    assert [output.extra_fields["reward_extra_info"]["acc"] for output in outputs] == [0.0, 1.0, 0.0]
    width = max(len(each["rm_scores"]) for each in stored)
    rows = padded([each["rm_scores"].double().numpy() for each in stored], width)
    own = padded([each["response_mask"].double().numpy() for each in stored], width)
    batch = in_verl("capo", np.float32(rows), own.astype(np.int64), ["u"] * 3)

    from footfall.answers import grade
    from footfall.policy.splitting import trajectory_from_ids

    paid = Reward(create("credit", "capo"), truth)
    traces = [
        grade(trajectory_from_ids(problem, o.response_ids, tokenizer, "\n", id=str(i)).trajectory)
        for i, o in enumerate(outputs)
    ]
    rollouts = [
        paid.of_ids(t, said, o.response_ids) for t, said, o in zip(traces, paid.judged(traces), outputs, strict=True)
    ]
    expected = wanted([Group(tuple(rollouts))], paid.credit, [0, 1, 2], width)
    np.testing.assert_allclose(batch["advantages"].numpy(), expected, rtol=1e-5, atol=1e-6)
    assert np.abs(expected).max() > 0.1

    config.algorithm.adv_estimator = "grpo"
    with pytest.raises(ValueError, match="footfall-pure"):
        hook.StepAgentLoop(DictConfigWrap(config), tokenizer)


def test_an_error_of_the_judge_costs_who_asked_and_no_one_else(hook: Any) -> None:
    batches: list[list[str]] = []

    class Chokes:
        name = "chokes"

        def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
            batches.append([trace.id for trace in traces])
            if "bad" in batches[-1]:
                raise ValueError("it cannot be read")
            return [Judgement(trace.id, (0.5,), self.name) for trace in traces]

    desk = hook._Desk(Reward(create("credit", "pure"), Chokes()))
    traces = [Trajectory(name, Problem("p", "?"), (Step("so"),)) for name in ("bad", "a", "b")]

    async def ask() -> list[Any]:
        return await asyncio.gather(*map(desk.judged, traces), return_exceptions=True)

    bad, *good = asyncio.run(ask())
    assert isinstance(bad, ValueError) and [each.values for each in good] == [(0.5,)] * 2
    assert not desk.waiting and not desk.said and sorted(batches[-1])[-1] == "b"


def test_the_trainer_of_verl_stores_these_rewards_and_credits_them(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As verl's default trainer does it: stored by its worker, gathered ragged, padded; no reward worker is asked."""
    tq = pytest.importorskip("verl.trainer.ppo.v1.agent_loop_tq", reason="no verl", exc_type=ImportError)
    import torch
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

    stored: list[Any] = []

    async def put(fields: Any, **_: Any) -> None:
        stored.append(fields)

    monkeypatch.setattr(tq.tq, "async_kv_batch_put", put)
    worker = object.__new__(tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class)  # the class that is the actor
    worker.reward_loop_worker_handles, worker.distillation_enabled = ["must not be asked"], False
    worker._compute_multi_modal_inputs = lambda *_: {}
    worker._compute_position_ids = lambda ids, *_: torch.arange(ids.shape[1])[None]
    (group,) = drawn(5, groups=1)

    async def store() -> None:
        for i, each in enumerate(group.rollouts):
            mask = each.mask.astype(int).tolist()
            output = AgentLoopOutput(
                prompt_ids=[1], response_ids=[7] * each.tokens, response_mask=mask, metrics=AgentLoopMetrics(),
                reward_score=0.0, extra_fields={"reward_extra_info": {}},
            )  # fmt: skip
            paid = hook.Paid(output, row_of(each).tolist())
            await worker._agent_loop_postprocess(paid, False, uid="u", session_id=i, global_steps=1)

    asyncio.run(store())
    rows, own = (
        torch.nested.as_nested_tensor([each[name][0] for each in stored], layout=torch.jagged).to_padded_tensor(0)
        for name in ("rm_scores", "response_mask")
    )
    found = in_verl("pure", rows, own, ["u"] * len(stored))["advantages"]
    expected = wanted([group], create("credit", "pure"), range(len(stored)), rows.shape[1])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)
