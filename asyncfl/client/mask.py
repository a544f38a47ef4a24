"""Mask: what clients send in secure aggregation, and the sum of it that the server unmasks.

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


class Mask(Stage):
    """Stage that turns the uploads of a batch into the sum that is unmasked. The rows are not changed: the server gets
    none of them."""

    def __init__(self, facts: PathComponents, secure: SecureAggregation) -> None:
        super().__init__(facts)
        self.secure = secure
        self.grid = secure.quantiser

    def run(self, batch: Batch) -> None:
        work = batch.masked
        if work is None:
            raise ValueError("a batch of secure aggregation needs the clients that take part")
        vectors = np.stack([self._integers(batch, row) for row in range(len(batch.rows))])
        total = integers_of(self.secure.total(vectors, work, self._secrets_of))
        plain = np.array(work.weights) @ vectors
        batch.wrapped = int(np.count_nonzero(np.abs(plain) > LARGEST))
        batch.total = np.asarray(self.grid.step * total, dtype=np.float64)

    def _integers(self, batch: Batch, row: int) -> NDArray[np.int64]:
        """Return the integers (n_parameters,) that the sender of `row` masks, before its weight."""
        one, streams = batch.assignments[row], self.facts.streams
        with np.errstate(over="ignore", invalid="ignore"):
            update = batch.rows[row] - one.base
        if batch.attacked[row]:
            found = self.grid.unchecked(update)
        else:
            if not np.isfinite(update).all():
                # The server could not reject it.
                update, batch.zeroed[row] = np.zeros_like(update), True
            update = self._within_norm(update, batch.clip_norm)
            batch.out_of_range += self.grid.clipped(update)
            found = self.grid.rounded(update, streams.generator("rounding", one.client, one.turn))
        if batch.std[row] > 0 and batch.noises[row].distribution == "gaussian":
            random = streams.generator("field_noise", one.client, one.turn)
            found = found + discrete_gaussian(float(batch.std[row]) / self.grid.step, len(found), random)
        return found

    def _within_norm(self, update: Vector, clip_norm: float | None) -> Vector:
        """Scale an update that is longer than the clip norm less the rounding distance down to that."""
        if clip_norm is None or not self.facts.clips_to_l2_norm:
            return update
        most = clip_norm - self.grid.rounding_distance(len(update))
        if most <= 0:
            raise RunError(
                f"secure aggregation rounds updates by up to {clip_norm - most:.3g} (range/levels times the root of "
                f"{len(update)} numbers), which must be below the clip norm {clip_norm:.3g}: raise "
                "protocol.secure_aggregation.bits, or lower its range"
            )
        norm = norm_of(update, 2)
        return update if norm <= most else update * (most / norm)

    def _secrets_of(self, member: Member) -> np.random.Generator:
        return self.facts.streams.generator("masks", member.client, member.turn)
