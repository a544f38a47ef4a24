"""Base class of attacks, and the information that attackers have when they craft an upload.

Attackers follow the same schedule as honest clients. An attack may change the training data (`poison`), the upload
(`craft`, `length_error`), the answers to score requests (`lie`), and the frequency of tasks (`rate`). Attacks that
are computed from the updates of others derive from `informed.Informed`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.component import Component
from asyncfl.base.errors import Fault

Knowledge = Literal["own", "colluders", "buffer"]
"""Updates that an attacker sees: its own, those of all attackers in the buffer, or those that honest clients in it
sent."""


@dataclass(frozen=True)
class Rehearsal:
    """Outcome of a trial on a copy of the server's defences: the effect of given uploads on the open buffer. The server
    itself is unaffected."""

    struck: Bools
    """(n_attackers,) whether the upload leads to a strike against its sender, or is rejected as malformed."""
    moved: Vector
    """(n_parameters,) change of the global model, before the server's noise."""


@dataclass(frozen=True)
class AttackView:
    """Information that the attackers have when they craft their uploads. All arrays are read-only."""

    honest: Vector
    """(n_attackers, n_parameters) each attacker's honest update before noise, as a difference from the model it was
    sent: trained on data that `poison` may have changed, and clipped."""
    known: Vector
    """(n_known, n_parameters) differences that the attackers see. `own`: only each attacker's own row; `colluders`: the
    rows of `honest`; `buffer`: all other updates of the buffer as uploaded, with noise, including later arrivals (worst
    case). May be empty."""
    bases: Vector
    """(n_attackers, n_parameters) model that each attacker was sent."""
    current: Vector
    """(n_parameters,) the newest global model."""
    collected: int
    """n: number of updates in the buffer."""
    version: int
    """Model version that the buffer is applied to."""
    randoms: tuple[np.random.Generator, ...]
    """Random stream of each attacker's task. It does not depend on the other updates of the buffer."""
    rehearse: Callable[[Vector], Rehearsal] | None = None
    """Differences (n_attackers, n_parameters) -> their outcome in a copy of the server's defences, with the attackers'
    noise; None: not available, or not requested (`Attack.rehearses`)."""
    class_gradients: Callable[[Vector], Vector] | None = None
    """Model (n_parameters,) -> gradient of the loss on the attackers' own samples of each class, at most 100 of them,
    (classes, n_parameters); 0 for a class of which they hold none. None: not available, or a regression."""
    last_layer: int = 0
    """Number of parameters of the model's last layer, which are the last of an update; 0: unknown."""
    ranks: tuple[int, ...] = ()
    """Rank 0, 1, ... of each attacker among all attackers of the run; (): unknown."""

    @property
    def attackers(self) -> int:
        """f: number of attackers in the buffer."""
        return len(self.honest)

    def uploads(self, upload: Callable[[int], NDArray[np.floating]]) -> Vector:
        """Return a float32 array (n_attackers, n_parameters) of `upload(row)` (n_parameters,) for each attacker.

        Values too large for float32 become infinite. The server must handle that, as for any upload.
        """
        rows = np.empty(self.honest.shape, dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for row in range(len(rows)):
                rows[row] = upload(row)
        return rows


class Attack(Component):
    """Base class of attacks: training data, upload, and answers to score requests of an attacker."""

    logged: ClassVar[tuple[str, ...]] = (
        "clients.attacker",
        "clients.malicious_uploads",
        "clients.malicious_used",
        "rounds.test_accuracy",
    )

    @property
    def sees(self) -> Knowledge:
        """Knowledge that `craft` needs in `AttackView.known`."""
        return "own"

    @property
    def rehearses(self) -> bool:
        """Whether `craft` tries uploads on a copy of the server's defences (`AttackView.rehearse`)."""
        return False

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        """Yield why the attack cannot work on samples of `shape` (channels, height, width of images) in `classes`
        classes. Field names are relative to the attack."""
        yield from ()

    def poison(
        self, images: NDArray[np.float32], labels: Ints, classes: int, random: np.random.Generator
    ) -> tuple[NDArray[np.float32], Ints]:
        """Return the training data of an attacker, `images` (n, C, H, W) and `labels` (n,), without modifying them."""
        return images, labels

    def craft(self, view: AttackView) -> Vector | None:
        """Return the uploads (n_attackers, n_parameters) float32 as differences, before noise; None: the honest
        updates."""
        return None

    def craft_payload(self, name: str, honest: Vector) -> Vector:
        """Return what the attackers upload as the algorithm's vector `name`, (n_attackers, size) float32.

        `honest`: what their training yields. A vector that is computed from the update follows the crafted update.
        """
        return honest

    @property
    def changes_uploads(self) -> bool:
        """Whether uploads may differ from the trained updates: `craft` is overridden, or the length is wrong."""
        return type(self).craft is not Attack.craft or self.length_error != 0

    def copied(self, view: AttackView) -> int | None:
        """Return the row of `view.known` that all attackers upload unchanged, if it is chosen independently of its
        content; otherwise None. Privacy accountants use this for attacks that see the buffer."""
        return None

    @property
    def length_error(self) -> int:
        """Number of parameters by which an upload is too long (> 0) or too short (< 0); 0: correct length."""
        return 0

    @property
    def lies(self) -> bool:
        """Whether the attack determines the answers to score requests."""
        return False

    def lie(self, scores: Floats, random: np.random.Generator) -> Floats:
        """Return the answer (n_models,) of an attacker in place of the true `scores` (n_models,), accuracies in 0..1.
        `random`: random stream of this answer. `scores` is not modified."""
        return scores

    @property
    def rate(self) -> float:
        """Factor on the frequency with which an attacker finishes tasks (flooding); 1: as an honest client."""
        return 1.0

    def triggered(self, images: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Return test images (n, C, H, W) with the backdoor's trigger, to measure its success; None: no backdoor."""
        return None

    @property
    def target(self) -> int | None:
        """Class that the backdoor targets; None: no backdoor."""
        return None
