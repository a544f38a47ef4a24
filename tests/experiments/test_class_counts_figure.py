from unittest import mock

import numpy as np
import pytest
from matplotlib import pyplot
from PIL import Image

from asyncfl.data.class_counts import ClassCounts
from asyncfl.experiments.class_counts_figure import holdings_figure


@pytest.mark.parametrize(("clients", "classes"), [(6, 10), (40, 40)])
def test_the_picture_is_drawn_and_the_same_each_time(tmp_path, clients, classes):
    counts = np.random.default_rng(0).integers(0, 9, (clients, classes))
    counts[:, 0] += 1
    names = tuple(f"class {number}" for number in range(classes))
    owners = tuple(f"writer {number}" for number in range(clients))
    drawn = []
    for stem in ("one", "two") if clients == 6 else ("one",):
        holdings = ClassCounts(counts, names, "writer", owners, (), "mine.npz (10 + 5 samples)")
        files = holdings_figure(holdings, "Who holds what: by, seed 0", tmp_path / stem)
        drawn.append([file.read_bytes() for file in files])
        [png] = [file for file in files if file.suffix == ".png"]
        with Image.open(png) as picture:
            assert picture.width > 900
            assert np.asarray(picture.convert("L")).std() > 5
    assert drawn[0] == drawn[-1]


def page_of(holdings, folder):
    """Return the figure that would be written, and its axes."""
    pages = []
    with mock.patch("asyncfl.experiments.class_counts_figure.save", lambda page, stem: pages.append(page)):
        holdings_figure(holdings, "Who holds what", folder / "one")
    [page] = pages
    pyplot.close(page)
    return page, page.axes


def made(clients, classes, owners=(), names=None):
    counts = np.zeros((clients, classes), np.int64)
    counts[np.arange(clients), np.arange(clients) % classes] = 8
    counts[0, -1] = 2
    names = names or tuple(f"class {number}" for number in range(classes))
    return ClassCounts(counts, names, "writer", owners, (), "mine.npz (10 + 5 samples)")


def test_numbers_of_few_clients_are_bubbles_whose_area_they_are(tmp_path):
    _, (above, below) = page_of(made(30, 20), tmp_path)
    assert [bar.get_height() for bar in above.patches] == [10, *[8] * 29]
    [bubbles] = below.collections
    assert bubbles.get_offsets().tolist()[:3] == [[0, 0], [0, 19], [1, 1]]
    # Client 0 has 8 samples of class 0 and 2 of class 19, client 1 has 8 of class 1.
    sizes = bubbles.get_sizes()
    assert sizes[:3] == pytest.approx([sizes[0], sizes[0] / 4, sizes[0]])
