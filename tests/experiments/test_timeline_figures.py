"""What the figures of timelines draw, of timelines made by hand."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

from asyncfl.experiments import timeline as drawn


@pytest.fixture
def axis() -> Iterator[Any]:
    page, axis = pyplot.subplots()
    yield axis
    pyplot.close(page)


def timeline(seed: int = 0, **fields: Any) -> Any:
    usual = {
        "published_s": np.array([0.0, 120.0, 360.0, 480.0]),
        "round_s": np.array([240.0, 120.0, 120.0]),
        "bytes_up": np.array([0, 1_000_000, 2_000_000, 4_000_000]),
        "bytes_down": np.array([500_000, 1_500_000, 2_500_000, 5_000_000]),
        "staleness": np.array([3, 1]),
        "exposures_up": np.array([0, 2, 2, 3]),
        "most_overheard": 3,
        "fates": {"aggregated": 6, "lost_up": 2, "lost_down": 0},
        "energy_j": {"training": np.array([100.0, 300.0]), "sending": np.array([50.0, 10.0])},
    }
    return SimpleNamespace(seed=seed, **{**usual, **fields})


def lines(axis: Any) -> list[list[list[float]]]:
    return [[np.asarray(part, float).tolist() for part in line.get_data()] for line in axis.lines]


def bars(axis: Any) -> Any:
    """(n, 2) middle and height of each."""
    return np.array([(one.get_x() + one.get_width() / 2, one.get_height()) for one in axis.patches])


def test_clients_are_counted_by_what_was_overheard_of_them(axis: Any) -> None:
    drawn._exposures(axis, [timeline(), timeline(1, most_overheard=5)])
    assert bars(axis) == pytest.approx(np.array([(0, 0.25), (1, 0.0), (2, 0.5), (3, 0.25)]))
    assert lines(axis) == [[[5.0, 5.0], [0.0, 1.0]]]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["$L$ = 5"]


def test_fates_are_shares_of_all_tasks_and_unused_ones_are_left_out(axis: Any) -> None:
    drawn._fates(axis, [timeline(), timeline(1, fates={"aggregated": 4, "lost_up": 0, "lost_down": 0})])
    assert [one.get_width() for one in axis.patches] == pytest.approx([10 / 12, 2 / 12])
    assert [text.get_text() for text in axis.get_yticklabels()] == ["aggregated", "lost up"]


def test_energy_is_shown_by_client_and_by_activity(axis: Any) -> None:
    drawn._energies(axis, [timeline()])
    assert lines(axis) == [[[150.0, 310.0], [0.5, 1.0]]]
    axis.clear()
    more = {"training": np.array([5_000.0, 3_000.0]), "sending": np.array([0.0, 940.0])}
    drawn._doings(axis, [timeline(), timeline(1, energy_j=more)])
    assert [one.get_width() for one in axis.patches] == pytest.approx([4.2, 0.5])
    assert axis.get_xlabel() == "energy of all clients (kJ)"
    assert [text.get_text() for text in axis.get_yticklabels()] == ["training", "sending"]
