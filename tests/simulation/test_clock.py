"""Virtual time: order of events, and waiting for a client."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.base.streams import Streams
from asyncfl.server import Server
from asyncfl.simulation.clock import Clock, Steps
from asyncfl.testing import server
from asyncfl.trace import Recorder
from asyncfl.world import World


@pytest.fixture
def machine() -> Server:
    return server()


def clock_of(machine: Server, **world: Any) -> Clock:
    return Clock(machine, World.model_validate(world).start(2, Streams(0)), Recorder(0), lambda message: None)


def test_events_of_one_time_happen_in_the_order_of_their_scheduling(machine: Server) -> None:
    clock, happened = clock_of(machine), list[str]()
    for name, delay_s in (("b", 2.0), ("a", 1.0), ("c", 2.0)):
        clock.later(delay_s, lambda name=name: happened.append(f"{name} at {clock.now:g}"))
    clock.env.run()
    assert happened == ["a at 1", "b at 2", "c at 2"]


def test_a_client_stays_as_long_as_asked_or_until_it_goes_offline(machine: Server) -> None:
    clock, stayed = clock_of(machine, availability={"kind": "alternating", "on_s": 5.0, "off_s": 1.0}), list[Any]()
    leaves_s = clock.world.next_change(0, 0.0)
    assert 0 < leaves_s < math.inf

    def steps(duration_s: float) -> Steps:
        stayed.append(((yield from clock.stays(0, duration_s)), clock.now))

    for duration_s in (leaves_s / 2, leaves_s, leaves_s * 1.01):
        clock.start(steps(duration_s))
    clock.env.run()
    assert stayed == [(True, leaves_s / 2), (True, leaves_s), (False, leaves_s)]


def test_a_wait_ends_at_its_time_despite_rounding(machine: Server) -> None:
    """0.61 + (1.82 - 0.61) is less than 1.82: by the sum the client would not have gone offline yet."""
    clock, stayed = clock_of(machine), list[Any]()
    assert 0.61 + (1.82 - 0.61) < 1.82
    change = SimpleNamespace(next_change=lambda client, time_s: 1.82 if time_s < 1.82 else 3.0)
    clock.world = SimpleNamespace(presence=change)  # type: ignore[assignment]

    def steps() -> Steps:
        yield clock.env.timeout(0.61)
        stayed.append((yield from clock.stays(0, 5.0)))
        stayed.append(clock.world.presence.next_change(0, clock.now))

    clock.start(steps())
    clock.env.run()
    assert stayed == [False, 3.0]
    assert clock.now == pytest.approx(1.82, rel=1e-15)
