"""Log entries of retransmissions and of overheard messages."""

from typing import Any

import pytest

from asyncfl.federation import SeedRun
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.trace.query import select

LOST = {"kind": "independent", "probability": 1.0}


def times(run: SeedRun, kind: str, **conditions: Any) -> list[float]:
    return list(select(run.events, kinds=[kind], **conditions)["time_s"].to_pylist())


def sending_s(run: SeedRun, bandwidth_bps: float) -> float:
    (size,) = set(select(run.events, kinds=["upload_started"])["bytes"].to_pylist())
    return float(8 * size / bandwidth_bps)


def test_retransmissions_are_logged_when_they_begin(scenario: Scenario) -> None:
    link = {"bandwidth_bps": 1e5, "loss": LOST, "retransmissions": 2, "retransmission_timeout_s": 3.0}
    limits = {"protocol.rounds": 1, "protocol.time_limit_s": 60}
    run = simulate_clock(scenario.override({"world.uplink": link, "world.tap.uplink": True, **limits}), 0)
    began, sent = times(run, "upload_started", task=0)[0], sending_s(run, 1e5)
    assert times(run, "overheard", task=0) == pytest.approx([began + sent])
    assert times(run, "retransmitted", task=0) == pytest.approx([began + sent + 3, began + 2 * sent + 6])
    assert times(run, "lost", task=0) == pytest.approx([began + 3 * sent + 9])
    again = select(run.events, kinds=["retransmitted"], task=0)
    assert again["attempt"].to_pylist() == [2, 3]
    assert set(again["bytes"].to_pylist()) == set(select(run.events, kinds=["upload_started"])["bytes"].to_pylist())
    assert set(again["detail"].to_pylist()) == {"up"}


def test_messages_overheard_before_a_client_went_offline_count(scenario: Scenario) -> None:
    # The message is on the air in a moment, but takes longer to arrive than anybody stays.
    away = {"kind": "alternating", "on_s": 5.0, "off_s": 1.0}
    changes = {"world.uplink": {"latency_s": 100.0}, "world.availability": away, "protocol.time_limit_s": 40}
    run = simulate_clock(scenario.override({**changes, "world.tap.uplink": True}), 0)
    assert run.fates["dropped_out"] > 0
    assert times(run, "uploaded") == []
    assert sum(run.traffic.overheard_up.values()) == len(times(run, "overheard")) > 0


def test_offline_clients_retransmit_nothing(scenario: Scenario) -> None:
    away = {"kind": "alternating", "on_s": 5.0, "off_s": 1.0}
    link = {"loss": LOST, "retransmissions": 100, "retransmission_timeout_s": 1.0}
    changes = {"world.uplink": link, "world.availability": away, "protocol.time_limit_s": 30}
    run = simulate_clock(scenario.override(changes), 0)
    for task in set(select(run.events, kinds=["dropped_out"])["task"].to_pylist()):
        (gone,) = times(run, "went_offline", task=task)
        assert all(time_s <= gone for time_s in times(run, "retransmitted", task=task))
    assert len(times(run, "retransmitted")) > len(times(run, "dropped_out")) > 0


@pytest.mark.parametrize(("at", "expected"), [("sender", 1.0), ("link", 0.7), ("receiver", 0.4)])
def test_losses_before_the_tap_lower_the_exposure(scenario: Scenario, at: str, expected: float) -> None:
    """One packet an upload, 60 % of them lost and not sent again."""
    link = {"mtu_bytes": 10**6, "loss": {"kind": "independent", "probability": 0.6}, "retransmissions": 0}
    changes = {"world.uplink": link, "world.tap": {"uplink": True, "at": at}, "protocol.rounds": 100}
    run = simulate_clock(scenario.override(changes), 0)
    sent, arrived = (len(times(run, kind)) for kind in ("upload_started", "uploaded"))
    held = set(select(run.events, kinds=["overheard"])["task"].to_pylist())
    assert sent >= 400
    # Four standard deviations of a binomial number.
    assert len(held) == pytest.approx(expected * sent, abs=4 * (expected * (1 - expected) * sent) ** 0.5)
    received = set(select(run.events, kinds=["uploaded"])["task"].to_pylist())
    assert arrived == len(received) < len(held) or at == "receiver"
    assert received == held if at == "receiver" else received < held
