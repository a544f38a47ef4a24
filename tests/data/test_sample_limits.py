"""Limits on the number of stand-ins that are drawn."""

import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec

MANY = 10_000_000
DOMAINS = ("mnist", "usps")


def embedded(**fields):
    return DataSpec(**{"clients": 4, "samples_per_client": 10, "test_samples": 12, "source": "embedded", **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"samples_per_client": MANY},
            "samples_per_client: must be at most 125000 (no more than 500000 stand-ins are drawn, 4 clients), "
            "got 10000000; lower data.samples_per_client or data.clients",
        ),
        (
            {"test_samples": MANY, "domains": DOMAINS},
            "test_samples: must be 1..250000 (no more than 500000 stand-ins are drawn, 2 domains), got 10000000",
        ),
        (
            {"test_samples": None, "test_share": 0.99999},
            "test_share: asks for 3999960 test samples, and no more than 500000 stand-ins are drawn; lower it or "
            "data.samples_per_client",
        ),
    ],
)
def test_messages_name_the_field_and_the_limit(fields, message):
    assert [str(fault) for fault in embedded(**fields).faults()] == [message]


def test_a_large_population_can_be_timed_but_not_built():
    spec = embedded(clients=100_000, samples_per_client=90)
    assert list(spec.faults()) == []
    assert spec.client_sizes(Streams(0)).sum() == 9_000_000
    with pytest.raises(DataError, match=r"data\.samples_per_client: must be at most 5 \(no more than 500000 stand-ins"):
        spec.build(Streams(0))
    with pytest.raises(DataError, match=r"data\.clients: must be at most 500000 \(no more than 500000 stand-ins"):
        embedded(clients=1_000_000).build(Streams(0))
