"""One message, and the part of it that a tap holds: by hand, and against references that follow every single packet."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from asyncfl.world.links import Link, LinkState
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, Loss, NoLoss
from asyncfl.world.tap import Tap
from asyncfl.world.transfer import Burst, Transfer

PLACES = {"sender": 0.0, "link": 0.5, "receiver": 1.0}


def tap(packet_loss: float, at="sender") -> Tap:
    return Tap(uplink=True, packet_loss=packet_loss, at=at)


class Scripted(Loss):
    """Loses given numbers of packets, run after run; its state is the list of the silences."""

    kind: str = "test_transfer:Scripted"
    losses: tuple[int, ...]

    def mean_loss(self) -> float:
        return math.nan

    def start(self, rng):
        return ()

    def step(self, state, packets, idle_slots, rng):
        return self.losses[len(state)], (*state, idle_slots)


def message(
    payload_bytes=4000,
    loss=None,
    rng=None,
    *,
    bandwidth_bps=8000,
    acknowledgement_s=0.1,
    tap=None,
    tap_coin=0.0,
    **link,
) -> Transfer:
    """A message of four packets that take a second each."""
    description = Link.model_construct(
        mtu_bytes=1000,
        loss=loss or NoLoss(),
        retransmissions=link.get("retransmissions", 3),
        retransmission_timeout_s=link.get("retransmission_timeout_s", 2),
    )
    links = LinkState(description, np.array([0.5]), np.array([bandwidth_bps]), None)
    rng = SimpleNamespace(random=lambda: tap_coin) if rng is None else rng
    return links.send(0, payload_bytes, tap, rng, acknowledgement_s)


def test_retransmission_worked_out_by_hand() -> None:
    # Sent 0-4 s, three lost; again 6-9 s, one lost; again 11-12 s; half a second on the way.
    transfer = message(loss=Scripted(losses=(3, 1, 0)))
    assert transfer == Transfer(12.5, True, 3, 4, 8, 4, 8000, math.inf, (6.0, 11.0), (3000, 1000), 4000, 1.0)


def test_the_sender_waits_for_a_round_trip_at_least() -> None:
    # Sent 0-4 s; a round trip of 0.5 + 3 s; again 7.5-10.5 s, another; again 14-15 s.
    transfer = message(loss=Scripted(losses=(3, 1, 0)), acknowledgement_s=3.0)
    assert transfer.resent_at_s == (7.5, 14.0)
    assert transfer.duration_s == 15.5
    assert message(loss=Scripted(losses=(1, 0)), retransmission_timeout_s=0).resent_at_s == (4.6,)
    assert message(loss=Scripted(losses=(1,)), retransmissions=0, acknowledgement_s=3.0).duration_s == 7.5


def test_a_message_given_up_worked_out_by_hand() -> None:
    # As above, but the sender tries twice only, and waits for its timeout in vain.
    transfer = message(loss=Scripted(losses=(3, 1, 0)), retransmissions=1)
    assert transfer == Transfer(11.0, False, 2, 4, 7, 4, 7000, math.inf, (6.0,), (3000,), 4000, 1.0)


@pytest.mark.parametrize(("bandwidth", "slots"), [(8000, 2.0), (80, 0.02), (math.inf, math.inf)])
def test_the_channel_steps_for_each_packet_that_would_have_fitted_into_the_wait(bandwidth, slots) -> None:
    seen = []

    class Listening(Scripted):
        def step(self, state, packets, idle_slots, rng):
            seen.append((packets, idle_slots))
            return super().step(state, packets, idle_slots, rng)

    message(loss=Listening(losses=(3, 1, 0)), bandwidth_bps=bandwidth)
    assert seen == [(4, 0.0), (3, pytest.approx(slots)), (1, pytest.approx(slots))]


@pytest.mark.parametrize(
    ("coin", "at_s"),
    [
        (1 / 16 - 1e-9, 4.0),
        (1 / 16 + 1e-9, 9.0),
        (1 / 2 * (3 / 4) ** 3 - 1e-9, 9.0),
        (1 / 2 * (3 / 4) ** 3 + 1e-9, 12.0),
        (1 / 2 * (3 / 4) ** 2 * (7 / 8) - 1e-9, 12.0),
        (1 / 2 * (3 / 4) ** 2 * (7 / 8) + 1e-9, math.inf),
    ],
)
def test_the_tap_has_the_message_with_the_last_packet_that_it_needs(coin, at_s) -> None:
    # Sent 0-4 s, three of them again 6-9 s, one 11-12 s, each transmission missed with 1/2: a packet that was sent k
    # times is caught with probability 1 - 2^-k, and the coin is compared with the product over the four packets.
    transfer = message(loss=Scripted(losses=(3, 1, 0)), tap=tap(0.5), tap_coin=coin)
    assert transfer.overheard_s == at_s
    # It misses all four packets with 1/16 at first, all seven packets of two transmissions with 2^-7.
    assert transfer.caught_s == (1.0 if coin < 15 / 16 else 7.0)
    whole = message(tap=tap(0.0), tap_coin=coin)
    assert (whole.caught_s, whole.overheard_s) == (1.0, 4.0)


@pytest.mark.parametrize(("at", "lag_s"), [("sender", 0.0), ("link", 0.25), ("receiver", 0.5)])
def test_the_tap_hears_a_packet_when_it_gets_there(at, lag_s) -> None:
    # Sent 0-4 s, two lost of four; again 6-8 s. Half way, both lost packets were lost after the tap with 1/4.
    lossy = Scripted(losses=(2, 0))
    heard = message(loss=lossy, tap=tap(0.0, at), tap_coin=0.5)
    assert heard.caught_s == 1.0 + lag_s
    assert heard.overheard_s == (4.0 if at == "sender" else 8.0 + lag_s)
    if at == "receiver":
        assert heard.overheard_s == heard.duration_s
        assert not heard.cut(8.4).overheard
    bursts = list(heard.bursts)
    assert [(one.caught, one.overheard) for one in bursts] == [(True, at == "sender"), (False, at != "sender")]


@pytest.mark.parametrize("at", PLACES)
def test_a_message_that_breaks_off_is_held_in_part(at) -> None:
    heard = message(tap=tap(0.1, at), tap_coin=0.99)
    assert not heard.overheard
    assert heard.cut(heard.caught_s - 0.1).caught_s == math.inf
    assert heard.cut(heard.caught_s).caught_s == heard.caught_s < 2.0


LOSSES = st.one_of(
    st.just(NoLoss()),
    st.floats(0, 1).map(lambda p: IndependentLoss(probability=p)),
    st.builds(
        GilbertElliottLoss,
        good_to_bad=st.floats(1e-3, 1),
        bad_to_good=st.floats(1e-3, 1),
        loss_in_good=st.floats(0, 1),
        loss_in_bad=st.floats(0, 1),
    ),
)


@settings(max_examples=300)
@given(
    st.integers(1, 3_000_000),
    LOSSES,
    st.integers(0, 5),
    st.sampled_from([1.0, 8000.0, 1e9, math.inf]),
    st.sampled_from([0.0, 0.3, 5.0]),
    st.integers(0, 2**32),
)
def test_packets_bytes_and_seconds_add_up(payload, loss, retransmissions, bandwidth, timeout_s, seed) -> None:
    transfer = message(
        payload,
        loss,
        np.random.default_rng(seed),
        retransmissions=retransmissions,
        bandwidth_bps=bandwidth,
        retransmission_timeout_s=timeout_s,
    )
    received = transfer.packets_sent - transfer.packets_lost
    assert transfer.packets <= transfer.packets_sent <= transfer.packets * transfer.attempts
    assert 0 <= received <= transfer.packets
    assert transfer.delivered == (received == transfer.packets)
    assert 1 <= transfer.attempts <= retransmissions + 1
    assert transfer.delivered or transfer.attempts == retransmissions + 1
    assert len(transfer.resent_at_s) == transfer.attempts - 1
    assert list(transfer.resent_at_s) == sorted(transfer.resent_at_s)
    assert len(transfer.resent_bytes) == transfer.attempts - 1
    assert 0 <= sum(transfer.resent_bytes) - (transfer.sent_bytes - payload) <= transfer.attempts
    assert transfer.sent_bytes == math.ceil(payload * transfer.packets_sent / transfer.packets - 1e-6)
    sending_s = transfer.packets_sent * 8 * payload / transfer.packets / bandwidth
    waiting_s = max(timeout_s, 0.6) * (transfer.attempts - transfer.delivered) + 0.5 * transfer.delivered
    assert transfer.duration_s == pytest.approx(sending_s + waiting_s)


def packet_by_packet(
    packets: int,
    loss: GilbertElliottLoss,
    retransmissions: int,
    idle_slots: int,
    tap_packet_loss: float,
    passed: float,
    rng,
) -> tuple[bool, int, bool, int]:
    """(delivered, attempts, overheard, packets sent) of a message whose every packet is followed."""

    def turn(bad: bool) -> bool:
        return bad != (rng.random() < (loss.bad_to_good if bad else loss.good_to_bad))

    bad = rng.random() < loss.bad_share
    pending, caught, sent, attempts = list(range(packets)), set(), 0, 0
    while pending and attempts <= retransmissions:
        if attempts:
            for _ in range(idle_slots):
                bad = turn(bad)
        attempts += 1
        missing = []
        for packet in pending:
            sent += 1
            lost = rng.random() < (loss.loss_in_bad if bad else loss.loss_in_good)
            if rng.random() >= tap_packet_loss and not (lost and rng.random() < passed):
                caught.add(packet)
            if lost:
                missing.append(packet)
            bad = turn(bad)
        pending = missing
    return not pending, attempts, len(caught) == packets, sent


@pytest.mark.parametrize(
    "loss",
    [
        GilbertElliottLoss(good_to_bad=0.05, bad_to_good=0.25),
        GilbertElliottLoss(good_to_bad=0.1, bad_to_good=0.1, loss_in_good=0.02, loss_in_bad=0.6),
    ],
    ids=["bursts", "two states"],
)
@pytest.mark.parametrize("at", PLACES)
def test_aggregate_draws_are_distributed_as_packet_by_packet(loss, at) -> None:
    """Two samples, one test of homogeneity on all of (delivered, attempts, overheard) and one on the packets sent."""
    packets, retransmissions, runs = 20, 2, 3000
    rng = np.random.default_rng(7)
    reference = [packet_by_packet(packets, loss, retransmissions, 2, 0.1, PLACES[at], rng) for _ in range(runs)]
    aggregate = [
        (t.delivered, t.attempts, t.overheard, t.packets_sent)
        for t in (
            message(packets * 1000, loss, rng, retransmissions=retransmissions, tap=tap(0.1, at)) for _ in range(runs)
        )
    ]
    fates = sorted({row[:3] for row in reference + aggregate})
    table = np.array([[sum(row[:3] == fate for row in sample) for fate in fates] for sample in (reference, aggregate)])
    table = table[:, table.sum(axis=0) >= 10]
    assert table.shape[1] >= (5 if at == "sender" else 4)
    assert stats.chi2_contingency(table).pvalue > 1e-3
    sent = [[row[3] for row in sample] for sample in (reference, aggregate)]
    counts = np.array([np.bincount(s, minlength=3 * packets + 1) for s in sent])
    assert stats.chi2_contingency(counts[:, counts.sum(axis=0) >= 10]).pvalue > 1e-3


TEN = Transfer(11.5, True, 3, 10, 14, 4, 1400, 5.0, (7.0, 10.0), (300, 100), 1000, 0.5)
"""Ten packets of 0.5 s, of which three are sent again at second 7 and one at second 10."""


def test_the_part_of_a_message_that_has_left_by_hand() -> None:
    left_bytes = {0.0: 0, 0.49: 0, 0.5: 100, 4.9: 900, 5.0: 1000, 7.0: 1000, 7.5: 1100, 8.6: 1300, 10.5: 1400}
    assert {at_s: TEN.sent_by(at_s) for at_s in left_bytes} == left_bytes
    assert [TEN.attempts_by(s) for s in (0.0, 7.0, 7.1, 10.0, 10.1)] == [1, 1, 2, 2, 3]
    assert list(TEN.bursts) == [
        Burst(10, 1000, 2.0, False, True),
        Burst(3, 300, 1.5, False, False),
        Burst(1, 100, 1.0, False, False),
    ]
    assert [message(bandwidth_bps=math.inf).sent_by(at_s) for at_s in (0.0, 1e-9)] == [0, 4000]


def test_a_message_that_is_cut_off_by_hand() -> None:
    early, late = TEN.cut(7.0), TEN.cut(9.0)
    assert (early.duration_s, early.delivered, early.attempts, early.sent_bytes) == (7.0, False, 1, 1000)
    assert (early.resent_at_s, early.resent_bytes) == ((), ())
    assert (late.attempts, late.resent_at_s, late.resent_bytes, late.sent_bytes) == (2, (7.0,), (300,), 1300)
    assert [TEN.cut(at_s).overheard for at_s in (4.9, 5.0)] == [False, True], "the tap has all of it at second 5"


def test_held_probability_worked_out_by_hand() -> None:
    # One packet sent once, one twice, one three times, each transmission missed with 1/2.
    assert tap(0.5).held_probability((3, 2, 1), 0) == pytest.approx(1 / 2 * 3 / 4 * 7 / 8)
    assert tap(0.1).held_probability((2,), 0) == pytest.approx(0.81)
    assert tap(0.1).held_probability((2, 2), 0) == pytest.approx(0.99**2)


def test_losses_before_the_tap_are_not_heard() -> None:
    # Two packets, one lost and sent again. At the receiver each packet passes the tap once; half way the lost one
    # passed it with 1/2.
    assert [tap(0.0, at).held_probability((2, 1), 0) for at in PLACES] == [1.0, 1.0, 1.0]
    assert [tap(0.1, at).held_probability((2, 1), 0) for at in PLACES] == pytest.approx(
        [0.9 * 0.99, 0.9 * (1 - 0.1 * 0.55), 0.9 * 0.9]
    )
    # Not sent again: the receiver has not got it, so a tap there has not either.
    assert [tap(0.0, at).held_probability((2,), 1) for at in PLACES] == [1.0, 0.5, 0.0]
    assert [tap(0.1, at).held_probability((2,), 1) for at in PLACES] == pytest.approx([0.81, 0.9 * 0.45, 0.0])


def test_any_packet_is_a_part() -> None:
    assert tap(0.1).caught_probability((68,), 0) == pytest.approx(1 - 0.1**68)
    assert tap(0.1).held_probability((68,), 0) == pytest.approx(0.9**68)
    # Three packets, two lost: the tap hears one of three transmissions, or none.
    assert [tap(0.4, at).caught_probability((3,), 2) for at in PLACES] == pytest.approx(
        [1 - 0.4**3, 1 - 0.4 * 0.7**2, 1 - 0.4]
    )
    assert [tap(0.0, at).caught_probability((2,), 2) for at in PLACES] == [1.0, 0.75, 0.0]


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("pending", [0, 1])
def test_probabilities_count_all_ways_to_miss_transmissions(at, pending) -> None:
    sent, missed, passed = (3, 2, 2), 0.3, PLACES[at]
    times_sent = [sum(packet < n for n in sent) for packet in range(sent[0])]
    whole = part = 0.0
    for outcome in itertools.product([True, False], repeat=sum(times_sent)):
        probability, caught, of_packets = 1.0, [], iter(outcome)
        for packet, times in enumerate(times_sent):
            # All transmissions of a packet but the last were lost; the last of the packets that are pending was too.
            arrived = packet >= pending
            hears = [(1 - missed) * (1 if arrived and number == times - 1 else 1 - passed) for number in range(times)]
            own = list(itertools.islice(of_packets, times))
            probability *= np.prod([p if heard else 1 - p for p, heard in zip(hears, own, strict=True)])
            caught.append(any(own))
        whole += probability * all(caught)
        part += probability * any(caught)
    assert tap(missed, at).held_probability(sent, pending) == pytest.approx(whole)
    assert tap(missed, at).caught_probability(sent, pending) == pytest.approx(part)


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=6).map(lambda x: sorted(x, reverse=True)),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_retransmissions_help_the_tap_and_further_packets_and_distance_do_not(sent, share, packet_loss) -> None:
    pending = int(share * sent[-1])
    by_place = [tap(packet_loss, at).held_probability(sent, pending) for at in PLACES]
    assert by_place == sorted(by_place, reverse=True)
    for at, held in zip(PLACES, by_place, strict=True):
        heard = tap(packet_loss, at)
        assert 0 <= held <= heard.caught_probability(sent, pending) + 1e-12 <= 1 + 1e-12
        assert heard.held_probability([*sent, pending] if pending else sent, pending) >= held - 1e-12
        assert heard.held_probability([sent[0] + 1, *sent[1:]], pending) <= held


def test_a_loss_without_a_tapped_link_is_refused() -> None:
    with pytest.raises(ValidationError, match="packet_loss has no effect"):
        Tap(packet_loss=0.1)
    with pytest.raises(ValidationError):
        Tap(uplink=True, packet_loss=1.1)
    assert Tap(scoring=True, packet_loss=0.1).packet_loss == 0.1
