"""What a run gave away: for each client and for the global model, the claimed epsilon beside the exact one.

Noise is calibrated before training, to the releases that are assumed; the ledger is drawn up afterwards, from
those that happened. Exact means exact for the scheme's own sensitivity: where that is heuristic, so is the
row, and `status` says it. Rows of one holder with the same adversary describe all its releases together.
`squared_mu` of several rows may be added, and `gaussian.exact_epsilon` of the sum bounds what an adversary
learns who holds all of them.

No credit is given for clients being drawn in secret: the server and an eavesdropper on the links see who
takes part. A scheme that states nothing about published models has no row for them: a model is computed from
the uploads, so what the server's rows say of them bounds it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.gaussian import exact_epsilon
from asyncfl.privacy.release import Contribution
from asyncfl.privacy.scheme import Guarantee, PrivacyContext, Scheme

NOTHING = Guarantee("none", "none", np.inf, 0.0, 0)
"""What holds where a scheme states nothing."""

COLUMNS = {
    "holder": "whose data the row is about: `client`, or `model` for those behind the published models",
    "client": "number of the client, -1 for the model",
    "adversary": "who holds the releases",
    "releases": "uploads of the client, or published models, that the adversary holds",
    "assumed_releases": "releases that the claim is made for",
    "sigma": "standard deviation of the noise on each parameter of one release, at the last clip norm",
    "sensitivity": "L2 sensitivity it was calibrated to, at the last clip norm; infinite without clipping",
    "noise_multiplier": "sigma/sensitivity; the smallest one where releases differ",
    "squared_mu": "sum over the releases of noise_multiplier^-2",
    "neighbours": "data sets that are to be indistinguishable",
    "status": "proven, heuristic, invalid or none: how well the sensitivity is founded",
    "claimed_epsilon": "epsilon stated for the assumed releases",
    "delta": "delta stated for them, and used for `exact_epsilon`",
    "naive_epsilon": "claimed_epsilon releases/assumed_releases: basic composition, which spends delta as often",
    "exact_epsilon": "smallest epsilon that holds for the releases that happened",
    "claim_holds": "exact_epsilon <= claimed_epsilon",
}
"""Column of a ledger -> what it says."""


def _rows(
    *,
    holder: str,
    adversary: str,
    clients: NDArray[np.int64],
    releases: NDArray[np.int64],
    sigma: NDArray[np.float64],
    sensitivity: NDArray[np.float64],
    multiplier: NDArray[np.float64],
    squared_mu: NDArray[np.float64],
    guarantee: Guarantee,
) -> dict[str, NDArray[Any]]:
    n = len(clients)
    if guarantee.delta > 0:
        exact = np.asarray(exact_epsilon(squared_mu, guarantee.delta))
    else:
        exact = np.where(squared_mu > 0, np.inf, 0.0)
    if guarantee.releases:
        naive = np.asarray(guarantee.epsilon * releases / guarantee.releases)
    else:
        naive = np.where(releases > 0, np.inf, 0.0)
    return {
        "holder": np.full(n, holder, dtype=object),
        "client": clients,
        "adversary": np.full(n, adversary, dtype=object),
        "releases": releases,
        "assumed_releases": np.full(n, guarantee.releases, dtype=np.int64),
        "sigma": sigma,
        "sensitivity": sensitivity,
        "noise_multiplier": multiplier,
        "squared_mu": squared_mu,
        "neighbours": np.full(n, guarantee.neighbours, dtype=object),
        "status": np.full(n, guarantee.status, dtype=object),
        "claimed_epsilon": np.full(n, guarantee.epsilon),
        "delta": np.full(n, guarantee.delta),
        "naive_epsilon": naive,
        "exact_epsilon": exact,
        # The claim is compared as it is printed: rounding does not break it.
        "claim_holds": exact <= guarantee.epsilon * (1 + 1e-9),
    }


def client_rows(
    scheme: Scheme,
    context: PrivacyContext,
    adversary: str,
    uploads: NDArray[np.integer],
    samples: NDArray[np.integer],
    clip_norm: float | None,
) -> dict[str, NDArray[Any]]:
    """One row per client about the uploads that one adversary holds, as columns (see `COLUMNS`).

    `uploads`: (clients,) different uploads of each client that it holds, >= 0; the same upload caught twice
    is one. `samples`: (clients,) local samples. `clip_norm`: the last one used; multipliers do not depend on
    it.
    """
    sizes, of_client = np.unique(samples, return_inverse=True)
    typical = [Contribution(client=-1, samples=int(size)) for size in sizes]
    sigma = np.array([scheme.upload_std(context, clip_norm, one) for one in typical], dtype=np.float64)
    sensitivity = np.array([scheme.upload_sensitivity(context, clip_norm, one) for one in typical], dtype=np.float64)
    multiplier = np.divide(sigma, sensitivity)[of_client]
    releases = np.asarray(uploads, dtype=np.int64)
    squared_mu = np.zeros(len(releases))
    held = releases > 0
    with np.errstate(divide="ignore"):
        squared_mu[held] = releases[held] / np.square(multiplier[held])
    return _rows(
        holder="client",
        adversary=adversary,
        clients=np.arange(len(releases)),
        releases=releases,
        sigma=sigma[of_client],
        sensitivity=sensitivity[of_client],
        multiplier=multiplier,
        squared_mu=squared_mu,
        guarantee=scheme.upload_guarantee(context) or NOTHING,
    )


def model_row(
    scheme: Scheme,
    context: PrivacyContext,
    adversary: str,
    aggregated: Sequence[int] | NDArray[np.integer],
    clip_norm: float | None,
) -> dict[str, NDArray[Any]] | None:
    """One row about the published models that one adversary holds, as columns; None where the scheme states nothing.

    `aggregated`: (n_models,) for each published model it holds, how many updates entered it; one that none entered
    releases nothing. A model of fewer updates than were planned carries more of the clients' noise and depends more on
    each client.
    """
    guarantee = scheme.model_guarantee(context)
    if guarantee is None:
        return None
    added = scheme.server_std(context, clip_norm)
    of_client = scheme.upload_std(context, clip_norm, Contribution(-1, context.smallest_samples))
    entered = np.asarray(aggregated, dtype=np.int64)
    counts, times = np.unique(entered[entered > 0], return_counts=True)
    shown = counts if len(counts) else np.array([context.participants])
    sigma = np.hypot(of_client / np.sqrt(shown), added)
    sensitivity = np.array([scheme.model_sensitivity(replace(context, participants=int(k)), clip_norm) for k in shown])
    multiplier = np.divide(sigma, sensitivity)
    worst = int(np.argmin(multiplier))
    with np.errstate(divide="ignore"):
        squared_mu = float(np.sum(times / np.square(multiplier))) if len(counts) else 0.0
    return _rows(
        holder="model",
        adversary=adversary,
        clients=np.array([-1]),
        releases=np.array([int(times.sum())]),
        sigma=sigma[[worst]],
        sensitivity=sensitivity[[worst]],
        multiplier=multiplier[[worst]],
        squared_mu=np.array([squared_mu]),
        guarantee=guarantee,
    )


def _judged_at(scheme: Scheme, clip_norm: float | None) -> float | None:
    # A run that collected nothing, or diverged, leaves no usable norm. Multipliers do not depend on it: take any.
    if clip_norm is not None and math.isfinite(clip_norm) and clip_norm > 0:
        return clip_norm
    return scheme.clip_norm_of(np.ones(1))


def ledger(
    scheme: Scheme,
    context: PrivacyContext,
    *,
    samples: NDArray[np.integer],
    uploads: Mapping[str, NDArray[np.integer]],
    models: Mapping[str, Sequence[int] | NDArray[np.integer]],
    clip_norm: float | None,
) -> dict[str, NDArray[Any]]:
    """The ledger of one seed as columns of equal length (see `COLUMNS`): clients first, then the global model.

    `samples`: (clients,) local samples. `uploads`: adversary -> (clients,) uploads it holds of each client; the usual
    adversaries are `eavesdropper`, `server`, and `both` together. `models`: adversary -> for each published model that
    it holds, the number of updates in it. `clip_norm`: the last one used; where there is none (nothing was collected),
    or it is not finite, `sigma` and `sensitivity` are told for payloads of norm 1.
    """
    clip_norm = _judged_at(scheme, clip_norm)
    parts = [client_rows(scheme, context, who, held, samples, clip_norm) for who, held in uploads.items()]
    for who, aggregated in models.items():
        row = model_row(scheme, context, who, aggregated, clip_norm)
        if row is not None:
            parts.append(row)
    if not parts:
        return {column: np.array([]) for column in COLUMNS}
    return {column: np.concatenate([part[column] for part in parts]) for column in COLUMNS}
