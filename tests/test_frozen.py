"""Values are handed around without copies, which is safe while nobody can change them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import asyncfl


def _dataclasses() -> Iterator[Any]:
    for module in pkgutil.walk_packages(asyncfl.__path__, "asyncfl."):
        if module.name.endswith("__main__"):
            continue
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if is_dataclass(found) and found.__module__ == module.name:
                yield found


MAY_CHANGE = {
    "At", "AuditedClient", "BufferSpan", "ClipState", "Evaluations", "FixedNorm", "LossHistory", "Member", "Newcomer",
    "Node", "OwnLayers", "Play", "Post", "Recording", "PresenceObservations", "Run", "SeedRun", "TaskInFlight",
    "TaskRecord", "Traffic", "_ClientSpending",
}  # fmt: skip
"""What is filled while a run goes on or a reader reads."""


def test_dataclasses_are_frozen_but_for_those_that_are_filled_step_by_step() -> None:
    changing = {one.__qualname__ for one in _dataclasses() if not one.__dataclass_params__.frozen}
    assert changing == MAY_CHANGE


SLOTTED = {
    "Ban", "BudgetSpent", "ClassicalRelease", "ClientGone", "ClientIdle", "ClientJoined", "ClientLeft", "ClipTarget",
    "CohortRepeated", "Collect", "Collected", "Contribution", "Counts", "Dispatch", "Entered", "Epsilons", "Event",
    "Filling", "Fires", "FullParticipation", "Guarantee", "GuessPlan", "Idle", "Judged", "Lost", "MechanismEvent",
    "ModelNoise", "ModelRelease", "NbaflNoise", "Noise", "Optimum", "PartialParticipation", "PrivacyContext",
    "Publish", "Release", "RequestScores", "RocPoint", "ScoresArrived", "SetTimer", "Settle", "ShortBuffer",
    "GuessBound", "Stop", "TaskInFlight", "TaskRecord", "Assignment", "TimerFired", "UpdateArrived", "Upload", "Waits",
    "_ClientSpending", "_Step",
}  # fmt: skip
"""What there may be millions of, or what must not be given a misspelt field."""


def test_records_of_which_there_are_many_hold_their_fields_and_nothing_else() -> None:
    assert {one.__qualname__ for one in _dataclasses() if "__slots__" in vars(one)} == SLOTTED
