"""Links that lose all but one packet in a million millions, and what had left of a message at a given moment."""

from __future__ import annotations

import math

import pytest

from asyncfl.streams import Streams
from asyncfl.world import World
from asyncfl.world.links import Link
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss
from asyncfl.world.transfer import Burst, Transfer


@pytest.mark.parametrize(("arrive", "loses_everything"), [(0.0, True), (0.5e-12, True), (1.5e-12, False), (0.5, False)])
def test_a_link_is_hopeless_that_lets_less_than_one_packet_in_a_million_millions_through(
    arrive: float, loses_everything: bool
) -> None:
    assert Link(loss=IndependentLoss(probability=1 - arrive)).loses_everything is loses_everything


def test_what_could_never_be_finished_is_said_of_each_link() -> None:
    lost = {"loss": {"kind": "independent", "probability": 1.0}}
    world = World.model_validate({"dropout": 1.0, "uplink": lost, "downlink": lost})
    assert [(fault.field, fault.message) for fault in world.progress_faults()] == [
        ("dropout", "must be below 1, got 1: no client would ever finish a task"),
        ("downlink.loss", "must let some packets through, got a loss of all: nothing would arrive"),
        ("uplink.loss", "must let some packets through, got a loss of all: nothing would arrive"),
    ]
    assert list(World.model_validate({"dropout": 0.999}).progress_faults()) == []
    told = [fault.message for fault in World.model_validate({"processors": 2.5}).deadline_faults(5.0)]
    assert [text.partition(",")[0] for text in told] == ["must be null with training.deadline_s (5)"]
    assert list(World.model_validate({"processors": 2.5}).deadline_faults(None)) == []
    assert list(World().deadline_faults(5.0)) == []


def test_what_had_left_of_a_message_by_hand() -> None:
    """Ten packets of 0.5 s, of which three are sent again at second 7 and one at second 10."""
    whole = Transfer(11.5, True, 3, 10, 14, 4, 1400, 5.0, (7.0, 10.0), (300, 100), 1000, 0.5)
    assert [whole.sent_by(s) for s in (0.0, 0.49, 0.5, 4.9, 5.0, 7.0, 7.5, 8.6, 10.5)] == [
        *(0, 0, 100, 900, 1000, 1000, 1100, 1300, 1400),
    ]
    assert [whole.attempts_by(s) for s in (0.0, 7.0, 7.1, 10.0, 10.1)] == [1, 1, 2, 2, 3]
    assert [whole.bytes_of(packets) for packets in (0, 1, 14)] == [0, 100, 1400]
    assert list(whole.bursts) == [
        Burst(10, 1000, 2.0, True),
        Burst(3, 300, 1.5, False),
        Burst(1, 100, 1.0, False),
    ]
    cut = whole.cut(7.0)
    assert (cut.duration_s, cut.delivered, cut.attempts, cut.sent_bytes, cut.overheard_s) == (7.0, False, 1, 1000, 5.0)
    assert (cut.resent_at_s, cut.resent_bytes, cut.overheard) == ((), (), True)
    assert whole.cut(5.0).overheard_s == 5.0
    assert whole.cut(4.9).overheard_s == math.inf
    again = whole.cut(9.0)
    assert (again.attempts, again.resent_at_s, again.resent_bytes, again.sent_bytes) == (2, (7.0,), (300,), 1300)


def test_over_a_link_without_limit_all_has_left_as_soon_as_any_time_has_passed() -> None:
    whole = Transfer(0.0, True, 1, 10, 10, 0, 1000, math.inf, (), (), 1000, 0.0)
    assert [whole.sent_by(s) for s in (0.0, 1e-9)] == [0, 1000]


@pytest.mark.parametrize(("good", "bad", "lossless"), [(0.0, 0.0, True), (0.1, 0.0, False), (0.0, 0.1, False)])
def test_bursts_lose_nothing_where_neither_state_does(good: float, bad: float, lossless: bool) -> None:
    loss = GilbertElliottLoss(good_to_bad=0.1, bad_to_good=0.3, loss_in_good=good, loss_in_bad=bad)
    assert loss.lossless is lossless
    assert loss.mean_loss() == pytest.approx(0.75 * good + 0.25 * bad)


@pytest.mark.parametrize(
    ("link", "draws"),
    [({}, False), ({"jitter_s": 0.1}, True), ({"loss": {"kind": "independent", "probability": 0.1}}, True)],
)
def test_a_message_draws_only_where_something_is_left_to_chance(link: dict[str, object], draws: bool) -> None:
    assert Link.model_validate(link).start(1, Streams(0), 0).needs_draws is draws
