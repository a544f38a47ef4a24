"""The rows of the ledger: for each client and for the global model, the claimed epsilon next to the computed ones.

A row contains everything that its adversary knows of the holder. Rows must not be added up: adversaries share much of
their knowledge. Noise for an invalid sensitivity is accounted for with the true one. Secret sampling of clients has
credit where a proof is at hand (`secret_draws`). Decisions of a run that depend on data (a clip norm, a budget, the
selection of clients) are covered by no row: `flags` name them, and nothing is proven for clients whose data may have
influenced them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.tables import LedgerTable, columns_of
from asyncfl.privacy.flags import CLASSICAL, DELTA, FLAGS, HEURISTIC, INVALID, NO_NOISE, UNCOVERED
from asyncfl.privacy.ledger.accounts import Account
from asyncfl.privacy.ledger.releases import MODEL, Floats, Ints, model_release, releases_of, typical_uploads
from asyncfl.privacy.release import PrivacyContext, Release
from asyncfl.privacy.scheme import Guarantee, Scheme

NO_GUARANTEE = Guarantee("none", "none", "none", np.inf, 0.0, 0)

COLUMNS = tuple(name for name in columns_of(LedgerTable) if name != "seed")


def ledger(
    scheme: Scheme,
    context: PrivacyContext,
    samples: NDArray[np.integer],
    uploads: Sequence[Account],
    models: Sequence[Account] = (),
    clip_norm: float | None = None,
    promised: Sequence[Guarantee | None] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the ledger of one seed as columns of equal length (see `LedgerTable`): clients first, then the model.

    `samples`: (clients,) local samples; `clip_norm`: the last one used; `promised`: (clients,) guarantee of each
    client, None: the scheme's guarantee for uploads. A client that released nothing is shown with a typical release.
    """
    typical = typical_uploads(scheme, context, samples, clip_norm)
    if promised is None:
        promised = [scheme.upload_guarantee(context, client) for client in range(len(samples))]
    sizes = samples.tolist()
    parts = [_rows(scheme, context, account, typical, promised, sizes, len(sizes)) for account in uploads]
    if models:
        once, most = [model_release(scheme, context, clip_norm, context.participants)], [max(sizes, default=0)]
        parts += [
            _rows(scheme, context, account, once, [account.guarantee], most, len(sizes), of_models=True)
            for account in models
        ]
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
    """Return (n,) whether each claim is proven (True), broken (False), or neither (None); see `COLUMNS`.

    An infinite `exact` breaks a claim only if something was released without noise (`flags`). NaN in `measured`: not
    measured. Comparisons have a tolerance of 1e-9.
    """
    most = claimed * (1 + 1e-9)
    exact = np.where(status == "proven", np.minimum(exact, provable), exact)
    bare = np.array([NO_NOISE in found.split("; ") for found in flags], dtype=bool)
    broken = (exact > most) & (np.isfinite(exact) | bare)
    if measured is not None:
        broken |= measured > most
    found = np.full(len(claimed), None, dtype=object)
    # A heuristic claim is not proven, even if the budget is so large that the provable epsilon is below it.
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
    """Return the objections to the guarantee of a scheme, in the order of `FLAGS`, then the scheme's own. `epsilon`:
    the largest that one of the releases was calibrated for; None: its share of the claim."""
    if stated is None or scheme.off:
        return []
    status = {"heuristic": [HEURISTIC], "invalid": [INVALID]}.get(stated.status, [])
    once = stated.epsilon_per_release if epsilon is None else epsilon
    one = scheme.classical(context, once, of_models)
    past = [CLASSICAL] if one is not None and one.past_its_limit else []
    return _in_order([*status, *past, *scheme.flags(context, once, of_models)])


def scheme_notes(scheme: Scheme, context: PrivacyContext) -> list[str]:
    """Return sentences for readers of the results: an explanation of each flag of a scheme, and the scheme's notes."""
    of_uploads = flags_of(scheme, context, scheme.upload_guarantee(context))
    of_models = flags_of(scheme, context, scheme.model_guarantee(context), of_models=True)
    flags = _in_order([*of_uploads, *of_models])
    return [f"{flag}: {FLAGS[flag]}" for flag in flags if flag in FLAGS] + scheme.notes(context)


def _in_order(flags: Sequence[str]) -> list[str]:
    """Return the flags without duplicates, in the order of `FLAGS`, then the scheme's own."""
    return [*(flag for flag in FLAGS if flag in flags), *dict.fromkeys(flag for flag in flags if flag not in FLAGS)]


def _rows(
    scheme: Scheme,
    context: PrivacyContext,
    account: Account,
    typical_releases: Sequence[Release],
    promised: Sequence[Guarantee | None],
    samples: Sequence[int],
    clients: int,
    of_models: bool = False,
) -> dict[str, NDArray[Any]]:
    """Return one row per holder (the clients 0.., or the model) with its guarantee and the flags."""
    own, spent = account.releases, account.spent
    typical = releases_of((holder, 0, release) for holder, release in enumerate(typical_releases))
    stated = [one or NO_GUARANTEE for one in promised]
    n = len(typical.holder)
    of = np.zeros(len(own.holder), dtype=np.int64) if of_models else own.holder
    last, last_counted = _last(of, n), _last(of, n, own.counted > 0)
    some = last >= 0
    shown = np.where(last_counted >= 0, last_counted, last)

    def at_last(column: NDArray[Any], otherwise: NDArray[Any] | float = 0.0, last: Ints = last) -> NDArray[Any]:
        # A holder without releases is shown with a typical one.
        result = np.full(n, otherwise) if isinstance(otherwise, float) else otherwise.copy()
        result[last >= 0] = column[last[last >= 0]]
        return result

    multiplier, once = typical.multiplier, typical.epsilon.copy()
    multiplier[some], once[some] = np.inf, 0.0
    np.minimum.at(multiplier, of, own.multiplier)
    np.maximum.at(once, of, own.epsilon)
    assumed = np.array([one.releases for one in stated], dtype=np.int64)
    # If uploads have their own budgets, the claim is the largest of them.
    claimed = np.where((assumed == 1) & some & (not of_models), once, [one.epsilon for one in stated])
    status = np.array([one.status for one in stated], dtype=object)
    exact, squared_mu = at_last(spent.exact), at_last(account.history.summed_mu)
    laplace = at_last(account.history.cumulative(own.laplace.astype(float))) > 0
    flags = np.full(n, "", dtype=object)
    known: dict[tuple[Guarantee | None, float], list[str]] = {}
    for place, key in enumerate(zip(promised, once.tolist(), strict=True)):
        if key not in known:
            known[key] = flags_of(scheme, context, *key, of_models=of_models)
        found = [*known[key], *account.flags.get(MODEL if of_models else place, ())]
        one = stated[place]
        if one.status != "none" and (bool(account.unprotected) if of_models else place in account.unprotected):
            found.append(NO_NOISE)
        if one.delta >= 1 / max(clients if one.unit == "client" else samples[place], 1):
            found.append(DELTA)
        flags[place] = "; ".join(_in_order(found))
    proven = np.full(n, np.inf)
    if account.proven is not None:
        proven_of = account.proven.releases.holder
        last_proven = _last(np.zeros_like(proven_of) if of_models else proven_of, n)
        proven_spent = account.proven.spent(account.delta)
        proven = at_last(proven_spent.rdp if account.discrete else proven_spent.exact, last=last_proven)
    sure = at_last(spent.rdp) if account.discrete else exact
    if not account.sums_proven:
        sure = np.where(exact == 0, 0.0, proven)
    # A proven sensitivity may be below the one that the noise was calibrated to: SAFL's printed step of length lr.
    least = np.where(status == "proven", np.minimum(sure, proven), sure)
    provable = np.where((status == "proven") | (exact == 0), least, np.where(status == "heuristic", proven, np.inf))
    affected = bool(account.affecting) if of_models else np.isin(np.arange(n), list(account.affecting))
    provable[np.array([any(flag in found for flag in UNCOVERED) for found in flags], dtype=bool) & affected] = np.inf
    rows: dict[str, NDArray[Any]] = {
        "holder": np.full(n, "model" if of_models else "client", dtype=object),
        "client": np.array([MODEL]) if of_models else np.arange(n),
        "adversary": np.full(n, account.adversary, dtype=object),
        "trusts": np.full(n, account.trusts, dtype=object),
        "releases": at_last(account.history.cumulative(own.counted.astype(np.float64))).astype(np.int64),
        "assumed_releases": assumed,
        "distribution": np.where(at_last(own.laplace, typical.laplace, shown), "laplace", "gaussian").astype(object),
        "sigma": at_last(own.sigma, typical.sigma, shown),
        "sensitivity": at_last(own.sensitivity, typical.sensitivity, shown),
        "noise_multiplier": multiplier,
        "squared_mu": squared_mu,
        "mu": np.where(laplace, np.nan, np.sqrt(squared_mu)),
        "rho": at_last(account.history.cumulative(own.rho)),
        "unit": np.array([one.unit for one in stated], dtype=object),
        "neighbours": np.array([one.neighbours for one in stated], dtype=object),
        "status": status,
        "claimed_epsilon": claimed,
        "delta": np.array([one.delta for one in stated]),
        "naive_epsilon": at_last(account.history.claimed),
        "basic_epsilon": at_last(spent.basic),
        "advanced_epsilon": at_last(spent.advanced),
        "rdp_epsilon": at_last(spent.rdp),
        "exact_epsilon": exact,
        "provable": provable,
        **dict.fromkeys(("measured", "measured_by_twins", "measured_by_canaries"), np.full(n, np.nan)),
        "claim_holds": claim_holds(status, claimed, provable, exact, flags),
        "flags": flags,
    }
    holders = slice(None) if account.holders is None else list(account.holders)
    return {name: column[holders] for name, column in rows.items()}


def _last(of: Ints, n: int, chosen: NDArray[np.bool_] | None = None) -> Ints:
    """Return (n,) index of each holder's last release among the `chosen` ones; -1: none."""
    places = np.arange(len(of)) if chosen is None else np.flatnonzero(chosen)
    last = np.full(n, -1)
    last[of[places]] = places
    return last
