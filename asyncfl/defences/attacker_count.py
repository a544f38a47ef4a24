"""How many attackers a rule allows for in a buffer, and what it says where that is too many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from asyncfl.component import Described
from asyncfl.errors import Fault
from asyncfl.quantities import MeasuredIn


class AttackerCount(Described):
    """Base of rules that are told (or guess) how many of a buffer's updates are poison, f."""

    byzantine: Literal["auto"] | Annotated[int, Field(ge=0), MeasuredIn("updates")] = "auto"
    """f: updates of a buffer to be taken for poison, >= 0. `auto`: what `expected_share` gives, but no more than the
    rule's theory bears. A larger number is tried anyway, as far as it can be computed, and noted. With pre-aggregation
    it counts rows after it."""
    expected_share: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.2
    """Share of the updates that `byzantine: auto` takes for poison, 0..1."""

    theory: ClassVar[str] = ""
    """What the theory demands, for messages: `n >= 2f + 3`."""

    def max_by_theory(self, n: int) -> int:
        """Largest f that the theory of the rule covers with n updates."""
        raise NotImplementedError

    def max_computable(self, n: int) -> int:
        """Largest f with which the rule can still be computed from n updates."""
        raise NotImplementedError

    def attackers(self, n: int, share: float | None = None, *, lower: bool = False) -> int:
        """f for n updates. `share`: in place of `expected_share`, where pre-aggregation spreads the poison.

        Raises ValueError if `byzantine` is more than can be computed, unless `lower` asks for the largest f that can.
        """
        if self.byzantine == "auto":
            # Half up: Python rounds .5 to even, which would make 2 out of 2.5 and 4 out of 3.5.
            guessed = math.floor((self.expected_share if share is None else share) * n + 0.5 + 1e-9)
            return max(0, min(guessed, self.max_by_theory(n)))
        if self.byzantine > self.max_computable(n) and not lower:
            raise ValueError(self.refusal(n))
        return min(self.byzantine, self.max_computable(n))

    def refusal(self, n: int) -> str:
        """Message for an f that cannot be computed."""
        return (
            f"byzantine must be at most {self.max_computable(n)} with {n} updates in a buffer, got {self.byzantine}; "
            "lower it, write auto, or let the buffer hold more"
        )

    def count_faults(self, n: int) -> Iterator[Fault]:
        """The refusal, if f cannot be computed from n updates."""
        if self._is_too_many(n):
            yield Fault("", self.refusal(n))

    def _is_too_many(self, n: int) -> bool:
        return self.byzantine != "auto" and self.byzantine > self.max_computable(n)

    def lower_to(self, n: int) -> tuple[Self, tuple[str, ...]]:
        """The same with the largest `byzantine` that n updates bear, if it asks for more; notes on that."""
        if not self._is_too_many(n):
            return self, ()
        count = self.attackers(n, lower=True)
        note = f"{type(self).__name__}: byzantine {self.byzantine} lowered to {count} for a buffer of {n}"
        return self.model_copy(update={"byzantine": count}), (note,)

    def count_notes(self, n: int, share: float | None = None) -> list[str]:
        """What to say of f with n updates: beyond the theory, or cut down to it."""
        if self.byzantine != "auto":
            if self.byzantine > self.max_by_theory(n):
                return [f"byzantine {self.byzantine} is beyond the theory ({self.theory}) with {n} updates in a buffer"]
            return []
        expected = math.floor((self.expected_share if share is None else share) * n + 0.5 + 1e-9)
        used = self.attackers(n, share)
        if used < expected:
            return [f"byzantine auto allows for {used} attackers, not {expected}, of {n} updates: {self.theory}"]
        return []
