from unittest import mock

import numpy as np
import pytest
from matplotlib import pyplot
from PIL import Image

from asyncfl.data.class_counts import ClassCounts
from asyncfl.experiments.class_counts_figure import holdings_figure


def made(clients, classes):
    counts = np.zeros((clients, classes), np.int64)
    counts[np.arange(clients), np.arange(clients) % classes] = 8
    counts[0, -1] = 2
    names = tuple(f"class {number}" for number in range(classes))
    owners = tuple(f"writer {number}" for number in range(clients))
    return ClassCounts(counts, names, "writer", owners, (), "mine.npz (10 + 5 samples)")


@pytest.mark.parametrize("number", [6, 40])
def test_the_picture_is_drawn_and_the_same_each_time(tmp_path, number):
    stems = ("one", "two") if number == 6 else ("one",)
    drawn = [holdings_figure(made(number, number), "Who holds what: by, seed 0", tmp_path / stem) for stem in stems]
    assert [file.read_bytes() for file in drawn[0]] == [file.read_bytes() for file in drawn[-1]]
    [png] = [file for file in drawn[0] if file.suffix == ".png"]
    with Image.open(png) as picture:
        assert picture.width > 900
        assert np.asarray(picture.convert("L")).std() > 5


def test_numbers_of_few_clients_are_bubbles_whose_area_they_are(tmp_path):
    pages = []
    with mock.patch("asyncfl.experiments.class_counts_figure.save", lambda page, stem: pages.append(page)):
        holdings_figure(made(30, 20), "Who holds what", tmp_path / "one")
    [page] = pages
    pyplot.close(page)
    above, below = page.axes
    assert [bar.get_height() for bar in above.patches] == [10, *[8] * 29]
    [bubbles] = below.collections
    assert bubbles.get_offsets().tolist()[:3] == [[0, 0], [0, 19], [1, 1]]
    # Client 0 has 8 samples of class 0 and 2 of class 19, client 1 has 8 of class 1.
    sizes = bubbles.get_sizes()
    assert sizes[:3] == pytest.approx([sizes[0], sizes[0] / 4, sizes[0]])
