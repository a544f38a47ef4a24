"""Random timelines with all kinds of faults: every run stops, and every task has one fate."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncfl.defences import Kardam, Krum, Mean, Safl, Strikes
from asyncfl.protocol import Buffered, FedAsync, Protocol, Sync
from asyncfl.simulation.driver import Driver

CLIENTS = 6

dispatches = st.one_of(
    st.fixed_dictionaries({"kind": st.just("cohort"), "participants": st.integers(3, CLIENTS)}),
    st.fixed_dictionaries({"kind": st.just("constant"), "in_flight": st.integers(1, CLIENTS)}),
    st.just({"kind": "continuous"}),
)
openings = st.one_of(
    st.just({"kind": "all"}),
    st.fixed_dictionaries({"kind": st.just("quorum"), "share": st.sampled_from([0.3, 0.7])}),
    st.fixed_dictionaries({"kind": st.just("deadline"), "seconds": st.sampled_from([0.2, 1.0, 3.0])}),
)
limits = {
    "rounds": st.integers(1, 8),
    "time_limit_s": st.sampled_from([1.0, 6.5, 20.0]),
    "selection": st.sampled_from([{"kind": "uniform"}, {"kind": "fair"}]),
    "scoring": st.sampled_from(["parallel", "serial"]),
}
synchronous = st.fixed_dictionaries(
    limits
    | {
        "participants": st.integers(1, CLIENTS),
        "over_selection": st.sampled_from([1.0, 1.5]),
        "open": openings,
        "late": st.sampled_from(["drop", "carry"]),
    }
).map(Sync.model_validate)
buffered = st.fixed_dictionaries(
    limits | {"dispatch": dispatches, "buffer": st.integers(1, 3), "max_staleness": st.sampled_from([None, 0, 2])}
).map(Buffered.model_validate)
fedasync = st.fixed_dictionaries(limits | {"in_flight": st.integers(1, CLIENTS)}).map(FedAsync.model_validate)

links = st.fixed_dictionaries(
    {
        "latency_s": st.sampled_from([0.0, 0.1]),
        "bandwidth_bps": st.sampled_from([64.0, 1e6]),
        "mtu_bytes": st.just(4),
        "loss": st.sampled_from([{"kind": "none"}, {"kind": "independent", "probability": 0.3}]),
        "retransmissions": st.integers(0, 2),
        "retransmission_timeout_s": st.just(0.2),
    }
)
worlds = st.fixed_dictionaries(
    {
        "device": st.just({"kind": "lognormal", "median_s_per_sample": 0.005, "sigma": 0.8}),
        "uplink": links,
        "downlink": links,
        "dropout": st.sampled_from([0.0, 0.2]),
        "dropout_per_s": st.sampled_from([0.0, 0.3]),
        "availability": st.sampled_from(
            [{"kind": "always"}, *({"kind": "alternating", "on_s": on_s, "off_s": 1.0} for on_s in (0.5, 2.0))]
        ),
        "failure_detection": st.sampled_from(
            [{"kind": "instant"}, *({"kind": "lease", "seconds": seconds} for seconds in (0.3, 1.0, 5.0))]
        ),
        "aggregate_s": st.sampled_from([0.0, 1.0]),
        "score_s": st.sampled_from([0.0, 0.5]),
        "tap": st.sampled_from(
            [{"uplink": False}, {"uplink": True, "downlink": True, "scoring": True, "packet_loss": 0.2}]
        ),
    }
)
some = st.lists(st.integers(0, CLIENTS - 1), max_size=3, unique=True)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    protocol=st.one_of(synchronous, buffered, fedasync),
    world=worlds,
    seed=st.integers(0, 1000),
    broken=some,
    loud=some,
    rule=st.sampled_from([Mean(), Krum(byzantine=0)]),
    detector=st.sampled_from([None, Safl(), Kardam()]),
    strikes=st.sampled_from([None, Strikes(threshold=1), Strikes(threshold=2)]),
    every_task=st.booleans(),
    until=st.sampled_from([None, None, 0, 2]),
)
def test_a_run_ends_with_stopped_and_one_fate_for_each_task(
    federation: Callable[..., Driver], protocol: Protocol, world: dict[str, Any], **drawn: Any
) -> None:
    driver = federation(protocol, world, clients=CLIENTS, **drawn)
    reason = driver.run()
    server, tasks = driver.server, driver.tasks
    events = driver.clock.recorder.table().to_pylist()
    assert [row["detail"] for row in events if row["kind"] == "stopped"] == [reason]
    assert events[-1]["kind"] == "stopped"
    dispatched = [row["task"] for row in events if row["kind"] == "dispatched"]
    assert len(set(dispatched)) == len(dispatched) == tasks.fates.total()
    assert not server.tasks.open
    published = [row for row in events if row["kind"] == "published"]
    assert [row["version"] for row in published] == list(range(len(published)))
    aggregated = [row for row in events if row["kind"] == "aggregated"]
    assert len(aggregated) == tasks.fates["aggregated"]
    assert all(row["staleness"] == row["version"] - row["base_version"] for row in aggregated)
    assert {row["version"] + 1 for row in aggregated} <= {row["version"] for row in published}
    banned = [row["client"] for row in events if row["kind"] == "banned"]
    assert len(set(banned)) == len(banned)
    assert not driver.clients.held, "what was trained ahead was collected or dropped"  # type: ignore[union-attr]
