"""The server's half of a live run without sockets and timers: a server, its clients, and what passes between them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from asyncfl.base.messages import (
    ClientGone,
    ClientJoined,
    Collect,
    Collected,
    Dispatch,
    RequestScores,
    SetTimer,
    TimerFired,
)
from asyncfl.federation.action_executor import ActionExecutor, Steps, Watcher
from asyncfl.federation.prepare import Federation
from asyncfl.live.admission import ClientRegistry
from asyncfl.live.clock import LiveClock, Terms
from asyncfl.live.remote_client import Handling, Link, RemoteClient, RunContext
from asyncfl.live.reports import LiveEventLog
from asyncfl.live.vocabulary import Begin, Hello, Over, Welcome
from asyncfl.server import Server
from asyncfl.server.tasks import TaskRecord
from asyncfl.trace import Kind


class LiveFederation(ActionExecutor):
    """Executes a server's actions with clients of a live run. Whoever drives it (`host`):

    - hands it connections (`connect`, `disconnect`) and the clients' messages (`RemoteClient.receive`);
    - carries out each handling (`carry_out`): of messages, and before these all in `context.later`;
    - takes what is in `context.alarms`, and puts it into `context.later` when its time has come.
    """

    event_log: LiveEventLog

    def __init__(
        self,
        federation: Federation,
        server: Server,
        clock: LiveClock,
        terms: Terms,
        tokens: Mapping[str, str],
        *,
        fewest_samples: int = 1,
        watcher: Watcher | None = None,
    ) -> None:
        """`tokens`: see `ClientRegistry`."""
        self.context = context = RunContext(federation, server, clock, terms)
        super().__init__(server, context.event_log, watcher=watcher)
        self.federation, self.clock = federation, clock
        self.traffic = context.traffic
        clients = federation.resolved.scenario.data.clients
        self.clients = ClientRegistry(context, tokens, clients, federation.learner.n_parameters, fewest_samples)
        self._welcome = _welcome_of(federation, terms)
        self._starts: list[TaskRecord | RequestScores] = []

    @property
    def stopped(self) -> str | None:
        """Reason why the run ended; None while it runs."""
        return self.context.stopped

    @stopped.setter
    def stopped(self, reason: str | None) -> None:
        self.context.stopped = reason

    @property
    def in_flight(self) -> int:
        """Tasks that clients are at."""
        return sum(client.task is not None for client in self.clients.by_number.values())

    def observe(self, client: int, number: int, kind: str, size: int, attempt: int, detail: str) -> None:
        """See `RemoteClient.observe`, for clients in this process."""
        if client in self.clients.by_number:
            self.clients.by_number[client].observe(number, kind, size, attempt, detail)

    # --- connections and the course of a run -----------------------------------------------------------------------

    def connect(self, hello: Hello, link: Link) -> RemoteClient:
        """Let a client in on a connection. Raises RefusedError."""
        client = self.clients.admit(hello)
        client.connect(hello, link, self._welcome)
        return client

    def disconnect(self, client: RemoteClient, link: Link) -> None:
        """Record that a client's connection has ended."""
        client.disconnect(link)

    def stopping(self, reason: str) -> Handling:
        """Stop the run."""
        yield self.server.stop(reason)

    def beginning(self) -> Handling:
        """Begin the run with the clients that are prepared. The first tasks come with `starting`."""
        self.context.later.clear()
        for client in self.clients.prepared:
            client.say(Begin())
            if not self.server.plan.all_present:
                yield self.server.handle(ClientJoined(0.0, client.number, client.samples))
        for client in self.clients.prepared:
            if client.spent is not None:
                yield client.spend(client.spent)

    def starting(self) -> Handling:
        """Start the server."""
        yield self.server.start(self.clock.now)

    def say_goodbye(self) -> None:
        """Tell all clients that the run is over."""
        for client in self.clients.by_number.values():
            client.say(Over(str(self.stopped)[:1000]))

    def carry_out(self, handling: Handling) -> Steps:
        """Carry out the actions of a handling, then send what they started."""
        for actions in handling:
            yield from self._carry_out(actions)
            starts, self._starts = self._starts, []
            for one in starts if self.stopped is None else ():
                client = self.clients.by_number[one.client]
                if isinstance(one, TaskRecord):
                    client.send_task(one)
                else:
                    client.ask(one)
            if self.event_log.is_full:
                since_s = [client.unreported_since_s for client in self.clients.by_number.values()]
                self.event_log.flush(min([self.clock.now, *since_s]))

    # --- actions of the server -------------------------------------------------------------------------------------

    def _dispatch(self, action: Dispatch) -> ClientGone | None:
        client, task = self.clients.by_number.get(action.client), self.tasks.open[action.task]
        if client is None:
            self.event_log.record(Kind.WENT_OFFLINE, client=action.client)
        if client is None or not client.begin(task):
            return ClientGone(self.clock.now, action.client, action.task, None)
        if self.context.attackers is not None:
            self.context.attackers.begin(task.number, task.client, task.turn)
        self._starts.append(task)
        return None

    def _begun(self) -> None:
        if self.context.attackers is not None:
            self.context.attackers.draw()

    def _request_scores(self, action: RequestScores) -> None:
        self._starts.append(action)

    def _set_timer(self, action: SetTimer) -> None:
        self.context.alarms.append((self.clock.now + action.delay_s, self._fired(action.timer)))

    def _fired(self, timer: str) -> Handling:
        if self.stopped is None:
            self.event_log.record(Kind.TIMER_FIRED, detail=timer)
            yield self.server.handle(TimerFired(self.clock.now, timer))

    def _updates(self, action: Collect) -> Collected:
        for task in (tasks := self.tasks.collect(action.tasks)):
            self.clients.by_number[task.client].last = (task.number, task.base_version, task.turn)
        return self.context.updates.collect(tasks, self.clock.now)

    def _forget(self, task: TaskRecord) -> None:
        self.context.updates.forget(task)


def _welcome_of(federation: Federation, terms: Terms) -> Welcome:
    """Return the welcome of every client, without its own number, time and tasks."""
    resolved, context = federation.resolved, federation.path.context
    return Welcome(
        client=0,
        run=secrets.token_hex(8),
        scenario=resolved.scenario.to_yaml(),
        seed=resolved.seed,
        clients=resolved.scenario.data.clients,
        smallest_samples=context.smallest_samples,
        exposures=resolved.exposures,
        shape=terms.shape,
        speedup=terms.speedup,
        now_s=-1.0,
        heartbeat_s=terms.heartbeat_s,
        gone=(),
    )
