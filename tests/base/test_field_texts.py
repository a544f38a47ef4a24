import pytest
from pydantic import BaseModel, Field

from asyncfl.base.field_texts import schema_with_texts, text_of


class Whole(BaseModel):
    said: int = 1
    """What it is,

    in two paragraphs.
    """
    bare: int = 1
    named: int = Field(default=1, description="told otherwise")
    """Never read."""


class Derived(Whole):
    bare: int = 2
    """Said below only."""
    said: int = 2


def test_a_field_says_what_stands_below_it_in_the_class_that_declares_it() -> None:
    class Within(Derived):
        own: int = 1
        """Of a class in a function."""

    assert text_of(Whole, "said") == "What it is,\n\nin two paragraphs."
    assert text_of(Whole, "named") == text_of(Within, "named") == "told otherwise"
    assert [text_of(Within, name) for name in ("said", "bare", "own")] == [
        "",
        "Said below only.",
        "Of a class in a function.",
    ]
    assert text_of(Whole, "bare") == ""
    with pytest.raises(KeyError):
        text_of(Whole, "nothing")


def test_the_schema_for_editors_has_them() -> None:
    class Holder(BaseModel):
        part: Whole
        """A part."""

    schema = schema_with_texts(Holder)
    assert schema["properties"]["part"] == {"$ref": "#/$defs/Whole", "description": "A part."}
    fields = schema["$defs"]["Whole"]["properties"]
    assert [fields[name].get("description") for name in ("said", "bare", "named")] == [
        "What it is,\n\nin two paragraphs.",
        None,
        "told otherwise",
    ]
