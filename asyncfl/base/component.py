"""Components: parts of a scenario whose configuration and code are one class.

A component is a frozen pydantic model with a `kind` literal. Where a scenario offers a choice of components, the field
is annotated with `choice(A, B, ...)`; the YAML then names one by its `kind`. A user's own class is named by its import
path, `kind: my_module:MyDetector`, and must derive from the same base class as the built-in ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from asyncfl.base.errors import InputError, nearest, shortened
from asyncfl.base.own_classes import IMPORT_PATH, describe_exception, note_removed, own_class, own_modules

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue


def _exact(schema: Any, model: type[BaseModel]) -> Any:
    """Return a strict schema of `model`. Pydantic's strict mode would refuse lists as tuples, and 1e3 as an integer."""
    if isinstance(schema, list | tuple):
        return type(schema)(_exact(part, model) for part in schema)
    match schema:
        case {"type": "bool"}:
            return {**schema, "strict": True}
        case {"type": "float"}:
            strict: Any = {**schema, "strict": True}
            return core_schema.no_info_after_validator_function(_number, strict)
        case {"type": "int"}:
            return core_schema.no_info_before_validator_function(_whole, schema)
        case {"type": "literal", "expected": expected} if any(type(one) is int for one in expected):
            return core_schema.no_info_before_validator_function(
                _whole, schema
            )  # it compares by equality, and 1 == True
        case {"type": "model", "cls": cls} if cls is not model:
            return schema  # is strict already
        case {"function": {"function": called}} if called is _whole:
            return schema
        case dict():
            return {name: part if name in _NO_SCHEMA else _exact(part, model) for name, part in schema.items()}
    return schema


_NO_SCHEMA = ("metadata", "serialization", "default", "expected", "json_schema_input_schema")


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

    # A scenario uses few of the 220 models: one that is never validated is never built.
    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_inf_nan="constants", validate_default=True, defer_build=True
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
        """A property that a subclass may replace by a field of the same name: it exists on instances only.

        Pydantic would take a plain `property` for the field's default.
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
    one_of: ClassVar[tuple[str, ...]] = ()
    """Methods of a base class of which a class must define at least one."""

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
    _check_class(found, base, path)
    return found


def _check_class(cls: type[Component], base: type[Component], name: str) -> None:
    """Raise PydanticCustomError if a user's class lacks `kind` or a method that its base class leaves to it."""
    if "kind" not in cls.model_fields:
        raise _fault(f"{name} must declare kind: str, whose value is the import path of the class")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing or (base.one_of and all(getattr(cls, one) is getattr(base, one) for one in base.one_of)):
        raise _fault(f"{name} must define {', '.join(missing) or ' or '.join(base.one_of)}")


def _fault(message: Any, got: str = "") -> PydanticCustomError:
    # Messages are typed as templates; the braces of a user's text must not be filled in.
    return PydanticCustomError("component", "{wanted}{got}", {"wanted": message, "got": got})


class Choice:
    """Annotation of a field that holds a component of a class derived from `base`, chosen by its `kind`."""

    def __init__(
        self, base: type[Component], members: tuple[type[Component], ...], removed: Mapping[str, str] | None = None
    ) -> None:
        """`removed`: see `choice`."""
        self.base, self.removed = base, removed or {}
        self.kinds = {str(one.model_fields["kind"].default): one for one in members}
        """Kind -> built-in class."""

    def _validate(self, value: Any) -> Component:
        if isinstance(value, self.base):
            if type(value) not in self.kinds.values():
                _check_class(type(value), self.base, type(value).__name__)
            return value
        kind = value.get("kind") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind in self.kinds:
            return self.kinds[kind].model_validate(value)
        if isinstance(kind, str) and ":" in kind:
            return self._own(kind, value)
        if isinstance(kind, str) and kind in self.removed:
            note_removed(kind)
            raise _fault(f"kind {kind} was removed: {self.removed[kind]}")
        kinds = ", ".join(self.kinds)
        if kind is not None:
            near = nearest(kind, self.kinds) if isinstance(kind, str) else None
            meant = f"; did you mean {near}?" if near else ""
            raise _fault(f"kind must be one of {kinds} or my_module:MyClass", f", got {shortened(repr(kind))}{meant}")
        meant = f"; did you mean {{{given}}}?" if (given := self._meant_by(value)) else ""
        got = ", got one without" if isinstance(value, dict) else f", got {shortened(repr(value))}{meant}"
        raise _fault(f"must be a mapping with a kind ({kinds})" if kinds else "must be a mapping with a kind", got)

    def _meant_by(self, value: Any) -> str:
        """Return the fields of a component that a plain value may stand for; empty if there is none or no one."""
        if isinstance(value, str):
            return f"kind: {near}" if (near := nearest(value, self.kinds)) else ""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return ""
        for kind, cls in self.kinds.items():
            own = [name for name in cls.__annotations__ if name in cls.model_fields and name != "kind"]
            asked = own if len(own) == 1 else [name for name in own if cls.model_fields[name].is_required()]
            with suppress(ValidationError, InputError):
                if len(asked) == 1 and cls.model_validate({"kind": kind, asked[0]: value}):
                    return f"kind: {kind}, {asked[0]}: {value}"
        return ""

    def _own(self, kind: str, value: Any) -> Component:
        cls = load_custom(kind, self.base)
        try:
            return cls.model_validate(value)
        except (ValidationError, InputError, KeyboardInterrupt):
            raise
        except BaseException as error:  # one of the class's own validators fails
            raise _fault(f"{kind} cannot be made: {describe_exception(error)}") from None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Members are no part of the schema: each validates itself, so that only those that a scenario names are built.
        return core_schema.no_info_plain_validator_function(
            self._validate, json_schema_input_schema=handler.generate_schema(_Members(self.kinds.values()))
        )


class _Members:
    """Members of a choice as a type, which is resolved where a JSON schema is made."""

    def __init__(self, members: Iterable[type[Component]]) -> None:
        self._members = members

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.any_schema()

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        members: list[Any] = [TypeAdapter(one).core_schema for one in (*self._members, _OWN)]
        return handler(core_schema.union_schema(members))


_OWN_SCHEMA: Any = {"type": "object", "properties": {"kind": {"type": "string", "pattern": IMPORT_PATH}}}
_OWN: Any = Annotated[Any, WithJsonSchema({**_OWN_SCHEMA, "required": ["kind"], "title": "Own component"})]
"""A user's own component in the JSON schema."""


def choice(base: type[Component], *members: type[Component], removed: Mapping[str, str] | None = None) -> Any:
    """Return the annotation of a field that holds one of `members`, chosen by `kind`, or a user's subclass of `base`.

    A user's class declares `kind: str` (its value is the import path it was named by). `removed`: kind that earlier
    versions had -> why it is gone and what takes its place, for the message that refuses it.
    """
    return Annotated[Any, Choice(base, members, removed)]


def own_files(description: BaseModel) -> dict[str, Path]:
    """Return the user's modules that components of `description` come from: module -> its file."""
    return own_modules({name for part in components_in(description) for name in part.code_modules})


def own_sources(description: BaseModel) -> dict[str, str]:
    """Return the user's modules that components of `description` come from: module -> SHA-256 of its file."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in own_files(description).items()}


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
