"""Base of detectors, which judge the updates of a buffer and may remember what they saw.

A detector is a frozen description; what it remembers is a state, a dataclass of arrays and scalars that is handed back
and forth, so that it can be saved and replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.defences.buffer import Buffer
from asyncfl.messages import Vector

Factors: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | None], NDArray[np.float64]]
"""(samples, staleness, work) -> factors of these updates if exactly they are aggregated; work None: all are whole."""


@dataclass(frozen=True)
class DefenceContext:
    """What a defence knows about the federation before it starts."""

    clients: int
    """Number of clients."""
    samples: NDArray[np.int64]
    """(clients,) training samples of each."""
    n_parameters: int
    lr: float
    """Clients' learning rate."""
    gradient_clip: float | None
    """L2 norm that clients clip each step's gradient to; None: no clipping."""
    steps: NDArray[np.int64]
    """(clients,) local SGD steps of one task."""
    root_gradient: Callable[[Vector], Vector] | None = None
    """Gradient of the loss on the server's own small root set at a model (n_parameters,); None: it has none."""
    root_gradients: Callable[[Vector], Vector] | None = None
    """The same for each class of the root set by itself, (classes that it holds, n_parameters); None: it has
    none, or the task is a regression."""
    compressed: bool = False
    """Whether updates are compressed on their way: then neither their lengths nor their noise are what clients made."""
    noise_between_epochs: bool = False
    """Whether noise is also drawn before the last of a task's steps, which may therefore follow it."""
    linear: bool = True
    """Whether each update is added to the model with its factor and stays in it, so that it can be taken back:
    a rule that is a weighted sum, and aggregation `delta`."""
    weigh: Factors | None = None
    """The server's, its rate included; None: each one's share of the samples times (1 + staleness)^-1/2."""

    def factors(
        self, samples: NDArray[np.int64], staleness: NDArray[np.int64], work: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """(n,) factor of each of n updates in the aggregate of exactly these, see `weigh`.

        `work`: (n,) share of a task's epochs that each comes of, as `Buffer.work`; None: all are whole.
        """
        if self.weigh is not None:
            return self.weigh(samples, staleness, work)
        return np.asarray(samples / samples.sum() * (1.0 + staleness) ** -0.5)

    def factors_of(self, buffer: Buffer, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """(rows,) factors of these rows of a buffer in the aggregate of exactly them."""
        if not len(rows):
            return np.zeros(0)
        work = None if buffer.work is None else buffer.work[rows]
        return self.factors(buffer.samples[rows], buffer.staleness[rows], work)


@dataclass(frozen=True)
class ScoreRequest:
    """Models that one client is asked to score by their accuracy on its data."""

    client: int
    models: Vector
    """(n_models, n_parameters), buffered models and decoys in the order in which they are sent."""


@dataclass(frozen=True)
class Verdict:
    """What a detector says of a buffer. Rows follow the buffer."""

    flagged: NDArray[np.bool_]
    """(n_updates,) left out of the aggregate: taken for poison, except those that are `unjudged`."""
    strikes: NDArray[np.bool_]
    """(n_updates,) counted against the sender; a flag without a strike is a doubt in its favour."""
    weights: NDArray[np.float64] | None = None
    """(n_updates,) factor >= 0 on each update's weight (dampening); None: 1."""
    correction: Vector | None = None
    """(n_parameters,) to be added to the next model, where a late verdict amends earlier ones; None: nothing."""
    late_strikes: tuple[int, ...] = ()
    """Clients that are struck now for what they sent in earlier buffers, each once; counted before `strikes`."""
    unjudged: NDArray[np.bool_] | None = None
    """(n_updates,) those of which nothing is known, whether left out to be safe (then also `flagged`) or let in; None:
    nobody. They accuse nobody, and do not count where it is counted how often the detector was right."""
    details: tuple[str, ...] = ()
    """One text per update on why it was flagged, or empty."""
    remarks: tuple[str, ...] = ()
    """What a user should know; each text is told once among the notes of a run's summary."""
    notes: dict[str, float] = field(default_factory=dict)
    """Numbers about the whole buffer, by name; they become columns `detector_<name>` of the table of rounds."""

    @property
    def accused(self) -> NDArray[np.bool_]:
        """(n_updates,) taken for poison: flagged, or struck where flagged updates are still aggregated."""
        flagged = self.flagged if self.unjudged is None else self.flagged & ~self.unjudged
        return np.asarray(flagged | self.strikes)


class Detector(Component):
    """Base of detectors: judges the updates of a buffer."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.judged",
        "rounds.true_positives",
        "rounds.false_positives",
        "rounds.false_negatives",
        "rounds.precision",
        "rounds.recall",
        "clients.flagged",
        "events.flagged",
    )

    @property
    def needs_root(self) -> bool:
        """Whether the detector cannot work without the server's own samples (`DefenceContext.root_gradient`)."""
        return False

    @property
    def abstains(self) -> bool:
        """Whether it may let updates in of which it knows nothing (`Verdict.unjudged`), as `Defence.fallback` needs."""
        return False

    @property
    def asks_clients(self) -> bool:
        """Whether it asks clients for accuracies: it has a `request` of its own."""
        return type(self).request is not Detector.request

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        """State before the first buffer. `random` is the detector's own stream for the whole run."""
        return None

    def request(self, state: Any, buffer: Buffer, tried: tuple[int, ...]) -> tuple[ScoreRequest | None, Any]:
        """What has to be scored by a client before the buffer can be judged (None: nothing), and the next state.

        `tried`: clients that were asked for this buffer and did not answer.
        """
        return None, state

    def judge(self, state: Any, buffer: Buffer, scores: NDArray[np.float64] | None) -> tuple[Verdict, Any]:
        """The verdict on `buffer` and the next state.

        `scores`: (n_models,) answer to the last `request`, None where nothing was asked or nobody answered.
        """
        raise NotImplementedError

    def forget_client(self, state: Any, client: int) -> Any:
        """The next state after `client` was banned: forget what it sent."""
        return state


def accept_all(buffer: Buffer) -> Verdict:
    """The verdict that everything is sound."""
    nobody = np.zeros(len(buffer), dtype=bool)
    return Verdict(nobody, nobody)
