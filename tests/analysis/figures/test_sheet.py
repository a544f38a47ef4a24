"""Contact sheets: which images stand in which row."""

from unittest import mock

import numpy as np
import pandas as pd

from asyncfl.analysis.figures import Sheet
from asyncfl.analysis.pictures import packed

GRID = {"privacy.epsilon": (10, 1000, float("inf")), "steps": ("one", "many")}
FIGURE = Sheet(rows="privacy.epsilon", method="cosine", descending=True, where={"steps": "one"})


def grey(value):
    return packed(np.full((1, 2, 2), value, np.float32))


def pictures(other=()):
    """Three images; that in place 1 comes out best, that in place 0 worst; `other`: values with another client's."""
    rows = [
        {
            "privacy.epsilon": epsilon, "steps": steps, "seed": seed, "method": method, "place": place,
            "psnr_db": 10.0 * (place + 1) % 30 + number, "ssim": 0.1 * place, "channels": 1, "height": 2, "width": 2,
            "true": grey(0.2 * (place + 1) + (0.2 if epsilon in other else 0)), "made": grey(0.1 * number),
        }
        for number, epsilon in enumerate(GRID["privacy.epsilon"]) for steps in GRID["steps"] for seed in (3, 4)
        for method in ("cosine", "l2") for place in range(3)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def rows_of(figure, table):
    with mock.patch("asyncfl.analysis.figures.sheet.draw_sheet") as drawing:
        figure.draw(GRID, {"pictures": table}, "a caption", "a title", "stem")
    return drawing.call_args.args[0]


def test_a_row_for_each_value_below_the_true_images():
    rows = rows_of(FIGURE, pictures())
    assert [row.name for row in rows] == ["true images", "no noise", "$\\epsilon$ = 1000", "$\\epsilon$ = 10"]
    np.testing.assert_allclose(rows[0].images[:, 0, 0, 0], [0.4, 0.2, 0.6], atol=0.01)
    np.testing.assert_allclose(rows[1].psnr_db, [22, 12, 2])
    np.testing.assert_allclose(rows[3].ssim, [0.1, 0.0, 0.2])
    np.testing.assert_allclose([row.images.mean() for row in rows[1:]], [0.2, 0.1, 0.0], atol=0.01)


def test_an_upload_of_other_images_has_those_above_it():
    rows = rows_of(FIGURE, pictures(other=[10]))
    assert [row.name for row in rows][-2:] == ["true images", "$\\epsilon$ = 10"]
    np.testing.assert_allclose(rows[-2].images[:, 0, 0, 0], [0.6, 0.4, 0.8], atol=0.01)
