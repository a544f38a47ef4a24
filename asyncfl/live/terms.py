"""How a live run is held."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Terms:
    """How a live run is held."""

    shape: bool = False
    """Whether clients wait as the scenario's world says."""
    speedup: float = 1.0
    """Seconds of the scenario in a real second."""
    virtual: bool = False
    """Whether the event loop runs on virtual time."""
    heartbeat_s: float = 5.0
    """Real seconds between two signs of life of a client."""
