"""The arithmetic world in seven languages."""

from footfall.worlds.multilingual.world import (
    LANGUAGES,
    MultilingualArithmetic,
    MultilingualPolicy,
    canonical,
    language_of,
    same_numbers,
    translate,
    translate_problem,
    translate_rows,
)

__all__ = [
    "LANGUAGES", "MultilingualArithmetic", "MultilingualPolicy", "canonical", "language_of", "same_numbers",
    "translate", "translate_problem", "translate_rows",
]  # fmt: skip
