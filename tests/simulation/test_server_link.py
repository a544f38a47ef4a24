"""Whole runs whose messages share the server's bandwidth."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.protocol.event_query import select
from asyncfl.protocol.tasks import Tasks
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.simulation.seed_run import SeedRun

SYNC = {"kind": "sync", "rounds": 2}
DESCRIPTION: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 10, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 1},
}
BITS = 8 * 4 * Scenario.read({**DESCRIPTION, "protocol": SYNC}).n_parameters
DEVICE = {"kind": "listed", "s_per_sample": [0.1, 0.2, 0.3, 0.4, 0.5]}
"""Training takes 1, 2, ..., 5 s."""


def scenario(protocol: dict[str, Any] = SYNC, **world: Any) -> Scenario:
    return Scenario.read({**DESCRIPTION, "protocol": protocol, "world": {"device": DEVICE, **world}})


def clock(protocol: dict[str, Any] = SYNC, **world: Any) -> SeedRun:
    return simulate_clock(scenario(protocol, **world), 0)


def test_uploads_that_start_one_after_another_by_hand() -> None:
    """Trained at 1, 2, ..., 5 s; each upload takes 2 s alone and shares the link with the others."""
    tasks = Tasks.of(clock(uplink={"server_bandwidth_bps": BITS / 2, "latency_s": 0.5}).tasks)
    first = tasks.only(tasks.base_version == 0)
    by_client = dict(zip(first.client.tolist(), first.uploaded_s.tolist(), strict=True))
    # 1-2: A 1; 2-3: A, B 1/2; 3-4: three a third (A is at 1/6, B at 7/6, C at 5/3); A's last sixth at a quarter each
    # until 4+4/6; D has 2-1/6, B 1, C 3/2 then; a third each until 5: less 1/9; from then on E too.
    left = {1: 1.0 - 1 / 9, 2: 1.5 - 1 / 9, 3: 2 - 1 / 6 - 1 / 9, 4: 2.0}
    ends, now, done = {0: 4 + 4 / 6}, 5.0, 0.0
    for place, client in enumerate(sorted(left, key=left.__getitem__)):
        now += (left[client] - done) * (4 - place)
        ends[client], done = now, left[client]
    assert by_client == pytest.approx({client: end + 0.5 for client, end in ends.items()})


def test_a_slow_client_link_leaves_bandwidth_to_the_others() -> None:
    bandwidth = {"kind": "listed", "values": [BITS / 10, *[BITS * 100] * 4]}
    tasks = Tasks.of(clock(downlink={"server_bandwidth_bps": BITS * 0.5, "bandwidth_bps": bandwidth}).tasks)
    first = dict(zip(tasks.client[:5].tolist(), tasks.downloaded_s[:5].tolist(), strict=True))
    assert first == pytest.approx({0: 10.0, 1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0})
    tasks = Tasks.of(clock(downlink={"server_bandwidth_bps": BITS * 0.9, "bandwidth_bps": bandwidth}).tasks)
    first = dict(zip(tasks.client[:5].tolist(), tasks.downloaded_s[:5].tolist(), strict=True))
    assert first == pytest.approx({0: 10.0, 1: 5.0, 2: 5.0, 3: 5.0, 4: 5.0})


def test_a_shared_link_with_enough_bandwidth_changes_nothing() -> None:
    link = {
        "bandwidth_bps": BITS / 3,
        "latency_s": 0.2,
        "jitter_s": {"kind": "exponential", "mean": 0.1},
        "loss": {"kind": "independent", "probability": 0.3},
        "retransmission_timeout_s": 0.7,
        "mtu_bytes": 500,
    }
    changes: dict[str, Any] = {
        "tap": {"uplink": True, "downlink": True, "packet_loss": 0.1},
        "dropout_per_s": 0.05,
        "availability": {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 20}, "off_s": 3.0},
    }
    protocol = {"kind": "buffered", "rounds": 10, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
    alone = clock(protocol, uplink=link, downlink=link, **changes)
    roomy = {**link, "server_bandwidth_bps": 100 * BITS}
    shared = clock(protocol, uplink=roomy, downlink=roomy, **changes)
    told = ("kind", "task", "client", "version", "staleness", "bytes", "attempt", "detail")
    kinds = set(alone.events["kind"].to_pylist())
    assert {"retransmitted", "overheard", "dropped_out", "went_offline"} <= kinds
    assert shared.events.select(told).to_pylist() == alone.events.select(told).to_pylist()
    assert shared.events["time_s"].to_numpy() == pytest.approx(alone.events["time_s"].to_numpy())


def test_a_sender_waiting_for_an_acknowledgement_leaves_the_link() -> None:
    """Each burst of two takes 4 s; during the pauses of 10 s nothing is sent."""
    lost = {"loss": {"kind": "independent", "probability": 1.0}, "retransmissions": 1, "retransmission_timeout_s": 10.0}
    limited = {"kind": "sync", "rounds": 1, "participants": 2, "time_limit_s": 40}
    run = clock(
        limited, device={"kind": "fixed", "s_per_sample": 0.0001}, uplink={"server_bandwidth_bps": BITS / 2, **lost}
    )
    again = select(run.events, kinds=["retransmitted"])["time_s"].to_numpy()
    assert again[:2] == pytest.approx([4.001 + 10] * 2)
    assert select(run.events, kinds=["lost"])["time_s"].to_numpy()[:2] == pytest.approx([4.001 + 10 + 4 + 10] * 2)


def test_a_client_that_goes_offline_leaves_the_link(tmp_path: Path) -> None:
    """Client 0 goes offline after 2 s with a fifth of its message sent; the rest of the four others takes 4 * 0.8 * 2
    s."""
    intervals = ["device,from_s,until_s", "0,0,2", *(f"{client},0,1000" for client in range(1, 5))]
    file = tmp_path / "intervals.csv"
    file.write_text("\n".join(intervals))
    run = clock(
        {"kind": "sync", "rounds": 1, "time_limit_s": 40},
        downlink={"server_bandwidth_bps": BITS / 2, "mtu_bytes": 1},
        availability={"kind": "csv", "path": str(file), "rows": "in_order"},
    )
    [gone] = select(run.events, kinds=["went_offline"]).to_pylist()
    assert (gone["time_s"], gone["client"], gone["bytes"], gone["attempt"]) == (2.0, 0, BITS // 8 // 5, 1)
    assert select(run.events, kinds=["downloaded"])["time_s"].to_pylist() == pytest.approx([8.4] * 4)


@settings(max_examples=10, deadline=None)
@given(
    down=st.floats(0.2, 1.5),
    up=st.floats(0.2, 1.5),
    probability=st.sampled_from([0.0, 0.2]),
    dropout_per_s=st.sampled_from([0.0, 0.05]),
    off_s=st.floats(0.5, 5),
)
def test_every_task_has_a_fate_and_every_byte_was_sent_at_the_link_s_speed(
    down: float, up: float, probability: float, dropout_per_s: float, off_s: float
) -> None:
    link = {"loss": {"kind": "independent", "probability": probability}, "retransmissions": 1, "mtu_bytes": 400}
    drawn = scenario(
        {"kind": "buffered", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}},
        downlink={**link, "server_bandwidth_bps": BITS / down},
        uplink={**link, "server_bandwidth_bps": BITS / up},
        dropout_per_s=dropout_per_s,
        availability={"kind": "alternating", "on_s": {"kind": "exponential", "mean": 20}, "off_s": off_s},
    )
    run = simulate_clock(drawn, 0)
    tasks = Tasks.of(run.tasks)
    assert sum(run.fates.values()) == len(tasks)
    end_s = run.events["time_s"].to_numpy().max()
    assert run.traffic.bytes_down * 8 <= end_s * BITS / down * (1 + 1e-9) + 8
    assert run.traffic.bytes_up * 8 <= end_s * BITS / up * (1 + 1e-9) + 8
    sent = select(run.events, kinds=["downloaded", "uploaded", "lost", "dropped_out", "went_offline"])["bytes"]
    assert int(np.maximum(sent.to_numpy(), 0).sum()) == run.traffic.bytes_down + run.traffic.bytes_up
    assert simulate_clock(drawn, 0).events.to_pandas().equals(run.events.to_pandas())


def test_scores_go_over_the_same_links() -> None:
    """The server sends two models to each of two clients at once; one model takes 4 s."""
    description = {
        **DESCRIPTION,
        "data": {**DESCRIPTION["data"], "clients": 2},
        "training": {"lr": 0.1, "batch_size": 10, "epochs": 1},
        "defence": {"detector": {"kind": "safl"}},
        "protocol": {"kind": "sync", "rounds": 1},
        "world": {"evaluation_cost": 0.0, "downlink": {"server_bandwidth_bps": BITS / 4}},
    }
    events = simulate_seed(Scenario.read(description), 0).events
    [asked] = set(select(events, kinds=["scores_requested"])["time_s"].to_pylist())
    scored = select(events, kinds=["scored"])["time_s"].to_pylist()
    models = {int(said.split()[0]) for said in select(events, kinds=["scored"])["detail"].to_pylist()}
    assert scored == pytest.approx([asked + 4 * len(scored) * models.pop()] * len(scored))
