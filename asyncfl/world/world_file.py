"""Files that hold a world, for use in any scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from asyncfl.base.description import faults_of
from asyncfl.base.errors import ScenarioError
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.files.yaml_text import read_yaml, write_text
from asyncfl.world.world import World

HEAD = "# A world that asyncfl calibrate fitted"
"""First line of such a file. Other files are not overwritten."""


def read_world(path: str | Path) -> World:
    """Read a world from a file. Raises ScenarioError with all its faults."""
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ScenarioError(f"must hold the fields of a world, got {type(raw).__name__}", path)
    try:
        return World.model_validate(raw)
    except ValidationError as error:
        raise ScenarioError(faults_of(error, World, raw), path) from None


def write_world(world: World, path: Path, fitted_to: str) -> None:
    """Write a world to a file atomically. `fitted_to`: names of the runs, for the first line.

    Raises OutputError where that fails or `path` is a file of another kind.
    """
    plain: dict[str, Any] = world.model_dump(mode="json")
    with atomic_file(path, lambda head: head.startswith(HEAD.encode())) as part:
        part.write_text(f"{HEAD} to {fitted_to}\n{write_text(plain)}", encoding="utf-8")
