"""Write what the docs show of the code and of stored figures: between the marks `<!-- table: NAME -->` and `<!-- end -->`,
the charts of `label_costs.json`, `search_costs.json`, `credit_gradients.json`, `kinds.json` and `coder_0_5b_rl.json`, those of
the page of results, and the intervals in `search_costs.json`.

    python -m scripts.write_tables            # write them
    python -m scripts.write_tables --check    # 1 if a page is not up to date
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from footfall.registry import parts
from footfall.reports.pictures import files_of
from footfall.reward.family import Family, families
from footfall.studies.credit_report import CREDIT
from footfall.studies.credits import CreditGradients
from footfall.studies.kind_report import KINDS, after_more
from footfall.studies.kinds import Kinds
from footfall.studies.label_report import LABELS
from footfall.studies.labels import LabelCosts
from footfall.studies.report import folded
from footfall.studies.search import SearchCosts
from footfall.studies.search_report import SEARCH
from scripts import (
    kinds_measure,
    label_rates,
    loop_measure,
    mixed_table,
    pool_curves,
    result_charts,
    rl_arms,
    word_problem_tables,
)

DOCS = Path(__file__).parent.parent / "docs"
RL_ARMS = "coder_0_5b_rl"
"""The file of real policies trained with several credits, and the beginning of its charts' names."""
_BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_VALUE = {
    "good": "probability of the good class",
    "margin": "p(good) - p(bad), from -1 to 1",
    "sigmoid": "sigmoid of one output",
    "raw": "one output as it is",
}


def _stored(name: str) -> Any:
    return json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))


def family_table() -> str:
    """One row a family."""
    head = "| family | checkpoints | value of a step | threshold | licence |\n|---|---|---|---:|---|\n"
    return head + "".join(_row(family, parts("family")[name].summary) for name, family in families().items())


def _row(family: Family, summary: str) -> str:
    published = ", ".join(f"`{name}`" for name in family.published) or summary
    value = _VALUE[family.readout.value]
    if family.verdicts is not None:
        value = "a critique, then p(yes)"
    if family.spans is not None:
        value = "sigmoid of β times the summed log-ratios"
    if family.made_layout is not None:
        value = "as its folder says"
    threshold = "none" if family.threshold is None else f"{family.threshold:g}"
    return f"| `{family.name}` | {published} | {value} | {threshold} | {family.licence} |\n"


@cache
def label_costs() -> LabelCosts:
    """What `footfall bench labels --option docs=docs` measured."""
    return LabelCosts.from_dict(_stored("label_costs"))


@cache
def search_costs() -> SearchCosts:
    """What `footfall bench search --option docs=docs` measured."""
    return SearchCosts.from_dict(_stored("search_costs"))


@cache
def credit_gradients() -> CreditGradients:
    """What `footfall bench credit --option docs=docs` measured."""
    return CreditGradients.from_dict(_stored("credit_gradients"))


@cache
def bench_kinds() -> Kinds:
    """What `footfall bench kinds --option docs=docs` measured."""
    return Kinds.from_dict(_stored("kinds"))


def longer_kinds() -> str:
    """What it found with more passes, beside that."""
    return after_more(bench_kinds(), Kinds.from_dict(_stored("kinds_longer")))


def _label_block(name: str) -> Callable[[], str]:
    return lambda: LABELS.blocks[name](label_costs())


def _search_block(name: str) -> Callable[[], str]:
    return lambda: SEARCH.blocks[name](search_costs())


def _credit_block(name: str) -> Callable[[], str]:
    return lambda: CREDIT.blocks[name](credit_gradients())


def _kinds_block(name: str) -> Callable[[], str]:
    return lambda: KINDS.blocks[name](bench_kinds())


def _words_block(name: str) -> Callable[[], str]:
    return lambda: word_problem_tables.BLOCKS[name](_stored("word_problems"))


def pool_tables() -> str:
    """What `python -m scripts.pool_curves --out docs/pool_curves.json` measured, folded."""
    pools = _stored("pool_curves")["pools"]
    return "\n".join(
        folded(f"{title}: {len(shown)} rules by N", pool_curves.table(shown)) for title, shown in pools.items()
    )


CODER_SUMMARIES = {
    "processbench": "ProcessBench: F1 of the first error by split, of each PRM, of length only beside it, and as published",
    "prmbench": "PRMBench: score by category, of each PRM, of length only beside it, and as published",
    "gsm8k-test": "GSM8K test: accuracy by N of each PRM's choices and votes, and their leads over the majority",
    "math-500": "MATH-500: accuracy by N of each PRM's choices and votes, and their leads over the majority",
    "labels": "What each PRM learned from, what was generated for it, and what it reaches",
}
"""What a folded table has inside, by its title."""


def coder_tables(name: str, *shown: str) -> str:
    """What `python -m scripts.loop evaluate` found of Qwen2.5-Coder-1.5B, folded; of all PRMs or of those that are shown."""
    there = loop_measure.tables_by_title(_stored(name), shown or None)
    return "\n".join(folded(CODER_SUMMARIES[title], table) for title, table in there.items())


def coder_mixed_table() -> str:
    """How good scores of finished solutions must be for a choice among them, by PRM; no name is in two of the files."""
    found = map(_stored, ("coder_1_5b", "coder_1_5b_votes", "coder_1_5b_votes_again"))
    return mixed_table.table({name: facts for each in found for name, facts in each.items()})


def coder_label_table() -> str:
    """What labels that cost as much are worth: PRMs of one kind of label each, all on the same pools."""
    return folded(CODER_SUMMARIES["labels"], loop_measure.label_table(_stored("coder_1_5b_labels")))


ANSWERS: dict[str, tuple[Callable[[Any], result_charts.Answer], str]] = {
    "first-errors": (result_charts.first_errors, "coder_1_5b"),
    "votes": (result_charts.votes, "coder_1_5b_votes"),
    "labels-at-equal-cost": (result_charts.labels, "coder_1_5b_labels"),
    "kinds-by-rows": (result_charts.kinds, "real_kinds"),
    "aggregation": (result_charts.folds, "pool_curves"),
}
"""What stands above the folded tables of the page of results, and the stored figures that it is made of."""


def _answer(name: str) -> result_charts.Answer:
    answer, file = ANSWERS[name]
    return answer(_stored(file))


def _answer_block(name: str) -> Callable[[], str]:
    return lambda: _answer(name).block


def kind_tables() -> str:
    """What `python -m scripts.kinds evaluate` found of kinds of PRMs on a real model."""
    return folded("ProcessBench: F1 and AUC of each kind by split", kinds_measure.tables(_stored("real_kinds")))


def lab_model_table() -> str:
    """What `python -m scripts.measure_lab_model` found of the lab's model, one row a world and tier."""
    found = _stored("lab_model")["measured"]
    head = (
        "| world | one sample right | asked to check | errors that are decisions | nats at decisions, step openings, others | "
        "probe AUC, first errors | all steps |\n|---|---:|---:|---:|---:|---:|---:|\n"
    )
    return head + "".join(_lab_model_row(name, facts) for name, facts in found.items())


def _lab_model_row(name: str, facts: dict[str, Any]) -> str:
    nats = facts["entropy"] or {}
    told = " · ".join(f"{nats[kind]:.2f}" for kind in ("decision", "opening", "other")) if nats else ""
    share = None if facts["errors"] is None else 1 - facts["errors"].get("words", 0.0)
    cells = (
        facts["accuracy"],
        facts["accuracy_checking"],
        share,
        told,
        facts["probe_first_error"],
        facts["probe_all_steps"],
    )
    shown = ("" if c is None else c if isinstance(c, str) else f"{c:.2f}" for c in cells)
    return f"| {name} | {' | '.join(shown)} |\n"


def rl_rows() -> str:
    """What the ledger says of policies that are tables, one row a claim; main claims in bold."""
    rows = _stored("ledger")
    shown = [_rl_row(row) for row in rows if row["world"] == "tables"]
    names = ("system", "claim", "baseline → method", "effect", "95% interval", "seeds", "verdict")
    head = f"| {' | '.join(names)} |\n|---|---|---|---:|---:|---:|---|\n"
    return folded(f"All {len(shown)} claims on policies that are tables", head + "".join(shown))


def _rl_row(row: dict[str, Any]) -> str:
    claim = f"**{row['claim']}**" if row["main"] else row["claim"]
    low, high = row["ci95"]
    means = " → ".join(_mean_of(row[arm], row["scale"]) for arm in ("baseline", "method"))
    name = f"[{row['name']}](ledger.md#{row['name']})"
    effect = f"{row['effect']:+.3f} | {low:+.3f} to {high:+.3f} | {row['seeds']}"
    return f"| {name} | {claim} | {means} | {effect} | {row['verdict']} |\n"


def _mean_of(arm: str, scale: str) -> str:
    """The figure behind an arm's name in the scale of a row."""
    found = re.search(rf"(?:Means: |, ){re.escape(arm)} (-?[0-9.]+[0-9](?:e-?[0-9]+)?|[0-9])", scale)
    return found[1] if found else ""


def both_scales() -> str:
    """Claims whose two arms have rows of the lab and of real models."""
    rows = _stored("ledger")
    arms = [(row["name"], row["baseline"], row["method"]) for row in rows]
    by_scale: list[dict[tuple[str, str, str], list[str]]] = [{arm: [] for arm in arms} for _ in range(2)]
    for arm, row in zip(arms, rows, strict=True):
        where = "" if row["tier"] == "lab" else f" ({row['world']})"
        low, high = row["ci95"]
        told = f"{row['effect']:+.3f} [{low:+.3f}, {high:+.3f}] {row['verdict']}{where}"
        by_scale[row["tier"] == "real"][arm].append(told)
    lab, real = by_scale
    both = [arm for arm in lab if lab[arm] and real[arm]]
    lines = [
        f"| [{name}](ledger.md#{name}) | {baseline} → {method} | {'; '.join(lab[name, baseline, method])} "
        f"| {'; '.join(real[name, baseline, method])} |\n"
        for name, baseline, method in both
    ]
    systems = len({name for name, *_ in both})
    said = (
        f"{len(both)} comparisons of {systems} systems have rows at both scales; effects with their 95% intervals:\n\n"
    )
    return said + "| system | baseline → method | lab | real models |\n|---|---|---|---|\n" + "".join(lines)


def rl_arms_found() -> dict[str, Any]:
    """What `python -m scripts.rl_arms RUNS --out docs/coder_0_5b_rl.json` stored; nothing before there are runs."""
    found: dict[str, Any] = _stored(RL_ARMS) if (DOCS / f"{RL_ARMS}.json").exists() else {}
    return found


TABLES: dict[str, Callable[[], str]] = {
    "families": family_table,
    "pools": pool_tables,
    "coder": lambda: coder_tables("coder_1_5b", "final-0", "final-1", "all", "best-0", "clean", "clean-0"),
    "coder-votes": lambda: coder_tables("coder_1_5b_votes"),
    "coder-votes-again": lambda: coder_tables("coder_1_5b_votes_again"),
    "coder-labels": coder_label_table,
    "coder-mixed": coder_mixed_table,
    "label-rates": label_rates.table,
    "real-kinds": kind_tables,
    "kinds-longer": longer_kinds,
    "lab-model": lab_model_table,
    "rl-rows": rl_rows,
    "both-scales": both_scales,
    "rl-arms": lambda: rl_arms.block(rl_arms_found(), RL_ARMS),
    **{name: _answer_block(name) for name in ANSWERS},
    **{name: _label_block(name) for name in LABELS.blocks},
    **{name: _search_block(name) for name in SEARCH.blocks},
    **{name: _credit_block(name) for name in CREDIT.blocks},
    **{name: _kinds_block(name) for name in KINDS.blocks},
    **{name: _words_block(name) for name in word_problem_tables.BLOCKS},
}


def written(page: str) -> str:
    """The page with its tables as the code gives them now."""
    return _BLOCK.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], page)


def made() -> dict[Path, str]:
    """Every page and chart as it should be."""
    pages = {path: written(path.read_text(encoding="utf-8")) for path in sorted(DOCS.glob("*.md"))}
    searched = search_costs()
    drawn = {**LABELS.charts(label_costs()), **SEARCH.charts(searched), **CREDIT.charts(credit_gradients())}
    drawn |= KINDS.charts(bench_kinds())
    if found := rl_arms_found():
        drawn |= rl_arms.charts(found, RL_ARMS)
    drawn |= files_of(picture for name in ANSWERS for picture in _answer(name).pictures)
    charts = {DOCS / file: chart + "\n" for file, chart in drawn.items()}
    # Its outcomes stay; intervals are made of them again.
    charts[DOCS / "search_costs.json"] = json.dumps(searched.to_dict(), indent=2) + "\n"
    return pages | charts


def main() -> int:
    stale = []
    for path, new in made().items():
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    sys.stdout.write(f"{', '.join(stale) or 'nothing'} {'is out of date' if '--check' in sys.argv else 'written'}\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
