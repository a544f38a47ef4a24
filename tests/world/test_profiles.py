"""CSV files of measured devices and links: what is read, and every fault with its line."""

from pathlib import Path

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.world.devices import CsvDevice
from asyncfl.world.profiles import MeasuredColumn, read_profile
from asyncfl.world.world import World

LINK = (
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
    table = read_profile(str(path), LINK, "world.uplink.profile")
    assert set(table) == {"latency_s", "bandwidth_bps"}
    np.testing.assert_array_equal(table["latency_s"], [0.02, 0.1])
    np.testing.assert_array_equal(table["bandwidth_bps"], [5e6, 1e6])


def test_lists_every_bad_value_with_line_and_column(tmp_path) -> None:
    path = write(tmp_path, "latency_s,bandwidth_bps,packet_loss\n0.1,-5,0.5\n,1e6,1.5\n0,0,abc\ninf,1e6,nan\n0.1\n")
    with pytest.raises(DataError) as error:
        read_profile(str(path), LINK, "world.uplink.profile")
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
        read_profile(str(write(tmp_path, text)), LINK, "world.uplink.profile")


def test_names_a_file_that_is_missing_or_no_text(tmp_path) -> None:
    with pytest.raises(
        DataError, match=r"^world\.uplink\.profile: must be a CSV file, and \S+nothing\.csv cannot be read: No such"
    ):
        read_profile(str(tmp_path / "nothing.csv"), LINK, "world.uplink.profile")
    (tmp_path / "links.csv").write_bytes(b"latency_s\n\xff\xfe\n")
    with pytest.raises(DataError, match=r"links\.csv: world\.uplink\.profile: must be a CSV file, and cannot be read"):
        read_profile(str(tmp_path / "links.csv"), LINK, "world.uplink.profile")


def test_a_relative_path_is_looked_for_beside_the_scenario(tmp_path, monkeypatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr("asyncfl.base.own_classes._beside", {})
    monkeypatch.setattr("sys.path", [])
    look_for_modules_in(write(tmp_path, "s_per_sample,latency_s\n0.5,0\n").parent)
    device = CsvDevice(path="links.csv")
    assert device.draw(2, np.random.default_rng(0)).tolist() == [0.5, 0.5]
    assert list(World(device=device).profile_digests()) == ["links.csv"]
