"""What a view says of each client, as releases: one function for all adversaries.

Version v adds sum_j w_j (u_j + n_j) + N_v to a known model: u_j is what update j holds after clipping, n_j its noise of
sigma_j, N_v the server's of sigma_D. A neighbour in the data of client c moves each u_j of that client by at most s_j.
Of a closed view (`views`) an adversary knows u_j + n_j of each upload that it holds, and subtracts it from the version
that it entered, noise and all. What is left of the version sums over the others, j not held:

    held uploads j of c      s_j against sigma_j
    each granted version v   sum_{j of c} w_j s_j  against  sqrt(sum_j w_j^2 sigma_j^2 + sigma_D^2)

with sigma_D only if the adversary does not know N_v. Each n_j and N_v stands in one row, so rows of a client compose;
updates of one client in a version may all point the same way, so they add up. For a linear model of one parameter that
is exact, and in general the least that can be proven without looking into the training.

What is no sum of Gaussian noise is bounded from above: an upload with Laplace noise, or with noise drawn in training,
counts as held where the server adds none; Laplace noise of the server counts alone. Where weights follow the data (a
rule that is not linear, a detector) a model still is computed from uploads, and says no more than they: all that were
looked at when it was made count as held, whatever became of them, since who was left out says something of each of
them. An upload without noise of its own then is hidden by nothing: the server's noise is for what enters with weights
that are fixed. Scores that such a decision went by count as known to whoever holds the version
(`AdversaryView.further`). Attackers' uploads that are computed from others' say no more than those either; copies of
one (`copy_of`) make it weigh so many times more, noise and all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from asyncfl.privacy.ledger.releases import Releases, releases_of
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, Bools, Floats, Ints, UploadTable, VersionTable


def known_releases(
    sent: UploadTable, versions: VersionTable, view: AdversaryView, sensitivity: Floats | None = None
) -> Releases:
    """What `view` says of each client that is not one of its members, in the order in which it gets it.

    `sensitivity`: (n,) of each upload; None: its own. What else a view is told (scores) counts as no release.
    """
    s = sent.sensitivity if sensitivity is None else sensitivity
    of_members = np.isin(sent.client, list(view.members))
    # They know their own noise.
    sent = replace(sent, std=np.where(of_members, 0.0, sent.std))
    facts = _Facts.of(sent, versions, view, s)
    direct = facts.direct & ~of_members
    at = np.flatnonzero(direct)
    parts = [
        Releases(
            sent.client[at],
            facts.moment[at],
            sent.laplace[at],
            sent.std[at],
            s[at],
            sent.count[at],
            sent.epsilon[at],
            np.ones(len(at), dtype=np.int64),
        ),
        _residuals(sent, versions, view, facts, s),
        _copies(sent, versions, view, facts, s),
    ]
    if view.further:
        parts.append(releases_of(view.further))
        parts[-1].counted[:] = 0
    return Releases.concatenate(parts)


@dataclass(frozen=True)
class _Facts:
    """Which rows of `UploadTable` a view holds, and which are left in the versions that it is granted."""

    granted: Ints
    """(n_versions + 1,)"""
    direct: Bools
    """(n,) known by itself: held, or no better hidden than if it were."""
    told: Bools
    """(n,) known only as a part of a version."""
    moment: Ints
    """(n,) at which a direct one is known."""
    hides: Bools
    """(n_versions + 1,) whether the server's noise hides something."""
    echoed: dict[int, Ints]
    """Row that is not direct -> rows of its copies that are held, or left in the version."""

    @classmethod
    def of(cls, sent: UploadTable, versions: VersionTable, view: AdversaryView, s: Floats) -> _Facts:
        granted = view.granted(sent)
        held = view.uploads < NEVER
        looked_at = (sent.weight > 0) | (not versions.fixed_weights)
        told = ~held & looked_at & (sent.version > 0) & (granted[sent.version] < NEVER)
        hides = (versions.server_std > 0) & (not view.knows_server_noise)
        shown = told & ~sent.additive & ~hides[sent.version]
        if not versions.fixed_weights:
            shown = told
        moment = np.where(held, view.uploads, np.where(told, granted[sent.version], NEVER))
        told, direct = told & ~shown, held | shown
        for reader, sources in sent.computed_from:
            if told[reader] or direct[reader]:
                moment[sources] = np.minimum(moment[sources], moment[reader])
                direct[sources], told[sources] = True, False
        echoed: dict[int, Ints] = {}
        for victim in np.unique(sent.copy_of[sent.copy_of >= 0]).tolist():
            copies = np.flatnonzero(sent.copy_of == victim)
            known = copies[told[copies] | direct[copies]]
            if direct[victim] or not len(known):
                continue
            if not sent.additive[victim]:
                # It is a release of its own kind, and copies of it are the same one.
                moment[victim] = min(int(moment[victim]), int(moment[known].min()))
                direct[victim], told[victim] = True, False
            else:
                echoed[victim] = known
        return cls(granted, direct, told, moment, hides, echoed)


def _variances(sent: UploadTable, versions: VersionTable, facts: _Facts) -> Floats:
    """(n_versions + 1,) of the Gaussian noise that hides what is left of each version."""
    told = facts.told & sent.additive
    squares = np.square(sent.weight[told] * sent.std[told])
    found = np.bincount(sent.version[told], squares, minlength=len(versions.entered))
    if not versions.server_laplace:
        found = found + np.where(facts.hides, np.square(versions.server_std), 0.0)
    for victim, copies in facts.echoed.items():
        left = copies[facts.told[copies]]
        if len(left) or facts.told[victim]:
            own = sent.weight[victim] if facts.told[victim] else 0.0
            copied = own + sent.weight[left].sum()
            variance = _left_of(sent, victim, copies[facts.direct[copies]])
            # Where it stands there itself, that has been counted.
            found[_version_of(sent, victim, copies)] += copied**2 * variance - np.square(own * sent.std[victim])
    return np.maximum(found, 0.0)


def _left_of(sent: UploadTable, victim: int, held: Ints) -> float:
    """Variance of the victim's noise that held copies, each with noise of its own, leave unknown."""
    stds = np.append(sent.std[victim], sent.std[held])
    return 0.0 if (stds == 0).any() else float(1 / np.sum(1 / np.square(stds)))


def _residuals(sent: UploadTable, versions: VersionTable, view: AdversaryView, facts: _Facts, s: Floats) -> Releases:
    """What is left of each granted version, to each client that is in it; and not of victims some of whose copies are
    held."""
    variance = _variances(sent, versions, facts)
    told = facts.told.copy()
    own = _weighed(sent, s)
    for victim, copies in facts.echoed.items():
        left = copies[facts.told[copies]]
        of_victim = np.flatnonzero(facts.told & (sent.client == sent.client[victim]))
        if facts.told[victim] and not facts.direct[copies].any():
            own[victim] += s[victim] * sent.weight[left].sum()
        else:  # `_copies` tells it
            told[of_victim[sent.version[of_victim] == _version_of(sent, victim, copies)]] = False
    if versions.server_laplace:
        by_server = facts.hides[sent.version]
        own = np.where(by_server, _weighed(sent, sent.model_sensitivity), own)
    told &= ~np.isin(sent.client, list(view.members))
    at = np.flatnonzero(told)
    clients = int(sent.client.max(initial=0)) + 1
    keys, of = np.unique(sent.version[at] * clients + sent.client[at], return_inverse=True)
    version, client = keys // clients, keys % clients
    laplace = facts.hides[version] & versions.server_laplace
    std = np.where(laplace, versions.server_std[version], np.sqrt(variance[version]))
    with np.errstate(invalid="ignore"):
        sums = np.bincount(of, own[at], minlength=len(keys)).astype(np.float64)
    claims = np.minimum(np.bincount(of, sent.epsilon[at], minlength=len(keys)), versions.epsilon)
    ones = np.ones(len(keys), dtype=np.int64)
    return Releases(client, facts.granted[version], laplace, std, sums, ones, claims, ones)


def _weighed(sent: UploadTable, s: Floats) -> Floats:
    """(n,) what a neighbour moves the version by through each update; infinite or not, what weighs nothing does not."""
    moving = sent.weight > 0
    return np.where(moving, np.where(moving, sent.weight, 1.0) * s, 0.0)


def _version_of(sent: UploadTable, victim: int, copies: Ints) -> int:
    """Version that an update and its copies entered: they were in one buffer."""
    return int(max(sent.version[victim], sent.version[copies].max()))


def _copies(sent: UploadTable, versions: VersionTable, view: AdversaryView, facts: _Facts, s: Floats) -> Releases:
    """What victims give away some of whose copies are known, but not their own upload: the held copies, and what the
    version says beside them; or the version alone, where the victim's update itself did not enter it."""
    rows: list[tuple[int, int, bool, float, float, float]] = []
    variance = _variances(sent, versions, facts)
    for victim, copies in facts.echoed.items():
        held, left = copies[facts.direct[copies]], copies[facts.told[copies]]
        client = int(sent.client[victim])
        if client in view.members or (not len(held) and facts.told[victim]):
            continue
        sigma, gain = float(sent.std[victim]), 1.0
        if len(held):
            # Together they are one observation, with noise of this variance beside the victim's.
            unknown = 0.0 if (sent.std[held] == 0).any() else float(1 / np.sum(1 / np.square(sent.std[held])))
            std = float(np.hypot(sigma, np.sqrt(unknown)))
            rows.append((client, int(facts.moment[held].max()), False, std, float(s[victim]), sent.epsilon[victim]))
            gain = unknown / std**2 if std > 0 else 1.0
        if not (len(left) or facts.told[victim]):
            continue
        version = _version_of(sent, victim, copies)
        weight = float(sent.weight[left].sum()) + (float(sent.weight[victim]) if facts.told[victim] else 0.0)
        others = facts.told & (sent.client == client) & (sent.version == version)
        others[victim] = False
        moment = int(max(facts.granted[version], facts.moment[held].max(initial=0)))
        if versions.server_laplace and facts.hides[version]:
            shift = float(sent.model_sensitivity[victim]) * (weight + float(sent.weight[others].sum()))
            rows.append((client, moment, True, float(versions.server_std[version]), shift, sent.epsilon[victim]))
        else:
            # Of the victim's part only what the held copies leave open is new: the innovation of a Kalman filter.
            shift = gain * weight * float(s[victim]) + float(_weighed(sent, s)[others].sum())
            rows.append((client, moment, False, float(np.sqrt(variance[version])), shift, sent.epsilon[victim]))
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return Releases(
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        np.array(columns[2], dtype=bool),
        np.array(columns[3], dtype=np.float64),
        np.array(columns[4], dtype=np.float64),
        np.ones(len(rows), dtype=np.int64),
        np.array(columns[5], dtype=np.float64),
        np.ones(len(rows), dtype=np.int64),
    )
