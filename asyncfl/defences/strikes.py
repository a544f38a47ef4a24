"""Strikes: bans a client after too many of its judged updates were flagged.

A detector judges single updates and is sometimes wrong; a ban is permanent. Strikes connect the two. SAFL (algorithm 4,
its th) bans at `threshold` strikes without a time limit (`window: null`). With 2 strikes
within the client's last 3 judged updates a single false flag is forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from asyncfl.base.arrays import Bools, Ints
from asyncfl.base.component import Component
from asyncfl.base.quantities import MeasuredIn


@dataclass(frozen=True)
class StrikeState:
    """Strikes of all clients."""

    history: Bools
    """(clients, window) strikes of the last judged updates, the newest first; (clients, 0) without a window."""
    total: Ints  # (clients,) strikes since the start
    banned: Bools  # (clients,) whether the client is banned


class Strikes(Component):
    """Bans a client at `threshold` strikes within its last `window` judged updates."""

    kind: Literal["strikes"] = "strikes"
    threshold: Annotated[int, Field(ge=1), MeasuredIn("strikes")] = 2
    """Number of strikes that leads to a ban. Source: SAFL, algorithm 4."""
    window: Annotated[int, Field(ge=1, le=1_000_000), MeasuredIn("updates")] | None = None
    """Number of a client's last judged updates that count; null: all."""

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.window is not None and self.window < self.threshold:
            raise ValueError(
                f"window must be >= threshold ({self.threshold}) or null, got {self.window}; no client could be banned"
            )
        return self

    def start(self, clients: int) -> StrikeState:
        none = np.zeros(clients, dtype=bool)
        return StrikeState(np.zeros((clients, self.window or 0), dtype=bool), none.astype(np.int64), none)

    def step(
        self, state: StrikeState, clients: Sequence[int] | Ints, struck: Sequence[bool] | Bools
    ) -> tuple[tuple[int, ...], StrikeState]:
        """Return the clients that are newly banned, in the order in which they reached `threshold`, and the next state.
        `clients`: (n,) senders of the judged updates in order of arrival; a client may occur several times. `struck`:
        (n,) whether the update is a strike. Updates of banned clients are ignored."""
        history, total, banned = state.history.copy(), state.total.copy(), state.banned.copy()
        out = []
        for client, strike in zip(map(int, clients), map(bool, struck), strict=True):
            if banned[client]:
                continue
            total[client] += strike
            if self.window is not None:
                history[client, 1:] = history[client, :-1]
                history[client, 0] = strike
            # Only a new strike can lead to a ban.
            count = total[client] if self.window is None else history[client].sum()
            if strike and count >= self.threshold:
                banned[client] = True
                out.append(client)
        return tuple(out), StrikeState(history, total, banned)
