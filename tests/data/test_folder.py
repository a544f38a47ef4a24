import pytest

from asyncfl.base.errors import DataError
from asyncfl.data.folder import download_folder, find


def test_the_users_folder_is_searched_before_the_downloads(data_folder):
    assert find("mnist.npz") is None
    download_folder().mkdir(parents=True)
    (download_folder() / "mnist.npz").touch()
    assert find("mnist.npz") == download_folder() / "mnist.npz"
    (data_folder / "mnist.npz").touch()
    assert find("mnist.npz") == data_folder / "mnist.npz"


def test_a_missing_data_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"ASYNCFL_DATA_DIR must name a folder.*nowhere"):
        find("mnist.npz")
