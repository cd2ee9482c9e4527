"""PATS: Process-Level Adaptive Thinking Mode Switching (Wang et al., arXiv 2505.19250).

Each step is the best of 8, 4 or 2 candidates by a PRM; how good it is, r, sets how many the next step gets:

    r >= .85  one mode simpler;   r < .75  complex;   else the mode stays;   r < .4  refused once and redone in complex mode

What differs: the writer is scripted, and the PRM is the truth of the steps, blurred by a normal error on the scale of logits:
of right steps 59% have r >= .85, 12% lie between .75 and .85 and 10% below .4, of wrong ones 2% have r >= .85. Tokens
are those of all candidates, as in the paper. "Keeps the accuracy" is read as two points. Problems are of the hard tier
(7 to 9 operations): on the default ones the complex mode had 98 of 100 right, and no room to differ. What switching loses
lies near those two points, so it is measured on far more problems than the rest.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.policy.protocol import SamplingParams
from footfall.search import PATS, Searcher
from footfall.simulate import Blurred
from footfall.types import Cost
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

RECIPE = Recipe(
    name="pats",
    paper="PATS: Process-Level Adaptive Thinking Mode Switching",
    arxiv="2505.19250",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="7,000 held-out problems of the hard tier a seed for PATS and the complex mode, the first 600 of them for the other "
    "modes; scripted policy, graded PRM of known quality.",
    claims=(
        Claim(
            "Switching keeps the accuracy of the complex mode.",
            metric="accuracy",
            direction="higher", baseline="all complex", method="PATS", margin=-0.02,
            stand_in="The paper's judge is a trained PRM; here it is the truth of the steps, blurred to graded values.",
        ),
        Claim(
            "Switching the mode per step beats staying in the simple one.",
            metric="accuracy",
            direction="higher", baseline="all simple", method="PATS, first 600",
        ),
        Claim(
            "Switching spends fewer tokens than the complex mode.",
            metric="generated tokens a problem",
            direction="lower", baseline="tokens, all complex", method="tokens, PATS", beside=("tokens, all simple",),
        ),
        Claim(
            "Redoing a bad step once is more accurate than never redoing one.",
            metric="accuracy",
            direction="higher", baseline="no penalty", method="PATS, first 600", beside=("unlimited penalty",),
        ),
        Claim(
            "Redoing a bad step once spends fewer tokens than redoing it without limit.",
            metric="generated tokens a problem",
            direction="lower", baseline="tokens, unlimited penalty", method="tokens, PATS, first 600",
            beside=("tokens, no penalty",),
        ),
    ),
)  # fmt: skip
METHODS = {
    "PATS": PATS(),
    "all simple": PATS(initial=2, locked=True),
    "all complex": PATS(locked=True),
    "no penalty": PATS(penalty_times=0),
    "unlimited penalty": PATS(penalty_times=100),
}
PART = 500
"""Problems whose trees are held at a time."""


def measure(trial: Trial) -> Outcome:
    """Accuracy and tokens of each way to set the number of candidates."""
    world = ArithmeticWorld() if trial.quick else ArithmeticWorld.at("hard")
    problems, some = world.problems(trial.size(7000, 4), trial.seed, split="test"), trial.size(600, 4)
    prm = Blurred(TruthJudge(), seed=trial.seed)
    params = SamplingParams(temperature=0.6, seed=trial.seed, max_tokens=64)
    arms: dict[str, list[float]] = {}
    costs: list[Cost] = []
    for name, method in METHODS.items():
        searcher = Searcher(ArithmeticPolicy(), prm, method, params=params, separator="\n")
        arms[name], arms[f"tokens, {name}"] = [], []
        given = problems if name in ("PATS", "all complex") else problems[:some]
        for at in range(0, len(given), PART):
            results = searcher.solve(given[at : at + PART])
            arms[name] += [float(r.chosen is not None and bool(r.chosen.correct)) for r in results]
            arms[f"tokens, {name}"] += [float(r.cost.generated_tokens) for r in results]
            costs += [r.cost for r in results]
    for name in ("PATS", "tokens, PATS"):
        arms[f"{name}, first 600"] = arms[name][:some]
    return Outcome(arms, Cost.total(costs))
