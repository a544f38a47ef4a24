"""An ordinary ClientApp, which does not import asyncfl."""

from __future__ import annotations

import task
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received model on this client's digits."""
    model = task.net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = task.digits(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    loss = task.train(model, x, y)
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
