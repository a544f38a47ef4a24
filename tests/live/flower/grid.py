"""A grid of Flower that is none: messages go to apps in this process, and come back when a test says so."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from asyncfl.live.flower.client_app import FlowerClient
from asyncfl.live.flower.records import TRAIN, FlowerMessage, Reply

App = Callable[[FlowerMessage], Reply | None]
"""What a node makes of a message; None: it never answers."""


class FakeGrid:
    """Nodes 100, 101, ...; each fetch hands over what was answered before it."""

    def __init__(self, apps: Mapping[int, App]) -> None:
        self.apps = dict(apps)
        self.away: set[int] = set()
        self.sent: list[FlowerMessage] = []
        self.waiting: dict[str, Reply] = {}
        self.hook: Callable[[FlowerMessage], None] = lambda message: None
        """Is told each message before it is answered."""

    def nodes(self) -> Collection[int]:
        return set(self.apps) - self.away

    def send(self, messages: Iterable[FlowerMessage]) -> list[str | None]:
        return [self._one(message) for message in messages]

    def _one(self, message: FlowerMessage) -> str | None:
        name = f"message {len(self.sent)}"
        self.sent.append(replace(message))
        self.hook(message)
        replied = self.apps[message.node](message)
        if replied is not None:
            model = None if replied.model is None else np.array(replied.model)
            self.waiting[name] = replace(replied, message=name, model=model)
        return name

    def fetch(self, names: Collection[str]) -> list[Reply]:
        return [self.waiting.pop(name) for name in names if name in self.waiting]

    def messages(self, kind: str = TRAIN) -> list[FlowerMessage]:
        """Those of a kind that were sent."""
        return [message for message in self.sent if message.kind == kind]


def our_app(client: int) -> App:
    """Our ClientApp at the node of that client, as Flower would start it for each message."""
    kept: dict[str, str] = {}

    def app(message: FlowerMessage) -> Reply:
        with ThreadPoolExecutor(1) as process:  # it has a loop of its own
            return process.submit(answered, message.config, client, kept).result()

    return app


def answered(config: Mapping[str, Any], client: int, kept: dict[str, str]) -> Reply:
    """What the node of a client replies."""
    return Reply(config={"frames": FlowerClient(config, {"partition-id": client}, kept).answer(config.get("frame"))})
