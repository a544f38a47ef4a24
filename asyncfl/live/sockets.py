"""Connections over the network: one frame in one binary message of a websocket."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from asyncfl.base.errors import AsyncflError, system_says
from asyncfl.live.transport import BACKLOG, Connect, Connection, EndedError, Handler, UntrustedError

# Heartbeats are our own; frames are float32, which hardly can be compressed.
OPTIONS: dict[str, Any] = {"max_queue": BACKLOG, "compression": None, "ping_interval": None}


class PortError(AsyncflError):
    """The server cannot listen at its address."""


class SocketConnection:
    """One end of a websocket, see `Connection`."""

    def __init__(self, socket: ClientConnection | ServerConnection) -> None:
        self._socket = socket
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
            raise EndedError(f"the connection has ended: {error}") from None
        return bytes(frame)

    async def close(self, reason: str = "") -> None:
        with suppress(ConnectionClosed):
            # A websocket's reason has at most 123 bytes.
            await self._socket.close(reason=reason.encode()[:120].decode(errors="ignore"))

    def drop(self) -> None:
        self._socket.transport.abort()


@asynccontextmanager
async def listening(
    handler: Handler, host: str, port: int, frame_bytes: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve connections at `host` and `port` (0: any that is free), and yield the port. Raises PortError.

    `frame_bytes`: the longest frame that a client may send. `tls` None: without encryption.
    """

    async def take(socket: ServerConnection) -> None:
        await handler(SocketConnection(socket))

    try:
        server = await serve(take, host, port, ssl=tls, max_size=frame_bytes, server_header=None, **OPTIONS)
    except OSError as error:
        raise PortError(f"cannot listen at {host}:{port}: {system_says(error)}") from None
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def to(url: str, frame_bytes: int, tls: ssl.SSLContext | None = None) -> Connect:
    """Return a function that connects to `url` (ws:// or wss://). `frame_bytes`: the longest frame of the server."""

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
