"""The pages as files: `index.html`, and one file per paper in `papers/`. They need no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pandas as pd

from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.finished import Finished, left_out
from asyncfl.experiments.site.contents import CLIP, MARKS, file_of_paper, papers_of
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.wording import HOW_FIGURES_ARE_READ, SCALE_WARNING, score_of, wrong_verdicts

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
    pages: Mapping[str, str],
) -> None:
    """Write the front page and a page per paper; a paper of which nothing has been run has a page that says so.

    pages: digest of a run -> path, from the folder of the papers' pages, of a page that shows it.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("asyncfl.experiments.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    texts = files("asyncfl.experiments.site") / "templates"
    papers = papers_of(root, done, claims, pages)
    templates.globals |= {
        "papers": papers,
        "marks": MARKS,
        "clip": CLIP,
        "quick": SCALE_WARNING if len(claims) and (claims["scale"] == "quick").any() else "",
        "style": (texts / "site.css").read_text(encoding="utf-8"),
        "script": (texts / "site.js").read_text(encoding="utf-8"),
        "reading": HOW_FIGURES_ARE_READ,
    }
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    front = templates.get_template("front.html.j2").render(
        score=score_of(claims),
        wrong=wrong_verdicts(claims) if len(claims) else "",
        left_out=left_out(done, experiments),
    )
    write_text(front, root / "index.html")
    made = {f"{FOLDER}/{paper.file}": paper for paper in papers}
    for name in dict.fromkeys((*made, *page_files(experiments)[1:])):
        template = templates.get_template("paper.html.j2" if name in made else "empty.html.j2")
        write_text(template.render(view=made.get(name)), root / name)
