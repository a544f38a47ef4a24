from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from asyncfl.errors import OutputError
from asyncfl.files.whole import whole_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole_and_stays_as_it_was_if_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with whole_file(path) as part:
        part.write_text("first")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), whole_file(path) as part:
        part.write_text(f"second{1 / 0}")
    assert path.read_text() == "first"
    assert names(tmp_path) == ["table.csv"]


def test_a_full_disk_is_one_message_and_leaves_nothing(tmp_path: Path) -> None:
    def write(part: Path) -> None:
        part.write_text("half")
        raise OSError(28, "No space left on device")

    message = r"cannot write .*table\.csv: No space left on device"
    with pytest.raises(OutputError, match=message), whole_file(tmp_path / "table.csv") as part:
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
    with pytest.raises(OutputError, match=message), whole_file(tmp_path / path) as part:
        part.write_text("x")
    assert Path("/dev/null").is_char_device()
    assert names(tmp_path) == ["folder", "round"]


def test_only_a_file_of_the_same_kind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "thesis.tex"
    path.write_text(r"\documentclass{thesis}")
    with (
        pytest.raises(OutputError, match="a file of another kind"),
        whole_file(path, lambda head: head.startswith(b"\x89PNG")) as part,
    ):
        part.write_text("x")
    assert path.read_text() == r"\documentclass{thesis}"
    with whole_file(path, lambda head: head.startswith(b"\\doc")) as part:
        part.write_text("new")
    assert path.read_text() == "new"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "elsewhere" / "table.csv")
    for text in ("first", "second"):
        with whole_file(tmp_path / "link.csv") as part:
            part.write_text(text)
        assert (tmp_path / "elsewhere" / "table.csv").read_text() == text
    assert (tmp_path / "link.csv").is_symlink()


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with whole_file(path) as part:
        part.write_text("first")
        with pytest.raises(OutputError, match="another process is at work on"), whole_file(path):
            pass
    assert path.read_text() == "first"


def test_what_a_killed_writer_left_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    code = (
        "import os, sys; from asyncfl.files.whole import whole_file\n"
        "with whole_file(sys.argv[1]) as part: part.write_text('half'); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, os.fspath(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert names(tmp_path) == [".table.csv.part"]
    with whole_file(path) as part:
        part.write_text("whole")
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["table.csv"]
