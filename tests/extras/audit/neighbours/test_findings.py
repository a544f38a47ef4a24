"""What an adversary holds in two worlds: rows, distances and epsilons of small transcripts, worked out by hand."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.extras.audit.neighbours import findings
from asyncfl.extras.audit.neighbours.data import Neighbour
from asyncfl.extras.audit.neighbours.findings import (
    TwinRelease,
    counted_kinds,
    epsilons,
    model_transcript,
    upload_releases,
)
from asyncfl.extras.audit.neighbours.observer import Other
from asyncfl.extras.audit.neighbours.training import TwinUpload
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.accounting.release_pairs import BINS, epsilon_of_pairs
from asyncfl.privacy.release import Contribution, Release
from asyncfl.privacy.scheme import Guarantee
from asyncfl.results.adversaries import AdversaryHoldings

ONE = Neighbour("ordinary", 4, sample=2)
PATH: Any = SimpleNamespace(learner=SimpleNamespace(n_parameters=10), scheme="scheme", context="context")


def twin(*distances: float, std: float = 2.0, clip: float | None = None, shifts: Any = None, **of: Any) -> TwinUpload:
    contribution = Contribution(0, 5, epsilon=of.pop("epsilon", None))
    return TwinUpload(of.pop("neighbour", ONE), 0.0, 1.0, clip, distances, contribution, std, shifts)


def task(number: int, *twins: TwinUpload, std: float = 2.0, sensitivity: float = 3.0, **of: Any) -> Any:
    release = Release(of.get("distribution", "gaussian"), std, sensitivity, 1, 1.0)
    by_number = {one.neighbour.number: one for one in twins}
    return SimpleNamespace(task=number, release=release, twins=by_number, others=of.get("others", {}))


def client(*tasks: Any) -> Any:
    return SimpleNamespace(client=7, tasks={one.task: one for one in tasks})


def release(*rows: tuple[float, float, float, float], shifts: Any = None, pure: float = 0.0) -> TwinRelease:
    return TwinRelease(0.0, 0, ONE, 1.0, 1.0, 1.0, 1.0, rows, shifts, pure)


def test_a_gaussian_upload_gives_a_row_per_distance_and_per_known_upload_it_changes() -> None:
    others = {4: tuple(Other(number, 0.1 * number, 1.0, 1.5) for number in (11, 12, 13, 14))}
    made = task(1, twin(0.5, 0.25, std=2.5), others=others)
    held = AdversaryHoldings({1: 3.0, 11: 3.0, 12: 2.0, 13: 3.1}, {})
    [found] = upload_releases(PATH, client(made), ONE, held)
    assert found.gaussians == (
        (10, 0.25, 2.0, 2.5),
        (10, 0.0625, 2.0, 2.5),
        (10, pytest.approx(1.1**2), 1.0, 1.5),
        (10, pytest.approx(1.2**2), 1.0, 1.5),
    )
    assert (found.sensitivity, found.std, found.twin_std) == (3.0, 2.0, 2.5)
    assert found.pure == math.inf
    assert found.shifts is None
    [silent] = upload_releases(PATH, client(task(1, twin(0.0))), ONE, held)
    assert silent.pure == 0.0


def test_a_laplace_upload_is_worth_its_distances_over_the_scale() -> None:
    shifts = np.ones(len(BINS), np.int64)
    held = AdversaryHoldings({1: 0.0}, {})

    def found(made: Any) -> TwinRelease:
        [one] = upload_releases(PATH, client(made), ONE, held)
        return one

    usual = found(task(1, twin(0.5, 0.25, shifts=shifts), distribution="laplace"))
    assert usual.pure == pytest.approx(0.75 / (2.0 / math.sqrt(2)))
    assert usual.gaussians == ()
    assert usual.shifts is shifts
    bare = found(task(1, twin(0.5), std=0.0, distribution="laplace"))
    assert bare.pure == math.inf
    assert bare.gaussians == ((10, 0.25, 0.0, 0.0),)
    nothing = found(task(1, twin(0.0), std=0.0, distribution="laplace"))
    assert (nothing.pure, nothing.gaussians) == (0.0, ())


def model(version: int, *uploads: tuple[int, float | None, float]) -> Any:
    made = [
        SimpleNamespace(task=number, weight=weight, release=SimpleNamespace(std=std), contribution=Contribution(0, 5))
        for number, weight, std in uploads
    ]
    contributions = tuple(one.contribution for one in made)
    return SimpleNamespace(version=version, uploads=made, clip_norm=1.0, server_std=0.7, contributions=contributions)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What models are to client 7: noise as large as the root of the sum of the uploads' variances."""
    seen: list[Any] = []

    def releases(scheme: Any, context: Any, clip: Any, contributions: Any, stds: Any, server: Any) -> Any:
        seen.append((scheme, context, clip, [one.epsilon for one in contributions], list(stds), server))
        return {7: SimpleNamespace(distribution="gaussian", std=math.hypot(*stds), sensitivity=3.0)}

    monkeypatch.setattr(findings, "model_releases", releases)
    return seen


def test_a_model_moves_by_the_weighted_distance_less_what_may_cancel_it(asked: list[Any]) -> None:
    others = {4: (Other(8, 2.0, 1.0, 1.25),)}
    tasks = [task(1, twin(4.0, std=3.0, clip=0.9, epsilon=6.0), others=others), task(2, twin(10.0, std=5.0))]
    made = model(3, (1, 0.5, 2.0), (2, -0.4, 4.0), (8, 0.25, 1.0), (9, None, 6.0))
    [found] = model_transcript(PATH, client(*tasks), ONE, AdversaryHoldings({}, {3: 8.0}), [made])
    # .4 * 10 - .5 * 4 - .25 * 2
    assert found.distance == pytest.approx(1.5)
    here, there = math.sqrt(4 + 16 + 1 + 36), math.sqrt(9 + 25 + 1.25**2 + 36)
    assert found.gaussians == ((10.0, pytest.approx(2.25), pytest.approx(here), pytest.approx(there)),)
    assert (found.time_s, found.task, found.sensitivity, found.pure) == (8.0, -1, 3.0, math.inf)
    assert (found.std, found.twin_std) == (pytest.approx(here), pytest.approx(there))
    assert found.shifts is None
    nothing = [None] * 4
    assert asked == [
        ("scheme", "context", 1.0, nothing, [2.0, 4.0, 1.0, 6.0], 0.7),
        ("scheme", "context", 0.9, [6.0, None, None, None], [3.0, 5.0, 1.25, 6.0], None),
    ]


def test_pure_epsilons_add_up() -> None:
    once, so_far = epsilons([release(pure=0.5), release(pure=0.25), release(pure=math.inf)], 0.0)
    assert once.tolist() == [0.5, 0.25, math.inf]
    assert so_far.tolist() == [0.5, 0.75, math.inf]


def test_squared_distances_add_up_under_equal_noise() -> None:
    rows = [
        release((10, 4.0, 2.0, 2.0), (10, 1.0, 1.0, 1.0)),
        release((10, 0.0, 0.0, 0.0)),
        release((10, 9.0, 2.0, 2.0)),
    ]
    once, so_far = epsilons(rows, 1e-3)
    assert once == pytest.approx(exact_epsilon([2.0, 0.0, 2.25], 1e-3))
    assert so_far == pytest.approx(exact_epsilon([2.0, 2.0, 4.25], 1e-3))
    assert epsilons([release((10, 1e-9, 0.0, 0.0))], 1e-3)[0].tolist() == [math.inf]


def test_unequal_noise_is_accounted_from_its_first_release_on() -> None:
    alike, other = (10.0, 1.0, 2.0, 2.0), (10.0, 1.0, 2.0, 2.6)
    once, so_far = epsilons([release(alike), release(other), release(alike)], 1e-3)

    def worlds(*rows: tuple[float, float, float, float]) -> float:
        return epsilon_of_pairs(rows, 1e-3)

    assert once == pytest.approx([worlds(alike), worlds(other), worlds(alike)])
    assert so_far == pytest.approx([worlds(alike), worlds(alike, other), worlds(alike, other, alike)])
    assert so_far[1] > so_far[0]


def test_epsilon_never_falls_along_a_transcript() -> None:
    """Shifts count as the lower limits of their classes: together with another release they may seem to tell less."""
    loud, quiet = release((10.0, 400.0, 1.0, 1.0)), release((10.0, 0.0, 1.0, 1.0 + 1e-9))
    once, so_far = epsilons([loud, quiet], 1e-3)
    assert so_far[1] >= so_far[0] == pytest.approx(once[0])
    assert once[1] < 1e-3


def test_laplace_shifts_of_releases_add_up() -> None:
    shifts = np.zeros(len(BINS), np.int64)
    shifts[np.searchsorted(BINS, 0.2)] = 3
    once, so_far = epsilons([release(shifts=shifts), release(shifts=shifts), release((10, 1.0, 2.0, 2.0))], 1e-2)
    one, two = epsilon_of_pairs([], 1e-2, shifts), epsilon_of_pairs([], 1e-2, 2 * shifts)
    assert 0 < one < two
    assert once == pytest.approx([one, one, exact_epsilon(0.25, 1e-2)])
    mixed = epsilon_of_pairs([(10, 1.0, 2.0, 2.0)], 1e-2, 2 * shifts)
    assert so_far == pytest.approx([one, two, mixed])


SAMPLE = Guarantee("sample", "replace", "heuristic", 2.0, 1e-3, 1)
CLIENT = Guarantee("client", "replace", "proven", 2.0, 1e-3, 1)
ZERO_OUT = Guarantee("client", "zero_out", "proven", 2.0, 1e-3, 1)
OF_SAMPLES = ("ordinary", "mislabelled", "noise", "brightest", "ascent")


def test_the_claim_decides_which_twins_are_neighbours() -> None:
    assert counted_kinds(ZERO_OUT) == ("zeroed",)
    assert counted_kinds(SAMPLE) == OF_SAMPLES
    assert counted_kinds(CLIENT) == counted_kinds(None) == (*OF_SAMPLES, "exchanged", "zeroed")
