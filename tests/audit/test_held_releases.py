"""Uploads and models that each adversary holds."""

import pytest

from asyncfl.audit.canary_scores import held_releases
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed


# An upload of 25 kB is 17 packets, all of which the eavesdropper must catch: 0.95^17 = 0.42.
@pytest.mark.parametrize(("packet_loss", "uploads"), [(0.0, range(30, 31)), (0.05, range(1, 30)), (1.0, range(1))])
def test_adversaries_hold_what_they_received(scenario: Scenario, packet_loss: float, uploads: range) -> None:
    tap = {"uplink": True, "downlink": True, "packet_loss": packet_loss}
    run = simulate_seed(scenario.override({"world.tap": tap, "protocol.rounds": 6}), 0)
    held = held_releases(run)
    heard, server, both = held["eavesdropper"], held["server"], held["both"]
    assert len(server.tasks) == 6 * 5, "the server receives an upload of each of five clients in each round"
    assert heard.tasks <= server.tasks
    assert both.tasks == heard.tasks | server.tasks
    assert server.versions == both.versions == held["public"].versions == (1, 2, 3, 4, 5, 6)
    assert held["public_last"].versions == (6,)
    assert held["public"].tasks == held["public_last"].tasks == frozenset()
    assert len(heard.tasks) in uploads
    assert set(heard.versions) <= {1, 2, 3, 4, 5}, "the last version is sent to no client"
