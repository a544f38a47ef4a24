"""`asyncfl explain` and `asyncfl schema`: what a scenario may say, for people and for editors."""

from __future__ import annotations

from typing import Annotated

from asyncfl.cli.options import Json, argument
from asyncfl.cli.output import console, print_json, text_width


def _names(incomplete: str) -> list[str]:
    from asyncfl.manual.lookup import known_paths

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
    """Explain a field, section or component of a scenario.

    Prints meaning, type, unit, range, default and source. Name a component by its kind (krum) or its class (Krum), one
    of your own by its import path.

    Example: asyncfl explain defence.detector.spectral
    """
    from asyncfl.manual.lookup import find
    from asyncfl.manual.text import explained, facts

    found = find(name)
    if json:
        print_json([facts(entry) for entry in found])
    else:
        console.print("\n\n".join(explained(entry, text_width()) for entry in found))


def schema() -> None:
    """Print the JSON schema of a scenario, for editors.

    Example: asyncfl schema > scenario.schema.json
    """
    from asyncfl.base.field_texts import schema_with_texts
    from asyncfl.scenario import Scenario

    print_json(schema_with_texts(Scenario))
