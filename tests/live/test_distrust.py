"""Lies of clients and servers, on virtual time: noise, budgets and traces stay correct."""

import asyncio

import numpy as np
import pytest

from asyncfl.live.client import LiveClient
from asyncfl.live.host import Host
from asyncfl.live.transport import Connect, Connection, EndedError
from asyncfl.live.vocabulary import Report, Update
from asyncfl.live.wire import encode
from tests.live.test_live import BUFFERED, SLOW, Scene, held, whole

STEADY = {"device": {"kind": "fixed", "s_per_sample": 0.2}}
STOPPED = {"lr": 0.1, "batch_size": 10, "epochs": 3, "deadline_s": 9.0}
"""20 samples take 4 s: who trains for 9 s does two epochs."""
NOISED = {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 2.0, "noise_at": "server"}


def lie_about_the_first_task(
    liars: list[LiveClient], epsilon: float | None, epochs: int | None, report: Report = ()
) -> Scene:
    """The client of the first task sends an update that it says this of; it is put into `liars`."""

    async def lie(host: Host, clients: list[LiveClient], connect: Connect) -> None:
        while host.server.tasks.begun == 0:
            await asyncio.sleep(0.001)
        task = next(iter(host.server.tasks.open.values()))
        liar = next(client for client in clients if client.name == str(task.client))
        update = Update(task.number, 0.1, 0.0, epsilon, report, epochs)
        assert liar._connection is not None
        model = np.full((1, host.federation.learner.n_parameters), 0.01, np.float32)
        await liar._connection.send(encode(update, model))
        liars.append(liar)

    return lie


@pytest.mark.parametrize(
    ("epsilon", "epochs", "why"),
    [
        (None, None, ""),
        (1e9, None, "a budget of None"),
        (None, 1, "comes of 1 epochs, and nobody is stopped"),
    ],
)
def test_the_servers_noise_does_not_depend_on_claims_of_clients(
    epsilon: float | None, epochs: int | None, why: str
) -> None:
    liars: list[LiveClient] = []
    lie = lie_about_the_first_task(liars, epsilon, epochs)
    run = held({"world": SLOW, "protocol": BUFFERED | {"buffer": 1}, "privacy": NOISED}, lie, shape=True)
    assert run.stopped == "all versions published"
    whole(run)
    # z S is 1; what updates weigh, staleness, makes it less.
    assert all(0.2 <= row["sigma_d"] <= 1.0 for row in run.rounds[1:])
    assert (why or run.stopped) in str(liars[0].over)


def test_an_uncompressed_update_is_refused_where_updates_are_compressed() -> None:
    liars: list[LiveClient] = []
    packed = {"world": SLOW, "protocol": BUFFERED | {"buffer": 1}, "compression": {"kind": "top_k", "share": 0.1}}
    run = held(packed, lie_about_the_first_task(liars, None, None), shape=True)
    assert run.stopped == "all versions published"
    whole(run)
    assert "come packed here (top_k), got float32" in str(liars[0].over)
    assert 0.1 not in {one.loss for one in run.uploads}, "what it told of it"


@pytest.mark.parametrize("sockets", [False, True], ids=["memory", "sockets"])
def test_silent_connections_do_not_keep_clients_out(sockets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncfl.live.host.STRANGERS", 3)
    open_then: list[int] = []

    async def crowd(host: Host, clients: list[LiveClient], connect: Connect) -> None:
        strangers: list[Connection] = [await connect() for _ in range(20)]
        while host.server.version < 1:
            await asyncio.sleep(0.001)

        async def is_open(connection: Connection) -> bool:
            try:
                await asyncio.wait_for(connection.receive(), 0.01)
            except TimeoutError:
                return True
            except EndedError:
                pass
            return False

        open_then.append(sum([await is_open(one) for one in strangers]))

    world = {"device": {"kind": "fixed", "s_per_sample": 0.01}}
    run = held({"world": world, "protocol": BUFFERED}, crowd, shape=True, sockets=sockets)
    assert run.stopped == "all versions published"
    assert 0 < open_then[0] <= 3 + 6
