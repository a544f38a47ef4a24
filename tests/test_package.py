"""The package as a whole: its pinned dependencies, public names and imports."""

import json
import pickle
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import asyncfl
from asyncfl.scenario import Scenario

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


def test_an_image_is_built_from_files_that_the_build_is_given() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    named = {name.rstrip("/").removeprefix("./") for line in copied for name in line.split()}
    given = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), flags=re.M))
    assert named == given
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_no_two_public_classes_share_a_name() -> None:
    files = Path(asyncfl.__file__).parent.rglob("*.py")
    names = Counter(name for file in files for name in re.findall(r"^class ([A-Z]\w*)", file.read_text("utf-8"), re.M))
    assert [name for name, times in names.items() if times > 1] == []


def test_the_public_names_are_these() -> None:
    errors = "AsyncflError DataError Fault OutputError RunError ScenarioError"
    assert {*asyncfl.__all__} == {
        *errors.split(),
        "Instrument",
        "RowCallback",
        "Run",
        "Scenario",
        "execute",
        "simulate",
        "timeline",
    }
    assert all(getattr(asyncfl, name) for name in asyncfl.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Coffee'"):
        asyncfl.Coffee  # noqa: B018


def test_importing_the_package_imports_nothing_that_is_slow_and_seldom_needed() -> None:
    heavy = ["torch", "matplotlib", "sklearn", "scipy", "urllib.request"]
    code = f"import sys, asyncfl.api; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_only_models_that_a_scenario_names_are_built(tiny: dict[str, Any]) -> None:
    """Building all 220 would take longer than a timeline."""
    code = (
        "import json, sys\nfrom asyncfl.defences import Krum, Mean\nfrom asyncfl.scenario import Scenario\n"
        "Scenario.read(json.load(sys.stdin))\nprint(Mean.__pydantic_complete__, Krum.__pydantic_complete__)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, input=json.dumps(tiny), capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "False"]


def test_a_scenario_that_another_process_sent_is_written_like_any(tiny: dict[str, Any]) -> None:
    """Its models were never validated, and so never built, in this process."""
    scenario = Scenario.read(tiny)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).model_dump_json())"
    result = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(scenario), capture_output=True, check=True)
    assert result.stdout.decode().strip() == scenario.model_dump_json()


def test_public_names_are_listed_before_their_first_use() -> None:
    program = "import asyncfl, sys; print(set(asyncfl.__all__) <= set(dir(asyncfl)), 'asyncfl.api' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]
