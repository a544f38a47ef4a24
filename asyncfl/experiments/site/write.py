"""The pages as files: `index.html`, and one file per paper in `papers/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.finished import Finished, left_out
from asyncfl.experiments.site.contents import CLIP, MARKS, file_of_paper, papers_of
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.wording import HOW_FIGURES_ARE_READ, SCALE_WARNING, score_of, wrong_verdicts

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = "papers"
"""Where the papers' pages lie, below the results."""


def page_files(experiments: Mapping[str, Experiment]) -> list[str]:
    """Paths below the results of all files that `write_site` writes."""
    keys = dict.fromkeys(experiment.source.paper for experiment in experiments.values())
    return ["index.html", *(f"{FOLDER}/{file_of_paper(key)}" for key in keys)]


def write_site(
    root: Path,
    done: Sequence[Finished],
    experiments: Mapping[str, Experiment],
    claims: pd.DataFrame,
    pages: Mapping[str, str] | None = None,
) -> None:
    """Writes the front page and a page per paper; a paper of which nothing has been run has a page that says so.

    pages: digest of a run -> path, from the folder of the papers' pages, of a page that shows it.
    """
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    papers = papers_of(root, done, claims, pages or {})
    shared = {
        "marks": MARKS,
        "clip": CLIP,
        "quick": SCALE_WARNING if len(claims) and (claims["scale"] == "quick").any() else "",
        "style": _text("site.css"),
        "reading": HOW_FIGURES_ARE_READ,
    }
    front = (
        _pages()
        .get_template("front.html.j2")
        .render(
            papers=papers,
            score=score_of(claims),
            wrong=wrong_verdicts(claims) if len(claims) else "",
            left_out=left_out(done, experiments),
            script=_text("site.js"),
            **shared,
        )
    )
    write_text(front, root / "index.html")
    template = _pages().get_template("paper.html.j2")
    for paper in papers:
        write_text(template.render(view=paper, papers=papers, **shared), root / FOLDER / paper.file)
    empty = _pages().get_template("empty.html.j2")
    made = {f"{FOLDER}/{paper.file}" for paper in papers}
    for name in page_files(experiments)[1:]:
        if name not in made:
            write_text(empty.render(papers=papers, **shared), root / name)


@cache
def _pages() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("asyncfl.experiments.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _text(name: str) -> str:
    return files("asyncfl.experiments.site").joinpath("templates", name).read_text(encoding="utf-8")
