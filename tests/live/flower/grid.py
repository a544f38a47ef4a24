"""A grid of Flower that is none: letters go to apps in this process, and come back when a test says so."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from asyncfl.live.flower.client import Answered, FlowerClient, introduce
from asyncfl.live.flower.letters import QUERY, READY, SCORES, TRAIN, Letter, Reply

App = Callable[[Letter], Answered | Reply | None]
"""What a node makes of a letter; None: it never answers."""


class FakeGrid:
    """Nodes 100, 101, ...; each fetch hands over what was answered before it."""

    def __init__(self, apps: Mapping[int, App]) -> None:
        self.apps = dict(apps)
        self.away: set[int] = set()
        self.sent: list[Letter] = []
        self.waiting: dict[str, Reply] = {}
        self.hook: Callable[[Letter], None] = lambda letter: None
        """Is told each letter before it is answered."""

    def nodes(self) -> Collection[int]:
        return set(self.apps) - self.away

    def send(self, letters: Iterable[Letter]) -> list[str | None]:
        return [self._one(letter) for letter in letters]

    def _one(self, letter: Letter) -> str | None:
        name = f"letter {len(self.sent)}"
        self.sent.append(letter)
        self.hook(letter)
        answered = self.apps[letter.node](letter)
        if isinstance(answered, Answered):
            model = None if answered.model is None else np.array(answered.model)
            answered = Reply(name, None, "", model, answered.metrics, answered.config)
        if isinstance(answered, Reply):
            self.waiting[name] = Reply(
                name, answered.failure, answered.reason, answered.model, answered.metrics, answered.config
            )
        return name

    def fetch(self, names: Collection[str]) -> list[Reply]:
        return [self.waiting.pop(name) for name in names if name in self.waiting]

    def letters(self, kind: str = TRAIN) -> list[Letter]:
        """Those of a kind that were sent."""
        return [letter for letter in self.sent if letter.kind == kind]


def our_app(client: int) -> App:
    """Our ClientApp at the node of that client, as Flower would start it for each letter."""
    kept: dict[str, str] = {}

    def app(letter: Letter) -> Answered:
        if letter.kind == QUERY:
            return introduce(letter.config, {"partition-id": client})
        at = FlowerClient(letter.config, kept)
        if letter.kind == READY:
            return at.ready()
        models: Any = letter.models
        return at.score(letter.config, models) if letter.kind == SCORES else at.train(letter.config, models[0])

    return app
