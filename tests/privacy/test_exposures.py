"""L, the number of uploads of one client that are assumed to be overheard."""

import pytest

from asyncfl.base.errors import Fault
from asyncfl.privacy import Nbafl
from asyncfl.privacy.exposures import Exposures, MeasuredExposures, ShareExposures, exposure_faults


def assumed_exposures(rule, rounds, participants, clients):
    scheme = Nbafl.model_construct(epsilon=60.0, exposures=rule)
    return scheme.assumed_exposures(rounds, participants, clients)


@pytest.mark.parametrize(("rounds", "expected"), [(5, 1), (10, 2), (14, 3), (15, 3), (25, 5), (30, 6)])
def test_a_share_of_the_rounds_is_rounded_up(rounds, expected):
    assert assumed_exposures(ShareExposures(share=0.2), rounds, 50, 50) == expected


@pytest.mark.parametrize(("participants", "expected"), [(10, 1), (20, 2), (25, 3), (40, 4), (50, 5)])
def test_a_share_of_the_participations_is_rounded_up(participants, expected):
    share = ShareExposures(share=0.2, of="participations")
    assert assumed_exposures(share, 25, participants, 50) == expected


def test_more_exposures_than_rounds_are_a_fault():
    (fault,) = exposure_faults(assumed_exposures(30, 25, 50, 50), 25)
    message = "must be 0..rounds (25), got 30; lower privacy.exposures or raise protocol.rounds"
    assert fault == Fault("exposures", message)
    assert list(exposure_faults(25, 25)) == list(exposure_faults(MeasuredExposures(), 0)) == []


def test_a_user_defined_rule_may_return_a_number_or_defer():
    class Own(Exposures):
        kind: str = "own"
        uploads: int | None = None

        def number(self, rounds, participants, clients):
            return self.uploads

    assert assumed_exposures(Own(uploads=0), 25, 5, 10) == 0
    assert assumed_exposures(Own(uploads=26), 25, 5, 10) == 26
    assert assumed_exposures(Own(), 25, 5, 10) == MeasuredExposures()
    (fault,) = exposure_faults(-1, 25)
    assert fault.message.startswith("must be 0..rounds (25), got -1;")
    assert list(exposure_faults(0, 25)) == []
