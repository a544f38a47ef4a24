"""Availability that goes along with speed or with data."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from asyncfl.base.streams import Streams
from asyncfl.world import World
from asyncfl.world.availability import AlternatingAvailability, ClientTraits, Variation

SPEEDS = np.random.default_rng(0).lognormal(0, 1, 4000)
SIZES = np.random.default_rng(1).integers(10, 1000, 4000)


@pytest.mark.parametrize("rho", [-0.8, 0.0, 0.6, 1.0])
def test_the_rank_correlation_is_that_of_a_gaussian_copula(rho: float) -> None:
    """Spearman's correlation of a Gaussian copula is 6/pi asin(rho/2)."""
    for along, of in (("speed", -SPEEDS), ("samples", SIZES)):
        varies = Variation(sigma=0.7, along=along, correlation=rho)
        factors = varies.factors(ClientTraits(SPEEDS, SIZES), Streams(3))
        assert spearmanr(factors, of).statistic == pytest.approx(6 / np.pi * np.arcsin(rho / 2), abs=0.04)
        assert np.median(factors) == pytest.approx(1, abs=0.05)
        assert np.log(factors).std() == pytest.approx(0.7, abs=0.03)


def test_faster_clients_are_online_for_longer_from_the_first_moment() -> None:
    varies = {"sigma": 1.0, "correlation": 1.0}
    pattern = AlternatingAvailability(on_s={"kind": "exponential", "mean": 10}, off_s=10, varies=varies)
    presence = pattern.start(ClientTraits(SPEEDS), Streams(0))
    factor = Variation.model_validate(varies).factors(ClientTraits(SPEEDS), Streams(0))
    fast = np.median(SPEEDS) > SPEEDS
    for time_s in (0.0, 35.0):
        online = presence.all_online(time_s)
        expected = factor / (factor + 1)
        assert online[fast].mean() == pytest.approx(expected[fast].mean(), abs=0.04)
        assert online[~fast].mean() == pytest.approx(expected[~fast].mean(), abs=0.04)


def test_a_world_passes_on_the_sizes_of_the_clients_data() -> None:
    pattern = {"kind": "alternating", "on_s": 1.0, "off_s": 1.0, "varies": {"sigma": 1.0, "along": "samples"}}
    world = World.model_validate({"availability": pattern})
    assert world.start(3, Streams(0), np.array([1, 2, 3])).clients == 3
    with pytest.raises(ValueError, match="samples"):
        world.start(3, Streams(0))
