"""Lists of releases and their notation."""

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


def test_replacing_a_record_halves_the_multiplier():
    events = [
        MechanismEvent("gaussian", 1.0),
        MechanismEvent("laplace", 3.0),
        MechanismEvent("pure", 0.5),
        MechanismEvent("gaussian", 1.0, 1, 0.5),
    ]
    assert [part.parameter for part in for_neighbours(events, "replace")] == [0.5, 1.5, 0.5, 1.0]
    assert list(for_neighbours(events, "add_remove")) == events
