"""Pages of the site that are made while it is built: see `asyncfl.manual.pages`, and `notebooks/`."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from asyncfl.manual.notebooks import NOTEBOOKS, notebook_page  # noqa: E402
from asyncfl.manual.pages import component_pages, experiment_pages, reference_pages  # noqa: E402
from asyncfl.manual.record import experimented  # noqa: E402

FOUND = re.compile(r"(## What the guarantees are worth.*?)^## Commands", flags=re.DOTALL | re.MULTILINE)
"""Of the README, what was measured."""
made: dict[str, dict[str, str]] = {}
"""Folder of the site -> file -> text."""


def on_config(config: Any) -> Any:
    """Makes the pages, and puts them where the navigation names their folder."""
    experiments = experimented(ROOT / "workflow" / "experiments")
    folder = Path(config.docs_dir) / "notebooks"
    made["reference"] = reference_pages()
    made["components"] = component_pages(experiments)
    made["experiments"] = experiment_pages(experiments)
    made["notebooks"] = {f"notebooks/{name}.md": notebook_page(folder / f"{name}.ipynb") for name in NOTEBOOKS}
    found = FOUND.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    made["measured"] = {"measured.md": "# What was measured\n\n" + found[1].replace("](docs/", "](")}
    config.nav = [_with_made(entry) for entry in config.nav]
    return config


def on_files(files: Files, config: Any) -> Files:
    """The pages as files of the site."""
    for pages in made.values():
        for path, text in pages.items():
            files.append(File.generated(config, path, content=text))
    return files


def on_post_build(config: Any) -> None:
    """Leaves out the page of servers for what they do not find: its links hold at the root of a server only."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)


def _with_made(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {title: _listed(inner) for title, inner in entry.items()}
    return entry


def _listed(inner: Any) -> Any:
    if isinstance(inner, list):
        return [one for entry in inner for one in (_listed(entry) if entry in made else [_with_made(entry)])]
    return _tree(inner) if inner in made else inner


def _tree(folder: str) -> list[Any]:
    """Pages of a folder, the index first; those in folders of their own below a title."""
    pages = sorted(made[folder], key=lambda path: (not path.endswith(("index.md", "scenario.md")), path))
    below: dict[str, list[str]] = {}
    flat: list[Any] = []
    for page in pages:
        parts = PurePosixPath(page).parts
        if len(parts) > 2:
            below.setdefault(parts[1], []).append(page)
        else:
            flat.append(page)
    return [*flat, *({title: inner} for title, inner in below.items())]
