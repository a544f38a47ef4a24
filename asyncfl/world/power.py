"""Power that a client's device consumes for the federation."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.base.component import Described

Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Power(Described):
    """Power of a client's device by activity, watts, in addition to its consumption without the federation."""

    compute_w: Watts = 5.0
    """Power while the client trains, watts."""
    send_w: Watts = 1.0
    """Power during an upload, including waits for retransmissions, watts."""
    receive_w: Watts = 0.7
    """Power during a download, watts."""
    idle_w: Watts = 0.0
    """Power during the rest of the run, watts."""
