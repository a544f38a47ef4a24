"""A workload by pfl-research: FederatedAveraging or FedProx on its SimulatedBackend.

`tuned`: as somebody runs it who knows torch: images and weights in channels_last memory, and one fused kernel for each
step of SGD. pfl's own documentation asks for neither.
"""

from __future__ import annotations

import logging
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.algorithm.fedprox import FedProx, FedProxParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from work import Turn, Work


class Net(torch.nn.Module):
    """The workload's module with the methods that pfl asks for."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.inner(features)

    def loss(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self(features), labels)

    def metrics(self, features: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
        return {}


class WithoutEvaluation(PyTorchModel):
    """A model that is never evaluated: pfl evaluates before and after the training of each client in some rounds."""

    def evaluate(self, *_: Any, **__: Any) -> Metrics:
        return Metrics()


def run(work: Work, turn: Turn, *, tuned: bool = False) -> tuple[dict[str, str], float]:
    """Run the workload; return versions, and the test loss after its last round."""
    logging.disable(logging.WARNING)
    net, step = Net(work.module()), torch.optim.SGD
    samples = [work.client(c) for c in range(work.clients)]
    if tuned:
        step = partial(torch.optim.SGD, fused=True)
        if samples[0][0].dim() == 4:
            net = net.to(memory_format=torch.channels_last)
            samples = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in samples]
    model = WithoutEvaluation(net, step, torch.optim.SGD(net.parameters(), lr=1.0))
    users = {str(c): Dataset(raw_data=one, user_id=str(c)) for c, one in enumerate(samples)}
    data = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", list(users)))
    settings: dict[str, Any] = {
        "central_num_iterations": work.rounds,
        "evaluation_frequency": 10**9,
        "train_cohort_size": work.cohort,
        "val_cohort_size": 0,
    }

    class Rounds(TrainingProcessCallback):
        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
            turn()
            return False, Metrics()

    algorithm, params = (
        (FedProx(), FedProxParams(**settings, mu=work.proximal_mu))
        if work.proximal_mu
        else (FederatedAveraging(), NNAlgorithmParams(**settings))
    )
    algorithm.run(
        params,
        SimulatedBackend(training_data=data, val_data=data),
        model,
        NNTrainHyperParams(local_batch_size=work.batch_size, local_num_epochs=1, local_learning_rate=work.lr),
        callbacks=[Rounds()],
        send_metrics_to_platform=False,
    )
    return {"pfl": version("pfl")}, work.test_loss(net)
