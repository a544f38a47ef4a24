"""Rules compared with byzfl 0.0.11 and flwr 1.41 on the same updates (float64)."""

import numpy as np
import pytest

from asyncfl.defences import (
    Bulyan,
    CentredClipping,
    GeometricMedian,
    Krum,
    Median,
    MultiKrum,
    NearestNeighbourMixing,
    TrimmedMean,
)

ROWS, COLUMNS = np.arange(13)[:, None], np.arange(5)[None]


def updates() -> np.ndarray:
    values = np.sin(3.0 * ROWS + 7 * COLUMNS + ROWS * COLUMNS)
    values[:2] = 4 * values[:2] + 3
    return values


EQUAL = np.full(13, 1 / 13)
SAMPLES = np.array([10.0 * (k % 3 + 1) for k in range(13)])

KRUM = [-0.750987246772, -0.404037645323, 0.017701925105, 0.436164755248, 0.773890681558]
MULTI_KRUM_WEIGHTED = [-0.189621734987, 0.260044692264, 0.20224471353, 0.571034525825, -0.38476877185]
BULYAN = [-0.412087107947, 0.018303571549, -0.00778006294, 0.617689708442, 0.25177464232]
MEDIAN = [0.412118485242, 0.123573122745, 0.017701925105, 0.436164755248, 0.105987511751]
TRIMMED = [0.153643969719, 0.004458646132, 0.091617548221, 0.328433995428, -0.013500628233]
NEAREST_11 = [-0.054274068188, 0.000378911647, -0.101303725385, 0.107800543723, -0.18598123549]
NEAREST_OF_0 = [0.5417574795917, 0.4510617813003, 0.9588662142224, 1.466184747874, 0.4714208884328]
CENTRED = [0.06783680648, 0.065448063926, 0.090225205759, 0.359765786447, -0.087475302387]
CENTRED_AGAIN = [0.061230599252, 0.045577524317, 0.083197768618, 0.231202655862, -0.027376772105]
GEOMETRIC = [0.052791014977, 0.053153825064, 0.090070734658, 0.388285599344, -0.088229651646]
GEOMETRIC_BFGS = [0.05279099, 0.05315369, 0.09007063, 0.38828558, -0.08822974]


def close(got, wanted, tolerance=1e-9):
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (Krum(byzantine=2), KRUM),
        (Krum(byzantine=1), KRUM),
        (MultiKrum(byzantine=1, chosen=11), NEAREST_11),
        (Bulyan(byzantine=2), BULYAN),
        (Median(), MEDIAN),
        (TrimmedMean(byzantine=2), TRIMMED),
        (TrimmedMean(expected_share=0.15), TRIMMED),
        (TrimmedMean(byzantine=2, pre=(NearestNeighbourMixing(byzantine=2),)), NEAREST_11),
        (CentredClipping(radius=1.5, iterations=3), CENTRED),
    ],
    ids=lambda value: value.kind if hasattr(value, "kind") else "",
)
def test_rules_agree_with_byzfl_and_flower(rule, wanted):
    close(rule.aggregate(updates(), EQUAL), wanted)


def test_multi_krum_averages_by_samples_like_flower():
    close(MultiKrum(byzantine=2, chosen=6).aggregate(updates(), SAMPLES / SAMPLES.sum()), MULTI_KRUM_WEIGHTED)


def test_neighbour_counts_select_differently_like_the_oracles():
    values = np.sin(3.0 * ROWS[:9] + 7 * COLUMNS + ROWS[:9] * COLUMNS * 2.2)
    weights = np.full(9, 1 / 9)
    assert np.flatnonzero(Krum(byzantine=2).weigh(values, weights)).tolist() == [3]
    assert np.flatnonzero(Krum(byzantine=1).weigh(values, weights)).tolist() == [4]


def test_mixing_agrees_with_byzfl():
    mixing = NearestNeighbourMixing(byzantine=2).mix(updates(), EQUAL, None)
    close((mixing @ updates())[[0, 12]], [NEAREST_OF_0, NEAREST_11])


def test_geometric_median_agrees_with_byzfl_and_bfgs():
    found = GeometricMedian().aggregate(updates(), EQUAL)
    close(found, GEOMETRIC, 1e-5)
    close(found, GEOMETRIC_BFGS, 1e-5)


def test_centred_clipping_continues_from_the_last_centre_like_byzfl():
    rule = CentredClipping(radius=1.5)
    first, _ = rule.move_centre(np.zeros(5), updates(), EQUAL)
    second, _ = rule.move_centre(first, 0.5 * updates()[::-1], EQUAL)
    close(second, CENTRED_AGAIN)
