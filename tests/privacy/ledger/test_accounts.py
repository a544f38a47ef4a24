"""What an adversary's holdings are worth, where something is missing."""

from __future__ import annotations

import numpy as np
import pytest

from asyncfl.privacy.ledger.accounts import Account
from asyncfl.privacy.ledger.releases import Releases, one_release_each
from asyncfl.privacy.release import Release


def releases(multiplier: float) -> Releases:
    return one_release_each([Release("gaussian", multiplier, 1.0, 1, "replace", "heuristic", 2.0, 1e-5)])


def test_what_is_proven_is_asked_for_only_where_there_is_some() -> None:
    account = Account("server", releases(2.0), None, releases(2.0))
    for asked in (lambda: account.proven_releases, lambda: account.proven_spent):
        with pytest.raises(ValueError, match="nothing is proven"):
            asked()
    proven = Account("server", releases(2.0), None, releases(2.0), releases(1.0))
    assert proven.proven_releases.multiplier.tolist() == [1.0]
    assert proven.proven_spent.exact.tolist() == proven.spent.exact.tolist() == [np.inf], "at no delta"


def test_a_multiplier_is_scale_over_sensitivity():
    for distribution, std, sensitivity, multiplier in (
        ("gaussian", 3.0, 2.0, 1.5),
        ("laplace", 3.0, 2.0, 1.5 / 2**0.5),
        ("gaussian", 3.0, np.inf, 0.0),
        ("gaussian", 3.0, 0.0, np.inf),
        ("laplace", 0.0, 0.0, np.inf),
    ):
        release = Release(distribution, std, sensitivity, 1, "replace", "proven", 1.0, 0.0)
        assert release.multiplier == pytest.approx(multiplier)
