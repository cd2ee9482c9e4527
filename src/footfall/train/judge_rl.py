"""RL of judges that write, by whether their verdict is the label: no critique is shown to them, only questions are.

    StepWiser        a chunk and its label                      reward 1 for the label's verdict, else 0
    RRM, RM-R1       a right and a wrong answer, in any order   reward +1 for the right one, else −1

As many questions of either label are kept: on others a judge that always says the same earns more than half. TRL's
`GRPOTrainer` does the training (the extra `rl`); StepWiser clips asymmetrically, `GRPOConfig(epsilon=0.2, epsilon_high=0.28)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from footfall.loading import load_model, quiet
from footfall.render import dialogue_text
from footfall.reward.generative.chains import balanced, gold_of
from footfall.reward.generative.critic import Request, say
from footfall.reward.generative.stepwiser import chunk_request
from footfall.types import Judged, Trajectory, content_key

Reward = Callable[[str, bool], float]
"""What a critique is paid, given the label."""


class Question(NamedTuple):
    """What a judge is asked, and the label: that the chunk is right, or that the first answer is the better one."""

    request: Request
    label: bool


def chunk_questions(rows: Sequence[Judged], seed: int = 0) -> list[Question]:
    """StepWiser's question about each labelled step up to the first wrong one, balanced."""
    found = []
    for trace, said in rows:
        gold = gold_of(said.values) if said is not None else ()
        upto = gold.index(False) + 1 if False in gold else len(gold)
        found += [Question(chunk_request(trace, k), gold[k]) for k in range(upto)]
    return balanced(found, lambda question: question.label, seed)


def pair_questions(traces: Sequence[Trajectory], question: str, seed: int = 0) -> list[Question]:
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


def train_judge(
    questions: Sequence[Question], reward: Reward, model: str | Path, out: str | Path, args: GRPOConfig
) -> Mapping[str, float]:
    """Fit the causal LM at `model` by GRPO and save it, with its tokenizer, at `out`; the trainer's last figures."""
    if len({question.label for question in questions}) < 2:
        raise ValueError(f"nothing to learn: the {len(questions)} questions have one label value at most")
    lm: Any
    lm, tokenizer = load_model(str(model), "cpu" if args.use_cpu else None)
    lm.float()  # what is trained is not half precision, as a writer on CUDA is
    rows = [
        {"prompt": dialogue_text(tokenizer, each.request.messages, each.request.opening, each.request.header),
         "label": each.label}
        for each in questions
    ]  # fmt: skip

    def paid(completions: list[str], label: list[bool], **_: Any) -> list[float | None]:
        return [reward(text, right) for text, right in zip(completions, label, strict=True)]

    trainer: Any = GRPOTrainer(
        model=lm, reward_funcs=paid, args=args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
    )
    metrics = dict(trainer.train().metrics)
    with quiet():
        trainer.model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    logged = [row for row in trainer.state.log_history if "reward" in row]
    return {**{k: float(v) for k, v in metrics.items()}, **({"reward": float(logged[-1]["reward"])} if logged else {})}
