"""Every rule that reads text which a model wrote, and texts that are made to be slow to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from footfall import answers, formal
from footfall.label import monte_carlo, prompted, reasonflux
from footfall.registry import create
from footfall.reward import views
from footfall.reward.generative import (
    dg_prm,
    genprm,
    pairwise,
    r_prm,
    rubric_rm,
    spark,
    stepwiser,
    thinkprm,
    whole_trace,
)
from footfall.rl import verdicts
from footfall.train import decontaminate
from footfall.types import Problem, Step, Trajectory
from footfall.worlds import TruthJudge

Rule = Callable[[str], Any]


def _formally(domain: str) -> Rule:
    problem = Problem("p", "If every cat is furry and Tom is a cat, is Tom furry? x + 3 = 7", "4", domain)
    return lambda text: formal.verdicts(Trajectory("t", problem, (Step(text),)))


def _truth(name: str) -> Rule:
    world = create("world", name)
    problem = next(iter(world.problems(1, seed=3)))
    judge = TruthJudge(world)
    return lambda text: judge.judge([Trajectory("t", problem, (Step(text),))])


def rules() -> dict[str, Rule]:
    """By name. A new reader of model output is entered here, and meets all the texts."""
    found: dict[str, Rule] = {
        "answers.extract": answers.extract,
        "answers.extract choice": lambda text: answers.extract(text, "choice"),
        "answers.equal": lambda text: answers.equal(text, "4"),
        "answers.equal itself": lambda text: answers.equal(text, text + " "),
        "answers.canonical": answers.canonical,
        "prompted.read_verdicts": lambda text: prompted.read_verdicts(text, 2),
        "prompted.read_verdict": prompted.read_verdict,
        "prompted.read_first_error": lambda text: prompted.read_first_error(text, 2),
        "monte_carlo.parse_verdict": monte_carlo.parse_verdict,
        "monte_carlo.react_steps": monte_carlo.react_steps,
        "whole_trace.read_index": lambda text: whole_trace.read_index(text, 2),
        "genprm.code_of": genprm.code_of,
        "whole_trace.read_scores": lambda text: whole_trace.read_scores(text, 2),
        "thinkprm.read_verdicts": lambda text: thinkprm.read_verdicts(text, 2),
        "thinkprm.cleaned": thinkprm.cleaned,
        "stepwiser.read_chunk_verdict": stepwiser.read_chunk_verdict,
        "stepwiser.read_chunks": lambda text: stepwiser.read_chunks(text, text),
        "dg_prm.read_ratings": lambda text: dg_prm.read_ratings(text, 2),
        "rubric_rm.read_grade": lambda text: rubric_rm.read_grade(text, [], 2),
        "spark.read_verification": lambda text: spark.read_verification(text, 2),
        "r_prm.read_answer": r_prm.read_answer,
        "pairwise.read_assistant": pairwise.read_assistant,
        "pairwise.read_letter": pairwise.read_letter,
        "pairwise.read_answer_tag": pairwise.read_answer_tag,
        "verdicts.well_formed": verdicts.well_formed,
        "views.mathematics": views.mathematics,
        "views.words": views.words,
        "reasonflux.similarity": lambda text: reasonflux.similarity(text, text),
        "decontaminate.normalise": decontaminate.normalise,
        "formal math": _formally("math"),
        "formal logic": _formally("logic"),
    }
    for name in "arithmetic", "arithmetic-multilingual", "logic", "algebra", "code":
        found[f"world {name}"] = _truth(name)
    for name in "lines", "blank-lines", "numbered", "step-markers", "sentences", "thoughts":
        found[f"segmenter {name}"] = create("segmenter", name)
    return found


PIECES = (
    "#### ", "\\boxed{", "\\boxed{}", "\\boxed ", "\\fbox{a", "the answer is ", "the answer is\n", "# answer\n",
    "answer:\n", "Answer : ", "**answer", " ", "\n", "\t", "\n \n", "(", ")", "[", "]", "[0,", "{", "}", "\\{", "\\",
    "\\\\", "$", "$$", "**", "*", "\\(", "\\[", "1", "1,", "1,000", "1 ", "1.", "1/", "1 1/", ".5", "-", "- ", "+ ",
    "1 + ", "1+1=", "= ", "a = ", "x = 1, ", "x", "x^", "x + y = ", "2(", "3 4", "3! ", "if ", "if a then ",
    "if something is a, ", "and ", ", and ", ", ", " so ", " because ", "since a, ", "every cat is ",
    "Tom is a cat. ", "no ", "not ", "fact1: ", "Step 1: ", "Step 1:\n", "step 1 ", "1. a\n", "## Step 2\n", "a. ",
    "A. ", "e.g. ", "? ", "Wait, ", "<think>", "</think>", "```python", "```", "```python\n\n", "\\begin{a}",
    "\\end{a}", "\\text{", "\\frac", "\\frac 1", "\\sqrt ", "~", "\\,", "\\! ", "a", "A", "ab ", "é", "的", "。",
    "\u2028", "\x00", "'", '"', '"\'', "# ", "def f(", "for x in ", "print(", "(1, ", "((", "x = 'a", "1 - ", "±",
    "⟨", "5 apples ", "5 % ", "<chunk>", "<chunk>a", "</chunk>", "<step>", "<conclusion>", "\\boxed{\\text{", "Final verdict: ",
    '{"a": [', '[{"', "[[A]]",
)  # fmt: skip


FILLERS = (" ", "\n", "\t", " \n", "a", "1", ", ", "0,", "(", "{", "\\", ". ", "a ", "1 ", "- ", "= ")


class Text(NamedTuple):
    """What a text is made of; it is written only where it is read, for all of a megabyte together are gigabytes."""

    made_of: str
    repeated: str
    start: str = ""
    end: str = ""

    def of(self, size: int) -> str:
        """About so many characters."""
        return self.start + (self.repeated * (size // len(self.repeated) + 1))[:size] + self.end


def texts() -> Iterator[Text]:
    """A piece over and over, or once before a long filler."""
    for piece in PIECES:
        yield Text(f"{piece!r} repeated", piece)
        yield Text(f"{piece!r} repeated, then a line", piece, end="\n#### x")
        for filler in FILLERS:
            yield Text(f"{piece!r}, then {filler!r} repeated", filler, piece)
            yield Text(f"{piece!r}, then {filler!r} repeated, then x", filler, piece, "x\ny")
            yield Text(f"{piece!r} with 40 {filler!r}, repeated", piece + filler * 40)
