"""What adversaries hold, and all that follows from it: a view is closed.

An adversary holds uploads (with their noise) and models, and may know the noise that the server adds. Then it is
granted more. An upload was made from a model that it is a difference from, so who holds the upload is taken to hold
that model; and a model is the sum of what came before it, so who holds a version is taken to hold every version up to
it: what a missed model says is carried by the next one. An adversary is never granted less than it really knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.release import Release

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""Moment of what an adversary does not get."""


@dataclass(frozen=True)
class UploadTable:
    """All updates of a run that anybody may hold or that entered a model, one row each, all (n,)."""

    task: Ints
    client: Ints
    base_version: Ints
    """Version that the client was sent."""
    version: Ints
    """Version that it entered, or was left out of when it was judged; 0: none."""
    weight: Floats
    """What the server multiplied it with there, its rate included, >= 0; 0 where it was left out."""
    laplace: Bools
    """Whether its noise is Laplace; else Gaussian."""
    std: Floats
    """Standard deviation of its noise on each parameter."""
    sensitivity: Floats
    """What one neighbour changes in it, in the norm of its noise; infinite where nothing bounds it."""
    model_sensitivity: Floats
    """The same for the neighbours, and in the norm, of published models, at weight 1."""
    count: Ints
    """Mechanisms of this noise that it stands for."""
    epsilon: Floats
    """Claimed for it alone."""
    additive: Bools
    """Whether its noise is one Gaussian draw on the upload itself, so that it adds up with that of others in a sum.
    Noise drawn within training does not."""
    copy_of: Ints
    """Row of the update that it is a copy of; -1: of none."""
    computed_from: tuple[tuple[int, Ints], ...] = ()
    """Rows of updates that tell of others, each with the rows of these: what attackers computed theirs from, and
    earlier ones of the same client whose traces it carries."""


@dataclass(frozen=True)
class VersionTable:
    """The published versions of a run, row v for version v, all (n_versions + 1,)."""

    entered: Bools
    """Whether updates entered it."""
    server_std: Floats
    """Standard deviation of the server's noise on each parameter."""
    server_laplace: bool
    """Whether that is Laplace."""
    fixed_weights: bool
    """Whether what updates weigh depends on nobody's data."""
    epsilon: float
    """Claimed for one of them alone."""


@dataclass(frozen=True)
class AdversaryView:
    """What one adversary gets, and when (rows of a table of moments)."""

    adversary: str
    uploads: Ints
    """(n,) moment at which it gets each row of `UploadTable`; NEVER: it does not."""
    versions: Ints
    """(n_versions + 1,) moment at which it gets each version; NEVER: it does not."""
    knows_server_noise: bool = False
    members: frozenset[int] = frozenset()
    """Clients that are the adversary: nothing is hidden from them, nor counted of them."""
    further: tuple[tuple[int, int, Release], ...] = ()
    """(client, moment, release) of whatever else it gets, or sees the consequences of."""

    @property
    def holds_any(self) -> bool:
        """Whether it gets anything that follows from data: version 0 does not."""
        return bool(self.further or (self.uploads < NEVER).any() or (self.versions[1:] < NEVER).any())

    def unprotected_clients(self, sent: UploadTable, versions: VersionTable) -> frozenset[int]:
        """Clients of whom it gets something that no noise hides: an upload, or a version that has none at all.

        What it is only granted, since no bound on less is known, is not among that.
        """
        granted = self.granted(sent)
        open_versions = (granted < NEVER) & ((versions.server_std == 0) | self.knows_server_noise)
        open_versions[0] = False
        open_versions[sent.version[sent.std > 0]] = False
        seen = (self.uploads < NEVER) | (open_versions[sent.version] & (sent.weight > 0))
        clients = sent.client[seen & (sent.std == 0) & (sent.sensitivity > 0)]
        return frozenset(clients.tolist()) - self.members

    def granted(self, sent: UploadTable) -> Ints:
        """(n_versions + 1,) moment from which on it is taken to hold each version; see the module's header."""
        moments = self.versions.copy()
        held = self.uploads < NEVER
        base = sent.base_version.copy()
        # What is made of another update carries what that one was made from.
        copies = np.flatnonzero(sent.copy_of >= 0)
        base[copies] = np.maximum(base[copies], base[sent.copy_of[copies]])
        for reader, sources in sent.computed_from:
            base[reader] = max(base[reader], base[sources].max(initial=0))
        np.minimum.at(moments, base[held], self.uploads[held])
        return np.minimum.accumulate(moments[::-1])[::-1]
