"""A node of a Flower federation as the server's half of a live federation knows clients: at the end of a connection.

Flower's clients hold no conversation: a process is started for each message, and ends with its reply. What belongs to
the conversation is said here in their place (who they are, signs of life), and what they are asked and answer is
translated:

    server says     goes out as      comes back as                                  server hears
    Task            train            a model                                        Update
                                     an error of the app                            Gone, dropped_out
                                     nothing in the letter's time, or too late      Gone, lost_up
                                     "the node is away"                             (the connection has ended)
    Judge           query.scores     scores                                         Scores
                                     any error                                      Scores, none
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from asyncfl.base.errors import shortened
from asyncfl.base.messages import Fate, Vector
from asyncfl.live.flower.letters import LOSS, READY, SCORES, SECONDS, TRAIN, Failure, Letter, Metric, Reply, Value
from asyncfl.live.transport import Pipe
from asyncfl.live.vocabulary import (
    FromServer,
    Gone,
    Hello,
    Judge,
    Message,
    Noted,
    Over,
    Ping,
    Pong,
    Ready,
    Refused,
    Report,
    Scores,
    Spent,
    Task,
    TaskGone,
    Update,
    Welcome,
)
from asyncfl.live.wire import Decoder, client_decoder, encode
from asyncfl.trace import Kind

log = logging.getLogger("asyncfl.live")


@dataclass(frozen=True)
class SentLetter:
    """A letter that has not been answered yet."""

    of: int
    """Task, or request for scores."""
    kind: str
    bytes_down: int
    sent_s: float
    """When it was sent, by the loop's clock."""


class Clips(Protocol):
    """What the server does to an update of a ClientApp that knows nothing of privacy."""

    def clip(self, base: Vector, model: Vector) -> Vector:
        """Return the model with its update from `base` clipped."""
        ...


@dataclass
class Node:
    """What is known of one node, connected or not."""

    number: int
    """Flower's."""
    name: str
    """As a client of the federation."""
    token: str
    samples: int
    n_parameters: int
    ours: bool = True
    """Whether its app is ours: it is told the scenario, clips and adds noise itself."""
    clips: Clips | None = None
    connection: NodeConnection | None = None
    ready: bool = False
    welcome: bytes = b""
    client: int = -1
    outgoing: list[tuple[Letter, int]] = field(default_factory=list)
    """Letters that wait to be sent, each with the number of what it is about."""
    sent: dict[str, SentLetter] = field(default_factory=dict)
    """Name -> letter that is to be answered."""
    bases: dict[int, Vector] = field(default_factory=dict)
    """Task -> model that was sent, where the server needs it to clip."""

    @property
    def tasks(self) -> tuple[int, ...]:
        """The tasks that it is at."""
        waiting = [of for letter, of in self.outgoing if letter.kind == TRAIN]
        return tuple(sorted([*waiting, *(one.of for one in self.sent.values() if one.kind == TRAIN)]))

    def write(self, kind: str, of: int, config: Mapping[str, Value], models: Vector | None = None) -> None:
        """Have a letter sent."""
        # Whoever starts afresh with each message must be told each time.
        ours: dict[str, Value] = {"client": self.client, "welcome": self.welcome} if self.ours else {}
        self.outgoing.append((Letter(self.number, kind, {**config, **ours}, models), of))

    def forget(self, task: int) -> None:
        """Nobody waits for this task any more: its answer will not be looked at."""
        self.bases.pop(task, None)
        self.outgoing = [(letter, of) for letter, of in self.outgoing if (letter.kind, of) != (TRAIN, task)]
        self.sent = {name: one for name, one in self.sent.items() if (one.kind, one.of) != (TRAIN, task)}


class NodeConnection:
    """The server's end of a connection with a node."""

    def __init__(self, node: Node) -> None:
        self.peer = f"node {node.number}"
        self.node = node
        self._incoming = Pipe()
        self._decoder: Decoder[FromServer] = client_decoder(node.n_parameters)

    # --- what the server says --------------------------------------------------------------------------------------

    async def send(self, frame: bytes) -> None:
        """See `Connection`."""
        message, models = self._decoder.decode(frame)
        node = self.node
        match message:
            case Welcome():
                node.client, node.welcome = message.client, bytes(frame)
                for task in message.gone:
                    node.forget(task)
                if not node.ready:
                    node.ready = True
                    if node.ours:
                        node.write(READY, -1, {})
                    else:
                        await self.say(Ready(True, None))
            case Task():
                if node.clips is not None:
                    node.bases[message.task] = np.array(models[0])
                config: dict[str, Value] = {"server-round": message.version}
                if node.ours:
                    config |= {"task": message.task, "turn": message.turn, "attacks": message.attacks}
                node.write(TRAIN, message.task, config, np.array(models))
            case Judge():
                judge: dict[str, Value] = {"turn": message.turn, "attacks": message.attacks}
                judge |= {"last-version": message.last_version, "last-turn": message.last_turn}
                node.write(SCORES, message.request, judge if node.ours else {}, np.array(models))
            case TaskGone():
                node.forget(message.task)
            case Ping():
                # Whether the node is there is for Flower to say.
                await self.say(Pong(message.number))
            case Over() | Refused():
                await self.close()

    async def receive(self) -> bytes:
        """See `Connection`."""
        return await self._incoming.get()

    async def close(self, reason: str = "") -> None:
        """See `Connection`."""
        self.drop()

    def drop(self) -> None:
        """See `Connection`."""
        self._incoming.end()
        if self.node.connection is self:
            self.node.connection = None

    # --- what the node says ----------------------------------------------------------------------------------------

    async def introduce(self) -> None:
        """Say who the node is, and what it is still at."""
        node = self.node
        await self.say(Hello(node.name, node.token, node.n_parameters, node.samples, node.tasks))

    async def say(self, message: Message, model: Vector | None = None) -> None:
        """Say this in the node's place. `model`: (1, length)."""
        await self._incoming.put(encode(message, model))

    async def answer(self, sent: SentLetter, reply: Reply, now_s: float) -> None:
        """Say what came of a letter. `now_s`: by the loop's clock."""
        if reply.failure is not None and reply.failure not in list(Failure):
            log.warning("%s: its ClientApp failed (%s)", self.peer, shortened(" ".join(reply.reason.split()), 300))
        if sent.kind == SCORES:
            await self.say(Scores(sent.of, scores_of(reply), ()))
        elif sent.kind == TRAIN:
            await self._trained(sent, reply, now_s)

    async def _trained(self, sent: SentLetter, reply: Reply, now_s: float) -> None:
        base = self.node.bases.pop(sent.of, None)
        if reply.failure is not None:
            lost = reply.failure in (Failure.EXPIRED, Failure.LATE)
            fate = Fate.LOST_UP if lost else Fate.DROPPED_OUT
            kind = Kind.LOST if lost else Kind.DROPPED_OUT
            detail = "up" if lost else "app"
            await self.say(Gone(sent.of, fate.value, (self._ended(sent, now_s, kind, detail),)))
            return
        model, metrics = reply.model, reply.metrics
        # What an app of somebody else calls so is of its own.
        ours: Mapping[str, Metric] = metrics if self.node.ours else {}
        spent = str(reply.config.get("spent", ""))[:1000]
        if spent:
            await self.say(Spent(spent))
        stopped = str(reply.config.get("stopped", ""))[:1000] if self.node.ours else ""
        if model is None and (spent or stopped):
            ended = self._ended(sent, now_s, Kind.DROPPED_OUT, stopped or "budget")
            await self.say(Gone(sent.of, Fate.DROPPED_OUT.value, (ended,)))
            return
        done = whole_number_of(ours, "epochs")
        if "epochs" in ours and not done:
            log.warning("%s: its epochs must be a whole number >= 1, got %s", self.peer, shortened(ours["epochs"], 100))
            ended = self._ended(sent, now_s, Kind.DROPPED_OUT, "app")
            await self.say(Gone(sent.of, Fate.DROPPED_OUT.value, (ended,)))
            return
        if model is None:
            log.warning("%s: its reply holds no model", self.peer)
            # What is no model is judged as one of the wrong length.
            model = np.zeros(self.node.n_parameters + 1, dtype=np.float32)
        elif self.node.clips is not None and base is not None and len(model) == len(base):
            model = self.node.clips.clip(base, model)
        update = Update(
            sent.of,
            number_of(metrics, LOSS),
            number_of(ours, "added-std") or 0.0,
            number_of(ours, "epsilon"),
            report_of(reply, sent, model.nbytes, max(0.0, now_s - sent.sent_s), stopped),
            done,
        )
        await self.say(update, model[None])

    def _ended(self, sent: SentLetter, now_s: float, kind: Kind, detail: str) -> Noted:
        """What happened to a task that came to nothing, when that was heard."""
        return Noted(max(0.0, now_s - sent.sent_s), kind, detail=detail)


def number_of(metrics: Mapping[str, Metric], name: str) -> float | None:
    """A metric that is a number; None where there is none."""
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) else None


def whole_number_of(metrics: Mapping[str, Metric], name: str) -> int | None:
    """A metric that is a whole number, 0..2**53; None where there is none."""
    value = number_of(metrics, name)
    return int(value) if value is not None and 0 <= value <= 2**53 and value.is_integer() else None


def scores_of(reply: Reply) -> tuple[float, ...] | None:
    """The scores of a reply; None where there are none."""
    scores = reply.metrics.get("scores")
    if reply.failure is not None or scores is None:
        return None
    return tuple(float(one) for one in (scores if isinstance(scores, list) else [scores]))


def report_of(reply: Reply, sent: SentLetter, bytes_up: int, took_s: float, stopped: str = "") -> Report:
    """What happened at a client, from what its app tells of it.

    `took_s`: from the letter to its answer; `stopped`: after how many epochs it stopped, where it did. An app that
    tells no seconds of training is taken to have trained for all of them.
    """
    began_s = max(0.0, number_of(reply.metrics, "began-s") or 0.0)
    seconds = number_of(reply.metrics, SECONDS)
    ended_s = max(began_s, took_s) if seconds is None else began_s + max(0.0, seconds)
    spent = str(reply.config.get("spent", ""))[:1000]
    return (
        Noted(0.0, Kind.DOWNLOADED, sent.bytes_down, 1, "down"),
        Noted(began_s, Kind.TRAINING_STARTED),
        Noted(ended_s, Kind.TRAINED, detail=stopped),
        Noted(ended_s, Kind.UPLOAD_STARTED, bytes_up),
        *((Noted(ended_s, Kind.BUDGET_SPENT, detail=spent),) if spent else ()),
        Noted(ended_s, Kind.UPLOADED, bytes_up, 1, "up"),
    )
