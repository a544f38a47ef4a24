"""Seconds of the scenario on a loop whose time is moved."""

from __future__ import annotations

import asyncio
import math

import pytest

from asyncfl.live.clock import LiveClock
from tests.live import virtual_loop


@pytest.mark.parametrize(("speedup", "pace"), [((), 1.0), ((4.0,), 4.0)])
def test_time_passes_as_fast_as_it_is_said_from_where_it_began(speedup: tuple[float, ...], pace: float) -> None:
    async def main() -> None:
        clock, loop, called = LiveClock(*speedup), asyncio.get_running_loop(), list[tuple[str, float]]()
        await asyncio.sleep(3.0)
        assert (clock.speedup, clock.has_begun, clock.now) == (pace, False, 0.0)
        with pytest.raises(ValueError, match="the clock has not begun"):
            clock.at(1.0, list)
        clock.begin(8.0)
        assert (clock.has_begun, clock.now) == (True, 8.0)
        clock.at(16.0, lambda: called.append(("at", loop.time())))
        clock.at(2.0, lambda: called.append(("passed", loop.time())))
        await clock.until(10.0)
        assert (clock.now, loop.time()) == (10.0, 3.0 + 2.0 / pace)
        assert called == [("passed", 3.0)]
        await clock.until(9.0)
        assert clock.now == 10.0
        await clock.until(20.0)
        assert called[1:] == [("at", 3.0 + 8.0 / pace)]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(clock.until(math.inf), 1000.0)
        clock.begin()
        assert clock.now == 0.0

    virtual_loop.run(main)
