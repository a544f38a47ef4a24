"""The server's half of a live run without sockets and timers: a server, its clients, and what passes between them."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping

from asyncfl.base import messages
from asyncfl.base.errors import AsyncflError
from asyncfl.federation.action_executor import Steps, Watcher
from asyncfl.federation.event_order import EventOrder
from asyncfl.federation.prepare import Federation
from asyncfl.live.clock import StepClock, Terms
from asyncfl.live.remote_client import RemoteClient
from asyncfl.live.run_context import ClientLink, Handling, RunContext
from asyncfl.live.wire import Begin, Hello, Noted, Over, Welcome
from asyncfl.server import Server
from asyncfl.server.tasks import TaskRecord
from asyncfl.trace import Kind


class RefusedError(AsyncflError):
    """The client is not let in, for this reason."""


class ClientRegistry:
    """The clients of a federation, by number and by name."""

    def __init__(
        self,
        run: RunContext,
        tokens: Mapping[str, str],
        clients: int,
        fewest_samples: int = 1,
        most_samples: int | None = None,
    ) -> None:
        """`tokens`: name -> token of those who may take part, at most `clients`; `fewest_samples`, `most_samples`: of
        each of them, None for no limit."""
        self._run, self.tokens = run, dict(tokens)
        self._clients, self._fewest_samples, self._most_samples = clients, fewest_samples, most_samples
        self.by_number: dict[int, RemoteClient] = {}
        self.by_name: dict[str, RemoteClient] = {}

    def authenticate(self, hello: Hello) -> None:
        """Raise RefusedError unless the client has its token, and is not banned."""
        token = self.tokens.get(hello.name)
        # As long as for a name that is known: who tries does not learn which it was.
        if not hmac.compare_digest((token or "").encode(), hello.token.encode()) or token is None:
            raise RefusedError(f"client {hello.name!r} has no such token")
        client = self.by_name.get(hello.name)
        if client is not None and client.conduct.banned is not None:
            raise RefusedError(f"client {hello.name!r} is banned for this run: {client.conduct.banned}"[:1000])

    def admit(self, hello: Hello) -> RemoteClient:
        """Return the client that introduces itself; numbers are given in the order of admission. Raises RefusedError.

        A client whose name is a free number gets that number.
        """
        if hello.samples < 1:
            raise RefusedError(f"client {hello.name!r} has no samples to train on")
        if hello.samples < self._fewest_samples:
            raise RefusedError(
                f"client {hello.name!r} has {hello.samples} samples, and noise is calibrated to clients of at least "
                f"{self._fewest_samples}; lower data.samples_per_client at the server"
            )
        if self._most_samples is not None and hello.samples > self._most_samples:
            raise RefusedError(
                f"client {hello.name!r} has {hello.samples} samples, and at most {self._most_samples} are allowed; "
                "raise --samples-at-most at the server"
            )
        client = self.by_name.get(hello.name)
        if client is not None:
            if (reason := client.why_refused(hello)) is not None:
                raise RefusedError(reason)
            if client.link is not None and client.instance != hello.instance:
                raise RefusedError(f"client {hello.name!r} is connected already, from {client.link.peer}")
            return client
        free = [number for number in range(self._clients) if number not in self.by_number]
        if not free:
            raise RefusedError(f"all {self._clients} clients of the federation are there already")
        wanted = int(hello.name) if hello.name.isdigit() else -1
        number = wanted if wanted in free else free[0]
        client = RemoteClient(self._run, number, hello.name, hello.samples)
        self.by_number[number] = self.by_name[hello.name] = client
        return client

    @property
    def prepared(self) -> list[RemoteClient]:
        """Clients that can be given tasks as soon as they are online, by number."""
        return [client for _, client in sorted(self.by_number.items()) if client.is_prepared]

    @property
    def renewed(self) -> list[int]:
        """Numbers of clients that came back as another process: what the one before had kept is gone."""
        return sorted(client.number for client in self.by_number.values() if client.has_forgotten)


class LiveFederation(RunContext):
    """Executes a server's actions with clients of a live run. Whoever drives it (`inputs`, `host`):

    - hands it connections (`connect`) and their ends and messages (`RemoteClient.disconnect`, `RemoteClient.receive`);
    - carries out each handling (`carry_out`): of messages, and before these all in `later`;
    - calls `ring` when the time of an alarm has come.
    """

    def __init__(
        self,
        federation: Federation,
        server: Server,
        clock: StepClock,
        terms: Terms,
        tokens: Mapping[str, str],
        *,
        fewest_samples: int = 1,
        most_samples: int | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """`tokens`, `fewest_samples`, `most_samples`: see `ClientRegistry`."""
        super().__init__(federation, server, clock, terms, watcher)
        clients = federation.resolved.scenario.data.clients
        self.clients = ClientRegistry(self, tokens, clients, fewest_samples, most_samples)
        self.welcome = _welcome_of(federation, terms)
        """Welcome of every client, without its own number, time and tasks."""
        self._starts: list[TaskRecord | messages.RequestScores] = []
        self.times_killed = 0
        """Times that another process of the server went on with the run."""
        self.away_s = 0.0
        """Real seconds without a process of the server."""

    @property
    def in_flight(self) -> int:
        """Number of tasks that clients are at."""
        return sum(client.task is not None for client in self.clients.by_number.values())

    def observe(self, client: int, number: int, event: Noted) -> None:
        """See `RemoteClient.observe`, for clients in this process."""
        if client in self.clients.by_number:
            self.clients.by_number[client].observe(number, event)

    # --- connections and the course of a run -----------------------------------------------------------------------

    def connect(self, hello: Hello, link: ClientLink, now_s: float | None = None) -> RemoteClient:
        """Let a client in that has its token. Raises RefusedError. `now_s`: of the clock; None for the last step's."""
        client = self.clients.admit(hello)
        client.connect(hello, link, self.welcome, self.clock.now if now_s is None else now_s)
        return client

    def stopping(self, reason: str) -> Handling:
        """Stop the run."""
        yield self.server.stop(reason)

    def beginning(self) -> Handling:
        """Begin the run with the clients that are prepared. The first tasks come with `starting`."""
        self.later.clear()
        for client in self.clients.prepared:
            client.say(Begin())
            if not self.server.plan.all_present:
                yield self.server.handle(messages.ClientJoined(0.0, client.number, client.samples))
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
            if self.stopped is not None:
                return
            starts, self._starts = self._starts, []
            for one in starts:
                client = self.clients.by_number[one.client]
                if isinstance(one, TaskRecord):
                    client.send_task(one)
                else:
                    client.ask(one)

    # --- actions of the server -------------------------------------------------------------------------------------

    def _dispatch(self, action: messages.Dispatch) -> messages.ClientGone | None:
        client, task = self.clients.by_number.get(action.client), self.tasks.open[action.task]
        if client is None:
            self.event_log.record(Kind.WENT_OFFLINE, client=action.client)
        if client is None or not client.begin(task):
            return messages.ClientGone(self.clock.now, action.client, action.task, None)
        if self.attackers is not None:
            self.attackers.begin(task.number, task.client, task.turn)
        self._starts.append(task)
        return None

    def _begun(self) -> None:
        if self.attackers is not None:
            self.attackers.draw()

    def _request_scores(self, action: messages.RequestScores) -> None:
        self._starts.append(action)

    def _set_timer(self, action: messages.SetTimer) -> None:
        order = EventOrder.of_timer(action.timer)
        self.set_alarm(self.clock.now + action.delay_s, order, self._fired, action.timer)

    def _fired(self, timer: str) -> Handling:
        self.event_log.record(Kind.TIMER_FIRED, detail=timer)
        yield self.tell(messages.TimerFired, timer)

    def _updates(self, action: messages.Collect) -> messages.Collected:
        for task in (tasks := self.tasks.collect(action.tasks)):
            self.clients.by_number[task.client].collected(task)
        return self.updates.collect(tasks, self.clock.now)

    def _forget(self, task: TaskRecord) -> None:
        self.updates.forget(task)

    def _settled(self, action: messages.Settle) -> None:
        task = self.tasks.settled.get(action.task)
        super()._settled(action)
        if action.fate is messages.Fate.REJECTED and task is not None and not self.terms.virtual:
            self.clients.by_number[task.client].refuse(f"the update of task {task.number} is {action.detail}")


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
        gone=(),
    )
