"""Enrolled clients that lie: what they say is refused, counted against them alone, and never ends the run."""

import logging
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import MessageError
from asyncfl.live.conduct import AT_ONCE, BURST, REFUSALS, ClientConduct, with_share
from asyncfl.live.live_federation import RefusedError
from asyncfl.live.remote_client import ClientState, RemoteClient
from asyncfl.live.wire import Gone, Noted, Ready, Scores, Spent, Trace, Update, WireError
from asyncfl.scenario import Scenario
from tests.live.conftest import SMALL
from tests.live.test_remote_client import SCORED, WHOLE, Table, begun


def client_of(table: Table, name: str) -> RemoteClient:
    return table.live.clients.by_name[name]


def answer(table: Table, name: str, report: tuple[Noted, ...] = (), **fields: Any) -> None:
    """Send the update of the client's task."""
    task = client_of(table, name).task
    assert task is not None
    told = {"loss": 0.5, "added_std": 0.0, "epsilon": None} | fields
    table.hear(name, Update(task.number, report=report, **told), model=True)


def lie(table: Table, name: str, message: Any) -> None:
    with pytest.raises((WireError, MessageError)):
        table.hear(name, message)


@pytest.mark.parametrize("shape", [False, True])
@pytest.mark.parametrize("numbers", [(24, 40_000), (2**53, 1)])
def test_numbers_that_no_table_holds_are_refused_before_they_are_written(shape: bool, numbers: tuple[int, int]) -> None:
    table = begun("0", "1", shape=shape)
    events = len(table.events())
    lie(table, "0", Trace(0, (Noted(0.0, "downloaded", *numbers),)))
    lie(table, "0", Trace(0, tuple(Noted(0.0, "downloaded", *numbers) for _ in range(4096))))
    assert len(table.events()) == events
    assert table.live.traffic.bytes_down <= 2 * table.live.load.download_bytes


def test_a_task_is_reported_once() -> None:
    table = begun("0", "1")
    whole = tuple(Noted(*event) for event in WHOLE)
    table.clock.now = 2.0
    table.hear("0", Trace(0, whole[:3]))
    events = len(table.events())
    for message in (Trace(0, whole[:3]), Update(0, 0.5, 0.0, None, whole), Gone(0, "dropped_out", whole[:1])):
        with pytest.raises(WireError, match="a task is reported once, got another report"):
            table.hear("0", message, isinstance(message, Update))
    assert len(table.events()) == events


def test_scores_that_were_not_asked_for_leave_no_trace() -> None:
    table = begun("0", "1", "2", "3", **SCORED)
    events = len(table.events())
    for message in (Scores(0, (0.5,), ()), Trace(-1, (Noted(0.0, "sent", 5, -1, "down"),))):
        lie(table, "0", message)
    assert len(table.events()) == events


@pytest.mark.parametrize("lies", [(1e308, 0.5), (float("nan"), 0.5), (-3.0, 0.5)])
def test_scores_are_accuracies(lies: tuple[float, ...]) -> None:
    table = begun("0", "1", "2", "3", **SCORED)
    for name in "01":
        answer(table, name)
    [asked] = [client for client in table.live.clients.by_number.values() if client.request is not None]
    request = asked.request
    assert request is not None
    with pytest.raises(MessageError, match=r"scores must be accuracies, 0\.\.1, got"):
        table.hear(asked.name, Scores(request.request, (lies * len(request.models))[: len(request.models)], ()))
    table.hear(asked.name, Scores(request.request, (0.5,) * len(request.models), ()))
    assert table.live.server.version == 1


def test_a_client_that_is_refused_too_often_is_banned_for_the_run(caplog: pytest.LogCaptureFixture) -> None:
    table = begun("0", "1", "2")
    other = client_of(table, "1").task
    assert other is not None
    with caplog.at_level(logging.WARNING, "asyncfl.live"):
        for _ in range(REFUSALS):
            lie(table, "0", Gone(other.number, "dropped_out", ()))
    assert caplog.messages[0] == f"client 0: refusal 1 of 10: task {other.number} is client 1's, got an answer of 0"
    assert caplog.messages[-1].startswith("client 0 is banned for this run: refused 10 times, the last time because")
    client = client_of(table, "0")
    assert client.state is ClientState.LEFT
    assert table.links["0"].ended == "banned"
    table.do(iter(()))
    assert ("banned", 0) in table.events()
    assert table.live.server.tasks.fates["banned"] == 1
    table.disconnect("0")
    with pytest.raises(RefusedError, match="client '0' is banned for this run: refused 10 times"):
        table.connect("0", "two")
    answer(table, "1")
    answer(table, "2")
    assert table.live.server.version == 1


def test_a_frame_that_is_no_message_counts_as_a_refusal() -> None:
    table = begun("0", "1")
    for _ in range(REFUSALS):
        client_of(table, "0").refuse("not a message")
    assert client_of(table, "0").conduct.banned is not None


def test_giving_up_at_once_costs_the_client_pauses_then_its_place_and_never_the_run() -> None:
    table = begun("0", "1", "2")
    client, given_up = client_of(table, "0"), 0
    for _ in range(100_000):
        if client.task is not None:
            table.hear("0", Gone(client.task.number, "dropped_out", ()))
            given_up += 1
        if client.state is ClientState.LEFT:
            break
        table.wait(0.1)
    assert client.conduct.banned == "50 tasks in a row ended at once, without an update"
    assert given_up == AT_ONCE
    assert table.clock.now > 40 * 60, "pauses of a minute"
    answer(table, "1")
    answer(table, "2")
    assert table.live.server.version == 1


def test_pauses_hold_for_a_client_that_leaves_and_joins_again() -> None:
    table = begun("0", "1")
    client = client_of(table, "0")
    for number in range(5):
        assert client.task is not None, number
        table.disconnect("0")
        table.connect("0", f"process {number}")
        table.hear("0", Ready(True, None))
        if client.conduct.rests_until_s > table.clock.now:
            break
    assert client.conduct.in_vain == 4
    assert client.task is None
    assert not table.live.server.validator.takes_part(0)
    table.wait(1.1)
    assert client.task is not None


def test_an_update_ends_the_count_of_tasks_in_vain() -> None:
    conduct = ClientConduct()
    for _ in range(AT_ONCE - 1):
        conduct.end_in_vain(0.1, 5.0, pauses=True)
    assert conduct.rests_until_s == 65.0
    conduct.send_update()
    conduct.end_in_vain(0.1, 100.0, pauses=True)
    assert (conduct.banned, conduct.in_vain, conduct.rests_until_s) == (None, 1, 65.0)


def test_tasks_that_end_late_in_vain_never_lead_to_a_ban() -> None:
    conduct = ClientConduct()
    for number in range(10 * AT_ONCE):
        conduct.end_in_vain(2.0, number, pauses=False)
    assert (conduct.banned, conduct.rests_until_s) == (None, 0.0)


def test_messages_without_effect_are_limited_in_number_and_rate() -> None:
    table = begun("0", "1")
    table.hear("1", Spent("all of it"))
    events = len(table.events())
    for number in range(int(BURST)):
        table.hear("1", (Spent("again"), Trace(99, ()), Trace(-1, ()))[number % 3])
    lie(table, "1", Spent("again"))
    table.wait(30.0)
    for _ in range(29):
        table.hear("1", Spent("again"))
    assert len(table.events()) == events
    table.disconnect("1")
    table.wait(1.0)
    table.connect("1")
    table.disconnect("1")
    with pytest.raises(RefusedError, match="messages without effect at once and 1 a second"):
        table.connect("1")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_updates_that_are_rejected_count_against_their_sender_alone(value: float) -> None:
    table = begun("0", "1", "2", protocol={"kind": "fedasync", "rounds": 90, "in_flight": 3})
    client = client_of(table, "0")
    for _ in range(REFUSALS):
        assert client.task is not None
        table.hear("0", Update(client.task.number, 0.5, 0.0, None, ()), True, value)
    assert client.conduct.banned is not None
    assert table.live.stopped is None
    answer(table, "1")
    assert table.live.server.version == 1


@pytest.mark.parametrize(
    ("buffer", "at_least", "share"),
    [(10, 45, 1), (10, 10, 2), (10, 7, 3), (10, 2, 5), (5, 1, 3), (1, 4, 1), (2, 2, 1)],
)
def test_a_client_enters_twice_its_turn_of_a_buffer_and_at_most_half(buffer: int, at_least: int, share: int) -> None:
    protocol = {"kind": "buffered", "rounds": 3, "buffer": buffer, "dispatch": {"kind": "continuous"}}
    data = {**SMALL["data"], "clients": 50}
    scenario = Scenario.read({**SMALL, "data": data, "protocol": protocol})
    assert with_share(scenario.protocol, at_least).per_client == share
    assert share * max(2, at_least) >= buffer, "those clients can fill it"
    asked = scenario.override({"protocol.per_client": 4}).protocol
    assert with_share(asked, at_least).per_client == 4
