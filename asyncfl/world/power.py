"""What a client's device draws while it works for the federation."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.component import Described

Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Power(Described):
    """Power of a client's device by what it is doing, in watts, beyond what it would draw without the federation."""

    compute_w: Watts = 5.0
    """While it trains."""
    send_w: Watts = 1.0
    """While its update is on the way up, waiting for retransmissions included."""
    receive_w: Watts = 0.7
    """While a model is on the way down."""
    idle_w: Watts = 0.0
    """All other time of the run."""
