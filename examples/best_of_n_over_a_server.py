"""Best-of-N over an OpenAI-compatible server (vLLM, SGLang, llama.cpp): it writes, a judge here chooses.

python examples/best_of_n_over_a_server.py --url http://localhost:8000/v1 --n 8 --judge runs/prm
"""

from __future__ import annotations

import argparse
import sys

import footfall
from footfall.policy.http import http_policy
from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, Searcher
from footfall.types import Problem

PROBLEMS = [
    Problem("pens", "Tom has 3 boxes of 4 pens. How many pens? State the answer as \\boxed{}.", "12"),
    Problem("marbles", "Mia has 14 marbles and loses 5. How many? State the answer as \\boxed{}.", "9"),
]


def main(words: list[str] | None = None) -> int:
    """Answers with their scores, and what they cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://localhost:8000/v1")
    parser.add_argument("--model", default=None, help="needed where the server has several")
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--judge", default="length", help="a PRM: its folder or hub id; length prefers short steps")
    given = parser.parse_args(words)
    policy = http_policy(given.url, model=given.model)
    method = BestOf(given.n, rule="best", aggregation="min")
    searcher = Searcher(policy, footfall.load(given.judge), method, params=SamplingParams(max_tokens=512))
    results = searcher.solve(PROBLEMS)
    for result in results:
        if result.failure is not None:
            sys.stdout.write(f"{result.problem.id}: failed: {result.failure}\n")
            continue
        correct = None if result.chosen is None else result.chosen.correct
        right = {True: "right", False: "wrong", None: "not checked"}[correct]
        scores = ", ".join("–" if score is None else f"{score:.2f}" for score in result.scores)
        tokens = result.policy_cost.generated_tokens
        sys.stdout.write(f"{result.problem.id}: {result.answer} ({right}); scores {scores}; {tokens} tokens\n")
    return int(all(result.failure is not None for result in results))


if __name__ == "__main__":
    sys.exit(main())
