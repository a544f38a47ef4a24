"""Evaluations of published versions beside a live run."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from asyncfl.extras.live.evaluations import Evaluations


def test_a_version_whose_evaluation_is_under_way_when_the_run_ends_is_evaluated_once() -> None:
    began, goes_on, evaluated = threading.Event(), threading.Event(), list[str]()

    def evaluate(row: str, publish: str, personal: Any) -> None:
        began.set()
        goes_on.wait(10)
        evaluated.append(publish)

    async def main() -> None:
        rounds: Any = SimpleNamespace(evaluate=evaluate)
        evaluations = Evaluations(rounds, lambda: 0, None, lambda reason: None)
        evaluations.waiting = [({}, version, 0, None) for version in ("one", "two")]  # type: ignore[misc]
        running = asyncio.ensure_future(evaluations.run())
        await asyncio.to_thread(began.wait, 10)
        running.cancel()
        threading.Timer(0.05, goes_on.set).start()
        await asyncio.gather(running, return_exceptions=True)
        await evaluations.run(forever=False)

    asyncio.run(main())
    assert evaluated == ["one", "two"]
