"""The table of a fit: descriptions of distributions and losses, and its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from asyncfl.calibration.fit import Calibration
from asyncfl.calibration.fit_table import describe_distribution, describe_loss, fit_table
from asyncfl.world.distributions import Distribution, Exponential, Fixed, Listed, Lognormal, Pareto, Uniform
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, Loss, NoLoss


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Fixed(value=0.0125), "12.5 ms"),
        (Uniform(low=1.5, high=3), "uniform, 1.5 s to 3 s"),
        (Exponential(mean=2), "exponential, mean 2 s"),
        (Exponential(mean=2, minimum=1), "exponential, mean 2 s, least 1 s"),
        (Lognormal(median=3, sigma=0.5), "lognormal, median 3 s, sigma 0.5"),
        (Pareto(minimum=2, alpha=3.25), "Pareto, least 2 s, alpha 3.25"),
        (Listed(values=(1.0, 2.0)), "kind='listed' values=(1.0, 2.0)"),
    ],
)
def test_distributions_in_words(one: Distribution, words: str) -> None:
    assert describe_distribution(one, "s") == words


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (NoLoss(), "none"),
        (IndependentLoss(probability=0.12345), "0.123 of packets, independent"),
        (GilbertElliottLoss(good_to_bad=0.1, bad_to_good=0.4), "0.2 of packets, in bursts of 2.5 packets"),
    ],
)
def test_losses_in_words(loss: Loss, words: str) -> None:
    assert describe_loss(loss) == words


def test_shared_machines_have_rows_where_sharing_was_found(found: Calibration) -> None:
    def rows(**seen: object) -> dict[str, list[str]]:
        columns, lines = fit_table(replace(found, **seen))  # type: ignore[arg-type]
        assert columns == ["part", "fitted", "from", "gap"]
        return {line[0]: line[1:] for line in lines}

    trainings = f"{found.speeds.trainings} trainings"
    alone = rows(processors=None, evaluate_s=0.0, aggregate_s=np.empty(0))
    assert alone["processors"] == ["one for each client and the server", trainings, "–"]
    assert not {"server, a buffer", "server, an evaluation"} & alone.keys()
    shared = rows(processors=2.5, evaluate_s=0.75, aggregate_s=np.array([0.25, 0.5, 0.75]))
    assert shared["processors"] == ["2.5, shared by clients and server", trainings, "–"]
    assert shared["server, a buffer"] == ["500 ms", "3 versions", "–"]
    assert shared["server, an evaluation"] == ["750 ms", trainings, "–"]
