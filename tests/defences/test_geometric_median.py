"""The row in the middle, and how far the others are from it in usual distances."""

import numpy as np
import pytest

from asyncfl.defences.geometric_median import relative_distances


@pytest.mark.parametrize(
    ("places", "shares", "middle", "ratios"),
    [
        # Half of the weight is no majority: each has to reach to the other.
        ([0.0, 2.0], [0.5, 0.5], 0, [0.0, 1.0]),
        ([0.0, 2.0], [0.25, 0.75], 1, [4.0, 0.0]),
        ([0.0, 1.0, 8.0], [0.4, 0.3, 0.3], 0, [0.0, 1.0, 8.0]),
        ([0.0, 1.0, 1.5], [0.2, 0.4, 0.4], 1, [2.0, 0.0, 1.0]),
    ],
)
def test_usual_distance_covers_more_than_half_of_the_weight(
    places: list[float], shares: list[float], middle: int, ratios: list[float]
) -> None:
    at = np.array(places)
    found, far = relative_distances((at[:, None] - at) ** 2, np.array(shares), 0.5)
    assert found == middle
    assert far == pytest.approx(ratios)
