"""A workload by FLSim: its synchronous trainer, or its asynchronous one with FedBuff."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import torch
from flsim.clients.base_client import ClientConfig
from flsim.data.data_provider import IFLDataProvider, IFLUserData
from flsim.optimizers.async_aggregators import FedAvgWithLRFedBuffAggregatorConfig
from flsim.optimizers.local_optimizers import LocalOptimizerFedProxConfig, LocalOptimizerSGDConfig
from flsim.servers.sync_servers import FedAvgOptimizerConfig, SyncServerConfig
from flsim.trainers.async_trainer import AsyncTrainer, AsyncTrainerConfig
from flsim.trainers.sync_trainer import SyncTrainer, SyncTrainerConfig
from flsim.utils.async_trainer.training_event_generator import (
    AsyncTrainingEventGeneratorConfig,
    PoissonAsyncTrainingStartTimeDistrConfig,
)
from flsim.utils.example_utils import FLModel
from flsim.utils.timing.training_duration_distribution import PerUserExponentialDurationDistributionConfig
from hydra.utils import instantiate
from omegaconf import OmegaConf
from work import Turn, Work


class User(IFLUserData):
    """A client's batches, cut once."""

    def __init__(self, work: Work, client: int) -> None:
        self.batches = [{"features": x, "labels": y} for x, y in work.batches(client)]
        self.samples = work.samples

    def num_train_examples(self) -> int:
        return self.samples

    def num_eval_examples(self) -> int:
        return 0

    def num_train_batches(self) -> int:
        return len(self.batches)

    def num_eval_batches(self) -> int:
        return 0

    def train_data(self) -> Iterator[dict[str, torch.Tensor]]:
        return iter(self.batches)

    def eval_data(self) -> Iterator[dict[str, torch.Tensor]]:
        return iter(())


class Users(IFLDataProvider):
    """All clients."""

    def __init__(self, work: Work) -> None:
        self.users = [User(work, client) for client in range(work.clients)]

    def train_user_ids(self) -> list[int]:
        return list(range(len(self.users)))

    def num_train_users(self) -> int:
        return len(self.users)

    def get_train_user(self, user_index: int) -> User:
        return self.users[user_index]

    def train_users(self) -> list[User]:
        return self.users

    def eval_users(self) -> list[User]:
        return []

    def test_users(self) -> list[User]:
        return []


def run(work: Work, turn: Turn) -> tuple[dict[str, str], float]:
    """Run the workload; return versions, and the test loss after its last round."""
    optimizer = (
        LocalOptimizerFedProxConfig(lr=work.lr, mu=work.proximal_mu)
        if work.proximal_mu
        else LocalOptimizerSGDConfig(lr=work.lr)
    )
    common: dict[str, Any] = {
        "epochs": work.rounds * work.cohort / work.clients,
        "client": ClientConfig(epochs=1, optimizer=optimizer),
        "do_eval": False,
        "eval_epoch_frequency": 1e-9,
        "report_train_metrics": False,
    }
    model = FLModel(work.module())
    if work.in_flight:
        # Tasks begin once a unit of time on average, and take as many units as are to be in flight.
        events = AsyncTrainingEventGeneratorConfig(
            training_start_time_distribution=PoissonAsyncTrainingStartTimeDistrConfig(training_rate=1.0),
            duration_distribution_generator=PerUserExponentialDurationDistributionConfig(
                training_duration_mean=float(work.in_flight)
            ),
        )
        # It adds the updates of a buffer up; a version is their mean.
        aggregator = FedAvgWithLRFedBuffAggregatorConfig(lr=1 / work.cohort, buffer_size=work.cohort)
        config: Any = AsyncTrainerConfig(aggregator=aggregator, training_event_generator=events, **common)

        def end_of_version(trainer: AsyncTrainer) -> None:
            turn()

        AsyncTrainer._global_update_done = end_of_version
    else:
        server = SyncServerConfig(server_optimizer=FedAvgOptimizerConfig())
        config = SyncTrainerConfig(server=server, users_per_round=work.cohort, **common)

        def end_of_round(trainer: SyncTrainer, *_: Any, **__: Any) -> tuple[None, Any]:
            turn()
            return None, trainer.global_model().fl_get_module().state_dict()

        SyncTrainer._maybe_run_evaluation = end_of_round
    trainer = instantiate(OmegaConf.structured(config), model=model, cuda_enabled=False)
    trainer.train(Users(work), None, work.clients, distributed_world_size=1)
    return {"flsim": version("flsim")}, work.test_loss(trainer.global_model().fl_get_module())
