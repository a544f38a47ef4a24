"""How long a server goes on asking where nothing ever comes back, or nothing that is of any use.

A run whose clients are all offline, whose links lose everything or whose tasks all take longer than the server waits
would go on for ever: each task that comes to nothing is followed by another. It ends here, with the reason.

So does a run in which every update is malformed. A buffer without one sound update may hold attackers only, and is
discarded; where nobody at all sends anything sound, it is the model that has diverged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

from asyncfl.messages import Fate

LEAST_TASKS = 10_000
"""Tasks in succession that must come to nothing before a run is given up: where one in a thousand succeeds, 5 in
100,000 such successions are that long."""
TASKS_PER_CLIENT = 10
"""The same per client of the federation: each of them has been asked several times before all are given up."""

LEAST_REJECTED = 20
"""Updates that must be rejected in succession, or one per client of a larger federation, to take a model for diverged
while some clients have not been heard."""


class FailedTasks:
    """Counts the tasks of a run that came to nothing since the last one that did not."""

    def __init__(self, clients: int) -> None:
        self.limit = max(LEAST_TASKS, TASKS_PER_CLIENT * clients)
        self._in_vain: Counter[Fate] = Counter()

    def arrived(self) -> None:
        """An update has come that the server waited for."""
        self._in_vain.clear()

    def ended(self, fate: Fate) -> None:
        """A task has ended without an update."""
        self._in_vain[fate] += 1

    @property
    def why_stop(self) -> str | None:
        """Why it is no use to go on; None: it may be."""
        if self._in_vain.total() < self.limit:
            return None
        fates = ", ".join(f"{number} {fate.value}" for fate, number in sorted(self._in_vain.items()))
        return f"no update reached the server in the last {self._in_vain.total()} tasks ({fates})"


class RejectedUpdates:
    """Counts the updates that were rejected since the last sound one."""

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._in_succession = 0
        self._not_finite = 0
        self._senders: set[int] = set()

    def sound(self) -> None:
        """An update was as it should be."""
        self._in_succession = self._not_finite = 0
        self._senders.clear()

    def rejected(self, client: int, *, finite: bool) -> None:
        """An update of `client` was not finite, or else of the wrong length."""
        self._in_succession += 1
        self._not_finite += not finite
        self._senders.add(client)

    def why_stop(self, left: AbstractSet[int]) -> str | None:
        """Why no sound update is to be expected any more; None: one may come. `left`: clients that are asked no more.

        Each client that is still asked has sent something malformed, or as many updates as there are clients (20 at
        least) were malformed one after the other.
        """
        everybody = len(self._senders | left) == self.clients
        if not (everybody or self._in_succession >= max(LEAST_REJECTED, self.clients)):
            return None
        if self._not_finite:
            return f"diverged: the last {self._in_succession} updates were all rejected, {self._not_finite} not finite"
        return f"no update could be used: the last {self._in_succession} were all of the wrong length"
