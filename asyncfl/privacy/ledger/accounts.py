"""Accounts: the releases that one adversary holds, their epsilons, and how these grew over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.accountants import Epsilons
from asyncfl.privacy.ledger.releases import MODEL, Floats, MostExposed, Releases
from asyncfl.privacy.scheme import Guarantee


@dataclass(frozen=True)
class Account:
    """Releases of the clients that one adversary holds, with their epsilons: of each client, or of the most exposed."""

    adversary: str
    guarantee: Guarantee | None  # guarantee that the scheme claims for these releases; None: no claim
    history: Releases | MostExposed
    """The releases of each client, or (the account of the models) of the client for which they are worth most."""
    affecting: frozenset[int]
    """Clients whose data may have influenced anything that the adversary received."""
    unprotected: frozenset[int]
    """Clients of which the adversary received something without noise."""
    proven: Releases | MostExposed | None = None
    """The same as `history` with the sensitivities of `Scheme.proven_sensitivity`; None: it proves none."""
    flags: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Client (-1: the models) -> flags that this run adds to those of the scheme."""
    holders: tuple[int, ...] | None = None  # clients that have a row; None: all
    trusts: str = ""  # parties that a guarantee against this adversary trusts
    discrete: bool = False
    """Whether the clients' noise is discrete Gaussian: Renyi accounting of it is proven, the exact epsilon is that of
    Gaussian noise of the same size."""
    sums_proven: bool = True
    """Whether sums of the clients' noise are proven to hide as much as one draw of their variance. Otherwise `proven`
    holds what is proven."""

    @cached_property
    def releases(self) -> Releases:
        """(n,) releases, in the order of their moments."""
        return self.history.releases

    @cached_property
    def spent(self) -> Epsilons:
        """(n,) epsilon of each holder after each release."""
        return self.history.spent(self.delta)

    @property
    def delta(self) -> float:
        return 0.0 if self.guarantee is None else self.guarantee.delta


EPSILONS = ("naive", "basic", "advanced", "rdp", "exact")
MOST_CLIENTS = 200
"""Largest number of clients for which each client has its own rows."""

COLUMNS = ("holder", "client", "adversary", "moment", "releases", *(f"{name}_epsilon" for name in EPSILONS))
"""Columns of `SpendingTable`, with the number of the moment (the version, or one more after the last version)."""


def spending(
    uploads: Sequence[Account], models: Sequence[Account], clients: int, moments: int
) -> dict[str, NDArray[Any]]:
    """Return epsilon so far at each of `moments` moments 0.., as columns of equal length (see `COLUMNS`): clients (in a
    run of at most `MOST_CLIENTS`) and the model whenever an epsilon changed, the largest, median and mean at each
    moment."""
    parts = [part for account in uploads for part in _of_clients(account, clients, moments)]
    parts += [_changes("model", account, moments) for account in models]
    if not parts:
        return {column: np.array([]) for column in COLUMNS}
    return {column: np.concatenate([part[column] for part in parts]) for column in COLUMNS}


def largest(account: Account, clients: int, moments: int) -> dict[str, Floats]:
    """Return name of each epsilon in `EPSILONS` -> (moments,) the largest over the clients so far."""
    running = np.zeros((len(EPSILONS), moments))
    values = _values(account)[1:]
    # Epsilon never falls, so the largest so far is a running maximum.
    for row, column in zip(running, values, strict=True):
        np.maximum.at(row, account.releases.moment, column)
    return dict(zip(EPSILONS, np.maximum.accumulate(running, axis=1), strict=True))


def _values(account: Account) -> Floats:
    """Return (1 + epsilons, n) number of releases of the holder so far, and their epsilons."""
    spent = account.spent
    numbers = account.history.cumulative(account.releases.counted.astype(np.float64))
    return np.array([numbers, account.history.claimed, spent.basic, spent.advanced, spent.rdp, spent.exact])


def _of_clients(account: Account, clients: int, moments: int) -> Iterator[dict[str, NDArray[Any]]]:
    if clients <= MOST_CLIENTS:
        yield _changes("client", account, moments)
    values = _values(account)
    cuts = np.searchsorted(account.releases.moment, np.arange(moments + 1))
    current = np.zeros((len(values), clients))
    over: dict[str, Any] = {"largest": np.max, "median": np.median, "mean": np.mean}
    tables = np.zeros((len(over), len(values), moments))
    for moment in range(moments):
        now = slice(cuts[moment], cuts[moment + 1])
        # The last of several releases of one client overwrites the others.
        current[:, account.releases.holder[now]] = values[:, now]
        tables[:, :, moment] = [of(current, axis=1) for of in over.values()]
    for name, table in zip(over, tables, strict=True):
        yield _columns(name, np.full(moments, MODEL), account.adversary, np.arange(moments), table)


def _changes(holder: str, account: Account, moments: int) -> dict[str, NDArray[Any]]:
    of, moment, values = account.releases.holder, account.releases.moment, _values(account)
    _, backwards = np.unique((of * moments + moment)[::-1], return_index=True)
    last = len(of) - 1 - backwards
    before = np.roll(last, 1)
    same = (of[last] == of[before]) & (np.arange(len(last)) > 0)
    with np.errstate(invalid="ignore"):
        still = same & (values[1:, last] == values[1:, before]).all(axis=0)
    kept = last[~still]
    return _columns(holder, of[kept], account.adversary, moment[kept], values[:, kept])


def _columns(
    holder: str, client: NDArray[Any], adversary: str, moment: NDArray[Any], values: Floats
) -> dict[str, NDArray[Any]]:
    n = len(client)
    return {
        "holder": np.full(n, holder, dtype=object),
        "client": client,
        "adversary": np.full(n, adversary, dtype=object),
        "moment": moment,
        "releases": values[0],
        **{f"{name}_epsilon": column for name, column in zip(EPSILONS, values[1:], strict=True)},
    }
