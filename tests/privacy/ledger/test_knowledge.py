"""Releases that follow from an adversary's view, for a few updates worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.ledger.knowledge import known_releases
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable, VersionTable
from asyncfl.privacy.release import Release


def sent(*rows: tuple[int, int, float, float, float], **of: Any) -> UploadTable:
    """Updates as (client, version that it entered, weight, noise, sensitivity)."""
    client, version, weight, std, sensitivity = map(np.array, zip(*rows, strict=True))
    n = len(rows)
    whole = UploadTable(
        task=np.arange(n),
        client=client.astype(np.int64),
        base_version=np.zeros(n, np.int64),
        version=version.astype(np.int64),
        weight=weight * 1.0,
        laplace=np.zeros(n, bool),
        std=std * 1.0,
        sensitivity=sensitivity * 1.0,
        model_sensitivity=sensitivity * 10.0,
        count=np.full(n, 2),
        rate=np.ones(n),
        epsilon=np.arange(n) + 0.5,
        additive=np.ones(n, bool),
        copy_of=np.full(n, -1),
    )
    return replace(whole, **of)


def versions(*server_std: float, **of: Any) -> VersionTable:
    """Versions 1, 2, ... with this noise of the server."""
    usual = {"server_laplace": False, "fixed_weights": True, "epsilon": 9.0} | of
    std = np.array([0.0, *server_std])
    return VersionTable(std, **usual)


def view(uploads: dict[int, int], models: dict[int, int], n: int, v: int, **of: Any) -> AdversaryView:
    """Row of an upload, version -> moment at which it is got."""
    held, got = np.full(n, NEVER), np.full(v + 1, NEVER)
    for place, moment in uploads.items():
        held[place] = moment
    for version, moment in models.items():
        got[version] = moment
    return AdversaryView("any", held, got, **of)


def releases_seen(
    of: UploadTable, published: VersionTable, uploads: dict[int, int], models: dict[int, int], **more: Any
) -> list[Any]:
    """(client, moment, noise, sensitivity, mechanisms, claim, counted, Laplace) of each release."""
    found = known_releases(of, published, view(uploads, models, len(of.task), len(published.server_std) - 1, **more))
    columns = (found.holder, found.moment, found.sigma, found.sensitivity, found.count, found.epsilon, found.counted)
    return [tuple(row) for row in zip(*(column.tolist() for column in (*columns, found.laplace)), strict=True)]


ROWS = sent((0, 1, 0.5, 2.0, 1.0), (1, 1, 0.25, 4.0, 1.0), (0, 2, 1.0, 3.0, 2.0))


def about(value: float) -> Any:
    return pytest.approx(value)


def test_a_version_is_one_noised_sum_for_each_client_in_it() -> None:
    noise = np.sqrt(0.5**2 * 4 + 0.25**2 * 16 + 0.75**2)
    assert releases_seen(ROWS, versions(0.75, 0.0), {}, {1: 3}) == [
        (1, 3, about(noise), 0.25, 1, 1.5, 1, False),
        (0, 3, about(noise), 0.5, 1, 0.5, 1, False),
    ]
    # Who knows the server's noise has that of the clients alone; and no claim is above that of a version.
    known = releases_seen(ROWS, versions(0.75, 0.0, epsilon=1.0), {}, {1: 3}, knows_server_noise=True)
    assert known == [
        (1, 3, about(np.sqrt(2)), 0.25, 1, 1.0, 1, False),
        (0, 3, about(np.sqrt(2)), 0.5, 1, 0.5, 1, False),
    ]


def test_data_dependent_weights_reveal_every_judged_update() -> None:
    """Where weights follow the data each that was looked at counts as held; who was not judged was not looked at."""
    rows = sent((0, 1, 0.5, 2.0, 1.0), (1, 1, 0.0, 4.0, 1.0), (2, 0, 0.0, 3.0, 1.0))
    followed = versions(0.75, fixed_weights=False)
    assert releases_seen(rows, followed, {}, {0: 0, 1: 3}) == [
        (0, 3, 2.0, 1.0, 2, 0.5, 1, False),
        (1, 3, 4.0, 1.0, 2, 1.5, 1, False),
    ]
    # With fixed weights what weighed nothing is no part of a version.
    assert releases_seen(rows, versions(0.0), {}, {0: 0, 1: 3}) == [(0, 3, 1.0, 0.5, 1, 0.5, 1, False)]


def test_non_additive_noise_counts_as_held_without_server_noise() -> None:
    rows = replace(ROWS, additive=np.array([False, True, True]), laplace=np.array([True, False, False]))
    assert releases_seen(rows, versions(0.0, 0.0), {}, {1: 3}) == [
        (1, 3, 1.0, 0.25, 1, 1.5, 1, False),
        (0, 3, 2.0, 1.0, 2, 0.5, 1, True),
    ]
    # Else the server's noise and that of the others hide it, its own does not.
    hidden = np.sqrt(0.25**2 * 16 + 0.75**2)
    assert releases_seen(rows, versions(0.75, 0.0), {}, {1: 3}) == [
        (1, 3, about(hidden), 0.25, 1, 1.5, 1, False),
        (0, 3, about(hidden), 0.5, 1, 0.5, 1, False),
    ]


def test_laplace_server_noise_is_the_only_noise_that_counts() -> None:
    assert releases_seen(ROWS, versions(0.75, 0.0, server_laplace=True), {}, {1: 3}) == [
        (1, 3, 0.75, 2.5, 1, 1.5, 1, True),
        (0, 3, 0.75, 5.0, 1, 0.5, 1, True),
    ]
    assert releases_seen(ROWS, versions(0.75, 0.0, server_laplace=True), {}, {1: 3}, knows_server_noise=True) == [
        (1, 3, about(np.sqrt(2)), 0.25, 1, 1.5, 1, False),
        (0, 3, about(np.sqrt(2)), 0.5, 1, 0.5, 1, False),
    ]


def test_coalition_members_have_no_rows_and_their_noise_hides_nothing() -> None:
    assert releases_seen(ROWS, versions(0.75, 0.0), {0: 1, 1: 2}, {1: 3}, members=frozenset([0])) == [
        (1, 2, 4.0, 1.0, 2, 1.5, 1, False)
    ]
    assert releases_seen(ROWS, versions(0.75, 0.0), {}, {1: 3}, members=frozenset([0])) == [
        (1, 3, about(np.sqrt(1 + 0.75**2)), 0.25, 1, 1.5, 1, False)
    ]


def test_scores_are_releases_but_not_counted_as_uploads() -> None:
    score = Release("gaussian", 0.5, 0.1, 1, 3.0)
    found = releases_seen(ROWS, versions(0.0, 0.0), {0: 4}, {}, further=((7, 2, score),))
    assert found == [(7, 2, 0.5, 0.1, 1, 3.0, 0, False), (0, 4, 2.0, 1.0, 2, 0.5, 1, False)]


@settings(max_examples=60)
@given(st.data())
def test_traces_of_earlier_updates_reveal_what_a_list_of_them_all_would(data: st.DataObject) -> None:
    """Each update of a client tells of all before it: by one row each, or by a list that grows."""
    n = data.draw(st.integers(1, 12))
    client = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    version = np.sort(data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)))
    base = np.array([data.draw(st.integers(0, v - 1)) for v in version])
    carriers = [row for row in range(n) if data.draw(st.booleans())]
    earlier = [np.flatnonzero((client == client[row]) & (np.arange(n) < row)) for row in range(n)]
    previous = np.array([rows[-1] if len(rows) else -1 for rows in earlier])
    plain = sent(*((c, v, 0.5, 2.0, 1.0) for c, v in zip(client, version, strict=True)), base_version=base)
    listed = replace(plain, computed_from=tuple((row, earlier[row]) for row in carriers if len(earlier[row])))
    pairs = tuple((row, int(previous[row])) for row in carriers if previous[row] >= 0)
    traced = replace(plain, previous=previous, carried=pairs)
    held = {row: data.draw(st.integers(0, 5)) for row in range(n) if data.draw(st.booleans())}
    got = {v: data.draw(st.integers(v, 5)) for v in range(1, 5) if data.draw(st.booleans())}
    published = versions(*[0.5] * 4)
    assert releases_seen(traced, published, held, got) == releases_seen(listed, published, held, got)


def test_an_upload_computed_from_others_reveals_those_uploads() -> None:
    rows = replace(ROWS, computed_from=((2, np.array([1])),))
    assert releases_seen(rows, versions(0.0, 0.0), {2: 5}, {}) == [
        (1, 5, 4.0, 1.0, 2, 1.5, 1, False),
        (0, 5, 3.0, 2.0, 2, 2.5, 1, False),
    ]
    # What was known before is known from then on.
    assert releases_seen(rows, versions(0.0, 0.0), {2: 5, 1: 3}, {})[0][:2] == (1, 3)


def test_holding_a_copy_grants_the_base_version_of_the_copied_update() -> None:
    rows = sent((0, 3, 0.5, 2.0, 1.0), (1, 3, 0.25, 3.0, 1.0), base_version=np.array([2, 1]), copy_of=np.array([-1, 0]))
    assert view({1: 5}, {}, 2, 3).granted(rows).tolist() == [5, 5, 5, NEVER]
    apart = replace(rows, copy_of=np.array([-1, -1]))
    assert view({1: 5}, {}, 2, 3).granted(apart).tolist() == [5, 5, NEVER, NEVER]
