"""All inputs of a live federation, one after another: each is written to the journal before it is carried out.

A server that was killed goes on from its last checkpoint by carrying out the same inputs again (`replay`).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace as replaced

from asyncfl.base.errors import AsyncflError
from asyncfl.base.messages import Action, Download, Vector
from asyncfl.federation.action_executor import Steps, Work
from asyncfl.live import journal as inputs
from asyncfl.live.journal import AnyInput, Journal
from asyncfl.live.live_federation import LiveFederation
from asyncfl.live.remote_client import RemoteClient
from asyncfl.live.run_context import ClientLink, Handling
from asyncfl.live.wire import Decoder, FromClient, Hello, Message


class GoneLink:
    """Link of a connection that ended with an earlier process: what is written to it is lost."""

    peer = "gone"

    def write(self, message: Message, models: Vector | Download | None = None) -> None:
        """See `ClientLink`."""

    def end(self, reason: str) -> None:
        """See `ClientLink`."""


class LiveInputs:
    """Inputs of one live federation. Steps return work that takes time; its answers go to `worked`."""

    def __init__(self, live: LiveFederation, decoder: Decoder[FromClient], journal: Journal | None = None) -> None:
        """`journal`: None for none."""
        self.live, self.journal, self._decoder = live, journal, decoder
        self.links: dict[int, ClientLink] = {}
        """Number of a connection -> link of the client."""
        self._numbers = itertools.count()
        self._steps: Steps = iter(())  # type: ignore[assignment]

    def _write(self, what: AnyInput, frame: bytes = b"") -> None:
        if self.journal is not None and self.live.clock.has_begun:
            self.journal.append(what, frame)

    # --- at any time -------------------------------------------------------------------------------------------------

    def connect(self, hello: Hello, link: ClientLink, now_s: float | None = None) -> RemoteClient:
        """Let a client in on a connection. Raises RefusedError. `now_s`: of the run's clock; None: of its last step."""
        self.live.clients.authenticate(hello)
        number = next(self._numbers)
        self._write(inputs.Connected(number, replaced(hello, token="")))
        client = self.live.connect(hello, link, now_s)
        self.links[number] = link
        return client

    def disconnect(self, client: RemoteClient, link: ClientLink) -> None:
        """Record that a client's connection has ended."""
        number = next(number for number, one in self.links.items() if one is link)
        self._write(inputs.Disconnected(client.number, number))
        del self.links[number]
        client.disconnect(link)

    def refuse(self, client: RemoteClient, reason: str) -> None:
        """A client sent a frame that is no message."""
        self._write(inputs.Malformed(client.number, reason))
        client.refuse(reason)

    def ring(self, alarm: int) -> None:
        """The time of an alarm has come."""
        if alarm in self.live.alarms:
            self._write(inputs.Rang(alarm))
            self.live.ring(alarm)

    def end(self, reason: str) -> None:
        """Have the run stop before any further message."""
        self._write(inputs.Ending(reason))
        self.live.handle_later(self.live.stopping, reason)

    # --- steps -------------------------------------------------------------------------------------------------------

    def begin(self, time_s: float) -> Work | None:
        """Begin the run."""
        self.live.clock.has_begun = True
        return self._step(inputs.Began(time_s), self.live.beginning())

    def start(self, time_s: float) -> Work | None:
        """Start the server."""
        return self._step(inputs.Started(time_s), self.live.starting())

    def later(self, time_s: float) -> Work | None:
        """Handle the first of what waits in `LiveFederation.later`."""
        return self._step(inputs.TookNext(time_s), self.live.take_later())

    def say(
        self, time_s: float, client: RemoteClient, message: FromClient, models: Vector, arrived_s: float, frame: bytes
    ) -> Work | None:
        """Handle a client's message, which `frame` was decoded to. Raises MessageError and WireError, see `receive`."""
        self._write(inputs.Said(time_s, client.number, arrived_s), frame)
        return self._handle(time_s, client, message, models, arrived_s)

    def _handle(
        self, time_s: float, client: RemoteClient, message: FromClient, models: Vector, arrived_s: float
    ) -> Work | None:
        self.live.clock.now = time_s
        handling = client.receive(message, models, arrived_s)
        first = next(handling, [])
        if self.live.stopped is not None or not self.live.clock.has_begun:
            # For the trace, or so that the client is prepared.
            deque(handling, maxlen=0)
            return None
        return self._carry_out(_again(first, handling))

    def worked(self, time_s: float, answers: list[Action]) -> Work | None:
        """Go on with a step whose work is done. `answers`: actions that the work returned."""
        self._write(inputs.Worked(time_s))
        self.live.clock.now = time_s
        try:
            return self._steps.send(answers)
        except StopIteration:
            return None

    def _step(self, what: AnyInput, handling: Handling) -> Work | None:
        self._write(what)
        assert isinstance(what, inputs.Step)
        self.live.clock.now = what.time_s
        return self._carry_out(handling)

    def _carry_out(self, handling: Handling) -> Work | None:
        self._steps = self.live.carry_out(handling)
        return next(self._steps, None)

    # --- once more ---------------------------------------------------------------------------------------------------

    def replay(self, again: Iterable[tuple[AnyInput, bytes]]) -> Work | None:
        """Carry out inputs of an earlier process; return the work that it had not finished."""
        journal, self.journal = self.journal, None
        work: Work | None = None
        for what, frame in again:
            match what:
                case inputs.Worked():
                    assert work is not None
                    work = self.worked(what.time_s, work())
                case inputs.Step():
                    work = self._replay_step(what, frame)
                case _:
                    self._replay_event(what)
        self.journal = journal
        return work

    def restart(self, back_s: float) -> list[RemoteClient]:
        """All connections have ended with the process before. Returns their clients, which have until `back_s` to be
        back."""
        lost = [client for client in self.live.clients.by_number.values() if client.link is not None]
        for client in lost:
            client.disconnect(client.link, back_s)
        self.links.clear()
        return lost

    def _replay_event(self, what: AnyInput) -> None:
        match what:
            case inputs.Connected():
                link = self.links[what.link] = GoneLink()
                self._numbers = itertools.count(what.link + 1)
                with suppress(AsyncflError):
                    self.live.connect(what.hello, link)
            case inputs.Disconnected():
                self.live.clients.by_number[what.client].disconnect(self.links.pop(what.link))
            case inputs.Malformed():
                self.live.clients.by_number[what.client].refuse(what.reason)
            case inputs.Rang():
                self.ring(what.alarm)
            case inputs.Ending():
                self.end(what.reason)

    def _replay_step(self, what: inputs.Step, frame: bytes) -> Work | None:
        match what:
            case inputs.Began():
                return self.begin(what.time_s)
            case inputs.Started():
                return self.start(what.time_s)
            case inputs.Said():
                client = self.live.clients.by_number[what.client]
                try:
                    message, models = self._decoder.decode(frame)
                    return self._handle(what.time_s, client, message, models, what.arrived_s)
                except AsyncflError:
                    return None
        return self.later(what.time_s)


def _again(first: list[Action], rest: Handling) -> Handling:
    yield first
    yield from rest
