"""The reports that a client can give of a task, or of a request for scores, as state machines.

    state       next event            next state
    download    downloaded            ready
    ready       training_started      training
    training    trained               trained
    trained     upload_started        upload
    upload      uploaded              over

    models      sent (down)           scores
    scores      sent (up)             over

A report begins with `download` or `models` and may end in any state, since a client that breaks off tells how far it
came. A task may be `lost` in its messages, and `dropped_out` or `went_offline` in every state: then it is over. Beside
these come, without a change of state, `budget_spent` (upload), and where the scenario's world shapes the run what
happens to a message on its way: transmissions in their order, and once each that the tap has it in part and as a whole.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from asyncfl.base.errors import MessageError
from asyncfl.extras.live.client_messages import SENT, ClientEvent, Report
from asyncfl.protocol.events import CAUGHT, NO_EPOCH, SCORING_DOWN, SCORING_UP, Kind, epochs_detail
from asyncfl.scenario import Scenario
from asyncfl.simulation.phases import BYTES_PER_SCORE, Workload


class EventRule(NamedTuple):
    """What a report may say of one event."""

    then: str
    """State after the event; the same state: it comes once, a retransmission once for each transmission."""
    details: frozenset[str] | None = frozenset([""])
    """Details that it may have; None: any."""
    payload_bytes: int = 0
    """Bytes of the message that it tells of; with each transmission at most as many again."""
    transmissions: int = -1
    """Most transmissions; -1: it tells of no message."""


Rules: TypeAlias = dict[str, dict[str, EventRule]]
"""State -> kind of the next event -> rule."""


class ReportRules:
    """The rules of one run: what its clients can do, and what its links and its model bound."""

    def __init__(self, scenario: Scenario, load: Workload, *, shape: bool) -> None:
        """`shape`: whether clients wait as the scenario's world says; otherwise nobody sees a message on its way."""
        self._load, self._shape = load, shape
        links = scenario.world.downlink, scenario.world.uplink
        self._down, self._up = (1 + link.retransmissions if shape else 1 for link in links)
        epochs = scenario.training.epochs
        stopped = (
            [] if scenario.training.deadline_s is None else [epochs_detail(done, epochs) for done in range(1, epochs)]
        )
        self._trained = EventRule("trained", frozenset(["", *stopped]))

    def check_task(self, report: Report, upload_bytes: int = 0) -> None:
        """Raise MessageError for a report that no client can give of a task.

        `upload_bytes`: of the update that came with it, which may be longer than the scenario's.
        """
        load = self._load
        up_bytes = max(load.upload_bytes, upload_bytes)
        down, up = (load.download_bytes, self._down), (up_bytes, self._up)
        lost = frozenset(["down", "up"])  # where a client answers all at once, nothing is known before a lost answer
        rules: Rules = {
            "download": {
                Kind.DOWNLOADED: EventRule("ready", frozenset(["", "down"]), *down),
                Kind.LOST: EventRule("over", lost, *down),
                **self._on_its_way("download", "down", *down),
                **_broken_off(*down),
            },
            "ready": {Kind.TRAINING_STARTED: EventRule("training"), **_broken_off()},
            "training": {Kind.TRAINED: self._trained, **_broken_off()},
            "trained": {Kind.UPLOAD_STARTED: EventRule("upload", payload_bytes=up_bytes), **_broken_off()},
            "upload": {
                Kind.UPLOADED: EventRule("over", frozenset(["", "up"]), *up),
                Kind.LOST: EventRule("over", frozenset(["up"]), *up),
                Kind.BUDGET_SPENT: EventRule("upload", None),
                **self._on_its_way("upload", "up", *up),
                **_broken_off(*up),
            },
        }
        _check(report, rules, "download")

    def check_request(self, report: Report, models: int) -> None:
        """Raise MessageError for a report that no client can give of a request to score so many models."""
        down = models * self._load.payload_bytes, self._down
        up = models * BYTES_PER_SCORE, self._up
        rules: Rules = {"models": {}, "scores": {}}
        if self._shape:
            rules = {
                "models": {
                    SENT: EventRule("scores", frozenset(["down"]), *down),
                    **self._on_its_way("models", SCORING_DOWN, *down),
                },
                "scores": {
                    SENT: EventRule("over", frozenset(["up"]), *up),
                    **self._on_its_way("scores", SCORING_UP, *up),
                },
            }
        _check(report, rules, "models")

    def _on_its_way(self, state: str, detail: str, payload_bytes: int, transmissions: int) -> dict[str, EventRule]:
        """Return the rules of what happens to a message on its way."""
        if not self._shape:
            return {}
        details = frozenset([detail])
        again = EventRule(state, details, payload_bytes, transmissions)
        return {Kind.RETRANSMITTED: again, **dict.fromkeys(CAUGHT, EventRule(state, details))}


def _broken_off(payload_bytes: int = 0, transmissions: int = -1) -> dict[str, EventRule]:
    """Return the rules of the ends of a task that its client does not finish."""
    reasons = frozenset(["", "down", "up", "app", NO_EPOCH])
    return {
        Kind.DROPPED_OUT: EventRule("over", reasons, payload_bytes, transmissions),
        Kind.WENT_OFFLINE: EventRule("over", frozenset([""]), payload_bytes, transmissions),
    }


def _check(report: Report, rules: Rules, state: str) -> None:
    """Raise MessageError where a report, which begins in `state`, breaks the rules."""
    after_s, sent, seen = 0.0, 1, set[str]()
    for one in report:
        allowed = rules.get(state, {})
        rule = allowed.get(one.kind)
        if rule is None:
            raise MessageError(f"a report tells of {', '.join(allowed) or 'nothing more'} here, got {one.kind!r}")
        if not one.after_s >= after_s:
            raise MessageError(f"a report is in the order of time, got {one.after_s:g} s after {after_s:g} s")
        after_s = one.after_s
        if rule.details is not None and one.detail not in rule.details:
            wanted = " or ".join(map(repr, sorted(rule.details)[:4]))
            raise MessageError(f"the detail of {one.kind!r} must be {wanted}, got {one.detail[:100]!r}")
        if rule.then != state:
            state, sent, seen = rule.then, 1, set()
        elif one.kind == Kind.RETRANSMITTED:
            sent += 1
            if one.attempt != sent:
                raise MessageError(f"a message is sent again as attempt {sent}, got {one.attempt}")
        elif one.kind in seen:
            raise MessageError(f"a report tells of {one.kind!r} once, got it again")
        seen.add(one.kind)
        _check_numbers(one, rule)


def _check_numbers(one: ClientEvent, rule: EventRule) -> None:
    """Raise MessageError for more transmissions or bytes than the message can have had."""
    if not -1 <= one.attempt <= rule.transmissions:
        raise MessageError(f"the attempt of {one.kind!r} must be -1..{rule.transmissions}, got {one.attempt}")
    times = 1 if one.kind == Kind.RETRANSMITTED else one.attempt if one.attempt > 0 else max(1, rule.transmissions)
    most = rule.payload_bytes * times if rule.payload_bytes else -1
    if not -1 <= one.size <= most:
        raise MessageError(f"the bytes of {one.kind!r} must be -1..{most}, got {one.size}")
    if one.kind == SENT and one.size < 0:
        raise MessageError("a client tells how many bytes it sent, got none")
