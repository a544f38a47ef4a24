"""Plans that are kept between processes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncfl.experiments import plan_cache
from asyncfl.experiments.plan import make_plan
from asyncfl.experiments.plan_cache import kept


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in place of ours, and an empty cache and data folder of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path / "data"))
    for folder in ("package", "data", "files"):
        (tmp_path / folder).mkdir()
    (tmp_path / "package" / "code.py").write_text("a = 1")
    (tmp_path / "files" / "a.yaml").write_text("a")
    monkeypatch.setattr(plan_cache, "PACKAGE", tmp_path / "package")
    return tmp_path / "package"


@pytest.fixture
def ask(package: Path) -> Callable[..., int]:
    """Asks for a value; returns how often it was made until now."""
    made: list[str] = []

    def call(question: str = "plan", may_be_kept: bool = True, reads: Path | None = None) -> int:
        def make() -> tuple[str, bool]:
            made.append((package.parent / "files" / "a.yaml").read_text() + (reads.read_text() if reads else ""))
            return made[-1], may_be_kept

        assert kept(question, [package.parent / "files"], make) == made[-1]
        return len(made)

    return call


def _rewrite_keeping_size_and_time(path: Path) -> None:
    before = path.stat()
    path.write_text(path.read_text().translate({ord("a"): "b", ord("1"): "2"}))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def _file(package: Path) -> Path:
    return next((package.parent / "cache" / "asyncfl").glob("plan-*"))


def test_an_unchanged_plan_is_made_once_for_each_question(ask: Callable[..., int]) -> None:
    assert [ask(), ask(), ask("another"), ask()] == [1, 1, 2, 2]


@pytest.mark.parametrize("changed", ["files/a.yaml", "package/code.py"])
def test_a_change_of_an_experiment_or_of_code_is_planned_anew(
    ask: Callable[..., int], package: Path, changed: str
) -> None:
    assert [ask(), ask()] == [1, 1]
    _rewrite_keeping_size_and_time(package.parent / changed)
    assert [ask(), ask()] == [2, 2]


@pytest.mark.parametrize("added", ["files/b.yaml", "package/more.py", "data/mnist.npz"])
def test_a_new_experiment_module_or_data_set_is_planned_anew(
    ask: Callable[..., int], package: Path, added: str
) -> None:
    assert [ask(), ask()] == [1, 1]
    (package.parent / added).write_text("")
    assert [ask(), ask()] == [2, 2]


def test_a_change_of_any_other_file_that_was_read_is_planned_anew(ask: Callable[..., int], package: Path) -> None:
    profile = package.parent / "elsewhere" / "profile.csv"
    profile.parent.mkdir()
    profile.write_text("a")
    assert [ask(reads=profile), ask(reads=profile)] == [1, 1]
    _rewrite_keeping_size_and_time(profile)
    assert [ask(reads=profile), ask(reads=profile)] == [2, 2]
    (profile.parent / "summary.json").write_text("")  # the reader may look only whether it is there
    assert [ask(reads=profile), ask(reads=profile)] == [3, 3]


def test_another_version_of_a_setting_is_planned_anew(
    ask: Callable[..., int], monkeypatch: pytest.MonkeyPatch, package: Path
) -> None:
    assert ask() == 1
    monkeypatch.setenv("ASYNCFL_SCALE", "full")
    assert ask() == 2


def test_a_plan_that_depends_on_something_missing_is_not_kept(ask: Callable[..., int]) -> None:
    assert [ask(may_be_kept=False), ask(may_be_kept=False)] == [1, 2]


def test_a_damaged_or_linked_plan_is_made_anew(ask: Callable[..., int], package: Path) -> None:
    assert ask() == 1
    file = _file(package)
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert [ask(), ask()] == [2, 2]
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")
    assert ask() == 3
    assert file.read_bytes() == content
    assert not file.is_symlink()


def test_a_file_that_changes_while_it_is_read_leaves_no_plan(package: Path) -> None:
    path = package.parent / "files" / "a.yaml"

    def make() -> tuple[str, bool]:
        found = path.read_text()
        path.write_text(found + "a")
        return found, True

    assert [kept("plan", [path.parent], make) for _ in range(2)] == ["a", "aa"]


def test_more_files_than_are_quickly_read_leave_no_plan(
    ask: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_cache, "MOST_BYTES", 1)
    assert [ask(), ask()] == [1, 2]


def test_a_kept_plan_is_that_which_is_made_and_knows_what_is_on_disk(write, described, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, results = write(described).parents[1], tmp_path / "results"
    made = make_plan(folder, "full", results=results)
    assert make_plan(folder, "full", results=results, cached=True) == made
    monkeypatch.setattr("asyncfl.experiments.plan._select_runs", None)
    assert make_plan(folder, "full", results=results, cached=True) == made
    run = results / "runs" / made.jobs[0].digests[0]
    run.mkdir(parents=True)
    (run / "summary.json").write_text("{}")
    assert any(job.on_disk for job in make_plan(folder, "full", results=results, cached=True).jobs)
