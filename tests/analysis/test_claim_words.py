"""What claims say of numbers, and what they ask of comparisons."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from asyncfl.analysis.claims import AtLeast, Order
from asyncfl.analysis.claims.asked import Asked, exceeds, reaches
from asyncfl.analysis.evidence.samples import Sample
from asyncfl.analysis.grid import MissingError


def sample(*values: float) -> Sample:
    return Sample(np.arange(len(values)), np.array(values, dtype=np.float64))


def order(value: str = "final train_loss", **of: Any) -> Order:
    return Order.model_validate({"check": "order", "along": "K", "says": "it falls", "value": value, **of})


def at_least(value: str = "final train_loss", **of: Any) -> AtLeast:
    return AtLeast.model_validate({"check": "at_least", "threshold": 0.5, "says": "enough", "value": value, **of})


def test_of_many_points_the_ends_and_the_extremes_are_listed() -> None:
    few = {point: sample(float(point)) for point in range(8)}
    assert order().listing(few) == "K 0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7"
    many = {point: sample(float((point - 3) ** 2 - (20 if point == 6 else 0))) for point in range(9)}
    assert order().listing(many) == "K 0: 9, 6: -11, 8: 25 (ends, lowest and highest of 9)"
    peak = {point: sample(-float((point - 3) ** 2)) for point in range(9)}
    assert order().listing(peak) == "K 0: -9, 3: 0, 8: -25 (ends, lowest and highest of 9)"


@pytest.mark.parametrize(
    ("value", "goal", "low_is_good"),
    [
        ("final train_loss", None, True),
        ("final test_accuracy", None, False),
        ("final honest_flagged_share", None, False),
        ("mean precision", None, False),
        ("lowest recall", None, False),
        ("highest test_r2", None, False),
        ("final test_accuracy", "low", True),
        ("final train_loss", "high", False),
    ],
)
def test_which_values_are_good(value: str, goal: Any, low_is_good: bool) -> None:
    assert order(value, goal=goal).low_is_good is low_is_good


def test_claims_name_what_they_need() -> None:
    one = order("best T of round 14 train_loss", where={"K": [5, 10]})
    assert one.column == "train_loss"
    assert one.axes_named == [("where", "K"), ("value", "T"), ("along", "K")]
    assert one.columns_named[0] == ("value", "rounds", "train_loss")
    assert one.rounds_named == [("value", 14)]
    assert one.values_named[:2] == [("where", "K", 5), ("where", "K", 10)]
    assert order().columns_named == [("value", "ends", "train_loss")]
    assert order().rounds_named == []
    assert (order().title, order(log=True).title) == (
        "order: final train_loss along K",
        "order: final train_loss (logarithm) along K",
    )


def test_logarithms_of_values() -> None:
    claim = order(log=True)
    np.testing.assert_allclose(claim.on_scale(np.array([1.0, math.e, 0.0, -math.inf, math.inf])),
                               [0.0, 1.0, -math.inf, -math.inf, math.inf])  # fmt: skip
    with pytest.raises(MissingError, match="train_loss is negative somewhere"):
        claim.on_scale(np.array([1.0, -1.0]))
    assert order().on_scale(np.array([-1.0])).tolist() == [-1.0]


def test_means_of_values() -> None:
    assert order().mean(sample(1.0, math.nan, 2.0)) == 1.5
    assert order(log=True).mean(sample(math.log(2), math.log(8))) == pytest.approx(4.0)
    assert order().mean(sample(1.0, math.inf)) == math.inf
    assert order(log=True).mean(sample(1.0, -math.inf)) == -math.inf
    assert math.isnan(order().mean(sample(math.nan)))
    assert order().mean_in_words(math.inf) == "diverged"
    assert order().mean_in_words(0.25) == "0.25"


def test_intervals_in_words() -> None:
    assert order().in_words(-0.5, math.inf) == "[-0.5, ∞]"
    assert order().in_words(-math.inf, 0.12345) == "[−∞, 0.123]"
    assert order().in_words(0.25, 0.25) == "0.25"
    assert order().side(-0.0, "") == "0"
    assert order(log=True).in_words(0.0, math.log(2)) == "a factor in [1, 2]"
    assert at_least(log=True).in_words(0.0, math.log(2)) == "[1, 2]"
    assert at_least(log=True).in_words(math.log(2), math.log(2)) == "2"


def test_one_value_exceeds_another_seed_by_seed() -> None:
    asked = Asked("it is more by", ({"K": 5},), 0.5, ", wanted .5", room=0.1)
    found = exceeds(sample(3.0, 5.0), sample(1.0, 4.75), asked, "statistical", False)
    assert found.excess.tolist() == [1.5, -0.25]
    assert (found.threshold, found.sign, found.strict, found.room) == (0.5, 1.0, True, 0.1)
    assert (found.about, found.asked, found.cells, found.kind) == (
        "it is more by",
        ", wanted .5",
        ({"K": 5},),
        "statistical",
    )
    # Told as how much worse: an effect of minus one half is what is neither true nor false.
    worse = exceeds(sample(3.0), sample(1.0), Asked("", by=0.5, sign=-1.0, strict=False), "statistical", False)
    assert (worse.threshold, worse.shown(1.5), worse.strict) == (-0.5, -2.0, False)


def test_a_value_reaches_a_threshold_or_stays_below_it() -> None:
    values = sample(0.4, math.nan, 0.75)
    found = reaches(values, 0.5, Asked("got", tolerated=0.2), "count", False)
    assert (found.seeds.tolist(), found.excess.tolist()) == ([0, 2], pytest.approx([-0.1, 0.25]))
    assert (found.threshold, found.tolerated, found.strict) == (0.5, 0.2, False)
    below = reaches(values, 0.5, Asked("got", sign=-1.0), "statistical", False)
    assert below.excess.tolist() == pytest.approx([0.1, -0.25])
    assert below.shown(0.1) == pytest.approx(0.4)
