"""asyncfl's `ClientApp`. Flower starts it once for each message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncfl.live.flower.client import ClientReply, FlowerClient, introduce
from asyncfl.live.flower.records import CONFIG, Shapes, answer, flower, models_of

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

KEPT = "asyncfl"
"""Name of the record with asyncfl's state at a node."""


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
