"""Problems that have one id and one text, as rows without ids have, and differ in what else there is of them."""

from __future__ import annotations

from dataclasses import replace

from footfall.commands._judges import _judged_key
from footfall.commands._sources import problem_key
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.types import Problem, Trajectory, problem_rest
from footfall.worlds import ArithmeticWorld


def test_rollouts_are_not_shared_by_problems_with_other_answers() -> None:
    policy, params = create("policy", "embedded"), SamplingParams(max_tokens=128)
    start = ArithmeticWorld().prefix(ArithmeticWorld().problems(1)[0])
    ((written,),) = policy.sample([start], 1, params)
    right = replace(start, id="right", steps=written.steps, tokenizer=written.tokenizer)
    never = replace(right, id="never", problem=replace(right.problem, answer="999999"))
    both = MonteCarlo(policy, rollouts=4, params=params).judge([right, never])
    alone = [MonteCarlo(policy, rollouts=4, params=params).judge([each])[0] for each in (right, never)]
    assert [said.values for said in both] == [said.values for said in alone]
    assert set(both[1].values) == {0.0} != set(both[0].values)


def test_a_finished_chunk_is_not_that_of_a_problem_with_other_tests_tables_or_images() -> None:
    plain = Problem("p", "Write f.")
    others = [
        replace(plain, meta={"tests": ["f(1) == 2"]}),
        replace(plain, tables=({"a": 1},)),
        replace(plain, domain="code"),
    ]
    pictures = replace(plain, images=("a.png",))
    assert problem_rest(plain) == ""  # so that runs from before go on
    assert len({_judged_key(Trajectory("t", problem)) for problem in (plain, *others, pictures)}) == 5
    assert len({problem_key(problem) for problem in (plain, *others, pictures)}) == 5
