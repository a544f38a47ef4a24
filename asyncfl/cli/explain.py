"""`asyncfl init`, `asyncfl explain` and `asyncfl schema`: what a scenario may say, for people and for editors."""

from __future__ import annotations

import json as json_module
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from asyncfl.base.errors import OutputError, ScenarioError
from asyncfl.cli.options import Force, Json, argument, option
from asyncfl.cli.output import console, print_json, print_text, text_width

if TYPE_CHECKING:
    from asyncfl.manual.columns import NamedColumn
    from asyncfl.manual.symbols import Symbol


def _names(incomplete: str) -> list[str]:
    from asyncfl.manual.explanation import known_paths

    return [path for path in known_paths() if path.startswith(incomplete)]


def explain(
    name: Annotated[
        str,
        argument(
            "NAME",
            "Dotted name of a field, section or component, or its last part. Default: list the sections.",
            autocompletion=_names,
        ),
    ] = "scenario",
    json: Json = False,
) -> None:
    """Explain a field, section or component of a scenario, a column of a table, or a symbol of a paper.

    Prints meaning, type, unit, range, default and source. Name a component by its kind (krum) or its class (Krum), one
    of your own by its import path, a column with or without its table (rounds.staleness_mean), a symbol as the papers
    write it (L, sigma_U).

    Example: asyncfl explain defence.detector.evidence
    """
    from asyncfl.manual.columns import columns_named
    from asyncfl.manual.explanation import AmbiguousNameError, Entry, explained, facts, find
    from asyncfl.manual.symbols import symbols_named

    found, further = list[Entry](), list[str]()
    beside: list[Symbol | NamedColumn] = [*symbols_named(name), *columns_named(name)]
    try:
        found = find(name)
    except AmbiguousNameError as error:
        found = error.nearest if len(error.nearest) == 1 else []
        further = [f"In a scenario, {error}."]
        if not (found or beside):
            raise
    except ScenarioError:
        if not beside:
            raise
    if json:
        print_json([*(facts(entry) for entry in found), *map(asdict, beside)])
        return
    if found:
        console.print("\n\n".join(explained(entry, text_width()) for entry in found))
    print_text(*(one.in_words() for one in beside), *further)


def schema() -> None:
    """Print the JSON schema of a scenario, for editors.

    Example: asyncfl schema > scenario.schema.json
    """
    from asyncfl.base.field_texts import schema_with_texts
    from asyncfl.scenario import Scenario

    print_json(schema_with_texts(Scenario))


def init(
    file: Annotated[Path, argument("FILE", "File to write.")] = Path("scenario.yaml"),
    kind: Annotated[
        Literal["sync", "buffered", "dp", "client-dp", "attack", "own-data"], option("Subject of the scenario.")
    ] = "buffered",
    force: Force = False,
) -> None:
    """Write a scenario to start from, with a comment at each field.

    It runs in seconds and downloads nothing. Its JSON schema, by which editors complete and check it, is written beside
    it unless that file exists.

    Example: asyncfl init scenario.yaml --kind attack
    """
    from asyncfl.base.field_texts import schema_with_texts
    from asyncfl.base.files.atomic import check_free, write_text
    from asyncfl.manual.starter import OWN_DATA, SCHEMA, STARTERS, starter
    from asyncfl.scenario import Scenario

    beside = {"my_data.py": OWN_DATA} if kind == "own-data" else {}
    if file.name in (SCHEMA, *beside):
        raise OutputError(
            f"{file}: this name belongs to a file that is written beside the scenario; choose another name"
        )
    files = {file: starter(kind, file.name)} | {file.parent / name: text for name, text in beside.items()}
    schema = file.parent / SCHEMA
    check_free(files, force)
    if not os.path.lexists(schema):
        files[schema] = json_module.dumps(schema_with_texts(Scenario), indent=1) + "\n"
    for path, text in files.items():
        write_text(text, path)
        console.print(str(path))
    print_text(f"{STARTERS[kind][0]} asyncfl run {file} simulates it.")
