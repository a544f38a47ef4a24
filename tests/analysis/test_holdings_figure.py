from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from asyncfl.analysis.holdings_figure import holdings_figure
from asyncfl.data.holdings import Holdings


@pytest.mark.parametrize(("clients", "classes"), [(1, 2), (6, 10), (40, 40), (300, 10), (20, 100)])
def test_the_picture_is_drawn_and_the_same_each_time(tmp_path, clients, classes):
    counts = np.random.default_rng(0).integers(0, 9, (clients, classes))
    counts[:, 0] += 1
    names = tuple(f"class {number}" for number in range(classes))
    owners = tuple(f"writer {number}" for number in range(clients))
    drawn = []
    for stem in ("one", "two") if clients == 6 else ("one",):
        holdings = Holdings(counts, names, "writer", owners, (), "mine.npz (10 + 5 samples)")
        files = holdings_figure(holdings, "Who holds what: by, seed 0", tmp_path / stem)
        drawn.append([file.read_bytes() for file in files])
        [png] = [file for file in files if file.suffix == ".png"]
        with Image.open(png) as picture:
            assert picture.width > 900
            assert np.asarray(picture.convert("L")).std() > 5
    assert drawn[0] == drawn[-1]
