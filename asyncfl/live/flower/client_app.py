"""The client's half on Flower: asyncfl's `ClientApp`, which Flower starts once for each message.

Between messages the node keeps the secret seed of the client's noise, the uploads and scores sent so far (for its
budget), and its personal layers. None of this leaves the node.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncfl.base.files.yaml_text import read_text
from asyncfl.base.messages import Download, Vector
from asyncfl.base.streams import Streams, unknown_seed
from asyncfl.client import Assignment
from asyncfl.federation.prepare import Federation, ResolvedSeed, prepare, streams_of
from asyncfl.learning.job import NoEpochError
from asyncfl.live.client import repeated
from asyncfl.live.flower.records import (
    CONFIG,
    EXAMPLES,
    LOSS,
    SECONDS,
    FlowerError,
    Metric,
    Reply,
    Shapes,
    Value,
    answer,
    flower,
    models_of,
)
from asyncfl.live.joining import drop_server_parts
from asyncfl.live.run import training_of
from asyncfl.live.vocabulary import Judge, Welcome
from asyncfl.live.wire import client_decoder
from asyncfl.scenario import Scenario
from asyncfl.trace.events import NO_EPOCH, epochs_detail

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

KEPT = "asyncfl"
"""Name of the record with asyncfl's state at a node."""

NodeState = MutableMapping[str, str]
"""Persistent state of the client at its node, as texts."""


def introduce(config: Mapping[str, Value], node: Mapping[str, Any]) -> Reply:
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
    return Reply(metrics={EXAMPLES: int(sizes[client])}, config={"name": str(client)})


def scenario_of(text: str) -> Scenario:
    """Read a scenario from YAML text. Raises ScenarioError."""
    return Scenario.read(read_text(text, "the scenario of the app"))


def clients_scenario(text: str) -> Scenario:
    """Read the parts of a scenario that a client needs from YAML text; files of the server need not exist.

    Raises ScenarioError.
    """
    description = read_text(text, "the scenario of the app")
    if isinstance(description, dict):
        drop_server_parts(description, shape=False)
    return Scenario.read(description)


class FlowerClient:
    """A client that the server has accepted."""

    def __init__(self, config: Mapping[str, Value], kept: NodeState) -> None:
        """`config`: configuration in the message to answer; `kept`: state of the node."""
        frame = config["welcome"]
        welcome = client_decoder(0).decode(frame)[0] if isinstance(frame, bytes) else None
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
        scenario, path = self.federation.resolved.scenario, self.federation.path
        self._training = scenario.training
        self._trainer = training_of(self.federation, Streams(secret))
        if (own := kept.get(self._personal_name)) is not None and self._trainer.personal is not None:
            self._trainer.personal.put(self.number, np.frombuffer(base64.b64decode(own), np.float32))
        self._budgets = scenario.budget_tracker(path.context, self.federation.data.sizes, path.state)
        self._affordable = self._budgets is None or self._budgets.affords(self.number, 0)
        self._sent: list[tuple[str, int, int | None]] = [
            tuple(one) for one in json.loads(kept.get(self._sent_name, "[]"))
        ]
        for one in self._sent:
            self._charge(*one)

    def _charge(self, what: str, number: int, epochs: int | None) -> bool:
        """Charge `upload` number `number`, or `scores` of `number` models. Returns False if the budget forbids them."""
        if self._budgets is None:
            return True
        if what == "scores":
            return self._budgets.charge_scores(self.number, number)
        self._budgets.charge_upload(self.number, epochs)
        self._affordable = self._budgets.affords(self.number, number + 1)
        return True

    def _keep(self, what: str, number: int, epochs: int | None = None) -> bool:
        """Charge what is sent, and remember it. Returns False if the budget forbids it."""
        if not self._charge(what, number, epochs):
            return False
        self._sent.append((what, number, epochs))
        self._state[self._sent_name] = json.dumps(self._sent)
        return True

    @property
    def _spent(self) -> dict[str, str]:
        """Why the client takes no further task; empty: it does."""
        if self._budgets is None or self._affordable:
            return {}
        return {"spent": self._budgets.describe_spending(self.number)}

    def ready(self) -> Reply:
        """Reply whether its budget allows an upload."""
        return Reply(config=self._spent)

    def train(self, config: Mapping[str, Value], model: Vector) -> Reply:
        """Train a task and reply with the update; without one if the budget is spent or no epoch met the deadline.

        `model`: (n_parameters,). Raises FlowerError for a turn whose noise was drawn before.
        """
        task, turn = int(config["task"]), int(config["turn"])
        last = max((number for what, number, _ in self._sent if what == "upload"), default=-1)
        if turn <= last:
            raise FlowerError(repeated("task", turn, last))
        if self._spent:
            # The server has not received, or ignores, the notice that the budget is spent.
            return Reply(config=self._spent)
        assignment = Assignment(task, self.number, int(config["server-round"]), model, turn)
        began_s = time.perf_counter()
        try:
            done = self._trainer.train(assignment, bool(config["attacks"]), self._training.deadline_s)
        except NoEpochError:
            return Reply(config={"stopped": NO_EPOCH})
        ended_s = time.perf_counter()
        if done.personal is not None:
            self._state[self._personal_name] = base64.b64encode(done.personal.tobytes()).decode()
        self._keep("upload", turn, done.epochs)
        metrics: dict[str, Metric] = {
            EXAMPLES: self.federation.data.samples(self.number),
            SECONDS: ended_s - began_s,
            "began-s": began_s - self._began_s,
            "added-std": done.added_std,
        }
        if self.federation.resolved.scenario.reports_losses:
            metrics[LOSS] = done.loss
        if done.epsilon is not None:
            metrics["epsilon"] = done.epsilon
        said = self._spent
        if done.epochs is not None:
            metrics["epochs"] = done.epochs
            said["stopped"] = epochs_detail(done.epochs, self._training.epochs)
        # Over Flower no update is compressed.
        sent = done.model.model if isinstance(done.model, Download) else done.model[0]
        return Reply(metrics=metrics, config=said, model=sent)

    def score(self, config: Mapping[str, Value], models: Vector) -> Reply:
        """Reply with the scores of models (n_models, n_parameters) on its own data, if its budget allows."""
        if self._budgets is not None and (self._spent or not self._keep("scores", len(models))):
            return Reply()
        turn, last_version, last_turn = (int(config[name]) for name in ("turn", "last-version", "last-turn"))
        judge = Judge(0, turn, 0, last_version, last_turn, bool(config["attacks"]))
        return Reply(metrics={"scores": self._trainer.score(self.number, judge, models).tolist()})


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
    reply = introduce(message.content.config_records[CONFIG], context.node_config)
    return answer(message, reply.metrics, reply.config)


def ready(message: Message, context: Context) -> Message:
    """Reply whether the client can take part."""
    return _replied(message, context, lambda client, config: client.ready())


def scores(message: Message, context: Context) -> Message:
    """Reply with scores of models on the client's own data."""
    return _replied(message, context, lambda client, config: client.score(config, _models(message, client)))


def train(message: Message, context: Context) -> Message:
    """Reply with the update of a task."""
    return _replied(message, context, lambda client, config: client.train(config, _models(message, client)[0]))


def _models(message: Message, client: FlowerClient) -> Vector:
    return models_of(message.content, Shapes.flat(client.federation.learner.n_parameters))


def _replied(message: Message, context: Context, do: Callable[[FlowerClient, Any], Reply]) -> Message:
    """Return the client's reply, and keep what it must remember."""
    config = message.content.config_records[CONFIG]
    kept = {name: str(value) for name, value in context.state.config_records.get(KEPT, {}).items()}
    reply = do(FlowerClient(config, kept), config)
    context.state[KEPT] = flower().ConfigRecord(dict(kept))
    return answer(message, reply.metrics, reply.config, reply.model)
