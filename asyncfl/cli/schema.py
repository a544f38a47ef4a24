"""`asyncfl schema`: the JSON schema of a scenario, for editors."""

from __future__ import annotations

from asyncfl.cli.output import print_json


def schema() -> None:
    """Print the JSON schema of a scenario.

    Example: asyncfl schema > scenario.schema.json
    """
    from asyncfl.scenario import Scenario

    print_json(Scenario.model_json_schema())
