"""A hook of the documentation site: recipes become files of the site, so that the ledger's links to their code work there too.

In the repository the ledger links to `../src/footfall/recipes/NAME.py`; on the site the same file is `recipes/NAME.py`.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = ["on_files", "on_page_markdown"]

_RECIPES = Path(__file__).resolve().parents[1] / "src" / "footfall" / "recipes"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the recipes' source files."""
    for path in sorted(_RECIPES.glob("[a-z]*.py")):
        files.append(File.generated(config, f"recipes/{path.name}", content=path.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links there."""
    return markdown.replace("(../src/footfall/recipes/", "(recipes/")
