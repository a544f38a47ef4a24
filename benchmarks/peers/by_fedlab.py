"""A workload by FedLab: its standalone pipeline with serial trainers of FedAvg or FedProx."""

# ruff: noqa: E402

from __future__ import annotations

import sys
from importlib.metadata import version
from types import ModuleType

# A torchvision for CUDA beside a torch for the CPU, as pip may pair them, fails at this module; FedLab's own code needs
# none of its operators.
sys.modules["torchvision._meta_registrations"] = ModuleType("torchvision._meta_registrations")

from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.contrib.algorithm.fedprox import FedProxSerialClientTrainer
from fedlab.core.standalone import StandalonePipeline
from work import Batch, Turn, Work


class Batches:
    """Data set with batches that are cut once: a DataLoader, which stacks samples one by one, costs FedLab more."""

    def __init__(self, work: Work) -> None:
        self.batches = [work.batches(client) for client in range(work.clients)]

    def get_dataloader(self, client: int, batch_size: int) -> list[Batch]:
        return self.batches[client]


def run(work: Work, turn: Turn) -> tuple[dict[str, str], float]:
    """Run the workload; return versions, and the test loss after its last round."""
    handler = SyncServerHandler(work.module(), work.rounds, work.cohort / work.clients)
    if work.proximal_mu:
        trainer = FedProxSerialClientTrainer(work.module(), work.clients)
        trainer.setup_optim(1, work.batch_size, work.lr, work.proximal_mu)
    else:
        trainer = SGDSerialClientTrainer(work.module(), work.clients)
        trainer.setup_optim(1, work.batch_size, work.lr)
    trainer.setup_dataset(Batches(work))

    class Pipeline(StandalonePipeline):
        def evaluate(self) -> None:
            turn()

    Pipeline(handler, trainer).main()
    return {"fedlab": version("fedlab")}, work.test_loss(handler.model)
