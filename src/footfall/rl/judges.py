"""RL of judges that write, by whether their verdict is the label: no critique is shown to them, only questions are.

    StepWiser        a chunk and its label                      reward 1 for the label's verdict, else 0
    RRM, RM-R1       a right and a wrong answer, in any order   reward +1 for the right one, else −1

    rubric-RM        a solution with its grade s*               reward 1 − |s − s*| / 10

As many questions of either label are kept: on others a judge that always says the same earns more than half. A question is a
problem, a critique its completion, and what it is paid the outcome, so `CreditTrainer` trains it as any other policy; StepWiser
clips asymmetrically, `GRPOConfig(epsilon=0.2, epsilon_high=0.28)`.

Advantages are GRPO's with the unbiased standard deviation, as TRL and verl, the trainer of RM-R1, have it: rewards 1, -1, 1, 1
give ½, -3/2, ½, ½, where the population's would give 0.577 and -1.732.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from trl.trainer.grpo_config import GRPOConfig

from footfall.render import Template
from footfall.reward.generative.chains import balanced, gold_of
from footfall.reward.generative.critic import Request, say
from footfall.reward.generative.rubric_rm import Checkpoint, grade_request, grade_reward, read_grade
from footfall.reward.generative.stepwiser import chunk_request
from footfall.rl.group_relative import grpo
from footfall.rl.groups import Credit
from footfall.rl.rewards import Reward
from footfall.rl.trainer import CreditTrainer
from footfall.train.writers import asked, train_writer
from footfall.types import Judged, Judgement, Problem, Trajectory, Unjudged, content_key

L = TypeVar("L")
RENDERED = Template("rendered")


@dataclass(frozen=True)
class Question(Generic[L]):
    """What a judge is asked, and the label: that the chunk is right, that the first answer is the better one, or a grade."""

    request: Request
    label: L


@dataclass(frozen=True)
class Paid(Reward):
    """The outcome of a critique is what it is paid, by the place of its question."""

    pays: Callable[[int, str], float] = field(kw_only=True)

    def unanswered(self, problems: Sequence[Problem]) -> int:
        """None: a question brings its label."""
        return 0

    def outcome_of(self, trace: Trajectory, said: Judgement) -> float:
        """Of an empty critique too: it states no verdict, and is paid for that."""
        return self.pays(int(trace.problem.id), trace.text.removesuffix(trace.separator))


def chunk_questions(rows: Sequence[Judged], seed: int = 0) -> list[Question[bool]]:
    """StepWiser's question about each labelled step up to the first wrong one, balanced."""
    found = []
    for trace, said in rows:
        gold = gold_of(said.values) if said is not None else ()
        upto = gold.index(False) + 1 if False in gold else len(gold)
        found += [Question(chunk_request(trace, k), gold[k]) for k in range(upto)]
    return balanced(found, lambda question: question.label, seed)


def pair_questions(traces: Sequence[Trajectory], question: str, seed: int = 0) -> list[Question[bool]]:
    """One right and one wrong trace of each problem that has both, in an order drawn by content, balanced.

    `question` has places for query, first and second: `RRM_QUESTION` or `RM_R1_QUESTION` of `pairwise`.
    """
    by_problem: dict[str, dict[bool, Trajectory]] = {}
    for trace in traces:
        if trace.correct is not None:
            by_problem.setdefault(trace.problem.text, {}).setdefault(trace.correct, trace)
    found = []
    for query, sides in by_problem.items():
        if len(sides) == 2:
            first = int(content_key("order", seed, query)[:8], 16) % 2 == 0
            one, two = sides[first].text.strip(), sides[not first].text.strip()
            found.append(Question(Request(say(question.format(query=query, first=one, second=two))), first))
    return balanced(found, lambda each: each.label, seed)


class Grading(NamedTuple):
    """What a grade is held against: the rubric, the steps of the solution, and the right score out of 10."""

    rubric: tuple[Checkpoint, ...]
    steps: int
    score: float


def grade_questions(
    graded: Sequence[tuple[Trajectory, Sequence[Checkpoint], float]],
) -> list[Question[Grading]]:
    """Rubric-RM's question about each solution with its rubric and grade."""
    return [
        Question(grade_request(trace, rubric), Grading(tuple(rubric), len(trace.steps), score))
        for trace, rubric, score in graded
    ]


def grading_reward(text: str, label: Grading) -> float:
    """1 − |s − s*| / 10 for the score that a text states; 0 where it states none."""
    read = read_grade(text, label.rubric, label.steps)
    return grade_reward(None if isinstance(read, Unjudged) else read.score, label.score)


def train_judge(
    questions: Sequence[Question[L]],
    reward: Callable[[str, L], float],
    model: str | Path,
    out: str | Path,
    args: GRPOConfig,
    credit: Credit | None = None,
) -> Mapping[str, float]:
    """Fit the causal LM at `model` by what its critiques earn and save it, with its tokenizer, at `out`; the last figures.

    Critiques of one question are a group; `credit` is GRPO's unless another one is given that reads outcomes.
    """
    if len({question.label for question in questions}) < 2:
        raise ValueError(f"nothing to learn: the {len(questions)} questions have one label value at most")
    paid = Paid(credit or grpo(), pays=lambda place, text: reward(text, questions[place].label))

    def make(lm: Any, tokenizer: Any) -> CreditTrainer:
        problems = [Problem(str(k), asked(each.request, tokenizer)) for k, each in enumerate(questions)]
        return CreditTrainer(lm, tokenizer, problems, paid, args, template=RENDERED)

    trainer, metrics = train_writer(model, out, args, make)
    logged = [row for row in trainer.state.log_history if "reward" in row]
    return {**metrics, **({"reward": float(logged[-1]["reward"])} if logged else {})}
