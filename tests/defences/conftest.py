"""Buffers and contexts without a run."""

from dataclasses import replace

import numpy as np
import pytest

from asyncfl.testing import buffer, context


def make_buffer(deltas, *, base_versions=None, version=0, bases=None, samples=1, std=0.0, **more):
    """A buffer whose clients changed `deltas` (n, d) in the current model, or in `bases` (one per update)."""
    deltas = np.asarray(deltas, dtype=np.float32)
    ages = 0 if base_versions is None else version - np.asarray(base_versions)
    made = buffer(deltas, staleness=ages, version=version, drift=0.0, samples=samples, upload_std=std, **more)
    if bases is None:
        return made
    bases = np.asarray(bases, dtype=np.float32)
    return replace(made, models=bases + deltas, bases=tuple(bases), base_of=np.arange(len(deltas)))


@pytest.fixture
def buffer_of():
    return make_buffer


@pytest.fixture
def context_of():
    return lambda clients=10, n_parameters=2, *, steps=1, **more: context(clients, n_parameters, steps=steps, **more)


@pytest.fixture
def random():
    return np.random.Generator(np.random.Philox(key=1))


@pytest.fixture
def judge(context_of, random):
    """Function that has a new detector judge buffers; returns the last verdict and state. `fields`: the context's."""

    def judged(detector, *buffers, **fields):
        state = detector.start(context_of(**fields), random)
        for held in buffers:
            verdict, state = detector.judge(state, held, None)
        return verdict, state

    return judged
