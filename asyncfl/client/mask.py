"""Round and mask: what clients send in secure aggregation, and the sum of it that the server unmasks.

An honest client clips its update to the range (and to its clip norm less the rounding distance, so that rounding makes
it no longer than the norm), rounds it, adds its Gaussian noise as integers of the discrete Gaussian, and masks the
result. Attackers send what they like: nothing in the protocol holds them to a range or a norm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import RunError
from asyncfl.client.batch import Batch, PathComponents, Stage
from asyncfl.client.clip import norm_of
from asyncfl.protocol.secure_aggregation import SecureAggregation
from asyncfl.secure_aggregation import LARGEST, Member, discrete_gaussian
from asyncfl.secure_aggregation.field import integers_of

Integers = NDArray[np.int64]


class RoundUpdates(Stage):
    """Stage that turns the updates of honest clients into integers, with their noise. Rows become the models that these
    stand for, as attackers who know them see them."""

    def __init__(self, facts: PathComponents, secure: SecureAggregation) -> None:
        super().__init__(facts)
        self.grid = secure.quantiser

    def run(self, batch: Batch) -> None:
        batch.integers = np.zeros(batch.rows.shape, dtype=np.int64)
        for row in np.flatnonzero(~batch.attacked).tolist():
            one, streams = batch.assignments[row], self.facts.streams
            with np.errstate(over="ignore", invalid="ignore"):
                update = batch.rows[row] - one.base
            if not np.isfinite(update).all():
                # The server could not reject it.
                update, batch.zeroed[row] = np.zeros_like(update), True
            update = self._within_norm(update, batch.clip_norm)
            batch.out_of_range += self.grid.clipped(update)
            found = self.grid.rounded(update, streams.generator("rounding", one.client, one.turn))
            batch.integers[row] = found + self._noise(batch, row)
            batch.rows[row] = one.base + (self.grid.step * batch.integers[row]).astype(np.float32)

    def _within_norm(self, update: Vector, clip_norm: float | None) -> Vector:
        """Scale an update that is longer than the clip norm less the rounding distance down to that."""
        if clip_norm is None or not self.facts.clips_to_l2_norm:
            return update
        rounding = self.grid.rounding_distance(len(update))
        most = clip_norm - rounding
        if most <= 0:
            raise RunError(
                f"secure aggregation rounds updates by up to {rounding:.3g} (range/levels times the root of "
                f"{len(update)} numbers), which must be below the clip norm {clip_norm:.3g}: raise "
                "protocol.secure_aggregation.bits, or lower its range"
            )
        norm = norm_of(update, 2)
        return update if norm <= most else update * np.float32(most / norm)

    def _noise(self, batch: Batch, row: int) -> Integers:
        """Draw the discrete Gaussian noise (n_parameters,) that the scheme asks of a client; zeros where its noise has
        another distribution, and is in the update already."""
        size, std = batch.rows.shape[1], float(batch.std[row])
        if not std or batch.noises[row].distribution != "gaussian":
            return np.zeros(size, dtype=np.int64)
        one = batch.assignments[row]
        random = self.facts.streams.generator("field_noise", one.client, one.turn)
        return discrete_gaussian(std / self.grid.step, size, random)


class Mask(RoundUpdates):
    """Stage that masks the integers of a batch and unmasks their weighted sum. The server gets no row."""

    def __init__(self, facts: PathComponents, secure: SecureAggregation) -> None:
        super().__init__(facts, secure)
        self.secure = secure

    def run(self, batch: Batch) -> None:
        work = batch.masked
        if work is None or batch.integers is None:
            raise ValueError("a batch of secure aggregation needs the clients that take part")
        for row in np.flatnonzero(batch.attacked).tolist():
            with np.errstate(over="ignore", invalid="ignore"):
                update = batch.rows[row] - batch.assignments[row].base
            batch.integers[row] = self.grid.unchecked(update) + self._noise(batch, row)
        total = integers_of(self.secure.total(batch.integers, work, self._secrets_of))
        plain = np.array(work.weights) @ batch.integers
        batch.wrapped = int(np.count_nonzero(np.abs(plain) > LARGEST))
        batch.total = np.asarray(self.grid.step * total, dtype=np.float64)

    def _secrets_of(self, member: Member) -> np.random.Generator:
        return self.facts.streams.generator("masks", member.client, member.turn)
