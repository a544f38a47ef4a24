"""The colours of a page: the colour-blind tell them apart, and texts can be read."""

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from skimage.color import deltaE_ciede2000, rgb2lab

Colour = NDArray[np.float64]

# What is left of linear RGB, at full severity: Machado, Oliveira and Fernandes 2009, table 1.
SEEN = {
    "by all": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TOLD_APART = (
    ("download", "training", "upload", "off"),
    ("first", "second"),
    ("upload", "training"),
    ("bad", "training"),
)
"""Names of colours that stand beside each other without shapes of their own."""


@pytest.fixture(params=["light", "dark"])
def colours(request: pytest.FixtureRequest) -> dict[str, Colour]:
    """Name -> linear RGB, of a theme."""
    style = (files("asyncfl.extras.view") / "program" / "page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root[^{]*\{(.*?)\}", style, flags=re.DOTALL)
    block = blocks[["light", "dark"].index(request.param)]
    found = {name: np.array([int(code[n : n + 2], 16) for n in (0, 2, 4)]) / 255 for name, code in _named(block)}
    return {name: np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) for name, rgb in found.items()}


def _named(block: str) -> list[tuple[str, str]]:
    return re.findall(r"--(\w+): #(\w{6})", block)


def lab(linear: Colour) -> Colour:
    linear = np.clip(linear, 0, 1)
    return rgb2lab(np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055))


@pytest.mark.parametrize("eyes", SEEN)
def test_neighbouring_colours_are_distinguishable(colours: dict[str, Colour], eyes: str) -> None:
    # CIEDE2000: 2 is just noticeable side by side, beyond 10 is another colour at a glance.
    near = {
        (one, other): round(float(distance), 1)
        for group in TOLD_APART
        for one, other in combinations(group, 2)
        if (distance := deltaE_ciede2000(lab(SEEN[eyes] @ colours[one]), lab(SEEN[eyes] @ colours[other]))) < 12
    }
    assert near == {}


@pytest.mark.parametrize(
    ("text", "ground"), [("text", "ground"), ("soft", "ground"), ("soft", "panel"), ("bad", "ground")]
)
def test_texts_can_be_read(colours: dict[str, Colour], text: str, ground: str) -> None:
    one, other = (float(colours[name] @ [0.2126, 0.7152, 0.0722]) + 0.05 for name in (text, ground))
    # Contrast of 4.5: WCAG 2.2, 1.4.3.
    assert max(one, other) / min(one, other) >= 4.5
