"""Figure of the clients' data: samples per client above, clients by classes below."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from asyncfl.data.class_counts import ClassCounts
from asyncfl.results.figure_style import OKABE_ITO, canvas_of, save, styled

NAMED = 40
"""Most classes, and most clients, that are named at the axes."""
LARGEST = 250.0
"""Area of the largest bubble in square points, where there is room for bubbles."""


def holdings_figure(holdings: ClassCounts, title: str, stem: str | Path) -> list[Path]:
    """Draw `stem`.svg, .png and .pdf, and return their paths.

    With few clients each number is a bubble; with many it is a shade. Raises OutputError where they cannot be written.
    """
    clients, classes = holdings.counts.shape
    small = clients <= NAMED and classes <= NAMED
    width = min(9.0, max(4.6, 1.6 + 0.17 * clients))
    body = 1.2 + min(5.5, max(1.8, 0.17 * classes))
    caption = f"{holdings.provenance}. {holdings.summary}."
    with styled():
        figure, (left, bottom, wide, high) = canvas_of(width, body, caption, title)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, body - 1.2))
        figure.set_layout_engine("constrained", rect=(left, bottom, wide, high))
        above.bar(np.arange(clients), holdings.sizes, width=0.8 if small else 1.0, color=OKABE_ITO[0])
        above.set_ylabel("samples")
        above.grid(visible=False, axis="x")
        if small:
            client, label = np.nonzero(holdings.counts)
            number = holdings.counts[client, label]
            largest = min(LARGEST, (72 * 0.8 * (width - 1.0) / clients) ** 2, (72 * 0.8 * (body - 1.8) / classes) ** 2)
            below.scatter(
                client, label, s=np.maximum(1.5, largest * number / number.max()), color=OKABE_ITO[0], linewidths=0
            )
        else:
            shown = np.ma.masked_equal(holdings.counts.T, 0)
            image = below.imshow(shown, aspect="auto", interpolation="nearest", cmap="viridis_r", origin="lower")
            below.grid(visible=False)
            figure.colorbar(image, ax=below, label="samples", shrink=0.9)
        below.set_ylabel("class" if holdings.kind == "classes" else holdings.kind)
        below.set_ylim(-0.6, classes - 0.4)
        below.set_xlim(-0.6, clients - 0.4)
        if classes <= NAMED:
            below.set_yticks(np.arange(classes), [_short(name) for name in holdings.class_names])
        named = holdings.owners or tuple(str(number) for number in range(clients))
        if small:
            turned = max(map(len, named)) > 2
            below.set_xticks(np.arange(clients), [_short(name) for name in named], rotation=90 if turned else 0)
        below.set_xlabel(f"client, by its {holdings.column}" if holdings.owners else "client")
        return save(figure, stem)


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"
