"""What clients say, and what follows from it for the server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from asyncfl.base.errors import MessageError
from asyncfl.base.messages import Action, BudgetSpent, ClientGone, ClientJoined, Fate, UpdateArrived, Vector
from asyncfl.live.members import Member
from asyncfl.live.payloads import Payload
from asyncfl.live.vocabulary import Begin, FromClient, Gone, Leaving, Ready, Report, Scores, Spent, Trace, Update
from asyncfl.live.wire import WireError
from asyncfl.trace import Kind

if TYPE_CHECKING:
    from asyncfl.live.host import Host

log = logging.getLogger("asyncfl.live")


class Hearing:
    """Takes in what the clients of one run say, one message after another."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def hear(self, member: Member, said: FromClient, models: Vector, arrived_s: float) -> list[Action]:
        """What the server asks for in answer. Raises MessageError and WireError for what cannot be true."""
        match said:
            case Ready():
                return self._prepared(member, said)
            case Update() | Gone():
                return self._answered(member, said, models, arrived_s)
            case Scores():
                return self._host.questions.scored(member, said)
            case Spent():
                return self.spend(member, said.detail)
            case Leaving():
                log.info("client %s leaves", member.name)
                member.ready = member.online = False
                return self._host.presence.left(member)
            case Trace():
                member.left.append(said.task)
                self._place(member, said.task, said.report)
                return []
        raise WireError(f"a client does not say {type(said).__name__} here")

    def _prepared(self, member: Member, said: Ready) -> list[Action]:
        host = self._host
        member.ready, member.online, member.spent = True, said.online, said.spent
        host.someone_ready.set()
        if host.clock.has_begun:
            # It was let in before the run began, and got ready while it did.
            member.say(Begin(host.clock.now))
        if not host.server.validator.is_started or host.server.validator.takes_part(member.number):
            return []
        host.presence.came_online(member)
        actions = host.server.handle(ClientJoined(host.clock.now, member.number, member.samples))
        return actions if said.spent is None else [*actions, *self.spend(member, said.spent)]

    def _answered(self, member: Member, said: Update | Gone, models: Vector, arrived_s: float) -> list[Action]:
        host, task = self._host, member.task
        whose = host.server.validator.sender_of(said.task)
        if whose is not None and whose != member.number:
            raise MessageError(f"task {said.task} is client {whose}'s, got an answer of {member.number}")
        if isinstance(said, Update) and len(models) != 1:
            raise WireError(f"an update comes with its model, got {len(models)}")
        if isinstance(said, Gone) and said.fate not in (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT):
            raise WireError(f"a task of a client does not end {said.fate!r}")
        if host.stopped is not None:
            self._place(member, said.task, said.report, arrived_s)
            return []
        if whose is None or task is None or task.number != said.task:
            # Given up meanwhile: the client is told by what it is given next.
            if said.task >= host.server.tasks.begun or task is not None:
                raise MessageError(f"task {said.task} is not one that client {member.number} is at")
            return []
        if isinstance(said, Update):
            host.payloads.check(said, task)
        # What was feared when its connection ended is known now.
        task.trained = False
        host.reports.place(member, said.task, said.report, arrived_s)
        if isinstance(said, Gone):
            # A shaped client knows beforehand that nothing comes of it, and trains for its own layers alone.
            vain = host.federation.path.every_task or not host.terms.shape
            task.trained = vain and (task.trained or said.fate == Fate.LOST_UP)
        if task.number not in host.tasks:
            host.payloads.lost(task)
        member.task = None
        if isinstance(said, Update):
            if not host.terms.shape:
                host.traffic.count(host.payloads.size_of(models[0]), "up")
                host.reports.count_tapped(member, task, "up")
            host.trained += 1
            task.epochs = said.epochs
            if task.number in host.tasks:
                host.payloads.keep(Payload(said, host.payloads.read(models[0], task), task))
            actions = host.server.handle(UpdateArrived(host.clock.now, task.number))
        else:
            actions = host.server.handle(ClientGone(host.clock.now, member.number, task.number, Fate(said.fate)))
            host.then(lambda: host.idle(member))
        host.questions.ask_held(member)
        return actions

    def _place(self, member: Member, number: int, report: Report, arrived_s: float | None = None) -> None:
        """Put what a client tells of into the trace, and what it has trained in vain on record."""
        self._host.reports.place(member, number, report, arrived_s)
        if (task := member.task) is not None and task.number == number and number not in self._host.tasks:
            self._host.payloads.lost(task)

    def spend(self, member: Member, detail: str) -> list[Action]:
        """A client has spent its budget, and told so."""
        if member.number in self._host.spent:
            return []
        member.spent = detail
        self._host.spent[member.number] = self._host.clock.now
        if member.task is None:
            # Else it is in the report of the task.
            self._host.event_log.record(Kind.BUDGET_SPENT, client=member.number, detail=detail)
        return self._host.server.handle(BudgetSpent(self._host.clock.now, member.number))
