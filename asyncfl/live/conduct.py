"""Limits on the conduct of one enrolled client, so that no client spends what belongs to all.

    conduct of the client                       consequence
    a message that cannot be true               it is refused; after `REFUSALS` the client is banned for the run
    an update that is rejected                  the same
    tasks in a row that end without an update   from the fourth on a pause before the next, twice as long each time
    as many as `AT_ONCE`, each within a second  the client is banned for the run
    messages and connections without effect     `BURST` at once, then one each second; more are refused

Times are real seconds of the run's clock. In a run that a world shapes, tasks end as the world decides: no pauses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from asyncfl.base.errors import MessageError
from asyncfl.server.protocol import Protocol

REFUSALS = 10
"""Refused messages and rejected updates after which a client is banned."""
IN_VAIN = 3
"""Tasks in a row that may end without an update before pauses begin."""
LONGEST_PAUSE_S = 60.0
AT_ONCE = 50
"""Tasks in a row that end without an update within `AT_ONCE_S` after which a client is banned."""
AT_ONCE_S = 1.0
BURST, PER_SECOND = 100.0, 1.0
"""Messages and connections without effect that are taken at once, and for each second."""
MOST_SAMPLES = 10
"""Samples that an unknown client may bring, as a multiple of those of the scenario's largest client."""


def with_share(protocol: Protocol, at_least: int = 1) -> Protocol:
    """Return the protocol of a server whose clients it does not know: none enters more of a buffer than twice what
    each of `at_least` clients would by turns, nor than half of it, if the protocol does not say another share."""
    updates = protocol.opening.updates
    if protocol.per_client is not None or updates is None:
        return protocol
    share = min(math.ceil(updates / 2), math.ceil(2 * updates / at_least))
    return protocol.model_copy(update={"per_client": share})


@dataclass
class ClientConduct:
    """The conduct of one client in one run."""

    refusals: int = 0
    banned: str | None = None
    """Why it is banned for the run; None: it is not."""
    in_vain: int = 0
    """Tasks since its last update."""
    at_once: int = 0
    """Those of them that ended within `AT_ONCE_S`, in a row."""
    rests_until_s: float = 0.0
    """Time before which it is given no task."""
    _credit: float = BURST
    _counted_s: float = 0.0

    def refuse(self, reason: str) -> None:
        """Count a refusal."""
        self.refusals += 1
        if self.refusals >= REFUSALS and self.banned is None:
            self.banned = f"refused {self.refusals} times, the last time because {reason}"

    def end_in_vain(self, took_s: float, now_s: float, *, pauses: bool) -> None:
        """Count a task that ended without an update. `pauses`: whether the client must pause then."""
        self.in_vain += 1
        self.at_once = self.at_once + 1 if took_s < AT_ONCE_S else 0
        if self.at_once >= AT_ONCE and self.banned is None:
            self.banned = f"{self.at_once} tasks in a row ended at once, without an update"
        if pauses and self.in_vain > IN_VAIN:
            self.rests_until_s = now_s + min(2.0 ** min(self.in_vain - IN_VAIN - 1, 10), LONGEST_PAUSE_S)

    def send_update(self) -> None:
        """Count an update that arrived."""
        self.in_vain = self.at_once = 0

    def act_without_effect(self, now_s: float) -> None:
        """Count a message or a connection that changes nothing. Raises MessageError for too many."""
        self._credit = min(BURST, self._credit + PER_SECOND * (now_s - self._counted_s)) - 1
        self._counted_s = now_s
        if self._credit < 0:
            raise MessageError(
                f"a client may send {BURST:.0f} messages without effect at once and {PER_SECOND:.0f} a second, got more"
            )
