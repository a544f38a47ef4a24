"""Connections: frames go in at one end and come out at the other, in their order, until one side ends it.

Over memory, for clients of the same process and for tests; over the network, one frame in one binary message of a
websocket.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeAlias

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.frames import CloseCode

from asyncfl.base.errors import AsyncflError, system_says
from asyncfl.live.connection_limits import ConnectionLimits, LimitedSocket, bound_sockets

websockets_log = logging.getLogger("asyncfl.live.websockets")
websockets_log.setLevel(logging.WARNING)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Keep a log record, without a traceback where a stranger speaks another protocol."""
    if record.msg == "opening handshake failed":
        record.exc_info = None
    return True


websockets_log.addFilter(_without_traceback)

CLOSE_S = 2.0
"""Real seconds that a server waits for the other side to end a connection too."""
BACKLOG = 8
"""Frames that wait to be read before the sender has to wait."""


class EndedError(AsyncflError):
    """The other side is gone, or has ended the connection with this reason."""


class FrameTooLongError(EndedError):
    """The other side has sent a longer frame than it may."""


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
        """Return the next frame. Raises EndedError, FrameTooLongError among them."""
        ...

    async def close(self, reason: str = "") -> None:
        """End the connection. Frames that were sent still arrive."""
        ...

    def allow(self, frame_bytes: int) -> None:
        """Set the size of the longest frame that the other side, which is let in, may send from now on."""
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
        self._outgoing.end()
        self._incoming.end()

    def allow(self, frame_bytes: int) -> None:
        """No effect: both ends are in one process."""


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


# --- over the network -------------------------------------------------------------------------------------------------

# Heartbeats are our own; frames are float32, which hardly can be compressed.
OPTIONS: dict[str, Any] = {"max_queue": BACKLOG, "compression": None, "ping_interval": None}


class PortError(AsyncflError):
    """The server cannot listen at its address."""


class SocketConnection:
    """One end of a websocket, see `Connection`."""

    def __init__(
        self, socket: ClientConnection | ServerConnection, introduced: Callable[[], None] = lambda: None
    ) -> None:
        """`introduced`: called when the other side is let in."""
        self._socket, self._introduced = socket, introduced
        address = socket.remote_address
        self.peer = f"{address[0]}:{address[1]}" if address else "unknown"

    async def send(self, frame: bytes) -> None:
        try:
            await self._socket.send(frame)
        except ConnectionClosed as error:
            raise EndedError(f"the connection has ended: {error}") from None

    async def receive(self) -> bytes:
        """Return the next frame. A text, which is no frame, is handed on as its bytes."""
        try:
            frame = await self._socket.recv(decode=False)
        except ConnectionClosed as error:
            own = None if error.rcvd_then_sent else error.sent
            if own is not None and own.code == CloseCode.MESSAGE_TOO_BIG:
                raise FrameTooLongError(f"the other side sends too much: {own.reason}") from None
            raise EndedError(f"the connection has ended: {error}") from None
        return bytes(frame)

    async def close(self, reason: str = "") -> None:
        with suppress(ConnectionClosed):
            # A websocket's reason has at most 123 bytes.
            await self._socket.close(reason=reason.encode()[:120].decode(errors="ignore"))

    def allow(self, frame_bytes: int) -> None:
        # Websockets reads it when the header of a frame has come, before any of the frame's bytes.
        self._socket.protocol.max_message_size = frame_bytes
        self._introduced()


@asynccontextmanager
async def listening(
    handler: Handler,
    host: str,
    port: int,
    frame_bytes: int,
    tls: ssl.SSLContext | None = None,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[int]:
    """Serve connections at `host` and `port` (0: any that is free), and yield the port. Raises PortError.

    `frame_bytes`: the longest frame that a client may send first. `tls` None: without encryption.
    """
    options = {**OPTIONS, "ssl": tls, "max_size": frame_bytes, "server_header": None, "logger": websockets_log}
    # A client that has come back, and is not heard on its old connection any more, does not keep that.
    options |= {"close_timeout": CLOSE_S}
    async with AsyncExitStack() as stack:
        try:
            sockets = await bound_sockets(limits or ConnectionLimits(), host, port)
            for one in sockets:
                await stack.enter_async_context(serve(partial(_take, handler, one), sock=one, **options))
        except OSError as error:
            raise PortError(f"cannot listen at {host}:{port}: {system_says(error)}") from None
        yield sockets[0].getsockname()[1]


async def _take(handler: Handler, listener: LimitedSocket, socket: ServerConnection) -> None:
    descriptor = socket.transport.get_extra_info("socket").fileno()
    await handler(SocketConnection(socket, partial(listener.introduced, descriptor)))


def to(url: str, frame_bytes: int, tls: ssl.SSLContext | None = None) -> Connect:
    """Return a function that connects to `url` (ws:// or wss://). `frame_bytes`: the longest first frame of the
    server."""

    async def connect() -> Connection:
        try:
            socket = await websocket_connect(url, ssl=tls, max_size=frame_bytes, **OPTIONS)
        except ssl.SSLCertVerificationError as error:
            raise UntrustedError(f"{url} has not the certificate that it should have: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise UntrustedError(f"{url} cannot be talked to with TLS: {error.reason or error}") from None
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
            number = error.errno if isinstance(error, OSError) else None
            why = str(error) if number is None else os.strerror(number)
            raise EndedError(f"cannot connect to {url}: {why or type(error).__name__}") from None
        return SocketConnection(socket)

    return connect
