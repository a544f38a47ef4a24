import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from asyncfl.base.errors import OutputError
from asyncfl.base.files.atomic import lock_file
from asyncfl.base.files.own_folder import LOCK, MARK, PARTIAL, FolderMark, OwnFolder, Write, is_worked_on

CONDITIONS = "0123456789abcdef"
"""Name of a folder as the program makes them in the working area."""


def files(**texts: str) -> Write:
    def write(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_text(text)

    return write


def put(folder: Path, scenario: str, write: Write, force: bool = False) -> None:
    own = OwnFolder(folder, "run", scenario)
    with own.working(force) as area:
        own.replace(area, write, "end")


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != MARK}


def test_a_mark_says_program_format_and_scenario(tmp_path: Path) -> None:
    put(tmp_path / "r", "abc", files(a="1", end="2"))
    said = json.loads((tmp_path / "r" / MARK).read_text())
    assert (said["program"], said["format"] > 0, said["scenario"]) == ("asyncfl", True, "abc")
    assert FolderMark.read(tmp_path / "r") == FolderMark("run", "abc", True, ("a", "end"))
    assert OwnFolder(tmp_path / "r", "run", "abc").is_whole()
    assert not OwnFolder(tmp_path / "r", "run", "other").is_whole()


def test_a_folder_that_is_removed_during_the_work_is_made_again(tmp_path: Path) -> None:
    own = OwnFolder(tmp_path / "above" / "r", "run", "abc")
    with own.working() as area:
        shutil.rmtree(tmp_path / "above")
        own.keep(area / CONDITIONS / "seed-0", files(part="1"))
        assert own.mark() is not None
        shutil.rmtree(tmp_path / "above")
        own.replace(area, files(a="1", end="2"), "end")
    assert contents(own.folder) == {"a": "1", "end": "2"}
    assert own.is_whole()
    put(own.folder, "abc", files(a="3", end="4"))
    assert contents(own.folder) == {"a": "3", "end": "4"}


def test_work_that_breaks_off_in_a_removed_folder_blocks_no_later_one(tmp_path: Path) -> None:
    own = OwnFolder(tmp_path / "r", "run", "abc")
    with suppress(RuntimeError), own.working() as area:
        shutil.rmtree(tmp_path / "r")
        own.keep(area / CONDITIONS / "seed-0", files(part="1"))
        raise RuntimeError
    assert [path.name for path in own.kept()] == ["seed-0"]
    put(own.folder, "abc", files(a="1", end="2"))
    assert contents(own.folder) == {"a": "1", "end": "2"}


def test_while_files_are_exchanged_the_folder_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, seen, replace = tmp_path / "r", [], os.replace

    def exchange(one: str | Path, other: str | Path) -> None:
        if Path(other).name in ("a", "b", "end"):
            seen.append((Path(other).name, FolderMark.read(folder), (folder / "end").exists()))
        replace(one, other)

    put(folder, "abc", files(a="1", end="1"))
    monkeypatch.setattr(os, "replace", exchange)
    put(folder, "abc", files(b="2", end="2"))
    under_way = FolderMark("run", "abc", False, ("a", "b", "end"))
    assert seen == [("b", under_way, False), ("end", under_way, False)]
    assert FolderMark.read(folder) == FolderMark("run", "abc", True, ("b", "end"))


def test_what_others_put_beside_is_never_touched(tmp_path: Path) -> None:
    put(tmp_path / "r", "abc", files(a="1", b="1", end="1"))
    (tmp_path / "r" / "thesis.tex").write_text("precious")
    put(tmp_path / "r", "other", files(a="2", c="2", end="2"), force=True)
    assert contents(tmp_path / "r") == {"a": "2", "c": "2", "end": "2", "thesis.tex": "precious"}
    assert OwnFolder(tmp_path / "r", "run", "other").is_whole()


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_file_of_others_under_a_name_of_ours_is_refused(tmp_path: Path, as_folder: bool) -> None:
    put(tmp_path / "r", "abc", files(a="1", end="1"))
    place = tmp_path / "r" / "b"
    if as_folder:
        (tmp_path / "r" / "a").unlink()
        place = tmp_path / "r" / "a" / "thesis.tex"
        place.parent.mkdir()
    place.write_text("precious")
    with pytest.raises(OutputError, match="was not written by this program; move it away"):
        put(tmp_path / "r", "abc", files(a="2", b="2", end="2"))
    assert place.read_text() == "precious"
    assert (tmp_path / "r" / "end").read_text() == "1"
    assert not (tmp_path / "r" / PARTIAL).exists()


@pytest.mark.parametrize(
    "mark",
    ["", "{}", "[]", '{"program": "other", "holds": "run", "scenario": "abc", "whole": true, "files": ["thesis.tex"]}'],
)
def test_a_mark_that_is_not_ours_protects(tmp_path: Path, mark: str) -> None:
    (tmp_path / MARK).write_text(mark)
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(OutputError, match="was not made by this program and is not empty"):
        put(tmp_path, "abc", files(end="1"), force=True)
    assert contents(tmp_path) == {"thesis.tex": "precious"}


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"cannot write .*new/deep: No space left on device"):
        put(tmp_path / "new" / "deep", "abc", full)
    assert list(tmp_path.iterdir()) == []
    put(tmp_path / "r", "abc", files(a="1", end="1"))
    with pytest.raises(OutputError, match="No space left"):
        put(tmp_path / "r", "other", full, force=True)
    assert contents(tmp_path / "r") == {"a": "1", "end": "1"}
    assert OwnFolder(tmp_path / "r", "run", "abc").is_whole()


def test_a_folder_that_was_begun_stays_ours_when_it_fails_again(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text(FolderMark("run", "abc").to_json())
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ZeroDivisionError), OwnFolder(tmp_path, "run", "abc").working():
        _ = 1 / 0
    put(tmp_path, "abc", files(end="1"))
    assert contents(tmp_path) == {"end": "1", "thesis.tex": "precious"}


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("file", "a file of that name is in the way"),
        ("file/below", "cannot write .*file/below"),
        ("dangling", "it is a link to nowhere, which is not there"),
        ("linked", r"it holds thesis\.tex"),
        ("/proc/asyncfl", "cannot write /proc/asyncfl"),
        (".", "not empty"),
    ],
)
def test_places_that_cannot_be_had_are_refused(tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    (tmp_path / "linked").symlink_to("full")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(OutputError, match=message):
        put(tmp_path / place, "abc", files(end="1"), force=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_an_empty_folder_is_filled_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    before = (tmp_path / "empty").stat().st_ino
    put(tmp_path / "link", "abc", files(end="1"))
    assert contents(tmp_path / "empty") == {"end": "1"}
    assert (tmp_path / "empty").stat().st_ino == before
    assert (tmp_path / "link").is_symlink()


def test_contents_of_another_kind_are_never_replaced(tmp_path: Path) -> None:
    put(tmp_path / "r", "abc", files(end="1"))
    with pytest.raises(OutputError, match="it holds a run; name another folder"):
        OwnFolder(tmp_path / "r", "timeline", "abc").check(force=True)


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    own = OwnFolder(tmp_path / "r", "run", "abc")
    with own.working() as area:
        (area / "note").write_text("mine")
        with pytest.raises(OutputError, match="another process is at work on"):
            put(tmp_path / "r", "abc", files(end="1"))
    assert (area / "note").exists()
    with lock_file(area / LOCK, "r"):
        pass


def test_a_scenario_begun_meanwhile_is_not_pushed_aside(tmp_path: Path) -> None:
    mine = OwnFolder(tmp_path / "r", "run", "mine")
    mine.check()
    other = OwnFolder(tmp_path / "r", "run", "other")
    with other.working() as area:
        other.keep(area / CONDITIONS / "seed-0", files(a="1"))
    with pytest.raises(OutputError, match="of another scenario"), mine.working():
        pytest.fail("began all the same")
    assert other.mark() == FolderMark("run", "other")


def test_what_was_begun_and_kept_nothing_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "r" / PARTIAL / CONDITIONS / "seed-0.unfinished").mkdir(parents=True)
    (tmp_path / "r" / MARK).write_text(FolderMark("run", "killed").to_json())
    put(tmp_path / "r", "abc", files(end="1"))
    assert contents(tmp_path / "r") == {"end": "1"}


KILLED = '''
import os, sys
from pathlib import Path
from asyncfl.base.files.own_folder import OwnFolder

STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.replace", "shutil.rmtree")
folder, last = Path(sys.argv[1]), int(sys.argv[2])
done = 0

def of_descriptor(argument):
    """Place of the open folder that an argument may be the descriptor of."""
    try:
        return Path(os.readlink(f"/proc/self/fd/{argument}")) if type(argument) is int else Path()
    except OSError:
        return Path()

def watch(event, arguments):
    """Ends the process without any cleaning up before its step number `last` on the disk."""
    global done
    below = any(folder == place or folder in place.parents for place in map(of_descriptor, arguments))
    if event in STEPS and (below or str(folder) in str(arguments)):
        done += 1
        if done == last:
            os._exit(9)

def write(into):
    (into / "a").write_text("B")
    (into / "c").write_text("B")
    (into / "end").write_text("B")

def put():
    own = OwnFolder(folder, "run", "B")
    with own.working(force=True) as area:
        place = area / "0123456789abcdef" / "seed-0"
        if not place.exists():
            own.keep(place, write)
        own.replace(area, write, "end")

sys.addaudithook(watch)
for last in range(1, last + 1):
    done = 0
    if os.fork() == 0:
        put()
        os._exit(0)
    if os.waitstatus_to_exitcode(os.wait()[1]) == 0:
        print("steps", last)
        break
    saved, done = last, -10**9
    last = saved
    kept = {p.name: p.read_text() for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")}
    assert kept.pop("thesis.tex") == "precious", last
    if "end" in kept:
        assert kept in ({"a": "A", "b": "A", "end": "A"}, {"a": "B", "c": "B", "end": "B"}), (last, kept)
    if folder.name.endswith("each"):
        put()
        assert OwnFolder(folder, "run", "B").is_whole()
        assert sorted(p.name for p in folder.iterdir()) == [".asyncfl.json", "a", "c", "end", "thesis.tex"], last
        restore = OwnFolder(folder, "run", "A")
        def old(into):
            for name in ("a", "b", "end"):
                (into / name).write_text("A")
        with restore.working(force=True) as area:
            restore.replace(area, old, "end")
'''


@pytest.mark.parametrize("name", ["each", "one_after_another"])
def test_a_kill_before_any_step_loses_nothing(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    put(folder, "A", files(a="A", b="A", end="A"))
    (folder / "thesis.tex").write_text("precious")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, os.fspath(folder), "300"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("steps "), "every kill point was passed"
    assert int(ended.stdout.split()[1]) > (10 if name == "each" else 3)
    assert contents(folder) == {"a": "B", "c": "B", "end": "B", "thesis.tex": "precious"}
    assert OwnFolder(folder, "run", "B").is_whole()


def test_files_in_folders_are_ones_own_too_and_nobody_elses_are_touched(tmp_path: Path) -> None:
    def nested(folder: Path) -> None:
        (folder / "models").mkdir()
        (folder / "models" / "1").write_text("one")
        (folder / "end").write_text("2")

    put(tmp_path / "r", "abc", nested)
    mark = FolderMark.read(tmp_path / "r")
    assert mark == FolderMark("run", "abc", True, ("end", "models/1"))
    assert OwnFolder(tmp_path / "r", "run", "abc").is_whole()
    put(tmp_path / "r", "abd", files(end="3"), force=True)
    assert contents(tmp_path / "r") == {"end": "3"}
    (tmp_path / "elsewhere").mkdir()
    for foreign in (lambda place: place.write_text("mine"), lambda place: place.symlink_to(tmp_path / "elsewhere")):
        place = tmp_path / "r" / "models"
        foreign(place)
        with pytest.raises(OutputError, match="models/1 was not written by this program"):
            put(tmp_path / "r", "abc", nested, force=True)
        assert (tmp_path / "r" / "end").read_text() == "3"
        assert not list((tmp_path / "elsewhere").iterdir())
        place.unlink()


@pytest.mark.parametrize("name", ["../a", "/a", "a/../b", "a//b", "a/b/c", ".", "models/.."])
def test_a_mark_makes_nothing_outside_its_folder_the_programs_own(name: str, tmp_path: Path) -> None:
    put(tmp_path / "r", "abc", files(end="1"))
    path = tmp_path / "r" / MARK
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"files": [name, "end"]}))
    mark = FolderMark.read(tmp_path / "r")
    assert mark is not None
    assert mark.files == ("end",)


def test_where_there_are_no_locks_a_folder_that_is_not_whole_is_taken_for_worked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    seen = []
    for held_by_whom in (False, None):
        monkeypatch.setattr("asyncfl.base.files.own_folder.is_locked", lambda path, known=held_by_whom: known)
        seen.append(is_worked_on(folder))
        for whole in (False, True):
            (folder / MARK).write_text(FolderMark("run", "abc", whole=whole).to_json())
            seen.append(is_worked_on(folder))
        (folder / MARK).unlink()
    assert seen == [False, False, False, False, True, False]
    monkeypatch.undo()
    with OwnFolder(folder, "run", "abc").working():
        assert is_worked_on(folder)
    assert not is_worked_on(folder)


def thesis_in(home: Path) -> Path:
    """Folders of a user, with names that the program uses in its own, and a file in each."""
    for name in ("thesis", CONDITIONS, "whole"):
        (home / name / "seed-0.unfinished").mkdir(parents=True)
        (home / name / "seed-0.unfinished" / "a.tex").write_text("precious")
        (home / name / "b.tex").write_text("precious")
    return home


def untouched(home: Path) -> bool:
    return [path.read_text() for path in sorted(home.rglob("*.tex"))] == ["precious"] * 6


@pytest.mark.parametrize("name", ["", CONDITIONS, "whole"])
def test_a_link_in_place_of_unfinished_work_is_refused_and_nothing_behind_it_is_removed(
    tmp_path: Path, name: str
) -> None:
    home, area = thesis_in(tmp_path / "home"), tmp_path / "r" / PARTIAL
    put(tmp_path / "r", "abc", files(a="1", end="1"))
    if name:
        area.mkdir()
    (area / name).symlink_to(home)
    whole = OwnFolder(tmp_path / "r", "run", "abc")
    whole.tidy()
    assert whole.is_whole()
    with pytest.raises(OutputError, match=f"{area / name} is a link, and unfinished work is removed there"):
        put(tmp_path / "r", "other", files(a="2", end="2"), force=True)
    assert contents_of_files(tmp_path / "r") == {"a": "1", "end": "1"}
    assert untouched(home)


def contents_of_files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file() and path.name != MARK}


def test_links_and_folders_of_others_beside_unfinished_work_stay_and_end_no_run(tmp_path: Path) -> None:
    home, area = thesis_in(tmp_path / "home"), tmp_path / "r" / PARTIAL
    (area / "mine").mkdir(parents=True)
    (area / "mine" / "c.tex").write_text("precious")
    (area / "scratch").symlink_to(home)
    (tmp_path / "r" / MARK).write_text(FolderMark("run", "abc").to_json())
    own = OwnFolder(tmp_path / "r", "run", "abc")
    with own.working() as working:
        (working / CONDITIONS).mkdir()
        (working / CONDITIONS / "inside").symlink_to(home)
        (working / CONDITIONS / "seed-0").symlink_to(home)
        own.keep(working / CONDITIONS / "seed-0", files(a="1"))
        own.replace(working, files(a="1", end="1"), "end")
    assert own.is_whole()
    assert sorted(path.name for path in area.iterdir()) == [LOCK, "mine", "scratch"]
    assert (area / "mine" / "c.tex").read_text() == "precious"
    assert untouched(home)


@pytest.mark.parametrize("name", [MARK, f".{MARK}.part", f"{PARTIAL}/{LOCK}"])
def test_files_of_the_program_are_never_written_through_links(tmp_path: Path, name: str) -> None:
    put(tmp_path / "r", "abc", files(a="1", end="1"))
    (tmp_path / "r" / PARTIAL).mkdir()
    thesis = tmp_path / "thesis.tex"
    thesis.write_text(place.read_text() if (place := tmp_path / "r" / name).exists() else "precious")
    before = thesis.read_text()
    place.unlink(missing_ok=True)
    place.symlink_to(thesis)
    with suppress(OutputError):
        put(tmp_path / "r", "other", files(a="2", end="2"), force=True)
    assert thesis.read_text() == before
