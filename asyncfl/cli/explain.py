"""`asyncfl explain` and `asyncfl schema`: what a scenario may say, for people and for editors."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from asyncfl.cli.options import Json
from asyncfl.cli.output import console, print_json, text_width


def _names(incomplete: str) -> list[str]:
    from asyncfl.manual.lookup import known_paths

    return [path for path in known_paths() if path.startswith(incomplete)]


def explain(
    name: Annotated[
        str,
        typer.Argument(
            help="Dotted name of a field, section or component, or its last part. Default: list the sections.",
            metavar="NAME",
            autocompletion=_names,
        ),
    ] = "scenario",
    json: Json = False,
) -> None:
    """Explain a field, section or component of a scenario.

    Prints meaning, type, unit, range, default and source. Name a component by its kind (krum) or its class (Krum), one
    of your own by its import path.

    Example: asyncfl explain defence.detector.spectral
    """
    from asyncfl.manual.lookup import find
    from asyncfl.manual.text import explained, facts

    found = find(name)
    if json:
        described: list[dict[str, Any]] = [facts(entry) for entry in found]
        print_json(described)
        return
    for order, entry in enumerate(found):
        if order:
            console.print("")
        console.print(explained(entry, text_width()))


def schema() -> None:
    """Print the JSON schema of a scenario, for editors.

    Example: asyncfl schema > scenario.schema.json
    """
    from asyncfl.base.field_texts import schema_with_texts
    from asyncfl.scenario import Scenario

    print_json(schema_with_texts(Scenario))
