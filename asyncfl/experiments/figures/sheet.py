"""Contact sheets: images reconstructed from one overheard upload, a row for each value of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asyncfl.experiments.csv_files import unpacked
from asyncfl.experiments.figures.base import FigureBase, in_words
from asyncfl.experiments.grid import AxisName, AxisValues, Tables, select
from asyncfl.experiments.labels import legend_label
from asyncfl.results.contact_sheet import SHOWN, SheetRow, draw_sheet, true_row


class Sheet(FigureBase):
    """True images above, below them their reconstructions, from the upload of the first seed that was attacked.

    Shown are the best reconstructions of the first row, the best first. A row of an upload of other images has its own
    true images above it.
    """

    kind: Literal["sheet"] = "sheet"
    rows: AxisName
    """Axis down."""
    method: Literal["first_layer", "cosine", "l2"]
    """Method of the reconstruction, one of `pictures.methods`."""
    descending: bool = False
    """Whether the axis runs from its last value to its first."""

    def shown(self) -> str:
        return f"true images and what was made of them, a row for each {in_words(self.rows)}"

    def of_seeds(self, fewer: Sequence[int], seeds: int) -> str:
        return f"the first of n = {seeds} seeds" if seeds > 1 else "n = 1 seed"

    @property
    def tables_read(self) -> set[str]:
        return {"pictures"}

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return [("method", "ends", f"ssim_{self.method}")]

    def draw_page(self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path) -> list[Path]:
        pictures = tables["pictures"]
        found = pictures[select(pictures, self.where) & (pictures["method"] == self.method)]
        found = found[found["seed"] == found["seed"].min()]
        values: list[Any] = list(grid[self.rows])[:: -1 if self.descending else 1]
        rows: list[SheetRow] = []
        shown = pd.DataFrame({"true": []})
        for value in values:
            of = found[select(found, {self.rows: value})].set_index("place")
            if not set(shown["true"]) <= set(of["true"]) or not len(shown):
                shown = of.sort_values("psnr_db", ascending=False, kind="stable").head(SHOWN)
                rows.append(true_row(_images(shown, "true")))
            of = of.loc[shown.index]
            name = legend_label(self.rows, value)
            rows.append(SheetRow(name, _images(of, "made"), of["psnr_db"].tolist(), of["ssim"].tolist()))
        return draw_sheet(rows, caption, title, stem)


def _images(pictures: pd.DataFrame, column: str) -> NDArray[np.float32]:
    first = pictures.iloc[0]
    shape = int(first["channels"]), int(first["height"]), int(first["width"])
    return np.stack([unpacked(text, shape) for text in pictures[column]])
