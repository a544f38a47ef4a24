"""The client's half on Flower: asyncfl's `ClientApp`, which Flower starts once for each message.

Between messages the node keeps the secret seed of the client's noise, the uploads and scores sent so far (for its
budget), and its personal layers. None of this leaves the node.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncfl.base.files.yaml_text import read_text
from asyncfl.base.messages import Download, Vector
from asyncfl.base.streams import Streams, unknown_seed
from asyncfl.client import Assignment
from asyncfl.federation.prepare import Federation, prepare
from asyncfl.federation.resolve import ResolvedSeed, streams_of
from asyncfl.learning.job import NoEpochError
from asyncfl.live.client import repeated
from asyncfl.live.flower.records import (
    CONFIG,
    EXAMPLES,
    LOSS,
    SECONDS,
    FlowerError,
    Shapes,
    Value,
    answer,
    flower,
    models_of,
)
from asyncfl.live.run import training_of
from asyncfl.live.vocabulary import Welcome
from asyncfl.live.wire import client_decoder
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.scenario import Scenario
from asyncfl.trace.events import NO_EPOCH, epochs_detail

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

KEPT = "asyncfl"
"""Name of the record with asyncfl's state at a node."""

NodeState = MutableMapping[str, str]
"""Persistent state of the client at its node, as texts."""


@dataclass(frozen=True)
class ClientReply:
    """Reply of a client."""

    metrics: Mapping[str, float | int | list[float]]
    config: Mapping[str, str] = field(default_factory=dict)
    model: Vector | None = None
    """(length,)"""


def introduce(config: Mapping[str, Value], node: Mapping[str, Any]) -> ClientReply:
    """Return the client's name and number of samples. `node`: configuration of its SuperNode.

    Raises FlowerError where the configuration has no valid `partition-id`.
    """
    scenario = clients_scenario(str(config["scenario"]))
    client, clients = node.get("partition-id"), scenario.data.clients
    if not isinstance(client, int) or not 0 <= client < clients:
        raise FlowerError(
            f"a SuperNode must be started with --node-config 'partition-id=N', N the client that it is, "
            f"0..{clients - 1}; got {client!r}"
        )
    sizes = scenario.data.client_sizes(streams_of(scenario, int(config["seed"])))
    return ClientReply({EXAMPLES: int(sizes[client])}, {"name": str(client)})


def scenario_of(text: str) -> Scenario:
    """Read a scenario from YAML text. Raises ScenarioError."""
    return Scenario.read(read_text(text, "the scenario of the app"))


def clients_scenario(text: str) -> Scenario:
    """Read the parts of a scenario that a client needs from YAML text; files of the server need not exist.

    Raises ScenarioError.
    """
    description = read_text(text, "the scenario of the app")
    if isinstance(description, dict):
        if isinstance(description.get("model"), dict):
            # What it starts from comes with each message.
            description["model"].pop("initial", None)
        # Links and devices are real here; only the tap matters for privacy.
        world = description.get("world")
        description["world"] = {"tap": world["tap"]} if isinstance(world, dict) and "tap" in world else {}
    return Scenario.read(description)


class FlowerClient:
    """A client that the server has accepted."""

    def __init__(self, config: Mapping[str, Value], kept: NodeState) -> None:
        """`config`: configuration in the message to answer; `kept`: state of the node."""
        welcome_bytes = config["welcome"]
        if not isinstance(welcome_bytes, bytes):
            raise FlowerError("a message must hold the server's welcome: both sides need the same version of asyncfl")
        welcome, _ = client_decoder(0).decode(welcome_bytes)
        if not isinstance(welcome, Welcome):
            raise FlowerError("a message must hold the server's welcome: both sides need the same version of asyncfl")
        self.number = welcome.client
        self._began_s = time.perf_counter()
        self._state = kept
        # Each seed has its own secret: equal noise in two runs could be subtracted.
        self._secret_name, self._sent_name = f"secret of seed {welcome.seed}", f"sent of seed {welcome.seed}"
        self._personal_name = f"personal layers of seed {welcome.seed}"
        secret = int(kept.setdefault(self._secret_name, str(unknown_seed())))
        self.federation: Federation = prepare(
            ResolvedSeed(clients_scenario(welcome.scenario), welcome.seed, welcome.exposures)
        )
        self._training = self.federation.resolved.scenario.training
        self._trainer = training_of(self.federation, Streams(secret))
        if (own := kept.get(self._personal_name)) is not None and self._trainer.personal is not None:
            self._trainer.personal.put(self.number, np.frombuffer(base64.b64decode(own), np.float32))
        self._sent: list[tuple[str, int, int | None]] = [
            tuple(one) for one in json.loads(kept.get(self._sent_name, "[]"))
        ]

    def ready(self) -> ClientReply:
        """Reply whether its budget allows an upload."""
        spent = self._spent(self._budgets())
        return ClientReply({}, {} if spent is None else {"spent": spent})

    def train(self, config: Mapping[str, Value], model: Vector) -> ClientReply:
        """Train a task and reply with the update; without one if the budget is spent or no epoch met the deadline.

        `model`: (n_parameters,). Raises FlowerError for a turn whose noise was drawn before.
        """
        task, turn = int(config["task"]), int(config["turn"])
        last = max((number for what, number, _ in self._sent if what == "upload"), default=-1)
        if turn <= last:
            raise FlowerError(repeated("task", turn, last))
        if (why := self._spent(self._budgets())) is not None:
            # The server has not received, or ignores, the notice that the budget is spent.
            return ClientReply({}, {"spent": why})
        assignment = Assignment(task, self.number, int(config["server-round"]), model, turn)
        began_s = time.perf_counter()
        try:
            done = self._trainer.train(assignment, bool(config["attacks"]), self._training.deadline_s)
        except NoEpochError:
            return ClientReply({}, {"stopped": NO_EPOCH})
        ended_s = time.perf_counter()
        if done.personal is not None:
            self._state[self._personal_name] = base64.b64encode(done.personal.tobytes()).decode()
        self._keep("upload", turn, done.epochs)
        spent = self._spent(self._budgets())
        metrics: dict[str, float | int | list[float]] = {
            EXAMPLES: self.federation.data.samples(self.number),
            SECONDS: ended_s - began_s,
            "began-s": began_s - self._began_s,
            "added-std": done.added_std,
        }
        if self.federation.resolved.scenario.reports_losses:
            metrics[LOSS] = done.loss
        if done.epochs is not None:
            metrics["epochs"] = done.epochs
        if done.epsilon is not None:
            metrics["epsilon"] = done.epsilon
        said = {} if spent is None else {"spent": spent}
        if done.epochs is not None:
            said["stopped"] = epochs_detail(done.epochs, self._training.epochs)
        # Over Flower no update is compressed.
        model = done.model.model if isinstance(done.model, Download) else done.model[0]
        return ClientReply(metrics, said, model)

    def score(self, config: Mapping[str, Value], models: Vector) -> ClientReply:
        """Reply with the scores of models (n_models, n_parameters) on its own data, if its budget allows."""
        budgets = self._budgets()
        if budgets is not None:
            if self._spent(budgets) is not None or not budgets.charge_scores(self.number, len(models)):
                return ClientReply({})
            self._keep("scores", len(models))
        scores = self._trainer.score(
            self.number,
            int(config["turn"]),
            models,
            bool(config["attacks"]),
            int(config["last-version"]),
            int(config["last-turn"]),
        )
        return ClientReply({"scores": [float(one) for one in scores]})

    # --- budgets ---------------------------------------------------------------------------------------------------

    def _keep(self, what: str, number: int, epochs: int | None = None) -> None:
        self._sent.append((what, number, epochs))
        self._state[self._sent_name] = json.dumps(self._sent)

    def _budgets(self) -> BudgetTracker | None:
        """Return a tracker charged with everything sent so far; sets whether the next upload is affordable."""
        budgets = self.federation.budget_tracker()
        if budgets is None:
            return None
        self._affordable = budgets.affords(self.number, 0)
        for what, number, epochs in self._sent:
            if what == "upload":
                budgets.charge_upload(self.number, epochs)
                self._affordable = budgets.affords(self.number, number + 1)
            else:
                budgets.charge_scores(self.number, number)
        return budgets

    def _spent(self, budgets: BudgetTracker | None) -> str | None:
        """Return why the client takes no further task; None: it does."""
        return None if budgets is None or self._affordable else budgets.describe_spending(self.number)


def client_app() -> ClientApp:
    """Build the app. Raises FlowerError where Flower is missing."""
    flower()
    from flwr.clientapp import ClientApp

    app = ClientApp()
    # Not as decorators: without Flower installed a type checker cannot type them.
    app.query()(query)
    app.query("ready")(ready)
    app.query("scores")(scores)
    app.train()(train)
    return app


def query(message: Message, context: Context) -> Message:
    """Reply with the client's name and number of samples."""
    return _reply(message, introduce(message.content.config_records[CONFIG], context.node_config))


def ready(message: Message, context: Context) -> Message:
    """Reply whether the client can take part."""
    client, kept = _client(message, context)
    return _reply(message, client.ready(), kept, context)


def scores(message: Message, context: Context) -> Message:
    """Reply with scores of models on the client's own data."""
    client, kept = _client(message, context)
    models = models_of(message.content, Shapes.flat(client.federation.learner.n_parameters))
    return _reply(message, client.score(message.content.config_records[CONFIG], models), kept, context)


def train(message: Message, context: Context) -> Message:
    """Reply with the update of a task."""
    client, kept = _client(message, context)
    [model] = models_of(message.content, Shapes.flat(client.federation.learner.n_parameters))
    return _reply(message, client.train(message.content.config_records[CONFIG], model), kept, context)


def _client(message: Message, context: Context) -> tuple[FlowerClient, dict[str, str]]:
    kept = {name: str(value) for name, value in context.state.config_records.get(KEPT, {}).items()}
    return FlowerClient(message.content.config_records[CONFIG], kept), kept


def _reply(
    message: Message, answered: ClientReply, kept: dict[str, str] | None = None, context: Context | None = None
) -> Message:
    if kept is not None and context is not None:
        context.state[KEPT] = flower().ConfigRecord(dict(kept))
    return answer(message, answered.metrics, answered.config, answered.model)
