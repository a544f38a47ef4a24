"""A stand-in for what we take of Flower."""

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Array:
    """As Flower's: an array with its shape and the name of its type."""

    def __init__(self, values: Any) -> None:
        assert values.flags.c_contiguous
        self._values = values

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._values.shape)

    @property
    def dtype(self) -> str:
        return str(self._values.dtype)

    def numpy(self) -> Any:
        return self._values


class ArrayRecord(dict[str, Any]): ...


class MetricRecord(dict[str, Any]): ...


class ConfigRecord(dict[str, Any]): ...


class RecordDict(dict[str, Any]):
    """As Flower's: records by name, and by kind."""

    def _of(self, kind: type) -> dict[str, Any]:
        return {name: one for name, one in self.items() if isinstance(one, kind)}

    array_records = property(lambda self: self._of(ArrayRecord))
    metric_records = property(lambda self: self._of(MetricRecord))
    config_records = property(lambda self: self._of(ConfigRecord))


class Message:
    """As Flower's: to a node, or in reply to another one."""

    def __init__(self, content: Any, reply_to: Any = None, error: Any = None, **fields: Any) -> None:
        self.content, self.error, self.fields = content, error, fields
        self.metadata = SimpleNamespace(reply_to_message_id=reply_to)

    def has_error(self) -> bool:
        return self.error is not None


class ClientApp:
    """As Flower's: functions by the name of the message that they answer."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[..., Any]] = {}

    def _state(self, name: str) -> Callable[..., None]:
        return lambda function: self.answers.update({name: function})

    def query(self, of: str = "") -> Callable[..., None]:
        return self._state(f"query.{of}" if of else "query")

    def train(self) -> Callable[..., None]:
        return self._state("train")


@pytest.fixture
def flwr(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that has what we take of Flower."""
    package, app, clients = ModuleType("flwr"), ModuleType("flwr.app"), ModuleType("flwr.clientapp")
    for kind in (Array, ArrayRecord, MetricRecord, ConfigRecord, RecordDict, Message):
        setattr(app, kind.__name__, kind)
    clients.ClientApp = ClientApp  # type: ignore[attr-defined]
    package.app = app  # type: ignore[attr-defined]
    for name, module in (("flwr", package), ("flwr.app", app), ("flwr.clientapp", clients)):
        monkeypatch.setitem(sys.modules, name, module)
