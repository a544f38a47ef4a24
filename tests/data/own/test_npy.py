import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from asyncfl.api import simulate
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.own.mapped_rows import MappedRows
from asyncfl.federation.limits import memory_bytes
from asyncfl.scenario import Scenario

RNG = np.random.default_rng(0)
ARRAYS = {
    "x_train": RNG.integers(0, 256, (80, 6, 6), dtype=np.uint8),
    "y_train": np.arange(80) % 4,
    "x_test": RNG.integers(0, 256, (20, 6, 6), dtype=np.uint8),
    "y_test": np.arange(20) % 4,
    "writer_train": np.repeat(np.arange(8), 10),
}


@pytest.fixture
def both(tmp_path):
    """The same arrays as a folder of npy files and as an npz file: two descriptions."""
    folder = tmp_path / "big"
    folder.mkdir()
    for name, array in ARRAYS.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(tmp_path / "big.npz", **ARRAYS)
    return {"kind": "npy", "path": str(folder)}, {"kind": "npz", "path": str(tmp_path / "big.npz")}


def test_mapped_samples_equal_those_in_memory(both):
    mapped, loaded = (DataSpec(dataset=one, clients=4, samples_per_client=12).build(Streams(1)) for one in both)
    assert isinstance(mapped.images, MappedRows)
    assert isinstance(mapped.client(2)[0], np.ndarray)
    assert (mapped.shape, len(mapped.images), mapped.images.ndim) == ((1, 6, 6), 48, 4)
    for client in range(4):
        for one, other in zip(mapped.client(client), loaded.client(client), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(mapped.images[7], loaded.images[7])
    chosen = loaded.labels == 2
    np.testing.assert_array_equal(mapped.images[chosen], loaded.images[chosen])
    for one, other in zip(mapped.feature_range(), loaded.feature_range(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(mapped.test_images, loaded.test_images)


def test_a_run_on_mapped_samples_is_identical_and_needs_less_memory(both, tiny):
    tiny["evaluation"] = {"audit": {"clients": 1, "twins": 7}}
    tiny["threats"] = {"attack": {"kind": "backdoor", "side": 2}, "attackers": 1}
    runs = []
    for dataset in both:
        tiny["data"] = {"dataset": dataset, "clients": 5, "samples_per_client": 16}
        scenario = Scenario.read(tiny)
        runs.append((simulate(scenario), memory_bytes(scenario), scenario.data.content_digest()))
    for name in ("rounds", "audit"):
        assert_frame_equal(*(run.tables[name].to_pandas() for run, _, _ in runs))
    assert runs[1][1] - runs[0][1] == 4 * 9 * 36 * 16
    assert runs[0][2] == runs[1][2]


def test_what_is_wrong_is_named(both, faults, tmp_path):
    folder = tmp_path / "big"
    assert faults(both[0], canaries={"count": 1}) == [
        "canaries: must be null where samples stay on disk (big); take kind: npz"
    ]
    x = ARRAYS["x_train"].astype(float)
    x[5] = np.nan
    np.save(folder / "x_train.npy", x)
    (folder / "x_test.npy").unlink()
    (folder / "y_test.npy").unlink()
    assert faults(both[0]) == [f"{folder}: x_train: must be finite numbers, got nan in sample 5"]
    (folder / "x_train.npy").write_bytes(b"no array")
    (found,) = faults(both[0])
    assert found.startswith(f"{folder / 'x_train.npy'}: cannot be read: ")
    (folder / "x_train.npy").unlink()
    (found,) = faults(both[0])
    assert found == f"{folder}: x_train.npy: is missing; the folder has writer_train.npy, y_train.npy"
    (found,) = faults({"kind": "npy", "path": str(tmp_path / "none")})
    assert (
        found == f"{tmp_path / 'none'}: must be a folder with x_train.npy and y_train.npy, but there is no such folder"
    )
