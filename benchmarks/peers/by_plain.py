"""A workload by a plain loop over clients and batches, without any simulator: the mean of what all clients trained."""

from __future__ import annotations

import copy

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from work import Turn, Work


def run(work: Work, turn: Turn) -> tuple[dict[str, str], float]:
    """Run the workload; return versions, and the test loss after its last round."""
    server, draws = work.module(), torch.Generator().manual_seed(0)
    batches = [work.batches(client) for client in range(work.clients)]
    for _ in range(work.rounds):
        trained = []
        for client in torch.randperm(work.clients, generator=draws)[: work.cohort].tolist():
            module = copy.deepcopy(server)
            work.train(module, batches[client])
            trained.append(parameters_to_vector(module.parameters()).detach())
        vector_to_parameters(torch.stack(trained).mean(0), server.parameters())
        turn()
    return {}, work.test_loss(server)
