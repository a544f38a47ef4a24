"""What a server and its clients may say to each other, with all limits, against a written list.

Who changes it raises `VERSION`, since halves of different versions must not talk past each other.
`python tests/live/test_vocabulary.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from asyncfl.live.vocabulary import VERSION, FromClient, FromServer, Noted, Said

LIST = Path(__file__).with_name("vocabulary.txt")
KINDS: tuple[type[Any], ...] = (Said, *get_args(FromClient), *get_args(FromServer), Noted)


def _lines() -> Iterator[str]:
    yield f"version {VERSION}"
    _, schemas = msgspec.json.schema_components(KINDS[1:])
    for name in sorted(schemas):
        for field, said in schemas[name].get("properties", {}).items():
            yield f"{name}.{field} {json.dumps({key: one for key, one in said.items() if key != 'description'})}"
        required = schemas[name].get("required", schemas[name].get("minItems"))
        yield f"{name} needs {json.dumps(required)}"
        yield from (f"{name}[{at}] {json.dumps(one)}" for at, one in enumerate(schemas[name].get("prefixItems", ())))


def test_what_is_said_is_what_is_written_down() -> None:
    assert list(_lines()) == LIST.read_text(encoding="utf-8").splitlines(), "if this is meant: raise VERSION"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_unknown_is_taken_and_nothing_changed(kind: type[Any]) -> None:
    assert kind.__struct_config__.forbid_unknown_fields
    assert kind.__struct_config__.frozen


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in _lines()), encoding="utf-8")
