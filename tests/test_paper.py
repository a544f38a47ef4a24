"""The paper: it cites what it lists, and is built with its figures and without a link that leads nowhere."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from docs.quotes import PAPER

ROOT = Path(__file__).resolve().parents[1]
TEXT = PAPER.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def build():
    pytest.importorskip("markdown")
    spec = spec_from_file_location("build_paper", PAPER.parent / "build.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_reference_is_cited_and_each_citation_is_listed():
    listed = re.findall(r'^- <a id="([\w-]+)"></a>', TEXT, flags=re.MULTILINE)
    assert listed == sorted(listed)
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) == set(listed)


def test_the_paper_has_no_part_that_is_still_to_be_written():
    assert not re.search(r"TODO|TBD|skeleton|left to write", TEXT)
    assert TEXT.count("## ") > 10


def test_html_holds_its_figures_and_links_files_that_exist(build):
    page = build.html_of(build.checked(TEXT))
    assert page.count('src="data:image/png;base64,') == TEXT.count("![") > 2
    links = re.findall(r'href="([^"#]+)', page)
    assert links
    assert not [link for link in links if not (ROOT / "build" / "paper" / link).resolve().exists()]
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'id="([^"]+)"', page))
    assert "<table>" in page


def test_a_number_that_is_not_its_sources_stops_the_build(build):
    assert "154.3" in TEXT
    with pytest.raises(SystemExit, match=r"155\.3"):
        build.checked(TEXT.replace("154.3", "155.3"))


def test_the_source_for_latex_has_metadata_figures_and_no_relative_link(build):
    source = build.for_pandoc(build.checked(TEXT))
    assert source.startswith('---\ntitle: "Private, attacked and late')
    assert source.index("abstract: |") < source.index("## Introduction")
    assert "## Abstract" not in source
    images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", source)
    assert images
    assert all(Path(image).is_file() for image in images)
    assert not re.findall(r"(?<!!)\[[^\]]*\]\((?!https?:|#)[^)]*\)", re.sub(r"!\[.*?\]\(.*?\)", "", source))
