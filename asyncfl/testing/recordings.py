"""Recorded runs as test data: replay them, or pass their buffers to your own component.

A scenario with `evaluation.record: digests` or `parameters` leaves `messages.jsonl` in its run folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from asyncfl.base.errors import RunError
from asyncfl.base.files.own_folder import FolderMark
from asyncfl.base.messages import Fate, Floats, Ints, Vector
from asyncfl.defences import Buffer
from asyncfl.federation import Federation
from asyncfl.federation.run_files import conditions_of, read_table
from asyncfl.federation.storage import LIVE, MESSAGES
from asyncfl.learning.gemm import computing_with
from asyncfl.server import Server
from asyncfl.server.recording import Recording, parameters_of
from asyncfl.server.replay import Replayed, replay
from asyncfl.trace import Kind
from asyncfl.trace.query import select


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
    scenario = Scenario.load(Path(folder) / "scenario.yaml")
    with computing_with(*conditions_of(Path(folder), recording.seed)):
        federation = prepared(scenario, recording.seed)
        if federation.path.every_task:
            raise RunError(
                "a run that learns from tasks whose updates never arrived (by its privacy scheme, in personal layers) "
                "cannot be replayed without a clock"
            )
        again, server = None, Server(replace(federation.plan, all_present=recording.all_present))
        if train and recording.detail == "digests":
            if scenario.compression.remembers and (number := _trained_in_vain(Path(folder), recording)):
                raise RunError(
                    f"clients trained {number} tasks whose updates were not collected, and the compression error of "
                    "these is in later updates, which cannot be trained again without them; record live runs with "
                    "evaluation.record: parameters, or without error feedback (compression.error_feedback: false)"
                )
            again = _TrainingReplay(recording, federation, server)
        return replay(recording, server, again)


def _trained_in_vain(folder: Path, recording: Recording) -> int:
    """Count the tasks of a live run that were trained but not collected, before a collected task of the same client.

    Returns 0 for a simulation.
    """
    mark = FolderMark.read(folder)
    if mark is None or mark.holds != LIVE:
        # In a simulation only collected updates leave a compression error behind.
        return 0
    collected, left_out = set[int](), set[int]()
    for call in recording.calls():
        if call.message["type"] == "Collected":
            collected.update(call.message["tasks"])
        elif call.message["type"] == "ClientGone" and call.message["fate"] == Fate.LOST_UP:
            # A client with simulated links knows in advance that its update will be lost, and does not train.
            left_out.add(call.message["task"])
    events = read_table(folder, "events")
    trained = select(events.filter(pc.field("seed") == recording.seed), kinds=[Kind.TRAINED])
    client_of = dict(zip(trained["task"].to_pylist(), trained["client"].to_pylist(), strict=True))
    last: dict[int, int] = {}
    for task in collected & set(client_of):
        last[client_of[task]] = max(task, last.get(client_of[task], -1))
    vain = set(client_of) - collected - left_out
    return sum(task < last.get(client_of[task], -1) for task in vain)


class _TrainingReplay:
    """Function of collected tasks that trains them again, as in the recorded run, and returns their models."""

    def __init__(self, recording: Recording, federation: Federation, server: Server) -> None:
        self.federation = federation
        self.server = server
        if federation.attackers is not None:
            federation.attackers.server = server.rehearse
        self.turns: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        """Task -> epochs that the client finished before its deadline, where these are not all."""
        served: Counter[int] = Counter()
        calls = list(recording.calls())
        unreached = {
            call.message["task"]
            for call in calls
            if call.message["type"] == "ClientGone" and call.message["fate"] is None
        }
        for call in calls:
            if call.message["type"] == "ClientGone" and call.message["fate"] is None:
                # The client was offline, so the task never started and does not count as one of its turns.
                served[call.message["client"]] -= 1
            if call.message["type"] == "Collected" and call.message["work"] is not None:
                for task, work in zip(call.message["tasks"], call.message["work"], strict=True):
                    if work < 1:
                        self.epochs[task] = round(work * federation.path.training.epochs)
            for action in call.actions:
                if action["type"] == "Dispatch":
                    self.turns[action["task"]] = served[action["client"]]
                    served[action["client"]] += 1
            begun = [one for one in call.actions if one["type"] == "Dispatch" and one["task"] not in unreached]
            self._begin([(action["task"], action["client"]) for action in begun])

    def _begin(self, tasks: list[tuple[int, int]]) -> None:
        """Draw the attackers among the tasks of one answer, where they are drawn per round."""
        if self.federation.attackers is not None and tasks:
            for task, client in tasks:
                self.federation.attackers.begin(task, client, self.turns[task])
            self.federation.attackers.draw()

    def __call__(self, tasks: tuple[int, ...]) -> Vector:
        """Train the tasks with these numbers, and return the uploaded models, (n_tasks, n_parameters)."""
        from asyncfl.client import Assignment

        book, version = self.server.tasks, self.server.version
        assignments = []
        for number in tasks:
            task = book.open[number]
            base = book.model(task.base_version)
            assignments.append(
                Assignment(number, task.client, task.base_version, base, self.turns[number], self.epochs.get(number))
            )
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
    clients: dict[int, int] = {}
    bases: dict[int, int] = {}
    samples = np.array(recording.samples, dtype=np.int64)
    for call in recording.calls():
        if call.message["type"] == "ClientGone" and call.message["fate"] is None:
            bases.pop(call.message["task"], None)
        if call.message["type"] == "Collected":
            unused = {
                action["task"]
                for action in call.actions
                if action["type"] == "Settle" and action["fate"] in (Fate.REJECTED, Fate.BANNED)
            }
            rows = [row for row, task in enumerate(call.message["tasks"]) if task not in unused]
            models = parameters_of(call.message["models"])
            if rows and models is not None:
                tasks = [call.message["tasks"][row] for row in rows]
                asked, work = call.message["upload_std"], call.message["work"]
                std = np.zeros(len(rows)) if asked is None else np.array(asked, dtype=np.float64)[rows]
                done = None if work is None else np.array(work, dtype=np.float64)[rows]
                buffer = _buffer(models[rows], std, tasks, clients, bases, versions, samples)
                yield replace(buffer, current=current, work=done)
        for action in call.actions:
            if action["type"] == "Publish":
                model, sent = parameters_of(action["model"]), parameters_of(action.get("sent", {}))
                if model is not None:
                    current = model
                    versions[action["version"]] = model if sent is None else sent
            elif action["type"] == "Dispatch":
                clients[action["task"]], bases[action["task"]] = action["client"], action["version"]
            elif action["type"] == "Settle":
                _forget(action["task"], bases, versions)


def _buffer(
    models: Vector,
    upload_std: Floats,
    tasks: list[int],
    clients: dict[int, int],
    bases: dict[int, int],
    versions: dict[int, Vector],
    samples: Ints,
) -> Buffer:
    """Build the buffer of collected updates.

    `models`: (n, n_parameters) uploads of `tasks`. `clients`, `bases`: task -> its client, and the version it was sent.
    `versions`: version -> model that clients were sent. `samples`: (clients,) training samples.
    """
    base_versions = np.array([bases[task] for task in tasks], dtype=np.int64)
    distinct, base_of = np.unique(base_versions, return_inverse=True)
    senders = np.array([clients[task] for task in tasks], dtype=np.int64)
    newest = max(versions)
    models.flags.writeable = False
    return Buffer(
        version=newest,
        current=versions[newest],
        models=models,
        bases=tuple(versions[int(version)] for version in distinct),
        base_of=base_of.astype(np.int64),
        base_versions=base_versions,
        clients=senders,
        samples=samples[senders],
        upload_std=upload_std,
    )


def _forget(task: int, bases: dict[int, int], versions: dict[int, Vector]) -> None:
    """Remove a task from `bases`, and from `versions` those that are no base of an open task, except the newest."""
    bases.pop(task, None)
    newest = max(versions, default=0)
    for version in set(versions) - set(bases.values()) - {newest}:
        del versions[version]
