"""The estimate of each labeller against what labelling then costs, with a scripted completer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from footfall.label import Plan, TokenCount, Volume, count_tokens, planned
from footfall.label.binary_search import BinarySearch
from footfall.label.consensus import Consensus
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.pav import StepAdvantage
from footfall.label.prompted import PromptedJudge
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import load, parts
from footfall.types import Cost, Judge, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import FOUR_STEPS, successes, trace

COMPLETER = ArithmeticPolicy()
FACTOR = 2.0
"""The expected number of generated tokens is right within this factor, either way."""


def traces_of(n: int, seed: int) -> list[Trajectory]:
    return [t for _, t in ArithmeticWorld().traces(COMPLETER, n, seed=seed)]


def with_logprobs(traces: Sequence[Trajectory]) -> list[Trajectory]:
    """Made-up log-probabilities, for a method that orders steps by them."""
    return [
        replace(t, steps=tuple(replace(s, logprobs=(-0.1 * (len(s.text) % 7), -1.0)) for s in t.steps)) for t in traces
    ]


def judge_of(name: str, **settings: Any) -> Judge:
    """The labeller with the scripted completer, where it takes a policy."""
    factory = load("labeller", name)
    if "policy" in inspect.signature(factory).parameters:
        settings = {"policy": COMPLETER, **settings}
    judge: Judge = factory(**settings)
    return judge


ROLLED: dict[str, list[dict[str, Any]]] = {
    "monte-carlo": [{}, {"until": "first-error"}, {"rollouts": 32, "half_width": 0.2},
                    {"rollouts": 24, "half_width": 0.25, "until": "first-error"}],
    "omegaprm": [{}, {"rollouts": 4, "lost": 0.3}],
    "er-prm": [{}, {"until": "first-error"}],
    "pav": [{}, {"until": "first-error", "rollouts": 4}, {"prover": ArithmeticPolicy(recover=0.5), "rollouts": 4}],
    "grounded": [{"rollouts": 2}],
    "beside": [{"judges": "monte-carlo,truth-arithmetic"}],
    "relative-progress": [{"rollouts": 8}, {"pass_rollouts": 8}],
    "scan": [{"responses": 16}, {"responses": 16, "confidence": 0.3}],
    "symbolic-mc": [{}],
    "unprm": [{"weighted": False, "draws": 24, "enough": 6, "order": order} for order in ("delta", "sequential", "binary")],
}  # fmt: skip
"""Labellers that roll out prefixes, each with the settings under which its plan is checked."""
ASKING = {"prompted", "consensus"}
"""Those that put questions to a language model; they are checked below."""


@pytest.mark.parametrize(("name", "settings"), [(name, each) for name, all in ROLLED.items() for each in all])
@pytest.mark.parametrize("seed", [1, 2])
def test_bounds_hold_and_the_mean_is_near(name: str, settings: dict[str, Any], seed: int) -> None:
    traces = traces_of(24, seed)
    if name == "unprm":
        traces = with_logprobs(traces)
    judge = judge_of(name, **settings)
    plan = planned(judge, traces)
    assert plan is not None
    cost = Cost.total(judgement.cost for judgement in judge.judge(traces))
    assert plan.low.calls <= cost.calls <= plan.high.calls
    assert plan.low.generated <= cost.generated_tokens <= plan.high.generated
    assert plan.expected.generated / FACTOR <= cost.generated_tokens <= plan.expected.generated * FACTOR
    assert plan.low.calls <= plan.expected.calls <= plan.high.calls


def test_every_labeller_has_a_plan() -> None:
    traces = with_logprobs(traces_of(4, 3))
    for name in parts("labeller").keys() - ASKING:
        plan = planned(judge_of(name), traces)
        assert plan is not None, f"{name} tells no plan: register its courses, or give it a method `planned`"
        assert (plan.high.calls > 0) == (name in ROLLED), f"{name}: a labeller that rolls out needs a line in ROLLED"


# By hand


def test_monte_carlo_counts_distinct_prefixes() -> None:
    """Four steps, the last of which is the outcome: three prefixes of 8 rollouts; a second equal trace adds none."""
    judge = MonteCarlo(successes(8, 8, 8), rollouts=8)
    ten_each = TokenCount(lambda text: 10.0, "ten a text")
    for traces in ([FOUR_STEPS], [FOUR_STEPS, replace(FOUR_STEPS, id="again")]):
        plan = planned(judge, traces, ten_each)
        assert plan is not None
        assert plan.low.calls == plan.expected.calls == plan.high.calls == 24
        assert plan.expected.generated == 8 * (30 + 20 + 10)
        assert plan.expected.prompt == 8 * (20 + 30 + 40)
        assert plan.expected.cached == 7 * (20 + 30 + 40)
    apart = planned(judge, [FOUR_STEPS, replace(FOUR_STEPS, id="again")], ten_each, chunk=1)
    assert apart is not None and apart.expected.calls == 48, "chunks without a store share nothing"


def test_a_right_trace_costs_a_binary_search_nothing_and_a_wrong_one_log2_probes() -> None:
    judge = BinarySearch(successes(8, 8, 8), rollouts=8)
    right = planned(judge, [FOUR_STEPS])
    assert right is not None and right.high == Volume()
    for n in (1, 2, 3, 7, 20, 100):
        wrong = trace(*(f"Step {k}." for k in range(n - 1)), "The answer is 8.")
        plan = planned(judge, [wrong])
        assert plan is not None
        assert plan.high.calls <= 8 * n.bit_length(), "ceil(log2(n + 1)) probes"
        assert plan.low.calls >= 8 * (n.bit_length() - 2)


def test_a_prover_of_its_own_doubles_the_rollouts() -> None:
    alone, proved = (
        planned(StepAdvantage(COMPLETER, prover, rollouts=4), [FOUR_STEPS]) for prover in (None, ArithmeticPolicy())
    )
    assert alone is not None and proved is not None
    assert alone.expected.calls == 16 and proved.expected.calls == 32, "four prefixes, the problem itself among them"


def test_a_consensus_takes_what_its_judges_take() -> None:
    one = MonteCarlo(COMPLETER, rollouts=4)
    plan = planned(Consensus((one, MonteCarlo(COMPLETER, rollouts=2))), [FOUR_STEPS])
    assert plan is not None and plan.expected.calls == 18


@dataclass
class Critic:
    """A chat model that always says the same."""

    text: str
    name: str = "critic"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        cost = Cost(generated_tokens=len(self.text) // 4, calls=1)
        return [
            [Completion((Step(self.text),), "end", i, cost=cost) for i in range(first, first + n)] for _ in prefixes
        ]


@pytest.mark.parametrize(
    "settings",
    [{}, {"prompts": ("reason", "list"), "n": 3}, {"form": "step"}, {"meta": True}],
)
def test_questions_are_bounded_by_the_limit_on_a_reply(settings: dict[str, Any]) -> None:
    params = SamplingParams(temperature=1.0, max_tokens=64)
    judge = PromptedJudge(Critic("All is well: [1, 1, 1, 1], so \\boxed{Yes}"), params=params, **settings)
    plan = planned(judge, [FOUR_STEPS])
    cost = judge.judge([FOUR_STEPS])[0].cost
    assert plan is not None
    assert plan.low.calls <= cost.calls <= plan.high.calls
    assert plan.low.generated <= cost.generated_tokens <= plan.high.generated == plan.high.calls * 64


def test_tokens_are_counted_by_the_best_means_at_hand() -> None:
    class Words:
        def encode(self, text: str, **_: object) -> list[int]:
            return [0] * len(text.split())

    class Local:
        tokenizer = Words()

    assert count_tokens(Local(), [FOUR_STEPS])._replace(of=len) == (len, "the policy's tokenizer", True)
    assert count_tokens(Local(), []).of("three little words") == 3
    written = replace(FOUR_STEPS, cost=Cost(generated_tokens=2 * len(FOUR_STEPS.text)))
    assert count_tokens(None, [written]).of("four") == pytest.approx(8)
    assert count_tokens(None, [FOUR_STEPS]).of("four") == 1


def test_a_judge_may_plan_for_itself_and_one_that_does_not_is_not_guessed_at() -> None:
    class Own:
        def planned(self, traces: Sequence[Trajectory], tokens: TokenCount) -> Plan:
            return Plan(*(Volume(calls=len(traces)),) * 3)

    class Silent:
        policy: Policy = Critic("")

    assert planned(Own(), [FOUR_STEPS] * 3) == Plan(*(Volume(calls=3),) * 3)
    assert planned(Silent(), [FOUR_STEPS]) is None
    assert planned(Consensus((MonteCarlo(COMPLETER), MonteCarlo(COMPLETER))), []) is not None
