"""The pages of results as a browser shows them; skipped where there is none."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def looked_at(chromium: Any, results: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page of the results; fails where one tells of an error or asks anybody but the disk."""
    tabs, faults = [], []

    def looked_at(name: str, width: int = 1280, theme: str = "light") -> Any:
        tab = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        tabs.append(tab)
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        tab.on("requestfailed", lambda asked: faults.append(f"{asked.url} failed"))
        tab.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith("file:") else None)
        tab.goto((results / name).as_uri())
        return tab

    yield looked_at
    for tab in tabs:
        tab.close()
    assert faults == []


def lightness(picture: bytes) -> np.ndarray[Any, Any]:
    """0..255 of each pixel."""
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("L"))


@pytest.mark.parametrize(("width", "theme"), [(400, "dark"), (1280, "light")])
def test_pages_are_drawn_in_either_theme(looked_at: Callable[..., Any], width: int, theme: str) -> None:
    ground = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 20, 25)"}[theme]
    for name in ("index.html", "papers/nbafl.html", "papers/safl.html"):
        tab = looked_at(name, width, theme)
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        assert len(np.unique(lightness(tab.screenshot()))) > 20
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, name


def test_figures_are_dark_in_the_dark_and_their_texts_light(looked_at: Callable[..., Any]) -> None:
    for theme, light in (("light", True), ("dark", False)):
        tab = looked_at("papers/nbafl.html", theme=theme)
        picture = tab.locator(".picture").first
        picture.scroll_into_view_if_needed()
        tab.wait_for_function("document.querySelector('.picture img').complete")
        seen = lightness(picture.screenshot())
        assert bool(np.median(seen) > 230) == light
        assert bool(np.median(seen) < 40) != light
        assert (seen.max() if theme == "dark" else 255 - seen.min()) > 180


def test_the_table_of_claims_is_searched_filtered_and_sorted(looked_at: Callable[..., Any]) -> None:
    tab = looked_at("index.html")
    shown, rows = tab.locator("#shown"), tab.locator("#all-claims tbody tr:visible")
    assert shown.inner_text() == "4 of 4 claims"
    tab.keyboard.press("/")
    tab.keyboard.type("ACCURATE where")
    assert shown.inner_text() == "1 of 4 claims"
    assert "accurate everywhere" in rows.inner_text()
    tab.keyboard.press("Escape")
    assert shown.inner_text() == "4 of 4 claims"
    tab.select_option("#filter-verdict", "does not hold")
    assert shown.inner_text() == "1 of 4 claims"
    assert "the loss rises" in rows.inner_text()
    tab.select_option("#filter-verdict", "")
    tab.select_option("#filter-paper", "nbafl")
    assert rows.count() == 4
    head = tab.locator("#all-claims th", has_text="claim").first
    for direction in ("ascending", "descending"):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == direction
        claims = [text.lower() for text in rows.locator("td:nth-child(2)").all_inner_texts()]
        assert claims == sorted(claims, reverse=direction == "descending")


def test_a_tile_leads_to_its_claim_and_keys_go_along_the_strip(looked_at: Callable[..., Any]) -> None:
    tab = looked_at("index.html")
    tab.locator(".tiles a").first.focus()
    tab.keyboard.press("ArrowRight")
    said = tab.evaluate("document.activeElement.querySelector('.hidden-text').textContent").split(": ", 1)
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/papers/nbafl.html#*")
    target = tab.locator("li:target")
    assert target.is_visible()
    assert said[1].strip() in target.inner_text()
    assert said[0].strip() in target.inner_text()
    tab.get_by_role("link", name="all results").click()
    tab.wait_for_url("**/index.html")
