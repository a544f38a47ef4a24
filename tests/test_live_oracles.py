"""Rules, attacks and accounting against the libraries themselves, on random numbers, where these are installed.

What they gave for fixed numbers is stored beside the tests of each component: without them the tests here are skipped.
What they depend on is at odds with our versions (flwr), or would replace torch (byzfl). So they go into a folder of
their own, which is looked at last:

    pip install --target oracles --no-deps byzfl==0.0.11 opacus==1.6.0 opt-einsum
    pip install --target oracles flwr==1.41.0
    pip install --target oracles --no-deps jax-privacy==2.0.0
    ASYNCFL_ORACLES=oracles pytest tests/test_live_oracles.py

What byzfl imports for its pictures and data is stood in for, and so are the modules of jax-privacy other than its
auditing. dp-accounting, which is always there, is compared with in `tests/privacy`.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch  # noqa: F401 - before byzfl, which else would import it among stand-ins
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from numpy.typing import NDArray

from asyncfl.defences import (
    Bulyan,
    CentredClipping,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    MultiKrum,
    NearestNeighbourMixing,
    TrimmedMean,
)
from asyncfl.privacy.accounting.accountants import COARSE, curve
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent
from asyncfl.privacy.estimators import one_run
from asyncfl.testing import view
from asyncfl.threats import Alie, Ipm, Mimic, SignFlip

Updates = NDArray[np.float64]

SEEDS = st.integers(0, 2**32 - 1)
CASES = examples(max_examples=60)


@contextlib.contextmanager
def stood_in(*names: str) -> Iterator[None]:
    """Modules of these names that do nothing; afterwards those that were there are back."""
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.modules.update({name: MagicMock(__spec__=None) for name in names})
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def installed(name: str, *stand_ins: str) -> ModuleType:
    """The module, or else the test is skipped. What a library deprecates while it is imported is not ours to mend."""
    folder = os.environ.get("ASYNCFL_ORACLES")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    with warnings.catch_warnings(), stood_in(*stand_ins):
        warnings.simplefilter("ignore")
        module: ModuleType = pytest.importorskip(name, exc_type=ImportError)
        return module


@pytest.fixture(scope="module")
def flwr() -> ModuleType:
    return installed("flwr.server.strategy.aggregate")


@pytest.fixture(scope="module")
def byzfl() -> ModuleType:
    return installed("byzfl", "matplotlib", "matplotlib.pyplot", "seaborn", "torchvision")


@pytest.fixture(scope="module")
def opacus() -> ModuleType:
    return installed("opacus.accountants.analysis.rdp")


@pytest.fixture(scope="module")
def jax_auditing() -> ModuleType:
    others = ("accounting", "batch_selection", "experimental", "matrix_factorization", "noise_addition", "clipping")
    return installed("jax_privacy.auditing", *(f"jax_privacy.{name}" for name in others))


def updates(seed: int, n: int, poisoned: int, d: int = 7) -> Updates:
    """(n, d) float64: honest ones around a centre, the first `poisoned` somewhere else, some by little."""
    random = np.random.default_rng(seed)
    values = random.normal(random.normal(size=d), random.uniform(0.1, 2, size=d), size=(n, d))
    values[:poisoned] += random.normal(scale=random.choice([0.5, 5.0, 500.0]), size=d)
    return values


def equal(n: int) -> Updates:
    return np.full(n, 1 / n)


def listed(values: Updates, samples: NDArray[np.int64] | None = None) -> list[tuple[list[Updates], int]]:
    """As flwr wants them; it empties the list."""
    counts = np.ones(len(values), dtype=np.int64) if samples is None else samples
    return [([row.copy()], int(count)) for row, count in zip(values, counts, strict=True)]


@st.composite
def cases(draw: Any, per_attacker: int = 2, least: int = 3) -> tuple[Updates, int]:
    """Updates, and a number of attackers that n > per_attacker f + least - 1 bears."""
    f = draw(st.integers(0, 4))
    n = draw(st.integers(per_attacker * f + least, per_attacker * f + least + 9))
    return updates(draw(SEEDS), n, f), f


# --- flwr: exact, but for the last digits of sums ------------------------------------------------------------------


@CASES
@given(case=cases())
def test_krum_is_flwrs(flwr: ModuleType, case: tuple[Updates, int]) -> None:
    values, f = case
    expected = flwr.aggregate_krum(listed(values), f, 0)[0]
    np.testing.assert_allclose(Krum(byzantine=f).aggregate(values, equal(len(values))), expected, rtol=1e-12)


@CASES
@given(case=cases(), chosen=st.integers(1, 5), seed=SEEDS)
def test_multi_krum_is_flwrs_with_samples_too(
    flwr: ModuleType, case: tuple[Updates, int], chosen: int, seed: int
) -> None:
    values, f = case
    chosen = min(chosen, len(values))
    samples = np.random.default_rng(seed).integers(1, 100, size=len(values))
    expected = flwr.aggregate_krum(listed(values, samples), f, chosen)[0]
    found = MultiKrum(byzantine=f, chosen=chosen).aggregate(values, samples / samples.sum())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@CASES
@given(case=cases(per_attacker=4))
def test_bulyan_is_flwrs(flwr: ModuleType, case: tuple[Updates, int]) -> None:
    values, f = case
    expected = flwr.aggregate_bulyan(listed(values), f, flwr.aggregate_krum, to_keep=0)[0]
    found = Bulyan(byzantine=f).aggregate(values, equal(len(values)))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@CASES
@given(case=cases(), seed=SEEDS)
def test_median_and_mean_are_flwrs(flwr: ModuleType, case: tuple[Updates, int], seed: int) -> None:
    values, _ = case
    samples = np.random.default_rng(seed).integers(1, 100, size=len(values))
    shares = samples / samples.sum()
    expected = flwr.aggregate_median(listed(values))[0]
    np.testing.assert_allclose(Median().aggregate(values, shares), expected, rtol=1e-12)
    # The mean takes its weights as float32.
    expected = flwr.aggregate(listed(values, samples))[0]
    np.testing.assert_allclose(Mean().aggregate(values, shares), expected, rtol=0, atol=1e-6 * np.abs(values).max())


# --- byzfl: 1e-9 of float64 ----------------------------------------------------------------------------------------


@CASES
@given(case=cases())
def test_rules_are_byzfls(byzfl: ModuleType, case: tuple[Updates, int]) -> None:
    values, f = case
    weights, more = equal(len(values)), max(f, 1)  # byzfl counts one neighbour more
    for ours, theirs in [
        (Krum(byzantine=more - 1), byzfl.Krum(more)),
        (MultiKrum(byzantine=more - 1, chosen=len(values) - more), byzfl.MultiKrum(more)),
        (TrimmedMean(byzantine=f), byzfl.TrMean(f)),
        (Median(), byzfl.Median()),
    ]:
        np.testing.assert_allclose(ours.aggregate(values, weights), theirs(values.copy()), rtol=1e-9, atol=1e-9)


@CASES
@given(case=cases())
def test_mixing_of_nearest_neighbours_is_byzfls(byzfl: ModuleType, case: tuple[Updates, int]) -> None:
    values, f = case
    mixed = NearestNeighbourMixing(byzantine=f).mix(values, equal(len(values)), None) @ values
    np.testing.assert_allclose(mixed, byzfl.NNM(f)(values.copy()), rtol=1e-9, atol=1e-9)


@CASES
@given(case=cases(), radius=st.floats(0.05, 50), iterations=st.integers(1, 5))
def test_centred_clipping_is_byzfls_and_remembers_as_it_does(
    byzfl: ModuleType, case: tuple[Updates, int], radius: float, iterations: int
) -> None:
    values, _ = case
    rule, theirs = (
        CentredClipping(radius=radius, iterations=iterations),
        byzfl.CenteredClipping(None, iterations, radius),
    )
    centre = np.zeros(values.shape[1])
    for part in (values, 0.5 * values[::-1], -values):
        centre, _ = rule.moved(centre, part, equal(len(part)))
        np.testing.assert_allclose(centre, theirs(part.copy()), rtol=1e-9, atol=1e-9)


@CASES
@given(case=cases())
def test_geometric_median_is_byzfls(byzfl: ModuleType, case: tuple[Updates, int]) -> None:
    values, _ = case
    found = GeometricMedian().aggregate(values, equal(len(values)))
    np.testing.assert_allclose(found, byzfl.GeometricMedian(nu=1e-6, T=500)(values.copy()), rtol=1e-3, atol=1e-3)


@CASES
@given(seed=SEEDS, n=st.integers(2, 12), strength=st.floats(0.1, 5))
def test_attacks_are_byzfls(byzfl: ModuleType, seed: int, n: int, strength: float) -> None:
    seen = view(updates(seed, n, 0))
    known = seen.honest.astype(np.float64)
    for ours, theirs in [
        (SignFlip(of="mean", knowledge="colluders"), byzfl.SignFlipping()),
        (Ipm(tau=strength), byzfl.InnerProductManipulation(strength)),
        # Ours goes below the mean.
        (Alie(z=strength), byzfl.ALittleIsEnough(-strength)),
        (Mimic(knowledge="colluders"), byzfl.Mimic(0)),
    ]:
        expected = theirs(known.copy())
        np.testing.assert_allclose(ours.forge(seen.honest, seen), expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.craft(seen), np.tile(expected, (n, 1)), rtol=1e-6, atol=1e-6)


# --- opacus --------------------------------------------------------------------------------------------------------


@examples(max_examples=20)
@given(multiplier=st.floats(0.6, 20), rate=st.sampled_from([1.0, 0.3, 0.05, 0.001]), count=st.integers(1, 2000))
def test_renyi_divergences_are_those_of_opacus(opacus: ModuleType, multiplier: float, rate: float, count: int) -> None:
    orders = COARSE[COARSE > 1]
    expected = np.asarray(
        opacus.compute_rdp(q=rate, noise_multiplier=multiplier, steps=count, orders=[float(order) for order in orders])
    )
    found = curve(MechanismEvent("gaussian", multiplier, count, rate), COARSE)[COARSE > 1]
    whole = (orders == np.round(orders)) | (rate == 1)
    np.testing.assert_allclose(found[whole], expected[whole], rtol=1e-4, atol=1e-9)
    # Between whole orders dp-accounting, which we ask for sampled releases, bounds what opacus computes.
    assert (found >= expected * (1 - 1e-4) - 1e-9).all()


# --- jax-privacy ---------------------------------------------------------------------------------------------------


@examples(max_examples=15)
@given(seed=SEEDS, shift=st.floats(0, 4), threshold=st.floats(-0.5, 3), delta=st.sampled_from([1e-6, 1e-4, 1e-2]))
def test_bounds_of_audits_are_those_of_jax_privacy(
    jax_auditing: ModuleType, seed: int, shift: float, threshold: float, delta: float
) -> None:
    random = np.random.default_rng(seed)
    members, others = random.normal(shift, 1, random.integers(1, 400)), random.normal(0, 1, random.integers(1, 400))
    auditor = jax_auditing.CanaryScoreAuditor(members, others)
    fixed = jax_auditing.Explicit(threshold)
    true, false = int((members >= threshold).sum()), int((others >= threshold).sum())
    canaries = len(members) + len(others)

    expected = auditor.epsilon_one_run(0.05, delta, threshold_strategy=fixed)
    assert one_run.epsilon_lower_bound(canaries, true + false, true, delta) == pytest.approx(expected, abs=2e-6)
    expected = auditor.epsilon_one_run_fdp(0.05, delta, threshold_strategy=fixed)
    found = one_run.epsilon_at(one_run.mu_lower_bound(canaries, true + false, true), delta)
    assert found == pytest.approx(expected, abs=1e-4)
