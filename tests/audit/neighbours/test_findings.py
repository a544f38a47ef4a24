"""Tables of twins: their rows, the measured epsilons of the ledger, and notes."""

import math

from asyncfl.audit.neighbours import findings as tables
from asyncfl.audit.neighbours.findings import counted_kinds
from asyncfl.privacy.scheme import Guarantee

SAMPLE = Guarantee("sample", "replace", "heuristic", 2.0, 1e-3, 1)
CLIENT = Guarantee("client", "replace", "proven", 2.0, 1e-3, 1)
ZERO_OUT = Guarantee("client", "zero_out", "proven", 2.0, 1e-3, 1)
OF_SAMPLES = ("ordinary", "mislabelled", "noise", "brightest", "ascent")


def test_the_claim_decides_which_twins_are_neighbours() -> None:
    assert counted_kinds(ZERO_OUT) == ("zeroed",)
    assert counted_kinds(SAMPLE) == OF_SAMPLES
    assert counted_kinds(CLIENT) == counted_kinds(None) == (*OF_SAMPLES, "exchanged", "zeroed")


def test_rounding_of_float32_breaks_no_sensitivity() -> None:
    assert not tables._exceeds(1.0 + 1e-5, 1.0)
    assert not tables._exceeds(2.0 * (1 + 1e-5), 2.0)
    assert tables._exceeds(1.0 + 1.01e-5, 1.0)
    assert not tables._exceeds(math.inf, math.inf)
