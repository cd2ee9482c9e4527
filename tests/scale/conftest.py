"""A run directory in a mounted object store."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    return f"file://{tmp_path}/bucket/run"
