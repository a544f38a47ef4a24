"""Lists of releases and how they are written."""

import math

import pytest

from asyncfl.privacy.accounting.events import MechanismEvent, for_neighbours, merge_equal_events, parse_event


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
def test_parts_are_read_as_they_are_written(text, part):
    assert parse_event(text) == part
    assert parse_event(str(part)) == part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gaussian", "must be mechanism:multiplier"),
        ("gauss:1", "must be one of gaussian, laplace, pure, got 'gauss'"),
        ("gaussian:0", r"multiplier must be 1e-09\.\.1e\+09, got '0'"),
        ("gaussian:inf", r"1e-09\.\.1e\+09, got 'inf'"),
        ("gaussian:nan", r"1e-09\.\.1e\+09, got 'nan'"),
        ("gaussian:1e-300", r"1e-09\.\.1e\+09, got '1e-300'"),
        ("laplace:1e300", r"1e-09\.\.1e\+09, got '1e300'"),
        ("pure:-1", r"epsilon must be 1e-09\.\.1e\+09, got '-1'"),
        ("gaussian:a", "'a' is no number"),
        ("gaussian:1@2", "sampling rate must be greater than 0 and at most 1, got '2'"),
        ("laplace:1@0.5", "with gaussian releases only"),
        ("gaussian:1x0", r"whole number in 1\.\.1000000000, got '0'"),
        ("gaussian:1x1.5", r"whole number in 1\.\.1000000000, got '1\.5'"),
        ("gaussian:1xinf", r"whole number in 1\.\.1000000000, got 'inf'"),
        ("gaussian:1xnan", r"whole number in 1\.\.1000000000, got 'nan'"),
        ("gaussian:1x1e300", r"whole number in 1\.\.1000000000, got '1e300'"),
    ],
)
def test_bad_parts_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        parse_event(text)


def test_equal_lists_become_equal():
    first = [
        MechanismEvent("laplace", 5, 2),
        MechanismEvent("gaussian", 1.1),
        MechanismEvent("gaussian", 1.1, 2),
        MechanismEvent("gaussian", 1.1, 1, 0.5),
    ]
    assert merge_equal_events(first) == merge_equal_events(reversed(first))
    assert merge_equal_events(first)[1] == MechanismEvent("gaussian", 1.1, 3)
    assert (
        merge_equal_events(
            [
                MechanismEvent("gaussian", math.inf),
                MechanismEvent("pure", 0.0),
                MechanismEvent("laplace", 1, 0),
                MechanismEvent("gaussian", 0, 1, 0),
            ]
        )
        == ()
    )


def test_squares_past_the_floats_are_infinite_or_nothing():
    assert MechanismEvent("gaussian", 2.0, 3).squared_mu == 0.75
    assert MechanismEvent("gaussian", 1e-300, 3).squared_mu == MechanismEvent("gaussian", 0.0).squared_mu == math.inf
    assert MechanismEvent("gaussian", 1e300, 3).squared_mu == MechanismEvent("gaussian", math.inf).squared_mu == 0
    assert MechanismEvent("gaussian", 0.0, 0).squared_mu == 0


def test_a_replaced_record_moves_a_sum_twice_as_far():
    events = [
        MechanismEvent("gaussian", 1.0),
        MechanismEvent("laplace", 3.0),
        MechanismEvent("pure", 0.5),
        MechanismEvent("gaussian", 1.0, 1, 0.5),
    ]
    assert [part.parameter for part in for_neighbours(events, "replace")] == [0.5, 1.5, 0.5, 1.0]
    assert list(for_neighbours(events, "add_remove")) == events


@pytest.mark.parametrize(
    ("event", "unbounded", "silent", "epsilon"),
    [
        (MechanismEvent("gaussian", 0.0), True, False, math.inf),
        (MechanismEvent("gaussian", 0.0, 2, 0.5), True, False, math.inf),
        (MechanismEvent("gaussian", 0.0, 0), False, True, math.inf),
        (MechanismEvent("gaussian", 0.0, 1, 0.0), False, True, math.inf),
        (MechanismEvent("gaussian", math.inf), False, True, 0.0),
        (MechanismEvent("gaussian", 2.0), False, False, math.nan),
        (MechanismEvent("gaussian", 2.0, 0), False, True, math.nan),
        (MechanismEvent("laplace", 0.0), True, False, math.inf),
        (MechanismEvent("laplace", math.inf, 4), False, True, 0.0),
        (MechanismEvent("laplace", 4.0), False, False, 0.25),
        (MechanismEvent("pure", 0.0), False, True, 0.0),
        (MechanismEvent("pure", math.inf), True, False, math.inf),
        (MechanismEvent("pure", 3.0), False, False, 3.0),
    ],
)
def test_what_hides_nothing_and_what_tells_nothing(event, unbounded, silent, epsilon):
    assert (event.unbounded, event.silent) == (unbounded, silent)
    assert event.epsilon == pytest.approx(epsilon, nan_ok=True)


def test_an_event_is_one_release_of_all_data_unless_it_says_otherwise():
    assert MechanismEvent("laplace", 3.0) == MechanismEvent("laplace", 3.0, 1, 1.0)
    assert str(MechanismEvent("gaussian", 0.5, 3, 0.25)) == "gaussian:0.5@0.25x3"
    assert [str(parse_event(text)) for text in ("gaussian:1e-9", "pure:1e9x1000000000", "gaussian:1@1")] == [
        "gaussian:1e-09x1",
        "pure:1e+09x1000000000",
        "gaussian:1x1",
    ]
