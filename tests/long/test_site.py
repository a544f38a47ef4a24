"""The documentation builds without a warning, its links lead somewhere, and what is built asks no network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long


class Page(HTMLParser):
    """Anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        told = dict(attributes)
        self.anchors |= {told["id"] or ""} if "id" in told else set()
        if tag == "a" and told.get("href"):
            self.links.append(str(told["href"]))
        elif tag in ("link", "script", "img") and (source := told.get("src") or told.get("href")):
            self.loads.append(source)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    return folder


def test_all_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 140
    elsewhere = re.compile("https?:|//")
    assert [(path.name, one) for path, page in pages.items() for one in page.loads if elsewhere.match(one)] == []
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            name, _, anchor = link.partition("#")
            if elsewhere.match(link) or link.startswith("data:"):
                continue
            target = (path.parent / name).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and anchor != "__top" and anchor not in pages[target].anchors):
                broken.append((str(path.relative_to(site)), link))
    assert broken == []


def test_pages_open_and_search_from_disk_without_a_network(site: Path, chromium: Any) -> None:
    asked: list[str] = []
    faults: list[str] = []
    page = chromium.new_page(color_scheme="dark")
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto((site / "components" / "defence.rule" / "krum.html").as_uri())
    assert page.locator("h2").all_inner_texts()[1].startswith("What is logged")
    page.keyboard.press("/")
    page.locator("input.md-search__input").press_sequentially("staleness")
    page.locator(".md-search-result__meta", has_text="matching documents").wait_for()
    page.locator(".md-search-result__item a").first.wait_for()
    page.close()
    assert faults == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
