"""Unit tests of `my_components`, without clock, network or training: `PYTHONPATH=examples pytest examples`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from my_components import AgreedMean, CommonDirection, FlipLargest, LinearStaleness, OppositeDirection
from numpy.typing import NDArray

from asyncfl.algorithms import AcceptedUpdates
from asyncfl.base.client_state import ClientState
from asyncfl.defences import Buffer, Strikes
from asyncfl.protocol import Buffered
from asyncfl.protocol.dispatch import ContinuousDispatch
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.staleness import ConstantStaleness
from asyncfl.testing import (
    Lost,
    arrivals,
    buffer,
    check_algorithm,
    check_attack,
    check_detector,
    check_rule,
    check_staleness,
    context,
    random,
    server,
    strategies,
    updates,
    view,
)


def test_the_laws() -> None:
    check_staleness(LinearStaleness(lifetime=4))
    check_attack(FlipLargest(), any_order=True)
    check_rule(AgreedMean())
    check_detector(OppositeDirection())
    check_algorithm(CommonDirection())


def test_an_update_loses_its_weight_evenly() -> None:
    assert LinearStaleness(lifetime=4).weight(np.array([0, 1, 2, 4, 9])).tolist() == [1, 0.75, 0.5, 0, 0]


def test_only_the_largest_parameters_are_turned_round() -> None:
    honest = [[1.0, -5.0, 2.0, 0.5]]
    assert FlipLargest(share=0.25).craft(view(honest)).tolist() == [[1, 5, 2, 0.5]]
    assert FlipLargest(share=0.5).craft(view(honest)).tolist() == [[1, 5, -2, 0.5]]


def test_a_parameter_moves_only_where_clients_agree() -> None:
    rows = np.array([[1, 1], [1, 1], [1, -1], [1, -1]], dtype=np.float32)
    assert AgreedMean(agreement=0.7).aggregate(rows, np.full(4, 0.25)).tolist() == [1, 0]


def test_clients_lean_towards_earlier_steps() -> None:
    lean = CommonDirection(weight=0.5, memory=0.75)
    nobody = AcceptedUpdates(np.array([0]), np.array([0]), np.array([1.0]), 1.0, {})
    _, state = lean.apply(lean.start(2, clients=3), np.array([4.0, -8.0], np.float32), nobody)
    assert lean.download(state)["direction"].tolist() == [1.0, -2.0]
    assert lean.correction(ClientState(), lean.download(state)).tolist() == [-0.5, 1.0]


@given(strategies.updates(n=5), strategies.weights(n=5))
@settings(deadline=None)
def test_the_agreed_mean_moves_no_farther_than_the_mean(rows: NDArray, weights: NDArray) -> None:
    moved, mean = AgreedMean().aggregate(rows, weights), weights @ rows
    assert np.linalg.norm(moved) <= np.linalg.norm(mean) + 1e-3


def test_the_detector_keeps_a_mean_of_accepted_updates() -> None:
    detector = OppositeDirection()
    state = detector.start(context(n_parameters=4), random())
    _, state = detector.judge(state, buffer(updates(6)), None)
    verdict, _ = detector.judge(state, buffer(updates(6, poisoned=4)), None)
    assert verdict.flagged.tolist() == [False, False, True, True, True, True]  # a majority of poison is no help now
    assert verdict.details[2].startswith("cosine -")


@given(strategies.buffers(n_parameters=3))
@settings(deadline=None)
def test_the_detector_judges_every_update(held: Buffer) -> None:
    detector = OppositeDirection()
    verdict, _ = detector.judge(detector.start(context(n_parameters=3), random()), held, None)
    assert len(verdict.flagged) == len(held)


def test_a_client_with_opposite_updates_is_banned() -> None:
    ageless = Buffered(rounds=9, buffer=3, dispatch=ContinuousDispatch(), staleness=ConstantStaleness())
    under_test = server(ageless, detector=OppositeDirection(), strikes=Strikes(threshold=2))
    play = arrivals(under_test, [0, 1, 2, 3, 4, 5, 0, 4, 5], changes={5: -1.0})
    assert play.banned == [5]
    assert play.model == pytest.approx([3.0])  # three buffers moved it by 1 each: client 5 had no say


def test_staleness_is_what_the_server_counts() -> None:
    patient = Buffered(rounds=9, buffer=2, dispatch=ContinuousDispatch(), staleness=LinearStaleness(lifetime=4))
    play = arrivals(server(patient, clients=4), [0, 1, 0, 1, Lost(2), 0, 3])
    task_of_3 = next(task for task, settled in play.fates.items() if settled.staleness == 2)
    assert play.fates[task_of_3].fate is Fate.AGGREGATED
    assert play.fates[task_of_3].weight == pytest.approx(0.5 * 0.5)  # half the samples, half the lifetime
