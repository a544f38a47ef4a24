import pytest

from asyncfl.data.sample_limits import MOST_DRAWN, SampleRequest, root_stand_in_faults, stand_in_faults

FITS = SampleRequest(clients=10, domains=5, samples=50_000, tested=100_000, by_share=False)


def test_the_largest_request_for_stand_ins_is_allowed():
    assert list(stand_in_faults(FITS, drawn_for=10)) == list(root_stand_in_faults(MOST_DRAWN)) == []
    assert FITS.clients * FITS.samples == FITS.domains * 100_000 == MOST_DRAWN


@pytest.mark.parametrize(
    ("demand", "drawn_for", "fields"),
    [
        (SampleRequest(10, 5, 50_001, 100_000, False), 10, ["samples_per_client"]),
        (SampleRequest(10, 5, 50_001, 100_000, False), 1, []),
        (SampleRequest(10, 5, 500_001, 100_001, False), 1, ["samples_per_client", "test_samples"]),
        (SampleRequest(10, 5, 1, 100_001, True), 10, ["test_share"]),
        (SampleRequest(500_001, 1, 1, None, False), 500_001, ["clients"]),
        (SampleRequest(500_001, 1, 1, None, False), 1, []),
    ],
)
def test_larger_requests_for_stand_ins_are_refused(demand, drawn_for, fields):
    assert [fault.field for fault in stand_in_faults(demand, drawn_for)] == fields


def test_larger_requests_of_the_server_are_refused():
    (fault,) = root_stand_in_faults(500_001)
    message = "root_samples: must be at most 500000 (no more than 500000 stand-ins are drawn), got 500001"
    assert str(fault) == message
