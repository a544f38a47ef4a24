"""A node of a Flower grid, presented to the live server as a client with a connection.

Flower starts a process for each message, which ends with its reply. So the connection of a node introduces it and
answers pings on this side, and translates tasks and scoring requests:

    from the server   to the node      from the node                          to the server
    Task              train            a model                                Update
                                       an error of the app                    Gone, dropped_out
                                       no answer before the message expires   Gone, lost_up
                                       the node is not connected              (the connection ends)
    Judge             query.scores     scores                                 Scores
                                       any error                              Scores, none
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from asyncfl.base.errors import shortened
from asyncfl.base.messages import Fate, Vector
from asyncfl.live.flower.messages import (
    LOSS,
    READY,
    SCORES,
    SECONDS,
    TRAIN,
    Failure,
    FlowerMessage,
    Metric,
    Reply,
    Value,
)
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
class SentMessage:
    """A message that has not been answered."""

    of: int
    """Number of the task, or of the request for scores."""
    kind: str
    bytes_down: int
    sent_s: float
    """Time at which it was sent, by the clock of the event loop."""


class UpdateClipping(Protocol):
    """Clipping, at the server, of updates of a ClientApp that does not clip."""

    def clip(self, base: Vector, model: Vector) -> Vector:
        """Return the model with its update from `base` clipped."""
        ...


@dataclass
class Node:
    """State of one node, connected or not."""

    number: int
    """Flower's identifier of the node."""
    name: str
    """Name of the client that it is."""
    token: str
    samples: int
    n_parameters: int
    ours: bool = True
    """Whether it runs asyncfl's ClientApp, which gets the scenario, clips and adds noise itself."""
    clips: UpdateClipping | None = None
    connection: NodeConnection | None = None
    ready: bool = False
    welcome: bytes = b""
    client: int = -1
    outgoing: list[tuple[FlowerMessage, int]] = field(default_factory=list)
    """Messages to be sent, each with the number of its task or request."""
    sent: dict[str, SentMessage] = field(default_factory=dict)
    """Identifier -> message without an answer."""
    bases: dict[int, Vector] = field(default_factory=dict)
    """Task -> model that was sent, where the server clips."""

    @property
    def tasks(self) -> tuple[int, ...]:
        """Tasks whose update has not arrived, in ascending order."""
        waiting = [of for message, of in self.outgoing if message.kind == TRAIN]
        return tuple(sorted([*waiting, *(one.of for one in self.sent.values() if one.kind == TRAIN)]))

    def write(self, kind: str, of: int, config: Mapping[str, Value], models: Vector | None = None) -> None:
        """Queue a message for the node."""
        # The client's process starts anew for each message, and needs the welcome each time.
        ours: dict[str, Value] = {"client": self.client, "welcome": self.welcome} if self.ours else {}
        self.outgoing.append((FlowerMessage(self.number, kind, {**config, **ours}, models), of))

    def forget(self, task: int) -> None:
        """Ignore the answer to this task."""
        self.bases.pop(task, None)
        self.outgoing = [(message, of) for message, of in self.outgoing if (message.kind, of) != (TRAIN, task)]
        self.sent = {name: one for name, one in self.sent.items() if (one.kind, one.of) != (TRAIN, task)}


class NodeConnection:
    """The server's end of a connection with a node."""

    def __init__(self, node: Node) -> None:
        self.peer = f"node {node.number}"
        self.node = node
        self._incoming = Pipe()
        self._decoder: Decoder[FromServer] = client_decoder(node.n_parameters)

    # --- from the server --------------------------------------------------------------------------------------

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
                # Flower watches whether the node is connected.
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

    # --- from the node ----------------------------------------------------------------------------------------

    async def introduce(self) -> None:
        """Introduce the node to the server, with its open tasks."""
        node = self.node
        await self.say(Hello(node.name, node.token, node.n_parameters, node.samples, node.tasks))

    async def say(self, message: Message, model: Vector | None = None) -> None:
        """Pass a message to the server on behalf of the node. `model`: (1, length)."""
        await self._incoming.put(encode(message, model))

    async def answer(self, sent: SentMessage, reply: Reply, now_s: float) -> None:
        """Translate the reply to a message, and pass it to the server. `now_s`: time of the event loop."""
        if reply.failure is not None and reply.failure not in list(Failure):
            log.warning("%s: its ClientApp failed (%s)", self.peer, shortened(" ".join(reply.reason.split()), 300))
        if sent.kind == SCORES:
            await self.say(Scores(sent.of, scores_of(reply), ()))
        elif sent.kind == TRAIN:
            await self._trained(sent, reply, now_s)

    async def _trained(self, sent: SentMessage, reply: Reply, now_s: float) -> None:
        base = self.node.bases.pop(sent.of, None)
        if reply.failure is not None:
            lost = reply.failure in (Failure.EXPIRED, Failure.LATE)
            fate = Fate.LOST_UP if lost else Fate.DROPPED_OUT
            kind = Kind.LOST if lost else Kind.DROPPED_OUT
            detail = "up" if lost else "app"
            await self.say(Gone(sent.of, fate.value, (self._ended(sent, now_s, kind, detail),)))
            return
        model, metrics = reply.model, reply.metrics
        # Metrics of another ClientApp may have these names and mean something else.
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
            # The server rejects a model of the wrong length.
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

    def _ended(self, sent: SentMessage, now_s: float, kind: Kind, detail: str) -> Noted:
        """Return the event that ended a task without an update."""
        return Noted(max(0.0, now_s - sent.sent_s), kind, detail=detail)


def number_of(metrics: Mapping[str, Metric], name: str) -> float | None:
    """Return a metric that is a number; None where it is missing or no number."""
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) else None


def whole_number_of(metrics: Mapping[str, Metric], name: str) -> int | None:
    """Return a metric that is a whole number, 0..2**53; None where it is missing or no such number."""
    value = number_of(metrics, name)
    return int(value) if value is not None and 0 <= value <= 2**53 and value.is_integer() else None


def scores_of(reply: Reply) -> tuple[float, ...] | None:
    """Return the scores in a reply; None where there are none."""
    scores = reply.metrics.get("scores")
    if reply.failure is not None or scores is None:
        return None
    return tuple(float(one) for one in (scores if isinstance(scores, list) else [scores]))


def report_of(reply: Reply, sent: SentMessage, bytes_up: int, took_s: float, stopped: str = "") -> Report:
    """Return the events of a task at a client, from the metrics of its reply.

    `took_s`: seconds from the message to its answer; `stopped`: epochs after which the client stopped, as text. Without
    a metric for the seconds of training, training is assumed to have taken all of them.
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
