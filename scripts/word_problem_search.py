"""The stage `search` of `scripts/word_problems.py`: methods at several widths on the same held-out problems."""

from __future__ import annotations

import argparse
import json
import time

from footfall.drive.rollout_store import StoredPolicy
from footfall.formats import write_parquet
from footfall.metrics.intervals import bootstrap_mean, paired_difference
from footfall.registry import create
from footfall.search import Searcher
from footfall.search.state import Method
from footfall.types import Cost, content_key
from scripts.word_problem_data import SEPARATOR, Parts, spread
from scripts.word_problem_models import Facts, drawing, keep, open_policy, open_prm, tell

STEPWISE = ("beam-search", "dvts", "mcts")
METHODS = ("best-of-n", "weighted-vote", *STEPWISE)


def method_of(name: str, width: int) -> Method:
    """The cards' defaults at this width: solutions, beams, or paths of a tree with four children a node."""
    settings = {"paths": width, "width": 4} if name == "mcts" else {"n": width}
    method: Method = create("searcher", name, **settings)
    return method


def searched(args: argparse.Namespace, parts: Parts) -> Facts:
    """One sample, then the majority vote and each method at each width, on the same problems with the PRM of --labels.

    Whole solutions come from the store, which the methods share; a search by steps keeps its prefixes in the policy.
    What an earlier call has searched with these models is kept.
    """
    problems = [item.problem for item in spread(parts.held_out, args.problems or 50)]
    write_parquet(args.out / "search" / "problems.parquet", problems, "problem")
    policy, judge = open_policy(args), open_prm(args, args.labels, cache_tokens=1 << 20)
    stored = StoredPolicy(policy, args.out / "rollouts", charge="always", chunk=1 << 15)
    facts = earlier(args, content_key(policy.name, judge.name, [problem.id for problem in problems], args.seed))
    widths = [(name, width) for width in args.widths for name in ("majority", *args.methods)]
    for name, width in [("majority", 1), *widths]:
        called = "single" if width == 1 else f"{name} {width}"
        if called in facts:
            continue
        started, method = time.monotonic(), method_of(name, width)
        judge.forget()  # each method pays for all that its judge reads
        reads, writes = judge if method.judged else None, policy if name in STEPWISE else stored
        results = Searcher(writes, reads, method, params=drawing(args), separator=SEPARATOR).solve(problems)
        right = [float(r.chosen is not None and bool(r.chosen.correct)) for r in results]
        cost = Cost.total(r.cost for r in results)
        failures = {r.problem.id: r.failure for r in results if r.failure is not None}
        facts[called] = {
            "method": method.name, "right": "".join(str(int(value)) for value in right),
            "accuracy": list(bootstrap_mean(right, seed=args.seed)),
            "generated": cost.generated_tokens / len(problems), "scored": cost.scored_tokens / len(problems),
            "failed": len(failures), "failures": failures, "seconds": round(time.monotonic() - started, 1),
        }  # fmt: skip
        if name != "majority":
            votes = [float(digit) for digit in facts[f"majority {width}"]["right"]]
            facts[called]["− majority"] = list(paired_difference(right, votes, seed=args.seed))
        tell(f"{called}: {json.dumps(facts[called])}")
        keep(facts, args)
    return facts


def earlier(args: argparse.Namespace, of: str) -> Facts:
    """What was searched before with the same models on the same problems."""
    file = args.out / "search" / "facts.json"
    found: Facts = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found if found.get("of") == of else {"of": of}
