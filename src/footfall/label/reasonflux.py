"""ReasonFlux-PRM's labels of long thinking (arXiv 2506.18896): three signals of each step, and one of the whole trajectory.

A trace is thinking, steps s_1..s_T, and then a response, a_1..a_m. With sim a similarity of texts,

    r_align = max_j sim(s_t, a_j)                                                does the response take it up?
    r_qual  = a judge's value of s_t
    r_coh   = log e^{c/τ} / (e^{c/τ} + Σ_{s'} e^{sim(s_t, s')/τ}),   c = sim(s_t, s_{t−1}), s_0 the question, s' of other traces
    r_step  = Σ_k w_k r_k,   w = softmax(r_align, r_qual, r_coh);   a signal that is missing is left out, as r_coh is where
              no trace of another problem is at hand: then every step would fit as well as can be
    r_final = share of N answers that are right where the policy follows a template of the solution

What differs: without a sentence encoder, sim is the cosine of word counts; r_coh is cut at −5, and r_step brought into [0, 1].
The response's steps have no label of their own; r_final is the aspect `trajectory` of the last one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from footfall.drive.rollouts import Tally, drawn, write
from footfall.judging import Traits
from footfall.label.consensus import judge_by_name
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.types import Cost, Judge, Judgement, Problem, Reason, Trajectory, Unjudged, content_key, failures_of

LOWEST = -5.0
"""What the logarithm of a step that fits nothing is cut at."""
NOT_THOUGHT = Unjudged(Reason.NOT_ASKED, "a step of the response: thinking is labelled")
END_OF_THINKING = "</think>"
TEMPLATE = """Read the problem and the solution. Write the strategy of the solution as a short template: numbered instructions \
that somebody else could follow for this problem, without any result of the solution.

[Problem]
{problem}

[Solution]
{solution}"""
FOLLOW = "{problem}\n\nFollow this strategy:\n{template}"


def similarity(one: str, other: str) -> float:
    """The cosine of word counts; numbers are words too."""
    a, b = (Counter(re.findall(r"\w+", text.lower())) for text in (one, other))
    length = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return sum(n * b[word] for word, n in a.items()) / length if length else 0.0


def coherence(previous: float, others: Sequence[float], tau: float) -> float:
    """log e^{s/τ} / (e^{s/τ} + Σ e^{s'/τ}): 0 where nothing else is near, cut at −5."""
    highest = max(previous, *others) if others else previous
    total = math.fsum(math.exp((each - highest) / tau) for each in (previous, *others))
    return max(LOWEST, (previous - highest) / tau - math.log(total))


def fused(signals: Sequence[float | None]) -> float | None:
    """Σ_k w_k r_k with w = softmax(r), over the signals that there are."""
    known = [signal for signal in signals if signal is not None]
    weights = [math.exp(signal) for signal in known]
    return math.fsum(w * r for w, r in zip(weights, known, strict=True)) / math.fsum(weights) if known else None


def sample_score(steps: Sequence[float | None], final: float | None, alpha: float = 1.0) -> float | None:
    """r̂ = mean_t r_step + α r_final: by it samples are selected for tuning, and the best of N is chosen."""
    known = [value for value in steps if value is not None]
    return fmean(known) + alpha * final if known and final is not None else None


def mixed_reward(outcome: float, score: float, beta: float = 0.8) -> float:
    """(1 − β) r_outcome + β r̂: what a policy is trained on."""
    return (1 - beta) * outcome + beta * score


def thinking_steps(trajectory: Trajectory) -> int:
    """How many steps are thinking: those up to the closing tag; all but the last where there is none."""
    closed = [k for k, step in enumerate(trajectory.steps, 1) if END_OF_THINKING in step.text]
    return closed[-1] if closed else max(0, len(trajectory.steps) - 1)


@dataclass(frozen=True)
class TemplateGuided:
    """r_final, as the value of a judgement: the policy states the strategy of a trace, then answers by it N times."""

    policy: Policy
    solutions: int = 4
    params: SamplingParams = SamplingParams()

    @property
    def name(self) -> str:
        return f"template({self.policy.name},n={self.solutions},{drawn(self.params)})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("solutions", self.solutions),))

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One value a trace; none where the problem has no reference answer, or the template or all answers failed or were cut.

        An answer that was cut is not right, and one whose call failed is none.
        """
        asked = [_asked(t, TEMPLATE.format(problem=t.problem.text, solution=t.text)) for t in trajectories]
        templates = [row[0] for row in write(self.policy, asked, 1, self.params)]
        guided = [
            _asked(t, FOLLOW.format(problem=t.problem.text, template="\n".join(s.written for s in template.steps)))
            for t, template in zip(trajectories, templates, strict=True)
        ]
        rows = zip(
            trajectories, templates, guided, write(self.policy, guided, self.solutions, self.params), strict=True
        )
        found = []
        for trace, template, prefix, answers in rows:
            tally = Tally()
            tally.add(prefix, answers, self.policy.name)
            told = template.finish == "end" and tally.silence is None and trace.problem.answer is not None
            value = tally.successes / tally.rollouts if told else None
            cost = Cost.total([template.cost, *(c.cost for c in answers)])
            found.append(Judgement(trace.id, (None,) * len(trace.steps), self.name, value, cost=cost))
        return found


def _asked(trace: Trajectory, prompt: str) -> Trajectory:
    problem: Problem = replace(trace.problem, prompt=prompt)
    return Trajectory(trace.id, problem, separator=trace.separator)


@dataclass(frozen=True)
class Fused:
    """A judge that fuses the three signals of each thinking step; `final` values the trajectory, by its own word on it."""

    quality: Judge
    final: Judge
    tau: float = 0.1
    others: int = 4
    """Steps of other traces that a step is held against."""
    similar: Callable[[str, str], float] = similarity

    @property
    def name(self) -> str:
        return f"reasonflux({self.quality.name};{self.final.name},tau={self.tau:g},others={self.others})"

    @property
    def judges(self) -> tuple[Judge, Judge]:
        """Those that it is made of: what they cost is what it costs."""
        return self.quality, self.final

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Labels of thinking steps, with the signals as aspects and `trajectory` at the last step."""
        said = zip(trajectories, self.quality.judge(trajectories), self.final.judge(trajectories), strict=True)
        return [self._judgement(trace, one, two, trajectories) for trace, one, two in said]

    def _judgement(self, trace: Trajectory, one: Judgement, two: Judgement, among: Sequence[Trajectory]) -> Judgement:
        n, end = len(trace.steps), thinking_steps(trace)
        texts, response = [s.text for s in trace.steps[:end]], [s.text for s in trace.steps[end:]]
        align = [max((self.similar(text, answer) for answer in response), default=None) for text in texts]
        rng = Random(content_key("reasonflux", trace.key))
        foreign = [s.text for other in among if other.problem.id != trace.problem.id for s in other.steps]
        coherent: list[float | None] = []
        for before, text in zip([trace.problem.text, *texts], texts, strict=False):
            near = [self.similar(text, other) for other in rng.choices(foreign, k=self.others)] if foreign else []
            coherent.append(coherence(self.similar(text, before), near, self.tau) if near else None)
        steps = [fused(signals) for signals in zip(align, one.values[:end], coherent, strict=True)]
        late = (None,) * (n - end)
        aspects = {"align": (*align, *late), "quality": (*one.values[:end], *late), "coherence": (*coherent, *late)}
        aspects["trajectory"] = (*(None,) * (n - 1), two.value) if n else ()
        return Judgement(
            trace.id, (*(None if r is None else min(1.0, max(0.0, r)) for r in steps), *late), self.name, two.value,
            aspects=aspects, failures=failures_of([None] * end + [NOT_THOUGHT] * (n - end)), cost=one.cost + two.cost,
        ).check(trace)  # fmt: skip


@register("labeller", "reasonflux", Declared(unmeasured="it labels thinking with a response, which no world writes"))
def reasonflux(
    policy: Policy,
    quality: str = "prompted",
    solutions: int = 4,
    tau: float = 0.1,
    params: SamplingParams = SamplingParams(),
) -> Fused:
    """Alignment, quality and coherence of thinking steps, fused, and whether the strategy leads to the answer (ReasonFlux)."""
    return Fused(judge_by_name(quality, policy=policy, params=params), TemplateGuided(policy, solutions, params), tau)
