"""Style of all figures: colours, lines, fonts, and files that are the same byte for byte.

Ordered axes (numbers) take colours from a sequential map that stays ordered in grey and for colour-blind readers; axes
of names take the palette of Okabe and Ito (2008). Lines differ in marker too. `no noise` is the black dashed line.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncfl.base.files.atomic import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
WIDTH, HEIGHT = 4.6, 3.3  # inches of one panel
LETTER = 0.068  # inches of a letter of a name at an axis

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "asyncfl",
    "mathtext.fontset": "dejavusans",
}


METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "asyncfl"},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": "asyncfl", "Producer": None},
}
"""Ending of a figure's file -> what its metadata hold."""
_ENDINGS: ContextVar[tuple[str, ...]] = ContextVar("endings", default=tuple(METADATA))


@contextmanager
def saving(*endings: str) -> Iterator[None]:
    """Have `save` write files with these endings alone: a PNG and a PDF take more time than the SVG."""
    before = _ENDINGS.set(endings)
    try:
        yield
    finally:
        _ENDINGS.reset(before)


@contextmanager
def styled() -> Iterator[None]:
    """Use Matplotlib without a display, with the look of this module."""
    import matplotlib

    matplotlib.use("Agg", force=True)
    look: Any = {**matplotlib.rcParamsDefault, **RC, "backend": "Agg"}
    with matplotlib.rc_context(look):
        yield


def looks(values: Sequence[Any]) -> dict[Any, dict[str, Any]]:
    """Return value of the hue axis -> keyword arguments of its line (colour, marker, dashes)."""
    import matplotlib

    plain = [v for v in values if not _is_infinite(v)]
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in plain)
    colours: list[Any] = [OKABE_ITO[i % len(OKABE_ITO)] for i in range(len(plain))]
    if numeric and len(plain) > 2:
        sequential = matplotlib.colormaps["viridis"]
        colours = [sequential(0.82 - 0.76 * i / (len(plain) - 1)) for i in range(len(plain))]
    made: dict[Any, dict[str, Any]] = {}
    for i, (value, colour) in enumerate(zip(plain, colours, strict=True)):
        made[value] = {"color": colour, "marker": MARKERS[i % len(MARKERS)]}
        if i >= len(OKABE_ITO):  # colours and markers repeat
            made[value]["linestyle"] = (0, (4, 1.5))
    no_noise = {"color": "#000000", "marker": "", "linestyle": (0, (4, 2))}
    return {value: no_noise if _is_infinite(value) else made[value] for value in values}


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and math.isinf(value)


def canvas(panels: int, caption: str, title: str, size: tuple[float, float] | None = None) -> tuple[Canvas, list[Axes]]:
    """Return a figure with `panels` axes side by side, the title above and the caption below in small print.

    size: width and height of one panel in inches; None: the usual.
    """
    wide, high = size or (WIDTH if panels < 3 else 3.6 if panels < 5 else 2.7, HEIGHT)
    page, (left, bottom, width, height) = canvas_of(panels * wide, high, caption, title)
    axes = page.subplots(1, panels, squeeze=False)
    page.set_layout_engine("constrained", rect=(left, bottom, width, height), wspace=0.04)
    return page, list(axes[0])


def around(width: float, title: str, caption: str) -> tuple[list[str], list[str], float, float]:
    """Return the lines of title and caption, and the inches that each takes, of a figure `width` inches wide."""
    heading, lines = textwrap.wrap(title, int(width * 11.5)), textwrap.wrap(caption, int(width * 19))
    head, foot = (0.2 * len(heading) + 0.12 if heading else 0.05), (0.155 * len(lines) + 0.1 if lines else 0.02)
    return heading, lines, head, foot


def canvas_of(width: float, body: float, caption: str, title: str) -> tuple[Canvas, tuple[float, float, float, float]]:
    """Return an empty figure with title above and caption below, and the box (left, bottom, width, height) between
    them, in shares of the figure. width, body: inches of the figure, and of the box's height."""
    import matplotlib.pyplot as plt

    heading, lines, head, foot = around(width, title, caption)
    height = body + foot + head
    figure = plt.figure(figsize=(width, height))
    figure.text(0.012, 1 - 0.1 / height, "\n".join(heading), fontsize=10.5, weight="bold", va="top")
    figure.text(0.012, 0.06 / height, "\n".join(lines), fontsize=6.5, color="#555555", va="bottom", linespacing=1.35)
    return figure, (0.005, foot / height, 0.99, 1 - (foot + head) / height)


def saved_as(stem: str | Path) -> list[Path]:
    """Return the files that `save` writes."""
    return [Path(f"{stem}.{ending}") for ending in _ENDINGS.get()]


def save(figure: Canvas, stem: str | Path) -> list[Path]:
    """Write `stem`.svg, .png and .pdf atomically, without dates and versions in them, and return their paths.

    Within `saving` these are the files that it names.
    """
    import matplotlib.pyplot as plt
    from matplotlib.backend_bases import get_registered_canvas_class

    # The solver behind the layout goes through sets in an order of its own, so that its answers differ in their last
    # digits from call to call, and with them the names of clipping paths in an SVG: they are rounded and kept.
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(side), 6) for side in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))
    # Publishers want TrueType fonts, which take a third of a figure's time: only figures without title and caption,
    # which go into a paper, get them.
    fonts = 3 if any(text.get_text() for text in figure.texts) else 42
    # `savefig` would draw each file twice, to lay the figure out again.
    for target, ending in zip(saved_as(stem), _ENDINGS.get(), strict=True):
        canvas: Any = get_registered_canvas_class(ending)(figure)
        figure.set_dpi(plt.rcParams["savefig.dpi"])  # those of vectors set another
        with atomic_file(target) as part, plt.rc_context({"pdf.fonttype": fonts}):
            getattr(canvas, f"print_{ending}")(part, metadata=METADATA[ending])
    plt.close(figure)
    return saved_as(stem)
