"""The first hour, tried: build the wheel, install it into a fresh environment, run the commands of docs/first_hour.md there.

    python -m scripts.fresh_wheel --python python3.13 --folder /tmp/fresh

Blocks marked `run` are run in a folder of their own; those marked `run with a server` get a small server that answers. With
--small the demo is a fifth of its size. An environment that is already in the folder is used as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(
    r"^<!-- run(?P<how>[^>]*?) -->\n```(?P<language>bash|python)\n(?P<source>.*?)^```$", re.DOTALL | re.MULTILINE
)
_SMALL = "footfall demo --train-problems 30 --test-problems 30 --n 8 --quality-traces 30"
_SERVER = "http://localhost:8000/v1"


def install(python: str, folder: Path) -> Path:
    """The environment's folder with executables; the wheel is built and installed if it is not there."""
    executables = folder / "environment" / "bin"
    if not (executables / "footfall").exists():
        wheels = folder / "dist"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
        subprocess.run([python, "-m", "venv", str(executables.parent)], check=True)
        (wheel,) = wheels.glob("footfall-*.whl")
        subprocess.run([str(executables / "python"), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    return executables


def main() -> int:
    """Install, then run each block; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the fresh environment")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="a demo of a fifth of its size")
    given = parser.parse_args()
    executables = install(given.python, given.folder.resolve())
    work = given.folder.resolve() / "work"
    work.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = os.pathsep.join([str(executables), environment["PATH"]])
    server = [sys.executable, str(ROOT / "tests/policy/loopback_server.py"), str(work / "server.jsonl"), "0"]
    settings = '{"text": "3 * 4 = 12\\n\\nIt is \\\\boxed{12}"}'
    with subprocess.Popen([*server, settings], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
            for block in _BLOCK.finditer((ROOT / "docs" / "first_hour.md").read_text(encoding="utf-8")):
                source = block["source"].replace(_SERVER, url)
                source = source.replace("footfall demo\n", f"{_SMALL}\n") if given.small else source
                for swap in block["how"].split():
                    if "=" in swap:
                        source = re.sub(rf"\b{swap.partition('=')[0]}\b", swap.partition("=")[2], source)
                words = ["bash", "-euo", "pipefail", "-c"] if block["language"] == "bash" else ["python", "-c"]
                sys.stderr.write(f"{source}\n")
                subprocess.run([*words, source], cwd=work, env=environment, check=True)
        finally:
            process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
