"""Messages to the nodes of a Flower grid and their replies, and models as Flower's records.

Flower is imported when it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import AsyncflError, shortened

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, RecordDict
    from flwr.serverapp import Grid

T = TypeVar("T")

QUERY, SCORES, TRAIN = "query", "query.scores", "train"
"""Flower's message types: introduce yourself | score these models | train this model."""
ARRAYS, METRICS, CONFIG = "arrays", "metrics", "config"
"""Names of records."""
GRID_ENDED = "Flower's grid answers no more"
"""Beginning of the stop reason of a run that was stopped in Flower (`flwr stop`), or whose SuperLink is gone."""


class FlowerError(AsyncflError):
    """Flower, or an app on it, cannot take part in the federation."""


class LostError(FlowerError):
    """Flower lost a message, or the reply to it."""


class GridError(AsyncflError):
    """The grid cannot be reached, or has ended the run."""


EXPIRED, LATE, AWAY = 3, 4, 5
"""Flower's error codes: the message expired without a reply | the reply came after that | the node is not on the grid,
and its reply may follow when it is back. All others say that the client's app failed."""


def flower() -> Any:
    """Import and return `flwr.app`. Raises FlowerError where Flower is missing."""
    try:
        import flwr.app
    except ModuleNotFoundError as error:
        raise FlowerError(
            f"Flower is missing ({error.name}): pip install 'asyncfl[flower]' -c constraints.txt"
        ) from None
    return flwr.app


def record_of(records: Mapping[str, Any], name: str) -> Any:
    """Return the record of that name, or the only one; an empty mapping where there is neither."""
    return records.get(name, next(iter(records.values())) if len(records) == 1 else {})


class GridThread(Executor):
    """One thread for the calls to a grid. It keeps no program from ending: a call to a grid that is gone may never
    return."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="grid", daemon=True)
        self._thread.start()

    def submit(self, do: Callable[..., T], /, *given: Any, **named: Any) -> Future[T]:
        call: Future[T] = Future()
        self._calls.put((call, partial(do, *given, **named)))
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._calls.put(None)
        if wait:
            self._thread.join(1.0)

    def _work(self) -> None:
        while (one := self._calls.get()) is not None:
            call, do = one
            if not call.set_running_or_notify_cancel():
                continue
            try:
                result = do()
            except BaseException as error:
                call.set_exception(error)
            else:
                call.set_result(result)


class GridMessages:
    """Messages to the nodes of a grid. All calls to the grid run in one thread, one at a time."""

    def __init__(self, grid: Grid, timeout_s: float, executor: Executor) -> None:
        """`timeout_s`: seconds after which a message without a reply expires."""
        self._grid, self._timeout_s, self._executor = grid, timeout_s, executor
        self._new: list[tuple[Any, int, asyncio.Future[RecordDict]]] = []
        self._waiting: dict[str, tuple[int, asyncio.Future[RecordDict]]] = {}

    def ask(self, node: int, kind: str, records: dict[str, Any]) -> asyncio.Future[RecordDict]:
        """Send records to a node with the next `exchange`. Returns the content of the reply.

        `kind`: Flower's message type. Raises LostError, and FlowerError where the app fails.
        """
        flwr, reply = flower(), asyncio.get_running_loop().create_future()
        content = flwr.RecordDict(records)
        message = flwr.Message(content, dst_node_id=node, message_type=kind, ttl=self._timeout_s)
        self._new.append((message, node, reply))
        return reply

    async def nodes(self) -> set[int]:
        """Return the nodes on the grid. Raises GridError."""
        return set(await self._call(self._grid.get_node_ids))

    async def exchange(self, nodes: Collection[int]) -> None:
        """Send the new messages, and fetch the replies of `nodes`. Raises GridError."""
        new, self._new = self._new, []
        for message, node, reply in new:
            # One by one, since Flower refuses all messages that come with one that is too large.
            name = next(iter(await self._call(partial(self._grid.push_messages, [message]))), None)
            if name is not None:
                self._waiting[name] = node, reply
            elif not reply.done():
                reply.set_exception(LostError("Flower did not take the message"))
        self._waiting = {name: (node, reply) for name, (node, reply) in self._waiting.items() if not reply.done()}
        asked = [name for name, (node, _) in self._waiting.items() if node in nodes]
        for message in await self._call(partial(self._grid.pull_messages, asked)) if asked else ():
            error = message.error if message.has_error() else None
            _, reply = self._waiting[message.metadata.reply_to_message_id]
            if reply.done() or (error is not None and error.code == AWAY):
                continue
            if error is None:
                reply.set_result(message.content)
            else:
                kind = LostError if error.code in (EXPIRED, LATE) else FlowerError
                reply.set_exception(kind(error.reason or "without a reason"))

    async def _call(self, do: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, do)
        except Exception as error:
            # Any exception of a grid means that it is gone, or that the run was stopped there.
            raise GridError(f"{GRID_ENDED}: {shortened(f'{type(error).__name__}: {error}', 300)}") from error


@dataclass(frozen=True)
class Shapes:
    """Layout of a flat model in an ArrayRecord: names, shapes and types of its arrays, in order."""

    parts: tuple[tuple[str, tuple[int, ...], str], ...]

    @classmethod
    def of(cls, record: ArrayRecord) -> Shapes:
        """Return the layout of a record."""
        return cls(tuple((name, tuple(one.shape), one.dtype) for name, one in record.items()))

    def record(self, model: Vector) -> ArrayRecord:
        """Convert a flat model to a record. Values of integer arrays are rounded."""
        flwr, start = flower(), 0
        out: ArrayRecord = flwr.ArrayRecord()
        for name, shape, dtype in self.parts:
            end, kind = start + int(np.prod(shape)), np.dtype(dtype)
            part = model[start:end].reshape(shape)
            out[name] = flwr.Array(np.array(part if kind.kind == "f" else np.rint(part), dtype=kind, order="C"))
            start = end
        return out

    def vector(self, record: ArrayRecord) -> Vector | None:
        """Convert a record to a flat model of any length; None where the record has other arrays."""
        names = [name for name, _, _ in self.parts]
        if not names or sorted(record) != sorted(names):
            return None
        try:
            return np.concatenate([np.asarray(record[name].numpy(), dtype=np.float32).reshape(-1) for name in names])
        except (TypeError, ValueError, EOFError):
            # Its bytes are no array, or its values are no numbers.
            return None
