"""Published generative judges (GenPRM, ThinkPRM, R-PRM): plain causal LMs that write a critique; the name alone tells them.

A checkpoint is opened as a policy and asked (`footfall.reward.generative`); there is no layout that is read in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import register
from footfall.reward.checkpoint import Options
from footfall.reward.family import Evidence, Family, Match
from footfall.reward.generative.critic import Verdict
from footfall.reward.generative.genprm import genprm
from footfall.reward.generative.genprm import verdicts as genprm_verdicts
from footfall.reward.generative.r_prm import PROMPT_SOURCE, r_prm, read_prompt
from footfall.reward.generative.r_prm import verdicts as r_prm_verdicts
from footfall.reward.generative.thinkprm import thinkprm
from footfall.reward.generative.thinkprm import verdicts as thinkprm_verdicts
from footfall.reward.readout import Readout
from footfall.types import Judge, Judged

_HEADS = ("score.weight", "score.0.weight", "v_head.summary.weight")
PROMPT_FILE = "prompt.txt"
_R_PRM = ("/r-prm", "r-prm-7b-dpo", "r-prm-7b-sft")
"""Names of published ones; "PathFinder-PRM-7B" and "ER-PRM" end in these letters too."""


def policy_of(seen: Evidence, options: Options) -> TorchPolicy:
    """The checkpoint as a writer."""
    return TorchPolicy.load(seen.folder, options.device, label=Path(seen.name).name)


def generative(
    name: str, published: tuple[str, ...], licence: str, names: tuple[str, ...], open: Callable[..., Judge],
    verdicts: Callable[[Evidence], Callable[[Judged], Sequence[Verdict]]],
) -> Family:  # fmt: skip
    """A family that is opened as a whole; the readout only says what its verdict is."""
    return Family(
        name=name, published=published, licence=licence,
        match=Match(model_types=("qwen2",), absent=_HEADS, names=names, named=True),
        readout=Readout("good", ("good", "bad"), ("good",)), open=open,
        objective="verdict", verdicts=verdicts, stored_as="{decoder}ForCausalLM",
    )  # fmt: skip


@register("family", "genprm")
def genprm_family() -> Family:
    """GenPRM/GenPRM-1.5B, -7B and -32B: analysis of each step, then p(Yes)."""
    published = ("GenPRM/GenPRM-1.5B", "GenPRM/GenPRM-7B", "GenPRM/GenPRM-32B")
    return generative("genprm", published, "MIT (code); of the weights see the model card", ("genprm",), _open_genprm,
                      lambda seen: genprm_verdicts)  # fmt: skip


@register("family", "thinkprm")
def thinkprm_family() -> Family:
    """launch/ThinkPRM-1.5B, -7B and -14B: a verification chain, then p(yes) for each prefix."""
    published = ("launch/ThinkPRM-1.5B", "launch/ThinkPRM-7B", "launch/ThinkPRM-14B")
    return generative(
        "thinkprm", published, "Apache-2.0", ("thinkprm",), _open_thinkprm, lambda seen: thinkprm_verdicts
    )


@register("family", "r-prm")
def r_prm_family() -> Family:
    """kevinpro/R-PRM-7B-DPO: analyses of each step, then p(Yes), averaged over ten critiques."""
    return generative("r-prm", ("kevinpro/R-PRM-7B-DPO",), "Apache-2.0", _R_PRM, _open_r_prm, _r_prm_verdicts)


def _open_genprm(seen: Evidence, family: Family, options: Options) -> Judge:
    """Without code: a sandbox cannot be named by a folder."""
    return genprm(policy_of(seen, options))


def _open_thinkprm(seen: Evidence, family: Family, options: Options) -> Judge:
    return thinkprm(policy_of(seen, options))


def _open_r_prm(seen: Evidence, family: Family, options: Options) -> Judge:
    return r_prm(policy_of(seen, options), _r_prm_prompt(seen))


def _r_prm_verdicts(seen: Evidence) -> Callable[[Judged], Sequence[Verdict]]:
    return partial(r_prm_verdicts, read_prompt(_r_prm_prompt(seen)))


def _r_prm_prompt(seen: Evidence) -> Path | None:
    """The prompt of the published weights is not shipped: it has to lie beside them. Others may be asked in our own words."""
    prompt = seen.folder / PROMPT_FILE
    if not prompt.is_file() and not any(name in seen.name.lower() for name in _R_PRM):
        return None
    if not prompt.is_file():
        raise FileNotFoundError(
            f"{prompt} is missing: R-PRM was trained with one long prompt, which may not be shipped with Footfall; "
            f"copy {PROMPT_SOURCE} there, or use the judge r-prm with --set prompt=FILE"
        )
    return prompt
