import pytest

from asyncfl.data.limits import MOST_DRAWN, SampleRequest, overdrawn

FITS = SampleRequest(clients=10, domains=5, samples=50_000, tested=100_000, by_share=False)


def test_everything_there_is_may_be_drawn():
    assert overdrawn(FITS, drawn_for=10) == []
    assert FITS.clients * FITS.samples == FITS.domains * 100_000 == MOST_DRAWN


@pytest.mark.parametrize(
    ("demand", "drawn_for", "fields"),
    [
        (SampleRequest(10, 5, 50_001, 100_000, False), 10, ["data.samples_per_client"]),
        (SampleRequest(10, 5, 50_001, 100_000, False), 1, []),
        (SampleRequest(10, 5, 500_001, 100_001, False), 1, ["data.samples_per_client", "data.test_samples"]),
        (SampleRequest(10, 5, 1, 100_001, True), 10, ["data.test_share"]),
        (SampleRequest(500_001, 1, 1, None, False), 500_001, ["data.clients"]),
        (SampleRequest(500_001, 1, 1, None, False), 1, []),
        (SampleRequest(10, 5, 1, None, False, root=500_001), 10, ["defence.root_samples"]),
    ],
)
def test_one_more_is_too_many(demand, drawn_for, fields):
    assert [fault.field for fault in overdrawn(demand, drawn_for)] == fields
