"""What a run gave away: for each client and for the global model, the claimed epsilon beside what others make of it.

Each row has four epsilons: `claimed_epsilon` by the scheme, `exact_epsilon` for its sensitivity and the releases that
happened, `provable` without its assumptions, and `measured`, from below, once an audit has been made (`measured`).

Noise is calibrated before training, to the releases that are assumed; the ledger is drawn up afterwards, from
those that happened. All its epsilons are for the scheme's own sensitivity: where that is heuristic, so is the
row, and `status` and `flags` say it. Noise of an invalid sensitivity is accounted for with the true one: the claim is
what the scheme states, the other epsilons what the noise gives, infinite where no true sensitivity is known. A row
tells all that its adversary knows of its holder, by uploads, models and whatever else. Rows are not to be added up:
adversaries know much of the same, and what noise hides from each of two it may not hide from both (`both`).

Each client has the claim that is made to it. Where the claim is for one release and uploads have budgets of their own,
that is the largest budget of the uploads in the row; what basic composition makes of all of them is `naive_epsilon`.

A published model has one noise and a sensitivity for each client that is in it, by what its updates really weighed
there. Models compose for each client by itself, and the model's row is that of the client for whom they add up to most;
see `published` and `noise.client_weights`.

No credit is given for clients being drawn in secret: the server and an eavesdropper on the links see who
takes part. Where a scheme states nothing about published models, what is known of their clients has a row all the same,
without a claim. What a run decides from the data beside its releases, a clip norm, a budget or whom it asks, no row
covers: `flags` name it, and nothing is proven of whose data may have had a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.context import PrivacyContext
from asyncfl.privacy.flags import CLASSICAL, DELTA, FLAGS, HEURISTIC, INVALID, NO_NOISE, UNCOVERED
from asyncfl.privacy.ledger.accounts import Account
from asyncfl.privacy.ledger.model_releases import PublishedModels, model_release
from asyncfl.privacy.ledger.releases import MODEL, Releases, one_release_each, typical_uploads
from asyncfl.privacy.scheme import Guarantee, Scheme

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_GUARANTEE = Guarantee("none", "none", "none", np.inf, 0.0, 0)
"""What holds where a scheme states nothing."""

COLUMNS = {
    "holder": "whose data the row is about: `client`, or `model` for the client about whom published models say most",
    "client": "number of the client, -1 for the model",
    "adversary": "who holds the releases: eavesdropper, server, both, curious (a coalition of clients), public_last "
    "(who is given the last model), public (all models)",
    "trusts": "whom what is said here trusts to follow the protocol, and not to tell",
    "releases": "uploads of the client that the adversary holds, and versions that say more of it than these; of a "
    "model's row published models. Scores are in all epsilons, but not in this number",
    "assumed_releases": "releases that the claim is made for",
    "distribution": "what the noise is drawn from",
    "sigma": "standard deviation of the noise on each parameter of the last release",
    "sensitivity": "L2 (laplace: L1) sensitivity it is accounted for with: what it was calibrated to, or the true one "
    "where that is invalid; infinite without clipping",
    "noise_multiplier": "noise over sensitivity; the smallest one where releases differ",
    "squared_mu": "sum over the Gaussian releases of noise_multiplier^-2",
    "mu": "Gaussian differential privacy of all of them: the root of squared_mu; null with Laplace noise",
    "rho": "zero-concentrated differential privacy of all of them",
    "unit": "sample or client: whose data neighbours differ in",
    "neighbours": "data sets that are to be indistinguishable: `replace`, those of the unit are others; `zero_out`, a "
    "client's updates count as zero",
    "status": "proven, heuristic, disproved (by an audit), invalid or none: how well the sensitivity is founded",
    "claimed_epsilon": "epsilon stated for the assumed releases; where each upload has its own budget, the largest",
    "delta": "delta stated for them, and used for all epsilons below",
    "naive_epsilon": "sum of the claims of all releases: basic composition of claims, which spends delta as often",
    "basic_epsilon": "basic composition of what each release's noise is worth",
    "advanced_epsilon": "advanced composition of the same",
    "rdp_epsilon": "epsilon by Renyi accounting",
    "exact_epsilon": "smallest epsilon that holds for the releases that happened (Laplace: by loss distributions)",
    "provable": "smallest epsilon that is proven for the releases that happened, whatever the scheme assumes; infinite "
    "where nothing is",
    "measured": "lower bound on epsilon that audits found, the largest; null: none was made of this row",
    "measured_by_twins": "what twins of this run show, given the models that tasks began from",
    "measured_by_canaries": "what a run with canaries shows of its worst client, at 95 % confidence; it stands with "
    "the client, of those with canaries, who fares worst here",
    "claim_holds": "true: provable <= claimed_epsilon; false: exact_epsilon (infinite only where there is no noise) or "
    "measured is above it; null where nothing is claimed, where no bound is known, and where the claim is neither "
    "proven nor broken",
    "flags": "what stands in the way of the claim, see `privacy.flags`; several are separated by `; `",
}
"""Column of a ledger -> what it says."""


def ledger(
    scheme: Scheme,
    context: PrivacyContext,
    samples: NDArray[np.integer],
    uploads: Sequence[Account],
    models: Sequence[Account] = (),
    clip_norm: float | None = None,
    promised: Sequence[Guarantee | None] | None = None,
) -> dict[str, NDArray[Any]]:
    """The ledger of one seed as columns of equal length (see `COLUMNS`): clients first, then the global model.

    `samples`: (clients,) local samples; `uploads` and `models`: accounts of clients and of published models;
    `clip_norm`: the last one used; `promised`: (clients,) what is promised to each, None: what the scheme states of its
    uploads. Who released nothing is shown with the noise and sensitivity that a release would have had.
    """
    typical = one_release_each(typical_uploads(scheme, context, samples, clip_norm))
    if promised is None:
        promised = [scheme.upload_guarantee(context, client) for client in range(len(samples))]
    find = partial(_flags, scheme, context, of_models=False)
    parts = [_rows("client", account, typical, promised, find, samples) for account in uploads]
    if models:
        once = one_release_each([model_release(scheme, context, clip_norm, context.participants)])
        find = partial(_flags, scheme, context, of_models=True)
        most = samples.max(initial=0, keepdims=True)
        parts += [_rows("model", account, once, [account.guarantee], find, most, len(samples)) for account in models]
    if not parts:
        return {column: np.array([]) for column in COLUMNS}
    return {column: np.concatenate([part[column] for part in parts]) for column in COLUMNS}


def claim_holds(
    status: NDArray[np.object_],
    claimed: Floats,
    provable: Floats,
    exact: Floats,
    flags: NDArray[np.object_],
    measured: Floats | None = None,
) -> NDArray[np.object_]:
    """(n,) whether each claim is proven (True), broken (False), or neither (None); see `COLUMNS`.

    An infinite `exact` breaks a claim where something was released without noise (`flags`); else nothing is known that
    bounds epsilon, which breaks none. NaN in `measured`: not measured. Numbers are compared as they are printed:
    rounding breaks no claim.
    """
    most = claimed * (1 + 1e-9)
    bare = np.array([NO_NOISE in found.split("; ") for found in flags], dtype=bool)
    broken = (exact > most) & (np.isfinite(exact) | bare)
    if measured is not None:
        broken |= measured > most
    found = np.full(len(claimed), None, dtype=object)
    # What is argued for is not proven, even where a budget is so large that another argument would do.
    found[(provable <= most) & (status != "heuristic") & (status != "disproved")] = True
    found[broken] = False
    found[np.isinf(claimed)] = None
    return found


def flags_of(
    scheme: Scheme,
    context: PrivacyContext,
    stated: Guarantee | None,
    epsilon: float | None = None,
    of_models: bool = False,
) -> list[str]:
    """What stands in the way of what a scheme states about uploads, or `of_models` about published models.

    `epsilon`: largest that one of the releases was calibrated for; None: its share of what is stated. Flags of the
    package in the order of `FLAGS`, then the scheme's own.
    """
    if stated is None or scheme.off:
        return []
    status = {"heuristic": [HEURISTIC], "invalid": [INVALID]}.get(stated.status, [])
    once = stated.epsilon_per_release if epsilon is None else epsilon
    one = scheme.classical(context, once, of_models)
    past = [CLASSICAL] if one is not None and one.past_its_limit else []
    found = [*status, *past, *scheme.flags(context, once, of_models)]
    return [*(flag for flag in FLAGS if flag in found), *(flag for flag in found if flag not in FLAGS)]


def _flags(
    scheme: Scheme, context: PrivacyContext, stated: Sequence[Guarantee | None], once: Floats, of_models: bool
) -> NDArray[Any]:
    """(n,) flags of each row; `once`: (n,) largest epsilon that one of its releases was calibrated for."""
    known: dict[tuple[Guarantee | None, float], str] = {}
    for one in zip(stated, once.tolist(), strict=True):
        if one not in known:
            known[one] = "; ".join(flags_of(scheme, context, *one, of_models=of_models))
    return np.array([known[one] for one in zip(stated, once.tolist(), strict=True)], dtype=object)


def _rows(
    holder: str,
    account: Account,
    typical: Releases,
    promised: Sequence[Guarantee | None],
    find: Callable[[Sequence[Guarantee | None], Floats], NDArray[Any]],
    samples: NDArray[np.integer],
    clients: int | None = None,
) -> dict[str, NDArray[Any]]:
    """One row per holder, the clients 0.. or the model, with what was `promised` to it and the flags found in that."""
    own, spent = account.releases, account.spent
    stated = [one or NO_GUARANTEE for one in promised]
    n = len(typical.holder)
    of = np.zeros(len(own.holder), dtype=np.int64) if holder == "model" else own.holder
    releases = np.bincount(of, own.counted, minlength=n).astype(np.int64)
    last = _last(of, n)
    some = last >= 0
    shown = np.where(_last(of, n, own.counted > 0) >= 0, _last(of, n, own.counted > 0), last)

    def at_last(column: NDArray[Any], otherwise: NDArray[Any], last: NDArray[np.int64] = last) -> NDArray[Any]:
        # What released nothing is shown as it would be.
        result = otherwise.copy()
        result[last >= 0] = column[last[last >= 0]]
        return result

    nothing = np.zeros(n)
    multiplier = typical.multiplier
    multiplier[some] = np.inf
    np.minimum.at(multiplier, of, own.multiplier)
    once = typical.epsilon.copy()
    once[some] = 0.0
    np.maximum.at(once, of, own.epsilon)
    assumed = np.array([one.releases for one in stated], dtype=np.int64)
    # Uploads may have budgets of their own.
    claimed = np.where((assumed == 1) & some & (holder == "client"), once, [one.epsilon for one in stated])
    status = np.array([one.status for one in stated], dtype=object)
    exact = at_last(spent.exact, nothing)
    squared_mu, laplace = (
        at_last(account.summed_mu, nothing),
        at_last(own.cumulative(own.laplace.astype(float)), nothing) > 0,
    )
    clients = len(samples) if clients is None else clients
    too_large = [
        one.delta >= 1 / max(clients if one.unit == "client" else int(size), 1)
        for one, size in zip(stated, samples, strict=True)
    ]
    further = _with_bare(account, holder, status)
    flags = _merged(find(promised, once), further, holder, too_large)
    proven = np.full(n, np.inf)
    if account.proven is not None and (status != "proven").any():
        last_proven = _last(np.zeros_like(of) if holder == "model" else account.proven_releases.holder, n)
        proven = at_last(account.proven_spent.exact, nothing, last_proven)
    provable = np.where((status == "proven") | (exact == 0), exact, np.where(status == "heuristic", proven, np.inf))
    uncovered = np.array([any(flag in found for flag in UNCOVERED) for found in flags], dtype=bool)
    provable[uncovered & _touched(holder, account, n)] = np.inf
    rows: dict[str, NDArray[Any]] = {
        "holder": np.full(n, holder, dtype=object),
        "client": np.array([MODEL]) if holder == "model" else np.arange(n),
        "adversary": np.full(n, account.adversary, dtype=object),
        "trusts": np.full(n, account.trusts, dtype=object),
        "releases": releases,
        "assumed_releases": assumed,
        "distribution": np.where(at_last(own.laplace, typical.laplace, shown), "laplace", "gaussian").astype(object),
        "sigma": at_last(own.sigma, typical.sigma, shown),
        "sensitivity": at_last(own.sensitivity, typical.sensitivity, shown),
        "noise_multiplier": multiplier,
        "squared_mu": squared_mu,
        "mu": np.where(laplace, np.nan, np.sqrt(squared_mu)),
        "rho": at_last(own.cumulative(own.rho), nothing),
        "unit": np.array([one.unit for one in stated], dtype=object),
        "neighbours": np.array([one.neighbours for one in stated], dtype=object),
        "status": status,
        "claimed_epsilon": claimed,
        "delta": np.array([one.delta for one in stated]),
        "naive_epsilon": at_last(account.claimed, nothing),
        "basic_epsilon": at_last(spent.basic, nothing),
        "advanced_epsilon": at_last(spent.advanced, nothing),
        "rdp_epsilon": at_last(spent.rdp, nothing),
        "exact_epsilon": exact,
        "provable": provable,
        **dict.fromkeys(("measured", "measured_by_twins", "measured_by_canaries"), np.full(n, np.nan)),
        "claim_holds": claim_holds(status, claimed, provable, exact, flags),
        "flags": flags,
    }
    if holder == "client" and account.holders is not None:
        rows = {name: column[list(account.holders)] for name, column in rows.items()}
    return rows


def _touched(holder: str, account: Account, n: int) -> NDArray[np.bool_]:
    """(n,) whether the adversary may hold anything that follows from the data of each holder."""
    if account.affecting is None:
        return np.ones(n, dtype=bool)
    return np.full(n, bool(account.affecting)) if holder == "model" else np.isin(np.arange(n), list(account.affecting))


def _with_bare(account: Account, holder: str, status: NDArray[np.object_]) -> dict[int, tuple[str, ...]]:
    """Holder -> what a run adds to its flags, with those of whom something was released without noise."""
    bare = account.unprotected
    if bare is None:
        rows = account.history.clients if isinstance(account.history, PublishedModels) else account.history
        bare = frozenset(rows.holder[(rows.sigma == 0) & (rows.sensitivity > 0)].tolist())
    found = dict(account.flags)
    for place in [MODEL] * bool(bare) if holder == "model" else sorted(bare):
        if status[place] != "none":
            found[place] = (*found.get(place, ()), NO_NOISE)
    return found


def _last(of: Ints, n: int, chosen: NDArray[np.bool_] | None = None) -> Ints:
    """(n,) place of the last of each holder's releases, of the `chosen` ones; -1: there is none."""
    places = np.arange(len(of)) if chosen is None else np.flatnonzero(chosen)
    last = np.full(n, -1)
    last[of[places]] = places
    return last


def _merged(
    found: NDArray[Any], further: Mapping[int, tuple[str, ...]], holder: str, too_large: Sequence[bool]
) -> NDArray[Any]:
    """(n,) flags of the scheme and those of the run, each once, in the order of `FLAGS`."""
    merged = found.copy()
    for place in range(len(found)):
        own = further.get(MODEL if holder == "model" else place, ())
        every = [*(found[place].split("; ") if found[place] else []), *own, *([DELTA] if too_large[place] else [])]
        known = [flag for flag in FLAGS if flag in every]
        merged[place] = "; ".join([*known, *dict.fromkeys(flag for flag in every if flag not in FLAGS)])
    return merged
