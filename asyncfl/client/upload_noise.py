"""Noise: the scheme's noise on each upload, first of honest clients, then of attackers that add it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.client.batch import Batch, Stage
from asyncfl.privacy.ledger.releases import upload_release
from asyncfl.privacy.noise import add_noise


class AddNoise(Stage):
    """Stage that adds noise to the uploads of honest clients, and records the release of each upload."""

    def run(self, batch: Batch) -> None:
        facts = self.facts
        scheme, context, norm = facts.scheme, facts.context, batch.clip_norm
        batch.releases = [upload_release(scheme, context, norm, one) for one in batch.contributions]
        batch.noises = [scheme.upload_noise(context, norm, one) for one in batch.contributions]
        # Noise drawn during training is in the models already.
        batch.std = np.array([0.0 if noise.in_training else noise.std for noise in batch.noises])
        self._add(batch, ~batch.attacked)

    def _add(self, batch: Batch, where: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(where & (batch.std > 0)).tolist():
            one, distribution = batch.assignments[row], batch.noises[row].distribution
            if self.facts.secure is not None and distribution == "gaussian":
                continue  # added to the rounded update, see `mask`
            stream = (self.facts.streams, "client_noise", one.client, one.turn)
            add_noise(distribution, batch.rows[row], float(batch.std[row]), *stream)


class AddAttackersNoise(AddNoise):
    """Stage that adds noise to the uploads of attackers, or records that they add none."""

    def run(self, batch: Batch) -> None:
        attackers = self.facts.attackers
        if attackers is None or not batch.attacked.any():
            return
        if attackers.threats.attackers_add_noise:
            self._add(batch, batch.attacked)
            return
        batch.std[batch.attacked] = 0.0
        batch.releases = [
            replace(one, std=0.0) if bad else one for one, bad in zip(batch.releases, batch.attacked, strict=True)
        ]
