"""The published results, and the numbers that README and the findings take from them."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from asyncfl.experiments.csv_files import read_csv
from asyncfl.experiments.files import find
from asyncfl.experiments.loading import load
from asyncfl.experiments.verdicts import verdicts_from, with_new_axes
from docs.quotes import PAGES, agrees, faults, filled, stated
from docs.result_links import site_links
from workflow.publish import Provenance, published_looks
from workflow.published import is_drawable, means

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"


def test_each_published_claim_is_in_an_experiment_file():
    files = {name: load(path, name, check=False) for name, path in find(ROOT / "workflow" / "experiments").items()}
    says = {(name, claim.says, claim.title) for name, experiment in files.items() for claim in experiment.claims}
    claims = pd.read_csv(RESULTS / "claims.csv")
    gone = set(claims[["experiment", "claim", "check"]].itertuples(index=False, name=None)) - says
    assert not gone, "run `make publish`, which judges edited claims anew"


def _texts(claims):
    return claims.astype(object).fillna("").to_numpy().tolist()


FOLDERS = sorted(path.parent for path in RESULTS.glob("full/*/*/provenance.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_each_published_verdict_follows_from_all_published_seeds(folder):
    name = f"{folder.parent.name}/{folder.name}"
    experiment = load(find(ROOT / "workflow" / "experiments")[name], name, check=False)
    told = json.loads((folder / "provenance.json").read_text())
    again = verdicts_from(experiment, "full", folder, published_looks(experiment, Provenance(**told)))
    published = read_csv(folder / "claims.csv")
    asked = ["claim", "check", "verdict", "leaning", "sentence", "silent", "against", "depends_on"]
    assert _texts(published[asked]) == _texts(again[asked]), "run `make publish`"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_published_tables_are_those_of_the_published_runs(folder):
    name = f"{folder.parent.name}/{folder.name}"
    experiment = load(find(ROOT / "workflow" / "experiments")[name], name, check=False)
    final = means(experiment, with_new_axes(experiment, read_csv(folder / "ends.csv")))
    made = {f"{shown.name}.md": shown.markdown(experiment.grid("full"), final) for shown in experiment.tables}
    published = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.md")}
    number = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")
    assert {file: number.sub("#", text) for file, text in published.items()} == {
        file: number.sub("#", text) for file, text in made.items()
    }
    for file, text in published.items():  # a CPU may round the last digit otherwise
        now, before = (np.array(number.findall(one), dtype=float) for one in (made[file], text))
        np.testing.assert_allclose(now, before, rtol=0.02, atol=1e-6)


def test_each_published_experiment_names_the_commit_and_the_data_that_made_it():
    folders = [path.parent for path in RESULTS.glob("full/*/*/claims.csv")]
    assert folders
    for folder in folders:
        told = json.loads((folder / "provenance.json").read_text())
        assert all(re.fullmatch("[0-9a-f]{8}", commit) for commit in told["commits"]), folder
        assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in told["data"].values()), folder
        assert read_csv(folder / "claims.csv")["commit"].eq(" ".join(told["commits"])).all(), folder


def test_what_is_published_is_small_and_has_no_runs_and_nothing_that_is_drawn():
    sizes = {path: path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()}
    assert max(sizes.values()) <= 1_000_000
    assert sum(sizes.values()) <= 8_000_000
    assert not [path for path in sizes if path.suffix in (".parquet", ".png", ".pdf", ".html", ".svg")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_numbers_of_results_are_those_that_are_published(page):
    text = page.read_text(encoding="utf-8")
    assert filled(text, page) == text, "run `python docs/quotes.py`"
    assert not list(faults(text, page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_and_tables_that_a_page_links_are_published(page):
    links = re.findall(r"\]\(([^)\s#]*results/[^)\s#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_that_a_page_shows_are_figures_of_published_experiments(page):
    for folder, name in re.findall(
        r'\[Figure: [^\]]*\]\(([^)\s]*/)[^/)\s]+ "(\w+)\.svg"\)', page.read_text(encoding="utf-8")
    ):
        place = (page.parent / folder).resolve()
        experiment = f"{place.parent.name}/{place.name}"
        figures = load(find(ROOT / "workflow" / "experiments")[experiment], experiment, check=False).all_figures
        (figure,) = (one for one in figures if one.name == name)
        assert is_drawable(figure, place) or (place / f"{name}.svg.gz").is_file()


@pytest.mark.parametrize(
    ("shown", "value", "right"),
    [
        (".34", 0.3361, True),
        (".33", 0.3361, False),
        ("84.1", 0.8412, True),
        ("1,097", 1097.4, True),
        ("-22.2", -22.17, True),
        ("12", 11.4, False),
    ],
)
def test_a_number_is_that_of_its_source_if_it_is_that_one_rounded(shown, value, right):
    assert agrees(shown, value) == right


def test_numbers_with_a_decimal_point_or_a_unit_are_results():
    text = "In 2020 25 rounds cost 4.1 points and 12 % of it, [84.2](x.md) at 95 %; of 1,000 took 3 s."
    assert list(stated(text)) == ["4.1", "12", "84.2", "3"]


def test_links_to_tables_lead_to_pages_and_figures_on_the_site():
    text = 'It [holds](../results/claims.md#nbafl-fig2-0), see [all](results/claims.md).\n\n[Figure: L](a/t.md "b.svg")'
    assert site_links(text) == (
        "It [holds](../results/papers/nbafl.html#nbafl-fig2-0), see [all](results/index.html).\n\n![L](a/b.svg)"
    )
