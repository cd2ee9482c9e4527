"""The documentation site: it builds without a warning, loads nothing from elsewhere, and its search works from a folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="needs footfall[docs]")
    pytest.importorskip("mkdocstrings", reason="needs footfall[docs]")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_no_page_of_the_site_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r'(?:src|<link[^>]*href)="https?://', page.read_text(encoding="utf-8")), page


@pytest.mark.long
def test_the_api_reference_has_what_rooms_make_public(site: Path) -> None:
    pages = {
        name: (site / "api" / f"{name}.html").read_text(encoding="utf-8") for name in ("footfall", "search", "label")
    }
    assert 'id="footfall.types.Trajectory"' in pages["footfall"] and "Steps written for a problem." in pages["footfall"]
    assert 'id="footfall.search.beam.BeamSearch"' in pages["search"]
    assert 'id="footfall.label.monte_carlo.MonteCarlo"' in pages["label"]


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to search in")
@pytest.mark.parametrize("page", ["index.html", "api/search.html"])
def test_the_search_finds_things_when_the_site_is_opened_from_a_folder(site: Path, page: str) -> None:
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    address = f"{(site / page).as_uri()}?q=BeamSearch"
    done = subprocess.run([str(CHROMIUM), *words, address], capture_output=True, text=True, timeout=300, check=True)
    found = re.findall(r'<a href="([^"]*)" class="md-search-result__link"', done.stdout)
    assert any("api/search.html" in link for link in found), found
