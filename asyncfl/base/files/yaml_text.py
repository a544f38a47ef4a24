"""Read and write YAML of plain values, strictly and within bounds, with one message for each error.

YAML 1.1, which PyYAML reads, is full of traps: `1e-5` is text, `017` is 15, `12:30` is 750, dates are not text, keys
may repeat, and a few short lines can expand to a billion values. Here numbers follow YAML 1.2, dates are text, keys are
text and unique, and size and depth are limited while a text is parsed, not afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from asyncfl.base.errors import ScenarioError, shortened
from asyncfl.base.files.reading import read_bytes

LARGEST_FILE = 10_000_000
MOST_VALUES = 200_000
"""Most values in a text; values repeated by aliases count each time."""
DEEPEST = 50
"""Greatest depth of nested lists and mappings."""


def read_yaml(path: str | Path) -> Any:
    """Read the plain values of a YAML file. Raises ScenarioError where it is missing or invalid."""
    try:
        content = read_bytes(path, LARGEST_FILE, pipes=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ScenarioError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path) from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ScenarioError("is not a text file in UTF-8", path) from None
    return read_text(text, path)


def read_text(text: str, source: str | Path | None = None) -> Any:
    """Read the plain values of a YAML text. Raises ScenarioError, naming `source`, where it is invalid."""
    if yaml.__with_libyaml__ and not _READ_OTHERWISE.search(text):
        try:
            return yaml.load(text, _QuickLoader)
        except (yaml.YAMLError, UnicodeError):
            pass  # read again below by PyYAML's own parser, for its message
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark else ""
        why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        if mark is not None and text[mark.index : mark.index + 1] == "\t":
            why = "indent with spaces, not tabs"
        raise ScenarioError(f"is no YAML{place}: {shortened(why, 200)}", source) from None


def write_text(value: Any) -> str:
    """Write plain values as YAML, which `read_text` reads back unchanged."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """Loader of plain values, each checked as it is parsed."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._values = self._depth = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = isinstance(event, yaml.AliasEvent)
        if is_alias:
            if event.anchor in self.anchors and event.anchor not in self._sizes:
                raise _too_much(event, f"*{event.anchor} holds itself")
            same = super().compose_node(parent, index)
            self._count(self._sizes[event.anchor], event)
            return same
        before = self._values
        self._count(1, event)
        self._depth += 1
        if self._depth > DEEPEST:
            raise _too_much(event, f"lists and mappings must be at most {DEEPEST} deep in each other")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor:
            self._sizes[event.anchor] = self._values - before
        return node

    def _count(self, values: int, event: Any) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            raise _too_much(event, f"stands for more than {MOST_VALUES} values")

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _NAMES:
                message = f"the name of a field must be text, got {_came(key)}; put it in quotes if it is one"
                raise _wrong(key, message)
            if key.value in seen:
                raise _wrong(key, f"field {shortened(key.value)!r} stands twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_whole(self, node: yaml.ScalarNode) -> int:
        text = self.construct_scalar(node).replace("_", "")
        base = {"0x": 16, "0o": 8}.get(text.lstrip("+-")[:2].lower(), 10)
        # More than 70 digits exceed 64 bits in any base; converting them would take long.
        if len(text) >= 70 or not -(2**63) <= (number := int(text, base)) < 2**63:
            raise _wrong(node, f"{shortened(node.value)} has more than 64 bits; a number with decimals may be 1e30")
        return number

    def construct_decimal(self, node: yaml.ScalarNode) -> float:
        text = self.construct_scalar(node).replace("_", "").lower()
        if text.endswith((".inf", ".nan")):
            return float(text.replace(".", ""))
        number = float(text)
        if number in (float("inf"), -float("inf")):
            raise _wrong(node, f"{shortened(node.value)} is too large for a number; .inf is infinity")
        return number

    def construct_text(self, node: yaml.ScalarNode) -> str:
        text = str(self.construct_scalar(node))
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise _wrong(node, "holds half a character (a surrogate)")
        return text

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag not in _TAGS:
            raise _wrong(node, f"a tag {shortened(node.tag)} has no meaning here")
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise _wrong(node, f"{_came(node)!r} is no {node.tag.rpartition(':')[2]}") from None


class _QuickLoader(_Loader):
    """Loader of the same values with libyaml's parser, six times as fast. The same checks apply."""

    def __init__(self, text: str) -> None:
        super().__init__("")
        parser: Any = yaml.CSafeLoader(text)
        vars(self).update({name: getattr(parser, name) for name in ("check_event", "peek_event", "get_event")})


_READ_OTHERWISE = re.compile("[!?\\t\\ufeff\\x85\\u2028\\u2029]|[|>][-+0-9]*#")
"""Texts that libyaml reads differently from PyYAML's own parser: lone tags, question marks in flow collections, tabs,
byte order marks, Unicode line ends, comments directly after the header of a block."""


def _too_much(event: Any, message: str) -> yaml.composer.ComposerError:
    return yaml.composer.ComposerError(None, None, message, event.start_mark)


def _wrong(node: yaml.Node, message: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _came(node: yaml.Node) -> str:
    return shortened(node.value) if isinstance(node, yaml.ScalarNode) else "a list or a mapping"


_TAG = "tag:yaml.org,2002:"
_TAGS = {_TAG + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge", "value")}
_NAMES = {_TAG + name for name in ("str", "merge", "value")}
_WHOLE = re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+)$")
_DECIMAL = re.compile(
    r"""^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?
      |[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+
      |[-+]?\.(?:inf|Inf|INF)
      |\.(?:nan|NaN|NAN))$""",
    re.X,
)
_NUMBERS = "-+.0123456789"
_REPLACED = {_TAG + name for name in ("int", "float", "timestamp")}

_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_TAG + "int", _WHOLE, list(_NUMBERS))
_Loader.add_implicit_resolver(_TAG + "float", _DECIMAL, list(_NUMBERS))
_Loader.add_constructor(_TAG + "int", _Loader.construct_whole)
_Loader.add_constructor(_TAG + "float", _Loader.construct_decimal)
_Loader.add_constructor(_TAG + "str", _Loader.construct_text)


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes text which YAML 1.1 or the loader above would not read as text."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Represent text. Line breaks other than a newline are escaped: a reader would fold them into spaces."""
    quoted = '"' if any(mark in text for mark in "\r\x85\u2028\u2029") else None
    return dumper.represent_scalar(_TAG + "str", text, style=quoted)


_Dumper.add_representer(str, _text)
_Dumper.add_implicit_resolver(_TAG + "int", _WHOLE, list(_NUMBERS))
_Dumper.add_implicit_resolver(_TAG + "float", _DECIMAL, list(_NUMBERS))
