"""The wheel holds all that `asyncfl init`, `run` and `view` need, in an environment with nothing else in it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("asyncfl", "snakemake_logger_plugin_asyncfl", "pyproject.toml", "setup.py", "README.md", "LICENSE")

pytestmark = pytest.mark.long


def call(*command: object, cwd: Path) -> str:
    """Output of a command that succeeds. The package of this checkout is out of its reach."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd)}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def source_in(folder: Path) -> Path:
    """Copy what a wheel is built from."""
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        found = ROOT / name
        if found.is_dir():
            shutil.copytree(found, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(found, source)
    return source


@pytest.mark.parametrize("compiler", ["/bin/false", None])
def test_a_wheel_is_whole_without_a_compiler(compiler: str | None, tmp_path: Path) -> None:
    if compiler is None and shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    build = ["env", *([] if compiler is None else [f"CC={compiler}"]), sys.executable, "-m", "pip", "wheel", "--quiet"]
    call(*build, "--no-deps", "--wheel-dir", tmp_path, source_in(tmp_path), cwd=tmp_path)
    (wheel,) = tmp_path.glob("asyncfl-*.whl")
    assert re.fullmatch(r"asyncfl-[\d.]+-py3-none-\w+\.whl", wheel.name)
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    code = "from asyncfl.learning import kernels as k; print(k.LIBRARY.is_file(), k.library() is not None)"
    found = call("env", f"PYTHONPATH={tmp_path / 'unpacked'}", sys.executable, "-c", code, cwd=tmp_path)
    assert found.split() == [str(compiler is None)] * 2


def test_a_wheel_in_an_empty_environment_runs_the_first_minute(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source, cwd=tmp_path)
    (wheel,) = tmp_path.glob("asyncfl-*.whl")
    call(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path)
    python = tmp_path / "empty" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt"]
    call(*install, wheel, cwd=tmp_path)

    asyncfl = tmp_path / "empty" / "bin" / "asyncfl"
    place = tmp_path / "work"
    place.mkdir()
    call(asyncfl, "init", "scenario.yaml", cwd=place)
    call(asyncfl, "run", "scenario.yaml", "--out", "run", cwd=place)
    call(asyncfl, "view", "run", cwd=place)
    (page,) = place.rglob("*.html")
    assert "<html" in page.read_text(encoding="utf-8")
    assert (place / "run" / "rounds.parquet").is_file()
