"""R-PRM-7B-DPO: a plain causal LM that writes five analyses of a step; the name alone tells it from others."""

from __future__ import annotations

from footfall.registry import register
from footfall.reward.checkpoint import Options
from footfall.reward.family import Evidence, Family
from footfall.reward.generative.checkpoints import generative, policy_of
from footfall.reward.generative.r_prm import PROMPT_SOURCE, r_prm
from footfall.types import Judge

__all__ = ["PROMPT_FILE", "r_prm_family"]

PROMPT_FILE = "prompt.txt"


def opened(seen: Evidence, family: Family, options: Options) -> Judge:
    """The prompt is not shipped with the weights: it has to lie beside them."""
    prompt = seen.folder / PROMPT_FILE
    if not prompt.is_file():
        raise FileNotFoundError(
            f"{prompt} is missing: R-PRM was trained with one long prompt, which may not be shipped with Footfall; "
            f"copy {PROMPT_SOURCE} there, or use the judge r-prm with --set prompt=FILE"
        )
    return r_prm(policy_of(seen, options), prompt)


@register("family", "r-prm")
def r_prm_family() -> Family:
    """kevinpro/R-PRM-7B-DPO: analyses of each step, then p(Yes), averaged over ten critiques."""
    # "PathFinder-PRM-7B" and "ER-PRM" end in these letters too.
    names = ("/r-prm", "r-prm-7b-dpo", "r-prm-7b-sft")
    return generative("r-prm", ("kevinpro/R-PRM-7B-DPO",), "Apache-2.0", names, opened)
