"""Base class of detectors, which judge the updates of a buffer and may have a memory.

A detector is a frozen description. Its memory is a state, a dataclass of arrays and scalars that is passed in and
returned, so that it can be saved and replayed.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.base.component import Component
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.score_request import ScoreRequest


@dataclass(frozen=True)
class Verdict:
    """A detector's judgement of a buffer. Rows follow the buffer."""

    flagged: Bools
    """(n_updates,) whether the update is left out of the aggregate: judged as poison, unless also `unjudged`."""
    strikes: Bools
    """(n_updates,) whether the update counts as a strike against its sender. A flag without a strike is a doubt."""
    weights: Floats | None = None
    """(n_updates,) factor >= 0 on the weight of each update (dampening); None: 1."""
    correction: Vector | None = None
    """(n_parameters,) amount to add to the next model because earlier verdicts were revised; None: nothing."""
    late_strikes: tuple[int, ...] = ()
    """Clients that are struck now for updates of earlier buffers, each once; counted before `strikes`."""
    unjudged: Bools | None = None
    """(n_updates,) whether the detector could not judge the update, either left out for safety (then also `flagged`) or
    accepted; None: all were judged. Unjudged updates accuse no sender; malicious ones count as missed in the recall."""
    details: tuple[str, ...] = ()
    """Reason for each update's flag, or an empty text."""
    remarks: tuple[str, ...] = ()
    """Remarks for the user; each is listed once in the notes of the run's summary."""
    notes: dict[str, float] = field(default_factory=dict)
    """Numbers about the buffer by name; they become the columns `detector_<name>` of the table of rounds."""

    @property
    def accused(self) -> Bools:
        """(n_updates,) whether the update is judged as poison: flagged, or struck although it is aggregated."""
        flagged = self.flagged if self.unjudged is None else self.flagged & ~self.unjudged
        return np.asarray(flagged | self.strikes)


class Detector(Component):
    """Base class of detectors, which judge the updates of a buffer."""

    one_of: ClassVar[tuple[str, ...]] = ("judge",)
    logged: ClassVar[tuple[str, ...]] = (
        "rounds.judged",
        "rounds.true_positives",
        "rounds.false_positives",
        "rounds.false_negatives",
        "rounds.precision",
        "rounds.recall",
        "rounds.recall_judged",
        "rounds.unjudged_share",
        "clients.flagged",
        "events.flagged",
    )

    @property
    def needs_root(self) -> bool:
        """Whether the detector requires the server's own samples (`DefenceContext.root_gradient`)."""
        return False

    @property
    def abstains(self) -> bool:
        """Whether the detector may accept updates unjudged (`Verdict.unjudged`), which `Defence.fallback` requires."""
        return False

    @property
    def asks_clients(self) -> bool:
        """Whether the detector asks clients for accuracies: it overrides `request`."""
        return type(self).request is not Detector.request

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        """Return the state before the first buffer. `random`: the detector's own random stream for the whole run."""
        return None

    def request(self, state: Any, buffer: Buffer, tried: tuple[int, ...]) -> tuple[ScoreRequest | None, Any]:
        """Return models that a client must score before the buffer can be judged (None: nothing), and the next state.
        `tried`: clients that were asked about this buffer and did not answer."""
        return None, state

    def judge(self, state: Any, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, Any]:
        """Return the verdict on `buffer` and the next state. `scores`: (n_models,) answer to the last `request`; None
        if nothing was asked or no client answered."""
        raise NotImplementedError

    def forget_client(self, state: Any, client: int) -> Any:
        """Return the state without the data of `client`, which was banned. `state` is not modified."""
        return state


def accept_all(buffer: Buffer) -> Verdict:
    """Return the verdict that accepts every update."""
    none = np.zeros(len(buffer), dtype=bool)
    return Verdict(none, none)
