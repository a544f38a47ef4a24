"""Generate pages while the site is built: the reference, components, experiments, notebooks and published results."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from asyncfl.experiments.files import find  # noqa: E402
from asyncfl.experiments.loading import load  # noqa: E402
from asyncfl.manual.symbols import glossary_text  # noqa: E402
from docs.disclosures import disclosure_page  # noqa: E402
from docs.notebook import NOTEBOOKS, notebook_page  # noqa: E402
from docs.pages import command_page, component_pages, experiment_pages, reference_pages  # noqa: E402
from docs.quotes import RESULTS  # noqa: E402
from docs.result_links import site_links  # noqa: E402
from workflow.published import MEANS, build  # noqa: E402

DRAWN = ROOT / "build" / "results"
"""Figures and pages of the published results; those whose tables are as before are not drawn again."""
generated: dict[str, dict[str, str]] = {}
"""Generated pages: folder of the site -> file -> Markdown text."""


def on_config(config: Any) -> Any:
    """Generate the pages and insert them where the navigation names their folder."""
    files = find(ROOT / "workflow" / "experiments")
    experiments = {name: load(path, name, check=False) for name, path in files.items()}
    folder = Path(config.docs_dir) / "notebooks"
    generated["reference"] = reference_pages()
    generated["components"] = component_pages()
    generated["experiments"] = experiment_pages(experiments)
    generated["notebooks"] = {f"notebooks/{name}.md": notebook_page(folder / f"{name}.ipynb") for name in NOTEBOOKS}
    generated["commands"] = {"commands.md": command_page()}
    generated["messages"] = {"messages.md": disclosure_page()}
    generated["glossary"] = {"glossary.md": glossary_text()}
    build(RESULTS, experiments, DRAWN)
    config.nav = [_with_generated(entry) for entry in config.nav]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and what is drawn of the published results, to the files of the site."""
    for pages in generated.values():
        for path, text in pages.items():
            files.append(File.generated(config, path, content=text))
    for made in sorted(path for path in DRAWN.rglob("*") if path.suffix in (".svg", ".html") or path.name == MEANS):
        name = f"results/{made.relative_to(DRAWN).as_posix()}"
        files.append(File.generated(config, name, abs_src_path=str(made)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to published tables to the pages and figures that are made of them."""
    return site_links(markdown)


def on_post_build(config: Any) -> None:
    """Delete 404.html: its links work only at the root of a web server."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)


def _with_generated(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {title: _expanded(inner) for title, inner in entry.items()}
    return entry


def _expanded(inner: Any) -> Any:
    if isinstance(inner, list):
        return [
            one
            for entry in inner
            for one in (_expanded(entry) if str(entry) in generated else [_with_generated(entry)])
        ]
    return _tree(inner) if inner in generated else inner


def _tree(folder: str) -> list[Any]:
    """List the pages of a folder, the index first; group pages of subfolders under a title."""
    pages = sorted(generated[folder], key=lambda path: (not path.endswith(("index.md", "scenario.md")), path))
    below: dict[str, list[str]] = {}
    flat: list[Any] = []
    for page in pages:
        parts = PurePosixPath(page).parts
        if len(parts) > 2:
            below.setdefault(parts[1], []).append(page)
        else:
            flat.append(page)
    return [*flat, *({title: inner} for title, inner in below.items())]
