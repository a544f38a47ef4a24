"""The server's defences in one seed, with their facts about the federation."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.data import FederatedData
from asyncfl.defences import DefenceContext
from asyncfl.learning import Learner
from asyncfl.scenario import Scenario
from asyncfl.server import DefencePlan


def defence_plan(
    scenario: Scenario,
    data: FederatedData,
    learner: Learner,
) -> DefencePlan:
    """Return the server's defences, with the facts about the federation that they may use."""
    protocol, training = scenario.protocol, scenario.training

    def weigh(
        samples: NDArray[np.int64], staleness: NDArray[np.int64], work: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        return protocol.rate * protocol.factors(samples, staleness, work)

    known = DefenceContext(
        clients=data.clients,
        samples=data.sizes,
        n_parameters=learner.n_parameters,
        # Total movement of the model per unit of gradient: momentum adds the gradient again in later steps.
        lr=training.lr / (1 - training.momentum),
        gradient_clip=training.gradient_clip,
        steps=np.array([training.steps(int(size)) for size in data.sizes], dtype=np.int64),
        root_gradient=None if data.root is None else partial(_root_gradient, learner, *data.root),
        # The labels of a regression are not classes.
        root_gradients=None if data.root is None or not data.classes else partial(_root_gradients, learner, *data.root),
        compressed=not scenario.compression.off,
        noise_between_epochs=scenario.privacy.noise_each_epoch and training.epochs > 1,
        linear=scenario.defence.is_linear and protocol.aggregation == "delta",
        weigh=weigh,
    )
    defence = scenario.defence
    return DefencePlan(defence.rule, defence.detector, defence.strikes, known, defence.fallback)


def _root_gradient(learner: Learner, images: NDArray[np.float32], labels: NDArray[np.int64], model: Vector) -> Vector:
    return learner.gradient(model, images, labels)


def _root_gradients(learner: Learner, images: NDArray[np.float32], labels: NDArray[np.int64], model: Vector) -> Vector:
    of_classes = [labels == label for label in np.unique(labels)]
    return np.stack([learner.gradient(model, images[rows], labels[rows]) for rows in of_classes])
