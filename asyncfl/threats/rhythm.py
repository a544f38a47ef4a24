"""Sleeping attackers: honest in some tasks and malicious in others, periodically."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn


class Rhythm(Described):
    """Each attacker is honest for `asleep` of its tasks, then attacks with `awake` tasks, and so on."""

    asleep: Annotated[int, Field(ge=1, examples=[3]), MeasuredIn("tasks")]
    """Honest tasks at the beginning of each period, >= 1."""
    awake: Annotated[int, Field(ge=1), MeasuredIn("tasks")] = 1
    """Attacking tasks that follow, >= 1."""

    def attacks(self, turn: int) -> bool:
        """Return whether an attacker attacks in its task number `turn` (0, 1, ...)."""
        return turn % (self.asleep + self.awake) >= self.asleep
