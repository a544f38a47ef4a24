"""Views of adversaries: what they hold, and everything that follows from it.

A view is closed: an adversary with an upload is granted the model that the client was sent, and an adversary with a
version every earlier one. It is never granted less than it really knows. Times are moments: an event belongs to moment
v if version v is the first that is published at or after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.correlation.encoder import Encoder
from asyncfl.privacy.release import BitNoise, Release

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""Moment of something that an adversary does not get."""


@dataclass(frozen=True)
class UploadTable:
    """All updates of a run that an adversary may hold or that entered a model, one row each. All columns are (n,)."""

    task: Ints
    client: Ints
    base_version: Ints  # version that the client was sent
    version: Ints  # version that the update entered, or was left out of when it was judged; 0: none
    weight: Floats  # factor of the update in that version, server learning rate included, >= 0; 0 if it was left out
    laplace: Bools  # whether the noise is Laplace; otherwise Gaussian
    std: Floats  # standard deviation of the noise on each parameter
    sensitivity: Floats
    """Largest change between neighbouring data sets, in the norm of the noise; infinite if nothing bounds it."""
    model_sensitivity: Floats  # the same for the neighbours and the norm of published models, at weight 1
    count: Ints  # number of mechanisms with this noise in the upload
    rate: Floats  # probability with which a sample enters each of them, see `Release.rate`
    epsilon: Floats  # epsilon claimed for the upload alone
    additive: Bools
    """Whether the noise is one Gaussian draw on the upload itself, which adds up with the noise of other uploads in a
    sum. Noise drawn during training does not."""
    copy_of: Ints  # row of the update that this one copies; -1: no copy
    computed_from: tuple[tuple[int, Ints], ...] = ()
    """Rows of updates that reveal other updates, each with the rows of those: the inputs of an attacker's
    computation."""
    previous: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Row of the previous update of the same client; -1: none. Empty if no update carries traces of others."""
    carried: tuple[tuple[int, int], ...] = ()
    """Row of an update that carries traces of earlier updates, and the row of the last of them: all before that one, by
    `previous`, count too."""
    bits: BitNoise | None = None
    """Noise on the bits behind an adaptive clip norm, which each update comes with; None: there are none."""


@dataclass(frozen=True)
class VersionTable:
    """Published versions of a run, row v for version v. All columns are (n_versions + 1,)."""

    server_std: Floats  # standard deviation of the server's noise on each parameter, see `ModelRelease.server_std`
    server_laplace: bool  # whether the server's noise is Laplace
    fixed_weights: bool  # whether the weights of updates are independent of all data
    epsilon: float  # epsilon claimed for one version alone
    encoder: Encoder | None = None  # C of noise that is correlated over versions; None: it is independent


@dataclass(frozen=True)
class AdversaryView:
    """Uploads, models and other releases that one adversary gets, each with the moment at which it gets them."""

    adversary: str
    uploads: Ints  # (n,) moment at which it gets each row of `UploadTable`; NEVER: it does not
    versions: Ints  # (n_versions + 1,) moment at which it gets each version; NEVER: it does not
    knows_server_noise: bool = False  # whether it knows the noise that the server added to each model
    members: frozenset[int] = frozenset()  # clients that are the adversary: they know their own noise and have no rows
    further: tuple[tuple[int, int, Release], ...] = ()
    """(client, moment, release) of what else it gets, or whose effect on a model it sees, such as scores."""
    colluders: int = 0
    """Clients that tell it all they know. Which ones is unknown: from each version the noise of those that hide a
    client best is subtracted."""
    leaks: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Flag of a leak -> clients of which it holds a message with this leak, or a model that decisions based on such
    messages influenced."""

    @property
    def holds_any(self) -> bool:
        """Whether it gets anything that depends on data: version 0 does not."""
        return bool(self.further or (self.uploads < NEVER).any() or (self.versions[1:] < NEVER).any())

    def unprotected_clients(self, sent: UploadTable, versions: VersionTable) -> frozenset[int]:
        """Return the clients of which the adversary gets an upload, a version or a leak without any noise. Uploads that
        are only granted because no better bound is known do not count."""
        granted = self.granted(sent)
        open_versions = (granted < NEVER) & ((versions.server_std == 0) | self.knows_server_noise)
        open_versions[0] = False
        open_versions[sent.version[sent.std > 0]] = False
        seen = (self.uploads < NEVER) | (open_versions[sent.version] & (sent.weight > 0))
        clients = sent.client[seen & (sent.std == 0) & (sent.sensitivity > 0)].tolist()
        clients += [client for client, _, release in self.further if release.count and not release.std]
        return frozenset(clients) - self.members

    def granted(self, sent: UploadTable) -> Ints:
        """Return (n_versions + 1,) moment from which the adversary is granted each version; see the module's header."""
        moments = self.versions.copy()
        held = self.uploads < NEVER
        base = sent.base_version.copy()
        # A copy also reveals the base model of the copied update.
        copies = np.flatnonzero(sent.copy_of >= 0)
        base[copies] = np.maximum(base[copies], base[sent.copy_of[copies]])
        for reader, sources in sent.computed_from:
            base[reader] = max(base[reader], base[sources].max(initial=0))
        if sent.carried:
            newest = base.tolist()
            for row, before in enumerate(sent.previous.tolist()):
                if before >= 0:
                    newest[row] = max(newest[row], newest[before])
            readers, lasts = np.array(sent.carried).T
            np.maximum.at(base, readers, np.array(newest)[lasts])
        np.minimum.at(moments, base[held], self.uploads[held])
        return np.minimum.accumulate(moments[::-1])[::-1]
