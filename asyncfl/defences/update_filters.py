"""Shared parts of filters that judge single updates: noise in lengths, and the server's own update.

These filters judge each update as it arrives, independently of the others in the buffer. Their flags are never strikes:
they regularly reject honest updates (Kardam a fixed share), and the sources ban no client.

The sources do not consider differential privacy. Noise of standard deviation sigma on each of d parameters adds about
sigma^2 d to squared lengths, often more than the update itself; the filters as published then reject every update.
`noise: accounted` subtracts this known amount; `ignored` is the published rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.detector import Detector, Verdict


def filter_verdict(flagged: Bools, details: Iterable[str], **notes: float) -> Verdict:
    """Return a verdict that leaves out the `flagged` (n_updates,) rows without strikes, `details` saying why."""
    shown = (detail if flag else "" for detail, flag in zip(details, flagged, strict=True))
    return Verdict(flagged, np.zeros(len(flagged), dtype=bool), details=tuple(shown), notes=notes)


@dataclass(frozen=True)
class TrustedState:
    """The server's own gradient or update, between buffers."""

    context: DefenceContext
    own: Vector | None = None  # (n_parameters,) gradient or update on the root set
    version: int = 0  # model version at which it was computed


class TrustingFilter(Detector):
    """Base class of filters that compare each update with the server's own gradient or update on its root set."""

    alongside: ClassVar[Mapping[str, Any]] = {"defence.root_samples": 100}
    needs_root: ClassVar[bool] = True
    refresh: int
    noise: Literal["accounted", "ignored"] = "accounted"
    """`accounted`: the expected contribution of privacy noise to squared lengths is subtracted first; `ignored`: it is
    not, as in the source."""

    def train(self, context: DefenceContext, model: Vector) -> Vector:
        """Return the server's own gradient or update (n_parameters,) at `model`."""
        raise NotImplementedError

    def compare(self, context: DefenceContext, buffer: Buffer, own: Vector, energy: Floats) -> Verdict:
        """Return the verdict on `buffer`. `own`: last result of `train`. `energy`: (n_updates,) expected contribution
        of noise to the squared length of each update."""
        raise NotImplementedError

    def start(self, context: DefenceContext, random: np.random.Generator) -> TrustedState:
        return TrustedState(context)

    def judge(self, state: TrustedState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, TrustedState]:
        if state.own is None or buffer.version - state.version >= self.refresh:
            state = replace(state, own=self.train(state.context, buffer.current), version=buffer.version)
        assert state.own is not None
        energy = buffer.upload_std**2 * len(buffer.current) * (self.noise == "accounted")
        return self.compare(state.context, buffer, state.own, energy), state
