"""A run in which everything happens that a page can show, and a browser to look at it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from tests.results.trace.conftest import LOSSY

BUSY: dict[str, Any] = {
    **LOSSY,
    "training.gradient_clip": 5.0,
    "privacy": {"kind": "local_gaussian", "epsilon": 6, "clip_norm": 5.0},
    "threats": {"attack": {"kind": "label_flip"}, "attackers": 0.2},
    "evaluation": {"audit": {"clients": [1]}},
}
_runs: dict[str, Run] = {}


@pytest.fixture
def busy(scenario: Scenario) -> Run:
    """A private, attacked and late run of two seeds that was audited. Simulated once."""
    if not _runs:
        _runs["busy"] = simulate(scenario.override(BUSY))
    return _runs["busy"]


@pytest.fixture
def other(scenario: Scenario) -> Run:
    """The same with more clients that give up."""
    if "other" not in _runs:
        _runs["other"] = simulate(scenario.override(BUSY | {"world.dropout": 0.5, "evaluation": {}}))
    return _runs["other"]


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the text of a page, of a width and in a theme; fails where it tells of an error or asks the network."""
    pages, faults = [], []

    def opened(text: str, width: int = 1280, theme: str = "light") -> Any:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        page = chromium.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme)
        pages.append(page)
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda asked: faults.append(asked.url) if asked.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]", timeout=20_000)
        return page

    yield opened
    for page in pages:
        page.close()
    assert faults == []
