"""Every input that fuzzing kept is replayed; the long tier fuzzes on from them, half a minute with one seed, so that a change
fails by what it does and not by chance, or for FOOTFALL_FUZZ_SECONDS with a seed of the moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.fuzz import CORPUS, targets
from tests.attacks.test_text_rules import stopped_after

TARGETS = targets()
SECONDS = int(os.environ.get("FOOTFALL_FUZZ_SECONDS", "30"))
SEED = 0 if "FOOTFALL_FUZZ_SECONDS" in os.environ else 1
"""With 0 libFuzzer takes one of the moment."""
MOST_BYTES = 300_000


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_is_read_or_refused(target: str) -> None:
    kept = sorted((CORPUS / target).iterdir())
    assert kept
    for path in kept:
        with stopped_after(10, f"{target} on {path.name}"):
            TARGETS[target](path.read_bytes())


def test_the_corpus_is_small() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < MOST_BYTES


@pytest.mark.long
def test_fuzzing_finds_nothing_new(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="could not import atheris, the fuzzer")
    limits = ["-rss_limit_mb=2048", f"-max_total_time={SECONDS // len(TARGETS)}", f"-seed={SEED}"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks.fuzz", "all", str(tmp_path), *limits],
        capture_output=True,
        text=True,
        timeout=SECONDS + 600,
    )
    assert done.returncode == 0, done.stderr
    for target in TARGETS:
        said = (tmp_path / f"{target}.log").read_text(encoding="utf-8", errors="replace")
        found = [path for kind in ("crash", "timeout", "oom") for path in (tmp_path / target).glob(f"{kind}-*")]
        assert (tmp_path / f"{target}.code").read_text() == "0" and not found, (
            f"{target}: {said[-3000:]}\n{found}: mend it, then keep it in {CORPUS / target}"
        )
        assert "Done " in said, target
