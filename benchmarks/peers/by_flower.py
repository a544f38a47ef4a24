"""A workload by Flower's simulation: FedAvg with one Ray actor, each client a task of it."""

from __future__ import annotations

import functools
from importlib.metadata import version
from pathlib import Path

import ray
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from work import Turn, Work


@functools.cache
def workload(folder: str) -> Work:
    """Return the workload, read once in each process."""
    torch.set_num_threads(1)
    return Work.read(Path(folder))


def client_app(folder: str) -> ClientApp:
    """Return the clients' side."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        work = workload(folder)
        module = work.module()
        module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        work.train(module, work.batches(int(context.node_config["partition-id"])))
        content = {
            "arrays": ArrayRecord(module.state_dict()),
            "metrics": MetricRecord({"num-examples": work.samples}),
        }
        return Message(content=RecordDict(content), reply_to=message)

    return app


def run(work: Work, turn: Turn) -> tuple[dict[str, str], float]:
    """Run the workload; return versions, and the test loss after its last round."""
    server, losses = ServerApp(), []

    def end_of_round(number: int, arrays: ArrayRecord) -> MetricRecord:
        if number:
            turn()
        if number == work.rounds:
            module = work.module()
            module.load_state_dict(arrays.to_torch_state_dict())
            losses.append(work.test_loss(module))
        return MetricRecord({})

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(
            fraction_train=work.cohort / work.clients, fraction_evaluate=0.0, min_available_nodes=work.clients
        )
        start = ArrayRecord(work.module().state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=work.rounds, evaluate_fn=end_of_round)

    run_simulation(
        server,
        client_app(str(work.folder)),
        num_supernodes=work.clients,
        backend_config={
            "init_args": {"num_cpus": 1, "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    return {"flwr": version("flwr"), "ray": ray.__version__}, losses[-1]
