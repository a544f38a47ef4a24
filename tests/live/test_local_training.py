"""State of clients between their tasks."""

from typing import Any

import numpy as np

from asyncfl.client import Assignment
from asyncfl.federation.prepare import Federation, prepare, resolve
from asyncfl.live.local_training import LocalTraining
from asyncfl.live.run import training_of
from asyncfl.live.vocabulary import Judge
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from tests.live.conftest import SMALL


def training_and_federation(description: dict[str, Any]) -> tuple[LocalTraining, Federation]:
    federation = prepare(resolve(Scenario.read({**SMALL, **description}), 0, SimulatedRuns()))
    return training_of(federation, federation.resolved.streams), federation


def assignment(federation: Federation, task: int) -> Assignment:
    base = np.random.default_rng(1).normal(0, 0.1, federation.learner.n_parameters).astype(np.float32)
    return Assignment(task, 1, 0, base, task)


def test_a_residual_comes_from_the_training_that_was_kept() -> None:
    """A training that was given up may end after the next one has."""
    training, federation = training_and_federation({"compression": {"kind": "top_k", "share": 0.1}})
    kept, given_up = (training.train(assignment(federation, task), False) for task in (1, 0))
    assert kept.left_over is not None
    assert given_up.left_over is not None
    assert (kept.left_over != given_up.left_over).any()
    compressor = training._path().compressor
    assert compressor is not None
    assert compressor.left_of(1) is None
    training.keep(1, kept)
    again = training.train(assignment(federation, 2), False)
    other, _ = training_and_federation({"compression": {"kind": "top_k", "share": 0.1}})
    other.keep(1, other.train(assignment(federation, 1), False))
    np.testing.assert_array_equal(again.left_over, other.train(assignment(federation, 2), False).left_over)


def test_scores_use_the_personal_layers_at_their_beginning() -> None:
    training, federation = training_and_federation({"model": {**SMALL["model"], "personal": ["3.*"]}})
    began = training.own_layers(1)
    assert began is not None
    models = np.random.default_rng(0).standard_normal((8, federation.learner.n_parameters)).astype(np.float32)
    before = training.score(1, Judge(0, 0), models)
    done = training.train(assignment(federation, 0), False)
    own = training._path().personal
    assert own is not None
    np.testing.assert_array_equal(own.of(1), own.learner.initial)
    training.keep(1, done)
    training.personal.put(1, -began)  # type: ignore[union-attr]
    assert (training.score(1, Judge(0, 0), models) != before).any()
    np.testing.assert_array_equal(training.score(1, Judge(0, 0), models, began), before)
