"""The documentation site: it builds without a warning, loads nothing from elsewhere, and its search works from a folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reports.test_page_widths import LISTENS, WIDTHS, seen

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
    assert (
        'id="footfall.types.traces.Trajectory"' in pages["footfall"]
        and "Steps written for a problem." in pages["footfall"]
    )
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


_TELLS = """<script>addEventListener("load", () => {
  const root = document.documentElement, blocks = ".md-content pre code, .md-content .md-typeset__scrollwrap";
  const cut = [...document.querySelectorAll(blocks)].filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1);
  const names = cut.map(e => e.textContent.slice(0, 60));
  parent.postMessage([location.hash.slice(1), root.clientWidth, root.scrollWidth, names, []], "*");
});</script></body>"""


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to lay pages out")
def test_no_page_of_the_site_is_cut(site: Path) -> None:
    """No page is wider than its window; on a desk all code and all tables are seen whole."""
    frames = []
    for page in sorted(site.glob("*.html")):
        page.with_name(f"{page.stem}.copy.html").write_text(
            page.read_text(encoding="utf-8").replace("</body>", _TELLS), encoding="utf-8"
        )
        frames += [
            f'<iframe src="{page.stem}.copy.html#{page.stem}-{w}" width="{w}" height="800"></iframe>' for w in WIDTHS
        ]
    (site / "all.html").write_text(LISTENS + "".join(frames), encoding="utf-8")
    told = seen(site / "all.html")
    assert len(told) == len(frames)
    assert not [place for place, width, needed, *_ in told if needed > width]
    assert not [(place, cut) for place, _, _, cut, _ in told if cut and place.endswith("-1300")]


_CONTRAST = """<script>addEventListener("load", () => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= 10.3 ? v / 3294 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
  const over = ([r, g, b, a = 1], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a));
  const ground = e => e ? over(numbers(getComputedStyle(e).backgroundColor), ground(e.parentElement)) : [255, 255, 255];
  const pale = new Set();
  for (const e of document.querySelectorAll(".md-header *, .md-nav *, .md-content :not(.headerlink), .md-footer *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length) continue;
    const back = ground(e), [low, high] = [light(over(numbers(getComputedStyle(e).color), back)), light(back)].sort();
    if (high / low < 4.5) pale.add(`${e.textContent.trim().slice(0, 40)}: ${(high / low).toFixed(2)}`);
  }
  parent.postMessage([location.hash.slice(1), document.querySelectorAll("a").length, 0, [...pale], []], "*");
});</script></body>"""


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to colour pages")
def test_all_text_of_the_site_stands_out_from_its_ground_in_light_and_dark(site: Path) -> None:
    """By a contrast of 4.5, on a desk and a phone, links and code too; marks beside headings are seen only under the mouse."""
    frames = []
    for name in ("index", "rl", "first_hour", "training", "ledger"):
        page = re.sub(r"<script.*?</script>", "", (site / f"{name}.html").read_text(encoding="utf-8"), flags=re.DOTALL)
        for scheme in ("default", "slate"):
            copy = page.replace('data-md-color-scheme="default"', f'data-md-color-scheme="{scheme}"')
            copy = copy.replace("</body>", _CONTRAST)
            (site / f"{name}.{scheme}.html").write_text(copy, encoding="utf-8")
            frames += [
                f'<iframe src="{name}.{scheme}.html#{name}-{scheme}-{w}" width="{w}" height="800"></iframe>'
                for w in (1300, 420)
            ]
    (site / "colours.html").write_text(LISTENS + "".join(frames), encoding="utf-8")
    told = seen(site / "colours.html")
    assert len(told) == len(frames) and all(links > 20 for _, links, *_ in told)
    assert not [(place, pale) for place, _, _, pale, _ in told if pale]
