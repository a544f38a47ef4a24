"""Rows of a client behind correlated noise, by hand."""

import numpy as np
import pytest

from asyncfl.privacy.correlation import Banded, Tree
from asyncfl.privacy.correlation.encoder import Encoder
from asyncfl.privacy.ledger.correlated import correlated_releases
from asyncfl.privacy.ledger.releases import Releases
from asyncfl.privacy.ledger.views import NEVER, VersionTable

ENCODER = Banded(bands=2, coefficients="square_root").encoder(6)  # 1 and 1/2


def releases(
    steps: list[tuple[int, int, float]],
    encoder: Encoder = ENCODER,
    seen: int = 6,
    std: tuple[float, ...] = (0, 1, 1, 1, 1, 1, 1),
) -> Releases:
    """Of (client, version, influence), for an adversary that is granted the first `seen` versions as they come."""
    client, version, influence = (np.array(column) for column in zip(*steps, strict=True))
    granted = np.where(np.arange(7) <= seen, np.arange(7), NEVER)
    table = VersionTable(np.array(std, dtype=np.float64), False, True, 0.25, encoder)
    return correlated_releases(client, version, influence.astype(np.float64), granted, table, encoder)


def test_an_update_is_in_the_rows_of_its_band() -> None:
    found = releases([(3, 2, 0.8)])
    assert found.moment.tolist() == [2, 3]
    assert found.sensitivity.tolist() == [0.8, 0.4]
    assert found.counted.tolist() == [1, 0]
    assert found.epsilon.tolist() == [0.25, 0.0]
    assert set(found.holder) == {3}


def test_updates_of_neighbouring_versions_add_up_in_a_row() -> None:
    assert releases([(0, 2, 0.8), (0, 3, 0.6)]).sensitivity.tolist() == [0.8, pytest.approx(1.0), 0.3]
    assert releases([(0, 2, 0.5), (0, 2, 0.3)]).sensitivity.tolist() == [0.8, 0.4], "two updates in one version"


def test_rows_after_the_last_granted_version_are_not_known() -> None:
    assert releases([(0, 2, 0.8), (0, 5, 1.0)], seen=2).sensitivity.tolist() == [0.8]
    assert len(releases([(0, 5, 1.0)], seen=4).holder) == 0


def test_influence_counts_in_units_of_each_versions_noise() -> None:
    """Twice the noise in version 2: its step counts half, and the row of version 3 is shown in units of its own."""
    found = releases([(0, 2, 0.8)], std=(0, 1, 2, 4, 1, 1, 1))
    np.testing.assert_allclose(found.multiplier, [2 / 0.8, 2 * 2 / 0.8])
    assert found.sigma.tolist() == [2.0, 4.0]


def test_an_update_without_noise_is_bare_and_one_of_weight_zero_is_not_there() -> None:
    bare = (0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0)
    assert releases([(0, 2, 0.8)], std=bare).multiplier.tolist() == [0.0, 0.0]
    assert releases([(0, 2, 0.0), (0, 4, 1.0)], std=bare).moment.tolist() == [4, 5]


def test_each_client_has_rows_of_its_own() -> None:
    found = releases([(0, 1, 1.0), (7, 1, 0.5), (7, 4, 0.5)])
    squares = {client: found.squared_mu[found.holder == client].sum() for client in (0, 7)}
    assert squares == {0: pytest.approx(1.25), 7: pytest.approx(2 * 0.25 * 1.25)}


def test_a_tree_of_all_estimates_has_several_rows_at_once_and_counts_one() -> None:
    """Step 4 completes a leaf, the node over 3-4 and the root; steps 1 and 4 meet in the root alone."""
    found = releases([(0, 1, 1.0), (0, 4, 1.0)], encoder=Tree().encoder(6))
    assert found.moment.tolist() == [1, 2, 4, 4, 4]
    assert sorted(found.sensitivity.tolist()) == [1.0, 1.0, 1.0, 1.0, 2.0]
    assert found.counted.sum() == 2
