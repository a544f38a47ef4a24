"""How long a server goes on asking where nothing ever comes back.

A run whose clients are all offline, whose links lose everything or whose tasks all take longer than the server waits
would go on for ever: each task that comes to nothing is followed by another. It ends here, with the reason.
"""

from __future__ import annotations

from collections import Counter

from asyncfl.messages import Fate

LEAST_TASKS = 10_000
"""Tasks in succession that must come to nothing before a run is given up: where one in a thousand succeeds, 5 in
100,000 such successions are that long."""
TASKS_PER_CLIENT = 10
"""The same per client of the federation: each of them has been asked several times before all are given up."""


class Patience:
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
