"""Lists of releases: their notation, and epsilons of many holders at once, which equal those of each alone."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import epsilons_of
from asyncfl.privacy.accounting.histories import histories
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent, for_neighbours, merge_equal_events, parse_event


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gaussian:1.1", MechanismEvent("gaussian", 1.1)),
        ("gaussian:1.1x10", MechanismEvent("gaussian", 1.1, 10)),
        ("gaussian:2@0.01x1000", MechanismEvent("gaussian", 2.0, 1000, 0.01)),
        ("laplace:5x3", MechanismEvent("laplace", 5.0, 3)),
        ("pure:0.5x2", MechanismEvent("pure", 0.5, 2)),
    ],
)
def test_events_are_parsed_and_printed(text, part):
    assert parse_event(text) == part
    assert parse_event(str(part)) == part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gaussian", "must be mechanism:multiplier"),
        ("gauss:1", "must be one of gaussian, laplace, pure, got 'gauss'"),
        ("gaussian:0", r"multiplier must be 1e-09\.\.1e\+09, got '0'"),
        ("gaussian:nan", r"1e-09\.\.1e\+09, got 'nan'"),
        ("pure:-1", r"epsilon must be 1e-09\.\.1e\+09, got '-1'"),
        ("gaussian:a", "'a' is no number"),
        ("gaussian:1@2", "sampling rate must be greater than 0 and at most 1, got '2'"),
        ("laplace:1@0.5", "with gaussian releases only"),
        ("gaussian:1x0", r"whole number in 1\.\.1000000000, got '0'"),
        ("gaussian:1x1.5", r"whole number in 1\.\.1000000000, got '1\.5'"),
    ],
)
def test_invalid_events_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_event(text)


def test_equal_events_are_merged():
    first = [
        MechanismEvent("laplace", 5, 2),
        MechanismEvent("gaussian", 1.1),
        MechanismEvent("gaussian", 1.1, 2),
        MechanismEvent("gaussian", 1.1, 1, 0.5),
    ]
    assert merge_equal_events(first) == merge_equal_events(reversed(first))
    assert merge_equal_events(first)[1] == MechanismEvent("gaussian", 1.1, 3)
    nothing = [("gaussian", math.inf), ("pure", 0.0), ("laplace", 1, 0), ("gaussian", 0, 1, 0)]
    assert merge_equal_events(MechanismEvent(*one) for one in nothing) == ()


def test_replacing_a_record_halves_the_multiplier():
    events = [
        MechanismEvent("gaussian", 1.0),
        MechanismEvent("laplace", 3.0),
        MechanismEvent("pure", 0.5),
        MechanismEvent("gaussian", 1.0, 1, 0.5),
    ]
    assert [part.parameter for part in for_neighbours(events, "replace")] == [0.5, 1.5, 0.5, 1.0]
    assert list(for_neighbours(events, "add_remove")) == events


NAMES = ("basic", "advanced", "rdp", "exact")


def one_by_one(rows, delta):
    """The same by the accountants of single lists. `rows`: (holder, laplace, multiplier, count)."""
    held, found = {}, {name: [] for name in NAMES}
    for holder, laplace, multiplier, count in rows:
        held.setdefault(holder, []).append(MechanismEvent("laplace" if laplace else "gaussian", multiplier, count))
        single = epsilons_of(held[holder], delta)
        for name in NAMES:
            found[name].append(getattr(single, name))
    return found


def check(rows, delta, tolerance=1e-9):
    found, expected = histories(*zip(*rows, strict=True), delta), one_by_one(rows, delta)
    for name in NAMES:
        assert getattr(found, name) == pytest.approx(expected[name], rel=tolerance, abs=1e-9), name


MULTIPLIERS = st.sampled_from([0.7, 1.3, 4.0, 20.0])


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.just(False), MULTIPLIERS, st.integers(0, 3)), min_size=1, max_size=25),
    st.sampled_from([1e-5, 0.01]),
)
def test_gaussian_releases_of_several_holders(rows, delta):
    check(rows, delta)


def test_laplace_releases_of_several_holders():
    rows = [(holder, True, 10.0 if holder else 3.0, 1 + holder % 2) for _ in range(12) for holder in range(3)]
    # The grid of losses is as fine as the largest number of releases in its class needs, not as any list's own.
    check(rows, 1e-5, tolerance=1e-5)


def test_releases_without_information_or_without_noise():
    rows = [(0, False, math.inf, 1), (0, False, 2.0, 1), (1, False, 2.0, 1), (0, False, 2.0, 0), (1, False, 0.0, 1)]
    rows += [(1, False, 2.0, 1), (2, True, 5.0, 0)]
    found = histories(*zip(*rows, strict=True), 1e-5)
    one = epsilons_of([MechanismEvent("gaussian", 2.0)], 1e-5)
    for name in NAMES:
        own = getattr(one, name)
        assert getattr(found, name) == pytest.approx([0, own, own, own, math.inf, math.inf, 0])


def test_only_pure_epsilons_count_at_delta_zero():
    found = histories([0, 0, 2, 1], [True, True, False, False], [4.0, 2.0, 3.0, 3.0], [1, 2, 0, 1], 0.0)
    for name in NAMES:
        assert getattr(found, name).tolist() == [0.25, 1.25, 0, math.inf]


def test_rounding_errors_do_not_change_epsilon():
    z = 4.8448 * np.array([1.0, 1 + 2e-16, 1 - 2e-16])
    found = histories([0, 1, 2], [False] * 3, z, [1] * 3, 1e-5)
    assert len(set(found.exact)) == len(set(found.basic)) == 1


def test_varying_laplace_noise_may_be_bounded_instead_of_composed():
    rows = [(0, True, 1.3, 2), (0, True, 4.0, 1), (1, False, 4.0, 2), (2, True, 0.7, 3)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    exact, bounded = (histories(*columns, 1e-5, composed) for composed in (True, False))
    assert bounded.exact.tolist() == [exact.exact[0], exact.rdp[1], exact.exact[2], exact.exact[3]]
    assert exact.exact[1] < bounded.exact[1]
    for name in ("basic", "advanced", "rdp"):
        assert getattr(bounded, name).tolist() == getattr(exact, name).tolist()
