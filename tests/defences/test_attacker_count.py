import numpy as np
import pytest

from asyncfl.defences import Bucketing, Bulyan, Defence, Krum, MultiKrum, NearestNeighbourMixing, TrimmedMean


@pytest.mark.parametrize(
    ("rule", "n", "wanted"),
    [
        (Krum(expected_share=0.4), 10, 3),  # 4 expected, but (10 - 3) // 2 = 3
        (Krum(expected_share=0.2), 10, 2),
        (Krum(expected_share=0.25), 10, 3),  # 2.5 rounds up
        (Krum(expected_share=0.3), 5, 1),
        (Krum(expected_share=0.4), 2, 0),
        (Bulyan(expected_share=0.4), 50, 11),
        (TrimmedMean(expected_share=0.2), 10, 2),
        (TrimmedMean(expected_share=0.6), 10, 4),
        (NearestNeighbourMixing(expected_share=0.6), 10, 4),
        (Krum(byzantine=4), 10, 4),
    ],
)
def test_number_of_tolerated_attackers(rule, n, wanted):
    assert rule.attackers(n) == wanted


@pytest.mark.parametrize(
    ("rule", "each", "more", "computed"),
    [
        (Bulyan, 4, 3, "0000111122"),
        (Krum, 2, 3, "0001234567"),
        (MultiKrum, 2, 3, "0001234567"),
        (NearestNeighbourMixing, 2, 1, "0123456789"),
        (TrimmedMean, 2, 1, "0011223344"),
    ],
)
def test_largest_f_by_theory_and_by_computation_for_each_buffer_size(rule, each, more, computed):
    assert rule.by_theory == (each, more)
    for n in (3, 10, 29):
        assert rule(expected_share=0.99).attackers(n) == max(0, (n - more) // each)
    assert "".join(str(rule.most(n, rule.computable)) for n in range(1, 11)) == computed


def test_byzantine_beyond_the_theory_is_noted():
    assert list(Krum(byzantine=4).faults(10)) == []
    assert Krum(byzantine=4).notes(10) == ["byzantine 4 is beyond the theory (n >= 2f + 3) with 10 updates in a buffer"]
    assert Krum(byzantine=3).notes(10) == []
    assert Krum(expected_share=0.4).notes(10) == [
        "byzantine auto allows for 3 attackers, not 4, of 10 updates: n >= 2f + 3"
    ]


def test_a_buffer_below_the_theory_of_no_attackers_is_noted():
    note = "a buffer of 2 updates is too small for the theory, even without attackers: n >= 2f + 3"
    assert Krum().notes(2) == [note]
    assert Krum(expected_share=0.1).notes(3) == TrimmedMean().notes(2) == []


@pytest.mark.parametrize(("rule", "most"), [(Krum, 7), (MultiKrum, 7), (Bulyan, 2), (TrimmedMean, 4)])
def test_byzantine_that_cannot_be_computed_is_refused(rule, most):
    assert list(rule(byzantine=most).faults(10)) == []
    fault = f"byzantine: must be at most {most} with 10 updates in a buffer, got {most + 1}"
    assert str(next(rule(byzantine=most + 1).faults(10))).startswith(fault)


def test_short_buffer_lowers_byzantine_with_a_note(buffer_of):
    rule = Krum(byzantine=4, pre=(NearestNeighbourMixing(byzantine=4),))
    assert list(rule.faults(10)) == []
    done, _ = rule.step(None, buffer_of([[1.0], [2.0], [4.0]]), np.ones(3))
    assert done.notes == (
        "NearestNeighbourMixing: byzantine 4 lowered to 2 for a buffer of 3",
        "Krum: byzantine 4 lowered to 0 for a buffer of 3",
    )


def test_bucketing_raises_the_poisoned_share():
    rule = Krum(expected_share=0.1, pre=(Bucketing(size=2),))
    assert rule.rows(21) == 11
    assert rule.attackers(11) == 2
    assert list(rule.faults(21)) == []
    assert list(Krum(byzantine=9, pre=(Bucketing(size=2),)).faults(21))


@pytest.mark.parametrize(
    ("fields", "off"),
    [
        ({}, True),
        ({"rule": {"kind": "median"}}, False),
        ({"detector": {"kind": "safl"}}, False),
        ({"strikes": {}}, False),
        ({"rule": {"kind": "median"}, "strikes": {}}, False),
    ],
)
def test_defence_is_off_if_updates_are_only_averaged(fields, off):
    assert Defence.model_validate(fields).off is off
