"""The releases of each client that follow from an adversary's view: one function for all adversaries.

Version v adds sum_j w_j (u_j + n_j) + N_v to a known model: updates u_j after clipping, their noise n_j with standard
deviation sigma_j, and the server's noise N_v with sigma_D. A neighbouring data set of client c moves each u_j of that
client by at most s_j. An adversary subtracts each upload u_j + n_j that it holds from the version that it entered:

    held uploads j of c      s_j against sigma_j
    each granted version v   sum_{j of c} w_j s_j  against  sqrt(sum_j w_j^2 sigma_j^2 + sigma_D^2),  j not held

sigma_D counts only if the adversary does not know N_v. Each n_j and N_v is in one row, so the rows of a client compose.
Clients that collude with the adversary subtract their own updates and noise from each version, whichever clients these
are: for client c the sum over j leaves out the `AdversaryView.colluders` other clients with the most noise.

Everything that is not a sum of Gaussian noise is bounded from above:

- An upload with Laplace noise, or with noise drawn during training, counts as held if the server adds no noise, and
  Laplace noise of the server is the only noise that counts.
- If weights depend on data (a non-linear rule, a detector), all updates that were considered count as held, also those
  that were left out, because the choice depends on each; the server's noise covers only fixed weights. Scores that such
  a decision used count as known to every adversary that holds the version (`AdversaryView.further`).
- An attacker's upload that was computed from other uploads reveals at most those. A copy (`copy_of`) adds its weight to
  the copied update, noise included.

Server noise that is correlated over versions (`Scheme.correlation`) has rows of its own, see `correlated`.

The bits behind an adaptive clip norm follow the same law with weight 1 (`UploadTable.bits`): a held upload comes with
its noisy bit, and a version with the noisy sum of the bits of all updates considered for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from asyncfl.privacy.correlation.encoder import Encoder
from asyncfl.privacy.ledger.correlated import correlated_releases
from asyncfl.privacy.ledger.releases import Releases, releases_of
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, Bools, Floats, Ints, UploadTable, VersionTable
from asyncfl.privacy.release import BitNoise


def known_releases(
    sent: UploadTable, versions: VersionTable, view: AdversaryView, sensitivity: Floats | None = None
) -> Releases:
    """Return the releases of each client outside the coalition that follow from `view`, in the order of their moments.

    `sensitivity`: (n,) of each upload; None: its own. Further releases of the view (scores) are not counted as uploads.
    """
    s = sent.sensitivity if sensitivity is None else sensitivity
    of_members = np.isin(sent.client, list(view.members))
    # Members know their own noise.
    sent = replace(sent, std=np.where(of_members, 0.0, sent.std))
    facts = _Facts.of(sent, versions, view, s)
    at = np.flatnonzero(facts.direct & ~of_members)
    ones = np.ones_like(sent.count)
    every = Releases(
        sent.client, facts.moment, sent.laplace, sent.std, s, sent.count, sent.epsilon, ones, sent.rate, ones < 0
    )
    parts = [every.select(at), _copies(sent, versions, view, facts, s)]
    if versions.encoder is None or view.knows_server_noise:
        parts.append(_residuals(sent, versions, view, facts, s))
    else:
        parts.append(_correlated(sent, versions, view, facts, s, versions.encoder))
    if sent.bits is not None:
        parts = _with_bits(Releases.concatenate(parts), _known_bits(sent, versions, view, sent.bits))
    if view.further:
        parts.append(releases_of(view.further))
        parts[-1].counted[:] = 0
    return Releases.concatenate(parts)


def _known_bits(sent: UploadTable, versions: VersionTable, view: AdversaryView, bits: BitNoise) -> Releases:
    """Return the releases of each client through its bits: updates with weight 1 in a sum that no defence touches."""
    n, clients = len(sent.task), int(sent.client.max(initial=0)) + 1
    keys, updates = np.unique(sent.version * clients + sent.client, return_counts=True)
    most = np.zeros(len(versions.server_std))
    np.maximum.at(most, keys // clients, updates)
    table = replace(
        sent,
        # The clip norm of a version's updates was made from all versions before.
        base_version=np.maximum(sent.base_version, sent.version - 1),
        weight=np.ones(n),
        laplace=np.zeros(n, dtype=bool),
        # An attacker that adds no noise to its update adds none to its bit.
        std=np.where(sent.std > 0, 0.0 if bits.by_server else bits.std, 0.0),
        sensitivity=np.full(n, bits.sensitivity),
        count=np.ones(n, dtype=np.int64),
        rate=np.ones(n),
        epsilon=np.zeros(n),
        additive=np.ones(n, dtype=bool),
        copy_of=np.full(n, -1),
        computed_from=(),
        bits=None,
    )
    std = most * (bits.std if bits.by_server else 0.0)
    sums = replace(versions, server_std=std, server_laplace=False, fixed_weights=True, epsilon=0.0)
    return known_releases(table, sums, replace(view, versions=view.granted(sent), further=()))


def _with_bits(updates: Releases, bits: Releases) -> list[Releases]:
    """Count a client's bits in the sensitivity of its update at the same moment; append the bits without an update."""
    moments = int(max(updates.moment.max(initial=0), bits.moment.max(initial=0))) + 1
    noisy = np.flatnonzero((updates.sigma > 0) & np.isfinite(updates.sensitivity) & ~updates.laplace)
    last = {key: row for row, key in zip(noisy, updates.holder[noisy] * moments + updates.moment[noisy], strict=True)}
    beside = np.array([last.get(key, -1) for key in bits.holder * moments + bits.moment], dtype=np.int64)
    joined = np.flatnonzero(beside >= 0)
    squares = np.bincount(beside[joined], bits.squared_mu[joined], minlength=len(updates.holder))
    moved = np.where(squares > 0, updates.sigma * np.sqrt(squares), 0.0)
    alone = bits.select(np.flatnonzero(beside < 0))
    alone.counted[:] = 0
    return [replace(updates, sensitivity=np.hypot(updates.sensitivity, moved)), alone]


@dataclass(frozen=True)
class _Facts:
    """Which uploads an adversary knows directly, and which only as part of a granted version."""

    granted: Ints  # (n_versions + 1,) moment from which each version is known
    direct: Bools  # (n,) whether the upload is known by itself: it is held, or no better protected than if it were
    in_sum: Bools  # (n,) known only as a part of a version
    moment: Ints  # (n,) moment at which a directly known upload is known
    hides: Bools  # (n_versions + 1,) whether the server's noise protects the version
    copies: dict[int, Ints]  # upload that is not known directly -> its copies that are held or part of the version

    @classmethod
    def of(cls, sent: UploadTable, versions: VersionTable, view: AdversaryView, s: Floats) -> _Facts:
        granted = view.granted(sent)
        held = view.uploads < NEVER
        looked_at = (sent.weight > 0) | (not versions.fixed_weights)
        in_sum = ~held & looked_at & (sent.version > 0) & (granted[sent.version] < NEVER)
        hides = (versions.server_std > 0) & (not view.knows_server_noise)
        shown = in_sum & ~sent.additive & ~hides[sent.version]
        if not versions.fixed_weights:
            shown = in_sum
        moment = np.where(held, view.uploads, np.where(in_sum, granted[sent.version], NEVER))
        in_sum, direct = in_sum & ~shown, held | shown
        revealed = _traces(sent, np.where(in_sum | direct, moment, NEVER))
        traced = revealed < NEVER
        moment, direct, in_sum = np.minimum(moment, revealed), direct | traced, in_sum & ~traced
        for reader, sources in sent.computed_from:
            if in_sum[reader] or direct[reader]:
                moment[sources] = np.minimum(moment[sources], moment[reader])
                direct[sources], in_sum[sources] = True, False
        echoed: dict[int, Ints] = {}
        for victim in np.unique(sent.copy_of[sent.copy_of >= 0]).tolist():
            copies = np.flatnonzero(sent.copy_of == victim)
            known = copies[in_sum[copies] | direct[copies]]
            if direct[victim] or not len(known):
                continue
            if not sent.additive[victim]:
                # It is a release of its own kind, and its copies are the same release.
                moment[victim] = min(int(moment[victim]), int(moment[known].min()))
                direct[victim], in_sum[victim] = True, False
            else:
                echoed[victim] = known
        return cls(granted, direct, in_sum, moment, hides, echoed)


def _traces(sent: UploadTable, moment: Ints) -> Ints:
    """Return (n,) moment at which each update is revealed by traces that known updates carry; NEVER: by none.

    `moment`: (n,) since when each update is known.
    """
    found = np.full(len(moment), NEVER)
    if sent.carried:
        readers, lasts = np.array(sent.carried).T
        np.minimum.at(found, lasts, moment[readers])
        earliest = found.tolist()
        for row, before in reversed([*enumerate(sent.previous.tolist())]):
            if before >= 0:
                earliest[before] = min(earliest[before], earliest[row])
        found = np.array(earliest)
    return found


def _variances(sent: UploadTable, versions: VersionTable, facts: _Facts) -> Floats:
    """Return (n_versions + 1,) variance of the Gaussian noise that protects the unknown part of each version."""
    in_sum = facts.in_sum & sent.additive
    squares = np.square(sent.weight[in_sum] * sent.std[in_sum])
    found = np.bincount(sent.version[in_sum], squares, minlength=len(versions.server_std))
    if not versions.server_laplace:
        found = found + np.where(facts.hides, np.square(versions.server_std), 0.0)
    for victim, copies in facts.copies.items():
        left = copies[facts.in_sum[copies]]
        if len(left) or facts.in_sum[victim]:
            own = sent.weight[victim] if facts.in_sum[victim] else 0.0
            copied = own + sent.weight[left].sum()
            variance = _combined(sent.std[np.append(victim, copies[facts.direct[copies]])])
            # Its own term, if it is in the version, was counted above.
            found[_version_of(sent, victim, copies)] += copied**2 * variance - np.square(own * sent.std[victim])
    return np.maximum(found, 0.0)


def _told(sent: UploadTable, facts: _Facts, colluders: int, version: Ints, client: Ints) -> Floats:
    """Return (n,) the most variance of the noise in a version that `colluders` clients other than `client` added, for
    n pairs of a `version` and a `client`."""
    found = np.zeros(len(version))
    if not colluders:
        return found
    in_sum = facts.in_sum & sent.additive
    weight, entered = np.where(in_sum, sent.weight, 0.0), sent.version.copy()
    for victim, copies in facts.copies.items():
        # Its noise is in the version as often as it was copied.
        weight[victim] += sent.weight[copies[facts.in_sum[copies]]].sum()
        entered[victim] = _version_of(sent, victim, copies)
    rows = np.flatnonzero(weight)
    for one in np.unique(version).tolist():
        mine = rows[entered[rows] == one]
        senders, of = np.unique(sent.client[mine], return_inverse=True)
        added = np.bincount(of, np.square(weight[mine] * sent.std[mine]), minlength=len(senders))
        order = np.argsort(-added, kind="stable")
        most, beyond = order[:colluders], order[colluders : colluders + 1]
        for place in np.flatnonzero(version == one).tolist():
            own = senders[most] == client[place]
            # A client is not among those that tell of it: the next one is.
            others = np.concatenate([most[~own], beyond]) if own.any() else most
            found[place] = added[others].sum()
    return found


def _combined(stds: Floats) -> float:
    """Return the variance of the best mean of observations with these independent noises (n,)."""
    return 0.0 if (stds == 0).any() else float(1 / np.sum(1 / np.square(stds)))


def _residuals(sent: UploadTable, versions: VersionTable, view: AdversaryView, facts: _Facts, s: Floats) -> Releases:
    """Return one release for each granted version and client in it: the part that is not known otherwise."""
    variance = _variances(sent, versions, facts)
    in_sum = facts.in_sum.copy()
    own = _influence(sent, s)
    for victim, copies in facts.copies.items():
        left = copies[facts.in_sum[copies]]
        of_victim = np.flatnonzero(facts.in_sum & (sent.client == sent.client[victim]))
        if facts.in_sum[victim] and not facts.direct[copies].any():
            own[victim] += s[victim] * sent.weight[left].sum()
        else:  # `_copies` returns it
            in_sum[of_victim[sent.version[of_victim] == _version_of(sent, victim, copies)]] = False
    if versions.server_laplace:
        by_server = facts.hides[sent.version]
        own = np.where(by_server, _influence(sent, sent.model_sensitivity), own)
    in_sum &= ~np.isin(sent.client, list(view.members))
    at = np.flatnonzero(in_sum)
    clients = int(sent.client.max(initial=0)) + 1
    keys, of = np.unique(sent.version[at] * clients + sent.client[at], return_inverse=True)
    version, client = keys // clients, keys % clients
    laplace = facts.hides[version] & versions.server_laplace
    left = np.maximum(variance[version] - _told(sent, facts, view.colluders, version, client), 0.0)
    std = np.where(laplace, versions.server_std[version], np.sqrt(left))
    with np.errstate(invalid="ignore"):
        sums = np.bincount(of, own[at], minlength=len(keys)).astype(np.float64)
    claims = np.minimum(np.bincount(of, sent.epsilon[at], minlength=len(keys)), versions.epsilon)
    ones = np.ones(len(keys), dtype=np.int64)
    return Releases(
        client, facts.granted[version], laplace, std, sums, ones, claims, ones, np.ones(len(ones)), ones < 0
    )


def _correlated(
    sent: UploadTable, versions: VersionTable, view: AdversaryView, facts: _Facts, s: Floats, encoder: Encoder
) -> Releases:
    """Return the same as `_residuals` where the server's noise is correlated; clients add none."""
    own, client, version = _influence(sent, s), sent.client, sent.version
    at = np.flatnonzero(facts.in_sum & ~np.isin(client, list(view.members)))
    copied = [
        (int(client[victim]), _version_of(sent, victim, copies), float(s[victim] * sent.weight[left].sum()))
        for victim, copies in facts.copies.items()
        if len(left := copies[facts.in_sum[copies]]) and client[victim] not in view.members
    ]
    clients, entered, influence = (list(column) for column in zip(*copied, strict=True)) if copied else ([], [], [])
    return correlated_releases(
        np.append(client[at], np.array(clients, dtype=np.int64)),
        np.append(version[at], np.array(entered, dtype=np.int64)),
        np.append(own[at], np.array(influence, dtype=np.float64)),
        facts.granted,
        versions,
        encoder,
    )


def _influence(sent: UploadTable, s: Floats) -> Floats:
    moving = sent.weight > 0
    return np.where(moving, np.where(moving, sent.weight, 1.0) * s, 0.0)


def _version_of(sent: UploadTable, victim: int, copies: Ints) -> int:
    """Return the version that update `victim` and its `copies` (rows of `sent`) entered: they were in one buffer."""
    return int(max(sent.version[victim], sent.version[copies].max()))


def _copies(sent: UploadTable, versions: VersionTable, view: AdversaryView, facts: _Facts, s: Floats) -> Releases:
    """Return the releases of clients whose upload is not known directly although copies of it are."""
    rows: list[tuple[int, int, bool, float, float, int, float, int, float]] = []
    variance = _variances(sent, versions, facts)
    for victim, copies in facts.copies.items():
        held, left = copies[facts.direct[copies]], copies[facts.in_sum[copies]]
        client, claim = int(sent.client[victim]), float(sent.epsilon[victim])
        if client in view.members or (not len(held) and facts.in_sum[victim]):
            continue
        gain = 1.0
        if len(held):
            # Together the held copies are one observation, with this variance in addition to the copied update's noise.
            unknown = _combined(sent.std[held])
            std = float(np.hypot(sent.std[victim], np.sqrt(unknown)))
            rows.append((client, int(facts.moment[held].max()), False, std, float(s[victim]), 1, claim, 1, 1.0))
            gain = unknown / std**2 if std > 0 else 1.0
        if not (len(left) or facts.in_sum[victim]):
            continue
        version = _version_of(sent, victim, copies)
        weight = float(sent.weight[left].sum()) + (float(sent.weight[victim]) if facts.in_sum[victim] else 0.0)
        others = facts.in_sum & (sent.client == client) & (sent.version == version)
        others[victim] = False
        moment = int(max(facts.granted[version], facts.moment[held].max(initial=0)))
        laplace = bool(versions.server_laplace and facts.hides[version])
        if laplace:
            std = float(versions.server_std[version])
            shift = float(sent.model_sensitivity[victim]) * (weight + float(sent.weight[others].sum()))
        else:
            # Only what the held copies leave unknown of the update is new: a Kalman filter's innovation.
            pair = np.array([version]), np.array([client])
            std = math.sqrt(max(0.0, variance[version] - _told(sent, facts, view.colluders, *pair)[0]))
            shift = gain * weight * float(s[victim]) + float(_influence(sent, s)[others].sum())
        rows.append((client, moment, laplace, std, shift, 1, claim, 1, 1.0))
    return Releases.of(rows)
