"""Run live federations on virtual time, and check that they leave no task behind."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from asyncfl.extras.live import virtual_loop
from asyncfl.extras.live.virtual_loop import DeadlockError, VirtualLoop

__all__ = ["DeadlockError", "VirtualLoop", "run"]

T = TypeVar("T")


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The outcome of `main` on a virtual loop. Raises AssertionError where it leaves a task behind."""

    async def watched() -> T:
        outcome = await main()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left behind: {left}"
        return outcome

    return virtual_loop.run(watched())
