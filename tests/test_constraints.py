"""The pinned packages can be installed with every Python that the package says it runs on."""

import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def test_every_pinned_package_runs_on_the_oldest_python_that_is_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = f"{project['requires-python'].removeprefix('>=')}.0"
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(line) for line in lines if line and not line.startswith("#")]
    asked = {}
    for one in pinned:
        try:
            asked[one.name] = metadata(one.name).get("Requires-Python") or ""
        except PackageNotFoundError:
            continue
    assert len(asked) > len(pinned) / 2
    assert [name for name, said in asked.items() if not SpecifierSet(said).contains(oldest)] == []
