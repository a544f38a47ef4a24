"""`asyncfl schema`: print the JSON schema of a scenario."""

from __future__ import annotations

from asyncfl.cli.output import print_json


def schema() -> None:
    """Print the JSON schema of a scenario, for editors.

    Example: asyncfl schema > scenario.schema.json
    """
    from asyncfl.base.field_texts import schema_with_texts
    from asyncfl.scenario import Scenario

    print_json(schema_with_texts(Scenario))
