"""Messages of the live federation refuse unknown fields and cannot be changed."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from asyncfl.live.vocabulary import FromClient, FromServer, Noted, Said

KINDS: tuple[type[Any], ...] = (Said, *get_args(FromClient), *get_args(FromServer), Noted)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_unknown_is_taken_and_nothing_changed(kind: type[Any]) -> None:
    assert kind.__struct_config__.forbid_unknown_fields
    assert kind.__struct_config__.frozen
