"""Base of attacks, and what attackers see when they craft an upload.

An attacker follows the schedule like everybody else. An attack may change what it trains on (`poison`), what it uploads
(`craft`, `length_error`), what it answers when it is asked to score models (`lie`), and how often it takes part
(`rate`). What depends on the updates of others derives from `informed.Informed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.errors import Fault
from asyncfl.messages import Vector

Knowledge = Literal["own", "colluders", "buffer"]
"""What an attacker sees: its own update, those of all attackers in the buffer, or what the honest in it sent."""


@dataclass(frozen=True)
class Rehearsal:
    """What the server would make of the open buffer if the attackers uploaded something; it remembers nothing of it."""

    struck: NDArray[np.bool_]
    """(n_attackers,) whether the upload would count against its sender, or is refused as malformed."""
    moved: Vector
    """(n_parameters,) next global model less the current one, before the server's noise."""


@dataclass(frozen=True)
class AttackView:
    """What the attackers know when they craft what they upload. All arrays are read-only."""

    honest: Vector
    """(n_attackers, n_parameters) what each attacker would upload if it were honest, before noise, as a difference from
    the model it was sent (after training on what `poison` made of its data, and after clipping)."""
    known: Vector
    """(n_known, n_parameters) differences that the attackers can see. `own`: nothing beyond their own row;
    `colluders`: the rows of `honest`; `buffer`: all other updates of the buffer, as sent, with noise, even what arrived
    later (the worst case). May be empty."""
    bases: Vector
    """(n_attackers, n_parameters) the model that each attacker was sent."""
    current: Vector
    """(n_parameters,) the newest global model."""
    collected: int
    """Updates in the buffer, n."""
    version: int
    """Version that the buffer is applied to."""
    randoms: tuple[np.random.Generator, ...]
    """The own stream of each attacker's task: what it draws does not depend on who else is in the buffer."""
    rehearse: Callable[[Vector], Rehearsal] | None = None
    """Differences (n_attackers, n_parameters) -> what the server's defences, as they stand, would make of them with the
    noise that attackers add; None: not to be had, or not asked for (`Attack.rehearses`)."""

    @property
    def attackers(self) -> int:
        """Attackers in the buffer, f."""
        return len(self.honest)


class Attack(Component):
    """Base of attacks: what an attacker trains on, uploads, and answers when it is asked for scores."""

    logged: ClassVar[tuple[str, ...]] = (
        "clients.attacker",
        "clients.malicious_uploads",
        "clients.malicious_used",
        "rounds.test_accuracy",
    )

    @property
    def sees(self) -> Knowledge:
        """What `craft` must be shown in `AttackView.known`."""
        return "own"

    @property
    def rehearses(self) -> bool:
        """Whether `craft` asks what the server would make of its uploads (`AttackView.rehearse`)."""
        return False

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        """What cannot work on samples of `shape` (channels, height, width of images) with `classes` classes.

        Fields are named relative to the attack.
        """
        yield from ()

    def poison(
        self, images: NDArray[np.float32], labels: NDArray[np.int64], classes: int, random: np.random.Generator
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Training data of an attacker: `images` (n, C, H, W), `labels` (n,); arguments are not changed."""
        return images, labels

    def craft(self, view: AttackView) -> Vector | None:
        """(n_attackers, n_parameters) float32: what the attackers upload instead, as differences, before noise.

        None: what they would upload if they were honest.
        """
        return None

    @property
    def changes_uploads(self) -> bool:
        """Whether something else may be uploaded than what was trained: `craft` is written, or the length is wrong."""
        return type(self).craft is not Attack.craft or self.length_error != 0

    def copied(self, view: AttackView) -> int | None:
        """Row of `view.known` that all attackers upload as it is, picked without regard to what it holds.

        None: what they upload follows from it otherwise. Accountants of what others give away ask for it, of attacks
        that see the buffer.
        """
        return None

    @property
    def length_error(self) -> int:
        """Parameters by which an upload is too long (> 0) or too short (< 0); 0: of the right length."""
        return 0

    @property
    def lies(self) -> bool:
        """Whether the attack itself says what to answer to a scoring request."""
        return False

    def lie(self, scores: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
        """(n_models,) what an attacker answers in place of the true `scores` (accuracies, 0..1)."""
        return scores

    @property
    def rate(self) -> float:
        """How many times as often an attacker finishes a task (flooding); 1: like everybody."""
        return 1.0

    def triggered(self, images: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Test images (n, C, H, W) with the backdoor's trigger, to measure its success; None: no backdoor."""
        return None

    @property
    def target(self) -> int | None:
        """Class that a backdoor wants; None: no backdoor."""
        return None
