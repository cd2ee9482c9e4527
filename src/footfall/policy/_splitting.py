"""Cutting what a model wrote into steps, on token boundaries: each step keeps exactly the ids it was sampled with."""

from __future__ import annotations

from collections.abc import Sequence

from footfall.encoding import Tokenizer
from footfall.types import Step

__all__ = ["StepSplitter"]


class StepSplitter:
    """Splits token sequences at a separator. Knows which tokens can complete one, so most tokens cost nothing."""

    def __init__(self, tokenizer: Tokenizer, vocabulary_size: int, separator: str) -> None:
        if not separator:
            raise ValueError("a separator between steps must not be empty")
        self.tokenizer, self.separator = tokenizer, separator
        self.closing = frozenset(i for i in range(vocabulary_size) if separator[-1] in self._text([i]))

    def closes_step(self, tokens: Sequence[int]) -> bool:
        """Whether a step with some text in it is complete in `tokens`."""
        return self.separator in self._text(tokens).lstrip()

    def split(self, tokens: Sequence[int], logprobs: Sequence[float]) -> tuple[Step, ...]:
        """The steps of a completion. Ids of stray separators stay with the step before them, or lead the first."""
        steps: list[Step] = []
        start, lead = 0, ""
        for i, token in enumerate(tokens):
            if token not in self.closing:
                continue
            text = lead + self._text(tokens[start : i + 1])
            if not text.strip():
                if steps:
                    steps[-1] = _joined(steps[-1], tokens[start : i + 1], logprobs[start : i + 1])
                    start, lead = i + 1, ""
                continue
            body = text.lstrip() if not steps else text
            if self.separator in body:
                written, _, rest = body.partition(self.separator)
                steps.append(
                    Step(written, token_ids=tuple(tokens[start : i + 1]), logprobs=tuple(logprobs[start : i + 1]))
                )
                start, lead = i + 1, rest.lstrip(self.separator)
        if start < len(tokens):
            text = (lead + self._text(tokens[start:])).strip()
            if text or not steps:
                steps.append(Step(text, token_ids=tuple(tokens[start:]), logprobs=tuple(logprobs[start:])))
            else:
                steps[-1] = _joined(steps[-1], tokens[start:], logprobs[start:])
        return tuple(steps)

    def _text(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _joined(step: Step, tokens: Sequence[int], logprobs: Sequence[float]) -> Step:
    assert step.token_ids is not None and step.logprobs is not None
    return Step(step.text, token_ids=step.token_ids + tuple(tokens), logprobs=step.logprobs + tuple(logprobs))
