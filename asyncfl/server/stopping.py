"""Conditions at which the server gives up a run: no update arrives any more, or none is usable.

If all clients are offline, the links lose everything or every task exceeds its lease, the run would never end: each
failed task is followed by another. Such a run stops here with the reason.

A run in which every update is malformed stops, too. A buffer without one sound update may contain attackers only, and
is discarded. But if every client sends malformed updates, the model has diverged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

from asyncfl.base.messages import Fate

LEAST_TASKS = 10_000
"""Failed tasks in succession after which a run is given up. If one task in 1000 succeeds, a succession is that long
with probability 5e-5."""
TASKS_PER_CLIENT = 10
"""The same per client of a large federation, so that each client has been asked several times."""

LEAST_REJECTED = 20
"""Rejected updates in succession (or one per client of a larger federation) after which the model counts as diverged
although some clients have sent none."""


class FailedTasks:
    """Counter of the tasks of a run that failed since the last update arrived."""

    def __init__(self, clients: int) -> None:
        self.limit = max(LEAST_TASKS, TASKS_PER_CLIENT * clients)
        self._failed: Counter[Fate] = Counter()

    def arrived(self) -> None:
        """Record that an update arrived for which the server waited."""
        self._failed.clear()

    def ended(self, fate: Fate) -> None:
        """Record that a task ended without an update."""
        self._failed[fate] += 1

    @property
    def why_stop(self) -> str | None:
        """Reason to stop the run; None to go on."""
        if self._failed.total() < self.limit:
            return None
        fates = ", ".join(f"{number} {fate.value}" for fate, number in sorted(self._failed.items()))
        return f"no update reached the server in the last {self._failed.total()} tasks ({fates})"


class RejectedUpdates:
    """Counter of the updates rejected since the last sound one."""

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._in_succession = 0
        self._not_finite = 0
        self._senders: set[int] = set()

    def sound(self) -> None:
        """Record a sound update."""
        self._in_succession = self._not_finite = 0
        self._senders.clear()

    def rejected(self, client: int, *, finite: bool) -> None:
        """Record that an update of `client` was malformed: not finite, or of the wrong length if `finite`."""
        self._in_succession += 1
        self._not_finite += not finite
        self._senders.add(client)

    def why_stop(self, left: AbstractSet[int]) -> str | None:
        """Return the reason why no sound update can be expected; None if one may arrive. `left`: clients that are never
        asked again. Either each client that can still be asked has sent a malformed update since the last sound one, or
        as many updates as there are clients (at least 20) were malformed in succession."""
        all_excluded = len(self._senders | left) == self.clients
        if not (all_excluded or self._in_succession >= max(LEAST_REJECTED, self.clients)):
            return None
        if self._not_finite:
            return f"diverged: the last {self._in_succession} updates were all rejected, {self._not_finite} not finite"
        return f"no update could be used: the last {self._in_succession} were all of the wrong length"
