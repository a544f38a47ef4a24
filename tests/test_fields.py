"""Fields of scenarios and experiments and options of commands, with defaults, limits and examples, in a written list.

A default that changes changes every scenario that leaves the field out: that is done on purpose or not at all.
`python tests/test_fields.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from asyncfl.cli import app
from asyncfl.experiment.recorded import Recorded
from asyncfl.experiment.spec import Experiment
from asyncfl.live.flower.own import Parameters, Unseen
from asyncfl.privacy.queries.bounds import BoundsQuestion
from asyncfl.privacy.queries.nbafl import NbaflQuestion
from asyncfl.privacy.queries.releases import ComposeQuestion, EpsilonQuestion, ExposureQuestion, NoiseQuestion
from asyncfl.scenario import Scenario
from asyncfl.server.opening import OpenCount
from asyncfl.testing.trials import Framing

LIST = Path(__file__).with_name("fields.txt")
QUESTIONS = (BoundsQuestion, NbaflQuestion, EpsilonQuestion, ComposeQuestion, NoiseQuestion, ExposureQuestion)
OTHERS = (Recorded, Parameters, Unseen, OpenCount, Framing)
"""What no schema of a file names."""
LIMITS = (
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
)


def _limits(schema: Any) -> Iterator[str]:
    """Limits anywhere within the schema of a field, without those of the parts that it names."""
    if isinstance(schema, list):
        for one in schema:
            yield from _limits(one)
    elif isinstance(schema, dict):
        yield from (f"{name} {schema[name]:g}" for name in LIMITS if isinstance(schema.get(name), int | float))
        for name, one in schema.items():
            if name != "default":
                yield from _limits(one)


def _lines() -> Iterator[str]:
    parts: dict[str, Any] = {}
    for model in (Scenario, Experiment, *QUESTIONS, *OTHERS):
        schema = model.model_json_schema()
        parts |= {**schema.pop("$defs", {}), model.__name__: schema}
    for part, schema in sorted(parts.items()):
        for name, field in sorted(schema.get("properties", {}).items()):
            default = f"= {json.dumps(field['default'], sort_keys=True)}" if "default" in field else "must be given"
            examples = [f"such as {json.dumps(one, sort_keys=True)}" for one in field.get("examples", ())]
            yield "; ".join([f"{part}.{name} {default}", *_limits(field), *examples])
    yield from _options(typer.main.get_command(app), "asyncfl")


def _options(command: Any, called: str) -> Iterator[str]:
    """The options and arguments of a command and of those below it."""
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from _options(below, f"{called} {name}")
    for one in sorted(command.params, key=lambda one: str(one.name)):
        limits = [f"{side} {found}" for side in ("min", "max") if (found := getattr(one, side, None)) is not None]
        given = "must be given" if one.required else f"= {one.default!r}"
        yield "; ".join([f"{called} {one.opts[0]} {given}", *limits])


def test_fields_defaults_and_limits_are_those_written_down() -> None:
    written, there = LIST.read_text().splitlines(), list(_lines())
    gone, new = [one for one in written if one not in there], [one for one in there if one not in written]
    assert (gone, new) == ([], []), "if this is meant: python tests/test_fields.py"


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in _lines()))
