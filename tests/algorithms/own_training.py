"""Algorithms that train by code of their own: FedAvg's steps again, and one with an optimiser of torch."""

import torch

from asyncfl.algorithms import Algorithm, LocalTask
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState


class PlainSteps(Algorithm):
    """The steps of `training` with lr alone."""

    kind: str = "tests.algorithms.own_training:PlainSteps"

    def train(self, task: LocalTask) -> Vector:
        weights, rates, losses = list(task.module.parameters()), iter(task.rates), []
        for epoch in task.batches:
            losses = []
            for batch in epoch:
                loss = task.loss_of(batch)
                gradients = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    torch._foreach_add_(weights, gradients, alpha=-next(rates))
                losses += [loss.item()] * len(batch)
        task.loss = sum(losses) / len(losses)
        return task.update()


class Noisy(Algorithm):
    """RMSprop on inputs with noise; each client counts its tasks."""

    kind: str = "tests.algorithms.own_training:Noisy"
    carries = ("tasks",)

    def train(self, task: LocalTask) -> Vector:
        optimiser = torch.optim.RMSprop(task.module.parameters(), lr=0.01)
        for batch in (one for epoch in task.batches for one in epoch):
            optimiser.zero_grad()
            outputs = task.module(task.inputs[batch] + 0.1 * torch.randn_like(task.inputs[batch]))
            torch.nn.functional.cross_entropy(outputs, task.labels[batch]).backward()
            optimiser.step()
        tasks = int(task.state.scalars.get("tasks", 0)) + 1
        task.carried = ClientState({}, {"tasks": tasks})
        return task.update() / tasks
