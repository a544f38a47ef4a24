"""Accounts of planned releases: typical uploads, and models of a given number of updates."""

from collections.abc import Iterable, Mapping

from asyncfl.privacy.ledger.accounts import Account
from asyncfl.privacy.ledger.releases import MODEL, MostExposed, Releases, model_release, releases_of, typical_uploads
from asyncfl.privacy.release import Release


def published_models(models: Iterable[tuple[int, Mapping[int, Release]]]) -> MostExposed:
    """From (moment, client -> release) of each model."""
    return MostExposed(releases_of((client, moment, one) for moment, of in models for client, one in of.items()))


def models_of(scheme, context, aggregated, clip_norm=None) -> MostExposed:
    """Models of `aggregated` (n_models,) updates each, for a client that is in all of them."""
    made = {int(k): model_release(scheme, context, clip_norm, int(k)) for k in set(aggregated) if k > 0}
    return published_models((moment, {MODEL: made[int(k)]}) for moment, k in enumerate(aggregated) if k > 0)


def uploads_of(scheme, context, samples, counts, clip_norm=None) -> Releases:
    """`counts` (clients,) typical uploads of each client, one at a time."""
    typical = typical_uploads(scheme, context, samples, clip_norm)
    return releases_of((client, turn, typical[client]) for client, n in enumerate(counts) for turn in range(int(n)))


def account(adversary, stated, history) -> Account:
    """All clients are affected; those with a release without noise are unprotected."""
    rows = history.clients if isinstance(history, MostExposed) else history
    bare = rows.holder[(rows.sigma == 0) & (rows.sensitivity > 0)].tolist()
    return Account(adversary, stated, history, frozenset(range(100)), frozenset(bare))


def upload_accounts(scheme, context, uploads: Mapping[str, Releases]) -> list[Account]:
    stated = scheme.upload_guarantee(context)
    return [account(who, stated, releases) for who, releases in uploads.items()]


def model_accounts(scheme, context, models: Mapping[str, MostExposed]) -> list[Account]:
    stated = scheme.model_guarantee(context)
    return [] if stated is None else [account(who, stated, own) for who, own in models.items()]
