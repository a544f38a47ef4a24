"""Base classes of attacks that compute one poisoned update from known updates.

The field `knowledge` determines mean and deviation. `own`: each attacker uses its own honest update as the mean,
without deviation. `colluders`: both are estimated from the attackers' honest updates, before noise; this is the usual
assumption that attackers know only each other. `buffer`: both are computed from the uploads of the honest clients in
the buffer, with noise. No client could see these in time, so this is the worst case. If no update is known (a buffer of
attackers alone), attackers upload their honest updates.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from asyncfl.base.arrays import Floats, Vector
from asyncfl.threats.attack import Attack, AttackView, Knowledge

T = TypeVar("T")

BLOCK = 1 << 15  # columns per block in float64, to limit memory: fifty rows of a block take 13 MB


class Informed(Attack):
    """Base class of attacks that are computed from known updates. Attackers with the same knowledge upload the same
    update."""

    knowledge: Knowledge = "colluders"
    """Updates that the attack uses: each attacker's own, all attackers' in the buffer, or those of the honest clients
    in it."""

    @property
    def sees(self) -> Knowledge:
        return self.knowledge

    def craft(self, view: AttackView) -> Vector:
        """Return the update of `forge` from the known finite updates as each attacker's upload, see `Attack.craft`. An
        attacker that knows no finite update, or for which `forge` returns None, uploads its honest update."""
        forged = for_attackers(self.knowledge, view, lambda known: self.forge(known, view))

        def upload(row: int) -> NDArray[np.floating]:
            poison = forged[row]
            return view.honest[row] if poison is None else poison

        return view.uploads(upload)

    @abstractmethod
    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating] | None:
        """Return the poisoned update (n_parameters,) computed from `known` (n >= 1, n_parameters), all finite. None: it
        cannot be computed from so few updates, and the attacker uploads its honest update."""
        raise NotImplementedError


class Deviating(Informed):
    """Base class of attacks that use the deviation of known updates; with a single one attackers are honest."""

    @model_validator(mode="after")
    def _check_deviation(self) -> Self:
        if self.knowledge == "own":
            raise ValueError("knowledge must be colluders or buffer, got own: a single update has no deviation")
        return self

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating] | None:
        return self.deviate(known, *mean_and_deviation(known), view) if len(known) > 1 else None

    @abstractmethod
    def deviate(self, known: Vector, mean: Floats, deviation: Floats, view: AttackView) -> Floats:
        """Return the poisoned update (n_parameters,) from `known` (n >= 2, n_parameters), and its `mean` and standard
        `deviation` in each parameter, both (n_parameters,)."""
        raise NotImplementedError


def finite_rows(rows: Vector) -> Vector:
    """Return the rows of `rows` (n, n_parameters) that contain only finite numbers: clients may have diverged."""
    sound = np.array([bool(np.isfinite(row).all()) for row in rows], dtype=bool)
    return rows if sound.all() else rows[sound]


def for_attackers(knowledge: Knowledge, view: AttackView, compute: Callable[[Vector], T]) -> list[T | None]:
    """Return what `compute` makes of the finite updates (n >= 1, n_parameters) that each attacker sees; None for one
    that sees none."""
    if knowledge == "own":
        own = (finite_rows(view.honest[row : row + 1]) for row in range(view.attackers))
        return [compute(known) if len(known) else None for known in own]
    known = finite_rows(view.known if knowledge == "buffer" else view.honest)
    return [compute(known) if len(known) and view.attackers else None] * view.attackers


def mean_and_deviation(rows: Vector) -> tuple[Floats, Floats]:
    """Return mean and standard deviation (n - 1 degrees of freedom) of each column of `rows` (n >= 1, n_parameters).
    The deviation of a single row is 0."""
    mean, deviation = np.empty(rows.shape[1]), np.zeros(rows.shape[1])
    for part in _blocks(rows.shape[1]):
        values = rows[:, part].astype(np.float64)
        mean[part] = values.mean(axis=0)
        if len(rows) > 1:
            deviation[part] = values.std(axis=0, ddof=1)
    return mean, deviation


def centred_products(rows: Vector, mean: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return inner products of the centred rows e_i = rows[i] - mean: (n, n) with each other, (n,) with `direction`."""
    gram, along = np.zeros((len(rows), len(rows))), np.zeros(len(rows))
    for part in _blocks(rows.shape[1]):
        centred = rows[:, part] - mean[part]
        gram += centred @ centred.T
        along += centred @ direction[part]
    return gram, along


def _blocks(columns: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, columns, BLOCK))
