"""OmegaPRM as a source of process data: problems in, labelled steps out."""

from __future__ import annotations

from footfall.label.omegaprm import OmegaPRM
from footfall.policy.protocol import SamplingParams
from footfall.types import Cost
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

WORLD = ArithmeticWorld()


def test_problems_become_rows_one_for_each_valued_node_and_their_costs_add_up() -> None:
    method = OmegaPRM(ArithmeticPolicy(), 4, searches=3, params=SamplingParams(seed=1))
    problems = WORLD.problems(5, seed=1)
    grown, rows = method.grow(problems, "\n"), method.collect(problems, "\n")
    assert len(rows) == sum(tree.labelled for tree in grown) > 0
    said = [judgement for _, judgement in rows if judgement is not None]
    assert len(said) == len(rows) and {judgement.judge for judgement in said} == {method.name}
    assert Cost.total(judgement.cost for judgement in said) == Cost.total(tree.cost for tree in grown if tree.labelled)
    for trajectory, judgement in rows:
        assert (
            judgement is not None
            and judgement.values[-1] is not None
            and len(judgement.values) == len(trajectory.steps)
        )
        assert set(judgement.values[:-1]) <= {None}, "a step is an example once"


def test_no_problem_gives_no_row() -> None:
    assert OmegaPRM(ArithmeticPolicy()).collect([]) == []
