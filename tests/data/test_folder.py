from pathlib import Path

import pytest

from asyncfl.base.errors import DataError
from asyncfl.data.catalog import download_folder, find


def test_the_users_folder_is_searched_before_the_downloads(data_folder):
    assert find("mnist") is None
    downloads = Path(download_folder())
    downloads.mkdir(parents=True)
    (downloads / "mnist.npz").touch()
    assert find("mnist") == downloads / "mnist.npz"
    (data_folder / "mnist.npz").touch()
    assert find("mnist") == data_folder / "mnist.npz"


def test_a_missing_data_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"ASYNCFL_DATA_DIR must name a folder.*nowhere"):
        find("mnist")
