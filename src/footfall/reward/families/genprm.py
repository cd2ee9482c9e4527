"""GenPRM-1.5B, -7B and -32B: plain causal LMs that write a critique; the name alone tells them from others."""

from __future__ import annotations

from footfall.registry import register
from footfall.reward.checkpoint import Options
from footfall.reward.family import Evidence, Family
from footfall.reward.generative.checkpoints import generative, policy_of
from footfall.reward.generative.genprm import genprm
from footfall.types import Judge

__all__ = ["genprm_family"]


def opened(seen: Evidence, family: Family, options: Options) -> Judge:
    """Without code: a sandbox cannot be named by a folder."""
    return genprm(policy_of(seen, options))


@register("family", "genprm")
def genprm_family() -> Family:
    """GenPRM/GenPRM-1.5B, -7B and -32B: analysis of each step, then p(Yes)."""
    published = ("GenPRM/GenPRM-1.5B", "GenPRM/GenPRM-7B", "GenPRM/GenPRM-32B")
    return generative("genprm", published, "MIT (code); of the weights see the model card", ("genprm",), opened)
