"""Speeds and the jitter of tasks, from trainings written by hand."""

import numpy as np
import pytest

from asyncfl.calibration.trainings import FittedSpeeds, Trainings, fit_speeds
from asyncfl.world.distributions import Fixed


def speeds(clients: int, *rows: tuple[int, float, float, bool]) -> FittedSpeeds:
    """Of trainings as (client, work, seconds, seen to its end)."""
    client, work, seconds, seen = map(np.array, zip(*rows, strict=True))
    return fit_speeds(clients, Trainings(client, work * 1.0, seconds * 1.0, seen))


def test_a_clients_speed_is_the_mean_of_its_trainings() -> None:
    found = speeds(
        4, (0, 10, 2.0, True), (0, 20, 4.0, True), (1, 10, 5.0, True), (2, 10, 1.0, False), (3, 10, 9.0, True)
    )
    assert found.s_per_sample == pytest.approx([0.2, 0.5, 0.5, 0.9])
    assert (found.unseen, found.trainings) == ((2,), 4)
    assert found.jitter.distribution == Fixed(value=1.0)
    # Of those who were seen, not of whom the median was given.
    assert found.population.exact == pytest.approx([0.2, 0.5, 0.9])


def test_jitter_is_widened_for_the_error_of_the_clients_mean() -> None:
    found = speeds(2, (0, 10, 10.0, True), (0, 10, 40.0, True), (1, 10, 3.0, True), (0, 10, 20.0, True))
    # ln 2 apart from the mean of three logarithms: sqrt(3/2) of that, over their mean.
    factors = np.exp(np.array([-1, 0, 1]) * np.log(2) * np.sqrt(1.5))
    assert found.jitter.exact == pytest.approx(factors / factors.mean())
    assert found.s_per_sample == pytest.approx([7 / 3, 0.3])


def test_a_training_cut_off_late_counts_with_its_observed_time() -> None:
    rows = [(0, 1, 1.0, True), (0, 1, 3.0, True), (1, 1, 2.0, True), *[(0, 1, s, True) for s in (1.0, 2.0, 3.0) * 2]]
    assert speeds(2, *rows).s_per_sample == pytest.approx([2.0, 2.0])
    more = speeds(3, *rows, (0, 1, 11.0, False), (0, 1, 1.9, False), (2, 1, 50.0, False))
    assert more.s_per_sample == pytest.approx([27 / 9, 2.0, 2.5])
    assert more.unseen == (2,)
