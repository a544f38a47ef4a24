"""Replay of a recorded run by a server without clock.

Most decisions of a server depend only on the order of arrivals. Four depend on the values of uploads: which updates are
malformed (a recording states it for each row), a detector's judgement and what follows from it, the weights of a rule
other than the mean, and the published models. A recording with parameters reproduces all of them bit by bit; so does
one with digests if the models are provided again (`collect`). Otherwise stand-in models are used, neither models nor
such weights are compared, and a server with a detector is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from asyncfl.base.component import kind_of
from asyncfl.base.errors import AsyncflError, MessageError, RunError
from asyncfl.base.messages import Action, Vector
from asyncfl.server.machine import Server, ServerPhase
from asyncfl.server.recording import Plain, RecordedCall, Recording, digest_of, message_of, parameters_of, plain

CollectAgain: TypeAlias = Callable[[tuple[int, ...]], Vector]
"""Function (tasks) -> (n_updates, n_parameters) their models as uploaded, in that order."""


class ReplayError(AsyncflError):
    """Raised if a server does not act as recorded."""


@dataclass(frozen=True)
class Replayed:
    """Result of a replay without differences."""

    calls: int
    """Number of calls that the server answered as recorded."""
    actions: int
    """Number of actions in these answers."""
    unchecked: tuple[str, ...]
    """Facts that could not be compared; empty if the replay is exact."""


def replay(recording: Recording, server: Server, collect: CollectAgain | None = None) -> Replayed:
    """Pass the messages of `recording` to the new `server` and check that it answers each as recorded.

    `collect` provides the models of a recording that holds only digests.

    Raises: ReplayError at the first answer that differs, at models whose digests differ, and for a server of another
    federation; RunError if the recording is damaged, or holds too little for this server; ValueError for a server that
    has been used.
    """
    if server.tasks.begun or server.phase is not ServerPhase.FILLING:
        raise ValueError("a replay needs a fresh server, this one has begun tasks")
    _same_federation(recording, server)
    values = recording.detail == "parameters" or collect is not None
    detector = server.plan.defence.detector
    if not values and detector is not None:
        raise RunError(
            f"the recording holds digests, but detector {kind_of(detector)!r} judges parameters; have "
            "the tasks trained again (--train, train=True), or record the run with evaluation.record: parameters"
        )
    chooses = not server.plan.defence.is_linear
    count = actions = 0
    for call in recording.calls():
        answers = _feed(call, recording, server, collect)
        again = [plain(action, recording.detail) for action in answers]
        expected = call.actions
        if not values:
            again, expected = [[_decision(one, chooses) for one in side] for side in (again, expected)]
        _compare(call, expected, again)
        count, actions = count + 1, actions + len(again)
    if values:
        return Replayed(count, actions, ())
    return Replayed(count, actions, ("models of versions above 0", *(["weights of updates"] if chooses else [])))


def _feed(call: RecordedCall, recording: Recording, server: Server, collect: CollectAgain | None) -> list[Action]:
    message = call.message
    if message["type"] == "start":
        return server.start(float(message["time_s"]))
    if message["type"] == "stop":
        return server.stop(message["reason"])
    models = None
    if message["type"] == "Collected":
        models = parameters_of(message["models"])
        if models is None and collect is not None:
            models = _checked(call, np.asarray(collect(tuple(message["tasks"])), dtype=np.float32))
        elif models is None:
            models = np.tile(np.asarray(server.plan.initial, dtype=np.float32), (len(message["tasks"]), 1))
            models[~np.array(message["finite"], dtype=bool)] = np.nan
    try:
        return server.handle(message_of(message, models))
    except MessageError as error:
        raise ReplayError(f"{_place(call)}: the server refuses it: {error}") from error


def _checked(call: RecordedCall, models: Vector) -> Vector:
    recorded, tasks = call.message["models"]["digests"], call.message["tasks"]
    usable = [sound and finite for sound, finite in zip(call.message["sound"], call.message["finite"], strict=True)]
    if len(models) != len(tasks):
        raise ReplayError(f"{_place(call)}: {len(tasks)} models were collected, {len(models)} are provided")
    other = [
        task
        for task, model, was, counts in zip(tasks, models, recorded, usable, strict=True)
        if counts and digest_of(model) != was
    ]
    if other:
        raise ReplayError(f"{_place(call)}: other models were collected for tasks {other}")
    return models


def _same_federation(recording: Recording, server: Server) -> None:
    plan = server.plan
    for what, was, now in (
        ("clients", len(recording.samples), server.clients),
        ("parameters", recording.n_parameters, len(plan.initial)),
        ("samples of its clients", recording.samples, tuple(int(number) for number in plan.samples)),
    ):
        if was != now:
            raise ReplayError(f"the recording is of another federation: its {what}: {was}, the server's: {now}")


def _decision(action: Plain, chooses: bool) -> Plain:
    """Return an action without the fields that depend on the values of models. `chooses`: whether weights do."""
    left_out = set()
    if action["type"] == "Publish" and action["version"] > 0:
        left_out |= {"model", "sent"}
    if action["type"] == "Settle" and chooses:
        left_out.add("weight")
    return {name: value for name, value in action.items() if name not in left_out}


def _compare(call: RecordedCall, expected: list[Plain], again: list[Plain]) -> None:
    for number, (was, now) in enumerate(zip(expected, again, strict=False), 1):
        if was != now:
            raise ReplayError(f"{_place(call)}: answer {number} was {_shown(was)}, now it is {_shown(now)}")
    if len(expected) != len(again):
        longer, source = (expected, "recorded") if len(expected) > len(again) else (again, "now")
        extra = _shown(longer[min(len(expected), len(again))])
        raise ReplayError(
            f"{_place(call)}: {len(expected)} answers were recorded, now there are {len(again)}; only {source}: {extra}"
        )


def _place(call: RecordedCall) -> str:
    long = ("models", "losses", "sound", "finite", "upload_std", "scores")
    return f"line {call.line}, {_shown({name: value for name, value in call.message.items() if name not in long})}"


def _shown(entry: Plain) -> str:
    fields = ", ".join(f"{name}={_brief(value)}" for name, value in entry.items() if name != "type")
    return f"{entry['type']}({fields})"


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("digests", value)
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
