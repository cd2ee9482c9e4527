"""Where vLLM is: in this Python, or in the one that FOOTFALL_VLLM_PYTHON names."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

PYTHON = os.environ.get("FOOTFALL_VLLM_PYTHON", sys.executable)
_ROOT = Path(__file__).parents[2]


@lru_cache
def _has_vllm() -> bool:
    return not subprocess.run([PYTHON, "-c", "import vllm"], capture_output=True, env=environment()).returncode


def need_vllm() -> None:
    """Skip the test that asks if there is none."""
    if not _has_vllm():
        pytest.skip("no vLLM in this Python or in FOOTFALL_VLLM_PYTHON")


def environment() -> dict[str, str]:
    """Of its processes: this checkout, no hub, and on a CPU little room for keys and values."""
    paths = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
    own = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    return {**os.environ, **own, "PYTHONPATH": paths}
