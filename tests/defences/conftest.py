"""Buffers and contexts without a run."""

import numpy as np
import pytest

from asyncfl.defences import Buffer, DefenceContext


def make_buffer(
    deltas, *, clients=None, base_versions=None, version=0, current=None, bases=None, samples=None, std=0.0
):
    """A buffer whose clients changed `deltas` (n, d) in the zero model, or in `bases` (one per update)."""
    deltas = np.asarray(deltas, dtype=np.float32)
    n, d = deltas.shape
    bases = np.zeros((n, d), dtype=np.float32) if bases is None else np.asarray(bases, dtype=np.float32)
    return Buffer(
        version,
        np.zeros(d, dtype=np.float32) if current is None else np.asarray(current, dtype=np.float32),
        bases + deltas,
        tuple(bases),
        np.arange(n),
        np.full(n, version) if base_versions is None else np.asarray(base_versions),
        np.arange(n) if clients is None else np.asarray(clients),
        np.ones(n, dtype=np.int64) if samples is None else np.asarray(samples),
        np.broadcast_to(np.asarray(std, dtype=np.float64), n),
    )


def make_context(clients=10, n_parameters=2, *, lr=0.1, steps=1, root=None, clip=None):
    """A federation of `clients` equal clients."""
    return DefenceContext(
        clients=clients,
        samples=np.full(clients, 10),
        n_parameters=n_parameters,
        lr=lr,
        gradient_clip=clip,
        steps=np.full(clients, steps),
        root_gradient=root,
    )


@pytest.fixture
def buffer_of():
    return make_buffer


@pytest.fixture
def context_of():
    return make_context


@pytest.fixture
def random():
    return np.random.Generator(np.random.Philox(key=1))
