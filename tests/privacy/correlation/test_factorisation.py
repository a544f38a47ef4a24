"""Laws of all factorisations: the stream is the noise of the definition, and the encoder hides what is published."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from asyncfl.base.arrays import Floats
from asyncfl.privacy.correlation import Banded, Factorisation, Independent, Tree
from asyncfl.privacy.correlation.factorisation import real_participations
from tests.privacy.correlation.explicit_noise import noise_matrix

FACTORISATIONS: list[Factorisation] = [
    Independent(),
    Banded(bands=4),
    Banded(bands=3, coefficients="square_root"),
    Tree(estimator="nodes"),
    Tree(),
    Tree(restart=6),
    Tree(restart=4, complete=True),
    Tree(restart=5, complete=True),
    Tree(restart=6, complete=True, estimator="nodes"),
    Tree(restart=7, complete=True),
]
VERSIONS = 18
everywhere = pytest.mark.parametrize("factorisation", FACTORISATIONS, ids=repr)


def streamed(factorisation: Factorisation, versions: int) -> Floats:
    """(versions, draws): the noise of each version over the fresh noise that was drawn for it, a unit vector each."""
    drawn = 0

    def draw() -> Floats:
        nonlocal drawn
        drawn += 1
        return np.eye(1, 6 * versions, drawn - 1)[0]

    state, rows = factorisation.start(versions), []
    for _ in range(versions):
        row, state = factorisation.next(state, draw)
        rows.append(row)
    return np.array(rows)[:, :drawn]


@everywhere
def test_the_stream_has_the_covariance_of_the_definition(factorisation: Factorisation) -> None:
    streams, explicit = streamed(factorisation, VERSIONS), noise_matrix(factorisation, VERSIONS)
    np.testing.assert_allclose(streams @ streams.T, explicit @ explicit.T, rtol=1e-5, atol=1e-6)


@everywhere
def test_the_stated_standard_deviation_is_that_of_the_stream(factorisation: Factorisation) -> None:
    stated = [factorisation.std(version, VERSIONS) for version in range(1, VERSIONS + 1)]
    np.testing.assert_allclose(np.linalg.norm(streamed(factorisation, VERSIONS), axis=1), stated, rtol=1e-6)


@everywhere
def test_the_rows_of_c_say_no_less_than_the_versions(factorisation: Factorisation) -> None:
    """Who holds versions 1..v tells two patterns of steps apart by d^T S^-1 d, and the rows known by then say that."""
    explicit, encoder = noise_matrix(factorisation, VERSIONS), factorisation.encoder(VERSIONS)
    is_square = not isinstance(factorisation, Tree) or (
        factorisation.estimator == "nodes" and not factorisation.complete
    )
    random = np.random.default_rng(0)
    for seen in (1, 2, 5, 8, 13, VERSIONS):
        covariance = explicit[:seen] @ explicit[:seen].T
        rows = encoder.dense[encoder.known <= seen]
        for pattern in (random.random((20, VERSIONS)) < 0.4).astype(float):
            truth = pattern[:seen] @ np.linalg.solve(covariance, pattern[:seen])
            told = np.square(rows[:, :seen] @ pattern[:seen]).sum()
            assert told >= truth * (1 - 1e-9)
            if is_square:
                assert told == pytest.approx(truth, rel=1e-9)


@everywhere
@pytest.mark.parametrize(("most", "separation"), [(1, 1), (2, 1), (2, 3), (3, 4), (None, 4), (None, 7)])
def test_no_pattern_of_participations_moves_c_g_further_than_stated(
    factorisation: Factorisation, most: int | None, separation: int
) -> None:
    k = real_participations(VERSIONS, most, separation)
    dense = factorisation.encoder(VERSIONS).dense
    found = 0.0
    for number in range(1, k + 1):
        for versions in combinations(range(VERSIONS), number):
            if all(b - a >= separation for a, b in pairwise(versions)):
                signs = np.array(np.meshgrid(*[[1.0]] + [[1.0, -1.0]] * (number - 1))).reshape(number, -1)
                norms = np.linalg.norm(dense[:, versions] @ signs, axis=0)
                assert norms.max() == pytest.approx(norms[0])  # equal signs are the worst
                found = max(found, float(norms.max()))
    stated = factorisation.sensitivity(VERSIONS, k, separation)
    assert stated >= found * (1 - 1e-12)
    if not isinstance(factorisation, Tree):
        assert stated == pytest.approx(found)


@everywhere
def test_a_pattern_moves_c_g_as_far_as_its_columns_say(factorisation: Factorisation) -> None:
    encoder, steps = factorisation.encoder(VERSIONS), np.zeros(VERSIONS)
    steps[[0, 6, 13]] = 0.5, 2.0, 1.0
    assert encoder.sensitivity(steps) == pytest.approx(float(np.linalg.norm(encoder.dense @ steps)))
    entries = encoder.column(7)
    np.testing.assert_array_equal(encoder.version[entries], np.full(len(encoder.version[entries]), 7))
    assert np.square(encoder.value[entries]).sum() == pytest.approx(np.square(encoder.dense[:, 6]).sum())


def test_no_more_participations_fit_than_the_separation_allows() -> None:
    assert real_participations(10, None, 3) == 4
    assert real_participations(10, 2, 3) == 2
    assert real_participations(9, 5, 3) == 3


def test_the_published_models_have_less_noise_with_correlation_at_equal_privacy() -> None:
    """One participation in 256 versions: the order that the papers print, independent, tree, Honaker, banded."""
    versions = 256
    errors = []
    for one in (Independent(), Tree(estimator="nodes"), Tree(), Banded(bands=256, coefficients="optimal")):
        models = np.cumsum(noise_matrix(one, versions), axis=0) if isinstance(one, Banded | Independent) else None
        if models is None:
            models = np.cumsum(streamed(one, versions), axis=0)
        errors.append(one.sensitivity(versions, 1, 1) ** 2 * np.square(models).sum() / versions)
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == pytest.approx(128.5)  # (T + 1) / 2
