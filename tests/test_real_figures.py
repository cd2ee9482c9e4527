"""What pages say of stored figures of real models: how good a PRM must be to choose, and how fast labels were made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import label_rates, mixed_table, write_tables


def _rows(*leads: tuple[float, float, float]) -> list[dict[str, object]]:
    """AUC, lead of the best of 16 over the majority, and the lower end of its interval; one row a share of the truth."""
    shares = (0.0, 0.05, 0.1)
    return [
        {"truth": share, "AUC": auc, "best of N − majority": [lead, low, lead + 2.0]}
        for share, (auc, lead, low) in zip(shares, leads, strict=False)
    ]


def test_a_lead_is_clear_where_its_interval_leaves_out_zero_not_where_it_is_above_zero() -> None:
    late = _rows((0.8, -3.0, -5.0), (0.9, 1.0, -1.0), (0.95, 3.0, 1.0))
    assert mixed_table.first_ahead(late) == 2
    assert mixed_table.first_ahead(late[:2]) is None
    both = {"min": late, "last": _rows((0.92, 2.6, 0.4))}
    facts = {"gsm8k-test": {mixed_table.KEY: both}, "labels": {}}
    told = mixed_table.table({"prm-0": facts, "unscored": {"labels": {}}})
    assert "| `prm-0` | 0.80: 0.90 to 0.95 (10%) | 0.92: as it is |  |  |" in told
    assert "ranges from 0.92 to 0.95; the largest one that was measured without a clear lead is 0.90." in told
    assert "unscored" not in told


def test_rates_of_labels_are_those_of_the_plans_records() -> None:
    lines = label_rates.table().splitlines()
    assert len(lines) == 2 + 6
    (row,) = (line for line in lines if "OmegaPRM" in line and "GSM8K" in line)
    # 4,160 labelled steps and 1,686,227 generated tokens in 197.8 s.
    assert "| 4,160 | 1,686,227 | 198 | 21.0 | 8,525 |" in row


def test_claims_at_both_scales_are_counted_by_their_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def row(tier: str, method: str, verdict: str, world: str = "arithmetic") -> dict[str, object]:
        arms = {"baseline": "majority", "method": method}
        effect = {"effect": 0.1, "ci95": [-0.05, 0.25], "verdict": verdict}
        return {"name": "votes", "tier": tier, "world": world, **effect, **arms}

    rows = [row("lab", "weighted", "holds"), row("lab", "hybrid", "holds"), row("real", "other", "holds", "MATH-500")]
    rows += [row("real", "weighted", "undecided", on) for on in ("GSM8K test", "MATH-500")]
    (tmp_path / "ledger.json").write_text(json.dumps(rows))
    monkeypatch.setattr(write_tables, "DOCS", tmp_path)
    told = write_tables.both_scales()
    assert told.startswith("1 comparisons of 1 systems")
    effect = "+0.100 [-0.050, +0.250]"
    assert f"| {effect} holds | {effect} undecided (GSM8K test); {effect} undecided (MATH-500) |" in told
