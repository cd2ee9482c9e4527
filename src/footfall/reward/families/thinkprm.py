"""ThinkPRM-1.5B, -7B and -14B: plain causal LMs that verify in a chain of thought; the name alone tells them."""

from __future__ import annotations

from footfall.registry import register
from footfall.reward.checkpoint import Options
from footfall.reward.family import Evidence, Family
from footfall.reward.generative.checkpoints import generative, policy_of
from footfall.reward.generative.thinkprm import thinkprm
from footfall.types import Judge

__all__ = ["thinkprm_family"]


def opened(seen: Evidence, family: Family, options: Options) -> Judge:
    return thinkprm(policy_of(seen, options))


@register("family", "thinkprm")
def thinkprm_family() -> Family:
    """launch/ThinkPRM-1.5B, -7B and -14B: a verification chain, then p(yes) for each prefix."""
    published = ("launch/ThinkPRM-1.5B", "launch/ThinkPRM-7B", "launch/ThinkPRM-14B")
    return generative("thinkprm", published, "Apache-2.0", ("thinkprm",), opened)
