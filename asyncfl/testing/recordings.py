"""Recorded runs as test data: replay them, or pass their buffers to your own component.

A scenario with `evaluation.record: digests` or `parameters` leaves `messages.jsonl` in its run folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import RunError
from asyncfl.base.files.own_folder import FolderMark
from asyncfl.defences import Buffer
from asyncfl.learning.gemm import use
from asyncfl.protocol import Server
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.recording import RecordedCall, Recording, Replayed, parameters_of, replay
from asyncfl.results.run_files import conditions_of
from asyncfl.results.storage import LIVE, MESSAGES
from asyncfl.simulation.prepare import Federation


def read_recording(path: str | Path, seed: int | None = None) -> Recording:
    """Read the recording of `seed` (None: the first) from a run's folder or from a file. Raises RunError."""
    path = Path(path)
    return Recording.read(path / MESSAGES if path.is_dir() else path, seed)


def replay_run(folder: str | Path, seed: int | None = None, *, train: bool = False) -> Replayed:
    """Replay a recorded run on a fresh server of its scenario, without a clock, and compare the server's actions.

    The server is built from the folder's `scenario.yaml`. The replay uses the same number of threads and the same
    library as the run, since sums of floats depend on them. A recording with digests only is replayed as far as
    possible without models. With `train`, collected updates are trained again and compared with the digests, and the
    replay is complete. Raises ReplayError for a difference, and RunError for a run that cannot be replayed or trained
    again.
    """
    from asyncfl.scenario import Scenario
    from asyncfl.simulation import prepared

    recording = read_recording(folder, seed)
    scenario = Scenario.load(Path(folder) / "scenario.yaml", recorded=True)
    with use(conditions_of(Path(folder), recording.seed)):
        federation = prepared(scenario, recording.seed)
        if federation.path.every_task:
            raise RunError(
                "a run that learns from tasks whose updates never arrived (by its privacy scheme, in personal layers, "
                "in a kept state of the optimiser) cannot be replayed without a clock"
            )
        protocol = federation.plan.protocol.model_copy(update={"per_client": recording.per_client})
        again, server = None, Server(replace(federation.plan, all_present=recording.all_present, protocol=protocol))
        if train and recording.detail == "digests":
            mark = FolderMark.read(Path(folder))
            if scenario.compression.remembers and mark is not None and mark.holds == LIVE:
                raise RunError(
                    "live clients may have trained tasks whose updates were not collected, and the compression error "
                    "of these is in later updates, which cannot be trained again without them; record live runs with "
                    "evaluation.record: parameters, or without error feedback (compression.error_feedback: false)"
                )
            again = _TrainingReplay(recording, federation, server)
        return replay(recording, server, again)


def _never_started(call: RecordedCall) -> bool:
    """Return whether a task was reported that never started, since its client was offline."""
    return call.message["type"] == "ClientGone" and call.message["fate"] is None


class _TrainingReplay:
    """Function of collected tasks that trains them again, as in the recorded run, and returns their models."""

    def __init__(self, recording: Recording, federation: Federation, server: Server) -> None:
        self.federation, self.server = federation, server
        if federation.attackers is not None:
            federation.attackers.server = server.rehearse
        self.turns: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        """Task -> epochs that the client finished before its deadline, where these are not all."""
        served: Counter[int] = Counter()
        calls = list(recording.calls())
        unreached = {call.message["task"] for call in calls if _never_started(call)}
        for call in calls:
            message = call.message
            if _never_started(call):
                served[message["client"]] -= 1  # it does not count as one of the client's turns
            if message["type"] == "Collected" and message["work"] is not None:
                for task, work in zip(message["tasks"], message["work"], strict=True):
                    if work < 1:
                        self.epochs[task] = round(work * federation.path.training.epochs)
            dispatched = [(one["task"], one["client"]) for one in call.actions if one["type"] == "Dispatch"]
            for task, client in dispatched:
                self.turns[task] = served[client]
                served[client] += 1
            begun = [(task, client) for task, client in dispatched if task not in unreached]
            if federation.attackers is not None and begun:
                # Draw the attackers among the tasks of one answer, where they are drawn per round.
                for task, client in begun:
                    federation.attackers.begin(task, client, self.turns[task])
                federation.attackers.draw()

    def __call__(self, tasks: tuple[int, ...]) -> Vector:
        """Train the tasks with these numbers, and return the uploaded models, (n_tasks, n_parameters)."""
        from asyncfl.client import Assignment

        book, version = self.server.tasks, self.server.version
        assignments = []
        for number in tasks:
            client, base = book.open[number].client, book.open[number].base_version
            made = (self.turns[number], self.epochs.get(number))
            assignments.append(Assignment(number, client, base, book.model(base), *made))
        models: Vector = self.federation.path.carry_out(assignments, version, book.model(version)).models
        return models


def recorded_buffers(recording: Recording) -> Iterator[Buffer]:
    """Yield the buffers of a recorded run as the server's defences got them.

    Malformed updates (not finite, or of wrong length) are left out, and so are updates of clients banned for them.
    Empty buffers are left out. Raises RunError where the recording holds digests only.
    """
    if recording.detail != "parameters":
        raise RunError("the recording holds no models; record the run with evaluation.record: parameters")
    versions: dict[int, Vector] = {}
    current = np.empty(0, dtype=np.float32)
    open_tasks: dict[int, tuple[int, int]] = {}  # task -> its client, and the version it was sent
    samples = np.array(recording.samples, dtype=np.int64)
    for call in recording.calls():
        message = call.message
        if _never_started(call):
            open_tasks.pop(message["task"], None)
        if message["type"] == "Collected" and (models := parameters_of(message["models"])) is not None:
            settled = [action for action in call.actions if action["type"] == "Settle"]
            unused = {one["task"] for one in settled if one["fate"] in (Fate.REJECTED, Fate.BANNED)}
            rows = [row for row, task in enumerate(message["tasks"]) if task not in unused]
            if rows:
                sent = [open_tasks[message["tasks"][row]] for row in rows]
                clients, bases = np.array(sent, dtype=np.int64).T.copy()
                distinct, base_of = np.unique(bases, return_inverse=True)
                uploads = models[rows]
                uploads.flags.writeable = False
                stds = (
                    np.zeros(len(models)) if message["upload_std"] is None else np.array(message["upload_std"], float)
                )
                yield Buffer(
                    version=max(versions),
                    current=current,
                    models=uploads,
                    bases=tuple(versions[version] for version in distinct.tolist()),
                    base_of=base_of.astype(np.int64),
                    base_versions=bases,
                    clients=clients,
                    samples=samples[clients],
                    upload_std=stds[rows],
                    work=None if message["work"] is None else np.array(message["work"], float)[rows],
                )
        for action in call.actions:
            if action["type"] == "Publish" and (model := parameters_of(action["model"])) is not None:
                sent_model = parameters_of(action.get("sent", {}))
                current = model
                versions[action["version"]] = model if sent_model is None else sent_model
            elif action["type"] == "Dispatch":
                open_tasks[action["task"]] = action["client"], action["version"]
            elif action["type"] == "Settle":
                open_tasks.pop(action["task"], None)
                needed = {base for _, base in open_tasks.values()} | {max(versions, default=0)}
                for version in versions.keys() - needed:
                    del versions[version]
