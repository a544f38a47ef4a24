"""Components: parts of a scenario whose configuration and code are one class.

A component is a frozen pydantic model with a `kind` literal. Where a scenario offers a choice of components, the field
is annotated with `choice(A, B, ...)`; the YAML then names one by its `kind`. A user's own class is named by its import
path, `kind: my_module:MyDetector`, and must derive from the same base class as the built-in ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from asyncfl.base.errors import InputError
from asyncfl.base.own_classes import IMPORT_PATH, describe_exception, own_class
from asyncfl.base.sources import own_modules


def _exact(schema: Any, model: type[BaseModel]) -> Any:
    """Return a strict schema of `model`: numbers are not read from booleans or text, nor booleans from numbers."""
    if isinstance(schema, list | tuple):
        return type(schema)(_exact(part, model) for part in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "bool":
        return {**schema, "strict": True}
    if kind == "float":
        return core_schema.no_info_after_validator_function(_number, cast(CoreSchema, {**schema, "strict": True}))
    if kind == "literal" and any(type(one) is int for one in schema["expected"]):
        # A literal compares by equality, and 1 == True.
        return core_schema.no_info_before_validator_function(_whole, cast(CoreSchema, schema))
    if kind == "int":
        # Not pydantic's strict mode, which would refuse 1e3 as a whole number.
        return core_schema.no_info_before_validator_function(_whole, cast(CoreSchema, schema))
    called = schema.get("function")
    if (kind == "model" and schema["cls"] is not model) or (
        isinstance(called, dict) and called.get("function") is _whole
    ):
        return schema  # is strict already
    return {name: part if name in _NO_SCHEMA else _exact(part, model) for name, part in schema.items()}


_NO_SCHEMA = ("metadata", "serialization", "default", "expected")


def _number(value: float) -> float:
    if math.isnan(value):
        raise PydanticCustomError("not_a_number", "must be a number")
    return value


def _whole(value: Any) -> Any:
    """Return `value`, which is to be read as an integer; refuse booleans, text and more than 64 bits."""
    if isinstance(value, bool | str | bytes):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise PydanticCustomError("int_bits", "must be a whole number of at most 64 bits")
    return value


class Described(BaseModel):
    """Base of all frozen models of a scenario. Unknown fields are faults; infinities survive YAML and JSON.

    Types are strict: booleans and text are not read as numbers, nor numbers as booleans. Integers have at most 64 bits.
    An integer is accepted where a float is asked for, and 1e3 where an integer is.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=True,
        ser_json_inf_nan="constants",
        validate_default=True,
    )

    in_examples: ClassVar[tuple[str, ...]] = ()
    """Optional fields that a generated example sets, because one of several alternatives is required."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return cast(CoreSchema, _exact(handler(source), cls))


if TYPE_CHECKING:
    default_property = property
else:

    class default_property:  # noqa: N801  (a decorator, like property)
        """A property that a subclass may replace by a field of the same name.

        With a plain `property`, pydantic warns that the field shadows an attribute and takes the property for the
        field's default. This one exists on instances only, where they have no such field.
        """

        def __init__(self, value_of: Callable[[Any], Any]) -> None:
            self._value_of = value_of
            self.__doc__ = value_of.__doc__

        def __get__(self, component: Any, owner: type | None = None) -> Any:
            if component is None:
                raise AttributeError(f"{self._value_of.__name__} is defined on instances, not on their class")
            return self._value_of(component)


class Component(Described):
    """Base class of everything that a scenario chooses by `kind`."""

    model_config = ConfigDict(ignored_types=(default_property,))

    alongside: ClassVar[Mapping[str, Any]] = {}
    """Other settings that an example of the component needs: dotted field of the scenario -> value."""
    logged: ClassVar[tuple[str, ...]] = ()
    """Columns and events in which its effect shows, such as `rounds.clip_norm`, `clients.flagged`, `events.lost`."""

    @classmethod
    def named_by(cls, path: str) -> object:
        """Import and return the object at `package.module:Class`. Raises ImportError, see `own_class`."""
        return own_class(path)

    @property
    def code_modules(self) -> tuple[str, ...]:
        """Names of the modules that implement the component; a change of their code makes its runs out of date."""
        return (type(self).__module__,)


C = TypeVar("C", bound=Component)


def kind_of(component: Component) -> str:
    """Return the name of a component in messages: its `kind`, or its class where it has none."""
    return str(getattr(component, "kind", "") or type(component).__name__)


def load_custom(path: str, base: type[C]) -> type[C]:
    """Import and return the user's class at `package.module:Class`, which must derive from `base`.

    Raises PydanticCustomError, which the reader of a scenario reports beside the field.
    """
    try:
        found = base.named_by(path)
    except ImportError as error:
        raise _fault(str(error)) from None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise _fault(f"{path} must be a class derived from {base.__name__}")
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise _fault(f"{path} must define {', '.join(missing)}")
    return found


def _fault(message: Any) -> PydanticCustomError:
    # The argument is typed as a template; without a context nothing is filled in.
    return PydanticCustomError("own_component", message)


class OwnBranch:
    """Branch of a choice that imports a user's class and validates the value with it."""

    def __init__(self, base: type[Component]) -> None:
        self.base = base

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def validate(value: Any) -> Component:
            if isinstance(value, self.base):
                return value
            cls = load_custom(value["kind"], self.base)
            try:
                return cls.model_validate(value)
            except (ValidationError, InputError, KeyboardInterrupt):
                raise
            except BaseException as error:
                # The user's class lacks a method, or one of its validators fails.
                raise _fault(f"{value['kind']} cannot be made: {describe_exception(error)}") from None

        def serialise(value: Component) -> dict[str, Any]:
            return value.model_dump(mode="json")

        return core_schema.no_info_plain_validator_function(
            validate, serialization=core_schema.plain_serializer_function_ser_schema(serialise)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        kind = {"type": "string", "pattern": IMPORT_PATH}
        return {
            "type": "object",
            "properties": {"kind": kind},
            "required": ["kind"],
            "title": "Own component",
        }


def choice(base: type[Component], *members: type[Component]) -> Any:
    """Return the annotation of a field that holds one of `members`, chosen by `kind`, or a user's subclass of `base`.

    A user's class declares `kind: str` (its value is the import path it was named by).
    """

    def branch_of(value: Any) -> str | None:
        if isinstance(value, base):
            # An instance needs no import path.
            return str(getattr(value, "kind", "")) if isinstance(value, members) else "own"
        kind = value.get("kind") if isinstance(value, dict) else None
        if isinstance(kind, str) and ":" in kind:
            return "own"
        return kind if isinstance(kind, str) else None

    branches = [Annotated[m, Tag(cast(str, m.model_fields["kind"].default))] for m in members]
    own = Annotated[Any, OwnBranch(base), Tag("own")]
    return Annotated[reduce(or_, [*branches, own]), Discriminator(branch_of)]


def own_sources(description: BaseModel) -> dict[str, str]:
    """Return the user's modules that components of `description` come from: module -> SHA-256 of its file.

    Modules that these import from the same folder are included, see `asyncfl.base.sources`.
    """
    modules = {name for part in components_in(description) for name in part.code_modules}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in own_modules(modules).items()}


def components_in(value: Any) -> Iterator[Component]:
    """Yield all components in a model, at any depth, including itself. `value`: a model, mapping or sequence."""
    if isinstance(value, Component):
        yield value
    if isinstance(value, BaseModel):
        value = [getattr(value, name) for name in type(value).model_fields]
    elif isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for item in value:
        if type(item) not in _PLAIN:  # skips a generator for each plain value, which most are
            yield from components_in(item)


_PLAIN = (bool, int, float, str, type(None))
