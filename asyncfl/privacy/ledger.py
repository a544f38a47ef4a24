"""What a run gave away: for each client and for the global model, the claimed epsilon beside what others make of it.

Noise is calibrated before training, to the releases that are assumed; the ledger is drawn up afterwards, from
those that happened. All its epsilons are for the scheme's own sensitivity: where that is heuristic, so is the
row, and `status` and `flags` say it. Rows of one holder with the same adversary describe all its releases together.
`squared_mu` of several rows may be added, and `gaussian.exact_epsilon` of the sum bounds what an adversary
learns who holds all of them.

No credit is given for clients being drawn in secret: the server and an eavesdropper on the links see who
takes part. A scheme that states nothing about published models has no row for them: a model is computed from
the uploads, so what the server's rows say of them bounds it. What a run decides from the data beside its releases, a
clip norm or a budget, no row covers; `flags` name it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.histories import Spent
from asyncfl.privacy.flags import flags
from asyncfl.privacy.held import MODEL, Held, model_release, one_each, typical_uploads
from asyncfl.privacy.scheme import Guarantee, PrivacyContext, Scheme

NOTHING = Guarantee("none", "none", np.inf, 0.0, 0)
"""What holds where a scheme states nothing."""

COLUMNS = {
    "holder": "whose data the row is about: `client`, or `model` for those behind the published models",
    "client": "number of the client, -1 for the model",
    "adversary": "who holds the releases",
    "releases": "uploads of the client, or published models, that the adversary holds",
    "assumed_releases": "releases that the claim is made for",
    "distribution": "what the noise is drawn from",
    "sigma": "standard deviation of the noise on each parameter of the last release",
    "sensitivity": "L2 (laplace: L1) sensitivity it was calibrated to; infinite without clipping",
    "noise_multiplier": "noise over sensitivity; the smallest one where releases differ",
    "squared_mu": "sum over the Gaussian releases of noise_multiplier^-2",
    "neighbours": "data sets that are to be indistinguishable",
    "status": "proven, heuristic, invalid or none: how well the sensitivity is founded",
    "claimed_epsilon": "epsilon stated for the assumed releases",
    "delta": "delta stated for them, and used for all epsilons below",
    "naive_epsilon": "sum of the claims of all releases: basic composition of claims, which spends delta as often",
    "basic_epsilon": "basic composition of what each release's noise is worth",
    "advanced_epsilon": "advanced composition of the same",
    "rdp_epsilon": "epsilon by Renyi accounting",
    "exact_epsilon": "smallest epsilon that holds for the releases that happened (Laplace: by loss distributions)",
    "claim_holds": "exact_epsilon <= claimed_epsilon",
    "flags": "what stands in the way of the claim, see `privacy.flags`; several are separated by `; `",
}
"""Column of a ledger -> what it says."""


@dataclass(frozen=True)
class Account:
    """Everything that one adversary holds of the clients, or of the models, and what it is worth."""

    adversary: str
    held: Held
    stated: Guarantee | None
    """What the scheme claims of these releases."""

    @cached_property
    def spent(self) -> Spent:
        """Epsilon of each holder after each release."""
        return self.held.spent(self.delta)

    @cached_property
    def claimed(self) -> NDArray[np.float64]:
        """(n,) sum of the claims of the holder's releases so far."""
        return self.held.claimed

    @property
    def delta(self) -> float:
        """The delta that epsilons are for."""
        return 0.0 if self.stated is None else self.stated.delta


def upload_accounts(scheme: Scheme, context: PrivacyContext, uploads: Mapping[str, Held]) -> list[Account]:
    """What each adversary holds of the clients; the usual ones are `eavesdropper`, `server`, and `both` together."""
    stated = scheme.upload_guarantee(context)
    return [Account(who, releases, stated) for who, releases in uploads.items()]


def model_accounts(scheme: Scheme, context: PrivacyContext, models: Mapping[str, Held]) -> list[Account]:
    """What each adversary holds of the published models; none where the scheme states nothing about them."""
    stated = scheme.model_guarantee(context)
    return [] if stated is None else [Account(who, releases, stated) for who, releases in models.items()]


def ledger(
    scheme: Scheme,
    context: PrivacyContext,
    samples: NDArray[np.integer],
    uploads: Sequence[Account],
    models: Sequence[Account] = (),
    clip_norm: float | None = None,
) -> dict[str, NDArray[Any]]:
    """The ledger of one seed as columns of equal length (see `COLUMNS`): clients first, then the global model.

    `samples`: (clients,) local samples; `uploads` and `models` from the two functions above; `clip_norm`: the last one
    used. Who released nothing is shown with the noise and sensitivity that a release would have had.
    """
    typical = one_each(typical_uploads(scheme, context, samples, clip_norm))
    parts = [_rows("client", account, typical, flags(scheme, context, account.stated)) for account in uploads]
    if models:
        once = one_each([model_release(scheme, context, clip_norm, context.participants)])
        parts += [_rows("model", account, once, flags(scheme, context, account.stated, True)) for account in models]
    if not parts:
        return {column: np.array([]) for column in COLUMNS}
    return {column: np.concatenate([part[column] for part in parts]) for column in COLUMNS}


def _rows(holder: str, account: Account, typical: Held, flagged: list[str]) -> dict[str, NDArray[Any]]:
    """One row per holder: the clients 0.., or the model."""
    own, spent, stated = account.held, account.spent, account.stated or NOTHING
    n = len(typical.holder)
    of = np.zeros(len(own.holder), dtype=np.int64) if holder == "model" else own.holder
    releases = np.bincount(of, minlength=n)
    # The last of each holder's releases; what released nothing is shown as it would be.
    last = np.full(n, -1)
    last[of] = np.arange(len(of))
    some = last >= 0

    def at_last(column: NDArray[Any], otherwise: NDArray[Any]) -> NDArray[Any]:
        result = otherwise.copy()
        result[some] = column[last[some]]
        return result

    nothing = np.zeros(n)
    multiplier = typical.multiplier
    multiplier[some] = np.inf
    np.minimum.at(multiplier, of, own.multiplier)
    squared_mu = np.zeros(n)
    np.add.at(squared_mu, of, own.squared_mu)
    exact = at_last(spent.exact, nothing)
    return {
        "holder": np.full(n, holder, dtype=object),
        "client": np.array([MODEL]) if holder == "model" else np.arange(n),
        "adversary": np.full(n, account.adversary, dtype=object),
        "releases": releases,
        "assumed_releases": np.full(n, stated.releases, dtype=np.int64),
        "distribution": np.where(at_last(own.laplace, typical.laplace), "laplace", "gaussian").astype(object),
        "sigma": at_last(own.sigma, typical.sigma),
        "sensitivity": at_last(own.sensitivity, typical.sensitivity),
        "noise_multiplier": multiplier,
        "squared_mu": squared_mu,
        "neighbours": np.full(n, stated.neighbours, dtype=object),
        "status": np.full(n, stated.status, dtype=object),
        "claimed_epsilon": np.full(n, stated.epsilon),
        "delta": np.full(n, stated.delta),
        "naive_epsilon": at_last(account.claimed, nothing),
        "basic_epsilon": at_last(spent.basic, nothing),
        "advanced_epsilon": at_last(spent.advanced, nothing),
        "rdp_epsilon": at_last(spent.rdp, nothing),
        "exact_epsilon": exact,
        # The claim is compared as it is printed: rounding does not break it.
        "claim_holds": exact <= stated.epsilon * (1 + 1e-9),
        "flags": np.full(n, "; ".join(flagged), dtype=object),
    }
