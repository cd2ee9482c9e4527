"""HGS-PRM: the worked numbers of the card, classes, backtracking, and lines of code in three classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from footfall.label.execution import Execution, Report, class_rows, line_class, mutation_rows
from footfall.policy.protocol import Completion, SamplingParams
from footfall.search import HGS, BestOf, Budget, Searcher
from footfall.search.hgs_prm import class_of
from footfall.types import Cost, Judgement, Problem, Reason, SearchResult, Step, Trajectory, Unjudged
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=1, max_tokens=100)
VALUES = {"+": 1.0, "0": 0.5, "-": 0.0}


@dataclass
class Scripted:
    """After each path of step names, the classes of the steps that are sampled in turn; "." ends with the answer."""

    classes: Mapping[str, str]
    name: str = "scripted"
    asked: list[str] = field(default_factory=list)

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._one(prefix, i, params.until) for i in range(first, first + n)] for prefix in prefixes]

    def _one(self, prefix: Trajectory, i: int, until: str) -> Completion:
        path = " ".join(step.text for step in prefix.steps)
        self.asked.append(path)
        kind = (self.classes.get(path, "") + "-" * 99)[i]
        if kind == "." or until == "end":
            return Completion((Step("+end. The answer is 1."),), "end", i, cost=Cost(generated_tokens=1))
        return Completion((Step(f"{kind}{i}"),), "step", i, cost=Cost(generated_tokens=1))


@dataclass
class Reads:
    """The class that a step's first character names."""

    name: str = "reads"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, tuple(VALUES[s.text[0]] for s in t.steps), self.name) for t in trajectories]


def solve(classes: Mapping[str, str], method: HGS = HGS(), budget: Budget = Budget()) -> SearchResult:
    return Searcher(Scripted(classes), Reads(), method, budget, PARAMS, "\n").solve(problems(1))[0]


def kept(result: SearchResult) -> list[str]:
    assert result.tree is not None
    return [result.tree.nodes[d.nodes[0]].step.text for d in result.decisions if d.what == "kept"]


def test_card_check_1_a_positive_step_is_taken_at_once() -> None:
    result = solve({"": "-0+", "+2": "."})
    assert kept(result) == ["+2", "+end. The answer is 1."]
    assert result.cost.generated_tokens == 3 + 1 and result.answer == "1"


def test_card_check_1_after_five_samples_the_first_neutral_is_taken() -> None:
    result = solve({"": "-0-0-", "01": "."})
    assert kept(result) == ["01", "+end. The answer is 1."]
    assert result.cost.generated_tokens == 5 + 1


def test_card_check_1_five_negatives_send_it_back_and_the_dead_child_is_not_visited_again() -> None:
    result = solve({"": "+0+--", "+0": "-----", "+2": "."})
    assert kept(result) == ["+0", "+2", "+end. The answer is 1."]
    assert result.tree is not None
    dead = [node.step.text for node in result.tree.nodes if node.pruned and node.step.text[0] == "+"]
    assert dead == ["+0"]
    assert [d.nodes for d in result.decisions if d.what == "went-back"] == [(-1,)]


def test_a_dead_end_s_parent_goes_on_with_its_next_neutral() -> None:
    result = solve({"": "0--0-", "00": "-----", "03": "."})
    assert kept(result) == ["00", "03", "+end. The answer is 1."]


def test_card_check_2_with_a_perfect_judge_it_takes_l_over_q_samples() -> None:
    results = Searcher(
        Coins(0.5, 4), SeesCoins(), HGS(attempts=200, iterations=999), params=PARAMS, separator="\n"
    ).solve(problems(400))
    assert all(right(r.chosen) for r in results)
    samples = [r.cost.generated_tokens / 10 for r in results]
    assert sum(samples) / 400 == pytest.approx(8, abs=4 * (8 / 400) ** 0.5)
    thought = Searcher(Coins(0.5, 4), None, BestOf(1, "majority"), params=PARAMS, separator="\n").solve(problems(400))
    assert sum(right(r.chosen) for r in thought) / 400 == pytest.approx(0.0625, abs=4 * 0.0121)


def test_card_check_3_a_mutation_that_no_test_sees_is_neutral() -> None:
    program = ["def f(x, y):", "    if x < y:", "        return x", "    return y"]
    problem = Problem("min", "The smaller of two.", domain="code",
                      meta={"program": program, "tests": ["assert f(1, 2) == 1", "assert f(5, 3) == 3"]})  # fmt: skip

    class NoSandbox(Execution):
        """Programs of this test are ours, so Python may run them."""

        def report(self, problem: Problem, lines: Sequence[str]) -> Report:
            space: dict[str, object] = {}
            exec("\n".join(lines), space)
            try:
                exec("assert f(1, 2) == 1\nassert f(5, 3) == 3", space)
            except AssertionError:
                return Report(False, 2)
            return Report(True, 2)

    samples = {s.row.trajectory.steps[1].text.strip(): s for s in mutation_rows(problem, NoSandbox()) if s.line == 1}
    assert line_class(samples["if x <= y:"]) == "neutral"
    assert line_class(samples["if x > y:"]) == "negative"
    rows = {row.trajectory.id: row.judgement for row in class_rows(problem, NoSandbox())}
    original, same, worse = rows["min/original"], rows["min/mutation/2/if x <= y:"], rows["min/mutation/2/if x > y:"]
    assert original is not None and original.values == (1.0,) * 4
    assert same is not None and same.values == (1.0, 0.5, None, None) and same.aspects["neutral"][:2] == (0.0, 1.0)
    assert worse is not None and worse.values == (1.0, 0.0, None, None) and worse.aspects["negative"][:2] == (0.0, 1.0)


def test_the_class_is_the_judge_s_own_where_it_has_three() -> None:
    columns = {"positive": (0.4,), "neutral": (0.5,), "negative": (0.1,)}
    assert class_of(Judgement("t", (0.9,), "j", aspects=columns)) == "neutral"
    assert [class_of(Judgement("t", (v,), "j")) for v in (0.7, 0.69, 0.3, 0.29)] == [
        "positive", "neutral", "neutral", "negative",
    ]  # fmt: skip
    assert class_of(Judgement("t", (None,), "j", failures=(Unjudged(Reason.UNDECIDED, "silent"),))) == "neutral"
    assert class_of(None) == "neutral"


def test_when_all_is_dead_the_deepest_path_is_written_to_its_end_unguided() -> None:
    result = solve({"": "+----", "+0": "0----", "+0 00": "-----"})
    assert result.chosen is not None
    assert [step.text for step in result.chosen.steps] == ["+0", "00", "+end. The answer is 1."]
    assert [d.nodes[0] for d in result.decisions if d.what == "unguided"] != [-1]


def test_when_samples_run_out_the_path_so_far_is_written_to_its_end() -> None:
    result = solve({"": "+", "+0": "--0"}, HGS(iterations=4))
    assert result.chosen is not None and [step.text for step in result.chosen.steps] == ["+0", "+end. The answer is 1."]
    assert result.cost.generated_tokens == 4 + 1


def test_a_spent_budget_leaves_what_has_ended_if_anything_has() -> None:
    assert solve({"": "-----"}, budget=Budget(tokens=1)).failure is not None
    assert solve({"": "-----"}, budget=Budget(tokens=2)).answer == "1", "the second one is written to its end"
    results = Searcher(Coins(0.2, 2), SeesCoins(), HGS(), Budget(tokens=50), PARAMS, "\n").solve(problems(30))
    assert all(r.cost.generated_tokens <= 60 for r in results)
    assert any(r.stopped == "tokens" and r.answer == "0" for r in results), "refused, but better than no answer"


def test_nothing_is_judged_twice_at_a_node() -> None:
    judge = SeesCoins()
    Searcher(Coins(0.1, 3), judge, HGS(attempts=9), params=PARAMS, separator="\n").solve(problems(1))
    assert len(judge.texts) < 12 and judge.texts.count("wrong\n") == 1


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"iterations": 0}, {"good": 0.2}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="hgs-prm needs"):
        HGS(**wrong)  # type: ignore[arg-type]
