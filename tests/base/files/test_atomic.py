import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from asyncfl.base.errors import OutputError
from asyncfl.base.files.atomic import atomic_file, check_free, is_locked, lock_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole_and_stays_as_it_was_if_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with atomic_file(path) as part:
        part.write_text("first")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), atomic_file(path) as part:
        part.write_text(f"second{1 / 0}")
    assert path.read_text() == "first"
    assert names(tmp_path) == ["table.csv"]


def test_a_full_disk_is_one_message_and_leaves_nothing(tmp_path: Path) -> None:
    def write(part: Path) -> None:
        part.write_text("half")
        raise OSError(28, "No space left on device")

    message = r"cannot write .*table\.csv: No space left on device"
    with pytest.raises(OutputError, match=message), atomic_file(tmp_path / "table.csv") as part:
        write(part)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("folder", "a folder of that name is in the way"),
        ("missing/x.csv", "there is no folder"),
        ("/dev/null", "no ordinary file"),
        ("round", "a link that leads to itself"),
    ],
)
def test_what_is_no_file_is_never_replaced(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OutputError, match=message), atomic_file(tmp_path / path) as part:
        part.write_text("x")
    assert Path("/dev/null").is_char_device()
    assert names(tmp_path) == ["folder", "round"]


def test_only_a_file_of_the_same_kind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "thesis.tex"
    path.write_text(r"\documentclass{thesis}")
    with (
        pytest.raises(OutputError, match="a file of another kind"),
        atomic_file(path, lambda head: head.startswith(b"\x89PNG")) as part,
    ):
        part.write_text("x")
    assert path.read_text() == r"\documentclass{thesis}"
    with atomic_file(path, lambda head: head.startswith(b"\\doc")) as part:
        part.write_text("new")
    assert path.read_text() == "new"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "elsewhere" / "table.csv")
    for text in ("first", "second"):
        with atomic_file(tmp_path / "link.csv") as part:
            part.write_text(text)
        assert (tmp_path / "elsewhere" / "table.csv").read_text() == text
    assert (tmp_path / "link.csv").is_symlink()


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with atomic_file(path) as part:
        part.write_text("first")
        with pytest.raises(OutputError, match="another process is at work on"), atomic_file(path):
            pass
    assert path.read_text() == "first"


def test_what_a_killed_writer_left_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    code = (
        "import os, sys; from asyncfl.base.files.atomic import atomic_file\n"
        "with atomic_file(sys.argv[1]) as part: part.write_text('half'); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, os.fspath(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert names(tmp_path) == [".table.csv.part"]
    with atomic_file(path) as part:
        part.write_text("whole")
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["table.csv"]


def test_who_holds_a_file_is_known_to_all(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert is_locked(path) is False
    with lock_file(path, "r"):
        assert is_locked(path) is True
    assert is_locked(path) is False


def test_a_file_system_that_knows_no_locks_is_worked_on_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    with lock_file(tmp_path / "lock", "r"):
        assert is_locked(tmp_path / "lock") is None
    with atomic_file(tmp_path / "table.csv") as part:
        part.write_text("whole")
    assert (tmp_path / "table.csv").read_text() == "whole"


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_was_exchanged_before_it_was_held_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    path = tmp_path / "lock"

    def late(file: object, operation: int) -> None:
        path.unlink()
        if again:
            path.touch()

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(OutputError, match="just been at work on r; try again"), lock_file(path, "r"):
        pytest.fail("locked all the same")


def test_files_that_are_there_are_replaced_only_by_force(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "c").symlink_to("nowhere")
    check_free([tmp_path / "a"], force=False)
    check_free([tmp_path / "b"], force=True)
    for name in "bc":
        with pytest.raises(OutputError) as caught:
            check_free([tmp_path / "a", tmp_path / name, tmp_path / "b"], force=False)
        assert str(caught.value) == (
            f"cannot write {tmp_path / name}: it exists already; name another file, or replace it with --force"
        )
