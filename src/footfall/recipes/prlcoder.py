"""Process-Supervised Reinforcement Learning for Code Generation (Ye et al., arXiv 2502.01715): PRLCoder.

Change one line w_i of a correct program at a time, by a mutation or a refactoring, and let compile-and-test label it:

    label(w_i) = 1[ the program with w_i in its place passes all tests ];  unchanged lines are good

A PRM on such lines rewards a program line by line; an outcome model (ORM) sees only whether the whole program passes.

What differs: no reinforcement learning. Both models choose among 8 programs of the scripted writer (PRM by its lowest line,
ORM by its last), which shows what their rewards are worth. Mutations come from the syntax tree, not from a language model;
programs are those of the code world, run by its interpreter. Both models have the same backbone, read the same changed
programs and differ in their labels alone: ORM rows are labelled at the last line only. The backbone is
the lab's model, which has read the code world; the embedded one reads it letter by letter and learned at which line errors are
common, and little else.

The right programs of a problem are mostly one text and the wrong ones are different texts. A model that cannot tell them apart
so chooses among the different ones by chance, which is worse than taking the first program: that is what to compare it with.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from footfall.drive.rollouts import write
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.known import WORLDS, Known, error_auc
from footfall.label.execution import Execution, mutation_rows
from footfall.policy.protocol import SamplingParams
from footfall.reward.judge import step_head
from footfall.search import aggregate, best
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judged, Problem, Trajectory

RECIPE = Recipe(
    name="prlcoder",
    paper="Process-Supervised Reinforcement Learning for Code Generation",
    arxiv="2502.01715", year=2025, stage="data", world="code",
    scale="The lab's model (9.5M parameters) as backbone; a seed has 480 training problems with 5 programs each, and 1,000 "
    "held-out problems with 8 programs each.",
    claims=(
        Claim(
            "Process supervision by mutation and execution beats outcome supervision.",
            metric="pass rate of the program that the model likes best, of 8",
            direction="higher", baseline="outcome model", method="process model",
            beside=("first program", "different program by chance", "any program"),
            stand_in="The paper rewards PPO by the model; here it chooses among eight programs, which shows what the "
            "reward is worth.",
        ),
        Claim(
            "Its values tell right lines from wrong ones better.",
            metric="AUC of line values up to the first wrong line",
            direction="higher", baseline="outcome model, lines", method="process model, lines",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Programs chosen by a process and an outcome model, and how well each ranks lines."""
    trial = prms.large(trial)
    (world, policy, truth), execution = WORLDS["short code" if trial.quick else "code"], Execution(run="world")
    process: list[Judged] = []
    for problem in world.problems(trial.size(480, 2), trial.seed):
        samples = mutation_rows(_asked(trial, problem), execution)
        n = min(trial.size(5, 2), len(samples))
        process += [samples[i * len(samples) // n].row for i in range(n)]
    tests = [world.prefix(_asked(trial, p)) for p in world.problems(trial.size(1000, 1), trial.seed, split="test")]
    drawn = write(policy, tests, 8, SamplingParams(seed=trial.seed))
    rows = [[_program(world.graded(c.after(t, policy.name))) for c in row] for t, row in zip(tests, drawn, strict=True)]
    different = [list({t.key: t for t in row}.values()) for row in rows]
    programs = [t for row in different for t in row]
    given = Known(world, policy, truth, programs, [world.first_error(t) or 0 for t in programs])
    arms: dict[str, float | list[float]] = {
        "first program": [float(bool(row[0].correct)) for row in rows],
        "different program by chance": [fmean(bool(t.correct) for t in row) for row in different],
        "any program": [float(any(t.correct for t in row)) for row in rows],
    }
    costs = [t.cost for row in rows for t in row] + [row.judgement.cost for row in process if row.judgement]
    config = TrainConfig(
        lr=3e-4, epochs=1, batch_size=trial.size(16, 8), eval_share=0.0, seed=trial.seed, device=trial.device
    )
    labels = {"process model": (process, "min"), "outcome model": (list(map(_outcome, process)), "last")}
    for name, (labelled, how) in labels.items():
        trained = prms.train(trial, f"prlcoder-{how}", labelled, config)
        said = step_head(trained.folder, device=trial.device).judge(programs)
        scores = iter([aggregate(each.values, how) for each in said])
        found = [row[best([next(scores) for _ in row]) or 0] for row in different]
        arms[name] = [float(bool(t.correct)) for t in found]
        arms[f"{name}, lines"] = error_auc(given, [each.values for each in said])
        costs += [trained.cost, *(each.cost for each in said)]
    return Outcome(arms, Cost.total(costs))


def _program(trace: Trajectory) -> Trajectory:
    """Without the line that says what the program gives."""
    return replace(trace, steps=trace.steps[:-1])


def _asked(trial: Trial, problem: Problem) -> Problem:
    """A smoke test leaves examples and calls away: what is asked for is in the first line."""
    return replace(problem, prompt=problem.text.splitlines()[0]) if trial.quick else problem


def _outcome(row: Judged) -> Judged:
    """The same program, labelled at its end with whether it passes."""
    trajectory, said = row
    assert said is not None
    values = (None,) * (len(said.values) - 1) + (float(bool(trajectory.correct)),)
    return Judged(trajectory, replace(said, values=values, failures=(), judge="outcome"))
