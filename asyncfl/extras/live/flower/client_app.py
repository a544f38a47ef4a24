"""The client's half on Flower: asyncfl's `ClientApp`, which Flower starts once for each message.

A message holds the server's welcome and a task or request as frames; so does the reply. Between messages the node keeps
the seed of its client's noise, and the client's state (`ClientState`), which is never sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from asyncfl.base.client_state import ClientState
from asyncfl.base.errors import MessageError
from asyncfl.base.files.yaml_text import read_text
from asyncfl.base.streams import Streams, unknown_seed
from asyncfl.extras.live.client_messages import Hello, Task
from asyncfl.extras.live.clock import LiveClock
from asyncfl.extras.live.flower.frames import WELCOMES, encode, task_decoder
from asyncfl.extras.live.flower.records import CONFIG, FlowerError, flower
from asyncfl.extras.live.live_run import training_of
from asyncfl.extras.live.task_runner import Activity, ClientSetup, TaskRunner
from asyncfl.scenario import Scenario
from asyncfl.simulation.phases import Workload
from asyncfl.simulation.prepare import ResolvedSeed, prepare

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

KEPT = "asyncfl"
"""Name of the record with asyncfl's state at a node: for each seed its client's secret and state."""


def clients_scenario(text: str) -> Scenario:
    """Read the parts of a scenario that a client needs from YAML text; files of the server need not exist.

    Raises ScenarioError.
    """
    description = read_text(text, "the scenario of the app")
    if isinstance(description, dict):
        # Links and devices are real: of the world only matters who listens.
        world = description.get("world")
        description["world"] = {"tap": world["tap"]} if isinstance(world, dict) and "tap" in world else {}
        if isinstance(description.get("model"), dict):
            # The server sends the model that training starts from.
            description["model"].pop("initial", None)
    return Scenario.read(description)


class FlowerClient:
    """A client at its node, for one message."""

    def __init__(self, config: Mapping[str, Any], node: Mapping[str, Any], kept: MutableMapping[str, Any]) -> None:
        """`config`: configuration in the message to answer; `node`: configuration of the SuperNode; `kept`: see `KEPT`.

        Raises FlowerError where one of these is not what it must be.
        """
        self._began_s = time.perf_counter()
        frame = config.get("welcome")
        try:
            welcome = WELCOMES.decode(frame if isinstance(frame, bytes) else b"")[0]
        except MessageError as error:
            raise FlowerError(
                f"a message must hold the welcome of a server of this version of asyncfl: {error}"
            ) from None
        scenario = clients_scenario(welcome.scenario)
        client = node.get("partition-id")
        if not isinstance(client, int) or not 0 <= client < scenario.data.clients:
            raise FlowerError(
                f"a SuperNode must be started with --node-config 'partition-id=N', N the client that it is, "
                f"0..{scenario.data.clients - 1}; got {client!r}"
            )
        # Each seed has its own secret: equal noise in two runs could be subtracted.
        secret = int(kept.setdefault(f"secret {welcome.seed}", str(unknown_seed())))
        self._kept, self._name = kept, f"state {welcome.seed}"
        federation = prepare(ResolvedSeed(scenario, welcome.seed, welcome.exposures))
        scenario, data, path = federation.resolved.scenario, federation.data, federation.path
        training = training_of(federation, Streams(secret))
        if self._name in kept:
            training.states.put(client, ClientState.of_plain(msgspec.msgpack.decode(kept[self._name])))
        budgets = scenario.budget_tracker(path.context, data.sizes, path.state, training.states)
        load, executor = Workload.of(scenario, data.sizes), ThreadPoolExecutor(1, "training")
        self.setup = ClientSetup(client, scenario, training, executor, load, None, budgets)
        self._samples = data.samples(client)

    def answer(self, frame: object) -> list[bytes]:
        """Return the client's messages in answer to a task or request; without one it introduces itself.

        Raises MessageError and RepeatedError, see `TaskRunner.begin`, and the error of a failed training.
        """
        with self.setup.executor:
            return asyncio.run(self._answer(frame))

    async def _answer(self, frame: object) -> list[bytes]:
        setup, clock, said = self.setup, LiveClock(), list[bytes]()
        clock.begin(time.perf_counter() - self._began_s)

        def say(message: Any, models: Any = None) -> None:
            said.append(encode(message, models))

        runner = TaskRunner(setup, clock, say)
        if not isinstance(frame, bytes):
            say(Hello(setup.number, self._samples, runner.why_spent, self._name in self._kept))
            return said
        scenario = setup.scenario
        payloads = scenario.payloads.downloads
        given, models = task_decoder(scenario.n_parameters, scenario.download_compression, payloads).decode(frame)
        await runner.begin(given, models, Activity(given.task if isinstance(given, Task) else -1, 0.0))
        self._kept[self._name] = msgspec.msgpack.encode(self.state.to_plain())
        return said

    @property
    def state(self) -> ClientState:
        """State of the client, which it carries from task to task."""
        return self.setup.training.states.of(self.setup.number)


def client_app() -> ClientApp:
    """Build the app. Raises FlowerError where Flower is missing."""
    flower()
    from flwr.clientapp import ClientApp

    app = ClientApp()
    # Not as decorators: without Flower installed a type checker cannot type them.
    for kind in (app.query(), app.query("scores"), app.train()):
        kind(reply)
    return app


def reply(message: Message, context: Context) -> Message:
    """Reply with the frames of the client, and keep what it must remember."""
    flwr, config = flower(), message.content.config_records[CONFIG]
    kept = dict(context.state.config_records.get(KEPT, {}))
    frames = FlowerClient(config, context.node_config, kept).answer(config.get("frame"))
    context.state[KEPT] = flwr.ConfigRecord(kept)
    built: Message = flwr.Message(flwr.RecordDict({CONFIG: flwr.ConfigRecord({"frames": frames})}), reply_to=message)
    return built
