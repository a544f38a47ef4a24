"""The pages of results: what stands on them, that links lead somewhere, that nothing comes from the network."""

import math
import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from asyncfl.base.errors import RunError
from asyncfl.experiments.analysis import make_figures
from asyncfl.experiments.claims import Order
from asyncfl.experiments.csv_files import read_csv
from asyncfl.experiments.figures import Curves, Final
from asyncfl.experiments.report import page_files, write_run_pages, write_site
from asyncfl.experiments.scores import Score, scores_of
from asyncfl.experiments.site.contents import figure_of, size_of, standard
from asyncfl.experiments.verdicts import FinishedExperiment, finished
from tests.experiments.results_folder import EPSILON, EVIL, marked_up


class Links(HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "href" and value:
                (self.loaded if tag == "link" else self.hrefs).append(value)
            if name in ("src", "srcset", "data") and value:
                self.loaded.append(value)
            if name == "id" and value:
                assert value not in self.anchors, f"two of {value}"
                self.anchors.add(value)
        self.scripts += tag == "script"


def test_a_page_for_each_paper_and_one_in_front(results: Path) -> None:
    never = marked_up(name="safl/never", source={"paper": "safl"})
    files = page_files({"a": marked_up(), "b": never})
    assert files == ["index.html", "papers/nbafl.html", "papers/safl.html"]
    assert all((results / file).is_file() for file in files)
    assert "None of this paper" in (results / "papers/safl.html").read_text()
    assert "safl/never" in (results / "index.html").read_text()


def test_links_work_and_pages_load_nothing_from_the_network(results: Path) -> None:
    pages = {path: Links(path.read_text()) for path in (results / "index.html", *(results / "papers").glob("*.html"))}
    for path, links in pages.items():
        for target in links.loaded + [href for href in links.hrefs if not href.startswith("https://arxiv.org/")]:
            file, _, anchor = target.partition("#")
            place = (path.parent / file).resolve() if file else path
            assert place.is_file(), f"{path.name} leads to {target}"
            if anchor:
                assert anchor in pages[place].anchors, f"{path.name} leads to {target}"
        assert links.scripts == (path.name == "index.html")
        assert not re.search(r"url\(|@import", path.read_text())


def test_papers_and_our_own_claims_are_counted_apart(results: Path) -> None:
    scores = scores_of(pd.read_csv(results / "claims.csv"))
    assert scores == {"paper": Score(1, 1, 0, 0, 0, 1, checks=3), "ours": Score(1, 0, 0, 0, 0, 0)}
    front = (results / "index.html").read_text()
    of_papers, ours = (
        front.index("What papers say</h2>"),
        front.index("What we say of our own designs and checks</h2>"),
    )
    assert of_papers < front.index(">the loss rises</a>") < ours < front.index(">accurate everywhere</a>")
    page = (results / "papers" / "nbafl.html").read_text()
    assert page.index("(NbAFL, fig. 2; ") < page.index("<h4>Ours</h4>") < page.index("accurate everywhere <span")
    text = (results / "claims.md").read_text()
    of_papers, ours = (
        text.index("## What papers say\n\n2 sentences of papers (3 checks): 1 hold"),
        text.index("1 statements of ours"),
    )
    assert of_papers < text.index("the loss rises") < ours < text.index("accurate everywhere")


def test_sentences_that_are_all_read_otherwise_than_printed_are_counted(results: Path, tmp_path: Path) -> None:
    root = shutil.copytree(results, tmp_path / "results")
    experiments = {marked_up().name: marked_up()}
    claims = read_csv(root / "claims.csv").assign(against="T = 4 (printed: 25)")
    write_site(root, finished(root, experiments), experiments, claims, {})
    front = (root / "index.html").read_text()
    assert ", otherwise than printed" in front
    assert "Sentences that are judged only with settings that their paper prints otherwise" in front


def test_the_score_leaves_out_what_is_not_run(results: Path) -> None:
    front = (results / "index.html").read_text()
    assert front.count('class="tile ') - 6 == 4  # six stand in the words that explain them
    assert front.count('data-verdict="not run"') == 1
    assert "no evidence" in front


def test_the_front_page_says_what_does_not_hold_and_why(results: Path) -> None:
    front = (results / "index.html").read_text()
    [failing] = re.findall(
        r"<details open>\s*<summary>Does not hold, and why \(1\)</summary>.*?</details>", front, re.S
    )
    assert "the loss rises" in failing
    assert "least clear step: from 50 to 60 it rises by" in failing
    assert "Not decided:" not in front  # none is open
    holding = front[front.index("<summary>Holds (1)</summary>") :]
    assert "a &amp; b" in holding[: holding.index("</details>")]  # our explanation


def test_text_of_users_is_no_markup(results: Path) -> None:
    for name in ("index.html", "papers/nbafl.html"):
        text = (results / name).read_text()
        assert EVIL not in text
        assert EVIL in unescape(text)


def test_claims_stand_under_the_figure_that_shows_them(results: Path) -> None:
    page = (results / "papers" / "nbafl.html").read_text()
    assert page.index('src="../quick/nbafl/one/loss.svg"') < page.index(
        "the loss rises</text>".replace("</text>", " <")
    )
    assert "Claims that no figure shows" in page  # accuracy is on none
    assert "Its file is missing" not in page
    assert page.count("Not run at this scale.") == 1


def test_a_claim_finds_its_figure() -> None:
    here = {"model": "MLP"}
    figures = (
        Curves(name="other", y="test_accuracy"),
        Curves(name="cnn", where={"model": "CNN"}),
        Curves(name="mlp", where=here),
        Final(name="along", x="K", where=here),
    )
    order: dict[str, Any] = {"check": "order", "says": "", "value": "final train_loss"}
    assert figure_of(Order(**order, along="epsilon", where=here), figures) == "mlp"
    assert figure_of(Order(**order, along="K", where=here), figures) == "along"
    assert figure_of(Order(**order, along="K", where={"model": ["RNN"]}), figures) is None
    assert figure_of(Order(**order, along="N", bound="b"), figures) is None


def test_paper_style_leaves_title_and_caption_to_the_document(tmp_path: Path, results: Path) -> None:
    experiment = marked_up()
    for file in (results / "quick" / "nbafl" / "one").glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    make_figures(experiment, "quick", tmp_path, "paper")
    drawn = (tmp_path / "loss.svg").read_text()
    assert "scale quick" not in drawn
    assert "alert" not in drawn
    assert size_of(tmp_path / "loss.svg")[1] == pytest.approx(3.37, abs=0.01)
    assert "scale quick" in (tmp_path / "figures.csv").read_text()  # the words are there to be used


@pytest.mark.parametrize(
    ("fields", "shown", "unit"),
    [
        ({}, (2, -2, 6), "sd"),
        ({"margin": 0.02, "direction": -1.0}, (-5, -10, 5), None),
        (
            {"kind": "count", "effect": 0.0, "low": 0.0, "high": 0.3, "threshold": 0.1, "direction": -1.0, "sd": ""},
            (1, -2, 1),
            None,
        ),
        # Values without spread are shown by their sign where chance has no part.
        ({"kind": "deterministic", "sd": 0.0, "low": 0.3, "high": 0.3}, (10, 10, 10), ""),
        ({"kind": "deterministic", "sd": 0.0, "effect": 0.2, "low": 0.2, "high": 0.2}, (0, 0, 0), ""),
        ({"effect": math.inf, "low": -math.inf, "high": math.inf, "margin": 1.0, "sd": ""}, (10, -10, 10), None),
        ({"sd": ""}, None, None),
        ({"direction": ""}, None, None),
    ],
)
def test_estimates_are_counted_in_margins_or_standard_deviations(fields: Any, shown: Any, unit: str | None) -> None:
    row = {"kind": "statistical", "effect": 0.3, "low": 0.1, "high": 0.5, "threshold": 0.2}
    found = standard({**row, "direction": 1.0, "margin": "", "sd": 0.05, **fields})
    if shown is None:
        assert found is None
        return
    assert (found.estimate, found.low, found.high) == pytest.approx(shown)
    assert unit is None or found.unit == unit


def test_run_pages_are_written_up_to_the_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    cells = {"a": ["1" * 16, "2" * 16, "3" * 16], "b": ["2" * 16, "4" * 16]}
    done = []
    for name, runs in cells.items():
        folder = tmp_path / "quick" / name
        folder.mkdir(parents=True)
        pd.DataFrame({EPSILON: range(len(runs)), "run": runs}).to_csv(folder / "cells.csv", index=False)
        done.append(FinishedExperiment(marked_up(name=name), "quick", folder))
        for run in runs[:2]:
            (tmp_path / "runs" / run).mkdir(parents=True, exist_ok=True)

    def load(place: Path) -> Any:
        if place.name.startswith("4"):
            raise RunError("its data are gone")
        return SimpleNamespace(scenario=SimpleNamespace(seeds=(7, 8)), folder=place)

    def page(run: Any, name: str, window: Any) -> str:
        assert window.seed == 7
        written.append(name)
        return "x" * 100

    monkeypatch.setattr("asyncfl.experiments.report.Run", SimpleNamespace(load=load))
    monkeypatch.setattr("asyncfl.experiments.report.page", page)
    pages = {run: f"runs/{run}.html" for run in ("1" * 16, "2" * 16)}
    assert write_run_pages(tmp_path, done, room_bytes=200) == pages
    # in turn; the run that both have once, the third is not here
    assert written == ["a: epsilon = 0", "b: epsilon = 0"]
    assert sorted(path.stem for path in (tmp_path / "papers" / "runs").iterdir()) == list(pages)
    assert len(write_run_pages(tmp_path, done, room_bytes=150)) == 1
    assert len(write_run_pages(tmp_path, done, room_bytes=100)) == 1
    assert len(list((tmp_path / "papers" / "runs").iterdir())) == 1
