"""Limits on strangers, over sockets of this machine."""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from asyncfl.live.connection_limits import OWN_FILES, STRANGERS, ConnectionLimits
from asyncfl.live.connections import Connection, EndedError, listening, to
from asyncfl.live.keys import CERTIFICATE, client_context, make_keys, server_context

FOREVER = 1000.0


async def introduced(connection: Connection) -> None:
    """A server that lets each connection in that says something, and says it back."""
    try:
        while True:
            frame = await connection.receive()
            connection.allow(1000)
            await connection.send(frame)
    except EndedError:
        return


def held(limits: ConnectionLimits, scene: Callable[[int], Awaitable[Any]], tls: ssl.SSLContext | None = None) -> Any:
    """Return the result of `scene`, which is given the port of a server with these limits."""

    async def main() -> Any:
        async with listening(introduced, "127.0.0.1", 0, 1000, tls, limits) as port:
            return await asyncio.wait_for(scene(port), 30)

    return asyncio.run(main())


async def silent(port: int) -> asyncio.StreamReader:
    """Connect without ever saying a word."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    # Kept as long as its reader is.
    reader.writer = writer  # type: ignore[attr-defined]
    return reader


async def ends(reader: asyncio.StreamReader) -> None:
    """Wait until the server has ended a connection."""
    with suppress(ConnectionError):
        assert await reader.read() == b""
    reader.writer.close()  # type: ignore[attr-defined]


async def is_served(port: int, connection: Connection | None = None) -> Connection:
    """Say something and hear it again, on a new connection if none is given."""
    connection = connection or await to(f"ws://127.0.0.1:{port}", 1000)()
    await connection.send(b"x")
    assert await connection.receive() == b"x"
    return connection


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().partition(" ")[2] for record in caplog.records]


def test_the_oldest_of_too_many_strangers_is_dropped_and_clients_get_in(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(port: int) -> None:
        known = await is_served(port)
        first, *others = [await silent(port) for _ in range(4)]
        await ends(first)
        await is_served(port)
        await ends(others[0])
        await is_served(port, known)
        for one in others[1:]:
            one.writer.close()  # type: ignore[attr-defined]
        await known.close()

    held(ConnectionLimits(strangers=3), scene)
    assert messages(caplog) == ["has not said who it is, and many others wait: dropped"] * 2


def test_an_address_with_too_many_strangers_is_refused_until_they_have_ended(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(port: int) -> None:
        both = [await silent(port) for _ in range(2)]
        await ends(await silent(port))
        with pytest.raises(EndedError):
            await is_served(port)
        both[0].writer.close()  # type: ignore[attr-defined]
        await both[0].writer.wait_closed()  # type: ignore[attr-defined]
        known = [await is_served(port) for _ in range(5)]
        both[1].writer.close()  # type: ignore[attr-defined]
        for one in known:
            await one.close()

    held(ConnectionLimits(per_address=2), scene)
    assert messages(caplog) == ["refused, 2 connections of this address have not said who they are"] * 2


def test_there_are_no_more_connections_in_all_than_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(port: int) -> None:
        known = [await is_served(port) for _ in range(2)]
        with pytest.raises(EndedError):
            await is_served(port)
        await known[0].close()
        await (await is_served(port)).close()
        await is_served(port, known[1])
        await known[1].close()

    held(ConnectionLimits(connections=2), scene)
    assert messages(caplog) == ["refused, there are 2 connections"]


@pytest.mark.parametrize("stage", ["TLS", "websocket", "introduction"])
def test_each_stage_of_an_introduction_has_the_same_end(
    tmp_path: Path, stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_keys(tmp_path, ["127.0.0.1"], ["ann"], 1)
    trusted = client_context(tmp_path / CERTIFICATE)

    async def scene(port: int) -> None:
        if stage == "TLS":
            await ends(await silent(port))
        elif stage == "websocket":
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
            reader.writer = writer  # type: ignore[attr-defined]
            await ends(reader)
        else:
            connection = await to(f"wss://127.0.0.1:{port}", 1000, trusted)()
            with pytest.raises(EndedError):
                await connection.receive()

    held(ConnectionLimits(patience_s=0.2), scene, server_context(tmp_path))
    assert messages(caplog) == ["has not said who it is in time: dropped"]


def test_a_client_that_has_said_who_it_is_stays(tmp_path: Path) -> None:
    make_keys(tmp_path, ["127.0.0.1"], ["ann"], 1)
    trusted = client_context(tmp_path / CERTIFICATE)

    async def scene(port: int) -> None:
        known = await is_served(port, await to(f"wss://127.0.0.1:{port}", 1000, trusted)())
        # A stranger that comes later is dropped already.
        await ends(await silent(port))
        await is_served(port, known)
        await known.close()

    held(ConnectionLimits(patience_s=0.2), scene, server_context(tmp_path))


def test_a_client_that_is_refused_before_tls_tries_again(tmp_path: Path) -> None:
    make_keys(tmp_path, ["127.0.0.1"], ["ann"], 1)

    async def scene(port: int) -> None:
        first = await silent(port)
        for _ in range(3):
            with pytest.raises(EndedError, match="cannot connect to wss"):
                await to(f"wss://127.0.0.1:{port}", 1000, client_context(tmp_path / CERTIFICATE))()
        first.writer.close()  # type: ignore[attr-defined]

    held(ConnectionLimits(connections=1), scene, server_context(tmp_path))


def test_without_descriptors_connections_are_refused_and_the_server_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scene(port: int) -> None:
        loop, known = asyncio.get_running_loop(), await is_served(port)
        strangers, files = [socket.socket() for _ in range(20)], list[int]()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
            with suppress(OSError):
                while True:
                    files.append(os.open(os.devnull, os.O_RDONLY))
            for one in strangers:
                one.setblocking(False)
                await loop.sock_connect(one, ("127.0.0.1", port))
            for one in strangers:
                with pytest.raises((ConnectionError, EOFError)):
                    raise EOFError(await loop.sock_recv(one, 1))
            await is_served(port, known)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for one in strangers:
                one.close()
            for file in files:
                os.close(file)
        await (await is_served(port)).close()
        await known.close()

    held(ConnectionLimits(), scene)
    assert messages(caplog) == ["refused, Too many open files"] * 20


@pytest.mark.parametrize("descriptors", [1024, 200])
def test_limits_leave_descriptors_to_the_run(descriptors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    limits = ConnectionLimits.of(10)
    assert limits.connections == min(3 * 10 + STRANGERS, descriptors - OWN_FILES)
    assert limits.strangers == 10 + STRANGERS
