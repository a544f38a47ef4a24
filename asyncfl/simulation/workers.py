"""Workers that compute the tasks of a run: processes of this machine, or those of a Dask cluster.

Both take functions through the interface of `concurrent.futures`, and arrays that many calls share: processes of this
machine through files in memory, Dask's workers from the worker that was given them.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import Fault, RunError, ScenarioError, shortened, system_says
from asyncfl.base.lifeline import end_with

MEMORY = Path("/dev/shm")
"""Folder in memory, on Linux; elsewhere the folder for temporary files is used."""

PATIENCE_S = 10.0
"""Seconds to wait for a scheduler, and for its first worker."""

RETURN_S = 60.0
"""Seconds to wait until a cluster that has lost all its workers has one again."""

ATTEMPTS = 5
"""Workers of a cluster to which an array is sent in vain, before the run gives up."""


class ArrayFile(NamedTuple):
    """An array that a process of this machine can read from a file."""

    path: str
    dtype: str
    length: int

    def read(self) -> NDArray[Any]:
        return np.fromfile(self.path, np.dtype(self.dtype), self.length)


class TrainingWorkers(ABC):
    """Workers that compute for one run."""

    number: int
    """Workers that compute at the same time."""

    @property
    @abstractmethod
    def executor(self) -> Executor:
        """Takes the calls."""

    @abstractmethod
    def share(self, array: NDArray[Any]) -> Any:
        """Return what stands for `array` (n,) in the arguments of calls; see `shared`."""

    @abstractmethod
    def unshare(self, shared: Any) -> None:
        """Discard an array; no call may use it any more."""

    def place(self) -> str | None:
        """Return the path of a file where a call may leave its result; None if the result must be returned."""
        return None

    def free(self, place: str) -> None:
        """Take a file back for other calls."""
        raise NotImplementedError

    def look(self) -> None:
        """Look after workers from which nothing comes. Raises BrokenExecutor if some have died unnoticed."""
        return

    def revive(self, error: BaseException) -> None:
        """Prepare for calls again after workers died. Raises RunError if that is impossible."""
        raise RunError(f"the workers are gone: {shortened(str(error) or type(error).__name__)}") from None

    @abstractmethod
    def close(self) -> None:
        """End the workers that belong to this run."""


def shared(given: Any) -> NDArray[Any]:
    """Return the array that an argument of a call stands for."""
    return given.read() if isinstance(given, ArrayFile) else given


def leave(array: NDArray[Any], place: str | None) -> NDArray[Any] | str:
    """Write an array to a file, and return its path; the array itself if there is no file, or no space.

    An older file is written over: memory that it has need not be asked for again, which takes longer than writing.
    """
    if place is None:
        return array
    try:
        with open(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600), "wb", buffering=0) as file:
            return place if file.write(array.data) == array.nbytes else array
    except OSError:
        return array


def fetch(left: Vector | str, row: Vector) -> None:
    """Copy a model that a worker has left into `row` (n_parameters,)."""
    if isinstance(left, str):
        with open(left, "rb", buffering=0) as file:
            file.readinto(row.data)
    else:
        row[:] = left


class WorkerProcesses(TrainingWorkers):
    """Processes of this machine. They end when this process ends, however it ends."""

    def __init__(self, number: int) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            # A worker that begins imports the script of the run, which must not start workers again.
            sys.exit(1)
        self.number = number
        place = MEMORY if os.access(MEMORY, os.W_OK) else None
        self._folder = Path(tempfile.mkdtemp(prefix="asyncfl-", dir=place))
        self._remover = start_remover(self._folder)
        self._names = itertools.count()
        self._free: list[str] = []
        """Files that are used again."""
        self._ended = set[int]()
        """Processes that had ended at the last look."""
        self._executor = self._started()

    def _started(self) -> ProcessPoolExecutor:
        # A process that has computed with threads must not be forked: a fork server has only imported modules.
        method = "forkserver" if sys.platform == "linux" else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload(["torch", "asyncfl.simulation.prepare"])
            resource_tracker.ensure_running()
            # Ctrl-C is for this process: the server must not be interrupted while it imports.
            unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                forkserver.ensure_running()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        reader, self._lifeline = context.Pipe(duplex=False)
        arguments = (reader, context.Value("i", 0))
        return ProcessPoolExecutor(self.number, context, _begin_worker, arguments)

    @property
    def executor(self) -> Executor:
        return self._executor

    def share(self, array: NDArray[Any]) -> Any:
        path = self.place()
        # Without space the array travels with each call.
        return array if leave(array, path) is array else ArrayFile(path, array.dtype.str, len(array))

    def unshare(self, shared: Any) -> None:
        if isinstance(shared, ArrayFile):
            self.free(shared.path)

    def place(self) -> str:
        return self._free.pop() if self._free else str(self._folder / str(next(self._names)))

    def free(self, place: str) -> None:
        self._free.append(place)

    def look(self) -> None:
        # One that was killed while it sent a result leaves half a message. The executor waits for the rest, which any
        # other process could write, and looks at nothing else.
        processes = dict(getattr(self._executor, "_processes", None) or {})
        ended = {number for number, process in processes.items() if not process.is_alive()}
        if ended & self._ended:
            raise BrokenProcessPool("a process was killed while it sent a result")
        self._ended = ended

    def revive(self, error: BaseException) -> None:
        self._end()
        self._executor = self._started()

    def _end(self) -> None:
        """End all processes, and the executor."""
        # First: a process that was started while a broken executor ended the others is ended by nothing else, and the
        # executor would wait for it for ever.
        self._lifeline.close()
        if (results := getattr(self._executor, "_result_queue", None)) is not None:
            results._writer.close()  # with those of the processes, so that half a message ends
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._ended = set()

    def close(self) -> None:
        self._end()
        self._remover.communicate(b"\n")


def start_remover(folder: Path) -> subprocess.Popen[bytes]:
    """Start a shell that removes `folder` as soon as it reads a line, or a second after this process was killed."""
    remove = 'read -r _ || sleep 1; rm -rf -- "$0"'
    return subprocess.Popen(["sh", "-c", remove, str(folder)], stdin=subprocess.PIPE, start_new_session=True)


def _begin_worker(lifeline: Connection, started: Any) -> None:
    """Make a process ready to compute: on a GPU of its own, if there are any. `lifeline`: is closed when nobody waits
    for results any more."""
    for one in (signal.SIGINT, signal.SIGHUP):  # they are for the process that waits
        signal.signal(one, signal.SIG_IGN)
    end_with(lifeline)
    with started.get_lock():
        number, started.value = started.value, started.value + 1
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())


class DaskCalls(Executor):
    """Calls on a Dask cluster. A call ends in any case: with its result, its exception, or as cancelled.

    Dask's own executor leaves a call without an end whose result is lost with a worker before it is fetched.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        try:
            asked = self._client.submit(function, *given, **named, pure=False)
        except Exception as error:
            if has_ended(self._client):
                raise BrokenExecutor(str(error)) from error
            raise
        call: Future[Any] = Future()

        def pass_on(ended: Future[Any]) -> None:
            if ended.cancelled() and not asked.done():
                asked.cancel()

        call.add_done_callback(pass_on)
        self._client.loop.add_callback(self._end, asked, call)
        return call

    async def _end(self, asked: Any, call: Future[Any]) -> None:
        """Give the call its end, in the loop of the client."""
        result, fault = None, None
        try:
            result = await self._client.gather(asked, asynchronous=True)
        except CancelledError:  # by the caller, or by Dask, since what the call needs is lost
            call.cancel()
        except Exception as error:
            fault = error
        except BaseException:  # the loop ends
            call.cancel()
            call.set_running_or_notify_cancel()
            raise
        if not call.set_running_or_notify_cancel():
            return
        if fault is None:
            call.set_result(result)
        else:
            call.set_exception(fault)


def has_ended(client: Any) -> bool:
    """Whether a client of Dask has given its scheduler up."""
    return client.status in ("closing", "closed")


class DaskCluster(TrainingWorkers):
    """The workers of a Dask cluster, which others may use too. Dask computes again what a worker lost that died."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise ScenarioError([Fault("--workers", f"{address} needs Dask: pip install 'asyncfl[dask]'")]) from None
        try:
            self._client: Any = Client(address, timeout=PATIENCE_S)
            try:
                self._client.wait_for_workers(1, timeout=PATIENCE_S)
            except BaseException:
                self.close()
                raise
        except (OSError, TimeoutError, ValueError) as error:
            reason = system_says(error) if isinstance(error, OSError) and error.errno else shortened(str(error))
            fault = f"must be the address of a Dask scheduler with workers, got {address}: {reason}"
            raise ScenarioError([Fault("--workers", fault)]) from None
        about = self._client.scheduler_info(n_workers=-1)["workers"].values()
        self.number = sum(one["nthreads"] for one in about)
        self._executor = DaskCalls(self._client)

    @property
    def executor(self) -> Executor:
        return self._executor

    def share(self, array: NDArray[Any]) -> Any:
        # To one worker, from which the others take it: a broadcast would wait for ever for a worker that dies under it.
        for _ in range(ATTEMPTS):
            try:
                return self._client.scatter(array, hash=False)
            except Exception as error:
                if not isinstance(error, (OSError, TimeoutError)) and not has_ended(self._client):
                    raise
                self.revive(error)  # the worker has died
        raise RunError(f"the workers are gone: {ATTEMPTS} of them died while they were sent a model")

    def unshare(self, shared: Any) -> None:
        shared.release()

    def look(self) -> None:
        if has_ended(self._client):
            raise BrokenExecutor("the scheduler does not answer")

    def revive(self, error: BaseException) -> None:
        try:
            if self._client.status != "running":
                raise TimeoutError("the scheduler does not answer")
            # All workers that held what was shared are dead; others may have taken their place.
            self._client.wait_for_workers(1, timeout=RETURN_S)
        except (OSError, TimeoutError, ValueError) as now:
            super().revive(now)

    def close(self) -> None:
        with suppress(OSError):
            self._client.close()


MOST = 1024
"""Most processes of one run."""


def check_workers(asked: int | str, least: int = 0) -> int | str:
    """Return the number of processes, or the address of a scheduler, that a user has asked for. Raises
    ScenarioError."""
    if isinstance(asked, str) and "://" in asked:
        return asked
    try:
        number = int(asked)
    except ValueError:
        number = -1
    if not least <= number <= MOST:
        wanted = f"must be a number of processes, 1 to {MOST}, or the address of a Dask scheduler, tcp://HOST:PORT"
        raise ScenarioError([Fault("--workers", f"{wanted}, got {shortened(str(asked))}")])
    return number


@contextmanager
def started_workers(asked: int | str) -> Iterator[TrainingWorkers | None]:
    """Start processes (a number of them), or connect to the Dask scheduler at an address; None for 0.

    Raises ScenarioError for anything else, and for a scheduler that cannot be reached.
    """
    wanted = check_workers(asked)
    if not wanted:
        yield None
        return
    workers = DaskCluster(wanted) if isinstance(wanted, str) else WorkerProcesses(wanted)
    try:
        yield workers
    finally:
        workers.close()
