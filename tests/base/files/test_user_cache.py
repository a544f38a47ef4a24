"""Bytes kept in the user's cache folder: whatever stands there, the bytes are the same."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asyncfl.base.files.user_cache import DIGEST, cache_folder, cached_bytes

WANTED = b"maps" * 1000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "asyncfl"


def fails() -> bytes:
    raise AssertionError("made again")


def test_bytes_are_made_once(folder: Path) -> None:
    assert cached_bytes("a", lambda: WANTED) == cached_bytes("a", fails) == WANTED
    assert [one.name for one in folder.iterdir()] == ["a"]
    assert cached_bytes("b", lambda: b"") == cached_bytes("b", fails) == b""


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "folder", "pipe", "link", "dangling link"])
def test_damaged_files_are_made_again(damage: str, folder: Path, tmp_path: Path) -> None:
    cached_bytes("a", lambda: WANTED)
    whole = (folder / "a").read_bytes()
    other = tmp_path / "other"
    other.write_bytes(whole)
    (folder / "a").unlink()
    if damage == "folder":
        (folder / "a").mkdir()
    elif damage == "pipe":
        os.mkfifo(folder / "a")
    elif damage in ("link", "dangling link"):
        (folder / "a").symlink_to(other if damage == "link" else tmp_path / "missing")
    else:
        (folder / "a").write_bytes({"cut": whole[:-1], "changed": whole[:-1] + b"x", "empty": b""}[damage])
    assert cached_bytes("a", lambda: WANTED) == WANTED
    assert other.read_bytes() == whole
    assert not (tmp_path / "missing").exists()
    if damage != "folder":
        assert (folder / "a").read_bytes() == whole
        assert stat.S_ISREG((folder / "a").lstat().st_mode)
        assert cached_bytes("a", fails) == WANTED
    assert [one.name for one in folder.iterdir()] == ["a"]


def test_files_of_other_users_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_bytes("a", lambda: WANTED)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cached_bytes("a", lambda: b"mine") == b"mine"


def test_bytes_are_made_each_time_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [cached_bytes("a", lambda: WANTED) for _ in range(2)] == [WANTED] * 2
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no/such/folder")
    assert cached_bytes("a", lambda: WANTED) == WANTED


def test_users_without_a_home_have_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", no_home)
    assert cache_folder() is None
    assert cached_bytes("a", lambda: WANTED) == WANTED


def test_many_writers_leave_one_whole_file(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: cached_bytes("a", lambda: WANTED), range(200)))
    assert found == [WANTED] * 200
    assert (folder / "a").read_bytes()[DIGEST:] == WANTED
    assert [one.name for one in folder.iterdir()] == ["a"]
