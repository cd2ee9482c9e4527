"""What a labeller asks of a policy that only counts, against what labelling then costs with a scripted completer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from footfall.answers import grade
from footfall.label import Plan, Rehearsal, TokenCount, Volume, count_tokens, planned
from footfall.label.consensus import Consensus
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.omegaprm import BinarySearch
from footfall.label.pav import StepAdvantage
from footfall.label.prompted import PromptedJudge
from footfall.label.reasonflux import TemplateGuided
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import create, declared, load, parts
from footfall.types import Cost, Judge, Judgement, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import FOUR_STEPS, trace
from tests.sizes import SOAK

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


def judge_of(name: str, policy: Policy = COMPLETER, **settings: Any) -> Judge:
    """The labeller with the scripted completer, or another policy, where it takes one."""
    factory = load("labeller", name)
    if "policy" in inspect.signature(factory).parameters:
        settings = {"policy": policy, **settings}
    judge: Judge = factory(**settings)
    return judge


def plan_of(make: Callable[[Rehearsal], Judge], traces: Sequence[Trajectory], *how: Any, **more: Any) -> Plan:
    """What the judge asks of policies that only count."""
    rehearsal = Rehearsal()
    return planned(rehearsal, make(rehearsal).judge, traces, *how, **more)


def counted(name: str, traces: Sequence[Trajectory], **settings: Any) -> Plan:
    """The same of a labeller by name, with a stand-in for each policy that it takes."""

    def make(rehearsal: Rehearsal) -> Judge:
        own = {
            key: rehearsal.policy(each) if isinstance(each, ArithmeticPolicy) else each
            for key, each in settings.items()
        }
        return judge_of(name, rehearsal.policy(COMPLETER), **own)

    return plan_of(make, traces, count_tokens(COMPLETER, traces))


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
    "sorm": [{}],
    "symbolic-mc": [{}],
    "unprm": [{"weighted": False, "draws": 24, "enough": 6, "order": order} for order in ("delta", "sequential", "binary")],
}  # fmt: skip
"""Labellers that roll out prefixes, each with the settings under which its plan is checked."""
ASKING = {"agreeing", "prompted", "consensus", "reasonflux"}
"""Those that put questions to a language model; they are checked below."""
FROM_IDS = {"adaptivestep"}
"""Goes on from the ids of a model's own traces; checked by the command's tests."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "settings"), [(name, each) for name, all in ROLLED.items() for each in all])
@pytest.mark.parametrize("seed", [1, 2] if SOAK else [1])
def test_bounds_hold_and_the_mean_is_near(name: str, settings: dict[str, Any], seed: int) -> None:
    traces = traces_of(24, seed)
    if name == "unprm":
        traces = with_logprobs(traces)
    judge = judge_of(name, **settings)
    plan = counted(name, traces, **settings)
    cost = Cost.total(judgement.cost for judgement in judge.judge(traces))
    assert plan.low.calls <= cost.calls <= plan.high.calls
    assert plan.low.generated <= cost.generated_tokens <= plan.high.generated
    assert plan.expected.generated / FACTOR <= cost.generated_tokens <= plan.expected.generated * FACTOR
    assert plan.low.calls <= plan.expected.calls <= plan.high.calls


@pytest.mark.long
def test_every_labeller_can_be_rehearsed() -> None:
    around = {name for name in parts("labeller") if declared("labeller", name).judges}
    for name in parts("labeller").keys() - ASKING - around - FROM_IDS:
        world = name.removeprefix("truth-") if name.startswith("truth-") else "arithmetic"
        writer = create("policy", f"scripted-{world}")
        plan = counted(name, with_logprobs([t for _, t in create("world", world).traces(writer, 4, seed=3)]))
        assert (plan.high.calls > 0) == (name in ROLLED), f"{name}: a labeller that rolls out needs a line in ROLLED"


# By hand


def test_monte_carlo_counts_distinct_prefixes() -> None:
    """Four steps, the last of which is the outcome: three prefixes of 8 rollouts; a second equal trace adds none."""
    ten_each = TokenCount(lambda text: 10.0, "ten a text")
    again = [FOUR_STEPS, replace(FOUR_STEPS, id="again")]
    for traces in ([FOUR_STEPS], again):
        plan = plan_of(lambda r: MonteCarlo(r.policy(), rollouts=8), traces, ten_each)
        assert plan.low.calls == plan.expected.calls == plan.high.calls == 24
        assert plan.expected.generated == 8 * (30 + 20 + 10)
        assert plan.expected.prompt == 8 * (20 + 30 + 40)
        assert plan.expected.cached == 7 * (20 + 30 + 40)
    apart = plan_of(lambda r: MonteCarlo(r.policy(), rollouts=8), again, ten_each, chunk=1)
    assert apart.low.calls <= apart.expected.calls == apart.high.calls == 48, "chunks without a store share nothing"
    stored = plan_of(lambda r: MonteCarlo(r.policy(), rollouts=8), again, ten_each, chunk=1, stored=True)
    assert stored.low.calls == stored.expected.calls == stored.high.calls == 24, "with a store they do"


def test_a_right_trace_costs_a_binary_search_nothing_and_a_wrong_one_log2_probes() -> None:
    def plan(given: Trajectory) -> Plan:
        return plan_of(lambda r: BinarySearch(r.policy(), rollouts=8), [given])

    assert plan(FOUR_STEPS).high == Volume()
    for n in (1, 2, 3, 7, 20, 100):
        wrong = plan(trace(*(f"Step {k}." for k in range(n - 1)), "The answer is 8."))
        assert wrong.high.calls <= 8 * n.bit_length(), "ceil(log2(n + 1)) probes"
        assert wrong.low.calls >= 8 * (n.bit_length() - 2)


def test_a_prover_of_its_own_doubles_the_rollouts() -> None:
    alone = plan_of(lambda r: StepAdvantage(r.policy(), rollouts=4), [FOUR_STEPS])
    proved = plan_of(lambda r: StepAdvantage(r.policy(), r.policy(), rollouts=4), [FOUR_STEPS])
    assert alone.expected.calls == 16 and proved.expected.calls == 32, "four prefixes, the problem itself among them"


def test_a_consensus_takes_what_its_judges_take() -> None:
    def both(r: Rehearsal) -> Judge:
        policy = r.policy()
        return Consensus((MonteCarlo(policy, rollouts=4), MonteCarlo(policy, rollouts=2)))

    assert plan_of(both, [FOUR_STEPS]).expected.calls == 18
    assert plan_of(both, [FOUR_STEPS], stored=True).expected.calls == 12, "a store has four of the six"
    assert plan_of(both, []) == Plan(Volume(), Volume(), Volume())


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
    [{}, {"prompts": ("reason", "list"), "n": 3}, {"form": "step"}, {"meta": True}, {"form": "first-error", "n": 3}],
)
@pytest.mark.parametrize("reply", ["All is well: [1, 1, 1, 1], so \\boxed{Yes}", "\\boxed{-1}", "I cannot say."])
def test_questions_are_bounded_by_the_limit_on_a_reply(settings: dict[str, Any], reply: str) -> None:
    params = SamplingParams(temperature=1.0, max_tokens=64)
    plan = plan_of(lambda r: PromptedJudge(r.policy(), params=params, **settings), [FOUR_STEPS])
    cost = PromptedJudge(Critic(reply), params=params, **settings).judge([FOUR_STEPS])[0].cost
    assert plan.low.calls <= cost.calls <= plan.high.calls
    assert plan.low.generated <= cost.generated_tokens <= plan.high.generated == plan.high.calls * 64
    assert plan.high.prompt > plan.high.calls * len(FOUR_STEPS.problem.text) / 4, "the question is read each time"


def test_a_template_is_asked_for_once_and_followed_by_every_solution() -> None:
    params = SamplingParams(temperature=1.0, max_tokens=64)
    plan = plan_of(lambda r: TemplateGuided(r.policy(), solutions=3, params=params), [FOUR_STEPS])
    cost = TemplateGuided(Critic("1. Add."), solutions=3, params=params).judge([FOUR_STEPS])[0].cost
    assert plan.low.calls == plan.expected.calls == plan.high.calls == cost.calls == 4


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


# A labeller that nobody has heard of


@dataclass
class Stubborn:
    """Asks for the whole trace again and again until half of what comes is right, and shares nothing."""

    policy: Policy
    most: int = 5
    name: str = "stubborn"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        found = []
        for given in trajectories:
            cost = Cost()
            for k in range(self.most):
                row = self.policy.sample([given.prefix(1)], 4, first=4 * k)[0]
                cost += Cost.total(completion.cost for completion in row)
                if sum(bool(grade(c.after(given.prefix(1), "me")).correct) for c in row) >= 2:
                    break
            found.append(Judgement(given.id, (1.0,) * len(given.steps), self.name, cost=cost))
        return found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_labeller_of_ones_own_needs_nothing_for_its_estimate(seed: int) -> None:
    traces = traces_of(24, seed)
    traces += [replace(each, id=f"{each.id}/again") for each in traces[:4]]
    plan = plan_of(lambda r: Stubborn(r.policy()), traces, count_tokens(COMPLETER, traces))
    cost = Cost.total(said.cost for said in Stubborn(COMPLETER).judge(traces))
    assert plan.low.calls <= cost.calls <= plan.high.calls == 28 * 20, "it shares nothing"
    assert plan.low.generated <= cost.generated_tokens <= plan.high.generated
    assert plan.expected.generated / FACTOR <= cost.generated_tokens <= plan.expected.generated * FACTOR


def test_of_many_traces_some_stand_for_all() -> None:
    few = traces_of(40, 3)
    many = [
        replace(t, id=f"{t.id}/{i}", problem=replace(t.problem, id=f"{t.problem.id}/{i}"))
        for i in range(20)
        for t in few
    ]
    one, all_of_them = (plan_of(lambda r: MonteCarlo(r.policy(), rollouts=2), traces) for traces in (few, many))
    assert all_of_them.expected.calls == pytest.approx(20 * one.expected.calls, rel=0.1)
