"""Links of a population: constant, drawn, or from a CSV file of measurements."""

import math
from pathlib import Path

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.base.streams import Streams
from asyncfl.world.devices import CsvDevice
from asyncfl.world.links import Link
from asyncfl.world.loss import IndependentLoss
from asyncfl.world.profiles import MeasuredColumn, read_profile
from asyncfl.world.world import World

STREAMS = Streams(3)


def test_each_client_has_its_own_link_and_each_direction_its_own_draws() -> None:
    link = Link(
        latency_s={"kind": "uniform", "low": 0.01, "high": 0.1},
        bandwidth_bps={"kind": "lognormal", "median": 1e6, "sigma": 1},
    )
    down, up = (link.start(500, STREAMS, direction) for direction in (0, 1))
    assert len({*down.latency_s, *up.latency_s}) == 1000
    for one, other in ((down.bandwidth_bps, up.bandwidth_bps), (down.latency_s, down.bandwidth_bps)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.2
    slower = link.model_copy(update={"latency_s": Link(latency_s=1).latency_s}).start(500, STREAMS, 0)
    np.testing.assert_array_equal(slower.bandwidth_bps, down.bandwidth_bps)


@pytest.mark.parametrize("jitter_s", [0.25, {"kind": "exponential", "mean": 0.25}])
def test_jitter_delays_each_message_anew(jitter_s) -> None:
    links = Link(latency_s=1, jitter_s=jitter_s).start(1, STREAMS, 0)
    assert links.needs_draws
    rng = np.random.default_rng(0)
    delays = np.array([links.send(0, 1, None, rng).duration_s for _ in range(2000)])
    assert delays.min() >= 1
    assert delays.mean() == pytest.approx(1.25, abs=4 * 0.25 / math.sqrt(2000))


def test_a_profile_keeps_together_what_was_measured_together(tmp_path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("latency_s,bandwidth_bps,packet_loss\n0.1,1e6,0.5\n0.2,2e6,0\n")
    link = Link(profile=str(path))
    down, up = (link.start(200, STREAMS, direction) for direction in (0, 1))
    np.testing.assert_array_equal(down.bandwidth_bps, 1e7 * down.latency_s)
    np.testing.assert_array_equal(down.latency_s, up.latency_s)
    assert set(down.latency_s) == {0.1, 0.2}
    assert down.needs_draws
    for client in range(5):
        measured = 0.5 if down.latency_s[client] == 0.1 else 0.0
        assert down.loss_of(client) == IndependentLoss(probability=measured)
    in_order = link.model_copy(update={"profile_rows": "in_order"}).start(3, STREAMS, 0)
    assert in_order.latency_s.tolist() == [0.1, 0.2, 0.1]


def test_two_losses_at_once_are_refused(tmp_path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("latency_s,bandwidth_bps,packet_loss\n0.1,1e6,0.5\n")
    with pytest.raises(DataError, match="set loss to none"):
        Link(profile=str(path), loss=IndependentLoss(probability=0.1)).start(1, STREAMS, 0)


COLUMNS = (
    MeasuredColumn("latency_s"),
    MeasuredColumn("bandwidth_bps", positive=True),
    MeasuredColumn("packet_loss", at_most=1, required=False),
)


def write(folder: Path, text: str) -> Path:
    path = folder / "links.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_reads_the_columns_asked_for_and_ignores_others(tmp_path) -> None:
    path = write(tmp_path, "\ufeffname, latency_s ,bandwidth_bps\nhome,0.02,5e6\n\nmobile,0.1,1000000\n")
    table = read_profile(str(path), COLUMNS, "world.uplink.profile")
    assert set(table) == {"latency_s", "bandwidth_bps"}
    np.testing.assert_array_equal(table["latency_s"], [0.02, 0.1])
    np.testing.assert_array_equal(table["bandwidth_bps"], [5e6, 1e6])


def test_lists_every_bad_value_with_line_and_column(tmp_path) -> None:
    path = write(tmp_path, "latency_s,bandwidth_bps,packet_loss\n0.1,-5,0.5\n,1e6,1.5\n0,0,abc\ninf,1e6,nan\n0.1\n")
    with pytest.raises(DataError) as error:
        read_profile(str(path), COLUMNS, "world.uplink.profile")
    assert error.value.source == str(path)
    faults = {fault.field: fault.message for fault in error.value.faults}
    assert faults == {
        "line 2, column bandwidth_bps": "must be a number > 0, got '-5'",
        "line 3, column latency_s": "must be a number >= 0, got nothing",
        "line 3, column packet_loss": "must be a number >= 0 and <= 1, got '1.5'",
        "line 4, column bandwidth_bps": "must be a number > 0, got '0'",
        "line 4, column packet_loss": "must be a number >= 0 and <= 1, got 'abc'",
        "line 5, column latency_s": "must be a number >= 0, got 'inf'",
        "line 5, column packet_loss": "must be a number >= 0 and <= 1, got 'nan'",
        "line 6, column bandwidth_bps": "must be a number > 0, got nothing",
        "line 6, column packet_loss": "must be a number >= 0 and <= 1, got nothing",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("latency_s,bandwidth_bps\n", "at least one row"),
        ("latency_s\n0.1\n", "must have a column bandwidth_bps, got latency_s"),
        ("latency_s,latency_s,bandwidth_bps\n1,2,3\n", "must have one column latency_s, got 2"),
    ],
)
def test_refuses_files_without_the_table(tmp_path, text, says) -> None:
    with pytest.raises(DataError, match=says):
        read_profile(str(write(tmp_path, text)), COLUMNS, "world.uplink.profile")


def test_names_a_file_that_is_missing_or_no_text(tmp_path) -> None:
    with pytest.raises(
        DataError, match=r"^world\.uplink\.profile: must be a CSV file, and \S+nothing\.csv cannot be read: No such"
    ):
        read_profile(str(tmp_path / "nothing.csv"), COLUMNS, "world.uplink.profile")
    (tmp_path / "links.csv").write_bytes(b"latency_s\n\xff\xfe\n")
    with pytest.raises(DataError, match=r"links\.csv: world\.uplink\.profile: must be a CSV file, and cannot be read"):
        read_profile(str(tmp_path / "links.csv"), COLUMNS, "world.uplink.profile")


def test_a_relative_path_is_looked_for_beside_the_scenario(tmp_path, monkeypatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr("asyncfl.base.own_classes._beside", {})
    monkeypatch.setattr("sys.path", [])
    look_for_modules_in(write(tmp_path, "s_per_sample,latency_s\n0.5,0\n").parent)
    device = CsvDevice(path="links.csv")
    assert device.draw(2, np.random.default_rng(0)).tolist() == [0.5, 0.5]
    assert list(World(device=device).profile_digests()) == ["links.csv"]
