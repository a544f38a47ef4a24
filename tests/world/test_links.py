"""Links of a population: constant, drawn, or from a profile; jitter per message."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.world.links import Link
from asyncfl.world.loss import IndependentLoss

STREAMS = Streams(3)


def test_each_client_has_its_own_link_and_each_direction_its_own_draws() -> None:
    link = Link(
        latency_s={"kind": "uniform", "low": 0.01, "high": 0.1},
        bandwidth_bps={"kind": "lognormal", "median": 1e6, "sigma": 1},
    )
    down, up = (link.start(500, STREAMS, direction) for direction in (0, 1))
    assert len({*down.latency_s, *up.latency_s}) == 1000
    for one, other in ((down.bandwidth_bps, up.bandwidth_bps), (down.latency_s, down.bandwidth_bps)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.2
    slower = link.model_copy(update={"latency_s": Link(latency_s=1).latency_s}).start(500, STREAMS, 0)
    np.testing.assert_array_equal(slower.bandwidth_bps, down.bandwidth_bps)


@pytest.mark.parametrize("jitter_s", [0.25, {"kind": "exponential", "mean": 0.25}])
def test_jitter_delays_each_message_anew(jitter_s) -> None:
    links = Link(latency_s=1, jitter_s=jitter_s).start(1, STREAMS, 0)
    assert links.needs_draws
    rng = np.random.default_rng(0)
    delays = np.array([links.send(0, 1, None, rng).duration_s for _ in range(2000)])
    assert delays.min() >= 1
    assert delays.mean() == pytest.approx(1.25, abs=4 * 0.25 / math.sqrt(2000))


def test_a_profile_keeps_together_what_was_measured_together(tmp_path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("latency_s,bandwidth_bps,packet_loss\n0.1,1e6,0.5\n0.2,2e6,0\n")
    link = Link(profile=str(path))
    down, up = (link.start(200, STREAMS, direction) for direction in (0, 1))
    np.testing.assert_array_equal(down.bandwidth_bps, 1e7 * down.latency_s)
    np.testing.assert_array_equal(down.latency_s, up.latency_s)
    assert set(down.latency_s) == {0.1, 0.2}
    assert down.needs_draws
    for client in range(5):
        measured = 0.5 if down.latency_s[client] == 0.1 else 0.0
        assert down.loss_of(client) == IndependentLoss(probability=measured)
    in_order = link.model_copy(update={"profile_rows": "in_order"}).start(3, STREAMS, 0)
    assert in_order.latency_s.tolist() == [0.1, 0.2, 0.1]


def test_two_losses_at_once_are_refused(tmp_path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("latency_s,bandwidth_bps,packet_loss\n0.1,1e6,0.5\n")
    with pytest.raises(DataError, match="set loss to none"):
        Link(profile=str(path), loss=IndependentLoss(probability=0.1)).start(1, STREAMS, 0)


@pytest.mark.parametrize(
    "description",
    [
        {"profile": "links.csv", "latency_s": 0.1},
        {"latency_s": -0.1},
        {"bandwidth_bps": 0},
        {"mtu_bytes": 0},
        {"retransmissions": 1001},
        {"retransmission_timeout_s": math.inf},
        {"latncy_s": 0.1},
    ],
)
def test_illegal_links_are_refused(description) -> None:
    with pytest.raises(ValidationError):
        Link.model_validate(description)
