"""The server's half of a live run without asyncio: a server, its clients, and what passes between them."""

from __future__ import annotations

from collections.abc import Sequence

from asyncfl.base.errors import MessageError
from asyncfl.base.instrument import Instrument
from asyncfl.extras.live.client_messages import Begin, ClientEvent, Hello
from asyncfl.extras.live.clock import LiveTiming, StepClock
from asyncfl.extras.live.live_executor import Alarm, ClientLink, Handling, LiveExecutor
from asyncfl.extras.live.remote_client import RemoteClient
from asyncfl.protocol import Server, messages
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Stop
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import Steps
from asyncfl.simulation.event_order import EventOrder
from asyncfl.simulation.prepare import Federation


class LiveFederation(LiveExecutor):
    """Executes a server's actions with clients of a live run. Its driver (`host`):

    - hands it connections (`connect`) and their ends and messages (`RemoteClient.disconnect`, `RemoteClient.receive`);
    - carries out each handling (`carry_out`): of messages, and before these all in `later`;
    - has each of `alarms` handled when its time has come.
    """

    def __init__(
        self,
        federation: Federation,
        server: Server,
        clock: StepClock,
        timing: LiveTiming,
        instruments: Sequence[Instrument] = (),
    ) -> None:
        super().__init__(federation, server, clock, timing, instruments)
        self.clients: dict[int, RemoteClient] = {}
        """Clients that have been connected, by number."""
        self._starts: list[TaskRecord | messages.ScoreRequest] = []

    @property
    def in_flight(self) -> int:
        """Number of tasks that clients are at."""
        return sum(client.task is not None for client in self.clients.values())

    @property
    def is_complete(self) -> bool:
        """Whether all clients of the scenario are connected."""
        return sum(client.link is not None for client in self.clients.values()) == len(self.server.samples)

    @property
    def renewed(self) -> list[int]:
        """Numbers of clients whose place a node took that lacks what the one before had kept."""
        return sorted(client.number for client in self.clients.values() if client.has_forgotten)

    def observe(self, client: int, number: int, event: ClientEvent) -> None:
        """See `RemoteClient.observe`."""
        if client in self.clients:
            self.clients[client].observe(number, event)

    # --- connections and the course of a run -----------------------------------------------------------------------

    def connect(self, hello: Hello, link: ClientLink) -> None:
        """Connect a client. Raises MessageError for a client or number of samples that the federation does not have."""
        number, known = hello.client, self.server.samples
        if not 0 <= number < len(known):
            raise MessageError(f"client must be 0..{len(known) - 1}, got {number}")
        client = self.clients.get(number)
        samples = hello.samples
        if client is not None:
            samples = client.samples
        elif self.server.plan.all_present:
            samples = int(known[number])
        if hello.samples != samples or samples < 1:
            raise MessageError(f"client {number} has {max(samples, 1)} samples, got {hello.samples}")
        if client is None:
            client = self.clients[number] = RemoteClient(self, number, samples)
        client.connect(hello, link)

    def stopping(self, reason: str) -> Handling:
        """Stop the run."""
        yield self.server.stop(reason)

    def beginning(self) -> Handling:
        """Begin the run with the clients that are connected. The first tasks come with `starting`."""
        self.later.clear()
        clients = [client for _, client in sorted(self.clients.items())]
        for client in clients:
            client.send(Begin())
            if not self.server.plan.all_present:
                yield self.server.handle(messages.ClientJoined(client.number, client.samples, time_s=0.0))
        for client in clients:
            if client.spent is not None:
                yield client.spend(client.spent)

    def starting(self) -> Handling:
        """Start the server."""
        yield self.server.start(self.clock.now)

    def say_goodbye(self) -> None:
        """Tell all clients that the run is over."""
        for client in self.clients.values():
            client.send(Stop(str(self.stopped)[:1000]))

    def carry_out(self, handling: Handling) -> Steps:
        """Carry out the actions of a handling, then send what they started."""
        for actions in handling:
            yield from self._carry_out(actions)
            if self.stopped is not None:
                return
            starts, self._starts = self._starts, []
            for one in starts:
                client = self.clients[one.client]
                if isinstance(one, TaskRecord):
                    client.send_task(one)
                else:
                    client.ask(one)

    # --- actions of the server -------------------------------------------------------------------------------------

    def _dispatch(self, action: messages.Dispatch) -> messages.ClientGone | None:
        client, task = self.clients.get(action.client), self.tasks.open[action.task]
        if client is None:
            self.event_log.record(Kind.WENT_OFFLINE, client=action.client)
        if client is None or not client.begin(task):
            return messages.ClientGone(action.client, action.task, None, time_s=self.clock.now)
        if self.attackers is not None:
            self.attackers.begin(task.number, task.client, task.turn)
        self._starts.append(task)
        return None

    def _begun(self) -> None:
        if self.attackers is not None:
            self.attackers.draw()

    def _request_scores(self, action: messages.ScoreRequest) -> None:
        self._starts.append(action)

    def _set_timer(self, action: messages.SetTimer) -> None:
        order = EventOrder.of_timer(action.timer)
        self.alarms.append(Alarm(self.clock.now + action.delay_s, order, self._fired(action.timer)))

    def _fired(self, timer: str) -> Handling:
        self.event_log.record(Kind.TIMER_FIRED, detail=timer)
        yield self.tell(messages.TimerFired, timer)

    def _updates(self, action: messages.Collect) -> messages.Collected:
        for task in (tasks := self.tasks.collect(action.tasks)):
            self.clients[task.client].collected(task)
        return self.updates.collect(tasks, self.clock.now)

    def _forget(self, task: TaskRecord) -> None:
        self.updates.forget(task)
