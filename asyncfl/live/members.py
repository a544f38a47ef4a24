"""Who takes part: numbers by name, tokens, connections, and what each is at."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from asyncfl.base.errors import AsyncflError
from asyncfl.base.messages import Download, RequestScores, Vector
from asyncfl.client.compression import Compression
from asyncfl.live.transport import Connection, EndedError
from asyncfl.live.vocabulary import Hello, Message
from asyncfl.live.wire import encode
from asyncfl.server.tasks import TaskRecord


class RefusedError(AsyncflError):
    """A client that is not let in, and why."""


@dataclass
class Member:
    """One client, as the server knows it."""

    number: int
    name: str
    samples: int
    instance: str = ""
    """Of its process."""
    connection: Connection | None = None
    outbox: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    ready: bool = False
    """Whether it has prepared itself."""
    online: bool = False
    """Whether something can be sent to it."""
    spent: str | None = None
    """Why it answers no more; None: it does."""
    task: TaskRecord | None = None
    """The task that it is at, as far as is known."""
    sent_s: float = 0.0
    """When that was dispatched."""
    at_s: float | None = None
    """When that, or what it was asked to score, was sent, of which it has not told yet; None: it has."""
    request: RequestScores | None = None
    """What it is to score."""
    asked_s: float = 0.0
    held: RequestScores | None = None
    """What it is to score when its task is over."""
    missed: bool = False
    """Whether its absence has been noted in the trace."""
    left: list[int] = field(default_factory=list)
    """What it told of that it was at when it vanished: tasks, -1 for scores."""
    lease: asyncio.TimerHandle | None = None
    heard_s: float = 0.0
    """When it was heard last, by the loop's clock."""
    requests: int = 0
    """Requests for scores that it was sent."""
    last: tuple[int, int, int] = (-1, 0, 0)
    """Number, base version and turn of its task that was collected last."""

    def cancel_lease(self) -> None:
        """Stop waiting for the time at which the client counts as gone."""
        if self.lease is not None:
            self.lease.cancel()
            self.lease = None

    def say(self, message: Message, models: Vector | Download | None = None) -> None:
        """Send a message after those before it. Without a connection it is dropped."""
        if self.connection is not None:
            self.outbox.put_nowait(encode(message, models))


@dataclass(frozen=True)
class Admitted:
    """A client that was let in."""

    member: Member
    new: bool
    """Whether its process was not here before: what an earlier one of this name was at, it knows nothing of."""
    before: Connection | None
    """Connection of the same process, which it has given up and the server has not yet."""


class Members:
    """The clients of a federation."""

    def __init__(
        self,
        clients: int,
        tokens: Mapping[str, str],
        n_parameters: int,
        *,
        fewest_samples: int = 1,
        packing: Compression | None = None,
    ) -> None:
        """`tokens`: name -> token of those who may take part; numbers are given in this order as they come.

        `fewest_samples`: that a client must have; `packing`: of updates, None: they are sent as they are.
        """
        self.packing = packing
        self.clients = clients
        self.n_parameters = n_parameters
        self.fewest_samples = fewest_samples
        self.by_number: dict[int, Member] = {}
        self._tokens = dict(tokens)
        self.by_name: dict[str, Member] = {}
        self.renewed: set[int] = set()
        """Clients that came back as another process: what the one before had kept is gone."""

    def admit(self, hello: Hello, connection: Connection) -> Admitted:
        """The client that says this. Raises RefusedError."""
        token = self._tokens.get(hello.name)
        # As long as for a name that is known: who tries does not learn which it was.
        if not hmac.compare_digest((token or "").encode(), hello.token.encode()) or token is None:
            raise RefusedError(f"client {hello.name!r} has no such token")
        if hello.n_parameters not in (0, self.n_parameters):
            raise RefusedError(
                f"client {hello.name!r} trains models of {hello.n_parameters} parameters, here they have "
                f"{self.n_parameters}: both sides need the same scenario"
            )
        if hello.samples < 1:
            raise RefusedError(f"client {hello.name!r} has no samples to train on")
        if hello.samples < self.fewest_samples:
            raise RefusedError(
                f"client {hello.name!r} has {hello.samples} samples, and noise is calibrated to clients of at least "
                f"{self.fewest_samples}; lower data.samples_per_client at the server"
            )
        member = self.by_name.get(hello.name)
        if member is not None and member.connection is not None and member.instance != hello.instance:
            raise RefusedError(f"client {hello.name!r} is connected already, from {member.connection.peer}")
        before = None if member is None else member.connection
        new = member is None or member.instance != hello.instance
        if member is not None and new:
            self.renewed.add(member.number)
        if member is None:
            number = int(hello.name) if hello.name.isdigit() and int(hello.name) < self.clients else self._free()
            if number in self.by_number:
                number = self._free()
            member = Member(number, hello.name, hello.samples)
            self.by_number[number] = self.by_name[hello.name] = member
        member.samples, member.instance = hello.samples, hello.instance
        member.connection = connection
        member.outbox = asyncio.Queue()
        return Admitted(member, new, before)

    def _free(self) -> int:
        for number in range(self.clients):
            if number not in self.by_number:
                return number
        raise RefusedError(f"all {self.clients} clients of the federation are there already")

    @property
    def ready(self) -> list[Member]:
        """Those who have prepared themselves, by number."""
        return [self.by_number[number] for number in sorted(self.by_number) if self.by_number[number].ready]


async def deliver(member: Member, connection: Connection) -> None:
    """Send what is said to a member, one after another, until the connection ends."""
    outbox = member.outbox
    try:
        while True:
            await connection.send(await outbox.get())
    except EndedError:
        return
