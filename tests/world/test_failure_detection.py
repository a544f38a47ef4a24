"""When the server learns that a client has vanished."""

import math

from hypothesis import given
from hypothesis import strategies as st

from asyncfl.world.failure_detection import InstantDetection, LeaseDetection


def test_a_lease_ends_unless_the_client_is_back_before() -> None:
    lease = LeaseDetection(seconds=20.0)
    assert lease.detected_s(5.0, 100.0) == 25.0
    assert lease.detected_s(5.0, 12.0) == 12.0
    assert lease.detected_s(5.0, math.inf) == 25.0
    assert InstantDetection().detected_s(5.0, 12.0) == 5.0


@given(gone_s=st.floats(0, 1e9), away_s=st.floats(1e-3, 1e9), seconds=st.floats(1e-3, 1e6))
def test_a_loss_is_detected_between_departure_and_return(gone_s: float, away_s: float, seconds: float) -> None:
    lease = LeaseDetection(seconds=seconds)
    assert gone_s <= lease.detected_s(gone_s, gone_s + away_s) <= gone_s + min(seconds, away_s)
