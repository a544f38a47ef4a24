"""Models that clients are asked to score, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asyncfl.base.messages import Action, RequestScores, ScoresArrived
from asyncfl.live.members import Member
from asyncfl.live.vocabulary import Judge, Scores
from asyncfl.trace import Kind
from asyncfl.trace.events import SCORING_DOWN, SCORING_UP
from asyncfl.trace.scoring_requests import NO_ANSWER, TOO_LATE

if TYPE_CHECKING:
    from asyncfl.live.host import Host


class Questions:
    """Requests for scores of one run."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def ask(self, action: RequestScores) -> None:
        """Have a client score models: at once, or when its task is over."""
        number = len(action.models)
        size = number * self._host.load.payload_bytes
        self._host.event_log.record(Kind.SCORES_REQUESTED, client=action.client, detail=f"{number} models", size=size)
        member = self._host.members.by_number[action.client]
        member.held = action
        if not (self._host.serial and member.online and member.task is not None):
            self.ask_held(member)

    def ask_held(self, member: Member) -> None:
        """Ask what waited for the end of the client's task, if anything does."""
        action, member.held = member.held, None
        if action is None:
            return
        member.request = action
        if member.spent is not None or not member.online:
            # As with tasks, the server does not know who is away; nothing is sent to who cannot be reached.
            self._host.tell(lambda: self.no_answer(member, action))
            return
        member.asked_s = self._host.clock.now
        if member.at_s is None:
            member.at_s = member.asked_s
        number, version, turn = member.last
        attacks = self._host.attackers is not None and self._host.attackers.malicious(number, member.number)
        member.say(
            Judge(action.request, member.requests, number, version, turn, attacks=attacks), np.asarray(action.models)
        )
        member.requests += 1
        if not self._host.terms.shape:
            self._host.traffic.count(action.models.nbytes, "down")
            self._host.reports.count_tapped(member, None, SCORING_DOWN)

    def no_answer(self, member: Member, action: RequestScores | None = None) -> list[Action]:
        """There will be no answer to what the client was asked, or to `action` where that is what it was."""
        asked = member.request
        if asked is None or self._host.stopped is not None or (action is not None and asked is not action):
            return []
        return self._score(member, asked, None)

    def scored(self, member: Member, said: Scores) -> list[Action]:
        """The client has answered."""
        asked = member.request
        self._host.reports.place(member, -1, said.report)
        scores = None if said.scores is None else np.array(said.scores, dtype=np.float64)
        if scores is not None:
            self._host.reports.count_tapped(member, None, SCORING_UP)
        if asked is None or asked.request != said.request:
            # The server no longer waits for these scores, but it has them.
            if scores is not None:
                detail = f"{len(scores)} models, {TOO_LATE}"
                self._host.event_log.record(Kind.SCORED, client=member.number, detail=detail)
            return []
        return self._score(member, asked, scores)

    def _score(
        self, member: Member, asked: RequestScores, scores: np.ndarray[tuple[int], np.dtype[np.float64]] | None
    ) -> list[Action]:
        message = ScoresArrived(self._host.clock.now, asked.request, scores)
        self._host.server.validator.check(message)
        detail = f"{len(asked.models)} models" if scores is not None else NO_ANSWER
        self._host.event_log.record(Kind.SCORED, client=member.number, detail=detail)
        member.request = None
        return self._host.server.handle(message)
