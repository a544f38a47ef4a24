"""Frames over real sockets of this machine."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from asyncfl.live.connections import Connection, EndedError, PortError, listening, to

LIMIT = 200
"""More than a close with a reason takes: it counts as a frame."""


def over(handler: Callable[[Connection], Coroutine[Any, Any, None]], talk: Callable[[Connection], Any]) -> Any:
    """Return the result of `talk` with a server and a client that take frames up to LIMIT."""

    async def main() -> Any:
        async with listening(handler, "127.0.0.1", 0, LIMIT) as port:
            connection = await to(f"ws://127.0.0.1:{port}", LIMIT)()
            assert connection.peer == f"127.0.0.1:{port}"
            outcome = await talk(connection)
            await connection.close()
            return outcome

    return asyncio.run(main())


async def echo(connection: Connection) -> None:
    try:
        while True:
            await connection.send(await connection.receive() * 2)
    except EndedError:
        return


@pytest.mark.parametrize(("length", "refused"), [(100, ""), (101, "sent"), (200, "sent"), (201, "received")])
def test_neither_side_takes_a_frame_beyond_the_limit(length: int, refused: str) -> None:
    async def talk(connection: Connection) -> bytes:
        await connection.send(b"x" * length)
        return await connection.receive()

    if not refused:
        assert over(echo, talk) == b"x" * 2 * length
        return
    why = f"the other side sends too much: frame with {2 * length} bytes exceeds limit of 200 bytes"
    if refused == "received":
        why = r"the connection has ended: received 1009 \(message too big\)"
    with pytest.raises(EndedError, match=f"^{why}"):
        over(echo, talk)


@pytest.mark.parametrize(("reason", "received"), [("r" * 130, "r" * 120), ("rr" + "é" * 60, "rr" + "é" * 59)])
def test_a_reason_is_cut_to_the_length_of_a_websocket_close(reason: str, received: str) -> None:
    async def leave(connection: Connection) -> None:
        await connection.close(reason)

    async def talk(connection: Connection) -> str:
        with pytest.raises(EndedError) as caught:
            await connection.receive()
        return str(caught.value)

    assert f"received 1000 (OK) {received};" in over(leave, talk)


def test_an_address_that_cannot_be_used_is_named() -> None:
    async def listen(port: int) -> None:
        async with listening(echo, "127.0.0.1", port, LIMIT):
            pass

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(PortError, match=f"^cannot listen at 127.0.0.1:{port}: Address already in use"):
            asyncio.run(listen(port))
        with pytest.raises(EndedError) as caught:
            asyncio.run(to(f"ws://127.0.0.1:{port}", LIMIT)())  # type: ignore[arg-type]
    assert str(caught.value) == f"cannot connect to ws://127.0.0.1:{port}: Connection refused"
    with pytest.raises(EndedError, match=r"^cannot connect to http://a: .*http://a isn't a valid URI"):
        asyncio.run(to("http://a", LIMIT)())  # type: ignore[arg-type]
