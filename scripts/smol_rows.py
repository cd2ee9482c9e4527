"""The rows that `footfall/smol` learns from: human labels, gold solutions with an error put in, pools that a PRM has scored.

A row ends at its first wrong step. Where `whole` is asked for, what the source has behind it follows, without labels.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from footfall.types import AFTER_ERROR, Judged, Judgement, Problem, Step, Trajectory, content_key

SUBJECTS = ("math", "physics", "chemistry", "biology", "medicine")
"""Of MR-Ben; its coding solutions are programs, not steps."""

PRMBENCH_QUESTIONS = ("question", "original_question", "modified_question")
"""Where a row of PRMBench has its problem: as PRM800K has it, in other words, and with the condition that was changed."""

_MARK = re.compile(r"<<[^<>]*?=([^<>=]*)>>")
_NUMBER = re.compile(r"(?<![\d.])\d[\d,]*(?:\.\d+)?")
_RESULT = re.compile(r"(?:=|\\boxed\{)\s*(\d[\d,]*\d(?:\.\d+)?|\d)(?![\d,.^]*\d)")
_SENTENCE = re.compile(r"(?<=[.!?$])\s+(?=[A-Z])")
_STEP_NUMBER = re.compile(r"\W*Step\s+(\d+)\s*[:.]\s*", re.IGNORECASE)


def read_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def make_row(
    name: str, question: str, steps: Sequence[str], values: Sequence[float | None], by: str, after: Sequence[str] = ()
) -> Judged:
    """A value a step; `after` are the steps behind the first error."""
    problem = Problem("p-" + content_key(question)[:16], question)
    trajectory = Trajectory(name, problem, tuple(Step(text) for text in (*steps, *after)))
    failures = (*(None,) * len(steps), *(AFTER_ERROR,) * len(after)) if after else ()
    said = Judgement(name, (*values, *(None,) * len(after)), by, failures=failures)
    return Judged(trajectory, said.check(trajectory))


def prm800k_rows(data: Path) -> list[Judged]:
    """Human ratings: -1 is wrong, 0 and 1 are right. The heading "# Answer" becomes a plain line.

    The file has nothing behind a wrong step; its six unlabelled tails are fragments of steps behind right ones.
    """
    rows = []
    for given in read_lines(data / "prm800k" / "prm800k_validation_1818_decoded.jsonl.gz"):
        steps = [re.sub(r"\s*# Answer\s*", "\nThe answer is: ", step).strip() for step in given["steps"]]
        values = [float(rating >= 0) for rating in given["ratings"]]
        rows.append(make_row(given["id"], given["problem"], steps, values, "prm800k"))
    return rows


def mr_ben_rows(data: Path, subjects: Sequence[str] = SUBJECTS, whole: bool = False) -> list[Judged]:
    """Human first errors: steps before it are right, and it is wrong."""
    rows = []
    for subject in subjects:
        with gzip.open(data / "mr_ben" / f"{subject}.json.gz", "rt", encoding="utf-8") as file:
            solutions = [solution for group in json.load(file).values() for solution in group]
        found = [mr_ben_row(f"mr-ben-{subject}-{k}", solution, whole) for k, solution in enumerate(solutions)]
        rows += [row for row in found if row is not None]
    return rows


def mr_ben_row(name: str, solution: Mapping[str, Any], whole: bool = False) -> Judged | None:
    """None if a wrong solution's first error is none of its steps, or the steps are not numbered one after the other."""
    numbered = mr_ben_steps(solution["Model_Solution_Steps"])
    first = str(solution["Model_Solution_First_Error_Step"]).strip()
    options = str(solution.get("Options") or "").strip()
    question = solution["Question"].strip() + (f"\n{options}" if options else "")
    numbers = [number for number, _ in numbered]
    values = [1.0] * len(numbered)
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    if solution["Model_Solution_Correctness"] != "correct":
        if not first.isdecimal() or int(first) not in numbers:
            return None
        values = [1.0] * numbers.index(int(first)) + [0.0]
    steps = [text for _, text in numbered[: len(values)]]
    after = [text for _, text in numbered[len(values) :] if text] if whole else ()
    return make_row(name, question, steps, values, "mr-ben", after) if all(steps) else None


def mr_ben_steps(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Steps with the numbers that they call themselves by, which the first error goes by; an introduction is step 0.

    A solution is stored as lines: some are empty, and some belong to the "Step 3:" above them.
    """
    texts = [line.strip() for line in lines if line.strip()]
    if not any(_STEP_NUMBER.match(text) for text in texts):
        return list(enumerate(texts, start=1))
    found: list[tuple[int, str]] = []
    for text in texts:
        label = _STEP_NUMBER.match(text)
        if label:
            found.append((int(label[1]), text[label.end() :]))
        elif not found or text.lower().startswith("solution"):
            found.append((found[-1][0] + 1 if found else 0, text))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{text}".strip())
    return found


def gsm8k_rows(data: Path, limit: int, seed: int, whole: bool = False) -> tuple[list[Judged], list[Judged]]:
    """Gold solutions, all right, and the same problems with one wrong result put in; at most `limit` rows in all."""
    given = read_lines(data / "gsm8k" / "train.jsonl.gz")
    rng = np.random.default_rng(seed)
    right: list[Judged] = []
    wrong: list[Judged] = []
    for k in rng.permutation(len(given)).tolist():
        if len(right) + len(wrong) + 2 > limit:
            break
        steps = [line.strip() for line in given[k]["answer"].split("####")[0].splitlines() if line.strip()]
        broken = inject_error(steps, rng)
        if broken is None:
            continue
        question = given[k]["question"].strip()
        plain = [_MARK.sub("", step) for step in steps]
        right.append(make_row(f"gsm8k-{k}", question, plain, [1.0] * len(plain), "gsm8k"))
        values = [1.0] * (len(broken) - 1) + [0.0]
        after = plain[len(broken) :] if whole else ()
        wrong.append(make_row(f"gsm8k-{k}-wrong", question, broken, values, "gsm8k-injected", after))
    return right, wrong


def inject_error(steps: Sequence[str], rng: np.random.Generator) -> list[str] | None:
    """The steps without calculator marks up to one whose marked result is wrong, also where that step uses it again.

    None if no step has a mark with its result right behind it.
    """
    places = [
        (k, mark.end(), behind[0])
        for k, step in enumerate(steps)
        for mark in _MARK.finditer(step)
        if (behind := _NUMBER.match(step, mark.end())) and _same(behind[0], mark[1])
    ]
    if not places:
        return None
    k, end, result = places[int(rng.integers(len(places)))]
    wrong = wrong_number(result, rng)
    after = _NUMBER.sub(lambda m: wrong if _same(m[0], result) else m[0], _MARK.sub("", steps[k][end:]))
    return [_MARK.sub("", step) for step in steps[:k]] + [_MARK.sub("", steps[k][:end]) + after]


def _same(a: str, b: str) -> bool:
    """Two ways to write one number; text that is no number equals none."""
    try:
        return float(a.replace(",", "")) == float(b.replace(",", ""))
    except ValueError:
        return False


def wrong_number(number: str, rng: np.random.Generator) -> str:
    """A number near this one, written the same way: off by little, by a digit, by a place, or with two digits swapped."""
    plain = number.replace(",", "").rstrip(".")
    places = len(plain.partition(".")[2])
    units = round(float(plain) * 10**places)
    digits = str(units)
    tens = 10 ** int(rng.integers(len(digits)))
    swapped = int(digits[:-2] + digits[-1] + digits[-2]) if len(digits) > 1 else units + 1
    offered = [units + 1, units - 1, units + 2, units - 2, units + tens, units - tens, swapped, units * 10]
    possible = [value for value in offered if value > 0 and value != units]
    value = possible[int(rng.integers(len(possible)))]
    shown = f"{value / 10**places:,.{places}f}"
    return shown if "," in number else shown.replace(",", "")


def pool_rows(data: Path, limit: int, seed: int) -> list[Judged]:
    """Solutions of a 7B model to MATH-500 and GSM8K problems with the step scores that a published PRM gave them: soft labels.

    Candidates whose first step holds the chat prompt are left out. Of the others at most `limit` are drawn, half of them
    with a step scored below one half, as far as there are.
    """
    good: list[Judged] = []
    bad: list[Judged] = []
    for name in ("math500", "gsm8k"):
        scores = {
            (r["problem_id"], r["candidate_index"]): r["step_scores"]
            for r in read_lines(data / "best_of_n" / "step_scores" / f"qwen_prm_{name}.jsonl.gz")
        }
        for pool in read_lines(data / "best_of_n" / f"{name}_500x32.jsonl.gz"):
            for k, candidate in enumerate(pool["candidates"]):
                values, steps = scores.get((pool["problem_id"], k), ()), candidate["steps"]
                if len(values) != len(steps) or not all(map(str.strip, steps)) or _holds_prompt(steps[0]):
                    continue
                row = make_row(f"{pool['problem_id']}-{k}", pool["question"], steps, values, "Qwen2.5-Math-PRM-7B")
                (bad if min(values) < 0.5 else good).append(row)
    rng = np.random.default_rng(seed)
    half = min(len(bad), limit // 2)
    drawn = [[rows[i] for i in rng.permutation(len(rows))[:n]] for rows, n in ((bad, half), (good, limit - half))]
    return drawn[0] + drawn[1]


def _holds_prompt(step: str) -> bool:
    return any(mark in step for mark in ("<|im_", "system\n", "user\n", "assistant\n"))


def math_rows(data: Path, limit: int, seed: int, whole: bool = False) -> tuple[list[Judged], list[Judged]]:
    """Gold solutions of MATH's test problems, sentence by sentence, and the same with one wrong result put in."""
    given = read_lines(data / "math" / "math_test_5000.jsonl.gz")
    rng = np.random.default_rng(seed)
    right: list[Judged] = []
    wrong: list[Judged] = []
    for k in rng.permutation(len(given)).tolist():
        if len(right) + len(wrong) + 2 > limit:
            break
        if "[asy]" in given[k]["solution"] + given[k]["problem"]:
            continue
        steps = [step for part in given[k]["solution"].split("\n\n") for step in _SENTENCE.split(part.strip()) if step]
        broken = inject_equation_error(steps, rng)
        if broken is None:
            continue
        question = given[k]["problem"].strip()
        right.append(make_row(f"math-{k}", question, steps, [1.0] * len(steps), "math"))
        values, after = [1.0] * (len(broken) - 1) + [0.0], steps[len(broken) :] if whole else ()
        wrong.append(make_row(f"math-{k}-wrong", question, broken, values, "math-injected", after))
    return right, wrong


def inject_equation_error(steps: Sequence[str], rng: np.random.Generator) -> list[str] | None:
    """The steps up to one in which a number behind an equals sign, or in the boxed answer, is another; None if none has one."""
    places = [(k, m.start(1), m[1]) for k, step in enumerate(steps) for m in _RESULT.finditer(step)]
    places = [place for place in places if float(place[2].replace(",", "")) > 0]
    if not places:
        return None
    k, start, number = places[int(rng.integers(len(places)))]
    return [*steps[:k], steps[k][:start] + wrong_number(number, rng) + steps[k][start + len(number) :]]
