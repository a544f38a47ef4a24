"""The documentation builds without a warning, its links lead somewhere, and what is built asks no network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

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


def test_the_site_builds_and_all_its_links_lead_somewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in tmp_path.rglob("*.html")}
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
                broken.append((str(path.relative_to(tmp_path)), link))
    assert broken == []
