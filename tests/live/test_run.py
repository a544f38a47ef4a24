"""Versions that wait to be evaluated while a run goes on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from asyncfl.live.run import Evaluations
from tests.live import virtual_loop


class Rounds:
    """Judges versions by their number: the third has diverged."""

    def __init__(self) -> None:
        self.happened: list[Any] = []

    def begin(self, time_s: float, publish: Any, traffic: Any) -> Any:
        return {"version": publish.version, "time_s": time_s}

    def judged(self, judged: Any) -> None:
        self.happened.append(judged)

    def evaluate(self, row: Any, publish: Any, personal: Any) -> str | None:
        self.happened.append((row["version"], publish.version, personal))
        return "it diverged" if publish.version == 3 else None


def test_the_server_waits_where_more_than_four_versions_wait_and_each_is_evaluated_once() -> None:
    async def main() -> None:
        rounds: Any = Rounds()
        told: list[tuple[Any, int]] = []
        diverged: list[tuple[str, int]] = []
        evaluations = Evaluations(
            rounds,
            lambda: 9,
            lambda row, in_flight: told.append((row, in_flight)),
            lambda reason: diverged.append((reason, len(told))),
        )
        copies = iter("abcdefg")
        personal: Any = SimpleNamespace(copy=lambda: next(copies))
        nothing: Any = None

        def publish(version: int) -> None:
            publishes: Any = SimpleNamespace(version=version)
            assert evaluations.published(version / 2, publishes, nothing) is None

        evaluations.judged(nothing)
        for version in range(4):
            publish(version)
        await asyncio.wait_for(evaluations.keep_up(), 1.0)
        evaluations.personal = personal
        publish(4)
        publish(5)
        keeping, running = asyncio.ensure_future(evaluations.keep_up()), asyncio.ensure_future(evaluations.run())
        await asyncio.sleep(0)
        assert not keeping.done()
        await keeping
        assert len(told) == 2
        while len(told) < 6:
            await asyncio.sleep(0.1)
        publish(6)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await evaluations.finish()
        assert told == [({"version": version, "time_s": version / 2}, 9) for version in range(7)]
        # What clients had then, though it is looked at later.
        personals = [*[None] * 4, "a", "b", "c"]
        assert rounds.happened == [None, *((version, version, personals[version]) for version in range(7))]
        assert diverged == [("it diverged", 4)]

    virtual_loop.run(main)
