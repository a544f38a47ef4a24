"""How fast is one federated round of a ResNet-8 beside a plain nn.Module loop and pfl-research?

    python benchmarks/peers.py [--clients 20] [--samples 500] [--repeats 5] [--gemm auto]

All train every client for an epoch by SGD from the same model on the same arrays and average what comes out, in one
process on one thread; none evaluates. Rounds alternate, so that whatever else the machine does meets all alike: of each
kind the median and the least CPU seconds are told, and ratios of rounds that stand side by side, with their range.

pfl needs an environment, or a folder on PYTHONPATH, of its own (it asks for other versions of what we use):

    pip install --no-deps --target /tmp/pfl pfl multiprocess dill prv-accountant packaging
    PYTHONPATH=/tmp/pfl python benchmarks/peers.py

Where it is not there the other two are compared. That all compute the same is looked at once: the norm of the mean
update.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from plain_training import train as train_plainly

from asyncfl.learning import Job, ResNet, Training, make_learner
from asyncfl.learning.gemm import resolve

SHAPE, CLASSES, BATCH, RATE = (3, 32, 32), 10, 32, 0.01
Round = Callable[[], NDArray[np.float32]]
"""Trains all clients once; the mean of their models (n_parameters,)."""


def jobs_of(model: ResNet, clients: int, samples: int) -> list[Job]:
    """Random images: speed does not depend on what they show. Batches follow the order of samples, as pfl has it."""
    rng = np.random.default_rng(0)
    base = model.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(0))
    images = rng.normal(size=(clients, samples, *SHAPE)).astype(np.float32)
    labels = rng.integers(CLASSES, size=(clients, samples))
    return [Job(base, x, y, np.arange(samples)[None]) for x, y in zip(images, labels, strict=True)]


def ours(model: ResNet, jobs: Sequence[Job], gemm: str) -> Round:
    """A round by the package."""
    learner = make_learner(model, Training(lr=RATE, batch_size=BATCH, gemm=gemm, device="cpu"), SHAPE, CLASSES)
    rows = np.empty((len(jobs), learner.n_parameters), np.float32)

    def run() -> NDArray[np.float32]:
        learner.train(rows, jobs)
        return rows.mean(0)

    return run


def plain(model: ResNet, jobs: Sequence[Job]) -> Round:
    """A round by a plain loop over clients and batches, with torch's own optimiser."""
    rows = np.empty((len(jobs), len(jobs[0].base)), np.float32)
    training = Training(lr=RATE, batch_size=BATCH, device="cpu")

    def run() -> NDArray[np.float32]:
        train_plainly(model, training, CLASSES, rows, jobs)
        return rows.mean(0)

    return run


def pfl_round(model: ResNet, jobs: Sequence[Job]) -> Round | None:
    """A round by pfl-research; None where it is not installed."""
    try:
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.data.dataset import Dataset
        from pfl.data.federated_dataset import FederatedDataset
        from pfl.data.sampling import get_user_sampler
        from pfl.hyperparam.base import NNTrainHyperParams
        from pfl.metrics import Metrics
        from pfl.model.pytorch import PyTorchModel
    except ImportError as error:
        print(f"pfl is not there ({error}); see the head of this file")
        return None
    logging.disable(logging.WARNING)

    class Net(torch.nn.Module):
        """The same module, with the methods that pfl asks for."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = model.module(SHAPE, CLASSES)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.inner(images)

        def loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self(images), labels)

        def metrics(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
            return {}

    class Unjudged(PyTorchModel):
        """Evaluates nothing: pfl does so before and after the training of each client in its first round."""

        def evaluate(self, *_: object, **__: object) -> Metrics:
            return Metrics()

    net = Net()
    central = torch.optim.SGD(net.parameters(), lr=1.0)
    held = {
        str(client): (torch.from_numpy(job.images), torch.from_numpy(job.labels)) for client, job in enumerate(jobs)
    }
    users = {user: Dataset(raw_data=arrays, user_id=user) for user, arrays in held.items()}
    sampler = get_user_sampler("minimize_reuse", list(users))
    federated = FederatedDataset(users.__getitem__, sampler)
    backend = SimulatedBackend(training_data=federated, val_data=federated)
    wrapped = Unjudged(net, torch.optim.SGD, central)
    base = torch.from_numpy(jobs[0].base)
    settings = NNAlgorithmParams(
        central_num_iterations=1, evaluation_frequency=1, train_cohort_size=len(jobs), val_cohort_size=0
    )
    local = NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=RATE)

    def run() -> NDArray[np.float32]:
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(base.clone(), net.parameters())
        algorithm = FederatedAveraging()
        algorithm.run(settings, backend, wrapped, local, send_metrics_to_platform=False)
        return torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy().copy()

    return run


def main() -> None:
    """Print the times, and the ratios."""
    parser = argparse.ArgumentParser(description="One round of a ResNet-8: ours, a plain loop, pfl-research")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gemm", choices=["auto", "default", "onednn", "mixed"], default="auto")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, gemm = ResNet(), resolve(options.gemm)
    jobs = jobs_of(model, options.clients, options.samples)
    rounds = {"ours": ours(model, jobs, gemm), "plain": plain(model, jobs), "pfl": pfl_round(model, jobs)}
    there = {name: run for name, run in rounds.items() if run is not None}
    print(f"torch {torch.__version__}, 1 thread, gemm {gemm}; {options.clients} clients of {options.samples} samples")
    moved = [f"{name} {np.linalg.norm(run() - jobs[0].base):.6g}" for name, run in there.items()]
    print(f"norm of the mean update: {', '.join(moved)}")
    taken: dict[str, list[float]] = {name: [] for name in there}
    for _ in range(options.repeats):
        for name, run in there.items():
            began = time.process_time()
            run()
            taken[name].append(time.process_time() - began)
    for name, seconds in taken.items():
        print(f"{name:<6} median {statistics.median(seconds):.3f} s, least {min(seconds):.3f} s")
    for other in list(there)[1:]:
        ratios = [theirs / own for theirs, own in zip(taken[other], taken["ours"], strict=True)]
        print(f"{other}/ours: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
