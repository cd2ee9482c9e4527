"""The arithmetic world in seven languages."""

from footfall.worlds.multilingual.translation import (
    LANGUAGES,
    canonical,
    language_of,
    same_numbers,
    translate,
    translate_problem,
)
from footfall.worlds.multilingual.world import MultilingualArithmetic, MultilingualPolicy

__all__ = [
    "LANGUAGES", "MultilingualArithmetic", "MultilingualPolicy", "canonical", "language_of", "same_numbers",
    "translate", "translate_problem",
]  # fmt: skip
