"""The evidence detector on sequences of buffers."""

from dataclasses import replace

import numpy as np

from asyncfl.defences import DefenceContext, Evidence
from asyncfl.testing import buffer

D, CLIENTS, NOISE = 400, 10, 0.02
UP = np.eye(1, D)[0] * 0.8


def begun(**changes):
    ones = np.ones(CLIENTS, dtype=np.int64)
    return Evidence().start(replace(DefenceContext(CLIENTS, ones * 100, D, 1.0, 1.0, ones), **changes), None)


def sent(version, clients, signals, noise=NOISE):
    rows = np.array(signals) + noise * np.random.default_rng(version).standard_normal((len(clients), D))
    return buffer(rows, clients=clients, version=version, upload_std=noise)


def judged(signals, buffers, noise=NOISE, **changes):
    """Return verdicts and state after buffers with an update of each client."""
    state, verdicts = begun(**changes), []
    for version in range(buffers):
        verdict, state = Evidence().judge(state, sent(version, range(CLIENTS), signals, noise), None)
        verdicts.append(verdict)
    return verdicts, state


def test_abstains_until_a_side_is_certified_and_then_strikes():
    verdicts, _ = judged([UP] * 6 + [-UP] * 4, 4)
    assert [verdict.unjudged.all() for verdict in verdicts] == [True, False, False, False]
    assert [int(verdict.flagged.sum()) for verdict in verdicts] == [0, 4, 4, 4]
    assert not verdicts[1].strikes.any()
    assert verdicts[2].strikes.tolist() == [False] * 6 + [True] * 4
    assert [verdict.notes["certified"] for verdict in verdicts] == [0, 0, 1, 1]
    abstained = "the detector abstained: not enough signal: needs about 2 more updates per client"
    assert verdicts[0].remarks == (abstained,)
    assert verdicts[2].remarks == ()
    # Accepted updates stay in the model.
    assert not any(verdict.correction is not None for verdict in verdicts)


def test_no_update_is_left_out_without_attackers():
    verdicts, _ = judged([UP] * 10, 8)
    assert not any(verdict.flagged.any() for verdict in verdicts)
    assert verdicts[-1].notes["power"] == 1.0


def test_a_group_apart_from_alike_clients_is_left_out_but_not_struck():
    """It goes along the common step like the others, as an attack on the last layer does, which no gain shows."""
    along, beside = np.eye(2, D) * 0.5
    verdicts, _ = judged([along] * 6 + [along + 0.9 * beside] * 4, 5, noise=0.01)
    assert verdicts[-1].flagged.tolist() == [False] * 6 + [True] * 4
    assert not any(verdict.strikes.any() for verdict in verdicts)
    assert verdicts[-1].details[9] == "stands apart from most clients, which are alike"


def test_abstains_without_a_majority():
    verdicts, _ = judged([UP] * 5 + [-UP] * 5, 8)
    assert all(verdict.unjudged.all() for verdict in verdicts)
    assert "no direction" in verdicts[-1].remarks[0] or "more updates" in verdicts[-1].remarks[1]


def test_attackers_that_copy_noise_do_not_get_honest_clients_struck():
    """Attackers oppose one honest client's noise of the same buffer, which was unknown when directions were guessed."""
    detector, state = Evidence(), begun()
    for version in range(10):
        one = sent(version, range(CLIENTS), [UP] * CLIENTS)
        deltas = one.deltas.copy()
        deltas[6:] = UP - 0.25 * (deltas[0] - UP) + 0.97 * (deltas[6:] - UP)
        crafted = buffer(deltas, clients=range(CLIENTS), version=version, upload_std=NOISE)
        verdict, state = detector.judge(state, crafted, None)
        assert not verdict.strikes[:6].any()


def test_data_of_banned_clients_is_dropped():
    _, state = judged([UP] * 6 + [-UP] * 4, 3)
    state = Evidence().forget_client(state, 7)
    assert 7 not in state.means.present
    assert not state.histories[0].gained[7].any()
    verdict, _ = Evidence().judge(state, sent(9, [0, 8], [UP, -UP]), None)
    assert verdict.strikes.tolist() == [False, True]


def test_root_set_distinguishes_other_labels_from_wrong_ones():
    """Each client holds one class and opposes the mean of the others; updates outside any mixture are struck."""
    classes = np.zeros((3, D))
    classes[0, 0], classes[1, :2], classes[2, 2] = 1.0, (-0.9, 0.4), 1.0
    honest = [0.5 * classes[client % 3] for client in range(7)]
    # Client 7 to 9 turn their update.
    signals = [*honest, *(-0.5 * classes[client % 3] for client in range(3))]
    state = begun(root_gradients=lambda model: -classes.astype(np.float32))
    for version in range(12):
        verdict, state = Evidence().judge(state, sent(version, range(CLIENTS), signals), None)
    assert verdict.notes["certified"] == 1.0
    assert verdict.strikes.tolist() == [False] * 7 + [True] * 3


def test_no_guess_strikes_a_client_that_goes_along_the_root_set():
    """The others do not go along it: with the samples of no class of theirs it decides nothing, but clears one."""
    signals = [UP] * 6 + [-UP] * 4
    descent = np.zeros((1, D), dtype=np.float32)
    descent[0, 0] = 1.0  # the gradient: the last four descend
    verdicts, _ = judged(signals, 6, root_gradients=lambda model: descent)
    assert not any(verdict.strikes.any() for verdict in verdicts)


def test_common_descent_is_computed_once_for_each_base_model():
    asked = []

    def gradients(model):
        asked.append(model)
        return -np.eye(1, D, dtype=np.float32)

    detector, state = Evidence(), begun(root_gradients=gradients)
    for version in range(4):
        one = sent(version, range(CLIENTS), [UP] * CLIENTS)
        _, state = detector.judge(state, replace(one, bases=(np.zeros(D, dtype=np.float32),)), None)
    assert len(asked) == 1
