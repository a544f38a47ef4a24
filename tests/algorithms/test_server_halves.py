"""The server's half of each algorithm: rounds computed by hand, and the law of its authors."""

import math
from typing import Any

import numpy as np
import pytest

from asyncfl.algorithms import (
    AcceptedUpdates,
    Algorithm,
    Ca2fl,
    Fadas,
    FedAdagrad,
    FedAdam,
    FedAvgM,
    FedDyn,
    FedNova,
    FedYogi,
    Mifa,
    Scaffold,
)
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState


def accepted(
    updates: Any = ((1.0, 0.0),),
    clients: tuple[int, ...] | None = None,
    weights: tuple[float, ...] | None = None,
    staleness: tuple[int, ...] | None = None,
    rate: float = 1.0,
    **payloads: Any,
) -> AcceptedUpdates:
    """Updates of clients 0, 1, ... with equal factors."""
    n = len(updates)
    return AcceptedUpdates(
        np.array(range(n) if clients is None else clients),
        np.array([0] * n if staleness is None else staleness),
        np.array([1 / n] * n if weights is None else weights),
        rate,
        {name: np.array(rows, dtype=np.float32) for name, rows in payloads.items()},
        np.array(updates, dtype=np.float32),
    )


def steps(algorithm: Algorithm, *rounds: AcceptedUpdates | Vector, clients: int = 2) -> list[list[float]]:
    """The steps of these versions; a vector stands for a step of one update."""
    state, made = algorithm.start(2, clients), []
    for one in rounds:
        if not isinstance(one, AcceptedUpdates):
            one = accepted([one])
        assert one.updates is not None
        step = np.asarray(one.rate * one.weights @ one.updates, dtype=np.float32)
        step, state = algorithm.apply(state, step, one)
        made.append(step.tolist())
    return made


A, B = np.array([1.0, -2.0]), np.array([0.0, 4.0])


def test_momentum_adds_earlier_steps() -> None:
    assert steps(FedAvgM(momentum=0.5, server_lr=2.0), A, B, B) == [[2, -4], [1, 6], [0.5, 11]]


def test_without_momentum_it_is_fedavg() -> None:
    assert steps(FedAvgM(momentum=0.0), A, B) == [A.tolist(), B.tolist()]


def test_the_first_step_of_adam_is_by_hand() -> None:
    """m = .1 d, v = .99 tau^2 + .01 d^2."""
    made = steps(FedAdam(server_lr=0.5, beta1=0.9, beta2=0.99, tau=0.1), A)
    wanted = [0.5 * 0.1 * d / (math.sqrt(0.99 * 0.01 + 0.01 * d * d) + 0.1) for d in A]
    np.testing.assert_allclose(made, [wanted], rtol=1e-5)


def test_adagrad_divides_by_the_root_of_all_squares() -> None:
    made = steps(FedAdagrad(server_lr=1.0, beta1=0.0, tau=1.0), A, B)
    wanted = [[1 / (math.sqrt(2) + 1), -2 / (math.sqrt(5) + 1)], [0, 4 / (math.sqrt(21) + 1)]]
    np.testing.assert_allclose(made, wanted, rtol=1e-6)


def test_yogi_moves_its_squares_by_a_share_of_the_new_one() -> None:
    """v = 1, d^2 = 1 and 4: sign(v - d^2) is 0 and -1, so that v becomes 1 and 1 + .5 * 4."""
    made = steps(FedYogi(server_lr=1.0, beta1=0.0, beta2=0.5, tau=1.0), A)
    np.testing.assert_allclose(made, [[1 / 2, -2 / (math.sqrt(3) + 1)]], rtol=1e-6)


def test_fadas_lowers_its_rate_with_the_oldest_update_and_keeps_the_largest_squares() -> None:
    fadas = Fadas(server_lr=1.0, beta1=0.0, beta2=0.0, tau=1.0, delay=2)
    old = [accepted([A, A], staleness=(0, age)) for age in (2, 4)]
    made = steps(fadas, *old, B)
    fresh = [1 / 2, -2 / 3]
    np.testing.assert_allclose(made[0], fresh, rtol=1e-6)
    np.testing.assert_allclose(made[1], [0.25 * one for one in fresh], rtol=1e-6)
    np.testing.assert_allclose(made[2], [0, 4 / 5], rtol=1e-6)


def test_scaffold_moves_the_servers_control_by_the_share_of_those_who_took_part() -> None:
    scaffold = Scaffold()
    state = scaffold.start(2, 4)
    step, state = scaffold.apply(state, A.astype(np.float32), accepted([A, A], control_change=[[1, 2], [3, 4]]))
    assert step.tolist() == A.tolist()
    assert scaffold.download(state)["control"].tolist() == [1.0, 1.5]


def test_a_scaffold_client_keeps_the_mean_gradient_of_its_task() -> None:
    """K lr = 2: (w - w_i) / (K lr) = (1, -1)."""
    scaffold, server = Scaffold(), {"control": np.array([0.5, 0.0], dtype=np.float32)}
    base, trained = np.array([2.0, 0.0], dtype=np.float32), np.array([0.0, 2.0], dtype=np.float32)
    uploads, state = scaffold.after_training(ClientState(), server, base, trained, 4, 0.5)
    assert state.arrays["control"].tolist() == uploads["control_change"].tolist() == [0.5, -1.0]
    assert scaffold.correction(state, server).tolist() == [0.0, 1.0]
    uploads, state = scaffold.after_training(state, server, base, trained, 4, 0.5)
    assert state.arrays["control"].tolist() == [1.0, -2.0]
    assert uploads["control_change"].tolist() == [0.5, -1.0]


def test_feddyn_by_hand() -> None:
    """Both of four clients moved by (1, 0) and (3, 0): h = -alpha / 4 (4, 0), and w moves by (2, 0) - h / alpha."""
    dyn = FedDyn(alpha=0.1)
    np.testing.assert_allclose(steps(dyn, accepted([[1, 0], [3, 0]]), clients=4), [[3, 0]], rtol=1e-6)
    base, trained = np.zeros(2, dtype=np.float32), np.array([1, 2], dtype=np.float32)
    uploads, state = dyn.after_training(ClientState(), {}, base, trained, 3, 0.1)
    assert not uploads
    assert dyn.correction(ClientState(), {}) is None
    np.testing.assert_allclose(dyn.correction(state, {}), [0.1, 0.2], rtol=1e-6)


def test_nova_counts_directions() -> None:
    """Steps 1 and 3: K = 2, so that (2, 0) of one step counts twice, and (3, 3) of three counts two thirds."""
    one = accepted([[2, 0], [3, 3]], steps=[[1], [3]])
    np.testing.assert_allclose(steps(FedNova(), one), [[3, 1]], rtol=1e-6)


def test_nova_with_equal_steps_is_fedavg() -> None:
    one = accepted([[2, 0], [3, 3]], weights=(0.2, 0.8), steps=[[7], [7]], rate=0.5)
    np.testing.assert_allclose(steps(FedNova(), one), [[1.4, 1.2]], rtol=1e-6)


def test_nova_does_not_lengthen_the_update_of_a_client_that_claims_no_step() -> None:
    one = accepted([[2, 0], [2, 0]], steps=[[0.0], [1]])
    np.testing.assert_allclose(steps(FedNova(), one), [[2, 0]], rtol=1e-6)


def test_mifa_goes_on_with_the_latest_updates_of_those_who_are_away() -> None:
    rounds = accepted([[2, 0], [0, 2]]), accepted([[4, 0]]), accepted([[6, 0], [8, 0]], clients=(0, 0))
    assert steps(Mifa(), *rounds) == [[1, 1], [2, 1], [4, 1]]


def test_ca2fl_calibrates_by_cached_updates() -> None:
    """Then (4, 0) - (2, 0) of client 0 is added to the mean (1, 1) of both cached updates."""
    both = accepted([[2, 0], [0, 2]])
    assert steps(Ca2fl(), both, accepted([[4, 0]])) == [[1, 1], [3, 1]]


@pytest.mark.parametrize("algorithm", [Mifa(), Ca2fl()])
def test_with_all_clients_in_each_round_it_is_fedavg(algorithm: Algorithm) -> None:
    random = np.random.default_rng(0)
    rounds = [accepted(random.normal(size=(3, 2)), rate=0.5) for _ in range(4)]
    wanted = [0.5 * one.updates.mean(0) for one in rounds if one.updates is not None]
    np.testing.assert_allclose(steps(algorithm, *rounds, clients=3), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", [FedAvgM(), FedAdam(), FedYogi(), FedAdagrad(), Fadas()])
def test_servers_that_use_steps_alone_keep_the_guarantees_of_published_models(algorithm: Algorithm) -> None:
    assert algorithm.post_processes
    assert not algorithm.changes_training


@pytest.mark.parametrize("algorithm", [Scaffold(), FedDyn(), FedNova(), Mifa(), Ca2fl()])
def test_others_do_not(algorithm: Algorithm) -> None:
    assert not algorithm.post_processes
