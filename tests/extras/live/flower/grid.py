"""A stand-in for what we take of Flower, and a grid of it whose nodes are apps in this process."""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.extras.live.flower.client_app import reply
from asyncfl.extras.live.flower.records import TRAIN


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
        if isinstance(self._values, Exception):
            raise self._values
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


class Error:
    """As Flower's: in place of the content of a reply."""

    def __init__(self, code: int, reason: str | None = None) -> None:
        self.code, self.reason = code, reason


class Message:
    """As Flower's: to a node, or in reply to another one."""

    def __init__(
        self, content: Any, *, reply_to: Any = None, dst_node_id: int = 0, message_type: str = "", ttl: float = 0.0
    ) -> None:
        self.content, self.error = content, content if isinstance(content, Error) else None
        self.metadata = SimpleNamespace(dst_node_id=dst_node_id, message_type=message_type, ttl=ttl, message_id="")
        self.metadata.reply_to_message_id = None if reply_to is None else reply_to.metadata.message_id

    def has_error(self) -> bool:
        return self.error is not None

    @property
    def frame(self) -> Any:
        """The frame in it."""
        return self.content["config"]["frame"]


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


@contextmanager
def stand_in() -> Iterator[None]:
    """Have a package that has what we take of Flower."""
    package, app, clients = ModuleType("flwr"), ModuleType("flwr.app"), ModuleType("flwr.clientapp")
    for kind in (Array, ArrayRecord, MetricRecord, ConfigRecord, RecordDict, Message, Error):
        setattr(app, kind.__name__, kind)
    clients.ClientApp = ClientApp  # type: ignore[attr-defined]
    package.app = app  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        for name, module in (("flwr", package), ("flwr.app", app), ("flwr.clientapp", clients)):
            patch.setitem(sys.modules, name, module)
        yield


App = Callable[[Any], Any]
"""What a node makes of a message: the content of its reply, an Error, or None: it never answers."""


class FakeGrid:
    """Nodes by number; each pull hands over what was answered before it."""

    def __init__(self, apps: Mapping[int, App]) -> None:
        self.apps = dict(apps)
        self.away: set[int] = set()
        self.sent: list[Message] = []
        self.waiting: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        return [node for node in self.apps if node not in self.away]

    def push_messages(self, messages: Iterable[Message]) -> list[str | None]:
        return [self._one(message) for message in messages]

    def _one(self, message: Message) -> str | None:
        name = message.metadata.message_id = f"message {len(self.sent)}"
        self.sent.append(message)
        content = self.apps[message.metadata.dst_node_id](message)
        if content is not None:
            self.waiting[name] = Message(content, reply_to=message)
        return name

    def pull_messages(self, names: Collection[str]) -> list[Message]:
        return [self.waiting.pop(name) for name in names if name in self.waiting]

    def messages(self, kind: str = TRAIN, node: int | None = None) -> list[Message]:
        """Those of a kind that were sent, to one node or to any."""
        sent = [message for message in self.sent if message.metadata.message_type == kind]
        return [message for message in sent if node in (None, message.metadata.dst_node_id)]


def our_app(client: int) -> App:
    """Our ClientApp at the node of that client, as Flower would start it for each message."""
    context: Any = SimpleNamespace(state=RecordDict(), node_config={"partition-id": client})

    def app(message: Any) -> Any:
        with ThreadPoolExecutor(1) as process:  # it has a loop of its own
            return process.submit(reply, message, context).result().content

    return app


def frames(*contents: bytes) -> RecordDict:
    """The content of a reply with these frames."""
    return RecordDict(config=ConfigRecord(frames=list(contents)))


def trained(model: Any, **metrics: Any) -> RecordDict:
    """The content of a reply of another app than ours, with a model of one array."""
    arrays = ArrayRecord(all=Array(np.ascontiguousarray(model)))
    return RecordDict(arrays=arrays, metrics=MetricRecord(metrics))
