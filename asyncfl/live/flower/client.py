"""The client's half on Flower: answers one letter, with what its node keeps from letter to letter.

A process is started for each message. Between two of them a node keeps the secret that the client's noise is drawn
from, what it has sent so far, where that counts towards a budget, and layers that are the client's own: all of it stays
at the node.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asyncfl.base.files.yaml_text import read_text
from asyncfl.base.messages import Download, Vector
from asyncfl.base.streams import Streams, unknown_seed
from asyncfl.client import Assignment
from asyncfl.federation.prepare import Federation, prepare
from asyncfl.federation.resolve import ResolvedSeed, streams_of
from asyncfl.learning.job import NoEpochError
from asyncfl.live.client import repeated
from asyncfl.live.flower.letters import EXAMPLES, LOSS, SECONDS, FlowerError, Value
from asyncfl.live.run import training_of
from asyncfl.live.vocabulary import Welcome
from asyncfl.live.wire import client_decoder
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.scenario import Scenario
from asyncfl.trace.events import NO_EPOCH, epochs_detail

Kept = MutableMapping[str, str]
"""What a node keeps for the client, as texts."""


@dataclass(frozen=True)
class Answered:
    """What a client answers."""

    metrics: Mapping[str, float | int | list[float]]
    config: Mapping[str, str] = field(default_factory=dict)
    model: Vector | None = None
    """(length,)"""


def introduce(config: Mapping[str, Value], node: Mapping[str, Any]) -> Answered:
    """Who the client is, and how many samples it has. `node`: configuration of its SuperNode.

    Raises FlowerError where that does not say which client it is.
    """
    scenario = clients_scenario(str(config["scenario"]))
    client, clients = node.get("partition-id"), scenario.data.clients
    if not isinstance(client, int) or not 0 <= client < clients:
        raise FlowerError(
            f"a SuperNode must be started with --node-config 'partition-id=N', N the client that it is, "
            f"0..{clients - 1}; got {client!r}"
        )
    sizes = scenario.data.client_sizes(streams_of(scenario, int(config["seed"])))
    return Answered({EXAMPLES: int(sizes[client])}, {"name": str(client)})


def scenario_of(text: str) -> Scenario:
    """The scenario in a text of YAML. Raises ScenarioError."""
    return Scenario.read(read_text(text, "the scenario of the app"))


def clients_scenario(text: str) -> Scenario:
    """The scenario in a text of YAML, as far as a client needs it: files of the server's need not be there.

    Raises ScenarioError.
    """
    description = read_text(text, "the scenario of the app")
    if isinstance(description, dict):
        if isinstance(description.get("model"), dict):
            # What it starts from comes with each message.
            description["model"].pop("initial", None)
        # Links and devices are what they are; what matters is who listens.
        world = description.get("world")
        description["world"] = {"tap": world["tap"]} if isinstance(world, dict) and "tap" in world else {}
    return Scenario.read(description)


class FlowerClient:
    """A client that was let in."""

    def __init__(self, config: Mapping[str, Value], kept: Kept) -> None:
        """`config`: of the letter that is to be answered."""
        welcome_bytes = config["welcome"]
        if not isinstance(welcome_bytes, bytes):
            raise FlowerError("a letter comes with the server's welcome: both sides need the same asyncfl")
        welcome, _ = client_decoder(0).decode(welcome_bytes)
        if not isinstance(welcome, Welcome):
            raise FlowerError("a letter comes with the server's welcome: both sides need the same asyncfl")
        self.number = welcome.client
        self._began_s = time.perf_counter()
        self._kept = kept
        # Each seed has noise of its own: what was drawn twice could be subtracted.
        self._secret_name, self._sent_name = f"secret of seed {welcome.seed}", f"sent of seed {welcome.seed}"
        self._personal_name = f"personal layers of seed {welcome.seed}"
        secret = int(kept.setdefault(self._secret_name, str(unknown_seed())))
        self.federation: Federation = prepare(
            ResolvedSeed(clients_scenario(welcome.scenario), welcome.seed, welcome.exposures)
        )
        self._training = self.federation.resolved.scenario.training
        self._workshop = training_of(self.federation, Streams(secret))
        if (own := kept.get(self._personal_name)) is not None and self._workshop.personal is not None:
            self._workshop.personal.put(self.number, np.frombuffer(base64.b64decode(own), np.float32))
        self._sent: list[tuple[str, int, int | None]] = [
            tuple(one) for one in json.loads(kept.get(self._sent_name, "[]"))
        ]

    def ready(self) -> Answered:
        """Whether it can afford an upload at all."""
        spent = self._spent(self._budgets())
        return Answered({}, {} if spent is None else {"spent": spent})

    def train(self, config: Mapping[str, Value], model: Vector) -> Answered:
        """The update of a task; none where its budget is spent, or no epoch was done by the deadline.

        `model`: (n_parameters,). Raises FlowerError where its noise was drawn before.
        """
        task, turn = int(config["task"]), int(config["turn"])
        last = max((number for what, number, _ in self._sent if what == "upload"), default=-1)
        if turn <= last:
            raise FlowerError(repeated("task", turn, last))
        if (why := self._spent(self._budgets())) is not None:
            # That it is spent was not heard, or is not believed.
            return Answered({}, {"spent": why})
        assignment = Assignment(task, self.number, int(config["server-round"]), model, turn)
        began_s = time.perf_counter()
        try:
            done = self._workshop.train(assignment, bool(config["attacks"]), self._training.deadline_s)
        except NoEpochError:
            return Answered({}, {"stopped": NO_EPOCH})
        ended_s = time.perf_counter()
        if done.personal is not None:
            self._kept[self._personal_name] = base64.b64encode(done.personal.tobytes()).decode()
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
        return Answered(metrics, said, model)

    def score(self, config: Mapping[str, Value], models: Vector) -> Answered:
        """Scores of (n_models, n_parameters) models on its own data; none where its budget does not allow it."""
        budgets = self._budgets()
        if budgets is not None:
            if self._spent(budgets) is not None or not budgets.charge_scores(self.number, len(models)):
                return Answered({})
            self._keep("scores", len(models))
        scores = self._workshop.score(
            self.number,
            int(config["turn"]),
            models,
            bool(config["attacks"]),
            int(config["last-version"]),
            int(config["last-turn"]),
        )
        return Answered({"scores": [float(one) for one in scores]})

    # --- budgets ---------------------------------------------------------------------------------------------------

    def _keep(self, what: str, number: int, epochs: int | None = None) -> None:
        self._sent.append((what, number, epochs))
        self._kept[self._sent_name] = json.dumps(self._sent)

    def _budgets(self) -> BudgetTracker | None:
        """What was sent so far, counted; the next upload has been asked about."""
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
        """Why it answers no more; None: it does."""
        return None if budgets is None or self._affordable else budgets.describe_spending(self.number)
