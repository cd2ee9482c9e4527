"""Footfall's credits for users of verl: rewards by token from any judge, and one advantage estimator a credit.

    VERL_USE_EXTERNAL_MODULES=footfall.rl.verl   verl imports this module in all its processes, which registers both
    algorithm.adv_estimator=footfall-pure        advantages (batch, time) by the credit `pure`
    ….rollout.agent.default_agent_loop=footfall  completions are judged where they are written

verl hands an estimator nothing but rewards by token, the mask and the prompts' uids, so all that a credit needs stands in
the rewards (`footfall.rl.rewards:row_of`), and credits that need log-probabilities or ids are not offered. What else is to
be said is in `algorithm.footfall`: `footfall.rl.verl_settings`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any
from uuid import uuid4

import hydra
import numpy as np
import torch
from omegaconf import OmegaConf
from torch import Tensor
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
from verl.experimental.agent_loop.agent_loop import register as register_agent_loop
from verl.trainer.ppo.core_algos import register_adv_est

from footfall.answers import grade
from footfall.policy.splitting import trajectory_from_ids
from footfall.registry import declared, parts
from footfall.rl.groups import FILTERED
from footfall.rl.rewards import CARRIED, Reward, advantages_of, row_of
from footfall.rl.verl_settings import Settings
from footfall.types import Judgement, Problem, Trajectory

PREFIX = "footfall-"
_log = logging.getLogger(__name__)


def settings_of(algorithm: Any) -> Settings:
    """Those in verl's `algorithm` config."""
    found = None if algorithm is None else algorithm.get("footfall", None)
    return Settings.of(OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found or {})


# Advantages.


def estimator(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """verl's advantage function of a credit: (batch, time) advantages, and the same as returns, which critics alone read."""

    def advantages(
        token_level_rewards: Tensor, response_mask: Tensor, index: np.ndarray[Any, Any], config: Any = None, **_: Any
    ) -> tuple[Tensor, Tensor]:
        if config is not None and config.get("use_kl_in_reward", False):
            raise ValueError("a KL in the rewards hides those of steps: algorithm.use_kl_in_reward=False, "
                             "actor_rollout_ref.actor.use_kl_loss=True")  # fmt: skip
        rows, own = token_level_rewards.detach().cpu().numpy(), response_mask.detach().cpu().numpy()
        settings = settings_of(config)
        made, out = advantages_of(rows, own, list(index), settings.credit_of(name), settings.keep)
        reasons = Counter(why.reason.value for why in out.values() if why != FILTERED)
        if left := reasons.total():
            _log.warning("%d of %d rollouts left their groups: %s", left, len(rows), dict(reasons))
        if filtered := len(out) - left:
            _log.info("the filter left out %d of %d rollouts", filtered, len(rows))
        found = torch.from_numpy(made).to(token_level_rewards.device, torch.float32)
        return found, found.clone()

    return advantages


ESTIMATORS = {
    name: register_adv_est(PREFIX + name)(estimator(name))
    for name in parts("credit")
    if CARRIED.issuperset(declared("credit", name).needs)
}


# Rewards.


class _Desk:
    """Judges in one thread all traces that wait, so that a batch of completions is a batch for the judge too."""

    def __init__(self, reward: Reward) -> None:
        self.reward, self.thread = reward, ThreadPoolExecutor(1)
        self.waiting: dict[str, Trajectory] = {}
        self.said: dict[str, Judgement] = {}

    async def judged(self, trace: Trajectory) -> Judgement:
        """What the judge says of it, soon."""
        self.waiting[trace.id] = trace
        return await asyncio.get_running_loop().run_in_executor(self.thread, self._judge, trace)

    def _judge(self, trace: Trajectory) -> Judgement:
        if trace.id not in self.said:
            # An error is the asker's alone: the others of its batch are judged again when their turn comes.
            batch = [trace, *(self.waiting.pop(name) for name in list(self.waiting) if name != trace.id)]
            self.waiting.pop(trace.id, None)
            self.said |= {each.id: said for each, said in zip(batch, self.reward.judged(batch), strict=True)}
        return self.said.pop(trace.id)


@cache
def _desk(name: str, settings: str) -> _Desk:
    """verl makes an agent loop for every completion; they share a judge."""
    return _Desk(Settings(**json.loads(settings)).reward(name))


class Paid:
    """The output of an agent loop, with a reward at every token."""

    def __init__(self, output: Any, rewards: list[float]) -> None:
        self._output, self._rewards = output, rewards

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)

    def as_dict(self) -> dict[str, Any]:
        """As verl stores it."""
        return {**self._output.as_dict(), "rm_scores": torch.tensor(self._rewards, dtype=torch.float32)}


@register_agent_loop("footfall")
class StepAgentLoop:
    """Another agent loop of verl whose completions are cut into steps and judged. verl's reward functions are not asked."""

    def __init__(self, trainer_config: Any, tokenizer: Any, **given: Any) -> None:
        algorithm = trainer_config.config.algorithm
        self.settings, self.tokenizer = settings_of(algorithm), tokenizer
        names = {PREFIX + name: name for name in ESTIMATORS}
        if algorithm.adv_estimator not in names:
            raise ValueError(f"algorithm.adv_estimator={algorithm.adv_estimator} is none of {', '.join(names)}")
        self.desk = _desk(names[algorithm.adv_estimator], json.dumps(vars(self.settings)))
        target = _agent_loop_registry[self.settings.agent_loop]
        self.inner = hydra.utils.instantiate(target, trainer_config=trainer_config, tokenizer=tokenizer, **given)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        """One completion of a row of verl's data, whose `reward_model` has the reference answer.

        `extra_info["problem"]` may hold other fields of a `Problem`: its domain, and the `meta` that a world's truth reads.
        """
        output = await self.inner.run(sampling_params, **row)
        truth = (row.get("reward_model") or {}).get("ground_truth")
        asked = "\n\n".join(str(each["content"]) for each in row["raw_prompt"] if each["role"] == "user")
        name = str(row.get("uid") or uuid4().hex)
        more = (row.get("extra_info") or {}).get("problem") or {}
        problem = Problem(name, asked, None if truth is None else str(truth), **more)
        own = None if all(output.response_mask) else [bool(each) for each in output.response_mask]
        trace = grade(trajectory_from_ids(
            problem, output.response_ids, self.tokenizer, self.settings.separator, policy_mask=own, author="policy",
            id=f"{name}/{row.get('session_id', uuid4().hex)}",
        ).trajectory)  # fmt: skip
        paid = self.desk.reward
        rolled = paid.of_ids(trace, await self.desk.judged(trace), output.response_ids)
        proxy, R = paid.proxy(rolled), rolled.outcome
        output.reward_score = 0.0 if proxy is None else proxy
        output.extra_fields["reward_extra_info"] = {
            "acc": math.nan if R is None else R, "judged": float(rolled.failure is None)}  # fmt: skip
        return Paid(output, row_of(rolled, paid.credit.needs).tolist())
