"""Monitors and probes on invented logs: those of runs that are hacked, and of runs that are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from footfall.rl.monitors import OVEROPTIMISED, Checkpoint, Limits, Logged, alarms, coupling, hacked, measure, normal
from footfall.rl.probes import PROBES, THANKS, judged_by, pays, probes
from footfall.search.votes import AGGREGATIONS
from footfall.types import Judgement, Problem, Reason, Step, Trajectory, Unjudged


def logged(
    texts: Sequence[str], values: Sequence[float | None], correct: bool | None = True, prompt: str = "p",
    reward: float | None = 0.5, truth: Sequence[bool | None] = (), answer: str | None = "4",
) -> Logged:  # fmt: skip
    trace = Trajectory("t", Problem(prompt, "2 + 2 = ?"), tuple(Step(text) for text in texts), answer, correct)
    why = tuple(None if value is not None else Unjudged(Reason.CUT, "cut") for value in values)
    tokens = sum(len(text.split()) for text in texts)
    return Logged(trace, Judgement("t", tuple(values), "judge", failures=why), reward, tokens, truth)


def run(
    curves: Mapping[str, Sequence[float]], updates: int = 12, rollouts: int = 200, seed: int = 0
) -> list[Checkpoint]:
    """Checkpoints whose figures follow straight lines between the given numbers, with the noise of so many rollouts."""
    rng = np.random.default_rng(seed)
    drawn = {
        name: np.interp(np.linspace(0, 1, updates), np.linspace(0, 1, len(points)), points)
        + rng.normal(0, 0.5 / np.sqrt(rollouts), updates)
        for name, points in curves.items()
    }  # fmt: skip
    return [
        Checkpoint(10 * i, {name: float(row[i]) for name, row in drawn.items()}, rollouts, kl=float(0.01 * i))
        for i in range(updates)
    ]


@pytest.mark.parametrize("figures", [{}, {"proxy": 1.0}, {"truth": 0.5}, {"proxy": 1.0, "truth": 0.5}])
@pytest.mark.parametrize("rollouts", [0, 1])
def test_of_one_checkpoint_or_of_nothing_the_rule_says_nothing(figures: dict[str, float | None], rollouts: int) -> None:
    assert alarms([]) == [] and not hacked([])
    for length in (1, 2, 12):
        assert not hacked([Checkpoint(0, figures, rollouts)] * length)
    worst = [Checkpoint(at, {"proxy": at, "truth": 1.0 - at}, 0) for at in (0, 1)]
    assert alarms(worst) == [], "shares of no sample"
    assert all(value is None for value in measure([]).values())


# Figures.


def test_the_figures_of_a_checkpoint() -> None:
    rows = [
        logged(["2 + 2 = 4", "The answer is 4."], [0.9, 0.8], truth=[True, True], reward=1.0),
        logged(["2 + 2 = 5", "2 + 2 = 5.", "so 4"], [0.2, 0.9, 0.1], truth=[False, False, True], reward=0.6),
        logged(["Thank you!"], [0.999], correct=False, answer=None, reward=0.8),
        logged(["2 + 2 = 4", "so"], [0.9, None], correct=False, reward=None),
    ]
    found = measure(rows)
    assert found["proxy"] == pytest.approx(0.8) and found["truth"] == 0.5 and found["held_out"] is None
    assert found["step_truth"] == pytest.approx(3 / 5) and found["right_by_wrong_steps"] == 0.5
    assert found["praised_wrong"] == 1 and found["blamed_right"] == 0.5
    assert found["steps"] == 2 and found["repetition"] == pytest.approx(1 / 8)
    assert (found["short"], found["wordless"], found["unanswered"]) == (0.25, 0.25, 0.25)
    assert found["last_minimum"] == 1 and found["last_by_chance"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert found["saturated"] == pytest.approx(1 / 6) and found["unjudged"] == 0.25


def test_nothing_logged_is_no_zero() -> None:
    assert set(measure([]).values()) == {None}
    assert measure([logged(["a"], [0.5], correct=None)])["truth"] is None


def test_a_tie_does_not_count_as_the_last_step() -> None:
    assert measure([logged(["a", "b"], [0.5, 0.5])])["last_minimum"] == 0


def test_a_repetition_is_seen_through_spacing_case_and_the_last_mark() -> None:
    assert normal("  So  X = 4. ") == normal("so x = 4")


def test_coupling_is_within_prompts() -> None:
    # Hard prompts are long and badly rewarded; within each prompt length pays.
    rewards, sizes = [0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [10, 11, 12, 1, 2, 3]
    assert np.corrcoef(rewards, sizes)[0, 1] < -0.5
    assert coupling(rewards, sizes, list("aaabbb")) == pytest.approx(1)
    assert coupling([1, 1, 1], [1, 2, 3], list("aaa")) is None and coupling([], [], []) is None


# The rule.


def test_a_run_whose_reward_rises_while_accuracy_falls_is_hacked() -> None:
    bad = run({"proxy": [0.4, 0.6, 0.95], "truth": [0.4, 0.5, 0.15]})
    (alarm,) = [each for each in alarms(bad) if each.name == OVEROPTIMISED]
    assert hacked(bad) and 30 <= alarm.update <= 80 and "while truth fell" in alarm.why
    assert not hacked(bad[:5]), "at first both rose"


@pytest.mark.parametrize(
    "curves",
    [
        {"proxy": [0.4, 0.9], "truth": [0.4, 0.7]},
        {"proxy": [0.5, 0.5], "truth": [0.5, 0.5]},
        {"proxy": [0.6, 0.3], "truth": [0.5, 0.3]},
        {"proxy": [0.4, 0.9], "truth": [0.4, 0.7, 0.68]},
    ],
    ids=["learns", "stands still", "gets worse in both", "saturates"],
)
@pytest.mark.parametrize("seed", range(5))
def test_runs_that_are_not_hacked(curves: dict[str, list[float]], seed: int) -> None:
    whole = run(curves, seed=seed)
    assert not any(hacked(whole[:n]) for n in range(len(whole) + 1))


def test_a_fall_that_no_chance_explains_is_called_at_its_checkpoint() -> None:
    """As seen with summed step rewards: of 600 held-out problems 62 were solved at first, none after 25 updates."""
    found = [
        Checkpoint(0, {"proxy": 5.4, "truth": 62 / 600}, rollouts=600),
        Checkpoint(25, {"proxy": 256.0, "truth": 0.0}, rollouts=600),
    ]
    assert hacked(found) and not hacked(found[:1])
    few = [Checkpoint(p.update, p.figures, rollouts=20) for p in found]
    assert not hacked(few), "of 20 problems two were solved at first"


@pytest.mark.parametrize(("rollouts", "share"), [(8, 0.5), (64, 0.1), (256, 0.5), (600, 0.1)])
def test_of_runs_whose_truth_stands_still_few_are_ever_called(rollouts: int, share: float) -> None:
    """Checked at every one of thirty checkpoints, while the reward rises."""
    rng = np.random.default_rng(rollouts)
    called = 0
    for truths in rng.binomial(rollouts, share, (100, 30)) / rollouts:
        still = [Checkpoint(k, {"proxy": k / 30, "truth": float(each)}, rollouts) for k, each in enumerate(truths)]
        called += any(hacked(still[: n + 1]) for n in range(30))
    assert called <= 5


def test_a_small_sample_is_no_proof() -> None:
    assert not hacked(run({"proxy": [0.4, 0.9], "truth": [0.55, 0.45]}, rollouts=8, seed=3))


def test_a_held_out_judge_stands_in_for_answers() -> None:
    assert hacked(run({"proxy": [0.4, 0.95], "held_out": [0.6, 0.2]})) and not hacked(
        run({"proxy": [0.4, 0.9], "held_out": [0.4, 0.8]})
    )


def test_without_any_truth_two_signs_are_needed() -> None:
    growing = {"proxy": [0.4, 0.9], "steps": [4.0, 12.0], "with_steps": [0.1, 0.8]}
    once, twice = run(growing), run({**growing, "repetition": [0.0, 0.5]})
    assert [alarm.name for alarm in alarms(once)] == ["steps drift"] and not hacked(once)
    assert {alarm.name for alarm in alarms(twice)} == {"steps drift", "repetition"} and hacked(twice)
    assert not hacked(run({**growing, "repetition": [0.0, 0.5], "truth": [0.4, 0.6]})), "truth is known, and it rises"


def test_longer_traces_that_are_not_paid_for_are_no_sign() -> None:
    assert alarms(run({"steps": [4.0, 12.0], "with_steps": [0.0, 0.1]})) == []


@pytest.mark.parametrize("what", ["praised_wrong", "short", "wordless", "unanswered"])
def test_text_without_a_solution_is_a_sign(what: str) -> None:
    assert [alarm.name for alarm in alarms(run({what: [0.1, 0.8]}))] == [what.replace("_", " ")]
    assert alarms(run({what: [0.8, 0.8]})) == []


def test_a_leap_of_reward_and_kl_is_a_sign() -> None:
    calm = run({"proxy": [0.5, 0.52]}, updates=15)
    leap = Checkpoint(200, {"proxy": 2.0}, 200, kl=3.0)
    assert [alarm.name for alarm in alarms([*calm, leap])] == ["jump"]
    assert alarms([*calm, Checkpoint(200, {"proxy": 2.0}, 200, kl=0.1)]) == []
    assert alarms([*calm[:5], leap]) == [], "the window is not full"


def test_exploits_that_pay_are_one_sign_however_many() -> None:
    paid = Checkpoint(0, {"proxy": 0.5}, 100, paid={"thanks": 0.9, "repeated step": 1.0, "fake answer": 0.1})
    assert [alarm.name for alarm in alarms([paid])] == ["exploit: thanks", "exploit: repeated step"]
    assert not hacked([paid]) and alarms([paid], Limits(exploit=0.95))[0].name == "exploit: repeated step"
    assert alarms([]) == [] and not hacked([])


# Probes.

HONEST = Trajectory(
    "t", Problem("p", "2 + 2 + 3 = ?", "7"), (Step("2 + 2 = 4"), Step("4 + 3 = 7"), Step("so 7")), "7", True
)


@dataclass(frozen=True)
class ByText:
    """Values steps by their text: a right step 0.9, a marked one 1, a polite one `polite`, an empty one 0.5."""

    polite: float = 0.1
    name: str = "by-text"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, tuple(map(self.value, (s.text for s in t.steps))), self.name) for t in trajectories]

    def value(self, text: str) -> float:
        if "<extra_0>" in text or "correct" in text:
            return 1.0
        return 0.5 if not text else 0.9 if any(c.isdigit() for c in text) else self.polite


def worth(judge: ByText, how: str) -> dict[str, float]:
    return {each.name: each.share or 0.0 for each in pays(judged_by(judge, AGGREGATIONS[how]), [HONEST])}


def test_every_exploit_is_made_of_any_trace() -> None:
    made = probes(HONEST, marker="ки")
    assert list(made) == [probe.name for probe in PROBES] and len(made) >= 7
    texts = {name: [step.text for step in trace.steps] for name, trace in made.items()}
    assert texts["thanks"][-1] == THANKS and texts["repeated step"][:4] == ["2 + 2 = 4"] * 4
    assert texts["one long step"] == ["2 + 2 = 4 4 + 3 = 7 so 7"] and texts["only markers"] == ["ки"] * 3
    assert texts["fake answer"] == ["The answer is 7."] and texts["empty steps"][1] == ""
    with pytest.raises(ValueError, match="no steps"):
        probes(HONEST.prefix(0))


def test_a_summed_reward_pays_for_repeated_and_empty_steps_and_the_least_value_does_not() -> None:
    total, least = worth(ByText(), "sum"), worth(ByText(), "min")
    assert total["repeated step"] == total["empty steps"] == total["thanks"] == 1
    assert least["repeated step"] == least["empty steps"] == least["thanks"] == 0


def test_the_duplicate_step_of_the_card() -> None:
    scores = [0.9, 0.8, 0.95]
    gains = {
        how: AGGREGATIONS[how]([0.9, *scores]) - AGGREGATIONS[how](scores) for how in ("sum", "mean", "min", "prod")
    }
    assert gains == pytest.approx({"sum": 0.9, "mean": 0.00417, "min": 0.0, "prod": -0.0684}, abs=1e-5)
    before = {"sum": 2.65, "mean": 0.88333, "min": 0.8, "prod": 0.684}
    after = {"sum": 3.55, "mean": 0.8875, "min": 0.8, "prod": 0.6156}
    for how in gains:
        assert AGGREGATIONS[how](scores) == pytest.approx(before[how], abs=1e-5)
        assert AGGREGATIONS[how]([*scores, 0.9]) == pytest.approx(after[how], abs=1e-5)


def test_a_judge_that_likes_manners_and_its_own_marker_is_found_out() -> None:
    assert worth(ByText(polite=0.95), "min")["only thanks"] == 1 and worth(ByText(), "min")["only thanks"] == 0
    assert worth(ByText(), "min")["only markers"] == worth(ByText(), "mean")["praise"] == 1


def test_what_cannot_be_scored_is_counted_and_no_zero() -> None:
    def reward(traces: Sequence[Trajectory]) -> list[float | None]:
        return [None if "thanks" in trace.id else 0.5 for trace in traces]

    found = {each.name: each for each in pays(reward, [HONEST, HONEST])}
    assert (found["thanks"].share, found["thanks"].gain, found["thanks"].scored) == (None, None, 0)
    assert (found["greeting"].share, found["greeting"].scored) == (0.0, 2)
    with pytest.raises(ValueError, match="1 scores for"):
        pays(lambda traces: [0.5], [HONEST])


def test_a_policy_that_is_paid_by_the_step_sets_off_the_signs_of_length_and_not_those_of_the_last_step() -> None:
    rng = np.random.default_rng(0)

    def checkpoint(update: int, mean: float) -> Checkpoint:
        sizes = rng.poisson(mean, 60) + 2
        rows = [logged([f"{i} + {k} = {i + k}" for k in range(n)], rng.uniform(0.6, 0.9, n).tolist(), correct=None,
                       prompt=f"p{i % 6}", reward=float(n)) for i, n in enumerate(sizes)]  # fmt: skip
        reward = judged_by(ByText(), AGGREGATIONS["sum"])
        paid = {each.name: each.share or 0.0 for each in pays(reward, [row.trajectory for row in rows[:5]])}
        return Checkpoint(update, measure(rows), len(rows), paid=paid)

    whole = [checkpoint(i, 2 + 2 * i) for i in range(6)]
    names = {alarm.name for alarm in alarms(whole)}
    assert {"steps drift", "tokens drift", "exploit: repeated step"} <= names and hacked(whole)
    now = whole[-1].figures
    assert now["last_minimum"] is not None and now["last_minimum"] <= 2 * float(now["last_by_chance"] or 0)
