"""Who writes steps: the in-process torch engine, OpenAI-compatible servers, scripted policies of the worlds."""

from footfall.policy.protocol import Completion, Policy, SamplingParams, sample_seed

__all__ = ["Completion", "Policy", "SamplingParams", "sample_seed"]
