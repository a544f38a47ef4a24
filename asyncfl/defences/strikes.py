"""Strikes: bans a client whose last judged updates were flagged too often.

A detector judges updates and is at times wrong; a ban judges a client and is for ever. Between the two stands this
count. SAFL (algorithm 4, its th) bans at `threshold` strikes however long they lie apart (`window: null`); the spectral
detector at 2 within the client's last 3 judged updates, so that one honest slip is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from asyncfl.component import Component
from asyncfl.quantities import MeasuredIn


@dataclass(frozen=True)
class StrikeState:
    """What is remembered of each client."""

    history: NDArray[np.bool_]
    """(clients, window) strikes of the last judged updates, the newest first; (clients, 0) without a window."""
    total: NDArray[np.int64]
    """(clients,) strikes since the start."""
    judged: NDArray[np.int64]
    """(clients,) judged updates since the start."""
    banned: NDArray[np.bool_]
    """(clients,) who has been banned."""


class Strikes(Component):
    """Bans a client at `threshold` strikes within its last `window` judged updates."""

    kind: Literal["strikes"] = "strikes"
    threshold: Annotated[int, Field(ge=1), MeasuredIn("strikes")] = 2
    """Strikes that lead to a ban. Source: SAFL, algorithm 4."""
    window: Annotated[int, Field(ge=1, le=1_000_000), MeasuredIn("updates")] | None = None
    """Judged updates of a client that are remembered; null: all of them."""

    @model_validator(mode="after")
    def _check_window(self) -> Strikes:
        if self.window is not None and self.window < self.threshold:
            raise ValueError(
                f"window must be >= threshold ({self.threshold}) or null, got {self.window}; nobody could be banned"
            )
        return self

    def start(self, clients: int) -> StrikeState:
        """State in which nobody has been judged. `clients`: how many there are."""
        counts = np.zeros(clients, dtype=np.int64)
        return StrikeState(np.zeros((clients, self.window or 0), dtype=bool), counts, counts, counts > 0)

    def step(
        self, state: StrikeState, clients: Sequence[int] | NDArray[np.int64], struck: Sequence[bool] | NDArray[np.bool_]
    ) -> tuple[tuple[int, ...], StrikeState]:
        """Clients that are banned now, in the order in which they poisoned_share `threshold`, and the next state.

        `clients`: (n,) senders of the judged updates in the order of arrival; one client may stand there several times.
        `struck`: (n,) whether the update is a strike. Updates of banned clients count no further.
        """
        if len(clients) != len(struck):
            raise ValueError(f"one verdict per update is required: {len(clients)} updates, {len(struck)} verdicts")
        history, total = state.history.copy(), state.total.copy()
        judged, banned = state.judged.copy(), state.banned.copy()
        out = []
        for client, strike in zip(map(int, clients), map(bool, struck), strict=True):
            if banned[client]:
                continue
            judged[client] += 1
            total[client] += strike
            if self.window is not None:
                history[client, 1:] = history[client, :-1]
                history[client, 0] = strike
            # Only a strike can lead to a ban, whatever leaves the window.
            count = total[client] if self.window is None else history[client].sum()
            if strike and count >= self.threshold:
                banned[client] = True
                out.append(client)
        return tuple(out), StrikeState(history, total, judged, banned)
