"""Connections: frames go in at one end and come out at the other, in their order, until one side ends it.

Here is what the rest of `live/` asks of a connection, and one over memory, for clients of the same process and for
tests; `sockets` has those over the network.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from asyncfl.base.errors import AsyncflError

BACKLOG = 8
"""Frames that wait to be read before the sender has to wait."""


class EndedError(AsyncflError):
    """The other side is gone, or has ended the connection with this reason."""


class UntrustedError(AsyncflError):
    """The server has the wrong certificate; the client does not try again."""


class Connection(Protocol):
    """One end of a connection."""

    peer: str
    """Name of the other end, for messages."""

    async def send(self, frame: bytes) -> None:
        """Send a frame; waits where the other side does not keep up. Raises EndedError."""
        ...

    async def receive(self) -> bytes:
        """Return the next frame. Raises EndedError."""
        ...

    async def close(self, reason: str = "") -> None:
        """End the connection. Frames that were sent still arrive."""
        ...

    def drop(self) -> None:
        """End the connection at once, whatever is on its way."""
        ...


Handler: TypeAlias = Callable[[Connection], Awaitable[None]]
"""Takes care of a connection, until it ends."""
Connect: TypeAlias = Callable[[], Awaitable[Connection]]
"""A new connection to the server. Raises EndedError where there is none to be had, and UntrustedError."""


class Pipe:
    """Frames on their way in one direction."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._ended = False
        self._changed = asyncio.Event()

    async def put(self, frame: bytes) -> None:
        """Send a frame as soon as there is room for it."""
        while len(self._frames) >= BACKLOG and not self._ended:
            await self._change()
        if self._ended:
            raise EndedError("the connection has ended")
        self._frames.append(frame)
        self._changed.set()

    async def get(self) -> bytes:
        """Return the next frame."""
        while not self._frames:
            if self._ended:
                raise EndedError("the connection has ended")
            await self._change()
        self._changed.set()
        return self._frames.popleft()

    def end(self) -> None:
        """Refuse further frames; those that wait can still be read."""
        self._ended = True
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class MemoryConnection:
    """One end of a connection within a process, see `Connection`. Frames take no time."""

    def __init__(self, peer: str, incoming: Pipe, outgoing: Pipe) -> None:
        self.peer, self._incoming, self._outgoing = peer, incoming, outgoing
        self.send, self.receive = outgoing.put, incoming.get

    async def close(self, reason: str = "") -> None:
        self.drop()

    def drop(self) -> None:
        self._outgoing.end()
        self._incoming.end()


class Memory:
    """Connections to a server in the same process."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self._served: set[asyncio.Task[None]] = set()

    async def connect(self) -> Connection:
        """Return a new connection to it."""
        up, down = Pipe(), Pipe()
        served = asyncio.ensure_future(self.handler(MemoryConnection("memory", up, down)))
        self._served.add(served)
        served.add_done_callback(self._served.discard)
        return MemoryConnection("memory", down, up)

    async def close(self) -> None:
        """Wait until all connections are served."""
        while self._served:
            await asyncio.wait(self._served)
