"""Limits on connections that are in force before TLS begins, when a connection costs no more than its descriptor.

A connection is a stranger until it has said who it is. TLS, the websocket's opening and that have one time limit
together. At the limit of descriptors a connection is accepted with one that is kept in reserve, and closed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

log = logging.getLogger("asyncfl.live")

STRANGERS = 64
PATIENCE_S = 10.0
"""Real seconds that a new connection has to introduce itself, and clients to say goodbye."""
OWN_FILES = 128
"""Descriptors that are left to the run's files."""
REFUSED_AT_ONCE = 100
"""Connections that are refused before the event loop goes on."""

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(frozen=True)
class ConnectionLimits:
    """The most connections of a server."""

    connections: int = 1000
    """In all; more are refused."""
    strangers: int = STRANGERS
    """Without having said who they are; the oldest of more is dropped, so that others get in."""
    per_address: int = 32
    """Strangers of one address; more are refused."""
    patience_s: float = PATIENCE_S
    """Real seconds after which a stranger is dropped."""

    @classmethod
    def of(cls, clients: int) -> ConnectionLimits:
        """Return limits for so many clients: a returning one may have its old connection yet, and is a stranger."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        connections = 3 * clients + STRANGERS
        if descriptors != resource.RLIM_INFINITY:
            connections = min(connections, max(1, descriptors - OWN_FILES))
        return cls(connections, clients + STRANGERS)


class _Accepted(socket.socket):
    """Socket of a connection. Counts until its descriptor is closed."""

    ended: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.ended is not None:
            self.ended()
            self.ended = None


class _Stranger(NamedTuple):
    connection: _Accepted
    peer: tuple[str, int]
    """Address and port of the other end."""
    timer: asyncio.TimerHandle


class LimitedSocket(socket.socket):
    """A listening socket whose connections keep to limits."""

    def __init__(self, limits: ConnectionLimits, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._limits, self._reserve = limits, os.open(os.devnull, os.O_RDONLY)
        self._connections = 0
        self._strangers: dict[int, _Stranger] = {}
        """Descriptor -> its connection, the oldest first."""
        self._of_address: Counter[str] = Counter()

    def close(self) -> None:
        """Stop listening. Connections stay."""
        super().close()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection that is within the limits, and its address. Raises BlockingIOError if there is
        none now."""
        for _ in range(REFUSED_AT_ONCE):
            try:
                taken, peer = super().accept()
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self._refuse_without_descriptor(error)
                continue
            limits = self._limits
            if self._connections >= limits.connections:
                log.warning("%s: refused, there are %d connections", peer[0], limits.connections)
            elif self._of_address[peer[0]] >= limits.per_address:
                log.warning(
                    "%s: refused, %d connections of this address have not said who they are",
                    *(peer[0], limits.per_address),
                )
            else:
                return self._counted(taken, peer), peer
            taken.close()
        raise BlockingIOError

    def introduced(self, descriptor: int) -> None:
        """Record that the connection with this descriptor has said who it is, or has ended."""
        if (stranger := self._strangers.pop(descriptor, None)) is not None:
            stranger.timer.cancel()
            self._of_address -= Counter([stranger.peer[0]])

    def _counted(self, taken: socket.socket, peer: Any) -> socket.socket:
        if len(self._strangers) >= self._limits.strangers:
            self._drop(next(iter(self._strangers)), "%s: has not said who it is, and many others wait: dropped")
        connection, descriptor = _Accepted(taken.family, taken.type, taken.proto, taken.fileno()), taken.detach()
        late = "%s: has not said who it is in time: dropped"
        timer = asyncio.get_running_loop().call_later(self._limits.patience_s, self._drop, descriptor, late)
        self._strangers[descriptor] = _Stranger(connection, peer[:2], timer)
        self._of_address[peer[0]] += 1
        self._connections += 1

        def ended() -> None:
            self._connections -= 1
            self.introduced(descriptor)

        connection.ended = ended
        return connection

    def _drop(self, descriptor: int, why: str) -> None:
        stranger = self._strangers[descriptor]
        self.introduced(descriptor)
        log.warning(why, ":".join(map(str, stranger.peer)))
        with suppress(OSError):
            # Its transport, which owns the descriptor, reads the end and closes it.
            stranger.connection.shutdown(socket.SHUT_RDWR)

    def _refuse_without_descriptor(self, error: OSError) -> None:
        """Close the next connection, for which there is no descriptor but the one in reserve. Raises BlockingIOError if
        none waits, or another thread has taken the descriptor."""
        os.close(self._reserve)
        try:
            taken, peer = super().accept()
            log.warning("%s: refused, %s", peer[0], error.strerror)
            taken.close()
        except OSError:
            raise BlockingIOError from error
        finally:
            self._reserve = os.open(os.devnull, os.O_RDONLY)


async def bound_sockets(limits: ConnectionLimits, host: str, port: int) -> list[LimitedSocket]:
    """Return a listening socket for each address of `host`, all at one port (0: any that is free). Raises OSError."""
    loop, sockets = asyncio.get_running_loop(), list[LimitedSocket]()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, place in dict.fromkeys((family, place) for family, _, _, _, place in found):
            sockets.append(LimitedSocket(limits, family))
            sockets[-1].setblocking(False)
            sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sockets[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sockets[-1].bind((place[0], port or place[1], *place[2:]))
            port = sockets[0].getsockname()[1]
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets
