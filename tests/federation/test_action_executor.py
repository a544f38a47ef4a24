"""What is put on record of how tasks end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.federation.action_executor import ActionExecutor
from asyncfl.messages import Fate, Settle


@pytest.mark.parametrize(
    ("settle", "happened"),
    [
        # One that nobody asked for is of no task, and counts as none.
        (Settle(9, Fate.REJECTED, detail="not asked for"), [("rejected", None, {"detail": "not asked for"})]),
        (
            Settle(3, Fate.REJECTED, 1, 0.0, "not finite"),
            ["settled", "forgotten", ("rejected", 3, {"staleness": 1, "weight": 0.0, "detail": "not finite"})],
        ),
        (
            Settle(3, Fate.AGGREGATED, 2, 0.5),
            ["settled", "forgotten", ("aggregated", 3, {"staleness": 2, "weight": 0.5, "detail": ""})],
        ),
        (
            Settle(3, Fate.STALE, 7),
            ["settled", "forgotten", ("discarded", 3, {"staleness": 7, "weight": 0.0, "detail": "stale"})],
        ),
        *((Settle(3, fate), ["settled", "forgotten"]) for fate in (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT)),
        (Settle(3, Fate.UNFINISHED), ["settled", "forgotten"]),
    ],
)
def test_each_fate_has_its_event(settle: Settle, happened: list[Any]) -> None:
    found: list[Any] = []

    class Tasks:
        def __contains__(self, number: int) -> bool:
            return number == 3

        def settle(self, action: Settle) -> int:
            found.append("settled")
            return action.task

    executor: Any = SimpleNamespace(
        tasks=Tasks(),
        event_log=SimpleNamespace(
            record=lambda kind, **said: found.append((kind.value, None, said)),
            record_task=lambda kind, task, **said: found.append((kind.value, task, said)),
        ),
        _forget=lambda task: found.append("forgotten"),
    )
    ActionExecutor._settled(executor, settle)
    assert found == happened
